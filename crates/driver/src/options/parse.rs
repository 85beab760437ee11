//! The grammar: words to [`CommandOptions`].
//!
//! `-s=v`, `-s v`, `--long=v` and `--long v` are the same. Values are joined to a name after
//! `-l`, `-L` and `-m` only. A repeated option with another value warns and the last one counts;
//! lists add up and are split at commas. All this is nvlink's, except `@file`.

use culd_text::os::OsStrExt;
use std::ffi::{OsStr, OsString};
use std::iter::Peekable;

use super::budget::WordBudget;
use super::check::{check, conflicts, emits_in_one_text, ignores_host_info, required};
use super::table::{HOST_RELOCATABLE, OptionArity, OptionId, OptionRow, RISCV64};
use super::{CommandOptions, NewerWord, ReleaseWord, Target, UsageError, dialect, help, version};
use crate::toolkit::marker;
use culd_link::{DIALECTS, Dialect};

/// The parsed command line.
#[derive(Debug)]
pub enum Request {
    /// Link.
    Link(Box<CommandOptions>),
    /// Write a linker script for the host.
    HostScript(Box<CommandOptions>),
    /// Print this and succeed.
    Print(String),
}

/// A command line that was read.
#[derive(Debug)]
pub struct ParsedCommandLine {
    /// The request.
    pub request: Result<Request, UsageError>,
    /// Options that were repeated with another value, in order: nvlink warns even when the line
    /// is wrong as a whole.
    pub redefined: Vec<&'static str>,
    /// Options that are ignored because of others; nvlink reports them even if there is an error
    /// behind.
    pub ignored: Vec<IgnoredOption>,
    /// The target, if the line asks for it in messages. Errors about single words never have it.
    pub reported_target: Option<String>,
    /// Notes are wanted.
    pub notes: bool,
    /// When severities are in colour: `always`, `never`, or as the terminal is.
    pub color: Option<String>,
}

/// An option that does not count because of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IgnoredOption {
    /// `-use-host-info`, because options name the used kernels or variables.
    HostInfo,
    /// `-split-compile-extended`, because of `-emit-ptx`.
    ThreadsOfLink,
}

/// Reads a command line (without the program's name), and the options files that it names.
pub fn parse(args: &[impl AsRef<OsStr>]) -> ParsedCommandLine {
    let mut parser = OptionParser {
        options: CommandOptions::new(),
        redefined: Vec::new(),
        ptxas: Vec::new(),
        budget: WordBudget::default(),
    };
    let read = match args.is_empty() {
        true => Err(UsageError::Nothing),
        false => parser.words(args.iter().map(|word| word.as_ref().to_owned()).peekable(), 0),
    };
    let OptionParser { mut options, mut redefined, mut ptxas, .. } = parser;
    options.shadow = marker::own();
    options.release = dialect::chosen(&options);
    // Where a word is wrong, these are the words in front of it: one of them that the release does
    // not know is wrong, too, and the first.
    let refused = options.refused_by(options.release).cloned();
    if let Some(word) = &refused {
        redefined.truncate(word.redefined);
        ptxas.truncate(word.ptxas);
    }
    if options.release.is_some_and(|release| !release.lists_ptxas_options) {
        last_of_ptxas(&mut options, &mut redefined, ptxas);
    }
    let read = refused.map_or(read, |word| Err(word.error));
    let reports_arch = read.is_ok() && options.flag(OptionId::ReportArch);
    let reported_target = options.target.filter(|_| reports_arch).map(|target| target.name());
    let notes = !options.flag(OptionId::NoNotes);
    let color = options.text(OptionId::Color).map(str::to_owned);
    let mut ignored = Vec::new();
    let request = read.and_then(|()| finish(options, &mut ignored));
    ParsedCommandLine { request, redefined, ignored, reported_target, notes, color }
}

/// The request of `options`, all of whose words are known.
fn finish(
    options: CommandOptions,
    ignored: &mut Vec<IgnoredOption>,
) -> Result<Request, UsageError> {
    let release = options.release;
    if options.flag(OptionId::Help) {
        return Ok(Request::Print(help()));
    }
    if options.flag(OptionId::Version) {
        return Ok(Request::Print(version(release.unwrap_or(Dialect::usual()))));
    }
    let early = release.is_some_and(|release| release.checks_conflicts_first);
    let check_pairs = |ignored: &mut Vec<IgnoredOption>| {
        conflicts(&options)?;
        ignored.extend(ignores_host_info(&options).then_some(IgnoredOption::HostInfo));
        Ok(())
    };
    if early {
        check_pairs(ignored)?;
    }
    if options.text(OptionId::HostScript).is_some() {
        if !options.inputs.is_empty() {
            return Err(UsageError::InputForScript);
        }
        return Ok(Request::HostScript(Box::new(options)));
    }
    let required = required(&options);
    if required.is_ok() && !early {
        check_pairs(ignored)?;
    }
    let target = required?;
    ignored.extend(emits_in_one_text(&options).then_some(IgnoredOption::ThreadsOfLink));
    check(&options, target)?;
    Ok(Request::Link(Box::new(options)))
}

