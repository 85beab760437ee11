//! Contents of synthetic sections.

use culd_cubin::encode;

use crate::base::half::{BothHalves, Halves};
use crate::base::id::{IdVec, OutSymbolId, RelocId, SectionId};
use crate::draft::Draft;
use crate::objects::InputObjects;
use crate::relocs::kept::OutRecord;
use crate::relocs::relocated::ResolvedRelocs;

/// Contents by section; a section without is copied from the inputs.
pub(crate) struct SyntheticContents {
    pub(super) sections: IdVec<SectionId, Option<SyntheticContent>>,
    /// The bytes of all [`SyntheticContent::List`]s, in the blocks in which tasks made them.
    pub(super) lists: Vec<Vec<u8>>,
    /// The bytes of all [`SyntheticContent::Bytes`].
    bytes: Vec<Vec<u8>>,
}

impl Halves<SyntheticContents> {
    /// Sets the contents of a section in both halves; only in machine code if the file has no other
    /// half.
    pub(crate) fn set_both(&mut self, section: SectionId, bytes: BothHalves<Vec<u8>>) {
        self.sass.set(section, bytes.sass);
        if let Some(mercury) = &mut self.mercury {
            mercury.set(section, bytes.mercury);
        }
    }
}

impl SyntheticContents {
    pub(crate) fn new(draft: &Draft<'_>) -> Self {
        let sections = IdVec::filled(None, draft.sections.len());
        SyntheticContents { sections, lists: Vec::new(), bytes: Vec::new() }
    }

    /// Gives `section` its bytes.
    pub(crate) fn set(&mut self, section: SectionId, bytes: Vec<u8>) {
        self.sections[section] = Some(SyntheticContent::Bytes { place: self.bytes.len() as u32 });
        self.bytes.push(bytes);
    }

    /// Size of the contents of `section`, if it has any here, bytes.
    pub(crate) fn size(&self, section: SectionId) -> Option<u64> {
        self.sections[section].map(|content| self.size_of(content))
    }

    /// True if `section` has contents here.
    pub(crate) fn has(&self, section: SectionId) -> bool {
        self.sections[section].is_some()
    }

    fn size_of(&self, content: SyntheticContent) -> u64 {
        match content {
            SyntheticContent::Bytes { place } => self.bytes[place as usize].len() as u64,
            SyntheticContent::List { len, .. } => u64::from(len),
            SyntheticContent::Records { count, rela, .. } => {
                u64::from(count) * record_size(rela) as u64
            }
        }
    }

    /// Bytes of a record of `section`, if it has kept records.
    pub(crate) fn record_size(&self, section: SectionId) -> Option<usize> {
        match self.sections[section]? {
            SyntheticContent::Records { rela, .. } => Some(record_size(rela)),
            SyntheticContent::Bytes { .. } | SyntheticContent::List { .. } => None,
        }
    }

    /// All sections with contents here, and their sizes.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (SectionId, u64)> {
        let size = |content: SyntheticContent| self.size_of(content);
        self.sections.iter().filter_map(move |(id, content)| Some((id, content.map(size)?)))
    }

    /// Writes the contents of `section` to `bytes`; false if it has none here. `symbol` gives the
    /// output index of a symbol.
    pub(crate) fn write(
        &self,
        section: SectionId,
        objects: &InputObjects<'_>,
        relocated: &ResolvedRelocs,
        symbol: impl Fn(OutSymbolId) -> u32,
        bytes: &mut [u8],
    ) -> bool {
        match self.sections[section] {
            None => return false,
            Some(SyntheticContent::Bytes { place }) => {
                bytes.copy_from_slice(&self.bytes[place as usize])
            }
            Some(SyntheticContent::List { piece, start, len }) => {
                bytes
                    .copy_from_slice(&self.lists[piece as usize][start as usize..][..len as usize]);
            }
            Some(SyntheticContent::Records { reloc, rela, .. }) => {
                let mut write = record_writer(rela, symbol, bytes);
                relocated.each_kept(objects, reloc, &mut write);
            }
        }
        true
    }
}

/// The contents of one synthetic section. Most sections are synthetic, so this is small.
#[derive(Debug, Clone, Copy)]
pub(super) enum SyntheticContent {
    /// An entry of [`SyntheticContents::bytes`].
    Bytes { place: u32 },
    /// The attributes of a function, which are small: a range of a block in
    /// [`SyntheticContents::lists`]. As bytes of their own: +0.5 % instructions on many100.
    List { piece: u32, start: u32, len: u32 },
    /// The kept records of a relocation section. They are numerous, and encoded when they are
    /// written.
    Records {
        reloc: RelocId,
        count: u32,
        /// RELA; otherwise REL.
        rela: bool,
    },
}

/// Size of a relocation record, bytes.
fn record_size(rela: bool) -> usize {
    if rela { RELA_SIZE } else { REL_SIZE }
}

/// A function that encodes one relocation record after the other into `bytes`, RELA if `rela`;
/// `symbol` gives the output index of a symbol.
pub(super) fn record_writer<'b>(
    rela: bool,
    symbol: impl Fn(OutSymbolId) -> u32 + 'b,
    bytes: &'b mut [u8],
) -> impl FnMut(OutRecord) + 'b {
    let mut places = bytes.chunks_exact_mut(record_size(rela));
    move |record: OutRecord| {
        let Some(bytes) = places.next() else { return };
        let OutRecord { offset, symbol: named, kind, addend } = record;
        let symbol = named.map_or(0, &symbol);
        if rela {
            bytes.copy_from_slice(&encode::rela(offset, symbol, kind, addend));
        } else {
            bytes.copy_from_slice(&encode::rel(offset, symbol, kind));
        }
    }
}

/// Bytes of a record with an addend; the next constant is for records without.
pub(super) const RELA_SIZE: usize = 24;

const REL_SIZE: usize = 16;
