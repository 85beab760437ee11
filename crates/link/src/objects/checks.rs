//! Phase `objects`, last checks of an object: symbols and relocations fit the sections they name.
//!
//! In: an object with its roles and lookups. Out: nothing, or the first defect. Guaranteed:
//! afterwards functions and variables lie inside their sections, and every patched field lies
//! inside the patched section.

use culd_cubin::elf::{is_nobits, shf, sht, sto, stt};
use culd_cubin::{
    MAX_ALIGN, MAX_SIZE, Malformed, RelocEntry, Section, SectionIndex, Symbol, SymbolIndex,
    SymbolSection, text_of,
};
use culd_reloc::RelocDesc;

use super::linkers::{EXTERN_INSTANCE, is_by_linker};
use super::object::InputObject;
use super::roles::{SectionRole, is_internal, takes_part};
use super::whole;
use crate::base::system_names::is_unified_table;

/// The bits of a code section's `sh_info` that name its function.
const INFO_SYMBOL: u32 = 0xff_ffff;
/// Bytes of a symbol.
const SYMBOL_SIZE: u64 = 24;

/// True for sections of records that the linker writes anew. If relocations patch one, or a section
/// without contents, nvlink ends with `unexpected reloc section`.
fn is_rewritten(role: SectionRole) -> bool {
    use SectionRole::{CallGraph, FileInfo, FunctionInfo, Prototype, Reloc, Table};
    matches!(role, Table | Reloc | FileInfo | FunctionInfo | CallGraph | Prototype)
}

/// A relocation section of one half, to be checked.
struct CheckedRecords<'o, 'd> {
    /// Prefix of the name of `section` in the file.
    prefix: &'static [u8],
    section: &'o Section<'d>,
    /// The name of the patched section, and its size in bytes.
    target: &'d [u8],
    size: u64,
}

/// True if the patched field lies inside a section of `size` bytes. A record that only the driver
/// applies may exceed it, as an address in a 32-bit element of an array does: nvlink keeps such
/// records.
fn fits(desc: &RelocDesc, reloc: &RelocEntry, size: u64) -> bool {
    let rest = size.checked_sub(reloc.offset);
    rest.is_some_and(|rest| desc.span_bytes() as u64 <= rest) || !desc.is_applicable()
}

impl<'d> InputObject<'d> {
    /// Checks that relocation types are known and that patched fields lie inside the patched
    /// section. Also collects the functions with descriptors, and the functions whose code names
    /// shared variables.
    pub(super) fn check_relocations(&mut self) -> Result<(), Malformed> {
        let mut described = Vec::new();
        let mut shared_uses = Vec::new();
        for (index, section, target) in self.reloc_sections() {
            let patched = self.section(target);
            if is_rewritten(self.role(target)) {
                let name = text_of(patched.name);
                let what = format!("relocations for '{name}', which the linker writes anew");
                return Err(Malformed::section(section.name, 0, what));
            }
            if is_nobits(patched.sh_type) && !section.relocations().is_empty() {
                let name = text_of(patched.name);
                let what = format!("relocations for '{name}', which has no bytes");
                return Err(Malformed::section(section.name, 0, what));
            }
            let function = self.code_function(target);
            let size = patched.data.len() as u64;
            let checked =
                |section, size| CheckedRecords { prefix: b"", section, target: patched.name, size };
            let records = match self.counterparts.of(index) {
                None => self.check_places(checked(section, size), culd_reloc::cuda)?,
                Some(counterpart) => {
                    let mercury_size = self.mercury_size(target, function);
                    let records =
                        CheckedRecords { prefix: b".nv.merc", ..checked(section, mercury_size) };
                    let found = self.check_places(records, culd_reloc::mercury)?;
                    let counterpart = self.section(counterpart);
                    self.check_places(checked(counterpart, size), culd_reloc::cuda)?;
                    found
                }
            };
            described.extend(records.into_iter().map(|function| (target, function)));
            if let Some(function) = function {
                section.relocations().iter().for_each(|reloc| {
                    if self.symbol(reloc.symbol).is_shared() {
                        shared_uses.push((function, reloc.symbol));
                    }
                });
            }
        }
        described.dedup();
        (self.described, self.shared_uses) = (described, shared_uses);
        Ok(())
    }

