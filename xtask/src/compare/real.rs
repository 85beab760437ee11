//! Suite `real`: links our own programs with NVIDIA's libraries.
//!
//! In: `testdata/real`; CCCL and libcudadevrt of the reference tools, and NVSHMEM from PyPI. Out: a
//! line for each library, architecture and link. Guaranteed: no part of a library is stored outside
//! the target folder; exit code 1 if outputs, messages or status differ.

use super::Suite;
use super::setup::{Common, Setup};
use super::tally::Checks;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use culd_testkit::fixtures::case::is_chosen;
use culd_testkit::reference::compare::mercury::Classes;
use culd_testkit::reference::compare::trial::{Tools, Verdict, compare_links};
use culd_testkit::reference::oracle::cache::Cache;
use culd_testkit::reference::oracle::wheels::Environment;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(super) const SUITE: Suite = Suite {
    name: "real",
    about: "programs of our own with libraries of NVIDIA's",
    takes: &[Common::Release],
    help: "\
Operands: libraries, cudadevrt, cccl, nvshmem, nvshmem-mercury and nvshmem-later; without any, all are linked.
By 12.4, with its toolkit in the folder of CULD_TOOLKITS: cudadevrt, cccl and nvshmem; by 11.8: cudadevrt.
",
    run,
};

/// A program and its library.
struct Corpus {
    name: &'static str,
    /// Folder of `testdata/real` and its files in link order.
    folder: &'static str,
    files: &'static [&'static str],
    /// The releases that link them.
    releases: &'static [&'static str],
    /// SM numbers of the objects and links.
    archs: &'static [u32],
    /// Wheel with the library; without one, it is in the toolkit.
    wheel: Option<(&'static str, &'static str)>,
    links: &'static [&'static [LibraryLink]],
}

