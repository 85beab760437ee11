//! Suite `programs`: the device code in libraries that NVIDIA ships, by `culd size` and by
//! cuobjdump.
//!
//! In: wheels from PyPI, or paths of files. Out: a line for each file, then a table of times and
//! memory. Guaranteed: compared are the images of each architecture and, for each kernel of a
//! linked image, registers, stack, shared memory and constant banks; exit code 1 if they differ.
//! Fat binaries among data are compared in an object that has them where cuobjdump looks.

use super::Suite;
use super::setup::Setup;
use super::tally::Checks;
use crate::bench::measure::{self, Usage};
use crate::workspace;
use anyhow::{Context, Result, ensure};
use culd_fatbin::container::embedded;
use culd_fatbin::host::HostObject;
use culd_testkit::fixtures::pack::{self, HostParts};
use culd_testkit::reference::oracle::Oracle;
use culd_testkit::reference::oracle::process;
use culd_testkit::reference::oracle::wheels::Environment;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

pub(super) const SUITE: Suite = Suite {
    name: "programs",
    about: "the device code in libraries, by culd size and cuobjdump",
    takes: &[],
    help: "\
Operands: paths of files, or nccl, npp, cublas, cusparse; without any, all of these. A first run installs two
gigabytes.
",
    run,
};

/// A wheel, the folder of its libraries, and those that are compared.
struct Wheel {
    name: &'static str,
    wheel: &'static str,
    folder: &'static str,
    libraries: &'static [&'static str],
}

const WHEELS: &[Wheel] = &[
    Wheel {
        name: "nccl",
        wheel: "nvidia-nccl-cu13==2.32.3",
        folder: "nvidia/nccl/lib",
        libraries: &["libnccl.so.2"],
    },
    Wheel {
        name: "npp",
        wheel: "nvidia-npp==13.2.0.93",
        folder: "nvidia/cu13/lib",
        libraries: &["libnppial.so.13", "libnppif.so.13", "libnppig.so.13", "libnpps.so.13"],
    },
    Wheel {
        name: "cublas",
        wheel: "nvidia-cublas==13.10.0.20",
        folder: "nvidia/cu13/lib",
        libraries: &["libcublas.so.13", "libcublasLt.so.13"],
    },
    Wheel {
        name: "cusparse",
        wheel: "nvidia-cusparse==12.9.4.2",
        folder: "nvidia/cu13/lib",
        libraries: &["libcusparse.so.12"],
    },
];

const LIMIT: Duration = Duration::from_secs(600);

/// Rounds of a measurement; the table has the medians.
const ROUNDS: usize = 3;

fn run(mut setup: Setup) -> Result<ExitCode> {
    let wanted = setup.args.operands()?;
    let mut files: Vec<PathBuf> = Vec::new();
    for wheel in WHEELS {
        if wanted.is_empty() || wanted.iter().any(|name| name == wheel.name) {
            let dir = workspace::target().join(wheel.wheel.replace("==", "-"));
            let folder = Environment::install_alone(&dir, &[wheel.wheel])?.package(wheel.folder)?;
            files.extend(wheel.libraries.iter().map(|name| folder.join(name)));
        }
    }
    let is_path = |name: &&String| WHEELS.iter().all(|wheel| wheel.name != *name);
    files.extend(wanted.iter().filter(is_path).map(PathBuf::from));
    ensure!(!files.is_empty(), "no file");
    let oracle = workspace::oracle()?;
    let tools = setup.tools_with(workspace::oracle()?)?;
    let tools = Programs { oracle: &oracle, culd: &tools.candidate };
    let (mut checks, mut rows) = (Checks::default(), Vec::new());
    for file in &files {
        let name = file.file_name().context("a file")?.to_string_lossy().into_owned();
        let (counts, problem) = tools.compare(file).with_context(|| name.clone())?;
        checks.add(&format!("{name}: {counts}"), problem.as_deref());
        rows.push((name, tools.measure(file)?));
    }
    print_table(&rows);
    Ok(checks.end())
}

/// Images by kind and architecture.
type Images = BTreeMap<(String, String), usize>;
/// Numbers of kernels by architecture and name; several kernels of one name are sorted.
type Kernels = BTreeMap<(String, String), Vec<String>>;

struct Programs<'a> {
    oracle: &'a Oracle,
    culd: &'a Path,
}

