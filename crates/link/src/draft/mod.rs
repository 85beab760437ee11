//! The output while it grows: sections, symbols and strings in order of creation.
//!
//! nvlink numbers everything in the order in which it first meets it. So a draft keeps creation
//! order everywhere, and only [`crate::layout::place`] turns it into indices and offsets.

pub(crate) mod jump_slots;
pub(crate) mod kind;
pub(crate) mod merged;
pub(crate) mod offset_map;
pub(crate) mod relocs;
pub(crate) mod section;
pub(crate) mod unified;

use culd_cubin::Symbol;
use culd_cubin::arch::Flavour;
use culd_cubin::elf::{shf, stb, sto, stt};
use culd_cubin::unified::ENTRY_SIZE;
use hashbrown::HashMap;

use self::kind::{CATEGORIES, SectionKind};
use self::relocs::{DeadReference, RelocSection, ResolvedRelaSection};
use self::section::{OutSection, OutSymbol};
use crate::base::half::HalfBytes;
use crate::base::id::{IdVec, NameId, OutSymbolId, RelocId, SectionId};
use crate::base::name_list::NameList;
use crate::base::names::Names;
use crate::base::system_names::{
    is_descriptor_size, is_reserved_shared, is_unified_table, reserved_value,
};
use crate::options::LinkOptions;
use crate::options::dialect::{Dialect, ReservedCap};
use crate::options::form::FileForm;
use crate::options::selection::Selection;

/// Everything the output consists of, in order of creation.
pub(crate) struct Draft<'d> {
    /// The output is to be linked again (`-r`): sections and symbols keep the form they have in
    /// the inputs.
    pub(crate) relocatable: bool,
    /// Whether the file has a Mercury half.
    pub(crate) flavour: Flavour,
    /// The release whose rules are followed.
    pub(crate) dialect: &'static Dialect,
    /// The selection by which kernels that only the driver defines are entries, where they can be.
    pub(crate) undefined_entries: Option<&'d Selection>,
    /// Kernels that start kernels need a wrapper: targets before sm_70.
    pub(crate) wraps_launches: bool,
    pub(crate) form: FileForm,
    /// `st_value` of undefined variables. In an object -1 stands for an address that is not known
    /// yet; 0 if undefined variables are allowed (cases relocatable/undefined,
    /// errors-undefined/globals-allowed).
    undefined_value: u64,
    /// Bytes of shared memory that belong to the system.
    pub(crate) reserved_shared: u64,
    pub(crate) names: Names<'d>,
    pub(crate) sections: IdVec<SectionId, OutSection<'d>>,
    /// Sections that nvlink creates, but that are in no file. They only take an index
    /// ([`crate::layout::numbers::creation_index`]). Most are those of dead functions. As sections
    /// without contents: +6 % instructions and 12 % more memory on dead.
    pub(crate) unlisted: u32,
    /// Sections by category, including sections that are dropped later.
    categories: [Vec<SectionId>; CATEGORIES],
    pub(crate) symbols: IdVec<OutSymbolId, OutSymbol>,
    /// Section symbols, local symbols and symbols first seen weak.
    pub(crate) locals: Vec<OutSymbolId>,
    /// Symbols first seen global.
    pub(crate) globals: Vec<OutSymbolId>,
    pub(crate) relocs: IdVec<RelocId, RelocSection>,
    /// With `--preserve-relocs`.
    pub(crate) resolved_relas: Vec<ResolvedRelaSection>,
    pub(crate) dead_references: Vec<DeadReference>,
    /// `st_value` of symbol 0, if it has one.
    pub(crate) null_value: Option<u64>,
    /// Names of `.shstrtab`.
    pub(crate) section_strings: NameList,
    /// First part of `.strtab`: prototypes.
    pub(crate) prototype_strings: NameList,
    /// Second part of `.strtab`: section names and names of the local list.
    pub(crate) local_strings: NameList,
    /// Third part of `.strtab`: names of the global list.
    pub(crate) global_strings: NameList,
    /// Names, symbols and links that only a file with a Mercury half has.
    pub(crate) mercury: MercuryNames,
}

