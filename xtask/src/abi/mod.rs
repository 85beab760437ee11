//! `xtask abi`: the rules of `crates/abi` against the compilers.
//!
//! In: random records, interfaces and the tables. Out: counts of comparisons, and each difference.
//! Guaranteed: exit code 1 for each of these differences: the layout of a record by nvcc (device)
//! or g++; the passing of a record by nvcc; the programs of the linkers with objects built with
//! `culd_cubin::build`; the places of a kernel's parameters by ptxas; a prototype that decodes to
//! another declaration; a mapping of atomics that ptxas refuses; a system call that nvcc declares
//! in another way.

mod built;

use crate::args::Args;
use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use culd_abi::atomics::{MAPPINGS, Operation, Scope};
use culd_abi::check::{NamedModule, check};
use culd_abi::layout::{Measure, Type};
use culd_abi::params::{self, SourceType};
use culd_abi::prototype::Prototype;
use culd_abi::ptx::{DeclarationKind, Module, PtxVariable};
use culd_abi::syscall::SYSTEM_CALLS;
use culd_testkit::random::generate::rng::Rng;
use culd_testkit::random::layouts::{
    KernelParameters, MeasuredObject, Sample, measurement, sample,
};
use culd_testkit::reference::oracle::process;
use culd_testkit::reference::oracle::{COMPILE_LIMIT, Oracle};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

const HELP: &str = "\
usage: cargo xtask abi [--count N] [--seed S] [--built N] [--culd P] [--record]
Holds the rules of crates/abi against nvcc, ptxas and g++, and links objects made with culd_cubin::build.
  --count N   random records (default 3000)
  --seed S    the first seed (default 0)
  --built N   programs with objects of the builder, linked by both linkers (default 100)
  --culd P    the linker under test (default the one beside this program)
  --record    write the first 400 to testdata/abi/layouts.txt";