impl Programs<'_> {
    fn output(&self, mut command: Command, words: &[&str], file: &Path) -> Result<String> {
        let run = process::run(command.args(words).arg(file), LIMIT)?;
        ensure!(run.status.success(), "{words:?}: {}", run.stderr_text());
        Ok(String::from_utf8_lossy(&run.stdout).into_owned())
    }

    fn cuobjdump(&self, words: &[&str], file: &Path) -> Result<String> {
        self.output(self.oracle.command("cuobjdump"), words, file)
    }

    /// Counts for a person, and the first difference.
    fn compare(&self, file: &Path) -> Result<(String, Option<String>)> {
        let (mut images, mut kernels) = (Images::new(), Kernels::new());
        let folder = tempfile::tempdir()?;
        let in_data = folder.path().join("data.o");
        let data = data_of(file)?;
        if !data.is_empty() {
            let parts = HostParts { whole_program: data, ..HostParts::default() };
            fs::write(&in_data, pack::host_object(&parts)?)?;
        }
        for file in [file, &in_data].into_iter().filter(|file| file.exists()) {
            for (option, kind) in [("-lelf", "cubin"), ("-lptx", "ptx")] {
                listed(&self.cuobjdump(&["-all", option], file)?, kind, &mut images);
            }
            of_lto_ir(&self.cuobjdump(&["-all"], file)?, &mut images);
            for (key, mut facts) in used(&self.cuobjdump(&["-all", "-res-usage"], file)?) {
                kernels.entry(key).or_default().append(&mut facts);
            }
        }
        let text =
            self.output(Command::new(self.culd), &["size", "--images", "--kernels"], file)?;
        let own = sized(&text);
        let counts = format!(
            "{} images, {} kernels",
            own.images.values().sum::<usize>(),
            own.kernels.values().map(Vec::len).sum::<usize>()
        );
        if images != own.images {
            return Ok((counts, Some(format!("images {:?}, cuobjdump {images:?}", own.images))));
        }
        // cuobjdump lists functions and kernels of objects, too.
        let has_all = |key, facts: &Vec<String>| {
            let mut theirs = kernels.get(key).cloned().unwrap_or_default();
            facts.iter().all(|fact| {
                let place = theirs.iter().position(|their| their == fact);
                place.map(|place| theirs.swap_remove(place)).is_some()
            })
        };
        let differs = own.kernels.iter().find(|(key, facts)| !has_all(*key, facts));
        let problem = differs
            .map(|(key, facts)| format!("{key:?}: {facts:?}, cuobjdump {:?}", kernels.get(key)));
        Ok((counts, problem))
    }

    /// Time and memory of cuobjdump's three lists, of the last of them, and of culd's.
    fn measure(&self, file: &Path) -> Result<[Usage; 3]> {
        let of = |program: &Path, words: &[&str]| -> Result<Usage> {
            let mut arguments: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            arguments.push(file.display().to_string());
            let usage = measure::measure(program, &arguments, Path::new("."), LIMIT)?;
            usage.context("the limit of time")
        };
        let cuobjdump = self.oracle.tool("cuobjdump");
        let mut rounds: [Vec<Usage>; 3] = Default::default();
        for _ in 0..ROUNDS {
            let usage = of(&cuobjdump, &["-all", "-res-usage"])?;
            let lists = ["-lelf", "-lptx"].map(|list| of(&cuobjdump, &["-all", list]));
            let mut all = usage;
            for list in lists {
                let list = list?;
                all.wall += list.wall;
                all.cpu += list.cpu;
                all.peak_kib = all.peak_kib.max(list.peak_kib);
            }
            let own = of(self.culd, &["size", "--images", "--kernels"])?;
            for (list, usage) in rounds.iter_mut().zip([all, usage, own]) {
                list.push(usage);
            }
        }
        Ok(rounds.map(|mut list| {
            list.sort_by_key(|usage| usage.wall);
            list[ROUNDS / 2]
        }))
    }
}

/// The fat binaries of a host file outside of its sections for device code, where cuobjdump does
/// not look.
fn data_of(file: &Path) -> Result<Vec<u8>> {
    let bytes = fs::read(file)?;
    let Ok(Some(object)) = HostObject::parse(&bytes) else { return Ok(Vec::new()) };
    let sections = [object.whole_programs, object.fatbins].concat();
    let is_in_section = |at: usize| {
        sections.iter().any(|section| {
            (section.offset..section.offset + section.data.len() as u64).contains(&(at as u64))
        })
    };
    let mut data = Vec::new();
    for container in embedded(&bytes).filter(|container| !is_in_section(container.offset())) {
        data.extend_from_slice(container.bytes());
        data.resize(data.len().next_multiple_of(8), 0);
    }
    Ok(data)
}

