//! The command line.
//!
//! One table row per option: names, what it takes, help, what it does. The grammar is nvlink's
//! (testdata/cli): `-arch=x`, `-arch x`, `--arch=x` and `--arch x` are the same;
//! values are not joined except for `-m64`; a repeated single-valued option warns and the last
//! one counts.

use std::fmt;

use culd_cubin::arch::{Arch, Flavour};
use thiserror::Error;

/// What an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Nothing.
    Nothing,
    /// One value; the name stands in the help.
    Value(&'static str),
}

/// One option.
pub struct Row {
    /// Name after two dashes.
    pub long: &'static str,
    /// Name after one dash.
    pub short: &'static str,
    /// What it takes.
    pub takes: Takes,
    /// One line for `--help`.
    pub help: &'static str,
    apply: fn(&mut Options, &str) -> Result<(), UsageError>,
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--{} (-{})", self.long, self.short)
    }
}

/// What the command line asks for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Inputs in order.
    pub inputs: Vec<String>,
    /// The target.
    pub arch: Option<&'static Arch>,
    /// The output file.
    pub output: Option<String>,
    /// `-m 64` was given.
    pub machine: bool,
    /// Keep what a debugger wants to see.
    pub debug: bool,
    /// Print sizes.
    pub verbose: bool,
    /// Warnings are errors.
    pub warnings_are_errors: bool,
    /// `-w`: print no warnings. nvlink's stack warning is not one of those.
    pub no_warnings: bool,
    /// Print no infos and no warnings about sizes.
    pub disable_infos: bool,
    /// Do not warn about unknown stack sizes.
    pub suppress_stack_size_warning: bool,
    /// Print nothing below nvlink's lines.
    pub no_notes: bool,
    /// Append the target to every line.
    pub report_arch: bool,
    /// Worker threads; 0: one per core.
    pub threads: usize,
    /// Print the phases and their times.
    pub trace: bool,
    help: bool,
    version: bool,
    /// Options that were repeated with another value.
    redefined: Vec<&'static str>,
    given: Vec<(&'static str, String)>,
}

/// What to do.
#[derive(Debug)]
pub enum Request {
    /// Link.
    Link(Box<Options>),
    /// Print this and succeed.
    Print(String),
}

