//! Builds a CMake project with every kind of target with a device link.
//!
//! In: `testdata/e2e/cmake`; cmake and ninja from PyPI. Out: comparisons in the report. Guaranteed:
//! the builds differ in the path of nvcc and nothing else; a third one has nvcc of the first, and
//! culd makes the device links, as `culd cmake` tells CMake.

use super::nvcc::same_programs;
use super::{BuildBench, BuildToolkit, succeed};
use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use culd_fatbin::container::containers;
use culd_fatbin::host::HostObject;
use culd_testkit::reference::compare::embedded;
use culd_testkit::reference::oracle::process::Run;
use culd_testkit::reference::oracle::wheels::Environment;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) const NAME: &str = "cmake";

const WHEELS: &[&str] = &["cmake==4.4.4", "ninja==1.13.2"];

/// Targets with a device link: a program, a shared library, a static library that asks for one, and
/// a program whose device code is linked in that library already.
const LINKED: &[&str] = &["app", "engine", "solver", "plain"];
const PROGRAMS: &[&str] = &["app", "plain"];
const ARCHS: &[&str] = &["80-real", "90-real"];

/// Builds the project with both toolkits and reports.
pub(super) fn run(bench: &BuildBench) {
    if let Err(error) = compare(bench) {
        bench.check(NAME, Err(error));
    }
}

fn compare(bench: &BuildBench) -> Result<()> {
    let tools = Environment::install(&workspace::target().join("build-tools"), WHEELS)?;
    let [theirs, ours] = ["nvlink", "culd"].map(|side| bench.work.join(NAME).join(side));
    let expected = build(&tools, &bench.reference, &theirs)?;
    let actual = build(&tools, &bench.candidate, &ours)?;
    let lines = |run: &Run| -> Vec<String> {
        let text = String::from_utf8_lossy(&run.stdout).into_owned();
        text.lines().filter(|line| line.starts_with("#$ nvlink ")).map(str::to_owned).collect()
    };
    bench.check("cmake libraries", host_libraries(&lines(&expected), &lines(&actual)));
    for target in LINKED {
        let object = format!("CMakeFiles/{target}.dir/cmake_device_link.o");
        let result = bench.same_files(&theirs.join(&object), &ours.join(&object), ARCHS.len());
        bench.check(&format!("cmake {target}"), result);
    }
    for target in PROGRAMS {
        let result = same_programs(&theirs.join(target), &ours.join(target));
        bench.check(&format!("cmake {target} starts"), result);
    }
    match &bench.culd {
        Some((culd, _)) => device_links(bench, &tools, culd, &theirs),
        None => Ok(()),
    }
}

/// The project with the device links of `culd device-link`, beside that with nvlink in `theirs`.
fn device_links(bench: &BuildBench, tools: &Environment, culd: &Path, theirs: &Path) -> Result<()> {
    let lines = succeed(Command::new(culd).arg("cmake"))?.stdout;
    let toolchain = bench.work.join(NAME).join("culd.cmake");
    fs::write(&toolchain, &lines)?;
    let ours = bench.work.join(NAME).join("device-link");
    let file = format!("-DCMAKE_TOOLCHAIN_FILE={}", toolchain.display());
    let run = build_with(tools, &bench.reference, &ours, &[file])?;
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let links = text.lines().filter(|line| line.contains(" device-link --nvcc ")).count();
    ensure!(links == LINKED.len(), "{links} device links by culd instead of {}", LINKED.len());
    ensure!(!text.contains("#$ nvlink "), "nvcc made a device link");
    for target in LINKED {
        let object = format!("CMakeFiles/{target}.dir/cmake_device_link.o");
        let result = same_device_links(bench.noted, &theirs.join(&object), &ours.join(&object));
        bench.check(&format!("cmake device-link {target}"), result);
    }
    for target in PROGRAMS {
        let result = same_programs(&theirs.join(target), &ours.join(target));
        bench.check(&format!("cmake device-link {target} starts"), result);
    }
    Ok(())
}

