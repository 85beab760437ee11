//! Required and conflicting options, in nvlink's order.
//!
//! In: options. Out: the first error.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::table::{Id, Row, Support, TABLE};
use super::{Options, Target, UsageError};

/// The first error of a line that asks for a link: the part that nvlink checks before it reports
/// ignored options.
pub(super) fn check_basics(options: &Options) -> Result<Target, UsageError> {
    let target = options.target.ok_or(UsageError::NoArch)?;
    if options.output().is_none() && matches!(target, Target::Real(_)) {
        return Err(UsageError::NoOutput);
    }
    if options.inputs.is_empty() {
        return Err(UsageError::NoInput);
    }
    conflicts(options)?;
    Ok(target)
}

/// True if the line names used kernels and also asks for those of host code. nvlink reports which
/// of the two it ignores, even if it prints no infos.
pub(super) fn ignores_host_info(options: &Options) -> bool {
    let named = |id| options.list(id).iter().any(|name| !name.is_empty());
    options.flag(Id::UseHostInfo) && (named(Id::KernelsUsed) || named(Id::VariablesUsed))
}

/// The first thing that is wrong with a line for `target` in the rest of the line.
pub(super) fn check(options: &Options, target: Target) -> Result<(), UsageError> {
    if matches!(target, Target::Lto(_)) {
        return Err(UsageError::LtoTarget(target.name()));
    }
    reports(options)?;
    lto(options)?;
    cuda_version(options)?;
    let refused = |row: &&Row| row.support == Support::Refused && options.values(row.id).is_some();
    if let Some(row) = TABLE.iter().find(refused) {
        return Err(UsageError::NotSupported(row.long));
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

/// Files of reports have the endings of the forms that there are.
fn reports(options: &Options) -> Result<(), UsageError> {
    let bad =
        |value: &OsStr, option| Err(UsageError::BadValue { value: culd_text::name(value), option });
    let ending = |value: &OsStr| Path::new(value).extension().map(OsStr::to_owned);
    let ends = |value: &OsStr, endings: &[&str]| {
        ending(value).is_some_and(|own| endings.iter().any(|ending| own == *ending))
    };
    let report = |value: &&OsString| *value != "-" && !ends(value, &["json", "html", "htm", "txt"]);
    if let Some(value) = options.list(Id::Report).iter().find(report) {
        return bad(value, "report");
    }
    let graph = options.path(Id::CallGraph).map(Path::as_os_str);
    match graph.filter(|value| !ends(value, &["dot", "gv", "svg"])) {
        Some(value) => bad(value, "callgraph"),
        None => Ok(()),
    }
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
    if options.values(Id::NvvmPath).is_none() {
        return Err(UsageError::NoNvvmPath);
    }
    let level = options.text(Id::FastCompile);
    if level.is_some_and(|level| !["0", "min", "mid", "max"].contains(&level)) {
        return Err(UsageError::InvalidArgument("--Ofast-compile"));
    }
    Ok(())
}