/// Makes `-Xptxas`, whose values `ptxas` are, an option with one value, which is not cut at commas.
fn last_of_ptxas(
    options: &mut CommandOptions,
    redefined: &mut Vec<&'static str>,
    ptxas: Vec<PtxasValue>,
) {
    // From the back, because a line moves those behind it.
    for (before, value) in ptxas.iter().zip(ptxas.iter().skip(1)).rev() {
        if before.words != value.words {
            redefined.insert(value.place, OptionRow::of(OptionId::Xptxas).long);
        }
    }
    if let Some(last) = ptxas.into_iter().next_back() {
        options.values[OptionId::Xptxas as usize] = Some(vec![last.words]);
    }
}

/// A value of `-Xptxas` as it was typed.
struct PtxasValue {
    words: OsString,
    /// The number of lines about repeated options in front of it.
    place: usize,
}

struct OptionParser {
    options: CommandOptions,
    redefined: Vec<&'static str>,
    /// Which of these count depends on the release.
    ptxas: Vec<PtxasValue>,
    budget: WordBudget,
}

impl OptionParser {
    /// Takes in `words`, which come from `depth` options files inside each other.
    fn words(
        &mut self,
        mut words: Peekable<impl Iterator<Item = OsString>>,
        depth: usize,
    ) -> Result<(), UsageError> {
        while let Some(word) = words.next() {
            match word.as_bytes() {
                [b'@', file @ ..] if !file.is_empty() => {
                    self.options_file(OsStr::from_bytes(file), depth)?;
                }
                [b'-', _, ..] => self.option(&word, &mut words, depth)?,
                _ => self.options.inputs.push(word),
            }
        }
        Ok(())
    }

    fn options_file(&mut self, path: &OsStr, depth: usize) -> Result<(), UsageError> {
        let words = self.budget.file(path, depth)?;
        self.words(words.into_iter().peekable(), depth + 1)
    }

    fn option(
        &mut self,
        word: &OsStr,
        rest: &mut Peekable<impl Iterator<Item = OsString>>,
        depth: usize,
    ) -> Result<(), UsageError> {
        let (typed, value) = split_name(word);
        let Some(row) = typed.to_str().and_then(OptionRow::typed) else {
            let (row, value) = joined(word)?;
            return self.set(row, value, depth);
        };
        let typed_name = || culd_text::name(typed);
        // `-r` has two long names, the first before 13.0 (`testdata/cli/dialects.toml`).
        let long = match typed.to_str().and_then(|typed| typed.strip_prefix("--")) {
            Some(HOST_RELOCATABLE) => HOST_RELOCATABLE,
            Some(_) => row.long,
            None if row.id == OptionId::Relocatable => "",
            None => row.long,
        };
        if DIALECTS.iter().any(|release| release.has_word(long)) {
            self.newer(ReleaseWord::Word(long), unknown(&typed_name()));
        }
        if row.takes == OptionArity::Nothing {
            return match value {
                Some(_) => Err(UsageError::NoArgumentExpected(typed_name())),
                None => self.set(row, OsStr::new(""), depth),
            };
        }
        let value = value.map(OsStr::to_owned);
        if let Some(default) = row.default_value() {
            let is_value = |word: &OsString| !word.as_bytes().starts_with(b"-");
            let value = value.or_else(|| rest.next_if(is_value));
            return self.set(row, value.as_deref().unwrap_or(OsStr::new(default)), depth);
        }
        let value = value.or_else(|| rest.next());
        let value = value.ok_or_else(|| UsageError::ArgumentExpected(typed_name()))?;
        self.set(row, &value, depth)
    }