/// Counts the images of a list of cuobjdump: `ELF file    1: libx.1.sm_90.cubin`.
fn listed(text: &str, kind: &str, images: &mut Images) {
    for line in text.lines().filter(|line| line.contains(" file ")) {
        if let Some(arch) = line.rsplit('.').nth(1) {
            *images.entry((kind.to_owned(), arch.to_owned())).or_default() += 1;
        }
    }
}

/// Counts the LTO-IR in cuobjdump's headers of all images; no list has it.
fn of_lto_ir(text: &str, images: &mut Images) {
    let mut lines = text.lines();
    while lines.any(|line| line == "Fatbin nvvm code:") {
        let arch = lines.find_map(|line| line.strip_prefix("arch = sm_"));
        let arch = format!("lto_{}", arch.unwrap_or_default());
        *images.entry(("lto-ir".to_owned(), arch)).or_default() += 1;
    }
}

/// Functions of `cuobjdump -res-usage`.
fn used(text: &str) -> Kernels {
    let mut kernels = Kernels::new();
    let (mut arch, mut name) = (String::new(), None);
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("arch = ") {
            arch = rest.to_owned();
        } else if let Some(rest) = line.strip_prefix("Function ") {
            name = rest.strip_suffix(':').map(str::to_owned);
        } else if let Some(function) = name.take() {
            let value = |key: &str| {
                line.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix(':'))
            };
            let mut facts = format!(
                "registers={} stack={} shared={}",
                value("REG").unwrap_or("?"),
                value("STACK").unwrap_or("?"),
                value("SHARED").unwrap_or("?")
            );
            for bank in 0..18 {
                if let Some(bytes) = value(&format!("CONSTANT[{bank}]")) {
                    facts += &format!(" constant{bank}={bytes}");
                }
            }
            kernels.entry((arch.clone(), function)).or_default().push(facts);
        }
    }
    kernels.values_mut().for_each(|list| list.sort());
    kernels
}

/// What `culd size` says.
struct Sized {
    images: Images,
    kernels: Kernels,
}

fn sized(text: &str) -> Sized {
    let (mut images, mut kernels) = (Images::new(), Kernels::new());
    // The lists of cuobjdump 13.0 do not show the letters of families, and PTX by its sm.
    let plain = |target: &str| {
        let target = target.replace("compute_", "sm_");
        target.strip_suffix('f').unwrap_or(&target).to_owned()
    };
    let mut list = "";
    for line in text.lines() {
        match line {
            "All images" | "All kernels" => list = line,
            "" => list = "",
            _ if list == "All images" => {
                let mut words = line.split(' ');
                let (kind, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
                *images.entry((kind.to_owned(), plain(target))).or_default() += 1;
            }
            _ if list == "All kernels" => {
                let is_fact = |word: &&str| word.contains('=') && !word.starts_with('_');
                let mut words = line.split(' ');
                let target = words.next().unwrap_or("");
                let words: Vec<&str> = words.collect();
                let facts: Vec<&str> = words.iter().copied().take_while(is_fact).collect();
                let name = words[facts.len()..].join(" ");
                // The stack of an object is not known before it is linked.
                if facts.contains(&"stack=-") {
                    continue;
                }
                let facts: Vec<&str> =
                    facts.into_iter().filter(|fact| !fact.starts_with("barriers=")).collect();
                // Its table of resources shows the letters.
                kernels.entry((target.to_owned(), name)).or_default().push(facts.join(" "));
            }
            _ => {}
        }
    }
    kernels.values_mut().for_each(|list| list.sort());
    Sized { images, kernels }
}

fn print_table(rows: &[(String, [Usage; 3])]) {
    println!(
        "\n| file | three lists ms | -res-usage ms | culd ms | of three | of one | cuobjdump MiB | culd MiB |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    for (name, usages) in rows {
        let [all, one, own] = usages.map(|usage| usage.wall.as_secs_f64() * 1e3);
        let [all_kib, _, own_kib] = usages.map(|usage| usage.peak_kib / 1024);
        println!(
            "| {name} | {all:.0} | {one:.0} | {own:.0} | {:.3} | {:.3} | {all_kib} | {own_kib} |",
            own / all,
            own / one
        );
    }
    println!();
}