/// Names, symbols and links of machine code, where they differ from those of the file's Mercury
/// half.
#[derive(Default)]
pub(crate) struct MercuryNames {
    /// Symbols behind all others: those of sections that only machine code has.
    pub(crate) trailing: Vec<OutSymbolId>,
    /// Last part of `.strtab`: names of sections that only machine code has.
    pub(crate) late_strings: NameList,
    /// The names in machine code of sections that Mercury names otherwise.
    pub(crate) renamed: HashMap<SectionId, NameId>,
    /// `sh_link` of the entry sections of unified functions and variables, where it is not the
    /// index of a table: see [`InputObject::mercury_number`].
    ///
    /// [`InputObject::mercury_number`]: crate::objects::object::InputObject::mercury_number
    pub(crate) stale_links: HashMap<SectionId, u32>,
}

const COMPAT: &[u8] = b".nv.compat";

/// The sections that every output has from the start.
pub(crate) struct FixedSections {
    /// Sections that only a file of [`FileForm::Notes`] has.
    pub(crate) notes: Option<NoteSections>,
    pub(crate) file_info: SectionId,
    pub(crate) compat: Option<SectionId>,
    /// `.nv.uft.entry`, of an executable with unified functions.
    pub(crate) function_table: Option<SectionId>,
}

