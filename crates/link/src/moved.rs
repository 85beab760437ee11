//! Sections whose contents were laid out anew after they were chained up.
//!
//! In: which ranges of a section go where. Out: the section's new parts, and [`Moved`], which tells
//! the new place of every old offset.

use hashbrown::HashMap;
use thin_vec::ThinVec;

use crate::draft::{OutSection, Part};
use crate::id::SectionId;

/// A range of old offsets that goes elsewhere.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Move {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Bytes.
    pub(crate) size: u64,
}

/// Where the bytes of sections went.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moved {
    /// By old offset.
    sections: HashMap<SectionId, Vec<Move>>,
}

impl Moved {
    /// Where ranges of `section` went; none where everything stays.
    pub(crate) fn moves(&self, section: SectionId) -> &[Move] {
        self.sections.get(&section).map_or(&[], Vec::as_slice)
    }

    /// Gives `section`, whose id is `id`, new contents: what `moves` name, zeros between.
    pub(crate) fn rearrange(
        &mut self,
        id: SectionId,
        section: &mut OutSection<'_>,
        mut moves: Vec<Move>,
    ) {
        let mut parts = ThinVec::new();
        for entry in &moves {
            copy(section, entry, &mut parts);
        }
        section.parts = parts;
        moves.sort_by_key(|entry| entry.from);
        self.sections.insert(id, moves);
    }
}

/// The new offset of byte `offset` of a section whose ranges went as `moves` says.
pub(crate) fn moved(moves: &[Move], offset: u64) -> u64 {
    // Bytes of copies that lost go with the variable before them (case errors-limits/bank3-tables).
    let at = moves.partition_point(|entry| entry.from <= offset);
    match at.checked_sub(1).map(|at| moves[at]) {
        Some(entry) => entry.to.saturating_add(offset - entry.from),
        None => offset,
    }
}

/// Adds the parts of a range of a section, moved.
fn copy<'d>(section: &OutSection<'d>, entry: &Move, out: &mut ThinVec<Part<'d>>) {
    let (from, end) = (entry.from, entry.from + entry.size);
    let first = section.parts.partition_point(|part| part.offset <= from).saturating_sub(1);
    for part in &section.parts[first..] {
        let start = from.max(part.offset);
        let stop = end.min(part.offset + part.bytes.len() as u64);
        if start < stop {
            let range = (start - part.offset) as usize..(stop - part.offset) as usize;
            // Twins of data are as long as the data; jump slots are taken from the inputs.
            let twin = part.twin.get(range.clone()).unwrap_or_default();
            out.push(Part { offset: entry.to + (start - from), bytes: &part.bytes[range], twin });
        } else if part.offset >= end {
            break;
        }
    }
}
