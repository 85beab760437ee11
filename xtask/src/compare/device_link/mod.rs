//! Suite `device-link`: `culd device-link` and `culd fatbinary`, with `nvcc -dlink` and
//! `fatbinary`.
//!
//! In: the programs of `testdata/e2e`, options of nvcc, random lines of fatbinary. Out: a line for
//! each comparison. Guaranteed: exit code 1 when an image differs from nvlink's in anything but the
//! linker's own note, a fat binary from fatbinary's in any byte, or when a program makes other
//! calls of the runtime than the one that nvcc linked.

mod aarch64;
mod prune;

use super::Suite;
use super::setup::Setup;
use super::tally::Checks;
use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use culd_fatbin::host::HostObject;
use culd_testkit::random::generate::rng::Rng;
use culd_testkit::reference::compare::embedded;
use culd_testkit::reference::oracle::process::{self, Run};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

pub(super) const SUITE: Suite = Suite {
    name: "device-link",
    about: "whole device links and fat binaries, with nvcc -dlink and fatbinary",
    takes: &[],
    help: "\
Operands: 'links', 'calls', 'fatbinary'; without any, these. By name only: 'prune', with the nvprune that CULD_NVPRUNE
names; 'aarch64', with Debian's g++-aarch64-linux-gnu and qemu-user.
",
    run,
};

const LIMIT: Duration = Duration::from_secs(600);

/// Lines of fatbinary that are tried.
const LINES: u64 = 500;

/// The objects of a program; the last two are in a library, too.
const OBJECTS: [&str; 4] = ["main", "rules", "scale", "fold"];

/// Architectures: one, three, six.
const ARCHS: [&[&str]; 3] =
    [&["90"], &["80", "90", "120"], &["75", "80", "86", "90", "100", "120"]];

/// Options of a device link besides those for architectures, and its inputs.
const LINKS: &[(&str, &[&str])] = &[
    ("objects", &["main.o", "rules.o", "scale.o", "fold.o"]),
    ("archive", &["main.o", "rules.o", "libshapes.a"]),
    ("library", &["main.o", "rules.o", "-L.", "-lshapes"]),
    ("shared", &["-shared", "-Xcompiler=-fPIC", "main.o", "rules.o", "-L.", "-lshapes"]),
    ("lines", &["-lineinfo", "main.o", "rules.o", "libshapes.a"]),
    // With -G alone the tool note has names of nvcc's temporary files, others each time.
    ("optimized debug", &["-dopt=on", "-G", "main.o", "rules.o", "libshapes.a"]),
    ("all", &["-Xfatbin", "-compress-all", "main.o", "rules.o", "libshapes.a"]),
    ("small", &["--compress-mode=size", "main.o", "rules.o", "libshapes.a"]),
    ("relocatable", &["-r", "main.o", "rules.o", "libshapes.a"]),
    ("fatbin", &["-fatbin", "main.o", "rules.o", "libshapes.a"]),
    (
        "cmake",
        &[
            "-forward-unknown-to-host-compiler",
            "-Xcompiler=-fPIC",
            "-Wno-deprecated-gpu-targets",
            "-shared",
            "main.o",
            "rules.o",
            "scale.o",
            "fold.o",
            "-lcudadevrt",
            "-lcudart_static",
            "-lrt",
            "-lpthread",
            "-ldl",
        ],
    ),
];

/// Inputs that nvcc packs into objects, which register nothing that a program could have: PTX for
/// all architectures, cubins for one, fat binaries of all.
const PACKED: &[(&str, &[&str], &[&str])] = &[
    ("ptx", &["90", "120"], &["main.o", "rules.ptx", "libshapes.a"]),
    ("ptx", &["80"], &["main.o", "rules.ptx", "scale.ptx", "fold.o"]),
    ("cubin", &["90"], &["main.o", "rules.cubin", "libshapes.a"]),
    ("cubin", &["90"], &["main.o", "rules.cubin", "scale.cubin", "fold.o"]),
    ("fatbin", &["75", "90", "120"], &["main.o", "rules.fatbin", "libshapes.a"]),
];

