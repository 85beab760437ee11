//! Programs with a host part, built in all ways in which culd can take part.
//!
//! In: the folders of `testdata/gpu`, nvcc. Out: executables in the folder of a plan, and their
//! part of the plan. Guaranteed: the objects of a program are compiled once for all of its linkers.
//! A source whose name starts with `lib` is part of a shared library with a device link of its own.

use crate::workspace;
use anyhow::{Context, Result};
use culd_gpu::plan::{HostProgram, PlannedImage};
use culd_testkit::reference::compare::trial::Tools;
use culd_testkit::reference::oracle::process;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A way to build.
struct Way {
    /// Its name in file names and messages.
    name: &'static str,
    /// Options of the compilation and of the link, beside the architecture.
    options: &'static [&'static str],
    /// Objects have PTX.
    ptx: bool,
    linker: DeviceLinker,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DeviceLinker {
    /// NVIDIA's nvcc and nvlink.
    Nvlink,
    /// NVIDIA's nvcc, which starts culd as its nvlink.
    Culd,
    /// culd as nvcc: `culd device-link`.
    DeviceLink,
}

const LTO: &[&str] = &["-dlto"];

const fn way(name: &'static str, options: &'static [&'static str], linker: DeviceLinker) -> Way {
    Way { name, options, ptx: false, linker }
}

#[rustfmt::skip]
const WAYS: &[Way] = &[
    way("nvlink", &[], DeviceLinker::Nvlink),
    way("culd", &[], DeviceLinker::Culd),
    way("device-link", &[], DeviceLinker::DeviceLink),
    way("nvlink-dlto", LTO, DeviceLinker::Nvlink),
    way("culd-dlto", LTO, DeviceLinker::Culd),
    way("device-link-dlto", LTO, DeviceLinker::DeviceLink),
    Way { ptx: true, ..way("nvlink-ptx", &[], DeviceLinker::Nvlink) },
    Way { ptx: true, ..way("culd-ptx", &[], DeviceLinker::Culd) },
    way("device-link-debug", &["-G"], DeviceLinker::DeviceLink),
];

/// Builds all programs for `arch`.
pub(super) fn build(tools: &Tools, arch: &str, folder: &Path) -> Result<Vec<HostProgram>> {
    let work = tempfile::tempdir()?;
    let shadow = work.path().join("toolkit");
    let mut install = Command::new(&tools.candidate);
    succeed(install.arg("install-shadow").arg(&shadow).arg("--cuda").arg(tools.oracle.toolkit()))?;
    let mut programs = Vec::new();
    for name in names()? {
        let mut build = Vec::new();
        let number = arch.trim_start_matches("sm_");
        for way in WAYS {
            let file = format!("{name}.{arch}.{}", way.name);
            let program = Program { tools, shadow: &shadow, name: &name, number, way };
            program
                .build(work.path(), &folder.join(&file))
                .with_context(|| format!("{name} by {}", way.name))?;
            build.push(PlannedImage { by: way.name.to_owned(), file });
        }
        programs.push(HostProgram { name, arch: arch.to_owned(), build });
    }
    Ok(programs)
}

/// The folders of `testdata/gpu`.
fn names() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root())? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn root() -> PathBuf {
    workspace::root().join("testdata/gpu")
}

/// A program and a way to build it.
struct Program<'t> {
    tools: &'t Tools,
    shadow: &'t Path,
    name: &'t str,
    /// `90a`.
    number: &'t str,
    way: &'t Way,
}

impl Program<'_> {
    fn build(&self, work: &Path, out: &Path) -> Result<()> {
        let (mut program, mut library) = (Vec::new(), Vec::new());
        for source in workspace::sources(&root().join(self.name))? {
            let stem = source.file_stem().context("a source")?.to_string_lossy().into_owned();
            let object = self.object(work, &source, &stem)?;
            if stem.starts_with("lib") { &mut library } else { &mut program }.push(object);
        }
        let mut link = self.nvcc(self.way.linker);
        link.args(self.way.options).arg(self.arch()).args(&program);
        if !library.is_empty() {
            let shared = out.with_extension(format!("{}.so", self.way.name));
            let mut own = self.nvcc(self.way.linker);
            own.args(self.way.options).args(["-shared", "-cudart=shared"]);
            own.arg(self.arch()).args(&library).arg("-o").arg(&shared);
            let name = shared.file_name().context("a library")?.to_string_lossy();
            own.arg(format!("-Xlinker=-soname={name}"));
            succeed(&mut own)?;
            // One runtime for the program and the library; it lies beside them.
            link.args(["-cudart=shared", "-Xlinker=-rpath=$ORIGIN"]).arg(&shared);
            let runtime = self.tools.oracle.toolkit_library("libcudart.so.13");
            fs::copy(runtime, out.with_file_name("libcudart.so.13"))?;
        }
        succeed(link.arg("-o").arg(out))
    }

    /// The object of a source, compiled on first use.
    fn object(&self, work: &Path, source: &Path, stem: &str) -> Result<PathBuf> {
        let kind = if self.way.ptx { "-ptx".to_owned() } else { self.way.options.concat() };
        let object = work.join(format!("{}-{stem}{kind}.o", self.name));
        if !object.is_file() {
            let number = self.number;
            let mut nvcc = self.nvcc(DeviceLinker::Nvlink);
            nvcc.args(self.way.options);
            match self.way.ptx {
                true => nvcc.arg(format!("-gencode=arch=compute_{number},code=compute_{number}")),
                false => nvcc.arg(self.arch()),
            };
            nvcc.args(["-rdc=true", "-c", "-Xcompiler=-fPIC"]).arg(source).arg("-o").arg(&object);
            succeed(&mut nvcc)?;
        }
        Ok(object)
    }

    fn arch(&self) -> String {
        format!("-arch=sm_{}", self.number)
    }

    fn nvcc(&self, linker: DeviceLinker) -> Command {
        let toolkit = match linker {
            DeviceLinker::Nvlink => self.tools.oracle.toolkit(),
            DeviceLinker::Culd | DeviceLinker::DeviceLink => self.shadow,
        };
        let mut nvcc = Command::new(toolkit.join("bin/nvcc"));
        nvcc.env_remove("LD_LIBRARY_PATH");
        if linker == DeviceLinker::Culd {
            nvcc.env("CULD_NVCC", "off");
        }
        nvcc
    }
}

fn succeed(command: &mut Command) -> Result<()> {
    process::succeed(command, super::LIMIT).map(drop)
}
