//! The output while it grows: sections, symbols and strings in order of creation.
//!
//! nvlink numbers everything in the order in which it first meets it, so a draft keeps creation
//! order everywhere and [`crate::layout`] alone turns it into indices and offsets.

use culd_cubin::arch::Flavour;
use culd_cubin::elf::{self, shf, sht, stb, sto, stt};
use culd_cubin::unified::{ENTRY_SIZE, SLOT};
use culd_cubin::{Section, SectionIndex, Symbol};

use hashbrown::HashMap;
use thin_vec::ThinVec;

use crate::capsule::Half;
use crate::id::{IdVec, NameId, ObjectId, OutSymbolId, RelocId, SectionId, SymbolId};
use crate::names::{NameList, Names};
use crate::system_names::{
    is_descriptor_size, is_reserved_shared, is_unified_table, reserved_value,
};
use crate::{Dialect, LinkOptions};

/// What an output section is. The order of the variants is the order in the file, except that
/// the three kinds without bytes keep their order of creation among themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Debug,
    TkInfo,
    CuInfo,
    /// `.nv.uft.entry` of an executable.
    FunctionTable,
    FileInfo,
    Compat,
    /// `.nv.uidx`.
    Index,
    FunctionInfo,
    /// `.nv.uft.entry` of an object.
    FunctionIds,
    /// `.nv.udt.entry`.
    VariableIds,
    CallGraph,
    Prototype,
    RelAction,
    Reloc,
    /// `.nv.resolvedrela.X`: relocations of X that are applied.
    Resolved,
    Constant(u8),
    Text,
    /// `.nv.uft`, and in an object `.nv.uft.rel.F`.
    JumpSlots,
    GlobalInit,
    /// `.nv.udt`.
    UnifiedData,
    Global,
    Shared,
    PoolShared,
    /// `.nv.shared.reserved.0`.
    ReservedShared,
    /// `.symtab_shndx` of a file with Mercury that has too many sections for its symbols.
    HighIndices,
    /// `.nv.constant0.<entry>` of a file with Mercury: made when the machine code is.
    Parameters,
    /// In no file; nvlink gives it an index when it creates it ([`crate::layout::creation_index`]).
    Unlisted,
}

/// Categories of sections.
pub(crate) const CATEGORIES: usize = 15;

impl Kind {
    /// Sections are sorted by this, then by creation; less than [`CATEGORIES`].
    pub(crate) fn category(self) -> u8 {
        match self {
            Kind::Debug | Kind::Unlisted => 0,
            Kind::TkInfo | Kind::CuInfo => 1,
            Kind::FunctionTable | Kind::FileInfo => 2,
            Kind::Compat => 3,
            Kind::Index | Kind::FunctionInfo | Kind::FunctionIds | Kind::VariableIds => 4,
            Kind::CallGraph => 5,
            Kind::Prototype => 6,
            Kind::RelAction => 7,
            Kind::Reloc | Kind::Resolved => 8,
            Kind::Constant(_) => 9,
            Kind::Text | Kind::JumpSlots => 10,
            Kind::GlobalInit | Kind::UnifiedData => 11,
            Kind::Global | Kind::Shared | Kind::PoolShared | Kind::ReservedShared => 12,
            Kind::HighIndices => 13,
            Kind::Parameters => 14,
        }
    }

    /// True for sections without bytes in the file.
    pub(crate) fn is_nobits(self) -> bool {
        self.category() == 12
    }

    /// Whether a section of this kind gets a section symbol when it is created.
    fn has_symbol(self) -> bool {
        !matches!(
            self,
            Kind::FileInfo
                | Kind::Compat
                | Kind::FunctionInfo
                | Kind::Reloc
                | Kind::Resolved
                | Kind::Unlisted
        )
    }