/// A runtime that prints how it is called.
const RUNTIME: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <dlfcn.h>
struct wrapper { unsigned magic, version; const unsigned long long *data; void **list; };
static unsigned long long size(const void *image) { return ((const unsigned long long *)image)[1]; }
void **__cudaRegisterFatBinary(void *w) {
  struct wrapper *p = w;
  fprintf(stderr, "fatbin %x %u %llu:", p->magic, p->version, size(p->data));
  if (p->version == 2) for (void **i = p->list; *i; i++) fprintf(stderr, " %llu", size(*i));
  fprintf(stderr, "\n");
  static void *handle[2]; return handle;
}
void __cudaRegisterFatBinaryEnd(void **h) { fprintf(stderr, "end\n"); }
void __cudaUnregisterFatBinary(void **h) { fprintf(stderr, "unregister\n"); }
void __cudaRegisterFunction(void **h, const char *f, char *d, const char *name, int t, void *a, void *b, void *c, void *e, int *s) {
  fprintf(stderr, "function %s %d\n", name, t);
}
void __cudaRegisterVar(void **h, char *v, char *d, const char *name, int e, size_t size, int c, int g) {
  fprintf(stderr, "variable %s %d %zu %d %d\n", name, e, size, c, g);
}
void __cudaRegisterManagedVar(void **h, void **v, char *d, const char *name, int e, size_t size, int c, int g) {
  fprintf(stderr, "managed %s %d %zu %d %d\n", name, e, size, c, g);
}
char __cudaInitModule(void **h) { return 1; }
"#;

struct DeviceLinkLab {
    dir: PathBuf,
    culd: PathBuf,
    /// The real toolkit; one in which only nvlink is culd. Their paths have one length.
    reference: PathBuf,
    linked: PathBuf,
    report: Checks,
}

fn run(mut setup: Setup) -> Result<ExitCode> {
    let wanted = setup.args.operands()?;
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
    let (tools, dir) = (setup.tools()?, setup.keep);
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    let dir = dir.canonicalize()?;
    let toolkit = tools.oracle.toolkit().to_owned();
    let mut lab = DeviceLinkLab {
        culd: tools.candidate.clone(),
        reference: dir.join("cuda-r"),
        linked: dir.join("cuda-l"),
        dir,
        report: Checks::default(),
    };
    for (path, replaced) in [
        (&lab.reference, &["nvlink", "nvcc", "fatbinary"][..]),
        (&lab.linked, &["nvcc", "fatbinary"]),
    ] {
        let mut install = Command::new(&lab.culd);
        succeed(install.arg("install-shadow").arg(path).arg("--cuda").arg(&toolkit))?;
        for name in replaced {
            let program = path.join("bin").join(name);
            fs::remove_file(&program)?;
            symlink(toolkit.join("bin").join(name), program)?;
        }
    }
    lab.compile()?;
    if is_wanted("links") {
        lab.links();
    }
    if is_wanted("calls") {
        lab.calls();
    }
    if is_wanted("fatbinary") {
        lab.fatbinary(&toolkit)?;
    }
    if wanted.iter().any(|word| word == "prune") {
        lab.prune()?;
    }
    if wanted.iter().any(|word| word == "aarch64") {
        lab.aarch64()?;
    }
    Ok(lab.report.end())
}

fn succeed(command: &mut Command) -> Result<Run> {
    process::succeed(command, LIMIT)
}

fn generate(archs: &[&str]) -> Vec<String> {
    archs.iter().map(|sm| format!("-gencode=arch=compute_{sm},code=sm_{sm}")).collect()
}

impl DeviceLinkLab {
    fn nvcc(&self, toolkit: &Path) -> Command {
        let mut nvcc = Command::new(toolkit.join("bin/nvcc"));
        nvcc.current_dir(&self.dir).env_remove("LD_LIBRARY_PATH");
        nvcc
    }

    fn device_link(&self, toolkit: &Path) -> Command {
        let mut culd = Command::new(&self.culd);
        culd.current_dir(&self.dir).arg("device-link").arg("--cuda").arg(toolkit);
        culd
    }

    fn check(&mut self, name: &str, result: Result<()>) {
        let problem = result.err().map(|error| format!("{error:#}"));
        self.report.add(name, problem.as_deref());
    }

    /// The program of `testdata/e2e/nvcc` for all architectures, with a library of its parts.
    fn compile(&self) -> Result<()> {
        let sources = workspace::root().join("testdata/e2e/nvcc");
        let archs = generate(ARCHS[2]);
        for stem in OBJECTS {
            let source = sources.join(format!("{stem}.cu"));
            let mut nvcc = self.nvcc(&self.reference);
            nvcc.args(&archs).args(["-dc", "-Xcompiler=-fPIC"]).arg(source);
            succeed(nvcc.args(["-o", &format!("{stem}.o")]))?;
        }
        for stem in ["rules", "scale"] {
            let source = sources.join(format!("{stem}.cu"));
            let all = generate(ARCHS[2]);
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            for (kind, archs) in
                [("cubin", &["-arch=sm_90"][..]), ("ptx", &["-arch=compute_80"]), ("fatbin", &all)]
            {
                let mut nvcc = self.nvcc(&self.reference);
                nvcc.args(["-rdc=true", &format!("-{kind}")]).args(archs).arg(&source);
                succeed(nvcc.args(["-o", &format!("{stem}.{kind}")]))?;
            }
        }
        let mut nvcc = self.nvcc(&self.reference);
        succeed(nvcc.args(["-lib", "scale.o", "fold.o", "-o", "libshapes.a"]))?;
        Ok(())
    }