/// A command line that cannot be followed. Texts are nvlink's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the texts say what the fields are")]
pub enum UsageError {
    #[error("Unknown option '{0}'")]
    Unknown(String),
    #[error("argument expected after '{0}'")]
    ArgumentExpected(String),
    #[error("no argument expected after '{0}'")]
    NoArgumentExpected(String),
    #[error("Value '{value}' is not defined for option '{option}'")]
    BadValue { value: String, option: &'static str },
    #[error("'{0}': expected a number")]
    NumberExpected(String),
    #[error("Unknown arch name '(null)'")]
    NoArch,
    #[error("Must specify output file with -o option")]
    NoOutput,
    #[error("No input files specified; use option --help for more information")]
    NoInput,
    #[error("Target '{0}' is not supported yet: its files carry Mercury capsules")]
    MercuryTarget(String),
    #[error("Option '-{0}' is not supported yet")]
    NotYet(String),
}

const fn flag(
    long: &'static str,
    short: &'static str,
    help: &'static str,
    apply: fn(&mut Options, &str) -> Result<(), UsageError>,
) -> Row {
    Row { long, short, takes: Takes::Nothing, help, apply }
}

const fn value(
    long: &'static str,
    short: &'static str,
    name: &'static str,
    help: &'static str,
    apply: fn(&mut Options, &str) -> Result<(), UsageError>,
) -> Row {
    Row { long, short, takes: Takes::Value(name), help, apply }
}

/// All options that work.
#[rustfmt::skip]
pub const TABLE: &[Row] = &[
    value("arch", "arch", "sm_XY", "Link for this architecture", set_arch),
    flag("debug", "g", "Keep dead functions and the symbols of shared variables", |o, _| { o.debug = true; Ok(()) }),
    flag("disable-infos", "disable-infos", "Print no stack size and compatibility warnings", |o, _| { o.disable_infos = true; Ok(()) }),
    flag("help", "h", "Print this help", |o, _| { o.help = true; Ok(()) }),
    value("machine", "m", "64", "Address size in bits; only 64 exists", set_machine),
    flag("no-notes", "no-notes", "Print no notes that explain a message (culd only)", |o, _| { o.no_notes = true; Ok(()) }),
    value("output-file", "o", "file", "Write the linked cubin to this file", |o, v| { o.output = Some(v.to_owned()); Ok(()) }),
    flag("report-arch", "report-arch", "Append the target to every message", |o, _| { o.report_arch = true; Ok(()) }),
    flag("suppress-stack-size-warning", "suppress-stack-size-warning", "Do not warn about entries of unknown stack size", |o, _| { o.suppress_stack_size_warning = true; Ok(()) }),
    value("threads", "threads", "n", "Use n threads; 0 takes one per core (culd only)", set_threads),
    flag("trace", "trace", "Print the phases of the link and their times (culd only)", |o, _| { o.trace = true; Ok(()) }),
    flag("verbose", "v", "Print sizes, registers and stack of every entry", |o, _| { o.verbose = true; Ok(()) }),
    flag("version", "V", "Print the version", |o, _| { o.version = true; Ok(()) }),
    flag("warning-as-error", "Werror", "Make all warnings into errors", |o, _| { o.warnings_are_errors = true; Ok(()) }),
    flag("disable-warnings", "w", "Accepted; the warnings of a cubin link are not among those it silences", |o, _| { o.no_warnings = true; Ok(()) }),
];

/// Options of nvlink that are known and refused, rather than taken for file names or ignored.
const NOT_YET: &[&str] = &[
    "cpu-arch",
    "device-stack-protector",
    "dlto",
    "dump-callgraph",
    "dump-callgraph-no-demangle",
    "emit-ptx",
    "extrawarn",
    "gen-host-linker-script",
    "ghls",
    "host-ccbin",
    "ignore-host-info",
    "keep-system-libraries",
    "kernels-used",
    "L",
    "l",
    "library",
    "library-path",
    "link-time-opt",
    "lto",
    "maxrregcount",
    "nvvmpath",
    "Ofc",
    "optf",
    "options-file",
    "preserve-relocs",
    "r",
    "register-link-binaries",
    "relocatable-link",
    "shared",
    "split-compile",
    "split-compile-extended",
    "suppress-arch-warning",
    "suppress-debug-info",
    "time",
    "uidx",
    "uidx-file",
    "use-host-info",
    "variables-used",
    "Xnvvm",
    "Xptxas",
];

fn set_arch(options: &mut Options, value: &str) -> Result<(), UsageError> {
    let arch = Arch::by_name(value);
    let bad = || UsageError::BadValue { value: value.to_owned(), option: "arch" };
    options.arch = Some(arch.ok_or_else(bad)?);
    Ok(())
}

fn set_machine(options: &mut Options, value: &str) -> Result<(), UsageError> {
    options.machine = true;
    match value.parse::<u32>() {
        Ok(64) => Ok(()),
        Ok(_) => Err(UsageError::BadValue { value: value.to_owned(), option: "machine" }),
        Err(_) => Err(UsageError::NumberExpected(value.to_owned())),
    }
}

fn set_threads(options: &mut Options, value: &str) -> Result<(), UsageError> {
    let bad = |_| UsageError::NumberExpected(value.to_owned());
    options.threads = value.parse().map_err(bad)?;
    Ok(())
}

/// Reads a command line (without the program's name).
///
/// Checks come in nvlink's order: every option, then the target, the output, the inputs.
pub fn parse(args: &[String]) -> Result<Request, UsageError> {
    let mut options = Options { threads: 0, ..Options::default() };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if !arg.starts_with('-') || arg == "-" {
            options.inputs.push(arg.clone());
        } else {
            option(&mut options, arg, &mut args)?;
        }
    }
    if options.help {
        return Ok(Request::Print(help()));
    }
    if options.version {
        return Ok(Request::Print(version()));
    }
    let arch = options.arch.ok_or(UsageError::NoArch)?;
    if arch.flavour == Flavour::Mercury {
        return Err(UsageError::MercuryTarget(arch.name.to_owned()));
    }
    if options.output.is_none() {
        return Err(UsageError::NoOutput);
    }
    if options.inputs.is_empty() {
        return Err(UsageError::NoInput);
    }
    Ok(Request::Link(Box::new(options)))
}

fn option<'a>(
    options: &mut Options,
    arg: &str,
    rest: &mut impl Iterator<Item = &'a String>,
) -> Result<(), UsageError> {
    let (typed, joined) = match arg.split_once('=') {
        Some((typed, value)) => (typed, Some(value.to_owned())),
        None => (arg, None),
    };
    if typed == "-m64" && joined.is_none() {
        return apply(options, row_of("-m").ok_or(UsageError::NoArch)?, "64");
    }
    let Some(row) = row_of(typed) else {
        let name = typed.trim_start_matches('-');
        // -lfoo and -Lfolder are the only joined values.
        let library = typed.starts_with("-l") || typed.starts_with("-L");
        let known = library || NOT_YET.contains(&name);
        // nvlink names an unknown option by what follows its first dash.
        let shown = arg.strip_prefix('-').unwrap_or(arg).to_owned();
        return Err(if known {
            UsageError::NotYet(name.to_owned())
        } else {
            UsageError::Unknown(shown)
        });
    };
    match row.takes {
        Takes::Nothing if joined.is_some() => Err(UsageError::NoArgumentExpected(typed.to_owned())),
        Takes::Nothing => apply(options, row, ""),
        Takes::Value(_) => {
            let value = joined.or_else(|| rest.next().cloned());
            let value = value.ok_or_else(|| UsageError::ArgumentExpected(typed.to_owned()))?;
            apply(options, row, &value)
        }
    }
}

/// The row of an option as typed: long names follow two dashes or one, short names one.
fn row_of(typed: &str) -> Option<&'static Row> {
    let name = typed.strip_prefix("--");
    let short = typed.strip_prefix('-').filter(|_| name.is_none());
    TABLE.iter().find(|row| name == Some(row.long) || short == Some(row.short))
}

