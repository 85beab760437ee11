//! Differences that are meant.
//!
//! In: `testdata/probe/differences.toml`. Out: whether an unequal cell is on it. Guaranteed: every entry has a reason and
//! a key of docs/DIFFERENCES.md; what it covers is counted, so that one that covers nothing can be told.

use super::batch::Batch;
use super::kinds;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Differences {
    #[serde(default, rename = "difference")]
    entries: Vec<Entry>,
}

/// A class of cells.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Where docs/DIFFERENCES.md tells of it.
    pub key: String,
    /// Why nvlink is not followed.
    pub reason: String,
    /// Start of what nvlink does; empty for whatever it does.
    #[serde(default)]
    nvlink: String,
    /// Words of what culd does.
    culd: String,
    /// Types; all when left out.
    types: Option<String>,
    /// Symbols; all when left out.
    symbols: Option<Vec<String>>,
    /// Words of the batch, one of which has to be there: places, addends, spots.
    records: Option<Vec<String>>,
    #[serde(skip)]
    kinds: Vec<u32>,
}

impl Differences {
    /// Reads the list.
    ///
    /// # Errors
    /// When it makes no sense.
    pub fn parse(text: &str) -> Result<Self> {
        let mut list: Self = toml::from_str(text)?;
        for entry in &mut list.entries {
            ensure!(!entry.reason.trim().is_empty(), "{}: no reason", entry.key);
            ensure!(entry.nvlink != entry.culd, "{}: no difference", entry.key);
            if let Some(types) = &entry.types {
                entry.kinds = kinds::parse(types).with_context(|| entry.key.clone())?;
            }
        }
        Ok(list)
    }

    /// The entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Index of the entry for a cell.
    pub fn find(&self, batch: &Batch, kind: u32, nvlink: &str, culd: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry.covers(batch, kind, nvlink, culd))
    }
}

impl Entry {
    fn covers(&self, batch: &Batch, kind: u32, nvlink: &str, culd: &str) -> bool {
        let words = batch.to_string();
        let has = |wanted: &String| words.split(' ').any(|word| word == wanted);
        nvlink.starts_with(&self.nvlink)
            && culd.contains(&self.culd)
            && (self.types.is_none() || self.kinds.contains(&kind))
            && self
                .symbols
                .as_ref()
                .is_none_or(|list| list.iter().any(|key| key == batch.symbol.key))
            && self.records.as_ref().is_none_or(|list| list.iter().any(has))
    }
}

impl std::fmt::Display for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (nvlink: {}, culd: {})", self.key, self.nvlink, self.culd)
    }
}
