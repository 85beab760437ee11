//! The grammar: words to [`Options`].
//!
//! `-s=v`, `-s v`, `--long=v` and `--long v` are the same. Values are joined to a name after
//! `-l`, `-L` and `-m` only. A repeated option with another value warns and the last one counts;
//! lists add up and are split at commas. All this is nvlink's, except `@file`.

use std::iter::Peekable;

use super::check::{check, check_basics, ignores_host_info};
use super::table::{Id, Origin, RISCV64, Row, Takes};
use super::{Newer, Options, Target, UsageError, help, response, version};
use crate::{dialect, files};
use culd_link::Dialect;

/// How many options files may be open at once, one naming the next; nvlink's number.
const MAX_DEPTH: usize = 15;

/// What to do.
#[derive(Debug)]
pub enum Request {
    /// Link.
    Link(Box<Options>),
    /// Write a linker script for the host.
    HostScript(Box<Options>),
    /// Print this and succeed.
    Print(String),
}

/// A command line that was read.
#[derive(Debug)]
pub struct Parsed {
    /// What it asks for.
    pub request: Result<Request, UsageError>,
    /// Options that were repeated with another value, in order: nvlink warns even when the line
    /// is wrong as a whole.
    pub redefined: Vec<&'static str>,
    /// `-use-host-info` is ignored, which nvlink tells even when something else is wrong.
    pub ignores_host_info: bool,
    /// The target, if the line asks that lines tell it. Errors about single words never do.
    pub told_target: Option<String>,
    /// Notes are wanted.
    pub notes: bool,
}

/// Reads a command line (without the program's name), and the options files that it names.
pub fn parse(args: &[String]) -> Parsed {
    let mut parser = Parser { options: Options::new(), redefined: Vec::new() };
    let read = parser.words(args.iter().cloned().peekable(), 0);
    let Parser { options, redefined } = parser;
    let tells = read.is_ok() && options.flag(Id::ReportArch);
    let told_target = options.target.filter(|_| tells).map(|target| target.name());
    let notes = !options.flag(Id::NoNotes);
    let mut ignores_host_info = false;
    let request = read.and_then(|()| finish(options, &mut ignores_host_info));
    Parsed { request, redefined, ignores_host_info, told_target, notes }
}

fn finish(options: Options, ignores: &mut bool) -> Result<Request, UsageError> {
    let release = dialect::chosen(&options);
    if let Some(release) = release {
        options.check_release(release)?;
    }
    if options.flag(Id::Help) {
        return Ok(Request::Print(help()));
    }
    if options.flag(Id::Version) {
        return Ok(Request::Print(version(release.unwrap_or(Dialect::oldest()))));
    }
    if options.text(Id::HostScript).is_some() {
        if !options.inputs.is_empty() {
            return Err(UsageError::InputForScript);
        }
        return Ok(Request::HostScript(Box::new(options)));
    }
    let target = check_basics(&options)?;
    *ignores = ignores_host_info(&options);
    check(&options, target)?;
    Ok(Request::Link(Box::new(options)))
}

struct Parser {
    options: Options,
    redefined: Vec<&'static str>,
}

impl Parser {
    /// Takes in `words`, which come from `depth` options files inside each other.
    fn words(
        &mut self,
        mut words: Peekable<impl Iterator<Item = String>>,
        depth: usize,
    ) -> Result<(), UsageError> {
        while let Some(word) = words.next() {
            if let Some(file) = word.strip_prefix('@').filter(|file| !file.is_empty()) {
                self.options_file(file, depth)?;
            } else if !word.starts_with('-') || word == "-" {
                self.options.inputs.push(word);
            } else {
                self.option(&word, &mut words, depth)?;
            }
        }
        Ok(())
    }

    fn options_file(&mut self, path: &str, depth: usize) -> Result<(), UsageError> {
        if depth == MAX_DEPTH {
            return Err(UsageError::TooManyOptionsFiles(path.to_owned()));
        }
        let refused = |reason: String| UsageError::OptionsFile { path: path.to_owned(), reason };
        let (bytes, _) = files::read(path).map_err(|error| refused(error.to_string()))?;
        // A word that is another afterwards could name another file.
        let text =
            std::str::from_utf8(&bytes).map_err(|error| refused(format!("no UTF-8: {error}")))?;
        let words = response::words(text)?;
        self.words(words.into_iter().peekable(), depth + 1)
    }

