//! Phase `objects`: one input file, parsed and checked, with its two halves paired.
//!
//! In: the bytes of an input. Out: [`InputObject`], or why it cannot be linked. Guaranteed: every
//! index in every record is valid.

use culd_cubin::arch::Flavour;
use culd_cubin::elf::{self, shf, sht};
use culd_cubin::note::{self, CuInfo};
use culd_cubin::raw::SymbolEntry;
use culd_cubin::{Cubin, Section, SectionIndex, Symbol, SymbolIndex, compat};

use super::counterparts::{self, Counterparts};
use super::jump_slot;
use super::linkers::{self, NvidiaLinker};
use super::lookups::Lookups;
use super::outline::ObjectOutline;
use super::records::RecordTables;
use super::roles::{self, SectionRole};
use super::unified_ids::{self, UnifiedIds};
use crate::diag::Message;
use crate::options::dialect::Dialect;
use crate::options::input::Input;

/// One input file.
pub(crate) struct InputObject<'d> {
    pub(crate) name: &'d str,
    /// Part of a system library.
    pub(crate) system: bool,
    pub(crate) cubin: Cubin<'d>,
    /// Role by section index.
    pub(crate) roles: Vec<SectionRole>,
    /// Pairs of sections; empty in an object without Mercury.
    pub(crate) counterparts: Counterparts,
    /// Why its jump slots cannot go into the table of a program, if they cannot. Objects (`-r`)
    /// keep them as they are.
    pub(crate) odd_slots: Option<Box<Message>>,
    pub(crate) records: RecordTables<'d>,
    pub(super) lookups: Lookups,
    /// Ids of unified functions and variables.
    pub(crate) unified: Vec<UnifiedIds>,
    /// Functions whose address is taken because a descriptor's relocation names them, each with the
    /// patched section.
    pub(crate) described: Vec<(SectionIndex, SymbolIndex)>,
    /// Functions whose code names shared variables, each with the variable, in the order of the
    /// records.
    pub(crate) shared_uses: Vec<(SymbolIndex, SymbolIndex)>,
    /// `extern` arrays that nvlink defined with `-r`: their symbols count as declarations.
    pub(crate) array_definitions: Vec<SymbolIndex>,
    pub(crate) outline: ObjectOutline<'d>,
    pub(crate) cuinfo: CuInfo,
    /// The bytes of all tool records.
    pub(crate) tkinfo: &'d [u8],
    /// The linker of NVIDIA's that made it with `-r`, if one did.
    pub(crate) linker: Option<NvidiaLinker>,
}

impl<'d> InputObject<'d> {
    /// True for a whole program: ptxas has laid out the shared memory of its kernels (`-ewp`).
    pub(crate) fn is_extensible(&self) -> bool {
        self.cubin.header.e_type == elf::TYPE_EXTENSIBLE
    }

    /// True for an object (`-r`) that holds a whole program: symbol 0 has the alignment of the
    /// section without symbol.
    pub(super) fn is_made_of_extensible(&self) -> bool {
        let null = self.cubin.symbols.first();
        !self.is_extensible() && null.is_some_and(|symbol| symbol.value != 0)
    }

    /// True for an input that should be linked with a whole program.
    pub(crate) fn may_extend(&self) -> bool {
        self.is_extensible() || self.system
    }

