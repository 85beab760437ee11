//! One row for each option of nvcc 13.
//!
//! What an option changes in a device link was seen by `nvcc -dryrun -dlink`, alone and with
//! `-dlto`.

use Effect::{Front, None, Set};
use NvccOptionArity::{Bool, Choice, List, Nothing, Number, One};

/// Options that change the result of a device link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[rustfmt::skip]
pub(crate) enum NvccOptionId {
    Arch, Code, Generate, DeviceLink, Cubin, Fatbin, Relocatable, Lto, Output, Library,
    LibraryPath, NvlinkWords, HostWords, FatbinaryWords, PtxasWords, NoWarnings, Werror,
    ResourceUsage, Debug, OptimizedDebug, Lineinfo, Shared, NoCompress, CompressMode,
    MaxRegisters, SplitCompile, SplitCompileExtended, DeviceRuntime, HostCompiler, OptionsFile,
    ForwardCompiler, ForwardLinker, ForwardBoth, NoDeviceLink, CudaRuntime, FastCompile,
    RelocatableCode, Verbose,
}

/// The number of [`NvccOptionId`]s.
pub(super) const IDS: usize = NvccOptionId::Verbose as usize + 1;

/// The kind of value of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NvccOptionArity {
    Nothing,
    /// One value of any form.
    One,
    /// Values separated by commas; repeated options add up.
    List,
    Choice(&'static [&'static str]),
    Number,
    /// `true` or `false`.
    Bool,
}

/// The effect of an option on a device link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Something.
    Set(NvccOptionId),
    /// Nothing.
    None,
    /// The option asks for another phase than a device link, or for more: nvcc does it.
    Front,
}

/// One option.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NvccOptionRow {
    /// The name after two dashes; empty if the option has none.
    pub(super) long: &'static str,
    /// The name after one dash.
    pub(super) short: &'static str,
    pub(super) takes: NvccOptionArity,
    pub(super) effect: Effect,
}

const fn row(
    long: &'static str,
    short: &'static str,
    takes: NvccOptionArity,
    effect: Effect,
) -> NvccOptionRow {
    NvccOptionRow { long, short, takes, effect }
}

const STANDARDS: &[&str] = &["c++03", "c++11", "c++14", "c++17", "c++20"];
const STREAMS: &[&str] = &["legacy", "per-thread"];
const FAST: &[&str] = &["0", "min", "mid", "max"];
/// nvcc itself takes any word.
const MODES: &[&str] = &["default", "size", "speed", "balance", "none"];