    /// `sh_type`. An object that is linked again keeps CUDA's own types.
    fn sh_type(self, relocatable: bool) -> u32 {
        match self {
            Kind::Parameters if relocatable => sht::CUDA_CONSTANT0,
            Kind::Constant(bank) if relocatable => sht::CUDA_CONSTANT0 + u32::from(bank),
            Kind::GlobalInit if relocatable => sht::CUDA_GLOBAL_INIT,
            Kind::Global if relocatable => sht::CUDA_GLOBAL,
            Kind::Shared | Kind::PoolShared if relocatable => sht::CUDA_SHARED,
            Kind::ReservedShared if relocatable => sht::CUDA_SHARED_RESERVED,
            Kind::Debug | Kind::Constant(_) | Kind::Text | Kind::GlobalInit | Kind::Parameters => {
                sht::PROGBITS
            }
            Kind::Unlisted => sht::NULL,
            Kind::HighIndices => sht::SYMTAB_SHNDX,
            Kind::TkInfo | Kind::CuInfo => sht::NOTE,
            Kind::FileInfo | Kind::FunctionInfo => sht::CUDA_INFO,
            Kind::Compat => sht::CUDA_COMPAT,
            Kind::FunctionTable | Kind::FunctionIds => sht::CUDA_UFT_ENTRY,
            Kind::VariableIds => sht::CUDA_UDT_ENTRY,
            Kind::Index => sht::CUDA_UIDX,
            Kind::JumpSlots => sht::CUDA_UFT,
            Kind::UnifiedData => sht::CUDA_UDT,
            Kind::CallGraph => sht::CUDA_CALLGRAPH,
            Kind::Prototype => sht::CUDA_PROTOTYPE,
            Kind::RelAction => sht::CUDA_REL_ACTION,
            Kind::Reloc => sht::RELA,
            Kind::Resolved => sht::CUDA_RESOLVED_RELA,
            Kind::Global | Kind::Shared | Kind::PoolShared | Kind::ReservedShared => sht::NOBITS,
        }
    }
}

/// Input bytes at an offset of an output section.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'d> {
    pub(crate) offset: u64,
    pub(crate) bytes: &'d [u8],
    /// The same in Mercury, where that has bytes of its own: as long as the others in constant banks, of
    /// any length in code and debug information.
    pub(crate) twin: &'d [u8],
}

/// What is copied of an input section: the whole, or parts of it.
pub(crate) struct Content<'d> {
    /// Offsets count from the start of the section.
    pub(crate) parts: Vec<Part<'d>>,
    /// Bytes.
    pub(crate) size: u64,
    pub(crate) align: u64,
}

impl<'d> Content<'d> {
    /// All of a section; `twin` is its Mercury half's.
    pub(crate) fn whole(input: &Section<'d>, twin: &'d [u8]) -> Self {
        let parts = vec![Part { offset: 0, bytes: input.data, twin }];
        Content { parts, size: input.size, align: input.align() }
    }

    /// The parts, moved to `start`.
    pub(crate) fn parts_at(&self, start: u64) -> impl Iterator<Item = Part<'d>> + '_ {
        self.parts.iter().map(move |part| Part { offset: start + part.offset, ..*part })
    }
}

/// A section of the output.
#[derive(Debug)]
pub(crate) struct OutSection<'d> {
    pub(crate) name: NameId,
    pub(crate) kind: Kind,
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
    /// Bytes of the twins of all parts.
    pub(crate) twin_size: u64,
    /// Most have none: their bytes are made when they are written.
    pub(crate) parts: ThinVec<Part<'d>>,
    pub(crate) symbol: Option<OutSymbolId>,
    /// Only literals of copies that lost have ever been in it.
    pub(crate) losers_only: bool,
    /// A copy whose literals it held was replaced: if it stays empty it goes, name and all.
    pub(crate) emptied: bool,
    /// Not part of the file after all.
    pub(crate) dropped: bool,
}

impl<'d> OutSection<'d> {
    /// `sh_entsize`.
    pub(crate) fn entsize(&self) -> u64 {
        match self.kind {
            Kind::JumpSlots => SLOT,
            Kind::HighIndices => 4,
            _ => elf::entsize(self.sh_type),
        }
    }

    /// Copies its parts to where they are in `bytes`, those of the section.
    pub(crate) fn copy_parts(&self, bytes: &mut [u8]) {
        copy(self.parts.iter().map(|part| (part.offset as usize, part.bytes)), bytes);
    }