    pub(crate) fn symbol(&self, index: SymbolIndex) -> &Symbol<'d> {
        &self.cubin.symbols[index.0 as usize]
    }

    /// The same symbol in Mercury's table.
    pub(crate) fn mercury_symbol(&self, index: SymbolIndex) -> Option<SymbolEntry> {
        let table = self.section(self.counterparts.symbols()?).data;
        SymbolEntry::read(table, SymbolEntry::SIZE * index.0 as usize)
    }

    /// The function in whose code `index` lies, behind the start. An alias does not lie inside.
    pub(crate) fn outer_function(&self, index: SymbolIndex) -> Option<SymbolIndex> {
        let symbol = self.symbol(index);
        let part = symbol.is_function() && symbol.value > 0 && symbol.binding() == elf::stb::LOCAL;
        let outer = self.code_function(symbol.defined_in().filter(|_| part)?)?;
        (outer != index).then_some(outer)
    }

    /// The function that `index` is an alias of.
    pub(crate) fn aliased_function(&self, index: SymbolIndex) -> Option<SymbolIndex> {
        let symbol = self.symbol(index);
        let alias = symbol.is_function() && symbol.value == 0;
        let main = self.code_function(symbol.defined_in().filter(|_| alias)?)?;
        (main != index).then_some(main)
    }

    /// The offset in machine code of the place `offset` bytes behind the start of `function` in
    /// Mercury, if a function inside its code starts there; else `offset`.
    pub(crate) fn place_in_machine_code(&self, function: SymbolIndex, offset: i64) -> i64 {
        if offset == 0 || !self.outline.has_inner_functions {
            return offset;
        }
        let code = self.symbol(function).defined_in();
        let inner = self.outline.functions.iter().find(|inner| {
            let mercury = self.mercury_symbol(inner.index);
            self.symbol(inner.index).defined_in() == code
                && mercury.is_some_and(|symbol| i64::try_from(symbol.value) == Ok(offset))
        });
        inner.map_or(offset, |inner| self.symbol(inner.index).value as i64)
    }

    /// Bytes of the machine code of a function, if the code section is named after it.
    pub(crate) fn code_size(&self, function: SymbolIndex) -> Option<u64> {
        let symbol = self.symbol(function);
        let code = symbol.defined_in().filter(|&code| self.names_code(code, symbol))?;
        Some(self.section(code).size)
    }

    pub(crate) fn section(&self, index: SectionIndex) -> &Section<'d> {
        &self.cubin.sections[index.0 as usize]
    }

    /// The bytes of a section's counterpart; empty if it has none.
    pub(crate) fn counterpart_data(&self, index: SectionIndex) -> &'d [u8] {
        self.counterparts.of(index).map_or(&[][..], |counterpart| self.section(counterpart).data)
    }

    /// The number of section `index` among the sections of the Mercury half. That half has no
    /// `.symtab` and no parameters. Of two counterparts only Mercury's counts, except that code
    /// counts at the place of the machine code (case unified/relocatable by CUDA 13.5).
    pub(crate) fn mercury_number(&self, index: SectionIndex) -> u32 {
        let sections = self.cubin.section_indices().take_while(|(other, _)| *other < index);
        let counts = sections.filter(|(other, section)| match section.sh_type {
            sht::SYMTAB | sht::MERCURY_CODE => false,
            _ if section.flags & shf::MERCURY != 0 => true,
            _ => match self.role(*other) {
                SectionRole::Text | SectionRole::JumpSlot => true,
                SectionRole::Parameters => false,
                _ => self.counterparts.of(*other).is_none(),
            },
        });
        counts.count() as u32
    }

    /// The devices that the object's machine code suits, as the object says.
    pub(crate) fn fast_targets(&self) -> Option<u64> {
        let records = self.records.compat.as_deref().unwrap_or_default();
        let record = records.iter().find(|record| record.code == compat::code::FINALIZER)?;
        record.payload.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// True for an object with a Mercury half.
    pub(crate) fn has_mercury(&self) -> bool {
        self.counterparts.symbols().is_some()
    }

    /// True when the file has any code.
    pub(crate) fn has_code(&self) -> bool {
        self.roles.contains(&SectionRole::Text)
    }

    pub(crate) fn role(&self, index: SectionIndex) -> SectionRole {
        self.roles[index.0 as usize]
    }

    /// The string of a call-graph or prototype record; phase `objects` has checked that it exists.
    pub(crate) fn prototype(&self, offset: u32) -> &'d [u8] {
        self.cubin.string(offset).unwrap_or_default()
    }

    /// True if code section `text` is named after `function`, which then is no alias.
    pub(crate) fn names_code(&self, text: SectionIndex, function: &Symbol<'_>) -> bool {
        roles::names_code(self.role(text), self.section(text), function)
    }

    /// True if the file defines unified functions.
    pub(crate) fn has_unified_functions(&self) -> bool {
        self.roles.contains(&SectionRole::FunctionIds)
    }

    /// The sections of unified functions and variables: ids and jump slots.
    pub(crate) fn unified_sections(&self) -> impl Iterator<Item = (SectionIndex, SectionRole)> {
        self.lookups.unified.iter().map(|&index| (index, self.role(index)))
    }

    /// The sections of jump slots.
    pub(crate) fn jump_slots(&self) -> impl Iterator<Item = SectionIndex> {
        let slots = self.unified_sections().filter(|(_, role)| *role == SectionRole::JumpSlot);
        slots.map(|(index, _)| index)
    }

    /// Relocation sections of code that is named after a function, each with the function.
    pub(crate) fn code_relocations(&self) -> impl Iterator<Item = (SymbolIndex, &Section<'d>)> {
        self.reloc_sections()
            .filter_map(|(_, section, text)| Some((self.code_function(text)?, section)))
    }

    /// Relocation sections in section order, each with the section it patches.
    pub(crate) fn reloc_sections(
        &self,
    ) -> impl Iterator<Item = (SectionIndex, &Section<'d>, SectionIndex)> {
        roles::reloc_sections(&self.cubin, &self.roles)
    }
}

