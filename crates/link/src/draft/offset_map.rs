//! Maps from old offsets to new ones, for bytes that were moved.
//!
//! In: ranges of a section and their new places. Out: the new offset of every old one. For sections
//! that are rearranged after merging ([`OffsetMaps`]), also their new chunks.

use hashbrown::HashMap;

use super::section::{InputChunk, OutSection};
use crate::base::id::SectionId;

/// A range of old offsets and its new place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MovedRange {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Bytes.
    pub(crate) size: u64,
}

/// The moved ranges of sections.
#[derive(Debug, Clone, Default)]
pub(crate) struct OffsetMaps {
    /// In the order of old offsets.
    sections: HashMap<SectionId, Vec<MovedRange>>,
}

impl OffsetMaps {
    /// The moved ranges of `section`; empty if nothing was moved.
    pub(crate) fn moves(&self, section: SectionId) -> &[MovedRange] {
        self.sections.get(&section).map_or(&[], Vec::as_slice)
    }

    /// Gives `section`, whose id is `id`, new contents: the ranges of `moves`, and zeros between
    /// them.
    pub(crate) fn rearrange(
        &mut self,
        id: SectionId,
        section: &mut OutSection<'_>,
        mut moves: Vec<MovedRange>,
    ) {
        let mut parts = Vec::new();
        for entry in &moves {
            copy(section, entry, &mut parts);
        }
        section.chunks = parts;
        moves.sort_by_key(|entry| entry.from);
        self.sections.insert(id, moves);
    }
}

/// The new offset of byte `offset`, if one of `ranges` has it. They are in the order of old
/// offsets.
pub(crate) fn translate(ranges: &[MovedRange], offset: u64) -> Option<u64> {
    let at = ranges.partition_point(|range| range.from <= offset);
    let range = ranges.get(at.checked_sub(1)?)?;
    let inside = offset - range.from;
    (inside < range.size).then(|| range.to + inside)
}

/// The same for offsets outside of all ranges, too. Bytes behind a range move with it, and bytes in
/// front of the first stay: bytes of copies that lost move with the variable before them
/// (case errors-limits/bank3-tables).
pub(crate) fn translate_between(ranges: &[MovedRange], offset: u64) -> u64 {
    let at = ranges.partition_point(|range| range.from <= offset);
    match at.checked_sub(1).map(|at| ranges[at]) {
        Some(range) => range.to.saturating_add(offset - range.from),
        None => offset,
    }
}

/// Adds the chunks of a moved range of a section to `out`, moved.
fn copy<'d>(section: &OutSection<'d>, entry: &MovedRange, out: &mut Vec<InputChunk<'d>>) {
    let (from, end) = (entry.from, entry.from + entry.size);
    let first = section.chunks.partition_point(|part| part.offset <= from).saturating_sub(1);
    for part in &section.chunks[first..] {
        let start = from.max(part.offset);
        let stop = end.min(part.offset + part.bytes.len() as u64);
        if start < stop {
            let range = (start - part.offset) as usize..(stop - part.offset) as usize;
            // Counterparts of data are as long as the data; jump slots are read from the inputs.
            let mercury = part.mercury.get(range.clone()).unwrap_or_default();
            out.push(InputChunk {
                offset: entry.to + (start - from),
                bytes: &part.bytes[range],
                mercury,
            });
        } else if part.offset >= end {
            break;
        }
    }
}
