//! What a command line must have, and what excludes what, in nvlink's order.

use culd_cubin::arch::Flavour;

use super::table::{Id, Row, Takes};
use super::{Options, Target, UsageError};

/// Options that change bytes in ways that are not known well enough to reproduce.
const NOT_SUPPORTED: &[Id] = &[
    Id::ExtendedShared,
    Id::ForceRela,
    Id::NoSharedReservation,
    Id::NvHost,
    Id::ReserveNull,
    Id::SyscallOffset,
    Id::ToolsPatch,
];

/// Options that change files with Mercury in ways that are not known well enough to reproduce.
const NOT_FOR_MERCURY: &[Id] = &[Id::PreserveRelocs, Id::Uidx];

/// The first thing that is wrong with a line that asks for a link.
pub(super) fn check(options: &Options) -> Result<(), UsageError> {
    let target = options.target.ok_or(UsageError::NoArch)?;
    if options.output().is_none() && matches!(target, Target::Real(_)) {
        return Err(UsageError::NoOutput);
    }
    if options.inputs.is_empty() {
        return Err(UsageError::NoInput);
    }
    conflicts(options)?;
    if matches!(target, Target::Lto(_)) {
        return Err(UsageError::LtoTarget(target.name()));
    }
    lto(options)?;
    cuda_version(options)?;
    if let Some(&id) = NOT_SUPPORTED.iter().find(|id| options.text(**id).is_some()) {
        return Err(UsageError::NotSupported(Row::of(id).long));
    }
    let mercury = target.arch().flavour == Flavour::Mercury && matches!(target, Target::Real(_));
    let given = |id| match Row::of(id).takes {
        Takes::Nothing => options.flag(id),
        _ => options.text(id).is_some(),
    };
    if let Some(&id) = NOT_FOR_MERCURY.iter().find(|&&id| mercury && given(id)) {
        return Err(UsageError::NotForTarget(Row::of(id).long, target.arch().name));
    }
    Ok(())
}

fn conflicts(options: &Options) -> Result<(), UsageError> {
    let both = |a, b| options.flag(a) && options.flag(b);
    if options.flag(Id::SuppressDebugInfo) && !options.flag(Id::Debug) {
        return Err(UsageError::Conflict("-suppress-debug-info", "no -g"));
    }
    if both(Id::DumpCallgraph, Id::DumpCallgraphMangled) {
        return Err(UsageError::Conflict("-dump-callgraph", "-dump-callgraph-no-demangle"));
    }
    if both(Id::UseHostInfo, Id::IgnoreHostInfo) {
        return Err(UsageError::Conflict("-use-host-info", "-ignore-host-info"));
    }
    Ok(())
}

/// `--cuda-api-version`: `13.0` and its like change nothing, others are refused.
fn cuda_version(options: &Options) -> Result<(), UsageError> {
    let Some(text) = options.text(Id::CudaApiVersion) else { return Ok(()) };
    let numbers = text
        .split_once('.')
        .and_then(|(major, minor)| Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?)));
    match numbers {
        None => Err(UsageError::CudaVersion),
        Some((13, _)) => Ok(()),
        Some(_) => Err(UsageError::CudaMajor),
    }
}

fn lto(options: &Options) -> Result<(), UsageError> {
    if !options.lto() {
        if options.flag(Id::EmitPtx) {
            return Err(UsageError::Conflict("-emit-ptx", "no -dlto"));
        }
        if options.text(Id::FastCompile).is_some() {
            return Err(UsageError::Conflict("--Ofast-compile", "no -dlto"));
        }
        if options.flag(Id::NvvmLatest) {
            return Err(UsageError::Conflict("-nvvm-latest", "no -dlto"));
        }
        return Ok(());
    }
    if options.text(Id::NvvmPath).is_none() {
        return Err(UsageError::NoNvvmPath);
    }
    let level = options.text(Id::FastCompile);
    if level.is_some_and(|level| !["0", "min", "mid", "max"].contains(&level)) {
        return Err(UsageError::InvalidArgument("--Ofast-compile"));
    }
    Ok(())
}