impl<'d> InputObject<'d> {
    /// Reads and checks an input.
    pub(super) fn parse(input: Input<'d>, dialect: &Dialect) -> Result<Self, Message> {
        let file = input.name;
        let malformed = |defect| Message::malformed(file, defect);
        let parsed =
            Cubin::parse(input.bytes).map_err(|defect| match is_for_32_bits(input.bytes) {
                true => Message::AddressSizeMismatch { file: file.to_owned() },
                false => malformed(defect),
            });
        let mut cubin = parsed?;
        check_abi(file, &cubin)?;
        let flavour = Flavour::of_sm(cubin.header.sm());
        let mut roles = roles::all(file, &cubin, flavour)?;
        let (mut counterparts, mut odd_slots) = (Counterparts::default(), None);
        if flavour == Flavour::Mercury {
            counterparts = counterparts::pair(file, &cubin, &roles)?;
            let odd = jump_slot::find_odd(file, &cubin, &roles, &counterparts);
            odd_slots = odd.map_err(malformed)?.map(Box::new);
            counterparts::present(&mut cubin, &mut roles, &counterparts);
        }
        roles::check_reloc_names(&cubin, &roles).map_err(malformed)?;
        let tkinfo = cubin.section_by_name(b".note.nv.tkinfo").map_or(&[][..], |note| note.data);
        let cuinfo = driver_info(file, &cubin, tkinfo)?;
        let linker = NvidiaLinker::of_object(tkinfo);
        if linker.is_some() {
            linkers::forget_lost_literals(&mut cubin, &roles);
        }
        let records = RecordTables::read(&cubin, &roles).map_err(malformed)?;
        let lookups = Lookups::build(&cubin, &roles);
        let mut object = InputObject {
            name: file,
            system: input.system,
            cubin,
            roles,
            counterparts,
            odd_slots,
            records,
            lookups,
            unified: Vec::new(),
            described: Vec::new(),
            shared_uses: Vec::new(),
            array_definitions: Vec::new(),
            outline: ObjectOutline::default(),
            cuinfo,
            tkinfo,
            linker,
        };
        object.unified = unified_ids::read(&object).map_err(malformed)?;
        object.check_symbols().map_err(malformed)?;
        object.check_sections().map_err(malformed)?;
        object.check_relocations().map_err(malformed)?;
        object.declare_arrays();
        object.outline = ObjectOutline::of(&object, dialect);
        Ok(object)
    }
}

/// The object's note for the driver. CUDA 12.8 and 12.9 have another note for sm_100 and later, and
/// no note for older targets.
fn driver_info(file: &str, cubin: &Cubin<'_>, tkinfo: &[u8]) -> Result<CuInfo, Message> {
    const CUDA_12_9: u16 = 129;
    let parse = |note: &Section<'_>| {
        CuInfo::parse(note.name, note.data).map_err(|defect| Message::malformed(file, defect))
    };
    if let Some(info) = cubin.header.info_of_cuda_12() {
        return Ok(info);
    }
    if let Some(note) = cubin.section_by_name(b".note.nv.cuinfo") {
        return parse(note);
    }
    let note = cubin
        .section_by_name(b".note.nv.cuver")
        .ok_or_else(|| Message::unsupported(file, "it has no section '.note.nv.cuinfo'"))?;
    let toolkit = note::release_of_cuda_12(tkinfo).unwrap_or(CUDA_12_9);
    Ok(CuInfo { toolkit, ..parse(note)? })
}

/// Checks that the object is relocatable, and of a release that is known.
fn check_abi(file: &str, cubin: &Cubin<'_>) -> Result<(), Message> {
    let header = &cubin.header;
    let kinds = [elf::TYPE_RELOCATABLE, elf::TYPE_EXTENSIBLE];
    if !kinds.contains(&header.e_type) {
        let reason = format!("it is no relocatable object (ELF type {:#x})", header.e_type);
        return Err(Message::unsupported(file, reason));
    }
    match (header.os_abi, header.abi_version) {
        (elf::OSABI_CUDA_12, elf::ABI_VERSION_12) | (elf::OSABI_CUDA, elf::ABI_VERSION) => Ok(()),
        (elf::OSABI_CUDA_12, _) => Err(Message::AbiMismatch { file: file.to_owned() }),
        _ => Err(Message::unsupported(file, "its ELF ABI is unknown")),
    }
}

/// True for a cubin for 32 bits, which ptxas of CUDA 11 makes with `-m32`: its class says so, and
/// its header has the length of that class. nvlink does not look at the class alone
/// (docs/DIFFERENCES.md, damaged-input).
fn is_for_32_bits(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF\x01\x01")
        && bytes.get(18..20) == Some(&[0xbe, 0])
        && bytes.get(40..42) == Some(&[0x34, 0])
}