    /// Bytes of a section in the Mercury half. Code of `function` is counted before compression.
    fn mercury_size(&self, section: SectionIndex, function: Option<SymbolIndex>) -> u64 {
        match function {
            Some(function) => self.mercury_symbol(function).map_or(0, |symbol| symbol.size),
            None => self.counterpart_data(section).len() as u64,
        }
    }

    /// Checks types and offsets of records; returns the functions with descriptors.
    fn check_places(
        &self,
        records: CheckedRecords<'_, 'd>,
        known: impl Fn(u32) -> Option<&'static RelocDesc>,
    ) -> Result<Vec<SymbolIndex>, Malformed> {
        let CheckedRecords { prefix, section, target, size } = records;
        let mut described = Vec::new();
        let relocations = section.relocations();
        let wrong = relocations.position(|reloc| match known(reloc.kind) {
            Some(desc) if fits(desc, &reloc, size) => {
                if desc.needs_function() {
                    described.push(reloc.symbol);
                }
                false
            }
            _ => true,
        });
        let Some((place, reloc)) = wrong.and_then(|place| Some((place, relocations.get(place)?)))
        else {
            return Ok(described);
        };
        let what = match known(reloc.kind) {
            None => format!("relocation type {:#x} is unknown", reloc.kind),
            Some(desc) => {
                let (name, offset) = (text_of(target), reloc.offset);
                let desc = desc.name;
                format!("{desc} at {offset:#x} runs past the end of section '{name}' ({size:#x})")
            }
        };
        let record = if section.sh_type == sht::RELA { 24 } else { 16 };
        Err(Malformed::section(&[prefix, section.name].concat(), record * place as u64, what))
    }

    /// Checks the alignment that some symbols have as value: shared variables, `extern` arrays
    /// included, and tentative definitions. A shared variable that is declared with a size has no
    /// address yet; in an object made by a linker its value is -1. nvlink writes the size of a
    /// kernel's other variables as the alignment of its `extern` arrays: in one symbol for all
    /// arrays (case shared/dynamic-in-steps), or with `-g` in the symbol of each
    /// (shared/dynamic-with-g). So does ptxas in a whole program.
    fn check_alignment(
        &self,
        index: SymbolIndex,
        symbol: &Symbol<'_>,
        takes_part: bool,
    ) -> Result<(), Malformed> {
        let common = symbol.section == SymbolSection::Common;
        let defined = symbol.section != SymbolSection::Undefined;
        let shared = symbol.is_shared() && (defined || takes_part && symbol.size == 0);
        if !common && !shared || whole::is_placed(self, symbol) {
            return Ok(());
        }
        let align = symbol.value.max(1);
        let may_be_any = || {
            let instance = symbol.name == EXTERN_INSTANCE;
            let from_linker = instance || self.is_extensible() || is_by_linker(self.tkinfo);
            shared && symbol.size == 0 && from_linker
        };
        let usable = align.is_power_of_two() || may_be_any();
        if usable && align <= MAX_ALIGN && symbol.size <= MAX_SIZE {
            return Ok(());
        }
        let size = symbol.size;
        let what = format!("has alignment {align:#x} and size {size:#x}, which are not usable");
        Err(symbol_defect(index, symbol, &what))
    }

    /// Checks that a tentative symbol is a variable, and not in shared memory. nvlink crashes on
    /// other symbols that take part (DIFFERENCES.md, common-symbols).
    fn check_common(
        index: SymbolIndex,
        symbol: &Symbol<'_>,
        takes_part: bool,
    ) -> Result<(), Malformed> {
        let variable = matches!(symbol.kind(), stt::OBJECT | stt::CUDA_OBJECT);
        let takes_part = takes_part || symbol.kind() == stt::SECTION;
        if symbol.section != SymbolSection::Common || !takes_part || variable && !symbol.is_shared()
        {
            return Ok(());
        }
        Err(symbol_defect(index, symbol, "is common, which only variables in global memory can be"))
    }