/// Records in a source.
const BATCH: usize = 250;
const RECORDED: usize = 400;
/// The PTX of the oldest target is compiled for all.
const ARCH: &str = "-arch=sm_75";

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    if args.flag("--help") {
        println!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    let count = args.option("--count")?.unwrap_or(3000);
    let first: u64 = args.option("--seed")?.unwrap_or(0);
    let record = args.flag("--record");
    let programs = args.option("--built")?.unwrap_or(100);
    let tools = workspace::tools(args.culd()?.as_deref())?;
    args.finish()?;
    let folder = tempfile::tempdir()?;
    let task = LayoutTask { oracle: tools.oracle.clone(), folder: folder.path() };
    let mut differences = Vec::new();
    let samples: Vec<Sample> = (first..first + count).map(sample).collect();
    let mut recorded = String::new();
    for batch in samples.chunks(BATCH) {
        task.layouts(batch, &mut differences, &mut recorded)?;
        task.passing(batch, &mut differences)?;
    }
    println!(
        "{count} records: layout by nvcc and g++, passing by nvcc, places of parameters by ptxas"
    );
    let interfaces = task.prototypes(count, first, &mut differences)?;
    println!("{interfaces} prototypes of ptxas decoded");
    println!("{} mappings of atomics assembled", task.atomics(&mut differences)?);
    println!("{} system calls declared by nvcc", task.system_calls(&mut differences)?);
    let built::BuiltCounts { built, identical, same_error, silent } =
        built::compare(&tools, first..first + programs, &mut differences)?;
    println!(
        "{built} objects built again, in links with compiled ones: {identical} identical, {same_error} same error, \
         {silent} without a verdict"
    );
    if record {
        let path = workspace::root().join("testdata/abi/layouts.txt");
        fs::create_dir_all(path.parent().context("no folder")?)?;
        let lines: Vec<&str> = recorded.lines().take(3 * RECORDED).collect();
        fs::write(&path, format!("{HEAD}{}\n", lines.join("\n")))?;
    }
    for difference in differences.iter().take(20) {
        println!("{difference}");
    }
    println!("{} different", differences.len());
    Ok(if differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

const HEAD: &str = "\
# Random records and where g++ places their members: seed, source, layout. nvcc 13.0.88 (device) said the same of
# all but bit-fields of records with a union, which it cannot initialise.
# Written by `cargo xtask abi --record`; crates/abi/tests/recorded.rs compares.
";

struct LayoutTask<'t> {
    oracle: Oracle,
    folder: &'t Path,
}

impl LayoutTask<'_> {
    fn write(&self, name: &str, text: &str) -> Result<()> {
        Ok(fs::write(self.folder.join(name), text)?)
    }

    /// Runs `command` in the folder and reads the file that it makes.
    fn make(&self, command: &mut Command, output: &str) -> Result<Vec<u8>> {
        let run = process::run(command.current_dir(self.folder), COMPILE_LIMIT)?;
        ensure!(run.status.success(), "{command:?}: {}", run.stderr_text());
        Ok(fs::read(self.folder.join(output))?)
    }

    fn nvcc(&self, arguments: &[&str], output: &str) -> Result<Vec<u8>> {
        let mut command = self.oracle.command("nvcc");
        command.args(["-std=c++20", "-w", "-rdc=true", ARCH]).args(arguments).args(["-o", output]);
        self.make(&mut command, output)
    }

    fn ptxas(&self, arch: &str, source: &str) -> Result<Vec<u8>> {
        let mut command = self.oracle.command("ptxas");
        command.args(["-c", "-arch", arch, source, "-o", "out.cubin"]);
        self.make(&mut command, "out.cubin")
    }

    fn layouts(
        &self,
        samples: &[Sample],
        differences: &mut Vec<String>,
        recorded: &mut String,
    ) -> Result<()> {
        self.write("layout.cu", &measurement(samples))?;
        self.write("layout.cpp", &measurement(samples))?;
        let cubin = self.nvcc(&["-cubin", "layout.cu"], "layout.cubin")?;
        let mut gcc = Command::new("g++");
        let include = self.oracle.toolkit().join("include");
        gcc.args(["-std=c++20", "-w", "-c", "layout.cpp", "-o", "layout.o", "-I"]).arg(include);
        let object = self.make(&mut gcc, "layout.o")?;
        let compilers =
            [("nvcc", MeasuredObject::parse(&cubin)?), ("g++", MeasuredObject::parse(&object)?)];
        for (number, sample) in samples.iter().enumerate() {
            for (name, object) in &compilers {
                let unions = *name == "g++";
                let ours = sample.ours(unions)?;
                let theirs = sample.measured(number, object, unions)?;
                if theirs != ours {
                    let source = sample.source("R");
                    differences.push(format!(
                        "seed {}: {source}\n  culd {ours}\n  {name} {theirs}",
                        sample.seed
                    ));
                }
                if unions {
                    writeln!(recorded, "{}\n  {}\n  {theirs}", sample.seed, sample.source("R"))?;
                }
            }
        }
        Ok(())
    }

    /// Compares functions that take and return the records, and kernels that take three of them.
    fn passing(&self, samples: &[Sample], differences: &mut Vec<String>) -> Result<()> {
        let mut text = String::new();
        for (number, sample) in samples.iter().enumerate() {
            writeln!(text, "{}", sample.source(&format!("R{number}")))?;
            writeln!(
                text,
                "extern \"C\" __device__ R{number} f{number}(R{number} x) {{ return x; }}"
            )?;
        }
        let last = samples.len().saturating_sub(2);
        for number in 0..last {
            let (a, b) = (number + 1, number + 2);
            writeln!(
                text,
                "extern \"C\" __global__ void k{number}(R{number} x, char c, R{a} y, R{b} z) {{ }}"
            )?;
        }
        self.write("pass.cu", &text)?;
        let ptx = self.nvcc(&["-ptx", "pass.cu"], "pass.ptx")?;
        let module = Module::parse(&String::from_utf8(ptx)?);
        ensure!(module.unread.is_empty(), "{:?}", module.unread);
        let measures = samples
            .iter()
            .map(|sample| Type::Record(sample.record.clone()).measure())
            .collect::<Result<Vec<_>, _>>()?;
        for (number, sample) in samples.iter().enumerate() {
            let expected =
                params::parameter(&SourceType::Type(Type::Record(sample.record.clone())))?;
            let expected = expected.measure();
            let interface = function(&module, &format!("f{number}"))?;
            let all: Vec<&PtxVariable> =
                interface.results.iter().chain(&interface.parameters).collect();
            let agree = all.iter().all(|one| measure(one) == Some(expected));
            if all.len() != 2 || !agree {
                let source = sample.source("R");
                differences.push(format!("seed {}: {source} passed as {all:?}", sample.seed));
            }
        }
        self.kernels(&measures, last, differences)
    }

    fn kernels(
        &self,
        measures: &[Measure],
        count: usize,
        differences: &mut Vec<String>,
    ) -> Result<()> {
        for arch in ["sm_75", "sm_90", "sm_100"] {
            let cubin = self.ptxas(arch, "pass.ptx")?;
            let kernels = culd_testkit::random::layouts::kernel_parameters(&cubin)?;
            for number in 0..count {
                let char = Measure { size: 1, align: 1 };
                let all = [measures[number], char, measures[number + 1], measures[number + 2]];
                let found = kernels.get(&format!("k{number}")).context("a kernel is missing")?;
                let (offsets, size) = params::kernel(&all, found.base)?;
                let places: Vec<(u64, u64)> =
                    offsets.into_iter().zip(all.iter().map(|one| one.size)).collect();
                let expected = KernelParameters { base: found.base, size, places };
                if *found != expected {
                    differences.push(format!("{arch} k{number}: {found:?}, expected {expected:?}"));
                }
            }
        }
        Ok(())
    }

    /// Compares the prototypes that ptxas writes for random interfaces.
    fn prototypes(&self, count: u64, seed: u64, differences: &mut Vec<String>) -> Result<usize> {
        let mut compared = 0;
        for start in (seed..seed + count).step_by(BATCH) {
            let declared: Vec<RandomInterface> = (0..BATCH as u64)
                .map(|number| interface(&mut Rng::new(start + number), number))
                .collect();
            let mut text = ".version 9.0\n.target sm_90\n.address_size 64\n".to_owned();
            let mut body = String::new();
            for (number, RandomInterface { declaration, .. }) in declared.iter().enumerate() {
                writeln!(text, "{declaration}")?;
                writeln!(body, "mov.u64 %r, f{number}; st.global.u64 [%q], %r;")?;
            }
            writeln!(
                text,
                ".visible .entry k(.param .u64 p) {{ .reg .b64 %r, %q; ld.param.u64 %q, [p];\n{body}ret; }}"
            )?;
            self.write("proto.ptx", &text)?;
            let cubin = self.ptxas("sm_90", "proto.ptx")?;
            let found = culd_testkit::random::layouts::prototypes(&cubin)?;
            for (number, RandomInterface { prototype, declaration }) in declared.iter().enumerate()
            {
                let found = found.get(&format!("f{number}")).context("a prototype is missing")?;
                let decoded = Prototype::parse(found).map(|one| one.to_string());
                compared += 1;
                if decoded.as_ref() != Some(prototype) {
                    differences.push(format!("{declaration}: '{found}' is {decoded:?}"));
                }
            }
        }
        Ok(compared)
    }

    /// Assembles every mapping with every scope.
    fn atomics(&self, differences: &mut Vec<String>) -> Result<usize> {
        let mut count = 0;
        for mapping in &MAPPINGS {
            for scope in Scope::ALL {
                let mut body = String::new();
                for instruction in mapping.instructions(scope, "add") {
                    body.push_str(&operands(&instruction));
                    body.push('\n');
                }
                let text = format!(
                    ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) {{\n\
                     .reg .b64 %q; .reg .b32 %r; ld.param.u64 %q, [p]; mov.u32 %r, 1;\n{body}ret; }}\n"
                );
                self.write("atomics.ptx", &text)?;
                if let Err(error) = self.ptxas("sm_90", "atomics.ptx") {
                    differences.push(format!("{mapping:?} {scope:?}: {error}"));
                }
                count += 1;
            }
        }
        ensure!(MAPPINGS.iter().any(|row| row.operation == Operation::ReadModifyWrite));
        Ok(count)
    }

    /// Checks that nvcc declares the system calls as the table does.
    fn system_calls(&self, differences: &mut Vec<String>) -> Result<usize> {
        self.write("calls.cu", CALLS)?;
        let ptx = self.nvcc(&["-ptx", "calls.cu"], "calls.ptx")?;
        let module = Module::parse(&String::from_utf8(ptx)?);
        for call in &SYSTEM_CALLS {
            function(&module, call.name).with_context(|| format!("{} is not called", call.name))?;
        }
        let found = check(&[NamedModule { name: "calls.ptx", module: &module }]);
        differences.extend(found.iter().map(ToString::to_string));
        Ok(SYSTEM_CALLS.len())
    }
}