/// All options, in the order of `nvcc --help`. The last ones are in no help.
#[rustfmt::skip]
pub(super) static TABLE: &[NvccOptionRow] = &[
    row("cuda", "cuda", Nothing, Front),
    row("cubin", "cubin", Nothing, Set(NvccOptionId::Cubin)),
    row("fatbin", "fatbin", Nothing, Set(NvccOptionId::Fatbin)),
    row("ptx", "ptx", Nothing, Front),
    row("optix-ir", "optix-ir", Nothing, Front),
    row("ltoir", "ltoir", Nothing, Front),
    row("preprocess", "E", Nothing, Front),
    row("generate-dependencies", "M", Nothing, Front),
    row("generate-nonsystem-dependencies", "MM", Nothing, Front),
    row("generate-dependencies-with-compile", "MD", Nothing, Front),
    row("generate-nonsystem-dependencies-with-compile", "MMD", Nothing, Front),
    row("dependency-output", "MF", One, Front),
    row("generate-dependency-targets", "MP", Nothing, Front),
    row("compile", "c", Nothing, Front),
    row("device-c", "dc", Nothing, Front),
    row("device-w", "dw", Nothing, Front),
    row("device-link", "dlink", Nothing, Set(NvccOptionId::DeviceLink)),
    row("link", "link", Nothing, Front),
    row("lib", "lib", Nothing, Front),
    row("run", "run", Nothing, Front),
    row("output-file", "o", One, Set(NvccOptionId::Output)),
    row("pre-include", "include", List, None),
    row("objdir-as-tempdir", "objtemp", Nothing, Front),
    row("library", "l", List, Set(NvccOptionId::Library)),
    row("define-macro", "D", List, None),
    row("undefine-macro", "U", List, None),
    row("include-path", "I", List, None),
    row("system-include", "isystem", List, None),
    row("library-path", "L", List, Set(NvccOptionId::LibraryPath)),
    row("output-directory", "odir", One, Front),
    row("compiler-bindir", "ccbin", One, Set(NvccOptionId::HostCompiler)),
    row("allow-unsupported-compiler", "allow-unsupported-compiler", Nothing, None),
    row("archiver-binary", "arbin", One, None),
    row("cudart", "cudart", Choice(&["none", "shared", "static"]), Set(NvccOptionId::CudaRuntime)),
    row("cudadevrt", "cudadevrt", Choice(&["none", "static"]), Set(NvccOptionId::DeviceRuntime)),
    row("libdevice-directory", "ldir", One, Front),
    row("target-directory", "target-dir", One, Front),
    row("use-local-env", "use-local-env", Nothing, None),
    row("force-cl-env-setup", "force-cl-env-setup", Nothing, None),
    row("profile", "pg", Nothing, None),
    row("debug", "g", Nothing, None),
    row("device-debug", "G", Nothing, Set(NvccOptionId::Debug)),
    row("generate-line-info", "lineinfo", Nothing, Set(NvccOptionId::Lineinfo)),
    row("optimization-info", "opt-info", List, Front),
    row("optimize", "O", Number, None),
    row("Ofast-compile", "Ofc", Choice(FAST), Set(NvccOptionId::FastCompile)),
    row("dopt", "dopt", Choice(&["on"]), Set(NvccOptionId::OptimizedDebug)),
    row("dlink-time-opt", "dlto", Nothing, Set(NvccOptionId::Lto)),
    row("lto", "lto", Nothing, Set(NvccOptionId::Lto)),
    row("gen-opt-lto", "gen-opt-lto", Nothing, None),
    row("ftemplate-backtrace-limit", "ftemplate-backtrace-limit", Number, None),
    row("ftemplate-depth", "ftemplate-depth", Number, None),
    row("no-exceptions", "noeh", Nothing, None),
    row("shared", "shared", Nothing, Set(NvccOptionId::Shared)),
    row("x", "x", One, Front),
    row("std", "std", Choice(STANDARDS), None),
    row("no-host-device-initializer-list", "nohdinitlist", Nothing, None),
    row("no-host-device-move-forward", "nohdmoveforward", Nothing, None),
    row("expt-relaxed-constexpr", "expt-relaxed-constexpr", Nothing, None),
    row("extended-lambda", "extended-lambda", Nothing, None),
    row("expt-extended-lambda", "expt-extended-lambda", Nothing, None),
    row("machine", "m", Choice(&["64"]), None),
    row("m64", "m64", Nothing, None),
    row("compiler-options", "Xcompiler", List, Set(NvccOptionId::HostWords)),
    row("linker-options", "Xlinker", List, None),
    row("archive-options", "Xarchive", List, None),
    row("ptxas-options", "Xptxas", List, Set(NvccOptionId::PtxasWords)),
    row("nvlink-options", "Xnvlink", List, Set(NvccOptionId::NvlinkWords)),
    row("static-global-template-stub", "static-global-template-stub", Bool, None),
    row("device-entity-has-hidden-visibility", "device-entity-has-hidden-visibility", Bool, None),
    row("forward-unknown-to-host-compiler", "forward-unknown-to-host-compiler", Nothing, Set(NvccOptionId::ForwardCompiler)),
    row("forward-unknown-to-host-linker", "forward-unknown-to-host-linker", Nothing, Set(NvccOptionId::ForwardLinker)),
    row("forward-unknown-opts", "forward-unknown-opts", Nothing, Set(NvccOptionId::ForwardBoth)),
    row("dont-use-profile", "noprof", Nothing, Front),
    row("dryrun", "dryrun", Nothing, Front),
    row("verbose", "v", Nothing, Set(NvccOptionId::Verbose)),
    row("threads", "t", Number, None),
    row("split-compile", "split-compile", Number, Set(NvccOptionId::SplitCompile)),
    row("split-compile-extended", "split-compile-extended", Number, Set(NvccOptionId::SplitCompileExtended)),
    row("fdevice-syntax-only", "fdevice-syntax-only", Nothing, Front),
    row("fdevice-time-trace", "fdevice-time-trace", One, Front),
    row("keep", "keep", Nothing, Front),
    row("keep-dir", "keep-dir", One, Front),
    row("save-temps", "save-temps", Nothing, Front),
    row("clean-targets", "clean", Nothing, Front),
    row("time", "time", One, Front),
    row("run-args", "run-args", List, Front),
    row("input-drive-prefix", "idp", One, Front),
    row("dependency-drive-prefix", "ddp", One, Front),
    row("drive-prefix", "dp", One, Front),
    row("dependency-target-name", "MT", One, Front),
    row("no-align-double", "", Nothing, Front),
    row("no-device-link", "nodlink", Nothing, Set(NvccOptionId::NoDeviceLink)),
    row("gpu-architecture", "arch", One, Set(NvccOptionId::Arch)),
    row("gpu-code", "code", List, Set(NvccOptionId::Code)),
    row("generate-code", "gencode", One, Set(NvccOptionId::Generate)),
    row("relocatable-device-code", "rdc", Bool, Set(NvccOptionId::RelocatableCode)),
    row("entries", "e", List, None),
    row("maxrregcount", "maxrregcount", Number, Set(NvccOptionId::MaxRegisters)),
    row("use_fast_math", "use_fast_math", Nothing, None),
    row("ftz", "ftz", Bool, None),
    row("prec-div", "prec-div", Bool, None),
    row("prec-sqrt", "prec-sqrt", Bool, None),
    row("fmad", "fmad", Bool, None),
    row("extra-device-vectorization", "extra-device-vectorization", Nothing, None),
    row("default-stream", "default-stream", Choice(STREAMS), None),
    row("disable-warnings", "w", Nothing, Set(NvccOptionId::NoWarnings)),
    row("keep-device-functions", "keep-device-functions", Nothing, None),
    row("source-in-ptx", "src-in-ptx", Nothing, None),
    row("restrict", "restrict", Nothing, None),
    row("Wreorder", "Wreorder", Nothing, None),
    row("Wdefault-stream-launch", "Wdefault-stream-launch", Nothing, None),
    row("Wmissing-launch-bounds", "Wmissing-launch-bounds", Nothing, None),
    row("Wext-lambda-captures-this", "Wext-lambda-captures-this", Nothing, None),
    row("Wno-deprecated-declarations", "Wno-deprecated-declarations", Nothing, None),
    row("Wno-deprecated-gpu-targets", "Wno-deprecated-gpu-targets", Nothing, None),
    row("Werror", "Werror", List, Set(NvccOptionId::Werror)),
    row("resource-usage", "res-usage", Nothing, Set(NvccOptionId::ResourceUsage)),
    row("extensible-whole-program", "ewp", Nothing, Front),
    row("no-compress", "no-compress", Nothing, Set(NvccOptionId::NoCompress)),
    row("qpp-config", "qpp-config", Nothing, Front),
    row("compile-as-tools-patch", "astoolspatch", Nothing, Front),
    row("list-gpu-code", "code-ls", Nothing, Front),
    row("list-gpu-arch", "arch-ls", Nothing, Front),
    row("display-error-number", "err-no", Nothing, None),
    row("no-display-error-number", "no-err-no", Nothing, None),
    row("diag-error", "diag-error", List, Front),
    row("diag-suppress", "diag-suppress", List, Front),
    row("diag-warn", "diag-warn", List, Front),
    row("host-linker-script", "hls", One, Front),
    row("augment-host-linker-script", "aug-hls", Nothing, Front),
    row("relocatable-link", "r", Nothing, Set(NvccOptionId::Relocatable)),
    row("brief-diagnostics", "brief-diag", Bool, None),
    row("jump-table-density", "jtd", Number, None),
    row("relocatable-ptx", "reloc-ptx", Nothing, Front),
    row("device-stack-protector", "device-stack-protector", Bool, None),
    row("compress-mode", "compress-mode", Choice(MODES), Set(NvccOptionId::CompressMode)),
    row("frandom-seed", "frandom-seed", One, None),
    row("sanitize", "sanitize", One, Front),
    row("jobserver", "jobserver", Nothing, None),
    row("help", "h", Nothing, Front),
    row("version", "V", Nothing, Front),
    row("options-file", "optf", List, Set(NvccOptionId::OptionsFile)),
    row("Xfatbin", "Xfatbin", List, Set(NvccOptionId::FatbinaryWords)),
    row("Xcudafe", "Xcudafe", List, None),
    row("Xcicc", "Xcicc", List, None),
];