/// Objects of device links with the same images and modules. Their host code differs: a compiler
/// made the one, culd has the other in a table. Without notes of the linkers the images are equal,
/// and the containers are not compared: culd's are those of CUDA 13.
fn same_device_links(noted: bool, expected: &Path, actual: &Path) -> Result<()> {
    let parts = |path: &Path| -> Result<(Vec<u8>, String)> {
        let bytes = fs::read(path).with_context(|| path.display().to_string())?;
        let object = HostObject::parse(&bytes)?.context("no host object")?;
        let images = object.whole_programs.iter().flat_map(|section| section.data);
        Ok((images.copied().collect(), format!("{:?}", object.module_ids)))
    };
    let ((theirs, modules), (ours, own)) = (parts(expected)?, parts(actual)?);
    ensure!(modules == own, "modules {own} instead of {modules}");
    if !noted {
        let ([theirs, ours], none) = ([unpacked(&theirs)?, unpacked(&ours)?], Vec::new());
        ensure!(theirs != none && theirs == ours, "other images");
        return Ok(());
    }
    ensure!(embedded::linkers(&theirs).iter().all(|linker| linker == "nvlink"));
    ensure!(embedded::linkers(&ours).iter().all(|linker| linker == "culd"));
    match embedded::files(&theirs, &ours) {
        Some(what) => bail!("{what}"),
        None => Ok(()),
    }
}

/// Target and contents of each image.
fn unpacked(fatbins: &[u8]) -> Result<Vec<(u32, Vec<u8>)>> {
    let mut images = Vec::new();
    for container in containers(fatbins) {
        for entry in container?.entries() {
            let entry = entry?;
            images.push((entry.sm(), entry.data(u64::MAX)?.into_owned()));
        }
    }
    Ok(images)
}

/// CMake also passes the libraries of the host link to the device linker, which must ignore those
/// it cannot find.
fn host_libraries(expected: &[String], actual: &[String]) -> Result<()> {
    let links = LINKED.len() * ARCHS.len();
    ensure!((expected.len(), actual.len()) == (links, links), "not {links} links");
    for line in expected.iter().chain(actual) {
        for library in ["-lcudadevrt", "-lcudart_static", "-lrt", "-lpthread", "-ldl"] {
            let is_given = line.split_whitespace().any(|word| word == library);
            ensure!(is_given, "no {library} in {line}");
        }
    }
    Ok(())
}

/// Configures and builds; the output of the build, with the commands that nvcc runs.
fn build(tools: &Environment, toolkit: &BuildToolkit, dir: &Path) -> Result<Run> {
    build_with(tools, toolkit, dir, &[])
}

/// The same with more options of CMake.
fn build_with(
    tools: &Environment,
    toolkit: &BuildToolkit,
    dir: &Path,
    options: &[String],
) -> Result<Run> {
    let nvcc: PathBuf = toolkit.dir.join("bin/nvcc");
    let mut cmake = Command::new(tools.program("cmake"));
    cmake.arg("-S").arg(workspace::root().join("testdata/e2e/cmake")).arg("-B").arg(dir);
    cmake.args(["-G", "Ninja"]);
    cmake.arg(format!("-DCMAKE_MAKE_PROGRAM={}", tools.program("ninja").display()));
    cmake.arg(format!("-DCMAKE_CUDA_COMPILER={}", nvcc.display()));
    cmake.arg(format!("-DCMAKE_CUDA_ARCHITECTURES={}", ARCHS.join(";")));
    succeed(cmake.args(options).env_remove("CUDACXX").env_remove("CUDAFLAGS"))?;
    let mut ninja = Command::new(tools.program("ninja"));
    ninja.arg("-C").arg(dir).args(["-v", "-j", "2"]).env("NVCC_APPEND_FLAGS", "-v");
    succeed(&mut ninja)
}