const CALLS: &str = "\
#include <cstdio>
#include <cassert>
__global__ void k(int *p, int n) {
  assert(n > 0);
  void *q = malloc(n);
  printf(\"%p\\n\", q);
  free(q);
}
";

fn function<'m>(module: &'m Module, name: &str) -> Result<&'m culd_abi::ptx::PtxFunction> {
    for item in module.items.iter().filter(|item| item.name == name) {
        if let DeclarationKind::Function(function) = &item.what {
            return Ok(function);
        }
    }
    bail!("no function '{name}'")
}

fn measure(variable: &PtxVariable) -> Option<Measure> {
    Some(Measure { size: variable.size()?, align: variable.alignment() })
}

/// An instruction of the table with operands.
fn operands(instruction: &str) -> String {
    let name = instruction.trim_end_matches(';');
    match name.split('.').next() {
        Some("ld") => format!("{name}.global.u32 %r, [%q];"),
        Some("st") => format!("{name}.global.u32 [%q], %r;"),
        Some("atom") => format!("{}.u32 %r, [%q], %r;", name.replacen(".add", ".global.add", 1)),
        _ => instruction.to_owned(),
    }
}

/// A random interface of a function.
struct RandomInterface {
    /// The expected text of its prototype.
    prototype: String,
    /// A declaration in PTX.
    declaration: String,
}

