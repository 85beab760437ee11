//! Sections and symbols of the output.

use culd_cubin::Section;
use culd_cubin::elf::{self, stb, stt};
use culd_cubin::unified::SLOT;

use super::kind::SectionKind;
use crate::base::half::{Half, HalfBytes};
use crate::base::id::{NameId, OutSymbolId, SectionId, SharedId, SymbolId};

/// Input bytes at an offset of an output section.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InputChunk<'d> {
    pub(crate) offset: u64,
    pub(crate) bytes: &'d [u8],
    /// The bytes of the Mercury half, if they differ: in constant banks as long as `bytes`, in code
    /// and debug information of any length.
    pub(crate) mercury: &'d [u8],
}

/// The copied part of an input section: all of it, or chunks.
pub(crate) struct InputContent<'d> {
    /// Offsets count from the start of the section.
    pub(crate) chunks: Vec<InputChunk<'d>>,
    /// Bytes.
    pub(crate) size: u64,
    pub(crate) align: u64,
}

impl<'d> InputContent<'d> {
    /// All of a section; `mercury` are the bytes of its counterpart.
    pub(crate) fn whole(input: &Section<'d>, mercury: &'d [u8]) -> Self {
        let parts = vec![InputChunk { offset: 0, bytes: input.data, mercury }];
        InputContent { chunks: parts, size: input.size, align: input.align() }
    }

    /// The chunks, moved to `start`.
    pub(crate) fn chunks_at(&self, start: u64) -> impl Iterator<Item = InputChunk<'d>> + '_ {
        self.chunks.iter().map(move |part| InputChunk { offset: start + part.offset, ..*part })
    }
}

/// A section of the output.
#[derive(Debug)]
pub(crate) struct OutSection<'d> {
    pub(crate) name: NameId,
    pub(crate) kind: SectionKind,
    pub(crate) sh_type: u32,
    pub(crate) flags: u64,
    pub(crate) align: u64,
    /// The section that `sh_info` names.
    pub(crate) owner: Option<SectionId>,
    /// Code: the function it is named after.
    pub(crate) function: Option<OutSymbolId>,
    /// Code on sm_75..89: the register count that `sh_info` carries in its highest byte.
    pub(crate) registers: u8,
    pub(crate) size: u64,
    /// Bytes of the counterparts of all chunks.
    pub(crate) mercury_size: u64,
    /// Most sections have none: their bytes are made when they are written.
    pub(crate) chunks: Vec<InputChunk<'d>>,
    pub(crate) symbol: Option<OutSymbolId>,
    /// It has only ever held literals of copies that lost.
    pub(crate) losers_only: bool,
    /// It held literals of a copy that was replaced. If it stays empty, it is removed with its
    /// name.
    pub(crate) emptied: bool,
    /// It was created, but the file does not have it.
    pub(crate) dropped: bool,
    /// Sections created before it that are in no file, see [`crate::draft::Draft::unlisted`].
    pub(crate) unlisted_before: u32,
}

impl<'d> OutSection<'d> {
    /// `sh_entsize`.
    pub(crate) fn entsize(&self) -> u64 {
        match self.kind {
            SectionKind::JumpSlots => SLOT,
            SectionKind::HighIndices => 4,
            _ => elf::entsize(self.sh_type),
        }
    }

    /// Copies its chunks to their offsets in `bytes`, the contents of the section.
    pub(crate) fn copy_chunks(&self, bytes: &mut [u8]) {
        copy(self.chunks.iter().map(|part| (part.offset as usize, part.bytes)), bytes);
    }

