//! Suite `shipped`: links the relocatable code inside libraries that NVIDIA ships.
//!
//! In: wheels from PyPI whose shared objects have their relocatable device code. Out: a line for
//! each library, architecture and link, then a table of times and memory. Guaranteed: nvlink is of
//! the release that compiled the library; no part of a library is stored outside the target folder;
//! exit code 1 if outputs, messages or status differ.

use super::Suite;
use super::setup::{Common, Setup};
use super::tally::Checks;
use crate::bench::measure::{self, Usage};
use crate::workspace;
use anyhow::{Context, Result, ensure};
use culd_fatbin::container::containers;
use culd_fatbin::host::HostObject;
use culd_testkit::fixtures::case::is_chosen;
use culd_testkit::reference::compare::mercury::Classes;
use culd_testkit::reference::compare::trial::{Tools, Verdict, compare_links};
use culd_testkit::reference::oracle::wheels::Environment;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

pub(super) const SUITE: Suite = Suite {
    name: "shipped",
    about: "the relocatable code of libraries that NVIDIA ships",
    takes: &[Common::Archs("sm_75,sm_80,sm_90,sm_100,sm_120")],
    help: "\
Operands: libraries, nccl-2.28, nccl-2.32, cufftmp, cudensitymat, cutensormp, cutensornet, dali, nvshmem-host and the parts
of NPP, npp/nppial and others; without any, all. A first run installs two gigabytes.
",
    run,
};

/// A wheel with shared objects.
struct Wheel {
    wheel: &'static str,
    /// Where its libraries are.
    folder: &'static str,
    /// The release that compiled it, from its notes.
    release: &'static str,
    /// True if it has files of earlier releases too. nvlink rewrites their Mercury code with the
    /// frames, which culd keeps (docs/DIFFERENCES.md, kept-code); so such links for sm_100 and
    /// later are only timed.
    mixed: bool,
    /// Their names here, and the files in the folder.
    libraries: &'static [(&'static str, &'static str)],
}

/// Earlier and later releases of NPP have linked code only.
const WHEELS: &[Wheel] = &[
    Wheel {
        wheel: "nvidia-nccl-cu13==2.28.9",
        folder: "nvidia/nccl/lib",
        release: "13.0",
        mixed: false,
        libraries: &[("nccl-2.28", "libnccl.so.2")],
    },
    Wheel {
        wheel: "nvidia-nccl-cu13==2.32.3",
        folder: "nvidia/nccl/lib",
        release: "13.4",
        mixed: false,
        libraries: &[("nccl-2.32", "libnccl.so.2")],
    },
    Wheel {
        wheel: "nvidia-npp==13.2.0.35",
        folder: "nvidia/cu13/lib",
        release: "13.4",
        mixed: false,
        libraries: &[
            ("npp/nppial", "libnppial.so.13"),
            ("npp/nppicc", "libnppicc.so.13"),
            ("npp/nppidei", "libnppidei.so.13"),
            ("npp/nppif", "libnppif.so.13"),
            ("npp/nppig", "libnppig.so.13"),
            ("npp/nppim", "libnppim.so.13"),
            ("npp/nppist", "libnppist.so.13"),
            ("npp/nppitc", "libnppitc.so.13"),
            ("npp/npps", "libnpps.so.13"),
        ],
    },
    Wheel {
        wheel: "nvidia-cufftmp-cu13==12.1.3.2",
        folder: "nvidia/cufftmp/cu13/lib",
        release: "13.0",
        mixed: false,
        libraries: &[("cufftmp", "libcufftMp.so.12")],
    },
    Wheel {
        wheel: "cudensitymat-cu13==0.7.0",
        folder: "cuquantum/lib",
        release: "13.4",
        mixed: false,
        libraries: &[("cudensitymat", "libcudensitymat.so.0")],
    },
    Wheel {
        wheel: "cutensor-cu13==2.8.1",
        folder: "cutensor/lib",
        release: "13.4",
        mixed: false,
        libraries: &[("cutensormp", "libcutensorMp.so.2")],
    },
    Wheel {
        wheel: "cutensornet-cu13==2.14.0",
        folder: "cuquantum/lib",
        release: "13.4",
        mixed: false,
        libraries: &[("cutensornet", "libcutensornet.so.2")],
    },
    Wheel {
        wheel: "nvidia-dali-cuda130==2.4.0",
        folder: "nvidia/dali",
        release: "13.4",
        mixed: false,
        libraries: &[("dali", "libdali_kernels.so")],
    },
    Wheel {
        wheel: "nvidia-nvshmem-cu13==3.8.0",
        folder: "nvidia/nvshmem/lib",
        release: "13.3",
        mixed: true,
        libraries: &[("nvshmem-host", "libnvshmem_host.so.3")],
    },
];

/// The options of each link before sm_100. nvlink takes a minute for some later ones, which are
/// linked without options.
const LINKS: &[(&str, &[&str])] =
    &[("plain", &[]), ("-g", &["-g"]), ("-v", &["-v"]), ("-r", &["-r"])];

/// nvlink needs over a minute for NCCL on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

/// Time and memory of a link.
struct LinkUsage {
    link: String,
    files: usize,
    bytes: u64,
    theirs: Usage,
    ours: Usage,
}

