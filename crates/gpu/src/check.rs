//! Programs of a plan on the GPU.
//!
//! In: a folder with a plan, the driver. Out: lines and an [`GpuRunEnd`]. Guaranteed: each image
//! runs in a process of its own, because after a fault on the GPU a process can do nothing more
//! with it; a program that does not suit the GPU is counted as left out, not as passed; a run of
//! nothing is a failure.

use crate::driver::{Gpu, GpuMemory, LaunchParameter, LaunchShape, NoGpu};
use crate::plan::{GpuPlan, GpuProgram, HostProgram, Launch, PlannedArgument, PlannedImage};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(60);

/// The most programs at a time: each has the GPU's driver to itself for some 300 ms.
const MOST: usize = 8;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuRunEnd {
    /// All that ran was right, and something ran.
    Passed,
    /// Something was wrong.
    Failed,
    /// There is no GPU.
    Skipped,
}

/// Where things are.
#[derive(Clone, Debug)]
pub struct CheckFolders {
    /// The folder with the plan.
    pub folder: PathBuf,
    /// The driver's library.
    pub libcuda: PathBuf,
}

/// Runs all programs of the plan that suit the GPU, each in a process that `program` starts.
///
/// # Errors
/// When the plan makes no sense or a process cannot be started.
pub fn run(place: &CheckFolders, program: &Path) -> Result<GpuRunEnd> {
    let plan = GpuPlan::read(&place.folder)?;
    let (name, capability, version) = match Gpu::open(&place.libcuda) {
        Ok(gpu) => gpu.describe()?,
        Err(NoGpu(why)) => {
            println!("skipped: {why}");
            return Ok(GpuRunEnd::Skipped);
        }
    };
    println!("{name}, sm_{}{}, driver {version}", capability.0, capability.1);
    let mut jobs = Vec::new();
    let mut left_out = 0;
    for (number, of) in plan.program.iter().enumerate() {
        if !suits(&of.arch, capability) {
            left_out += 1;
            continue;
        }
        jobs.extend(of.image.iter().map(|image| Job::image(place, program, of, number, image)));
    }
    for of in &plan.host {
        if !suits(&of.arch, capability) {
            left_out += 1;
            continue;
        }
        jobs.extend(of.build.iter().map(|build| Job::host(place, of, build)));
    }
    let ends = finish(jobs);
    let bad = ends.iter().filter(|end| end.is_some()).count();
    ends.iter().flatten().for_each(|problem| println!("failed: {problem}"));
    let good = ends.len() - bad;
    println!("{good} programs right, {bad} wrong; {left_out} are for other GPUs");
    Ok(if bad == 0 && good > 0 { GpuRunEnd::Passed } else { GpuRunEnd::Failed })
}

/// A process that ends with status 0 if a program computes what it should.
struct Job {
    /// The program, its architecture, and the linker or way of building.
    name: String,
    command: Command,
}

impl Job {
    fn image(
        place: &CheckFolders,
        program: &Path,
        of: &GpuProgram,
        number: usize,
        image: &PlannedImage,
    ) -> Self {
        let mut command = Command::new(program);
        command.arg(&place.folder).arg("--libcuda").arg(&place.libcuda);
        command.arg("--only").arg(number.to_string()).arg(&image.by);
        Job { name: format!("{} {} by {}", of.name, of.arch, image.by), command }
    }

    fn host(place: &CheckFolders, of: &HostProgram, build: &PlannedImage) -> Self {
        // A name without a folder is looked for in PATH.
        let folder = fs::canonicalize(&place.folder).unwrap_or_else(|_| place.folder.clone());
        let command = Command::new(folder.join(&build.file));
        Job { name: format!("{} {} by {}", of.name, of.arch, build.by), command }
    }

    /// What is wrong, or nothing.
    fn finish(mut self) -> Option<String> {
        let name = self.name;
        let output = match limited(&mut self.command) {
            Ok(output) => output,
            Err(error) => return Some(format!("{name}: {error:#}")),
        };
        let status = match output.status.code() {
            Some(0) => return None,
            Some(status) => format!("status {status}"),
            None => "killed".to_owned(),
        };
        // A host program says what is wrong on its standard output, an image on the other.
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut lines = text.trim().lines();
        let wrong = lines.clone().find(|line| !line.ends_with(": right"));
        let said = wrong.or_else(|| lines.next_back()).unwrap_or_default();
        Some(format!("{name} ({status}): {said}"))
    }
}

/// The output of a command that is ended after [`LIMIT`]: a kernel that does not end would hold it.
fn limited(command: &mut Command) -> Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("it cannot be started")?;
    let start = Instant::now();
    // What these programs print fits into a pipe.
    while child.try_wait()?.is_none() {
        if start.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            bail!("it does not end");
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(child.wait_with_output()?)
}