    fn set(
        &mut self,
        row: &'static OptionRow,
        value: &OsStr,
        depth: usize,
    ) -> Result<(), UsageError> {
        let values: Vec<OsString> = match row.takes {
            OptionArity::List(_) => match self.budget.list(value) {
                Err(error @ UsageError::Stray(_)) if row.id == OptionId::Xptxas => {
                    self.newer(ReleaseWord::OneOfPtxas, error);
                    Vec::new()
                }
                values => values?,
            },
            OptionArity::Path(_) | OptionArity::Name(_) => vec![value.to_owned()],
            _ => vec![self.one_value(row, value)?.into()],
        };
        if row.id == OptionId::Xptxas {
            let place = self.redefined.len();
            self.ptxas.push(PtxasValue { words: value.to_owned(), place });
        }
        if row.id == OptionId::OptionsFile {
            // The tool note records that there was one; its words are parsed like others.
            self.options.values[row.id as usize] = Some(Vec::new());
            return values.iter().try_for_each(|file| self.options_file(file, depth));
        }
        let slot = &mut self.options.values[row.id as usize];
        match (row.takes, slot) {
            (OptionArity::List(_) | OptionArity::Name(_), Some(list)) => list.extend(values),
            (_, slot) => {
                if slot.as_ref().is_some_and(|before| *before != values) {
                    self.redefined.push(row.long);
                }
                *slot = Some(values);
            }
        }
        Ok(())
    }

    /// Notes that this word is the `error` of releases without what it `needs`.
    fn newer(&mut self, needs: ReleaseWord, error: UsageError) {
        let (redefined, ptxas) = (self.redefined.len(), self.ptxas.len());
        self.options.newer.push(NewerWord { needs, error, redefined, ptxas });
    }

    /// The value as it is stored and recorded in the tool note.
    fn one_value(&mut self, row: &'static OptionRow, value: &OsStr) -> Result<String, UsageError> {
        let bad = || UsageError::BadValue { value: culd_text::name(value), option: row.long };
        let Some(value) = value.to_str() else {
            return Err(match row.takes {
                OptionArity::Bool => UsageError::BoolExpected(culd_text::name(value)),
                OptionArity::Number(_) => UsageError::NumberExpected(culd_text::name(value)),
                _ => bad(),
            });
        };
        match row.takes {
            OptionArity::Target => {
                let target = Target::by_name(value).ok_or_else(bad)?;
                if !DIALECTS.iter().all(|release| release.knows(target.arch())) {
                    self.newer(ReleaseWord::Arch(target.arch()), bad());
                }
                self.options.target = Some(target);
            }
            OptionArity::Choice(names) if !names.contains(&value) => return Err(bad()),
            OptionArity::Choice(_) if value == RISCV64 => {
                self.newer(ReleaseWord::Word(RISCV64), bad());
            }
            OptionArity::Bool if value != "true" && value != "false" => {
                return Err(UsageError::BoolExpected(value.to_owned()));
            }
            OptionArity::Number(_) => {
                let number = number(value)?;
                if row.id == OptionId::Machine && number != 64 {
                    return Err(bad());
                }
                return Ok(number.to_string());
            }
            _ => {}
        }
        Ok(value.to_owned())
    }
}

/// The parts of a word in front of its `=` and behind it.
pub(crate) fn split_name(word: &OsStr) -> (&OsStr, Option<&OsStr>) {
    let bytes = word.as_bytes();
    match bytes.iter().position(|&byte| byte == b'=') {
        Some(at) => (OsStr::from_bytes(&bytes[..at]), Some(OsStr::from_bytes(&bytes[at + 1..]))),
        None => (word, None),
    }
}

/// An option with its value behind its name: `-lfoo`, `-L/lib`, `-m64`.
fn joined(word: &OsStr) -> Result<(&'static OptionRow, &OsStr), UsageError> {
    let refused = || unknown(&culd_text::name(split_name(word).0));
    let (name, value) = word.as_bytes().split_at_checked(2).ok_or_else(refused)?;
    let row = std::str::from_utf8(name).ok().and_then(OptionRow::typed).ok_or_else(refused)?;
    if !matches!(row.id, OptionId::Library | OptionId::LibraryPath | OptionId::Machine) {
        return Err(refused());
    }
    Ok((row, OsStr::from_bytes(value)))
}

/// nvlink names an unknown option without its first dash.
fn unknown(typed: &str) -> UsageError {
    UsageError::Unknown(typed.strip_prefix('-').unwrap_or(typed).to_owned())
}