    fn links(&mut self) {
        for archs in ARCHS {
            for (name, words) in LINKS {
                let result = self.link(archs, words);
                self.check(&format!("links {name} {}", archs.len()), result);
            }
        }
        let result = self.link(&["90"], &["-cubin", "main.o", "rules.o", "libshapes.a"]);
        self.check("links cubin 1", result);
        for (number, (kind, archs, inputs)) in PACKED.iter().enumerate() {
            for form in ["-fatbin", "-cubin", "-r"] {
                let result = self.link(archs, &[&[form], *inputs].concat());
                self.check(&format!("packed {number} {kind} {form}"), result);
            }
        }
    }

    /// One device link by nvcc with nvlink, by nvcc with culd as nvlink, and by culd.
    fn link(&self, archs: &[&str], words: &[&str]) -> Result<()> {
        let archs = generate(archs);
        let out = self.dir.join("out");
        let mut made = Vec::new();
        for mut command in
            [self.nvcc(&self.reference), self.nvcc(&self.linked), self.device_link(&self.linked)]
        {
            let is_nvcc = !command.get_args().any(|word| word == "device-link");
            command.args(is_nvcc.then_some("-dlink")).args(&archs).args(words);
            succeed(command.arg("-o").arg(&out))?;
            made.push(fs::read(&out)?);
            fs::remove_file(&out)?;
        }
        let [theirs, linked, ours] = &made[..] else { bail!("three files") };
        let device = |file: &[u8]| -> Result<(Vec<u8>, Option<Vec<u8>>)> {
            let Some(object) = HostObject::parse(file)? else { return Ok((file.to_vec(), None)) };
            let sections = object.whole_programs.iter().chain(&object.fatbins);
            let ids = format!("{:?}", object.module_ids).into_bytes();
            Ok((sections.flat_map(|section| section.data).copied().collect(), Some(ids)))
        };
        let (theirs, linked, ours) = (device(theirs)?, device(linked)?, device(ours)?);
        ensure!(ours == linked, "another fat binary or list of modules than of fatbinary");
        ensure!(ours.1 == theirs.1, "another list of modules than with nvlink");
        // Compressed ones are compared by what is in them above.
        match embedded::files(&theirs.0, &ours.0) {
            Some(what)
                if embedded::linkers(&theirs.0).len() == embedded::linkers(&ours.0).len()
                    && !embedded::linkers(&ours.0).is_empty() =>
            {
                bail!("{what}")
            }
            _ => Ok(()),
        }
    }

    /// Programs that are linked with either object make the same calls of the runtime.
    fn calls(&mut self) {
        let prepared =
            fs::write(self.dir.join("calls.c"), RUNTIME).context("calls.c").and_then(|()| {
                let mut gcc = Command::new("gcc");
                gcc.current_dir(&self.dir)
                    .args(["-shared", "-fPIC", "-w", "calls.c", "-o", "calls.so"]);
                succeed(&mut gcc)
            });
        if let Err(error) = prepared {
            self.check("calls", Err(error));
            return;
        }
        let kinds: &[(&str, &[&str])] = &[
            ("plain", &[]),
            ("pie", &["-Xcompiler=-pie"]),
            ("no-pie", &["-Xcompiler=-no-pie"]),
            ("gc", &["-Xlinker", "--gc-sections,-z,now,-z,text"]),
            ("gold", &["-Xcompiler=-fuse-ld=gold"]),
            ("lld", &["-Xcompiler=-fuse-ld=lld"]),
            ("mold", &["-Xcompiler=-fuse-ld=mold"]),
        ];
        for archs in ARCHS {
            for (name, words) in kinds {
                let result = self.call(archs, words);
                self.check(&format!("calls {name} {}", archs.len()), result);
            }
        }
    }