    fn option(
        &mut self,
        word: &str,
        rest: &mut Peekable<impl Iterator<Item = String>>,
        depth: usize,
    ) -> Result<(), UsageError> {
        let (typed, value) = match word.split_once('=') {
            Some((typed, value)) => (typed, Some(value.to_owned())),
            None => (word, None),
        };
        let Some(row) = Row::typed(typed) else {
            let (row, value) = joined(word)?;
            return self.set(row, value, depth);
        };
        if row.origin == Origin::Later {
            self.options.newer.push((Newer::Word(row.long), unknown(typed)));
        }
        if row.takes == Takes::Nothing {
            return match value {
                Some(_) => Err(UsageError::NoArgumentExpected(typed.to_owned())),
                None => self.set(row, "", depth),
            };
        }
        if let Some(default) = row.default_value() {
            let value = value.or_else(|| rest.next_if(|word| !word.starts_with('-')));
            return self.set(row, value.as_deref().unwrap_or(default), depth);
        }
        let value = value.or_else(|| rest.next());
        let value = value.ok_or_else(|| UsageError::ArgumentExpected(typed.to_owned()))?;
        self.set(row, &value, depth)
    }

    fn set(&mut self, row: &'static Row, value: &str, depth: usize) -> Result<(), UsageError> {
        let values: Vec<String> = match row.takes {
            Takes::List(_) => response::elements(value)?,
            _ => vec![self.one_value(row, value)?],
        };
        if row.id == Id::OptionsFile {
            // That there was one is told in the tool note; its words stand for themselves.
            self.options.values[row.id as usize] = Some(Vec::new());
            return values.iter().try_for_each(|file| self.options_file(file, depth));
        }
        let slot = &mut self.options.values[row.id as usize];
        match (row.takes, slot) {
            (Takes::List(_), Some(list)) => list.extend(values),
            (_, slot) => {
                if slot.as_ref().is_some_and(|before| *before != values) {
                    self.redefined.push(row.long);
                }
                *slot = Some(values);
            }
        }
        Ok(())
    }

    /// The value in the form in which it is kept and told in the tool note.
    fn one_value(&mut self, row: &'static Row, value: &str) -> Result<String, UsageError> {
        let bad = || UsageError::BadValue { value: value.to_owned(), option: row.long };
        match row.takes {
            Takes::Target => {
                let target = Target::by_name(value).ok_or_else(bad)?;
                if !Dialect::oldest().knows(target.arch()) {
                    self.options.newer.push((Newer::Arch(target.arch()), bad()));
                }
                self.options.target = Some(target);
            }
            Takes::Choice(names) if !names.contains(&value) => return Err(bad()),
            Takes::Choice(_) if value == RISCV64 => {
                self.options.newer.push((Newer::Word(RISCV64), bad()));
            }
            Takes::Bool if value != "true" && value != "false" => {
                return Err(UsageError::BoolExpected(value.to_owned()));
            }
            Takes::Number(_) => {
                let number = number(value)?;
                if row.id == Id::Machine && number != 64 {
                    return Err(bad());
                }
                return Ok(number.to_string());
            }
            _ => {}
        }
        Ok(value.to_owned())
    }
}

/// An option with its value behind its name: `-lfoo`, `-L/lib`, `-m64`.
fn joined(word: &str) -> Result<(&'static Row, &str), UsageError> {
    let refused = || unknown(word.split_once('=').map_or(word, |(typed, _)| typed));
    let (name, value) = word.split_at_checked(2).ok_or_else(refused)?;
    let row = Row::typed(name).ok_or_else(refused)?;
    if !matches!(row.id, Id::Library | Id::LibraryPath | Id::Machine) {
        return Err(refused());
    }
    Ok((row, value))
}

/// nvlink names an unknown option by what follows its first dash.
fn unknown(typed: &str) -> UsageError {
    UsageError::Unknown(typed.strip_prefix('-').unwrap_or(typed).to_owned())
}

/// A number as C's strtol reads it; nothing is 0.
fn number(text: &str) -> Result<i32, UsageError> {
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
    use super::*;

    fn parsed(line: &str) -> Parsed {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn linked(line: &str) -> Options {
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
        assert_eq!(options.list(Id::Library), ["b", "c", "d", "ink"]);
        assert_eq!(options.list(Id::LibraryPath), [".", "/tmp", "lib=2"]);
        assert_eq!(options.number(Id::Machine), Some(64));
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
                assert_eq!(options.text(Id::HostScript), Some("lcs-abs"));
            }
            other => panic!("{line}: {other:?}"),
        }
        let options = linked("-arch=sm_90 -lto -nvvmpath=x a -o x -Ofc mid -Ofc");
        assert_eq!(options.text(Id::FastCompile), Some("max"));
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
        assert!(options.flag(Id::Verbose));
        let error = parsed(&format!("@{}", path("loop"))).request.unwrap_err();
        assert_eq!(error, UsageError::TooManyOptionsFiles(path("loop")));
        let error = parsed("-optf nowhere").request.unwrap_err();
        assert_eq!(error.to_string(), "Could not open options file 'nowhere'");
        std::fs::write(path("latin"), b"-o caf\xe9").unwrap();
        let error = parsed(&format!("-optf {}", path("latin"))).request.unwrap_err();
        assert!(error.notes()[0].starts_with("no UTF-8: "), "{:?}", error.notes());
    }
}
