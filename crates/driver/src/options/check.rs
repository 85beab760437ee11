//! Required and conflicting options, in nvlink's order.
//!
//! In: options. Out: the first error.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use culd_link::Dialect;

use super::table::{OptionId, OptionRow, Support, TABLE};
use super::{CommandOptions, Target, UsageError};

/// The target of a line that asks for a link, which also needs an output and an input.
pub(super) fn required(options: &CommandOptions) -> Result<Target, UsageError> {
    let target = options.target.ok_or(UsageError::NoArch)?;
    if options.output().is_none() && matches!(target, Target::Real(_)) {
        return Err(UsageError::NoOutput);
    }
    if options.inputs.is_empty() {
        return Err(UsageError::NoInput);
    }
    Ok(target)
}

/// True if the line names used kernels and also asks for those of host code. nvlink reports which
/// of the two it ignores, even if it prints no infos.
pub(super) fn ignores_host_info(options: &CommandOptions) -> bool {
    let named = |id| options.list(id).iter().any(|name| !name.is_empty());
    options.flag(OptionId::UseHostInfo)
        && (named(OptionId::KernelsUsed) || named(OptionId::VariablesUsed))
}

/// True if `-split-compile-extended` asks for several texts and `-emit-ptx` for one. nvlink notices
/// it if nothing is wrong with its options so far.
pub(super) fn emits_in_one_text(options: &CommandOptions) -> bool {
    options.lto()
        && options.flag(OptionId::EmitPtx)
        && options.values(OptionId::NvvmPath).is_some()
        && options.text(OptionId::SplitCompileExtended).is_some_and(|count| count != "1")
}

/// The first thing that is wrong with a line for `target` in the rest of the line.
pub(super) fn check(options: &CommandOptions, target: Target) -> Result<(), UsageError> {
    if matches!(target, Target::Lto(_)) {
        return Err(UsageError::LtoTarget(target.name()));
    }
    reports(options)?;
    lto(options)?;
    cuda_version(options)?;
    let refused =
        |row: &&OptionRow| row.support == Support::Refused && options.values(row.id).is_some();
    if let Some(row) = TABLE.iter().find(refused) {
        return Err(UsageError::NotSupported(row.long));
    }
    Ok(())
}

/// The first two options that exclude each other in nvlink, apart from those about LTO.
pub(super) fn conflicts(options: &CommandOptions) -> Result<(), UsageError> {
    let both = |a, b| options.flag(a) && options.flag(b);
    if options.flag(OptionId::SuppressDebugInfo) && !options.flag(OptionId::Debug) {
        return Err(UsageError::Conflict("-suppress-debug-info", "no -g"));
    }
    if both(OptionId::DumpCallgraph, OptionId::DumpCallgraphMangled) {
        return Err(UsageError::Conflict("-dump-callgraph", "-dump-callgraph-no-demangle"));
    }
    if both(OptionId::UseHostInfo, OptionId::IgnoreHostInfo) {
        return Err(UsageError::Conflict("-use-host-info", "-ignore-host-info"));
    }
    Ok(())
}

/// Checks that the name of each report's file has the ending of a form that culd writes, and that
/// files that no reader expects on standard output are none.
fn reports(options: &CommandOptions) -> Result<(), UsageError> {
    let bad =
        |value: &OsStr, option| Err(UsageError::BadValue { value: culd_text::name(value), option });
    let ending = |value: &OsStr| Path::new(value).extension().map(OsStr::to_owned);
    let ends = |value: &OsStr, endings: &[&str]| {
        ending(value).is_some_and(|own| endings.iter().any(|ending| own == *ending))
    };
    let report = |value: &&OsString| *value != "-" && !ends(value, &["json", "html", "htm", "txt"]);
    if let Some(value) = options.list(OptionId::Report).iter().find(report) {
        return bad(value, "report");
    }
    if options.values(OptionId::Report).is_some_and(<[_]>::is_empty) {
        return bad(OsStr::new(""), "report");
    }
    for (id, option) in [(OptionId::Reproduce, "reproduce"), (OptionId::Trace, "trace")] {
        if options.path(id).is_some_and(|path| path == Path::new("-")) {
            return bad(OsStr::new("-"), option);
        }
    }
    let graph = options.path(OptionId::CallGraph).map(Path::as_os_str);
    match graph.filter(|value| !ends(value, &["dot", "gv", "svg"])) {
        Some(value) => bad(value, "callgraph"),
        None => Ok(()),
    }
}

/// Checks `--cuda-api-version`: the major number has to be that of the release.
fn cuda_version(options: &CommandOptions) -> Result<(), UsageError> {
    let Some(text) = options.text(OptionId::CudaApiVersion) else { return Ok(()) };
    let major = options.release.unwrap_or(Dialect::usual()).toolkit / 10;
    match super::api_version(text) {
        None => Err(UsageError::CudaVersion),
        Some((given, _)) if given == u32::from(major) => Ok(()),
        Some(_) => Err(UsageError::CudaMajor),
    }
}

fn lto(options: &CommandOptions) -> Result<(), UsageError> {
    if !options.lto() {
        if options.flag(OptionId::NvvmLatest) {
            return Err(UsageError::Conflict("-nvvm-latest", "no -dlto"));
        }
        if options.flag(OptionId::EmitPtx) {
            return Err(UsageError::Conflict("-emit-ptx", "no -dlto"));
        }
        if options.text(OptionId::FastCompile).is_some() {
            return Err(UsageError::Conflict("--Ofast-compile", "no -dlto"));
        }
        return Ok(());
    }
    if options.values(OptionId::NvvmPath).is_none() {
        return Err(UsageError::NoNvvmPath);
    }
    let level = options.text(OptionId::FastCompile);
    if level.is_some_and(|level| !["0", "min", "mid", "max"].contains(&level)) {
        return Err(UsageError::InvalidArgument("--Ofast-compile"));
    }
    Ok(())
}