    fn call(&self, archs: &[&str], words: &[&str]) -> Result<()> {
        let archs = generate(archs);
        let inputs = ["main.o", "rules.o", "-L.", "-lshapes"];
        let mut logs = Vec::new();
        for mut command in [self.nvcc(&self.linked), self.device_link(&self.linked)] {
            let is_nvcc = !command.get_args().any(|word| word == "device-link");
            command.args(is_nvcc.then_some("-dlink")).args(&archs).args(inputs);
            succeed(command.args(["-o", "dlink.o"]))?;
            let mut nvcc = self.nvcc(&self.reference);
            nvcc.args(["-nodlink", "-cudart", "shared"]).args(words).arg("dlink.o").args(inputs);
            succeed(nvcc.args(["-o", "prog"]))?;
            let mut program = Command::new(self.dir.join("prog"));
            program.env("LD_PRELOAD", self.dir.join("calls.so"));
            program.env("LD_LIBRARY_PATH", self.reference.join("lib64"));
            let run = process::run(&mut program, LIMIT)?;
            let text = run.stderr_text();
            ensure!(text.contains("fatbin 466243b1 2"), "nothing is registered: {text}");
            logs.push((text, run.stdout, run.status));
        }
        ensure!(logs[0] == logs[1], "calls differ:\n{}\n---\n{}", logs[0].0, logs[1].0);
        Ok(())
    }

    /// Random lines of fatbinary.
    fn fatbinary(&mut self, toolkit: &Path) -> Result<()> {
        for sm in ARCHS[2] {
            let archs = generate(&[sm]);
            let mut nvcc = self.nvcc(&self.reference);
            nvcc.args(["-dlink", "-cubin"]).args(archs).args(["main.o", "rules.o", "libshapes.a"]);
            succeed(nvcc.args(["-o", &format!("{sm}.cubin")]))?;
            fs::write(self.dir.join(format!("{sm}.ptx")), ptx(sm))?;
        }
        let mut seeds = 0;
        for seed in 0..LINES {
            let result = self.one_line(toolkit, seed);
            seeds += usize::from(result.is_ok());
            if result.is_err() {
                self.check(&format!("fatbinary {seed}"), result);
            }
        }
        println!("{seeds} lines of fatbinary are the same");
        self.check("fatbinary lines", Ok(()));
        Ok(())
    }

    fn one_line(&self, toolkit: &Path, seed: u64) -> Result<()> {
        let mut rng = Rng::new(seed);
        let mut words: Vec<String> = Vec::new();
        let mut maybe = |rng: &mut Rng, percent: u32, word: &str| {
            if rng.chance(percent) {
                words.push(word.to_owned());
            }
        };
        maybe(&mut rng, 70, "-64");
        for (percent, word) in [
            (25, "-compress-all"),
            (15, "-compress=false"),
            (20, "--compress=true"),
            (25, "-g"),
            (25, "--device-c"),
            (25, "-link"),
            (20, "--no-asm"),
            (30, "--ident=a.o b.o "),
            (30, "--cmdline=--compile-only  "),
        ] {
            maybe(&mut rng, percent, word);
        }
        let mode = rng.pick(&["", "default", "balance", "speed", "size", "none"]);
        if !mode.is_empty() {
            words.push(format!("--compress-mode={mode}"));
        }
        let large = seed.is_multiple_of(25);
        for number in 0..rng.below(5) {
            let sm = rng.pick(ARCHS[2]);
            let (kind, end) = rng.pick(&[("elf", "cubin"), ("elf", "cubin"), ("ptx", "ptx")]);
            let mut file = format!("{sm}.{end}");
            if large && number == 0 && kind == "elf" {
                // Around the size from which cubins are compressed.
                let mut bytes = fs::read(self.dir.join(&file))?;
                bytes.resize(10_000_000 + rng.below(3) - 1, 7);
                file = "large.cubin".to_owned();
                fs::write(self.dir.join(&file), bytes)?;
            }
            words.push(format!("--image3=kind={kind},sm={sm},file={file}"));
        }
        let mut made = Vec::new();
        for own in [false, true] {
            let mut command = match own {
                true => Command::new(&self.culd),
                false => Command::new(toolkit.join("bin/fatbinary")),
            };
            command.current_dir(&self.dir).args(own.then_some("fatbinary")).args(&words);
            command.args(["--create=f.fatbin", "--embedded-fatbin=f.c"]);
            let run = process::run(&mut command, LIMIT)?;
            let read = |name: &str| fs::read(self.dir.join(name)).ok();
            made.push((run.status.success(), read("f.fatbin"), read("f.c")));
            for name in ["f.fatbin", "f.c"] {
                let _ = fs::remove_file(self.dir.join(name));
            }
        }
        let (theirs, ours) = (&made[0], &made[1]);
        ensure!(theirs.0 == ours.0, "{words:?}: success {} instead of {}", ours.0, theirs.0);
        ensure!(theirs.1 == ours.1, "{words:?}: another fat binary");
        ensure!(theirs.2 == ours.2, "{words:?}: another C text");
        Ok(())
    }
}

fn ptx(sm: &str) -> String {
    format!(
        ".version 8.7\n.target sm_{sm}\n.address_size 64\n// a comment\n\
         .visible .entry k(.param .u64 p) {{\n  ret;\n}}\n"
    )
}