/// Runs the jobs, several at a time; their problems in order of the jobs.
fn finish(jobs: Vec<Job>) -> Vec<Option<String>> {
    let threads = thread::available_parallelism().map_or(1, |count| count.get().min(MOST));
    let waiting = Mutex::new(jobs.into_iter().enumerate());
    let ends = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = lock(&waiting).next();
                    let Some((number, job)) = next else { break };
                    let end = job.finish();
                    lock(&ends).push((number, end));
                }
            });
        }
    });
    let mut ends = ends.into_inner().unwrap_or_else(PoisonError::into_inner);
    ends.sort();
    ends.into_iter().map(|(_, end)| end).collect()
}

/// A poisoned lock means that another thread panicked; the panic ends the scope anyway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs one image of the plan.
///
/// # Errors
/// What is wrong with it.
pub fn run_one(place: &CheckFolders, number: usize, by: &str) -> Result<()> {
    let plan = GpuPlan::read(&place.folder)?;
    let program = plan.program.get(number).context("no such program")?;
    let image = program.image.iter().find(|image| image.by == by).context("no such image")?;
    let gpu = Gpu::open(&place.libcuda).map_err(|NoGpu(why)| anyhow::anyhow!(why))?;
    launches(&gpu, place, program, image)
}

fn launches(
    gpu: &Gpu,
    place: &CheckFolders,
    program: &GpuProgram,
    image: &PlannedImage,
) -> Result<()> {
    let path = place.folder.join(&image.file);
    let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
    let module = gpu.load(&bytes)?;
    for launch in &program.launch {
        let context = || format!("kernel '{}'", launch.kernel);
        for variable in &launch.set {
            module.set(&variable.name, &variable.words).with_context(context)?;
        }
        let memory = memory(gpu, launch).with_context(context)?;
        let parameters: Vec<LaunchParameter<'_>> = launch
            .argument
            .iter()
            .zip(&memory)
            .map(|(argument, memory)| parameter(argument, memory))
            .collect();
        let Launch { blocks, threads, shared, .. } = *launch;
        module
            .launch(&launch.kernel, LaunchShape { blocks, threads, shared }, &parameters)
            .with_context(context)?;
        for (place, (argument, memory)) in launch.argument.iter().zip(&memory).enumerate() {
            if let (Some(expected), Some(memory)) = (&argument.expect, memory) {
                let found = memory.read(expected.len()).with_context(context)?;
                same(&format!("memory of argument {place}"), expected, &found)
                    .with_context(context)?;
            }
        }
        for variable in &launch.expect {
            let found = module.get(&variable.name, variable.words.len()).with_context(context)?;
            same(&format!("'{}'", variable.name), &variable.words, &found).with_context(context)?;
        }
    }
    Ok(())
}

/// Memory for the arguments that are some.
fn memory<'g>(gpu: &'g Gpu, launch: &Launch) -> Result<Vec<Option<GpuMemory<'g>>>> {
    let of = |argument: &PlannedArgument| {
        argument.memory_before().map(|words| gpu.memory(&words)).transpose()
    };
    launch.argument.iter().map(of).collect()
}

fn parameter<'m>(
    argument: &PlannedArgument,
    memory: &'m Option<GpuMemory<'m>>,
) -> LaunchParameter<'m> {
    match memory {
        Some(memory) => LaunchParameter::Memory(memory),
        None => LaunchParameter::Word(argument.word.unwrap_or(0)),
    }
}

fn same(what: &str, expected: &[u32], found: &[u32]) -> Result<()> {
    match expected.iter().zip(found).position(|(expected, found)| expected != found) {
        Some(at) => bail!("{what}, word {at}: {:#x} instead of {:#x}", found[at], expected[at]),
        None => Ok(()),
    }
}

/// True where code for `arch` runs on a GPU of this capability: plain code on all later ones of the
/// same major number, code of an `f` target likewise, of an `a` target on this one only.
fn suits(arch: &str, (major, minor): (u32, u32)) -> bool {
    let number = arch.trim_start_matches("sm_");
    let plain = number.trim_end_matches(['a', 'f']);
    let Ok(sm) = plain.parse::<u32>() else { return false };
    if number.ends_with('a') {
        return sm == 10 * major + minor;
    }
    sm / 10 == major && sm % 10 <= minor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_suits_the_gpus_that_can_run_it() {
        for (arch, capability, expected) in [
            ("sm_90", (9, 0), true),
            ("sm_90a", (9, 0), true),
            ("sm_80", (8, 9), true),
            ("sm_89", (8, 6), false),
            ("sm_75", (8, 0), false),
            ("sm_100a", (10, 3), false),
            ("sm_100f", (10, 3), true),
            ("sm_103", (10, 3), true),
            ("sm_120", (12, 1), true),
            ("sm_120", (10, 0), false),
            ("sm_", (9, 0), false),
        ] {
            assert_eq!(suits(arch, capability), expected, "{arch} {capability:?}");
        }
    }

    #[test]
    fn a_word_that_differs_is_named() {
        assert!(same("x", &[1, 2], &[1, 2]).is_ok());
        let error = same("x", &[1, 2], &[1, 3]).unwrap_err().to_string();
        assert_eq!(error, "x, word 1: 0x3 instead of 0x2");
    }
}
