//! One row for each option.

use OptionArity::{Bool, Choice, List, Name, Nothing, Number, Path, Target, Text};
use Origin::{Culd, Hidden, Later, Nvlink};

/// The identity of an option.
#[allow(missing_docs, reason = "TABLE says what each option does")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[rustfmt::skip]
pub enum OptionId {
    FastCompile, Xnvvm, Xptxas, Arch, CpuArch, Debug, StackProtector, DisableInfos,
    DisableWarnings, Dlto, DumpCallgraph, DumpCallgraphMangled, EmitPtx, ExtraWarnings,
    HostScript, Help, IgnoreHostInfo, KeepSystemLibraries, KernelsUsed, Library, LibraryPath,
    Lto, Machine, MaxRegisters, NvvmPath, OptionsFile, Output, PreserveRelocs, RegisterFile,
    Relocatable, ReportArch, SplitCompile, SplitCompileExtended, SuppressArchWarning,
    SuppressDebugInfo, SuppressStackSizeWarning, Time, Uidx, UseHostInfo, VariablesUsed,
    Verbose, Version, WarningsAreErrors, ToolsPatch, NvvmLatest, Verbose2,
    AllowUndefinedGlobals, CudaApiVersion, NoSharedReservation, ExtendedShared, ForceRela,
    HostCompiler, NvHost, ReserveNull, Shared, SyscallOffset, ToolName, Uumn, CallGraph, Chroot,
    Color, Cref, DependencyFile, Dialect, ErrorLimit, Map, NoFork, NoNotes, PrintGcSections,
    PrintMemoryUsage, PtxasPath, Report, Reproduce, Stats, Strict, Threads, Trace, TraceSymbol,
    Undefined, Verify, WhyExtract, WhyLive,
}