    /// Copies the counterparts of its chunks to their offsets in `bytes`, the contents of the
    /// section's counterpart.
    pub(crate) fn copy_mercury(&self, bytes: &mut [u8]) {
        if matches!(
            self.kind,
            SectionKind::Constant(_) | SectionKind::UnifiedData | SectionKind::Index
        ) {
            copy(self.chunks.iter().map(|part| (part.offset as usize, part.mercury)), bytes);
            return;
        }
        let behind = |at: &mut usize, part: &InputChunk<'d>| {
            let start = *at;
            *at += part.mercury.len();
            Some((start, part.mercury))
        };
        copy(self.chunks.iter().scan(0, behind), bytes);
    }

    /// Appends `content` at the next multiple of its alignment; returns its offset.
    pub(crate) fn append_content(&mut self, content: &InputContent<'d>) -> u64 {
        let offset = self.size.next_multiple_of(content.align);
        self.chunks.extend(content.chunks_at(offset));
        self.size = offset + content.size;
        offset
    }

    /// Appends `bytes` (`size` bytes in memory) at the next multiple of `align`; returns their
    /// offset.
    pub(crate) fn append(&mut self, bytes: &'d [u8], size: u64, align: u64) -> u64 {
        self.append_halves(HalfBytes { sass: bytes, mercury: &[] }, size, align)
    }

    /// The same for bytes with a counterpart.
    pub(crate) fn append_halves(&mut self, bytes: HalfBytes<'d>, size: u64, align: u64) -> u64 {
        let offset = self.size.next_multiple_of(align);
        let HalfBytes { sass, mercury } = bytes;
        if !sass.is_empty() || !mercury.is_empty() {
            self.chunks.push(InputChunk { offset, bytes: sass, mercury });
        }
        self.size = offset + size;
        self.mercury_size += mercury.len() as u64;
        offset
    }

    /// Bytes of the section in the file.
    pub(crate) fn file_size(&self) -> u64 {
        if self.kind.is_nobits() { 0 } else { self.size }
    }

    /// Bytes of the section in a half.
    pub(crate) fn size_in(&self, half: Half) -> u64 {
        match self.kind {
            // Mercury's bank 0 only has slots of textures.
            SectionKind::Debug
            | SectionKind::Text
            | SectionKind::JumpSlots
            | SectionKind::Constant(0)
            | SectionKind::ReservedShared
                if half == Half::Mercury =>
            {
                self.mercury_size
            }
            _ => self.size,
        }
    }

    /// True if Mercury has no bytes of its own for the section: the counterparts are the same
    /// bytes.
    pub(crate) fn shares_bytes(&self) -> bool {
        match self.kind {
            SectionKind::Constant(_) => self.owner.is_none(),
            SectionKind::Debug => {
                self.chunks.iter().all(|part| std::ptr::eq(part.bytes, part.mercury))
            }
            kind => kind == SectionKind::GlobalInit,
        }
    }
}

/// Copies chunks to their offsets; all other bytes become 0.
fn copy<'p>(parts: impl Iterator<Item = (usize, &'p [u8])> + Clone, bytes: &mut [u8]) {
    let mut end = 0;
    let mut follows = |(start, part): (usize, &[u8])| {
        let follows = start == end;
        end = start + part.len();
        follows
    };
    if !parts.clone().all(&mut follows) || end != bytes.len() {
        bytes.fill(0);
    }
    for (start, part) in parts {
        bytes[start..][..part.len()].copy_from_slice(part);
    }
}

/// A symbol of the output.
#[derive(Debug, Clone)]
pub(crate) struct OutSymbol {
    /// The section's name for a section symbol.
    pub(crate) name: NameId,
    pub(crate) info: u8,
    pub(crate) other: u8,
    pub(crate) section: Option<SectionId>,
    pub(crate) value: u64,
    pub(crate) size: u64,
    /// The program symbol that it stands for; `None` for section symbols.
    pub(crate) program: Option<SymbolId>,
    /// The shared variable that it names, if it is one.
    pub(crate) shared: Option<SharedId>,
    /// It was created, but the file does not have it.
    pub(crate) dropped: bool,
}

impl OutSymbol {
    /// The symbol of a section.
    pub(crate) fn section(name: NameId, section: SectionId) -> Self {
        OutSymbol {
            name,
            info: stt::SECTION,
            other: 0,
            section: Some(section),
            value: 0,
            size: 0,
            program: None,
            shared: None,
            dropped: false,
        }
    }

    /// True for variables that other files see: only these can be tentative definitions.
    pub(crate) fn may_be_common(&self) -> bool {
        self.info >> 4 != stb::LOCAL && !matches!(self.info & 15, stt::FUNC | stt::SECTION)
    }

    pub(crate) fn is_entry(&self) -> bool {
        self.info & 15 == stt::FUNC && self.other & culd_cubin::elf::sto::ENTRY != 0
    }
}
