//! Options of tasks: `--name value`, `--name=value`, `--flag` and operands.
//!
//! In: the words after the task name. Out: values by name. Guaranteed: [`Args::finish`] refuses
//! what no one asked for.

use anyhow::{Context, Result, bail};
use std::ops::Range;
use std::str::FromStr;

/// The words not yet consumed.
#[derive(Debug)]
pub(crate) struct Args {
    words: Vec<String>,
}

impl Args {
    pub(crate) fn new(words: Vec<String>) -> Self {
        Self { words }
    }

    /// True if the flag was given.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let before = self.words.len();
        self.words.retain(|word| word != name);
        self.words.len() < before
    }

    /// The value of an option, if it was given.
    pub(crate) fn option<T: FromStr>(&mut self, name: &str) -> Result<Option<T>> {
        let joined = format!("{name}=");
        let given = |word: &String| word == name || word.starts_with(&joined);
        let Some(at) = self.words.iter().position(given) else { return Ok(None) };
        let word = self.words.remove(at);
        let value = match word.strip_prefix(&joined) {
            Some(value) => value.to_owned(),
            None if at < self.words.len() => self.words.remove(at),
            None => bail!("{name} needs a value"),
        };
        let parsed =
            value.parse().ok().with_context(|| format!("{name}: '{value}' makes no sense"))?;
        Ok(Some(parsed))
    }

    /// The numbers of an option `A..B`, if it was given.
    pub(crate) fn range(&mut self, name: &str) -> Result<Option<Range<u64>>> {
        let Some(text) = self.option::<String>(name)? else { return Ok(None) };
        let ends = text
            .split_once("..")
            .and_then(|(first, end)| Some(first.parse().ok()?..end.parse().ok()?));
        Ok(Some(ends.with_context(|| format!("{name} A..B"))?))
    }

    /// All words as they are.
    pub(crate) fn verbatim(&mut self) -> Vec<String> {
        std::mem::take(&mut self.words)
    }

    /// What is left, as operands.
    pub(crate) fn operands(&mut self) -> Result<Vec<String>> {
        if let Some(word) = self.words.iter().find(|word| word.starts_with("--")) {
            bail!("unknown option {word}");
        }
        Ok(std::mem::take(&mut self.words))
    }

    /// Refuses left-over words.
    pub(crate) fn finish(mut self) -> Result<()> {
        match self.operands()?.first() {
            Some(word) => bail!("unexpected '{word}'"),
            None => Ok(()),
        }
    }
}