/// The value of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionArity {
    /// Nothing.
    Nothing,
    /// One value of any form; its name in the help.
    Text(&'static str),
    /// The path of a file or folder: any bytes; its name in the help.
    Path(&'static str),
    /// Values of any bytes, separated by commas; repeated options add up.
    List(&'static str),
    /// One value of any bytes, commas included; repeated options add up.
    Name(&'static str),
    /// One of the listed words.
    Choice(&'static [&'static str]),
    /// The name of a target.
    Target,
    /// A number: decimal, hexadecimal with 0x, octal with 0.
    Number(&'static str),
    /// `true` or `false`.
    Bool,
}

/// The program that an option comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// In `nvlink --help` of 13.0.
    Nvlink,
    /// In `nvlink --help` of 13.5, not of 13.0.
    Later,
    /// Accepted by nvlink 13.0, in no help.
    Hidden,
    /// culd's own.
    Culd,
}

/// culd's support of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// As the help says.
    Full,
    /// Nothing.
    Ignored,
    /// An error: it changes bytes in ways that are not known well enough to reproduce.
    Refused,
}

/// One option.
#[derive(Debug, PartialEq, Eq)]
pub struct OptionRow {
    /// Which one.
    pub id: OptionId,
    /// Name after two dashes.
    pub long: &'static str,
    /// Name after one dash; empty if there is none.
    pub short: &'static str,
    /// Its value.
    pub takes: OptionArity,
    /// The program that has it.
    pub origin: Origin,
    /// Its help, for nvlink or for culd.
    pub help: &'static str,
    /// culd's support of it.
    pub support: Support,
}

const fn row(
    id: OptionId,
    long: &'static str,
    short: &'static str,
    takes: OptionArity,
    origin: Origin,
    help: &'static str,
) -> OptionRow {
    OptionRow { id, long, short, takes, origin, help, support: Support::Full }
}

/// A value of `--cpu-arch` that only later releases know.
pub(crate) const RISCV64: &str = "RISCV64";
const CPU_ARCHS: &[&str] = &["AARCH64", "ARMv7", "PPC64LE", RISCV64, "X86", "X86_64", "unknown"];
const RELEASES: &[&str] = &[
    "auto", "11.8", "12.0", "12.1", "12.2", "12.3", "12.4", "12.5", "12.6", "12.8", "12.9", "13.0",
    "13.1", "13.2", "13.3", "13.4", "13.5",
];
/// The long name of `-r` before 13.0.
pub(super) const HOST_RELOCATABLE: &str = "host-relocatable-link";
const SCRIPTS: &[&str] = &["lcs-abs", "lcs-aug"];

/// All options, by origin and name.
#[rustfmt::skip]
pub const TABLE: &[OptionRow] = &[
    row(OptionId::FastCompile, "Ofast-compile", "Ofc", Text("0|min|mid|max"), Nvlink, "Trade code quality for compilation speed; only with LTO"),
    row(OptionId::Xnvvm, "Xnvvm", "Xnvvm", List("options"), Nvlink, "Options for nvvm; only with LTO"),
    row(OptionId::Xptxas, "Xptxas", "Xptxas", List("options"), Nvlink, "Options for the ptxas that compiles PTX inputs and what LTO-IR becomes"),
    row(OptionId::Arch, "arch", "arch", Target, Nvlink, "Link for this architecture. 'compute_*' checks the inputs and links nothing"),
    row(OptionId::CpuArch, "cpu-arch", "cpu-arch", Choice(CPU_ARCHS), Nvlink, "The host's processor: -l passes over archives without an object for it"),
    row(OptionId::Debug, "debug", "g", Nothing, Nvlink, "Keep dead functions and the symbols of shared variables; compile with -g"),
    row(OptionId::StackProtector, "device-stack-protector", "device-stack-protector", Bool, Nvlink, "Stack protection of what the link compiles: PTX inputs and LTO-IR"),
    row(OptionId::DisableInfos, "disable-infos", "disable-infos", Nothing, Nvlink, "Print no infos, and no warnings about stack sizes, architectures and compatibility"),
    row(OptionId::DisableWarnings, "disable-warnings", "w", Nothing, Nvlink, "Print no warnings about ignored inputs; those of the link itself stay, as in nvlink"),
    row(OptionId::Dlto, "dlto", "dlto", Nothing, Nvlink, "Do link-time optimization; another name of --link-time-opt"),
    row(OptionId::DumpCallgraph, "dump-callgraph", "dump-callgraph", Nothing, Nvlink, "Print the call graph"),
    row(OptionId::DumpCallgraphMangled, "dump-callgraph-no-demangle", "dump-callgraph-no-demangle", Nothing, Nvlink, "Print the call graph with mangled names"),
    row(OptionId::EmitPtx, "emit-ptx", "emit-ptx", Nothing, Nvlink, "Write PTX; only with LTO"),
    row(OptionId::ExtraWarnings, "extra-warnings", "extrawarn", Nothing, Nvlink, "Warn about functions whose address is taken and that no kernel can call"),
    row(OptionId::HostScript, "gen-host-linker-script", "ghls", Choice(SCRIPTS), Nvlink, "Write a linker script for the host: what is to be added to one (lcs-aug), or a whole one (lcs-abs)"),
    row(OptionId::Help, "help", "h", Nothing, Nvlink, "Print this help"),
    row(OptionId::IgnoreHostInfo, "ignore-host-info", "ignore-host-info", Nothing, Nvlink, "Keep kernels that no host code refers to"),
    row(OptionId::KeepSystemLibraries, "keep-system-libraries", "keep-system-libraries", Nothing, Nvlink, "Keep libcudadevrt even where nothing needs it"),
    row(OptionId::KernelsUsed, "kernels-used", "kernels-used", List("kernel"), Nvlink, "Remove kernels other than these. A name is used if it contains the text; '*' stands for anything"),
    row(OptionId::Library, "library", "l", List("name"), Nvlink, "Link libNAME.a of the library paths"),
    row(OptionId::LibraryPath, "library-path", "L", List("folder"), Nvlink, "Look for libraries here"),
    row(OptionId::Lto, "link-time-opt", "lto", Nothing, Nvlink, "Do link-time optimization; without LTO objects it changes nothing"),
    row(OptionId::Machine, "machine", "m", Number("64"), Nvlink, "Address size in bits; only 64 exists"),
    row(OptionId::MaxRegisters, "maxrregcount", "maxrregcount", Number("amount"), Nvlink, "Register limit of what the link compiles: PTX inputs and LTO-IR"),
    row(OptionId::NvvmPath, "nvvmpath", "nvvmpath", Path("folder"), Nvlink, "Where libnvvm is; only with LTO"),
    row(OptionId::OptionsFile, "options-file", "optf", List("file"), Nvlink, "Take further words of the command line from this file"),
    row(OptionId::Output, "output-file", "o", Path("file"), Nvlink, "Write the linked cubin to this file"),
    row(OptionId::PreserveRelocs, "preserve-relocs", "preserve-relocs", Nothing, Nvlink, "Keep a record of every relocation that is applied"),
    row(OptionId::RegisterFile, "register-link-binaries", "", Path("file"), Nvlink, "Write the registration macros of the linked objects to this file"),
    row(OptionId::Relocatable, "relocatable-link", "r", Nothing, Nvlink, "Make one relocatable cubin of several"),
    row(OptionId::ReportArch, "report-arch", "report-arch", Nothing, Nvlink, "Append the target to every message"),
    row(OptionId::SplitCompile, "split-compile", "split-compile", Number("amount"), Nvlink, "Threads of each compilation: PTX inputs and LTO-IR"),
    row(OptionId::SplitCompileExtended, "split-compile-extended", "split-compile-extended", Number("amount"), Nvlink, "Threads of the compiler; only with LTO"),
    row(OptionId::SuppressArchWarning, "suppress-arch-warning", "suppress-arch-warning", Nothing, Nvlink, "Do not warn about inputs without code for the target"),
    row(OptionId::SuppressDebugInfo, "suppress-debug-info", "suppress-debug-info", Nothing, Nvlink, "Recorded; only with -g"),
    row(OptionId::SuppressStackSizeWarning, "suppress-stack-size-warning", "suppress-stack-size-warning", Nothing, Nvlink, "Do not warn about entries of unknown stack size"),
    row(OptionId::Time, "time", "time", Path("file"), Nvlink, "Append the times of compilations and phases to this CSV file; '-' is standard output"),
    row(OptionId::Uidx, "uidx-file", "uidx", Path("file"), Nvlink, "A uidx file"),
    row(OptionId::UseHostInfo, "use-host-info", "use-host-info", Nothing, Nvlink, "Remove kernels that no host code refers to; the default"),
    row(OptionId::VariablesUsed, "variables-used", "variables-used", List("variable"), Nvlink, "Names of used variables; without -kernels-used no kernel is used"),
    row(OptionId::Verbose, "verbose", "v", Nothing, Nvlink, "Print sizes, registers and stack of every entry"),
    row(OptionId::Version, "version", "V", Nothing, Nvlink, "Print the version"),
    row(OptionId::WarningsAreErrors, "warning-as-error", "Werror", Nothing, Nvlink, "Make all warnings into errors"),
    row(OptionId::ToolsPatch, "link-as-tools-patch", "astoolspatch", Nothing, Later, "Keep all functions; each has to be compiled with ptxas -astoolspatch"),
    row(OptionId::NvvmLatest, "nvvm-latest", "nvvm-latest", Nothing, Later, "Which nvvm is used; only with LTO"),
    row(OptionId::Verbose2, "verbose2", "v2", Nothing, Later, "As --verbose"),
    row(OptionId::AllowUndefinedGlobals, "allow-undefined-globals", "allow-undefined-globals", Nothing, Hidden, "Leave undefined variables undefined"),
    row(OptionId::CudaApiVersion, "cuda-api-version", "cuda-api-version", Text("version"), Hidden, "The version of the CUDA API"),
    row(OptionId::NoSharedReservation, "disable-smem-reservation", "disable-smem-reservation", Bool, Hidden, "Keep no shared memory for the system").refused(),
    row(OptionId::ExtendedShared, "enable-extended-smem", "enable-extended-smem", Bool, Hidden, "Allow more static shared memory").refused(),
    row(OptionId::ForceRela, "force-rela", "force-rela", Nothing, Hidden, "Use relocations with addends").refused(),
    row(OptionId::HostCompiler, "host-ccbin", "host-ccbin", Path("file"), Hidden, "The host compiler; asked for its linker script by -ghls=lcs-abs"),
    row(OptionId::NvHost, "nv-host", "nv-host", Path("file"), Hidden, "A host file").refused(),
    row(OptionId::ReserveNull, "reserve-null-pointer", "reserve-null-pointer", Nothing, Hidden, "Keep address 0 unused").refused(),
    row(OptionId::Shared, "shared", "shared", Nothing, Hidden, "Passed by nvcc -shared; changes nothing"),
    row(OptionId::SyscallOffset, "syscall-const-offset", "syscall-const-offset", Number("offset"), Hidden, "Offset of system calls' constants").refused(),
    row(OptionId::ToolName, "tool-name", "tool-name", Text("name"), Hidden, "The name in the tool note, where culd names itself").ignored(),
    row(OptionId::Uumn, "uumn", "uumn", Nothing, Hidden, "Changes nothing in a cubin link"),
    row(OptionId::CallGraph, "callgraph", "callgraph", Path("file"), Culd, "Write the call graph to this file: .dot for Graphviz, or a drawing, .svg"),
    row(OptionId::Chroot, "chroot", "chroot", Path("folder"), Culd, "Look for inputs with absolute paths below this folder; what --reproduce makes uses it"),
    row(OptionId::Color, "color", "color", Choice(&["auto", "always", "never"]), Culd, "Colour the severity of messages; auto: on a terminal, unless NO_COLOR is set"),
    row(OptionId::Cref, "cref", "cref", Nothing, Culd, "Print which inputs define and use each symbol"),
    row(OptionId::DependencyFile, "dependency-file", "dependency-file", Path("file"), Culd, "Write a rule for make with all files that the link has read to this file"),
    row(OptionId::Dialect, "dialect", "dialect", Choice(RELEASES), Culd, "Follow the rules of nvlink of this release; auto: of the toolkit that culd is installed in (install-shadow), else of the newest object"),
    row(OptionId::ErrorLimit, "error-limit", "error-limit", Number("n"), Culd, "Print at most n errors; 0, the default, prints all"),
    row(OptionId::Map, "map", "Map", Path("file"), Culd, "Write a map of the output to this file; '-' is standard output"),
    row(OptionId::NoFork, "no-fork", "no-fork", Nothing, Culd, "Changes nothing: every link is made by the process that was started"),
    row(OptionId::NoNotes, "no-notes", "no-notes", Nothing, Culd, "Print no notes below messages"),
    row(OptionId::PrintGcSections, "print-gc-sections", "print-gc-sections", Nothing, Culd, "Print the functions that nothing needs and that were removed"),
    row(OptionId::PrintMemoryUsage, "print-memory-usage", "print-memory-usage", Nothing, Culd, "Print how full the memories are that have a limit"),
    row(OptionId::PtxasPath, "ptxas-path", "ptxas-path", Path("file"), Culd, "The ptxas that compiles PTX inputs and LTO-IR; else that of the toolkit of -nvvmpath (with -lto), of culd's own folder, of CUDA_HOME or CUDA_PATH, of the Python environment of culd, or one in PATH or beside an nvcc in PATH"),
    row(OptionId::Report, "report", "report", List("file"), Culd, "Write a report of the link (docs/REPORT.md): .json data, .html a page, .txt text; '-' is text on standard output. Repeated options add up"),
    row(OptionId::Reproduce, "reproduce", "reproduce", Path("file"), Culd, "Write an archive, .tar, with all inputs and a script that links them again elsewhere"),
    row(OptionId::Stats, "stats", "stats", Nothing, Culd, "Print counts and times of the link"),
    row(OptionId::Strict, "strict", "strict", Nothing, Culd, "Inputs that are ignored are errors"),
    row(OptionId::Threads, "threads", "threads", Number("n"), Culd, "Use n threads, at most four per core; 0 takes one per core"),
    row(OptionId::Trace, "trace", "trace", Path("file"), Culd, "Write the phases of the link and their times to this file, for Perfetto and chrome://tracing"),
    row(OptionId::TraceSymbol, "trace-symbol", "y", Name("name"), Culd, "Print which inputs define and use this symbol, by its mangled name or its name in the source"),
    row(OptionId::Undefined, "undefined", "u", List("name"), Culd, "Keep this function, and all that it calls, even where nothing reaches it"),
    row(OptionId::Verify, "verify", "verify", Nothing, Culd, "Read the output again with another reader and prove that it is sound before it takes its place"),
    row(OptionId::WhyExtract, "why-extract", "why-extract", Path("file"), Culd, "Write to this file why each member of an archive was linked; '-' is standard output"),
    row(OptionId::WhyLive, "why-live", "why-live", Name("name"), Culd, "Print the shortest way from a kernel to this function, by its mangled name or its name in the source; '*' stands for anything"),
];

impl OptionRow {
    /// Its names with their dashes.
    pub(super) fn names(&self) -> Vec<String> {
        let short = Some(self.short).filter(|short| !short.is_empty());
        let short = short.map(|short| format!("-{short}"));
        short.into_iter().chain([format!("--{}", self.long)]).collect()
    }

    const fn refused(self) -> OptionRow {
        OptionRow { support: Support::Refused, ..self }
    }

    const fn ignored(self) -> OptionRow {
        OptionRow { support: Support::Ignored, ..self }
    }

    /// The row of `id`.
    pub fn of(id: OptionId) -> &'static OptionRow {
        &TABLE[id as usize]
    }

    /// The row of an option as typed, dashes included: long names follow two dashes, short ones
    /// one.
    pub fn typed(typed: &str) -> Option<&'static OptionRow> {
        let name = typed.strip_prefix('-')?;
        TABLE.iter().find(|row| match name.strip_prefix('-') {
            Some(HOST_RELOCATABLE) => row.id == OptionId::Relocatable,
            Some(long) => row.long == long,
            None => row.short == name && !name.is_empty(),
        })
    }

    /// The value that is meant where none follows; most options must have one.
    pub fn default_value(&self) -> Option<&'static str> {
        match self.id {
            OptionId::FastCompile => Some("max"),
            OptionId::HostScript => Some("lcs-abs"),
            _ => None,
        }
    }

    /// The name of the value in the help; empty for a flag.
    pub fn value_name(&self) -> String {
        match self.takes {
            Nothing => String::new(),
            Text(name) | Path(name) | Number(name) | Name(name) => format!("<{name}>"),
            List(name) => format!("<{name}>,..."),
            Choice(names) => format!("<{}>", names.join("|")),
            Target => "<name>".to_owned(),
            Bool => "<true|false>".to_owned(),
        }
    }
}