/// The notes of the output.
pub(crate) struct NoteSections {
    pub(crate) tkinfo: SectionId,
    pub(crate) cuinfo: SectionId,
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
    ) -> (Self, FixedSections) {
        let zeroed = options.allow_undefined_globals && !options.dialect.marks_undefined_variables;
        let undefined_value = if zeroed { 0 } else { u64::MAX };
        let mut draft = Draft {
            relocatable: options.relocatable,
            flavour: options.target.flavour,
            dialect: options.dialect,
            undefined_entries: (options.dialect.has_undefined_entries || !options.relocatable)
                .then(|| options.effective_selection()),
            wraps_launches: options.target.sm < 70,
            form: options.form(),
            undefined_value,
            reserved_shared: options.target.reserved_shared,
            names,
            sections: IdVec::new(),
            unlisted: 0,
            categories: Default::default(),
            symbols: IdVec::new(),
            locals: Vec::new(),
            globals: Vec::new(),
            relocs: IdVec::new(),
            resolved_relas: Vec::new(),
            dead_references: Vec::new(),
            null_value: None,
            section_strings: NameList::default(),
            prototype_strings: NameList::default(),
            local_strings: NameList::default(),
            global_strings: NameList::default(),
            mercury: MercuryNames::default(),
        };
        let unified = options.dialect.names_unified_table.then_some(&b".nv.uft.entry"[..]);
        let tables = [&b".shstrtab"[..], b".strtab", b".symtab", b".symtab_shndx"];
        for name in tables.into_iter().chain(unified) {
            let name = draft.names.intern(name);
            draft.intern_section_name(name);
        }
        let fixed = draft.add_fixed_sections(options, unified_functions);
        (draft, fixed)
    }

    /// Creates the sections that every output has from the start.
    fn add_fixed_sections(
        &mut self,
        options: &'d LinkOptions,
        unified_functions: bool,
    ) -> FixedSections {
        let function_table = unified_functions && !options.relocatable;
        let form = options.form();
        let has_notes = form != FileForm::Header;
        let cuinfo = match form {
            FileForm::Version => &b".note.nv.cuver"[..],
            FileForm::Notes | FileForm::Header => b".note.nv.cuinfo",
        };
        let mut fixed = |name: &'static [u8], kind, flags, align| {
            let name = self.names.intern(name);
            self.add_section(name, kind, flags, align)
        };
        let notes = has_notes.then(|| NoteSections {
            tkinfo: fixed(b".note.nv.tkinfo", SectionKind::TkInfo, shf::NOTE_TKINFO, 4),
            cuinfo: fixed(cuinfo, SectionKind::CuInfo, shf::NOTE_CUINFO, 4),
        });
        let function_table = function_table
            .then(|| fixed(b".nv.uft.entry", SectionKind::FunctionTable, 0, ENTRY_SIZE as u64));
        // It takes an index in any program (cases unified/* behind many sections).
        if function_table.is_none() && !options.relocatable {
            self.unlisted += 1;
        }
        let mut fixed = |name: &'static [u8], kind| {
            let name = self.names.intern(name);
            self.add_section(name, kind, 0, 4)
        };
        let fixed = FixedSections {
            notes,
            function_table,
            file_info: fixed(b".nv.info", SectionKind::FileInfo),
            compat: (form == FileForm::Notes && options.target.has_compat)
                .then(|| fixed(COMPAT, SectionKind::Compat)),
        };
        if let Some(index) = &options.index {
            let name = self.names.intern(b".nv.uidx");
            let section = self.add_section(name, SectionKind::Index, 0, 1);
            let bytes = &index.bytes;
            self.sections[section].append_halves(HalfBytes::same(bytes), bytes.len() as u64, 1);
        }
        if let (Some(notes), Some(compat)) = (&fixed.notes, fixed.compat) {
            self.own_note(notes.cuinfo, compat);
        }
        fixed
    }

    /// Creates `.nv.compat` of [`FileForm::Version`].
    pub(crate) fn add_late_compat(&mut self, fixed: &mut FixedSections) {
        let name = self.names.intern(COMPAT);
        let compat = self.add_section(name, SectionKind::LateCompat, 0, 4);
        fixed.compat = Some(compat);
        if let Some(notes) = &fixed.notes {
            self.own_note(notes.cuinfo, compat);
        }
    }

    /// Has the driver's note name `.nv.compat`.
    fn own_note(&mut self, cuinfo: SectionId, compat: SectionId) {
        let cuinfo = &mut self.sections[cuinfo];
        cuinfo.flags |= shf::INFO_LINK;
        cuinfo.owner = Some(compat);
    }

    /// `st_info` of an input variable, for either of its two types. An object has CUDA's own type
    /// only. An executable has the plain type, except for variables without memory space, which no
    /// compiler writes (`xtask probe --symbol object-init`).
    pub(crate) fn variable_info(&self, symbol: &Symbol<'_>) -> u8 {
        let plain = !self.relocatable && symbol.other & sto::SPACE != 0;
        let kind = match symbol.kind() {
            stt::OBJECT | stt::CUDA_OBJECT if plain => stt::OBJECT,
            stt::OBJECT | stt::CUDA_OBJECT => stt::CUDA_OBJECT,
            kind => kind,
        };
        symbol.info & 0xf0 | kind
    }

    /// True if a symbol that is first seen with `binding` belongs to the global list.
    pub(crate) fn is_global(&self, binding: u8) -> bool {
        binding == stb::GLOBAL || binding == stb::WEAK && self.dialect.weak_is_global
    }

    /// `st_info` of variables of the system.
    pub(crate) fn system_info(&self) -> u8 {
        let kind = match self.flavour {
            Flavour::Classic => stt::OBJECT,
            Flavour::Mercury => stt::CUDA_OBJECT,
        };
        stb::GLOBAL << 4 | kind
    }

    /// `st_value` of a variable until it is defined.
    pub(crate) fn first_value(&self, symbol: &Symbol<'_>) -> u64 {
        if self.flavour == Flavour::Classic {
            let own = self.dialect.reserved_cap == ReservedCap::Own;
            let size = if own { self.reserved_shared } else { 0 };
            if let Some(value) = reserved_value(symbol.name, size) {
                return value;
            }
        }
        // Also the alignment of an array without size, as the first file has it
        // (case dialects/dynamic-aligned).
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

    /// Has local names counted if the program has a prototype without name: a function without name
    /// then gets the name with a certain number. `table` is one of these names, `.nv.uft.entry`.
    pub(crate) fn keep_counted_names(&mut self, table: &'d [u8]) {
        let empty = self.names.lookup(b"");
        let counts = empty.is_some_and(|empty| self.prototype_strings.contains(empty));
        if self.dialect.has_nameless_function && counts {
            self.names.intern(table);
            self.local_strings.keep_counted();
        }
    }

    /// Adds the name of a symbol of the global list.
    pub(crate) fn add_global_name(&mut self, name: NameId) {
        match self.dialect.has_three_lists {
            true => self.global_strings.add(name),
            false => self.local_strings.add(name),
        }
    }

    /// Adds the name of a symbol that is not in the output. Only releases with one list of all
    /// names keep it.
    pub(crate) fn add_lost_name(&mut self, name: NameId) {
        if !self.dialect.has_three_lists {
            self.local_strings.add(name);
        }
    }

    /// The same for a section.
    pub(crate) fn add_lost_section_name(&mut self, name: &'d [u8]) {
        if !self.dialect.has_three_lists {
            let name = self.names.intern(name);
            self.intern_section_name(name);
        }
    }

    /// Takes the name of a symbol or section out of the table of symbol names.
    pub(crate) fn remove_name(&mut self, name: NameId) {
        if self.dialect.has_three_lists {
            self.local_strings.remove(name);
            self.global_strings.remove(name);
        }
    }

    /// Adds a section name to both string tables, whether or not the section survives.
    pub(crate) fn intern_section_name(&mut self, name: NameId) {
        self.section_strings.add(name);
        self.local_strings.add(name);
    }

    /// Adds a section name once more to both string tables. That becomes its place if the first one
    /// is removed.
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
        let kind = SectionKind::Constant(number);
        let is_bank = |id: &SectionId| {
            let section = &self.sections[*id];
            section.kind == kind && section.owner.is_none()
        };
        self.category_of(kind).iter().copied().find(is_bank)
    }

    /// All sections of the category of `kind`, in order of creation: a short list to search for a
    /// kind.
    pub(crate) fn category_of(&self, kind: SectionKind) -> &[SectionId] {
        &self.categories[usize::from(kind.category())]
    }

    /// The first section of a kind.
    pub(crate) fn first_of(&self, kind: SectionKind) -> Option<SectionId> {
        self.category_of(kind).iter().copied().find(|&id| self.sections[id].kind == kind)
    }

    /// Creates a section, its names and its section symbol.
    pub(crate) fn add_section(
        &mut self,
        name: NameId,
        kind: SectionKind,
        flags: u64,
        align: u64,
    ) -> SectionId {
        self.intern_section_name(name);
        let section = self.push_section(name, kind, flags, align);
        if kind.has_symbol() && !(kind.is_note() && self.form == FileForm::Version) {
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
        kind: SectionKind,
        flags: u64,
        align: u64,
    ) -> SectionId {
        let section = self.sections.push(OutSection {
            name,
            kind,
            sh_type: kind.sh_type(self.relocatable, self.dialect),
            flags,
            align,
            owner: None,
            function: None,
            registers: 0,
            size: 0,
            mercury_size: 0,
            chunks: Vec::new(),
            symbol: None,
            losers_only: false,
            emptied: false,
            dropped: false,
            unlisted_before: self.unlisted,
        });
        self.categories[usize::from(kind.category())].push(section);
        section
    }
}

/// The symbol by which nvlink's finalizer identifies each code section: the first one in it, in
/// 13.5 its function (case alias/other-file).
pub(crate) fn first_names(draft: &Draft<'_>) -> IdVec<SectionId, Option<OutSymbolId>> {
    let mut first = IdVec::filled(None, draft.sections.len());
    for &id in draft.locals.iter().chain(&draft.globals) {
        let symbol = &draft.symbols[id];
        if let (stt::FUNC, Some(section)) = (symbol.info & 15, symbol.section) {
            // The section of all jump slots has the symbol at its start (case unified/called).
            let code = &draft.sections[section];
            let counts = match code.kind {
                SectionKind::JumpSlots => symbol.value == 0,
                // A function that is a part of this code.
                _ if symbol.value > 0 => false,
                _ if draft.dialect.knows_code_by_function => {
                    code.function.is_none_or(|own| own == id)
                }
                _ => true,
            };
            if !counts {
                continue;
            }
            first[section].get_or_insert(id);
        }
    }
    first
}
