//! The grammar of nvcc's command line.
//!
//! In: words. Out: a [`CommandLine`], or an error in nvcc's words. It is nvlink's grammar with
//! other names: `-s=v`, `-s v`, `--long=v` and `--long v` are the same, lists add up and are split
//! at commas, a repeated option with another value warns.

use culd_text::os::OsStrExt;
use std::ffi::{OsStr, OsString};
use std::iter::Peekable;

use super::NvccError;
use super::table::{Effect, IDS, NvccOptionArity, NvccOptionId, NvccOptionRow, TABLE};
use crate::options::budget::{MAX_WORDS, WordBudget};
use crate::options::{UsageError, number, response, split_name};

/// A command line of nvcc.
#[derive(Debug, Default)]
pub(crate) struct CommandLine {
    /// The words that are not options, in order.
    pub(crate) inputs: Vec<OsString>,
    /// The words that look like options but are not in nvcc's table.
    pub(crate) unknown: Vec<OsString>,
    /// Options that ask for more than a device link, as typed.
    pub(crate) beyond: Vec<String>,
    /// Options that were repeated with another value.
    pub(crate) redefined: Vec<&'static str>,
    /// By [`NvccOptionId`]: `None` when the option was not given.
    values: Vec<Option<Vec<OsString>>>,
}

impl CommandLine {
    /// Reads words (without the program's name), and the options files that they name.
    pub(crate) fn parse(words: &[OsString]) -> Result<Self, NvccError> {
        let line = CommandLine { values: vec![None; IDS], ..CommandLine::default() };
        let mut parser =
            NvccParser { line, singles: vec![None; TABLE.len()], budget: WordBudget::default() };
        parser.words(words.iter().cloned().peekable(), 0)?;
        Ok(parser.line)
    }

    pub(crate) fn has(&self, id: NvccOptionId) -> bool {
        self.values[id as usize].is_some()
    }

    /// An option that does not go with others of the line: nvcc warns, or passes on other words.
    pub(crate) fn at_odds(&self) -> Option<&'static str> {
        let given = |id: NvccOptionId| self.has(id);
        let fast = || self.text(NvccOptionId::FastCompile).is_some_and(|value| value != "0");
        let all = || self.list(NvccOptionId::Werror).iter().any(|kind| kind == "all-warnings");
        let debugger = self.is_for_debugger();
        let pairs = [
            ("-Ofc", debugger && fast()),
            ("-lineinfo", debugger && given(NvccOptionId::Lineinfo)),
            ("-split-compile", debugger && given(NvccOptionId::SplitCompile)),
            ("-split-compile-extended", debugger && given(NvccOptionId::SplitCompileExtended)),
            ("-w", given(NvccOptionId::NoWarnings) && all()),
            ("-rdc=false", self.text(NvccOptionId::RelocatableCode) == Some("false")),
        ];
        pairs.into_iter().find(|(_, is_odd)| *is_odd).map(|(option, _)| option)
    }

    /// True for code for a debugger. That of `-G -dopt=on` only has lines of source files.
    pub(crate) fn is_for_debugger(&self) -> bool {
        self.has(NvccOptionId::Debug) && !self.has(NvccOptionId::OptimizedDebug)
    }

    /// The values of a list.
    pub(crate) fn list(&self, id: NvccOptionId) -> &[OsString] {
        self.values[id as usize].as_deref().unwrap_or_default()
    }

    /// The last value of an option that has one.
    pub(crate) fn value(&self, id: NvccOptionId) -> Option<&OsStr> {
        self.list(id).last().map(OsString::as_os_str)
    }

    pub(crate) fn text(&self, id: NvccOptionId) -> Option<&str> {
        self.value(id)?.to_str()
    }
}

struct NvccParser {
    line: CommandLine,
    /// The values of options with one value, by the place of their rows.
    singles: Vec<Option<OsString>>,
    budget: WordBudget,
}

impl NvccParser {
    fn words(
        &mut self,
        mut words: Peekable<impl Iterator<Item = OsString>>,
        depth: usize,
    ) -> Result<(), NvccError> {
        while let Some(word) = words.next() {
            match word.as_bytes() {
                [b'-', _, ..] => self.option(&word, &mut words, depth)?,
                _ => self.line.inputs.push(word),
            }
        }
        Ok(())
    }

    fn option(
        &mut self,
        word: &OsStr,
        rest: &mut Peekable<impl Iterator<Item = OsString>>,
        depth: usize,
    ) -> Result<(), NvccError> {
        let (typed, value) = split_name(word);
        let Some(row) = typed.to_str().and_then(NvccOptionRow::typed) else {
            match joined(word) {
                Some((row, value)) => self.set(row, typed, value, depth)?,
                None => self.line.unknown.push(word.to_owned()),
            }
            return Ok(());
        };
        let name = || culd_text::name(typed);
        if row.takes == NvccOptionArity::Nothing {
            return match value {
                Some(_) => Err(UsageError::NoArgumentExpected(name()).into()),
                None => self.set(row, typed, OsStr::new(""), depth),
            };
        }
        let value = value.map(OsStr::to_owned).or_else(|| rest.next());
        let value = value.ok_or_else(|| UsageError::ArgumentExpected(name()))?;
        self.set(row, typed, &value, depth)
    }

