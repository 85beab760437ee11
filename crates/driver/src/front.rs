//! culd under the name of nvcc, in a shadow toolkit.
//!
//! In: the words of nvcc. Out: a device link made in this process; or this process becomes the real
//! nvcc. Guaranteed: nvcc gets the same words, environment and path if a line is not understood in
//! full, or is not that of a device link. Only the nvcc of the shadow's toolkit is ever started.

use culd_text::os::OsStrExt;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use culd_fatbin::registration::Machine;
use culd_link::Dialect;

use crate::device_link::{self, DeviceLinkPlan, run};
use crate::messages::RunOutcome;
use crate::nvcc::{CommandLine, NvccOptionId, Profile, words_of};
use crate::options::CommandOptions;
use crate::os::{host, place};
use crate::shadow;
use crate::toolkit::marker;
use crate::toolkit::programs;

/// The variable that leaves every line to the real nvcc if its value is `off`. The word below
/// leaves one line to it.
const VARIABLE: &str = "CULD_NVCC";
const OFF: &str = "--culd=off";

/// Compilers for the machine that they run on.
const COMPILERS: &[&str] = &["c++", "cc", "clang", "clang++", "g++", "gcc"];

/// The object of the device link in a line of nvcc.
const LINKED: &str = "dlink.o";

/// The decision on a line of nvcc.
enum NvccLine {
    /// A device link.
    DeviceLink(DeviceLinkPlan),
    /// A device link and the host's link.
    Whole(DeviceLinkPlan),
    /// Something else.
    Other,
}

/// Does the work of nvcc for `words`. Returns the result of a device link; for any other line, this
/// process becomes nvcc.
pub fn nvcc_front(words: &[OsString]) -> (String, RunOutcome) {
    (String::new(), front(words))
}

fn front(words: &[OsString]) -> RunOutcome {
    let Some(shadow) = marker::own() else {
        return RunOutcome::fatal(
            "this is culd under the name of nvcc, and in no shadow toolkit: 'culd install-shadow' \
             makes one",
        );
    };
    let (real, release) = (shadow.marker.toolkit.join("bin/nvcc"), shadow.marker.dialect());
    // Another toolkit in the same place is an error for all lines.
    if let Err(line) = shadow::before_link(&shadow, &CommandOptions::for_nobody()) {
        return RunOutcome::fatal_line(line);
    }
    let own = |word: &OsString| word != OFF;
    let off = !words.iter().all(own) || env::var_os(VARIABLE).is_some_and(|value| value == "off");
    let words: Vec<OsString> = words.iter().filter(|word| own(word)).cloned().collect();
    let other = off || shadow.marker.packs_otherwise();
    let line = if other { NvccLine::Other } else { understood(&words, release) };
    match line {
        NvccLine::DeviceLink(plan) => run(&plan),
        NvccLine::Whole(plan) => whole(plan, &real, &words),
        NvccLine::Other => becomes(&real, &words),
    }
}

/// The decision on `words`, by the rules of `release`.
fn understood(words: &[OsString], release: Option<&'static Dialect>) -> NvccLine {
    let planned = || {
        let flags = |name: &str| words_of(&env::var_os(name).unwrap_or_default()).ok();
        let all = [&flags("NVCC_PREPEND_FLAGS")?[..], words, &flags("NVCC_APPEND_FLAGS")?].concat();
        let line = CommandLine::parse(&all).ok()?;
        let odd = !line.redefined.is_empty()
            || line.has(NvccOptionId::Verbose)
            || line.has(NvccOptionId::NoDeviceLink)
            || line.text(NvccOptionId::CudaRuntime) == Some("none")
            || line.has(NvccOptionId::NvlinkWords)
            || !compiler_is_usual(&line);
        if odd {
            return None;
        }
        let profile = Profile::of(programs::own()?.parent()?)?;
        let mut plan = device_link::plan(&line, &profile, release).ok()?;
        plan.machine = Machine::by_name(env::consts::ARCH);
        plan.machine?;
        Some((line, plan))
    };
    match planned() {
        Some((line, plan)) if line.has(NvccOptionId::DeviceLink) => NvccLine::DeviceLink(plan),
        Some((line, plan)) if is_link(&line, &plan) => NvccLine::Whole(plan),
        _ => NvccLine::Other,
    }
}

/// True if a line that names no phase asks for a link of objects: nvcc would first link their
/// device code, then their host code.
fn is_link(line: &CommandLine, plan: &DeviceLinkPlan) -> bool {
    let object = |input: &OsString| {
        let path = Path::new(input);
        path.extension().is_some_and(|extension| extension == "o" || extension == "a")
            && fs::metadata(path).is_ok_and(|meta| meta.is_file())
    };
    plan.is_plain() && !line.has(NvccOptionId::Lto) && line.inputs.iter().all(object)
}

fn compiler_is_usual(line: &CommandLine) -> bool {
    let named = line.value(NvccOptionId::HostCompiler).map(OsStr::to_owned);
    let Some(named) = named.or_else(|| env::var_os("NVCC_CCBIN")) else { return true };
    let path = Path::new(&named);
    let name = path.file_name().unwrap_or_default().as_bytes();
    let plain = culd_text::name(OsStr::from_bytes(name));
    let plain = plain.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let is_there = match named.as_bytes().contains(&b'/') {
        true => path.is_file(),
        false => programs::named(path).is_some(),
    };
    COMPILERS.contains(&plain) && is_there
}

/// A whole link: the device link here, then the host's by the real nvcc.
fn whole(mut plan: DeviceLinkPlan, real: &Path, words: &[OsString]) -> RunOutcome {
    let scratch = match place::scratch("culd-nvcc-", &[LINKED], None, |_| Ok(())) {
        Ok(scratch) => scratch,
        Err(error) => return RunOutcome::fatal(error),
    };
    plan.output = scratch.join(LINKED);
    let mut outcome = run(&plan);
    if outcome.status != 0 {
        return outcome;
    }
    let mut command = nvcc(real);
    command.arg("-nodlink").arg(&plan.output).args(words);
    match command.status() {
        Ok(status) => {
            let code = host::exit_status(status).unwrap_or(1);
            outcome.status = u8::try_from(code).unwrap_or(1);
            outcome
        }
        Err(error) => cannot_start(real, &error),
    }
}

/// nvcc, which takes its folder from the path by which it is started: that of the shadow.
fn nvcc(real: &Path) -> Command {
    let mut command = Command::new(real);
    if let Some(own) = env::args_os().next() {
        host::start_as(&mut command, own);
    }
    command
}

/// This process becomes the real nvcc; returns why not.
fn becomes(real: &Path, words: &[OsString]) -> RunOutcome {
    let error = host::become_program(nvcc(real).args(words));
    cannot_start(real, &error)
}

fn cannot_start(real: &Path, error: &std::io::Error) -> RunOutcome {
    RunOutcome::fatal(format!("Could not start '{}': {error}", culd_text::name(real)))
}