/// Options whose value may be joined to the name: `-O3`, `-lfoo`.
const JOINED: &[&str] = &["D", "I", "L", "O", "U", "l", "t"];

impl NvccOptionRow {
    /// The row of an option as typed, dashes included: long names follow two dashes, short ones
    /// one.
    pub(super) fn typed(typed: &str) -> Option<&'static NvccOptionRow> {
        let name = typed.strip_prefix('-')?;
        TABLE.iter().find(|row| match name.strip_prefix('-') {
            Some(long) => !long.is_empty() && row.long == long,
            Option::None => !name.is_empty() && row.short == name,
        })
    }

    /// The row of an option whose value may follow its name directly.
    pub(super) fn joined(letter: &str) -> Option<&'static NvccOptionRow> {
        JOINED.contains(&letter).then(|| TABLE.iter().find(|row| row.short == letter)).flatten()
    }

    /// The name by which messages call it.
    pub(super) fn name(&self) -> &'static str {
        if self.long.is_empty() { self.short } else { self.long }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_id_has_a_row() {
        for row in TABLE {
            let same = |other: &&NvccOptionRow| {
                other.long == row.long || (!row.short.is_empty() && other.short == row.short)
            };
            assert_eq!(TABLE.iter().filter(same).count(), 1, "{}", row.long);
        }
        for id in 0..IDS {
            let has = |row: &&NvccOptionRow| matches!(row.effect, Set(set) if set as usize == id);
            assert!(TABLE.iter().any(|row| has(&row)), "{id}");
        }
        assert!(JOINED.iter().all(|letter| NvccOptionRow::joined(letter).is_some()));
    }
}