    fn set(
        &mut self,
        row: &'static NvccOptionRow,
        typed: &OsStr,
        value: &OsStr,
        depth: usize,
    ) -> Result<(), NvccError> {
        let values = match row.takes {
            NvccOptionArity::List => self.budget.list(value)?,
            _ => vec![one_value(row, value)?],
        };
        let is_list = row.takes == NvccOptionArity::List;
        match row.effect {
            Effect::None => {}
            Effect::Front => self.line.beyond.push(culd_text::name(typed)),
            Effect::Set(NvccOptionId::OptionsFile) => {
                return values.iter().try_for_each(|file| self.options_file(file, depth));
            }
            Effect::Set(id) => {
                let slot = &mut self.line.values[id as usize];
                match slot {
                    // Its specifications add up; each is a whole.
                    Some(list) if is_list || id == NvccOptionId::Generate => {
                        list.extend(values.clone())
                    }
                    slot => *slot = Some(values.clone()),
                }
            }
        }
        let is_single = !is_list && !matches!(row.effect, Effect::Set(NvccOptionId::Generate));
        if let (true, Some(value)) = (is_single, values.into_iter().next()) {
            let place = TABLE.iter().position(|other| std::ptr::eq(other, row)).unwrap_or_default();
            let before = self.singles[place].replace(value);
            if before.is_some_and(|before| self.singles[place].as_ref() != Some(&before)) {
                self.line.redefined.push(row.name());
            }
        }
        Ok(())
    }

    fn options_file(&mut self, path: &OsStr, depth: usize) -> Result<(), NvccError> {
        let words = self.budget.file(path, depth)?;
        self.words(words.into_iter().peekable(), depth + 1)
    }
}

/// The value of an option that has one, as it is kept.
fn one_value(row: &NvccOptionRow, value: &OsStr) -> Result<OsString, NvccError> {
    let text = value.to_str();
    match row.takes {
        NvccOptionArity::Choice(names) if !text.is_some_and(|text| names.contains(&text)) => {
            let value = culd_text::name(value);
            Err(UsageError::BadValue { value, option: row.name() }.into())
        }
        NvccOptionArity::Bool if !matches!(text, Some("true" | "false")) => {
            Err(UsageError::BoolExpected(culd_text::name(value)).into())
        }
        NvccOptionArity::Number => {
            let text = text.ok_or_else(|| UsageError::NumberExpected(culd_text::name(value)))?;
            Ok(number(text)?.to_string().into())
        }
        _ => Ok(value.to_owned()),
    }
}

/// An option with its value behind its name: `-lfoo`, `-O3`.
fn joined(word: &OsStr) -> Option<(&'static NvccOptionRow, &OsStr)> {
    let (name, value) = word.as_bytes().split_at_checked(2)?;
    let name = culd_text::name(OsStr::from_bytes(name));
    Some((NvccOptionRow::joined(name.strip_prefix('-')?)?, OsStr::from_bytes(value)))
}

/// The words of the text of a variable: `NVCC_APPEND_FLAGS`, or `LIBRARIES` of a profile.
pub(crate) fn words_of(text: &OsStr) -> Result<Vec<OsString>, UsageError> {
    response::words(text.as_bytes(), MAX_WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<CommandLine, NvccError> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        CommandLine::parse(&words)
    }

    #[test]
    fn spellings_are_those_of_nvcc() {
        for line in ["-L/x -L /y", "-L=/x --library-path=/y", "--library-path /x,/y"] {
            assert_eq!(
                parsed(line).unwrap().list(NvccOptionId::LibraryPath),
                ["/x", "/y"],
                "{line}"
            );
        }
        let line = parsed("-O3 -t4 -m64 -DX=1 -lfoo=bar -Xcompiler=-fPIC,-g a.o").unwrap();
        assert_eq!(line.inputs, ["a.o"]);
        assert_eq!(line.list(NvccOptionId::Library), ["foo=bar"]);
        assert_eq!(line.list(NvccOptionId::HostWords), ["-fPIC", "-g"]);
        assert!(line.beyond.is_empty() && line.unknown.is_empty());
        let line = parsed("-fPIC -gencode a,b -gencode=c -keep -r -r --x cu").unwrap();
        assert_eq!(line.unknown, ["-fPIC"]);
        assert_eq!(line.list(NvccOptionId::Generate), ["a,b", "c"]);
        assert_eq!(line.beyond, ["-keep", "--x"]);
        assert!(line.has(NvccOptionId::Relocatable));
        assert_eq!(line.redefined, [""; 0]);
    }

    #[test]
    fn errors_are_reported_as_nvcc_does() {
        let message = |line: &str| parsed(line).map(|_| ()).unwrap_err().to_string();
        for (line, text) in [
            ("-rdc=foo", "'foo': expected true or false"),
            ("-Ofc=2", "Value '2' is not defined for option 'Ofast-compile'"),
            ("-t=x", "'x': expected a number"),
            ("-O3x", "'3x': expected a number"),
            ("-r=true", "no argument expected after '-r'"),
            ("--output-file", "argument expected after '--output-file'"),
        ] {
            assert_eq!(message(line), text);
        }
        assert_eq!(parsed("-o x -o y -o y").unwrap().redefined, ["output-file"]);
        assert!(parsed("-arch=sm_90 -arch=sm_90").unwrap().redefined.is_empty());
    }
}