fn apply(options: &mut Options, row: &'static Row, value: &str) -> Result<(), UsageError> {
    if let Some(before) = options.given.iter().find(|given| given.0 == row.long)
        && before.1 != value
    {
        options.redefined.push(row.long);
    }
    options.given.push((row.long, value.to_owned()));
    (row.apply)(options, value)
}

impl Options {
    /// Options that were given twice with different values, in order.
    pub fn redefined(&self) -> &[&'static str] {
        &self.redefined
    }

    /// What the tool note calls the output: its name with `-g`, else nothing.
    pub fn object_name(&self) -> &str {
        self.output.as_deref().filter(|_| self.debug).map_or("", base_name)
    }

    /// The options as the tool note of an output tells them: nvlink's words and order.
    pub fn normalised(&self) -> String {
        let mut line = String::new();
        if self.debug {
            let names: Vec<&str> = self.inputs.iter().map(|path| base_name(path)).collect();
            line.push_str(&format!("{} ", names.join(",")));
        }
        let made = format!("-o {} -g  ", self.object_name());
        let mut flag = |given: bool, text: &str| {
            if given {
                line.push_str(text);
            }
        };
        flag(self.suppress_stack_size_warning, "-suppress-stack-size-warning  ");
        flag(self.debug, &made);
        let arch = self.arch.map_or(String::new(), |arch| format!("-arch {} ", arch.name));
        flag(true, &arch);
        flag(self.machine, "-m 64 ");
        flag(self.verbose, "-v  ");
        flag(self.no_warnings, "-w  ");
        flag(self.disable_infos, "-disable-infos  ");
        flag(self.warnings_are_errors, "-Werror  ");
        flag(self.report_arch, "-report-arch  ");
        line
    }
}

/// The last component of a path.
fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn help() -> String {
    let mut text = String::from("Usage: culd [options] -arch=sm_XY -o <output> <cubin>...\n\n");
    text.push_str("Links NVIDIA cubins made with 'nvcc -dc -cubin' or 'ptxas -c'.\n\nOptions:\n");
    for row in TABLE {
        let takes = match row.takes {
            Takes::Nothing => String::new(),
            Takes::Value(name) => format!(" <{name}>"),
        };
        let names = format!("--{} (-{}){takes}", row.long, row.short);
        text.push_str(&format!("  {names:<64} {}\n", row.help));
    }
    text
}

fn version() -> String {
    format!(
        "culd {}: an open linker for NVIDIA cubins\nFollows the rules of nvlink, release 13.0, V13.0.88\n",
        crate::VERSION
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Result<Request, UsageError> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn linked(line: &str) -> Options {
        match args(line) {
            Ok(Request::Link(options)) => *options,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn no_option_both_works_and_is_refused() {
        let works =
            |name: &&&str| TABLE.iter().any(|row| row.long == **name || row.short == **name);
        assert_eq!(NOT_YET.iter().find(works), None);
    }

    #[test]
    fn four_spellings_are_the_same() {
        for arch in ["-arch=sm_90", "-arch sm_90", "--arch=sm_90", "--arch sm_90"] {
            let options = linked(&format!("{arch} a.cubin -o x b.cubin"));
            assert_eq!(options.arch.map(|arch| arch.name), Some("sm_90"));
            assert_eq!(options.inputs, ["a.cubin", "b.cubin"]);
        }
    }

    #[test]
    fn bad_lines_are_answered_as_nvlink_does() {
        let cases = [
            ("-bogus", "Unknown option 'bogus'"),
            ("--bogus", "Unknown option '-bogus'"),
            ("-ofile", "Unknown option 'ofile'"),
            ("-arch=sm_99 a", "Value 'sm_99' is not defined for option 'arch'"),
            ("-arch=sm_90 a -o", "argument expected after '-o'"),
            ("--verbose=true", "no argument expected after '--verbose'"),
            ("a.cubin", "Unknown arch name '(null)'"),
            ("-arch=sm_90 a.cubin", "Must specify output file with -o option"),
            (
                "-arch=sm_90 -o x",
                "No input files specified; use option --help for more information",
            ),
        ];
        for (line, text) in cases {
            assert_eq!(args(line).err().map(|error| error.to_string()).as_deref(), Some(text));
        }
    }

    #[test]
    fn a_known_option_that_does_nothing_yet_is_refused() {
        assert_eq!(args("-arch=sm_90 -r a -o x").err(), Some(UsageError::NotYet("r".to_owned())));
    }

    #[test]
    fn the_note_tells_options_in_a_fixed_order() {
        let options = linked("-v -m64 -arch=sm_75 -suppress-stack-size-warning a -o x");
        let text = "-suppress-stack-size-warning  -arch sm_75 -m 64 -v  ";
        assert_eq!(options.normalised(), text);
    }

    #[test]
    fn a_second_value_wins_and_is_noted() {
        let options = linked("-arch=sm_90 -arch=sm_80 -o x -o x a");
        assert_eq!(options.arch.map(|arch| arch.name), Some("sm_80"));
        assert_eq!(options.redefined(), ["arch"]);
    }
}