/// The random interface of function number `number`.
fn interface(rng: &mut Rng, number: u64) -> RandomInterface {
    const SCALARS: &[(&str, &str)] = &[
        (".b8", ".b8"),
        (".b16", ".b16"),
        (".f16", ".b16"),
        (".b32", ".b32"),
        (".s32", ".b32"),
        (".u32", ".b32"),
        (".f16x2", ".b32"),
        (".f32", ".f32"),
        (".b64", ".b64"),
        (".s64", ".b64"),
        (".u64", ".b64"),
        (".f64", ".f64"),
        (".b128", ".b128"),
    ];
    let value = |rng: &mut Rng| match rng.below(3) {
        0 => {
            let (align, size) = (rng.pick(&params::ALIGNMENTS), rng.range(1, 300));
            (format!(".b8[{size}]"), format!(".param .align {align} .b8 _[{size}]"))
        }
        _ => {
            let (ty, shown) = rng.pick(SCALARS);
            (shown.to_owned(), format!(".param {ty} _"))
        }
    };
    let result = rng.chance(60).then(|| value(rng));
    let parameters: Vec<(String, String)> = (0..rng.below(7)).map(|_| value(rng)).collect();
    let join = |part: fn(&(String, String)) -> &str| {
        parameters.iter().map(part).collect::<Vec<_>>().join(", ")
    };
    let (shown, declared) = result.map_or_else(Default::default, |(shown, declared)| {
        (format!("({shown}) "), format!("({}) ", declared.replacen('_', "r", 1)))
    });
    let mut names = 0;
    let mut parts = Vec::new();
    for (_, declaration) in &parameters {
        names += 1;
        parts.push(declaration.replacen('_', &format!("p{names}"), 1));
    }
    let declaration = format!(".extern .func {declared}f{number} ({});", parts.join(", "));
    let prototype = format!("{shown}({})", join(|part| &part.0));
    RandomInterface { prototype, declaration }
}
