//! `xtask gpu`: runs linked programs of the corpus on a GPU.
//!
//! In: the [`models`], the host [`programs`], the reference tools, a GPU. Out: a folder with
//! images and executables by both linkers and the images' expected results, and the output of
//! `culd-gpu`. Guaranteed: without a GPU, a line says so and the exit code is 0, because no fault
//! was found. The folder of `--pack` is all that a machine with a GPU needs.

mod models;
mod programs;

use crate::args::Args;
use crate::workspace;
use anyhow::{Context, Result, bail};
use culd_gpu::driver::{Gpu, LIBRARY, NoGpu};
use culd_gpu::plan::{GpuPlan, GpuProgram, PlannedImage};
use culd_testkit::random::generate::model::PtxArch;
use culd_testkit::reference::compare::trial::Tools;
use culd_testkit::reference::oracle::cache::Cache;
use culd_testkit::reference::oracle::{Oracle, process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

const HELP: &str = "\
usage: cargo xtask gpu [options]
  --pack DIR       write the programs and 'culd-gpu' to DIR and run nothing; there: DIR/culd-gpu DIR
  --release R[,R]  images of the corpus by ptxas and linkers of these releases (default 13.0)
  --arch SM[,SM]   only for these architectures (default: all that code differs for)
  --libcuda PATH   the CUDA driver (default libcuda.so.1)
  --runner PATH    the program that runs them (default the one beside this program)
  --culd PATH      the linker under test (default the one beside this program)";

/// The folder of the models' sources.
const CORPUS: &str = "testdata/corpus";

/// How long one command may take: nvcc compiles a file in seconds.
const LIMIT: Duration = Duration::from_secs(120);

/// The exit status of `culd-gpu` without a GPU.
const SKIPPED: i32 = 77;

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    if args.flag("--help") {
        println!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    let pack: Option<PathBuf> = args.option("--pack")?;
    let mut archs = args.archs("")?;
    let releases: Option<String> = args.option("--release")?;
    let library: PathBuf = args.option("--libcuda")?.unwrap_or_else(|| LIBRARY.into());
    let runner: Option<PathBuf> = args.option("--runner")?;
    let runner = runner.unwrap_or_else(|| workspace::built("culd-gpu"));
    let culd = args.culd()?;
    args.finish()?;
    if archs.is_empty() {
        archs.extend(PtxArch::ALL.into_iter().chain(PtxArch::MERCURY));
    }
    // First, because without a GPU nothing needs to be built.
    if pack.is_none()
        && let Err(NoGpu(why)) = Gpu::open(&library)
    {
        println!("skipped: {why}");
        return Ok(ExitCode::SUCCESS);
    }
    if !runner.is_file() {
        bail!("no program at {}: cargo build --release -p culd-gpu", runner.display());
    }
    let releases = releases.as_deref().unwrap_or("13.0").split(',');
    let releases: Vec<Oracle> =
        releases.map(|name| workspace::oracle_of(name.parse()?)).collect::<Result<_>>()?;
    let tools = workspace::tools(culd.as_deref())?;
    let Some(folder) = pack else {
        let folder = tempfile::tempdir()?;
        write(&tools, &releases, &archs, folder.path())?;
        let mut command = Command::new(&runner);
        command.arg(folder.path()).arg("--libcuda").arg(&library);
        let status = command.status().with_context(|| runner.display().to_string())?;
        let good = status.success() || status.code() == Some(SKIPPED);
        return Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    };
    fs::create_dir_all(&folder)?;
    let count = write(&tools, &releases, &archs, &folder)?;
    fs::copy(&runner, folder.join("culd-gpu"))?;
    println!("{count} programs in {}; run there: ./culd-gpu .", folder.display());
    Ok(ExitCode::SUCCESS)
}

/// Compiles and links the programs with both linkers; returns their number.
fn write(tools: &Tools, releases: &[Oracle], archs: &[PtxArch], folder: &Path) -> Result<usize> {
    let cache = Cache::new(workspace::target().join("oracle-cache"));
    let mut plan = GpuPlan::default();
    for PtxArch(arch) in archs {
        for oracle in releases {
            let release = oracle.release();
            for model in models::all() {
                let case = model.case;
                let sources = workspace::sources(&workspace::root().join(CORPUS).join(case))
                    .with_context(|| case.to_owned())?;
                let cuda = |source: &PathBuf| source.extension().is_some_and(|end| end == "cu");
                if !release.has_nvcc() && sources.iter().any(cuda) {
                    continue;
                }
                let images = link(oracle, &tools.candidate, &cache, &sources, arch)
                    .with_context(|| format!("{case} {arch} by {}", release.name))?;
                let mut image = Vec::new();
                for (by, bytes) in images {
                    let by = format!("{by}-{}", release.name);
                    let file = format!("{}.{arch}.{by}.cubin", case.replace('/', "-"));
                    fs::write(folder.join(&file), bytes)?;
                    image.push(PlannedImage { by, file });
                }
                let (name, launch) = (case.to_owned(), model.launches.clone());
                plan.program.push(GpuProgram { name, arch: (*arch).to_owned(), image, launch });
            }
        }
        plan.host.extend(programs::build(tools, arch, folder)?);
    }
    plan.write(folder)?;
    Ok(plan.program.len() + plan.host.len())
}

/// Makes the images of a case, with its files in order of their names.
fn link(
    oracle: &Oracle,
    culd: &Path,
    cache: &Cache,
    sources: &[PathBuf],
    arch: &str,
) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let work = tempfile::tempdir()?;
    let mut inputs = Vec::new();
    for (place, source) in sources.iter().enumerate() {
        let cubin = cache.compile(oracle, source, arch, &[])?;
        let name = format!("{place}.cubin");
        fs::copy(cubin, work.path().join(&name))?;
        inputs.push(name);
    }
    let mut ours = Command::new(culd);
    ours.arg(format!("--dialect={}", oracle.release().name));
    let mut linkers = vec![("culd", ours)];
    if oracle.has_linker() {
        linkers.push(("nvlink", oracle.command("nvlink")));
    }
    let mut images = Vec::new();
    for (by, mut command) in linkers {
        let out = format!("{by}.out");
        command
            .arg(format!("-arch={arch}"))
            .args(&inputs)
            .args(["-o", &out])
            .current_dir(work.path());
        let run = process::run(&mut command, LIMIT)?;
        if !run.status.success() {
            bail!("{by}: {}: {}", run.status, run.stderr_text());
        }
        images.push((by, fs::read(work.path().join(out))?));
    }
    Ok(images)
}