/// One link: its name, the options and libraries before and after the objects, and whether nvlink
/// succeeds.
type LibraryLink = (&'static str, &'static [&'static str], &'static [&'static str], bool);

/// The release that suites follow by default.
const CUDA_13: &[&str] = &["13.0"];

/// `LIB` stands for the folder of the library, `TOOLKIT` for that of the toolkit.
#[rustfmt::skip]
const CORPORA: &[Corpus] = &[
    Corpus {
        name: "cudadevrt",
        folder: "cdp",
        files: &["tree", "leaf", "streams", "plain"],
        releases: CUDA_13,
        archs: &[75, 80, 86, 89, 90, 100, 120],
        wheel: None,
        links: &[CUDADEVRT, WITHOUT_CUDADEVRT],
    },
    Corpus {
        name: "cudadevrt-unused",
        folder: "cdp",
        files: &["plain"],
        releases: CUDA_13,
        archs: &[80, 90, 100, 120],
        wheel: None,
        links: &[&[
            ("not needed", &["-v"], &["-LLIB", "-lcudadevrt"], true),
            ("all of the library", &["-keep-system-libraries"], &["-LLIB", "-lcudadevrt"], true),
        ]],
    },
    Corpus {
        name: "cccl",
        folder: "cccl",
        files: &["blocks", "shapes", "series"],
        releases: CUDA_13,
        archs: &[90, 100],
        wheel: None,
        links: &[CCCL, CCCL_OBJECTS],
    },
    Corpus {
        name: "nvshmem",
        folder: "nvshmem",
        files: &["put", "barrier"],
        releases: CUDA_13,
        archs: &[80, 90],
        wheel: NVSHMEM_3_8,
        links: &[NVSHMEM],
    },
    // Compiled by 13.0.89, which makes the same machine code as nvlink's finalizer.
    Corpus {
        name: "nvshmem-mercury",
        folder: "nvshmem",
        files: &["put", "barrier"],
        releases: CUDA_13,
        archs: &[100, 120],
        wheel: Some(("nvidia-nvshmem-cu13==3.4.5", "nvidia/nvshmem")),
        links: &[NVSHMEM],
    },
    // Compiled by 13.0.100, which makes other machine code: nvlink rewrites all of it
    // (docs/DIFFERENCES.md, kept-code).
    Corpus {
        name: "nvshmem-later",
        folder: "nvshmem",
        files: &["put", "barrier"],
        releases: CUDA_13,
        archs: &[100],
        wheel: NVSHMEM_3_8,
        links: &[NVSHMEM],
    },
    Corpus {
        name: "cudadevrt",
        folder: "cdp",
        files: &["tree", "leaf", "streams", "plain"],
        releases: &["12.4"],
        archs: &[50, 60, 70, 75, 80, 86, 89, 90],
        wheel: None,
        links: &[CUDADEVRT, WITHOUT_CUDADEVRT],
    },
    // Without the one that launches into a stream which 11.8 has not.
    Corpus {
        name: "cudadevrt",
        folder: "cdp",
        files: &["leaf", "streams", "plain"],
        releases: &["11.8"],
        archs: &[50, 60, 70, 75, 80, 86, 89, 90],
        wheel: None,
        links: &[CUDADEVRT, WITHOUT_CUDADEVRT_11_8],
    },
    Corpus {
        name: "cccl",
        folder: "cccl",
        files: &["blocks", "shapes", "series"],
        releases: &["12.4"],
        archs: &[70, 80, 90],
        wheel: None,
        links: &[CCCL],
    },
    // Compiled by 12.9.
    Corpus {
        name: "nvshmem",
        folder: "nvshmem",
        files: &["put", "barrier"],
        releases: &["12.4"],
        archs: &[70, 80, 89, 90],
        wheel: Some(("nvidia-nvshmem-cu12==3.4.5", "nvidia/nvshmem")),
        links: &[NVSHMEM],
    },
];

/// A wheel of NVSHMEM, and the place of the library in it.
const NVSHMEM_3_8: Option<(&str, &str)> = Some(("nvidia-nvshmem-cu13==3.8.0", "nvidia/nvshmem"));

#[rustfmt::skip]
const CUDADEVRT: &[LibraryLink] = &[
    ("as nvcc does", &["-m64"], &["-LLIB", "-cpu-arch=X86_64", "-lcudadevrt"], true),
    ("by name", &[], &["LIB/libcudadevrt.a"], true),
    ("debug", &["-g"], &["-LLIB", "-lcudadevrt"], true),
    ("verbose", &["-v"], &["-LLIB", "-lcudadevrt"], true),
    ("all of the library", &["-keep-system-libraries"], &["-LLIB", "-lcudadevrt"], true),
    ("one kernel", &["-kernels-used=tree"], &["-LLIB", "-lcudadevrt"], true),
];

#[rustfmt::skip]
const WITHOUT_CUDADEVRT: &[LibraryLink] = &[("missing", &[], &[], false)];

/// The functions that are called are known to the driver of 11.8, so none is missing.
#[rustfmt::skip]
const WITHOUT_CUDADEVRT_11_8: &[LibraryLink] = &[("without it", &[], &[], true)];

#[rustfmt::skip]
const CCCL: &[LibraryLink] = &[
    ("as nvcc does", &["-m64"], &["-LLIB", "-lcudadevrt"], true),
    ("debug", &["-g"], &["-LLIB", "-lcudadevrt"], true),
    ("verbose", &["-v"], &["-LLIB", "-lcudadevrt"], true),
    ("one kernel", &["-kernels-used=ordered"], &["-LLIB", "-lcudadevrt"], true),
];

/// Releases before 13.0 have no `-r`.
#[rustfmt::skip]
const CCCL_OBJECTS: &[LibraryLink] = &[
    ("object", &["-r"], &[], true),
    ("object for debuggers", &["-r", "-g"], &[], true),
];

#[rustfmt::skip]
const NVSHMEM: &[LibraryLink] = &[
    ("as nvcc does", &["-m64"], &["-LLIB", "-LTOOLKIT", "-cpu-arch=X86_64", "-lnvshmem_device", "-lcudadevrt"], true),
    ("by name", &[], &["LIB/libnvshmem_device.a"], true),
    ("before the objects", &["LIB/libnvshmem_device.a"], &[], true),
    ("debug", &["-g"], &["-LLIB", "-lnvshmem_device"], true),
    ("verbose", &["-v"], &["-LLIB", "-lnvshmem_device"], true),
    ("one kernel", &["-kernels-used=exchange"], &["-LLIB", "-lnvshmem_device"], true),
    ("missing", &[], &[], false),
];

/// The data of the comparison.
struct RealBench {
    tools: Tools,
    cache: Cache,
    work: PathBuf,
}

fn run(mut setup: Setup) -> Result<ExitCode> {
    let cache = Cache::new(workspace::target().join("oracle-cache"));
    let wanted = setup.args.operands()?;
    let bench = RealBench { tools: setup.tools_with_nvcc()?, cache, work: setup.keep };
    let release = bench.tools.oracle.release().name;
    let chosen =
        |corpus: &&Corpus| corpus.releases.contains(&release) && is_chosen(corpus.name, &wanted);
    let corpora: Vec<_> = CORPORA.iter().filter(chosen).collect();
    ensure!(!corpora.is_empty(), "by {release} no library of {wanted:?} is linked");
    let (mut checks, mut classes) = (Checks::default(), Classes::default());
    for corpus in corpora {
        for result in corpus.run(&bench, &mut classes).with_context(|| corpus.name)? {
            checks.add(&result.line, result.problem.as_deref());
        }
    }
    print!("\n{classes}");
    Ok(checks.end())
}

/// A link, and its fault.
struct TriedLink {
    line: String,
    problem: Option<String>,
}

impl Corpus {
    /// Makes all links, for all architectures, with the objects in both orders; `classes` counts
    /// the kernels of equal ones.
    fn run(&self, bench: &RealBench, classes: &mut Classes) -> Result<Vec<TriedLink>> {
        let package = self.package(bench)?;
        let library = package.join("lib");
        let toolkit = bench.tools.oracle.toolkit().join("lib");
        let mut results = Vec::new();
        for arch in self.archs {
            let dir = bench.work.join(self.name).join(format!("sm_{arch}"));
            self.compile(bench, *arch, &package, &dir)?;
            for (name, before, behind, succeeds) in self.links.iter().copied().flatten() {
                let mut objects: Vec<String> =
                    self.files.iter().map(|stem| format!("{stem}.o")).collect();
                for order in ["", ", reversed"] {
                    let at = |word: &&str| {
                        let word = word.replace("LIB", &library.to_string_lossy());
                        word.replace("TOOLKIT", &toolkit.to_string_lossy())
                    };
                    let mut arguments = vec![format!("-arch=sm_{arch}")];
                    arguments.extend(before.iter().map(at));
                    arguments.extend(objects.iter().cloned());
                    arguments.extend(behind.iter().map(at));
                    let verdict = compare_links(&bench.tools, &arguments, &dir)?;
                    let line = format!("{} sm_{arch} {name}{order}", self.name);
                    if let Verdict::Identical(found) = &verdict {
                        *classes += found.of(&line);
                    }
                    let problem = judge(&verdict, *succeeds).map(|what| {
                        format!("{what}\n  in {}: {}", dir.display(), arguments.join(" "))
                    });
                    results.push(TriedLink { line, problem });
                    objects.reverse();
                }
            }
        }
        Ok(results)
    }

    /// The folder with `lib` and `include` of the library.
    fn package(&self, bench: &RealBench) -> Result<PathBuf> {
        let Some((wheel, package)) = self.wheel else {
            return Ok(bench.tools.oracle.toolkit().to_owned());
        };
        let dir = workspace::target().join(wheel.replace("==", "-"));
        Environment::install(&dir, &[wheel])?.package(package)
    }

    /// Host objects, with device code for one architecture, in `dir`.
    fn compile(&self, bench: &RealBench, arch: u32, package: &Path, dir: &Path) -> Result<()> {
        fs::create_dir_all(dir)?;
        let sources = workspace::root().join("testdata/real").join(self.folder);
        let mut flags = vec![format!("-arch=sm_{arch}")];
        let needed = bench.tools.oracle.release().nvcc_options();
        flags.extend(needed.iter().map(|&option| option.to_owned()));
        if self.wheel.is_some() {
            flags.push(format!("-I{}", package.join("include").display()));
        }
        for stem in self.files {
            let source = sources.join(format!("{stem}.cu"));
            let object = bench.cache.object(&bench.tools.oracle, &source, &flags)?;
            fs::copy(object, dir.join(format!("{stem}.o")))?;
        }
        Ok(())
    }
}

/// The fault of a verdict.
fn judge(verdict: &Verdict, succeeds: bool) -> Option<String> {
    match verdict {
        Verdict::Identical(_) if succeeds => None,
        Verdict::SameError(_) if !succeeds => None,
        Verdict::Identical(_) => Some("both link it, which was to fail".to_owned()),
        Verdict::SameError(messages) => Some(format!("unexpected error: {messages}")),
        Verdict::Different(difference) => Some(difference.what.clone()),
        Verdict::NoVerdict(what) | Verdict::NotCompiled(what) => Some(what.clone()),
    }
}
