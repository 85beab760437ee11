//! The deliberate differences.
//!
//! In: `testdata/probe/differences.toml`. Out: the entry of an unequal cell, if there is one.
//! Guaranteed: every entry has a reason and a key of docs/DIFFERENCES.md; the cells that it covers
//! are counted, so that an entry that covers none is found.

use super::batch::Batch;
use super::kinds;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownDifferences {
    #[serde(default, rename = "difference")]
    entries: Vec<KnownDifference>,
}

/// A class of cells.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownDifference {
    /// Its key in docs/DIFFERENCES.md.
    pub key: String,
    /// Why nvlink is not followed.
    pub reason: String,
    /// Start of the text of nvlink's fate; empty for any fate.
    #[serde(default)]
    nvlink: String,
    /// Words in the text of culd's fate; empty for the same fate.
    #[serde(default)]
    culd: String,
    /// End of the text of the difference elsewhere in the outputs, if the cell itself is equal.
    elsewhere: Option<String>,
    /// Types; all when left out.
    types: Option<String>,
    /// Symbols; all when left out.
    symbols: Option<Vec<String>>,
    /// Words of the batch (places, addends, spots), one of which it must have.
    records: Option<Vec<String>>,
    #[serde(skip)]
    kinds: Vec<u32>,
}

impl KnownDifferences {
    /// Reads the list.
    ///
    /// # Errors
    /// When it is invalid.
    pub fn parse(text: &str) -> Result<Self> {
        let mut list: Self = toml::from_str(text)?;
        for entry in &mut list.entries {
            ensure!(!entry.reason.trim().is_empty(), "{}: no reason", entry.key);
            let differs = entry.nvlink != entry.culd || entry.elsewhere.is_some();
            ensure!(differs, "{}: no difference", entry.key);
            if let Some(types) = &entry.types {
                entry.kinds = kinds::parse(types).with_context(|| entry.key.clone())?;
            }
        }
        Ok(list)
    }

    /// The entries.
    pub fn entries(&self) -> &[KnownDifference] {
        &self.entries
    }

    /// Index of the entry for a cell that is not equal.
    pub fn find(&self, batch: &Batch, kind: u32, nvlink: &str, culd: &str) -> Option<usize> {
        let differs =
            |entry: &KnownDifference| entry.elsewhere.is_none() && culd.contains(&entry.culd);
        self.position(batch, kind, nvlink, differs)
    }

    /// Index of the entry for an equal cell whose outputs differ elsewhere.
    pub fn find_elsewhere(
        &self,
        batch: &Batch,
        kind: u32,
        fate: &str,
        what: &str,
    ) -> Option<usize> {
        let differs = |entry: &KnownDifference| {
            entry.elsewhere.as_ref().is_some_and(|end| what.ends_with(end))
        };
        self.position(batch, kind, fate, differs)
    }

    fn position(
        &self,
        batch: &Batch,
        kind: u32,
        nvlink: &str,
        differs: impl Fn(&KnownDifference) -> bool,
    ) -> Option<usize> {
        let covers = |entry: &KnownDifference| differs(entry) && entry.covers(batch, kind, nvlink);
        self.entries.iter().position(covers)
    }
}

impl KnownDifference {
    fn covers(&self, batch: &Batch, kind: u32, nvlink: &str) -> bool {
        let words = batch.to_string();
        let has = |wanted: &String| words.split(' ').any(|word| word == wanted);
        nvlink.starts_with(&self.nvlink)
            && (self.types.is_none() || self.kinds.contains(&kind))
            && self
                .symbols
                .as_ref()
                .is_none_or(|list| list.iter().any(|key| key == batch.symbol.key))
            && self.records.as_ref().is_none_or(|list| list.iter().any(has))
    }
}

impl std::fmt::Display for KnownDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (nvlink: {}, culd: {}", self.key, self.nvlink, self.culd)?;
        self.elsewhere.iter().try_for_each(|end| write!(f, ", elsewhere: {end}"))?;
        f.write_str(")")
    }
}