fn run(mut setup: Setup) -> Result<ExitCode> {
    let wanted = setup.args.operands()?;
    let (mut checks, mut classes, mut rows) = (Checks::default(), Classes::default(), Vec::new());
    for wheel in WHEELS {
        let chosen = |(name, _): &&(&str, &str)| is_chosen(name, &wanted);
        let libraries: Vec<_> = wheel.libraries.iter().filter(chosen).collect();
        if libraries.is_empty() {
            continue;
        }
        let tools = wheel.tools(&setup)?;
        let folder = wheel.libraries()?;
        for (name, file) in libraries {
            let dir = setup.keep.join(name);
            let files = unpack(&folder.join(file), &dir).with_context(|| (*name).to_owned())?;
            for arch in setup.archs.iter().map(|arch| arch.0) {
                let linked = ShippedLink { name, arch, files: &files, dir: &dir, tools: &tools };
                if wheel.mixed && linked.is_mercury() {
                    println!("none   {name} {arch}: files of several releases");
                } else {
                    linked.compare(&mut checks, &mut classes)?;
                }
                rows.push(linked.measure()?);
            }
        }
    }
    ensure!(!rows.is_empty(), "no library is called {wanted:?}");
    print!("\n{classes}\n");
    print_table(&rows);
    Ok(checks.end())
}

impl Wheel {
    /// nvlink of the release that compiled the wheel, and culd with the dialect of that release.
    fn tools(&self, setup: &Setup) -> Result<Tools> {
        let tools = setup.tools_with(workspace::oracle_of(self.release.parse()?)?)?;
        Ok(Tools { limit: LIMIT, ..tools })
    }

    /// The folder with its shared objects.
    fn libraries(&self) -> Result<PathBuf> {
        let dir = workspace::target().join(self.wheel.replace("==", "-"));
        Environment::install_alone(&dir, &[self.wheel])?.package(self.folder)
    }
}

/// Writes each fat binary of relocatable code in a shared object to a file in `dir`; their names in
/// order.
fn unpack(library: &Path, dir: &Path) -> Result<Vec<String>> {
    fs::create_dir_all(dir)?;
    let bytes = fs::read(library).with_context(|| library.display().to_string())?;
    let object = HostObject::parse(&bytes)?.context("no ELF file")?;
    let mut names = Vec::new();
    for section in &object.fatbins {
        for container in containers(section.data) {
            let name = format!("{:04}.fatbin", names.len());
            fs::write(dir.join(&name), container?.bytes())?;
            names.push(name);
        }
    }
    ensure!(!names.is_empty(), "{}: no relocatable code", library.display());
    Ok(names)
}

/// One library linked for one architecture.
struct ShippedLink<'a> {
    name: &'a str,
    arch: &'a str,
    files: &'a [String],
    dir: &'a Path,
    tools: &'a Tools,
}

impl ShippedLink<'_> {
    fn arguments(&self, options: &[&str]) -> Vec<String> {
        let mut arguments = vec![format!("-arch={}", self.arch)];
        arguments.extend(options.iter().map(|&option| option.to_owned()));
        arguments.extend(self.files.iter().cloned());
        arguments
    }

    fn is_mercury(&self) -> bool {
        let digits: String = self.arch.chars().filter(char::is_ascii_digit).collect();
        digits.parse::<u32>().is_ok_and(|sm| sm >= 100)
    }

    /// Compares both linkers' programs; `classes` counts the kernels of equal ones.
    fn compare(&self, checks: &mut Checks, classes: &mut Classes) -> Result<()> {
        let count = if self.is_mercury() { 1 } else { LINKS.len() };
        for (name, options) in LINKS.iter().take(count) {
            let line = format!("{} {} {name}", self.name, self.arch);
            let verdict = compare_links(self.tools, &self.arguments(options), self.dir)?;
            let problem = match &verdict {
                Verdict::Identical(found) => {
                    *classes += found.of(&line);
                    None
                }
                Verdict::Different(difference) => Some(difference.what.clone()),
                // nvlink took too long.
                Verdict::NoVerdict(what) => {
                    println!("none   {line}: {what}");
                    continue;
                }
                Verdict::SameError(what) | Verdict::NotCompiled(what) => Some(what.clone()),
            };
            checks.add(&line, problem.as_deref());
        }
        Ok(())
    }

    /// Measures the linkers one after the other.
    fn measure(&self) -> Result<LinkUsage> {
        let of = |program: &Path, dialect_option: &[String]| -> Result<Usage> {
            let mut arguments = self.arguments(&["-o", "measured.cubin"]);
            arguments.splice(0..0, dialect_option.iter().cloned());
            let usage = measure::measure(program, &arguments, self.dir, LIMIT)?;
            fs::remove_file(self.dir.join("measured.cubin"))?;
            usage.context("the limit of time")
        };
        let size = |name: &String| Ok(fs::metadata(self.dir.join(name))?.len());
        Ok(LinkUsage {
            link: format!("{} {}", self.name, self.arch),
            files: self.files.len(),
            bytes: self.files.iter().map(size).sum::<Result<u64>>()?,
            theirs: of(&self.tools.oracle.tool("nvlink"), &[])?,
            ours: of(&self.tools.candidate, &self.tools.dialect_option)?,
        })
    }
}

fn print_table(rows: &[LinkUsage]) {
    println!("| link | files | MB in | nvlink ms | culd ms | ratio | nvlink MiB | culd MiB |");
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    for LinkUsage { link, files, bytes, theirs, ours } in rows {
        let [theirs_ms, ours_ms] = [theirs, ours].map(|usage| usage.wall.as_secs_f64() * 1e3);
        println!(
            "| {link} | {files} | {:.1} | {theirs_ms:.0} | {ours_ms:.0} | {:.3} | {} | {} |",
            *bytes as f64 / 1e6,
            ours_ms / theirs_ms,
            theirs.peak_kib / 1024,
            ours.peak_kib / 1024
        );
    }
    println!();
}
