//! Options of tasks: `--name value`, `--name=value`, `--flag` and operands.
//!
//! In: the words after the task name. Out: values by name. Guaranteed: [`Args::finish`] refuses
//! words that no call has taken.

use crate::workspace;
use anyhow::{Context, Result, bail};
use culd_testkit::random::generate::model::PtxArch;
use std::ops::Range;
use std::path::PathBuf;
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

    /// `--seeds A..B`; a missing end is the largest number.
    pub(crate) fn seeds(&mut self, usual: Range<u64>) -> Result<Range<u64>> {
        let Some(text) = self.option::<String>("--seeds")? else { return Ok(usual) };
        let ends = text.split_once("..").and_then(|(first, end)| {
            let end = if end.is_empty() { u64::MAX } else { end.parse().ok()? };
            Some(first.parse().ok()?..end)
        });
        ends.context("--seeds A..B")
    }

    /// `--arch SM[,SM]`, else the architectures of the list `usual`, which may be empty.
    pub(crate) fn archs(&mut self, usual: &str) -> Result<Vec<PtxArch>> {
        let text = self.option::<String>("--arch")?;
        let arch = |name: &str| {
            let names: Vec<&str> = PtxArch::known().map(|arch| arch.0).collect();
            PtxArch::parse(name).with_context(|| format!("architectures: {}", names.join(" ")))
        };
        let names = text.as_deref().unwrap_or(usual).split(',').filter(|name| !name.is_empty());
        names.map(arch).collect()
    }

    /// `--jobs N`: the number of parallel jobs.
    pub(crate) fn jobs(&mut self) -> Result<usize> {
        Ok(self.option("--jobs")?.unwrap_or(2))
    }

    /// `--keep DIR`, else the folder `usual` of the target folder.
    pub(crate) fn keep(&mut self, usual: &str) -> Result<PathBuf> {
        Ok(self.option("--keep")?.unwrap_or_else(|| workspace::target().join(usual)))
    }

    /// `--culd PATH`: the linker under test, `nvlink` for the oracle itself.
    pub(crate) fn culd(&mut self) -> Result<Option<String>> {
        self.option("--culd")
    }

    /// All words as they are.
    pub(crate) fn verbatim(self) -> Vec<String> {
        self.words
    }

    /// The remaining words, as operands.
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