    /// Checks that a symbol that takes part has a name, and that the unified tables have the form
    /// that compilers give them. nvlink finds the tables by name in one place and by type in
    /// another.
    fn check_form(
        index: SymbolIndex,
        symbol: &Symbol<'_>,
        takes_part: bool,
    ) -> Result<(), Malformed> {
        if symbol.name.is_empty() && takes_part {
            return Err(symbol_defect(index, symbol, "has no name"));
        }
        let variable = matches!(symbol.kind(), stt::OBJECT | stt::CUDA_OBJECT);
        if is_unified_table(symbol.name) && (symbol.other != 0 || !variable) {
            let (kind, other) = (symbol.kind(), symbol.other);
            let what = format!("has type {kind} and st_other {other:#x}, which no table has");
            return Err(symbol_defect(index, symbol, &what));
        }
        Ok(())
    }

    /// Checks that sections are what their names and types say: memory is allocated, code has its
    /// function, and parameter banks belong to the kernel that they are named after. nvlink relies
    /// on one of these facts in one place and on another elsewhere.
    pub(super) fn check_sections(&self) -> Result<(), Malformed> {
        for (index, section) in self.cubin.section_indices() {
            let role = self.role(index);
            let defect = |what: &str| Err(Malformed::section(section.name, 0, what.to_owned()));
            let align = section.align();
            let shared = matches!(role, SectionRole::OwnShared | SectionRole::PoolShared);
            let usable = align.is_power_of_two() || shared && is_by_linker(self.tkinfo);
            if !usable {
                return defect(&format!("alignment {align:#x} is not usable"));
            }
            if is_memory(role) && section.flags & shf::ALLOC == 0 {
                return defect("flags: it is in memory, but not allocated");
            }
            if !self.is_named_after_owner(index, section) {
                return defect("sh_info names something else than the code of its function");
            }
            match role {
                SectionRole::Text => {
                    let function = self.cubin.symbol(SymbolIndex(section.info & INFO_SYMBOL));
                    let own = |symbol: &Symbol<'_>| symbol.defined_in() == Some(index);
                    if section.flags & shf::INFO_LINK != 0 || !function.is_some_and(own) {
                        return defect("sh_info names no function of this section");
                    }
                    let function = self.code_function(index);
                    if function.is_some_and(|function| self.register_count(function).is_none()) {
                        return defect("no attribute tells how many registers its function needs");
                    }
                }
                SectionRole::Constant(0) | SectionRole::Parameters => {
                    let function = section.info_section().and_then(|text| self.code_function(text));
                    if function.is_some_and(|function| !self.symbol(function).is_entry()) {
                        return defect("it has the parameters of a function that is no kernel");
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// True for a section without owner, and for one named after the function whose code `sh_info`
    /// names.
    fn is_named_after_owner(&self, index: SectionIndex, section: &Section<'_>) -> bool {
        let prefix: &[u8] = match self.role(index) {
            SectionRole::Constant(0) | SectionRole::Parameters => b".nv.constant0.",
            SectionRole::FunctionInfo | SectionRole::CounterpartInfo => b".nv.info.",
            SectionRole::OwnShared => b".nv.shared.",
            _ => return true,
        };
        let Some(owner) = section.info_section() else { return true };
        match self.role(owner) {
            SectionRole::Text => {
                let code = self.section(owner).name.strip_prefix(b".text.");
                code == section.name.strip_prefix(prefix)
            }
            // Jump slots and Mercury code have attributes, too.
            _ => prefix == b".nv.info.",
        }
    }

    /// Checks that functions are in code and variables in data, both inside their section. nvlink
    /// crashes on absolute symbols (docs/DIFFERENCES.md, bad-relocation).
    pub(super) fn check_symbols(&self) -> Result<(), Malformed> {
        for (index, symbol) in self.cubin.symbol_indices() {
            let takes_part = takes_part(symbol);
            self.check_alignment(index, symbol, takes_part)?;
            Self::check_common(index, symbol, takes_part)?;
            Self::check_form(index, symbol, takes_part)?;
            if symbol.section == SymbolSection::Absolute && takes_part {
                return Err(symbol_defect(index, symbol, "is absolute"));
            }
            let SymbolSection::In(at) = symbol.section else { continue };
            let role = self.role(at);
            let section = self.section(at);
            let fits = match symbol.kind() {
                _ if !takes_part => continue,
                stt::FUNC => matches!(role, SectionRole::Text | SectionRole::JumpSlot),
                // A parameter of a kernel.
                _ if symbol.is_reference() => role == SectionRole::Text,
                _ => matches!(
                    role,
                    SectionRole::Constant(_)
                        | SectionRole::Global
                        | SectionRole::GlobalInit
                        | SectionRole::UnifiedData
                        | SectionRole::OwnShared
                        | SectionRole::PoolShared
                        | SectionRole::ReservedShared
                ),
            };
            let of_role = match role {
                SectionRole::Constant(_) => sto::SPACE_CONSTANT,
                SectionRole::Global | SectionRole::GlobalInit => sto::SPACE_GLOBAL,
                SectionRole::OwnShared | SectionRole::PoolShared => sto::SPACE_SHARED,
                _ => 0,
            };
            let space = symbol.other & sto::SPACE;
            let fits = fits && (space == 0 || of_role == 0 || space == of_role);
            // The value of a shared variable is its alignment, unless ptxas has placed it.
            let shared = symbol.is_shared() || role == SectionRole::ReservedShared;
            let placed = whole::is_placed(self, symbol);
            let start = if shared && !placed { 0 } else { symbol.value };
            let inside = start.checked_add(symbol.size).is_some_and(|end| end <= section.size);
            if !fits || !inside {
                let name = text_of(symbol.name);
                let what = format!("symbol {} ('{name}') does not fit its section", index.0);
                return Err(Malformed::section(section.name, start, what));
            }
            // Banks without an owner are copied whole: constant variables, and addresses of
            // position-independent code.
            let owned = section.info_section().is_some();
            if owned && matches!(role, SectionRole::Constant(1..)) && !is_internal(symbol) {
                self.check_among_literals(at, index, symbol)?;
            }
        }
        Ok(())
    }

    /// Checks that a symbol of a literal bank does not exceed the last literal: the bytes behind it
    /// are not copied.
    fn check_among_literals(
        &self,
        bank: SectionIndex,
        index: SymbolIndex,
        symbol: &Symbol<'_>,
    ) -> Result<(), Malformed> {
        let literals = self.literals(bank);
        let end = symbol.value.saturating_add(symbol.size);
        match literals.last() {
            Some(&(_, last)) if end > last => {
                Err(symbol_defect(index, symbol, "is behind the literals of its bank"))
            }
            _ => Ok(()),
        }
    }
}

/// True for sections that a running program has in memory.
fn is_memory(role: SectionRole) -> bool {
    use SectionRole::{
        Constant, Global, GlobalInit, JumpSlot, OwnShared, Parameters, PoolShared, ReservedShared,
        Text, UnifiedData,
    };
    matches!(
        role,
        Constant(_)
            | Global
            | GlobalInit
            | JumpSlot
            | OwnShared
            | Parameters
            | PoolShared
            | ReservedShared
            | Text
            | UnifiedData
    )
}

/// What is wrong with a symbol, at its place in the table.
fn symbol_defect(index: SymbolIndex, symbol: &Symbol<'_>, what: &str) -> Malformed {
    let name = text_of(symbol.name);
    let what = format!("symbol {} ('{name}') {what}", index.0);
    Malformed::section(b".symtab", SYMBOL_SIZE * u64::from(index.0), what)
}