    /// Copies the twins of its parts to where they are in `bytes`, those of the section's twin.
    pub(crate) fn copy_twins(&self, bytes: &mut [u8]) {
        if matches!(self.kind, Kind::Constant(_) | Kind::UnifiedData | Kind::Index) {
            copy(self.parts.iter().map(|part| (part.offset as usize, part.twin)), bytes);
            return;
        }
        let behind = |at: &mut usize, part: &Part<'d>| {
            let start = *at;
            *at += part.twin.len();
            Some((start, part.twin))
        };
        copy(self.parts.iter().scan(0, behind), bytes);
    }

    /// Appends `content` at the next multiple of its alignment; returns where.
    pub(crate) fn append_content(&mut self, content: &Content<'d>) -> u64 {
        let offset = self.size.next_multiple_of(content.align);
        self.parts.extend(content.parts_at(offset));
        self.size = offset + content.size;
        offset
    }

    /// Appends `bytes` (`size` bytes in memory) at the next multiple of `align`; returns where.
    pub(crate) fn append(&mut self, bytes: &'d [u8], size: u64, align: u64) -> u64 {
        self.append_halves((bytes, &[]), size, align)
    }

    /// The same for bytes with a twin.
    pub(crate) fn append_halves(
        &mut self,
        (bytes, twin): (&'d [u8], &'d [u8]),
        size: u64,
        align: u64,
    ) -> u64 {
        let offset = self.size.next_multiple_of(align);
        if !bytes.is_empty() || !twin.is_empty() {
            self.parts.push(Part { offset, bytes, twin });
        }
        self.size = offset + size;
        self.twin_size += twin.len() as u64;
        offset
    }

    /// Bytes of the section in a half.
    pub(crate) fn size_in(&self, half: Half) -> u64 {
        match self.kind {
            // Slots of textures are all that Mercury has of bank 0.
            Kind::Debug
            | Kind::Text
            | Kind::JumpSlots
            | Kind::Constant(0)
            | Kind::ReservedShared
                if half == Half::Mercury =>
            {
                self.twin_size
            }
            _ => self.size,
        }
    }

    /// True when Mercury has no bytes of its own for the section: its twins are the very same.
    pub(crate) fn shares_bytes(&self) -> bool {
        match self.kind {
            Kind::Constant(_) => self.owner.is_none(),
            Kind::Debug => self.parts.iter().all(|part| std::ptr::eq(part.bytes, part.twin)),
            kind => kind == Kind::GlobalInit,
        }
    }
}

/// Copies parts to where they start; all other bytes become 0.
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
    /// The program symbol that it stands for; none for section symbols.
    pub(crate) program: Option<SymbolId>,
    /// Its place in the list of shared variables, if it is one.
    pub(crate) shared: Option<u32>,
    /// Not part of the file after all.
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

    /// True for variables that other files see: no other symbol can be a tentative definition.
    pub(crate) fn may_be_common(&self) -> bool {
        self.info >> 4 != stb::LOCAL && !matches!(self.info & 15, stt::FUNC | stt::SECTION)
    }

    pub(crate) fn is_entry(&self) -> bool {
        self.info & 15 == stt::FUNC && self.other & culd_cubin::elf::sto::ENTRY != 0
    }
}

/// One input relocation section that goes into an output one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RelocSource {
    pub(crate) object: ObjectId,
    pub(crate) section: SectionIndex,
    /// The section it patches, in the same file.
    pub(crate) target: SectionIndex,
    /// Where the patched section's part starts in the output section, bytes.
    pub(crate) base: u64,
    /// The same in the Mercury half.
    pub(crate) twin_base: u64,
    /// Only records of places in this range of the patched section.
    pub(crate) within: (u64, u64),
    /// Of a section without addends: only those records that got one, or only those that did not.
    pub(crate) moved: bool,
}

/// The whole of a section.
pub(crate) const ALL: (u64, u64) = (0, u64::MAX);

impl RelocSource {
    /// Where the patched section's part starts in the output section of a half, bytes.
    pub(crate) fn base(&self, half: Half) -> u64 {
        match half {
            Half::Sass => self.base,
            Half::Mercury => self.twin_base,
        }
    }
}

