//! Compares the answers of both linkers.
//!
//! In: the fates of a batch with nvlink, live or recorded, and the linker under test. Out: the
//! cells that are not equal, and a digest of the outputs. Guaranteed: messages count as well as
//! outputs.

use super::batch::{Batch, BatchAnswer, EndingTypes, ProbeLinker};
use super::record::{self, Digest};
use anyhow::Result;
use std::collections::BTreeMap;

/// A cell that the linkers treat differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnequalCell {
    /// The type.
    pub kind: u32,
    /// What nvlink does.
    pub nvlink: String,
    /// What culd does.
    pub culd: String,
}

/// The cells of a batch that differ from the expected fates.
///
/// # Errors
/// When the linker cannot be started, or its output is malformed.
pub fn unequal(
    batch: &Batch,
    expected: &BTreeMap<u32, String>,
    linker: &dyn ProbeLinker,
    guesses: &mut EndingTypes,
) -> Result<Vec<UnequalCell>> {
    let actual = record::texts(&batch.fates(linker, guesses)?);
    let mut unequal = Vec::new();
    for (&kind, nvlink) in expected {
        let culd = actual.get(&kind).cloned().unwrap_or_default();
        if *nvlink != culd {
            unequal.push(UnequalCell { kind, nvlink: nvlink.clone(), culd });
        }
    }
    Ok(unequal)
}

/// The digest of the outputs of `groups`; `None` if one of them does not link.
///
/// # Errors
/// When the linker cannot be started.
pub fn digest(batch: &Batch, groups: &[Vec<u32>], linker: &dyn ProbeLinker) -> Result<Option<u64>> {
    let mut digest = Digest::default();
    for group in groups {
        match linker.link(batch.sm, &batch.object(group).bytes()?)? {
            BatchAnswer::Linked(output) => digest.add(&output),
            _ => return Ok(None),
        }
    }
    Ok(Some(digest.sum()))
}