/// The usage and meaning of each command, for help and manual page.
pub(crate) const COMMANDS: &[(&str, &str)] = &[
    (
        "install-shadow [--remove] <folder> [--cuda <toolkit>]",
        "Make a folder that stands for the toolkit, with culd as its nvlink, or remove it",
    ),
    (
        "device-link <option>... <file>... -o <output>",
        "Make what 'nvcc -dlink' makes, for all architectures at once; --help says more",
    ),
    ("fatbinary <option>...", "Make a fat binary as NVIDIA's fatbinary does"),
    (
        "prune -arch <name> <file> -o <output>",
        "Write an object or archive with the device code for some architectures only",
    ),
    ("cmake", "Print the lines of a toolchain file with which CMake has culd make device links"),
    ("check-shadow <folder>", "Say whether such a folder is in order"),
    (
        "abi-check <file>...",
        "Hold the declarations of PTX files against each other and against the documented ABI",
    ),
    (
        "size [options] <file>...",
        "Show the device code in any program: images, kernels and what they use",
    ),
    (
        "dump [options] <file>",
        "Print a cubin as text, or list, print and extract the images of any program (culd-dump)",
    ),
    ("diff [options] <file> <file>", "Compare two cubins, or the images of programs (culd-diff)"),
    (
        "report diff <before.json> <after.json>",
        "Print what changed between two reports; exit status for thresholds",
    ),
    ("man", "Print the manual page"),
    ("completions <bash|zsh|fish>", "Print completions for a shell"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_where_their_ids_say_and_names_are_unique() {
        for (place, row) in TABLE.iter().enumerate() {
            assert_eq!(row.id as usize, place, "{}", row.long);
            let same = |other: &&OptionRow| {
                other.long == row.long || (!row.short.is_empty() && other.short == row.short)
            };
            assert_eq!(TABLE.iter().filter(same).count(), 1, "{}", row.long);
        }
    }

    #[test]
    fn rows_are_sorted_by_name_inside_an_origin() {
        for pair in TABLE.windows(2) {
            assert!(pair[0].origin != pair[1].origin || pair[0].long < pair[1].long);
        }
    }
}