/// A relocation section of the output.
#[derive(Debug)]
pub(crate) struct RelocSection {
    pub(crate) section: SectionId,
    pub(crate) target: SectionId,
    /// The one created before for the same target.
    pub(crate) previous: Option<RelocId>,
    pub(crate) sources: Vec<RelocSource>,
}

/// The section that tells which relocations of others, all of one name, were applied.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedSection {
    pub(crate) section: SectionId,
    pub(crate) targets: Vec<SectionId>,
}

/// Bytes to be zeroed because the function they speak of is dead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clear {
    pub(crate) section: SectionId,
    /// In the half that is shown.
    pub(crate) offset: u64,
    /// In machine code's half.
    pub(crate) twin_offset: u64,
    pub(crate) kind: u32,
    /// The file and the function of the record.
    pub(crate) object: ObjectId,
    pub(crate) function: SymbolId,
}

/// Everything the output consists of, in order of creation.
pub(crate) struct Draft<'d> {
    /// The output is to be linked again (`-r`): sections and symbols keep the form they have in
    /// the inputs.
    pub(crate) relocatable: bool,
    /// Whether the file has a Mercury half.
    pub(crate) flavour: Flavour,
    /// The release whose rules are followed.
    pub(crate) dialect: &'static Dialect,
    /// Sections that every output has from the start; see [`crate::layout::creation_index`].
    pub(crate) fixed_sections: usize,
    /// `st_value` of undefined variables. In an object -1 stands for an address that is not known
    /// yet, unless it need not be (cases relocatable/undefined, errors-undefined/globals-allowed).
    undefined_value: u64,
    /// Bytes of shared memory that belong to the system.
    reserved_shared: u64,
    pub(crate) names: Names<'d>,
    pub(crate) sections: IdVec<SectionId, OutSection<'d>>,
    /// Sections by category, those that are not part of the file after all, too.
    categories: [Vec<SectionId>; CATEGORIES],
    pub(crate) symbols: IdVec<OutSymbolId, OutSymbol>,
    /// Section symbols, local symbols and symbols first seen weak.
    pub(crate) locals: Vec<OutSymbolId>,
    /// Symbols first seen global.
    pub(crate) globals: Vec<OutSymbolId>,
    /// Symbols behind all others, of sections that only the machine code has.
    pub(crate) trailing: Vec<OutSymbolId>,
    pub(crate) relocs: IdVec<RelocId, RelocSection>,
    /// With `--preserve-relocs`.
    pub(crate) resolved: Vec<ResolvedSection>,
    pub(crate) clears: Vec<Clear>,
    /// What symbol 0 has instead of no value.
    pub(crate) null_value: Option<u64>,
    /// Names of `.shstrtab`.
    pub(crate) section_strings: NameList,
    /// First part of `.strtab`: prototypes.
    pub(crate) prototype_strings: NameList,
    /// Second part of `.strtab`: section names and names of the local list.
    pub(crate) local_strings: NameList,
    /// Third part of `.strtab`: names of the global list.
    pub(crate) global_strings: NameList,
    /// Last part of `.strtab`: names of sections that only the machine code has.
    pub(crate) late_strings: NameList,
    /// What machine code calls sections that Mercury calls otherwise.
    pub(crate) renamed: HashMap<SectionId, NameId>,
    /// `sh_link` of entries of unified functions and variables, where it is no table's number: see [`Object::mercury_number`].
    ///
    /// [`Object::mercury_number`]: crate::objects::Object::mercury_number
    pub(crate) stale_links: HashMap<SectionId, u32>,
}

/// The sections that every output has from the start.
pub(crate) struct Fixed {
    pub(crate) tkinfo: SectionId,
    pub(crate) cuinfo: SectionId,
    pub(crate) file_info: SectionId,
    pub(crate) compat: Option<SectionId>,
    /// `.nv.uft.entry`, of an executable with unified functions.
    pub(crate) function_table: Option<SectionId>,
}

impl<'d> Draft<'d> {
    /// `st_value` of symbol 0.
    pub(crate) fn null_value(&self) -> u64 {
        self.null_value.unwrap_or(0)
    }

