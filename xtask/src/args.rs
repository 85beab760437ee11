//! Options of tasks: `--name value`, `--name=value`, `--flag` and operands.
//!
//! In: the words after the task name. Out: values by name. Guaranteed: [`Args::finish`] refuses what no one asked for.

use anyhow::{Context, Result, bail};
use std::str::FromStr;

/// The words not yet consumed.
#[derive(Debug)]
pub(crate) struct Args {
    words: Vec<String>,
}

impl Args {
    pub(crate) fn new(words: Vec<String>) -> Self {
        let split = |word: String| match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => {
                vec![name.to_owned(), value.to_owned()]
            }
            _ => vec![word],
        };
        Self { words: words.into_iter().flat_map(split).collect() }
    }

    /// True if the flag was given.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let before = self.words.len();
        self.words.retain(|word| word != name);
        self.words.len() < before
    }

    /// The value of an option, if it was given.
    pub(crate) fn option<T: FromStr>(&mut self, name: &str) -> Result<Option<T>> {
        let Some(at) = self.words.iter().position(|word| word == name) else { return Ok(None) };
        self.words.remove(at);
        if at >= self.words.len() {
            bail!("{name} needs a value");
        }
        let value = self.words.remove(at);
        let parsed =
            value.parse().ok().with_context(|| format!("{name}: '{value}' makes no sense"))?;
        Ok(Some(parsed))
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