/// A number as C's strtol reads it; an empty text is 0.
pub(crate) fn number(text: &str) -> Result<i32, UsageError> {
    if text.is_empty() {
        return Ok(0);
    }
    let whole = text;
    let text = text.trim_start();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let hexadecimal = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let (digits, radix) = match (hexadecimal, digits.strip_prefix('0')) {
        (Some(hexadecimal), _) => (hexadecimal, 16),
        (None, Some(octal)) if !octal.is_empty() => (octal, 8),
        _ => (digits, 10),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(UsageError::NumberExpected(whole.to_owned()));
    }
    let size = i64::from_str_radix(digits, radix);
    let number = size.map(|size| if text.starts_with('-') { -size } else { size });
    let number = number.ok().and_then(|number| i32::try_from(number).ok());
    number.ok_or_else(|| UsageError::NumberTooLarge(whole.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::budget::{MAX_BYTES, MAX_WORDS};
    use super::*;
    use std::path::Path;

    fn parsed(line: &str) -> ParsedCommandLine {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn linked(line: &str) -> CommandOptions {
        match parsed(line).request {
            Ok(Request::Link(options)) => *options,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn four_spellings_are_the_same() {
        for arch in ["-arch=sm_90", "-arch sm_90", "--arch=sm_90", "--arch sm_90"] {
            let options = linked(&format!("{arch} a.cubin -o x b.cubin"));
            assert_eq!(options.target.map(Target::name).as_deref(), Some("sm_90"));
            assert_eq!(options.inputs, ["a.cubin", "b.cubin"]);
        }
    }

    #[test]
    fn lists_are_split_and_add_up_and_three_options_take_joined_values() {
        let options = linked("-arch=sm_90 -lb,c -o x -l d -L.,/tmp -Llib=2 -m64 -link a");
        assert_eq!(options.list(OptionId::Library), ["b", "c", "d", "ink"]);
        assert_eq!(options.list(OptionId::LibraryPath), [".", "/tmp", "lib=2"]);
        assert_eq!(options.number(OptionId::Machine), Some(64));
    }

    #[test]
    fn numbers_are_read_as_in_c() {
        for (text, value) in [
            ("032", 26),
            ("0x3", 3),
            ("0X3", 3),
            ("-3", -3),
            ("0", 0),
            (" +64", 64),
            ("", 0),
            ("2147483647", i32::MAX),
        ] {
            assert_eq!(number(text), Ok(value));
        }
        for text in ["0x", "08", "1k", "-", "64 "] {
            assert_eq!(number(text), Err(UsageError::NumberExpected(text.to_owned())));
        }
        let large = "99999999999".to_owned();
        assert_eq!(number(&large), Err(UsageError::NumberTooLarge(large)));
    }

    #[test]
    fn two_options_take_a_value_if_there_is_one() {
        let line = "-ghls -o x";
        match parsed(line).request {
            Ok(Request::HostScript(options)) => {
                assert_eq!(options.text(OptionId::HostScript), Some("lcs-abs"));
            }
            other => panic!("{line}: {other:?}"),
        }
        let options = linked("-arch=sm_90 -lto -nvvmpath=x a -o x -Ofc mid -Ofc");
        assert_eq!(options.text(OptionId::FastCompile), Some("max"));
        let error = parsed("-ghls k.cubin").request.unwrap_err();
        let value = "k.cubin".to_owned();
        assert_eq!(error, UsageError::BadValue { value, option: "gen-host-linker-script" });
    }

    #[test]
    fn bad_lines_are_answered_as_nvlink_does() {
        let cases = [
            ("-bogus", "Unknown option 'bogus'"),
            ("--bogus", "Unknown option '-bogus'"),
            ("--", "Unknown option '-'"),
            ("-ofile", "Unknown option 'ofile'"),
            ("-output-file x", "Unknown option 'output-file'"),
            ("--o x", "Unknown option '-o'"),
            ("-register-link-binaries=x", "Unknown option 'register-link-binaries'"),
            ("-arch=sm_99 a", "Value 'sm_99' is not defined for option 'arch'"),
            ("-arch=sm_90 a -o", "argument expected after '-o'"),
            ("--verbose=true", "no argument expected after '--verbose'"),
            ("-merc", "'erc': expected a number"),
            ("-machine=64", "'achine=64': expected a number"),
            ("-m32", "Value '32' is not defined for option 'machine'"),
            ("-cpu-arch=Z80", "Value 'Z80' is not defined for option 'cpu-arch'"),
            ("-device-stack-protector=maybe", "'maybe': expected true or false"),
            ("a.cubin", "Unknown arch name '(null)'"),
            ("-arch=sm_90 a.cubin", "Must specify output file with -o option"),
            (
                "-arch=sm_90 -o x",
                "No input files specified; use option --help for more information",
            ),
        ];
        for (line, text) in cases {
            let error = parsed(line).request.err().map(|error| error.to_string());
            assert_eq!(error.as_deref(), Some(text), "{line}");
        }
    }

    #[test]
    fn a_second_value_wins_and_is_noted() {
        let parsed = parsed("-arch=sm_90 -arch=sm_80 -o x -o x -l a -l b -v -v a -bogus");
        assert_eq!(parsed.redefined, ["arch"]);
        assert!(parsed.request.is_err());
    }

    #[test]
    fn options_files_are_read_in_place_and_may_not_run_in_circles() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(path("in"), "c \"d e\"").unwrap();
        std::fs::write(path("out"), format!("b @{}\n-v", path("in"))).unwrap();
        std::fs::write(path("loop"), format!("-optf {}", path("loop"))).unwrap();
        let options = linked(&format!("-arch=sm_90 a -optf {} f -o x", path("out")));
        assert_eq!(options.inputs, ["a", "b", "c", "d e", "f"]);
        assert!(options.flag(OptionId::Verbose));
        let error = parsed(&format!("@{}", path("loop"))).request.unwrap_err();
        assert_eq!(error, UsageError::TooManyOptionsFiles(path("loop")));
        let error = parsed("-optf nowhere").request.unwrap_err();
        assert_eq!(error.to_string(), "Could not open options file 'nowhere'");
    }

    #[test]
    fn names_are_any_bytes_and_values_that_are_words_are_text() {
        let bytes = |words: &[&[u8]]| {
            let words: Vec<&OsStr> = words.iter().map(|word| OsStr::from_bytes(word)).collect();
            parse(&words).request.map(|request| match request {
                Request::Link(options) => *options,
                other => panic!("{other:?}"),
            })
        };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(OsStr::from_bytes(b"\xff"));
        std::fs::write(&file, b"-L l\xe9 -l=\xe8,x").unwrap();
        let optf = [b"@", file.as_os_str().as_bytes()].concat();
        let line: &[&[u8]] = &[b"-arch=sm_90", b"caf\xe9", b"-o", b"d\xe9/o\xea", &optf, b"-g"];
        let options = bytes(line).unwrap();
        assert_eq!(options.inputs, [OsStr::from_bytes(b"caf\xe9")]);
        assert_eq!(options.output(), Some(Path::new(OsStr::from_bytes(b"d\xe9/o\xea"))));
        assert_eq!(options.list(OptionId::LibraryPath), [OsStr::from_bytes(b"l\xe9")]);
        assert_eq!(options.list(OptionId::Library), [OsStr::from_bytes(b"\xe8"), OsStr::new("x")]);
        assert_eq!(options.object_name(), "o\\xea");
        for (word, message) in [
            (&b"-arch=\xff"[..], "Value '\\xff' is not defined for option 'arch'"),
            (b"-m=\xff", "'\\xff': expected a number"),
            (b"-device-stack-protector=\xff", "'\\xff': expected true or false"),
            (b"-Ofc=\xff", "Value '\\xff' is not defined for option 'Ofast-compile'"),
            (b"-\xff=x", "Unknown option '\\xff'"),
        ] {
            assert_eq!(bytes(&[word]).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn options_files_have_limits_however_often_each_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let write = |name: &str, text: String| std::fs::write(path(name), text).unwrap();
        let message = |line: &str| parsed(line).request.map(|_| ()).unwrap_err().to_string();
        for level in 0..12 {
            let next = path(&format!("f{}", level + 1));
            write(&format!("f{level}"), format!("@{next} @{next}"));
        }
        write("f12", "a".to_owned());
        assert!(message(&format!("@{}", path("f0"))).starts_with("Too many options file opened '"));
        let full = "a ".repeat(MAX_WORDS);
        write("full", full.clone());
        assert_eq!(linked(&format!("-arch=sm_90 -o x @{}", path("full"))).inputs.len(), MAX_WORDS);
        write("more", full + "a");
        for line in [path("more"), format!("{} @{}", path("full"), path("f12"))] {
            assert_eq!(message(&format!("@{line}")), "Too many words in options files and lists");
        }
        write("list", format!("-l {}", "a,".repeat(MAX_WORDS)));
        assert_eq!(
            message(&format!("@{}", path("list"))),
            "Too many words in options files and lists"
        );
        write("long", " ".repeat(MAX_BYTES as usize + 1));
        assert!(
            message(&format!("@{}", path("long"))).starts_with("Could not open options file '")
        );
        let half = " ".repeat(MAX_BYTES as usize / 2 + 1);
        write("half", half);
        let line = format!("@{0} @{0}", path("half"));
        assert!(message(&line).starts_with("Could not open options file '"));
    }

    #[test]
    fn an_empty_command_line_gets_usage() {
        let error = parsed("").request.unwrap_err();
        assert!(error.to_string().starts_with("No input files specified; "));
        assert!(error.notes()[0].starts_with("usage: culd -arch="), "{:?}", error.notes());
    }
}