    /// The draft that every link starts with.
    pub(crate) fn new(
        names: Names<'d>,
        options: &'d LinkOptions,
        unified_functions: bool,
    ) -> (Self, Fixed) {
        let undefined_value = if options.allow_undefined_globals { 0 } else { u64::MAX };
        let mut draft = Draft {
            relocatable: options.relocatable,
            flavour: options.target.flavour,
            dialect: options.dialect,
            fixed_sections: 0,
            undefined_value,
            reserved_shared: options.target.reserved_shared,
            names,
            sections: IdVec::new(),
            categories: Default::default(),
            symbols: IdVec::new(),
            locals: Vec::new(),
            globals: Vec::new(),
            trailing: Vec::new(),
            relocs: IdVec::new(),
            resolved: Vec::new(),
            clears: Vec::new(),
            null_value: None,
            section_strings: NameList::default(),
            prototype_strings: NameList::default(),
            local_strings: NameList::default(),
            global_strings: NameList::default(),
            late_strings: NameList::default(),
            renamed: HashMap::new(),
            stale_links: HashMap::new(),
        };
        for name in [&b".shstrtab"[..], b".strtab", b".symtab", b".symtab_shndx"] {
            let name = draft.names.intern(name);
            draft.intern_section_name(name);
        }
        let function_table = unified_functions && !options.relocatable;
        let mut fixed = |name: &'static [u8], kind, flags, align| {
            let name = draft.names.intern(name);
            draft.add_section(name, kind, flags, align)
        };
        let fixed = Fixed {
            tkinfo: fixed(b".note.nv.tkinfo", Kind::TkInfo, shf::NOTE_TKINFO, 4),
            cuinfo: fixed(b".note.nv.cuinfo", Kind::CuInfo, shf::NOTE_CUINFO, 4),
            function_table: function_table
                .then(|| fixed(b".nv.uft.entry", Kind::FunctionTable, 0, ENTRY_SIZE as u64)),
            file_info: fixed(b".nv.info", Kind::FileInfo, 0, 4),
            compat: options.target.has_compat.then(|| fixed(b".nv.compat", Kind::Compat, 0, 4)),
        };
        if let Some(index) = &options.index {
            let name = draft.names.intern(b".nv.uidx");
            let section = draft.add_section(name, Kind::Index, 0, 1);
            let bytes = &index.bytes;
            draft.sections[section].append_halves((bytes, bytes), bytes.len() as u64, 1);
        }
        draft.fixed_sections = draft.sections.len();
        if let Some(compat) = fixed.compat {
            let cuinfo = &mut draft.sections[fixed.cuinfo];
            cuinfo.flags |= shf::INFO_LINK;
            cuinfo.owner = Some(compat);
        }
        (draft, fixed)
    }

    /// `st_info` of an input's variable, whichever of the two types it has: an object has CUDA's own type only, an
    /// executable the plain one, but for variables without memory space, which no compiler writes (`xtask probe
    /// --symbol object-init`).
    pub(crate) fn variable_info(&self, symbol: &Symbol<'_>) -> u8 {
        let plain = !self.relocatable && symbol.other & sto::SPACE != 0;
        let kind = match symbol.kind() {
            stt::OBJECT | stt::CUDA_OBJECT if plain => stt::OBJECT,
            stt::OBJECT | stt::CUDA_OBJECT => stt::CUDA_OBJECT,
            kind => kind,
        };
        symbol.info & 0xf0 | kind
    }

    /// True for a symbol that, seen first with `binding`, belongs into the global list.
    pub(crate) fn is_global(&self, binding: u8) -> bool {
        binding == stb::GLOBAL || binding == stb::WEAK && self.dialect.weak_is_global
    }

    /// `st_info` of the system's own variables.
    pub(crate) fn system_info(&self) -> u8 {
        let kind = match self.flavour {
            Flavour::Classic => stt::OBJECT,
            Flavour::Mercury => stt::CUDA_OBJECT,
        };
        stb::GLOBAL << 4 | kind
    }

    /// `st_value` of a variable until it is defined.
    pub(crate) fn first_value(&self, symbol: &Symbol<'_>) -> u64 {
        if self.flavour == Flavour::Classic
            && let Some(value) = reserved_value(symbol.name, self.reserved_shared)
        {
            return value;
        }
        // The alignment of an array without size, too, as its first file tells it (case dialects/dynamic-aligned).
        let extern_array = symbol.is_shared() && symbol.size == 0;
        let kept = self.relocatable && (symbol.binding() == stb::LOCAL || extern_array);
        if kept || is_reserved_shared(symbol.name) || is_descriptor_size(symbol.name) {
            return symbol.value;
        }
        let variable = matches!(symbol.kind(), stt::OBJECT | stt::CUDA_OBJECT);
        let waits = variable && !extern_array && !is_unified_table(symbol.name);
        if waits { self.undefined_value } else { 0 }
    }

    /// Makes room for the names of `sections` sections and of their relocations.
    pub(crate) fn reserve_names(&mut self, sections: usize) {
        self.names.reserve_derived(sections);
        let names = self.names.len() + sections;
        let lists = [&mut self.section_strings, &mut self.local_strings, &mut self.global_strings];
        lists.into_iter().for_each(|list| list.reserve(names));
    }

    /// A section name goes into both string tables, whether or not the section survives.
    pub(crate) fn intern_section_name(&mut self, name: NameId) {
        self.section_strings.add(name);
        self.local_strings.add(name);
    }

    /// Lists a section name once more in both string tables: its place there if the first one is removed.
    pub(crate) fn intern_section_name_again(&mut self, name: NameId) {
        self.section_strings.add_again(name);
        self.local_strings.add_again(name);
    }

    /// The bank of constant variables, `.nv.constant3`.
    pub(crate) fn constant_variables(&self) -> Option<SectionId> {
        self.common_bank(3)
    }

    /// A constant bank that belongs to no function.
    pub(crate) fn common_bank(&self, number: u8) -> Option<SectionId> {
        let kind = Kind::Constant(number);
        let is_bank = |id: &SectionId| {
            let section = &self.sections[*id];
            section.kind == kind && section.owner.is_none()
        };
        self.category_of(kind).iter().copied().find(is_bank)
    }

    /// All sections of the category of `kind`, in the order of creation. There are many of which few are of one kind.
    pub(crate) fn category_of(&self, kind: Kind) -> &[SectionId] {
        &self.categories[usize::from(kind.category())]
    }

    /// The first section of a kind.
    pub(crate) fn first_of(&self, kind: Kind) -> Option<SectionId> {
        self.category_of(kind).iter().copied().find(|&id| self.sections[id].kind == kind)
    }

    /// Creates a section, its names and its section symbol.
    pub(crate) fn add_section(
        &mut self,
        name: NameId,
        kind: Kind,
        flags: u64,
        align: u64,
    ) -> SectionId {
        self.intern_section_name(name);
        let section = self.push_section(name, kind, flags, align);
        if kind.has_symbol() {
            let symbol = self.symbols.push(OutSymbol::section(name, section));
            self.locals.push(symbol);
            self.sections[section].symbol = Some(symbol);
        }
        section
    }

    /// Creates a section without names and symbol.
    pub(crate) fn push_section(
        &mut self,
        name: NameId,
        kind: Kind,
        flags: u64,
        align: u64,
    ) -> SectionId {
        let section = self.sections.push(OutSection {
            name,
            kind,
            sh_type: kind.sh_type(self.relocatable),
            flags,
            align,
            owner: None,
            function: None,
            registers: 0,
            size: 0,
            twin_size: 0,
            parts: ThinVec::new(),
            symbol: None,
            losers_only: false,
            emptied: false,
            dropped: false,
        });
        self.categories[usize::from(kind.category())].push(section);
        section
    }

    /// Creates a section that only counts: no name, no symbol, in no file.
    pub(crate) fn add_unlisted(&mut self) {
        let name = self.names.intern(b"");
        let section = self.push_section(name, Kind::Unlisted, 0, 1);
        self.sections[section].dropped = true;
    }
}
