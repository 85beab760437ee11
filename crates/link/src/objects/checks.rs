//! Phase `objects`, last checks of an object: symbols and relocations fit what they name.
//!
//! In: an object with its roles and lookups. Out: nothing, or the first defect. Guaranteed: afterwards functions
//! and variables are inside their sections, and everything that is patched is inside the patched section.

use culd_cubin::elf::{is_nobits, shf, sht, sto, stt};
use culd_cubin::{
    MAX_ALIGN, MAX_SIZE, Malformed, RelocEntry, Section, SectionIndex, Symbol, SymbolIndex,
    SymbolSection,
};

use culd_reloc::RelocDesc;

use super::{Object, Role, is_internal, takes_part};
use crate::system_names::is_unified_table;

/// The bits of a code section's `sh_info` that say whose code it is.
const INFO_SYMBOL: u32 = 0xff_ffff;
/// Bytes of a symbol.
const SYMBOL_SIZE: u64 = 24;

/// True for sections whose contents are records that the linker reads: nvlink ends with `unexpected reloc section`, as for
/// those without contents.
fn is_rewritten(role: Role) -> bool {
    use Role::{CallGraph, FileInfo, FunctionInfo, Prototype, Reloc, Table};
    matches!(role, Table | Reloc | FileInfo | FunctionInfo | CallGraph | Prototype)
}

/// What only the driver applies may stick out of a section of `size` bytes, as an address in a 32-bit element of
/// an array does: nvlink keeps such records.
#[inline]
fn fits(row: &RelocDesc, reloc: &RelocEntry, size: u64) -> bool {
    let rest = size.checked_sub(reloc.offset);
    rest.is_some_and(|rest| row.span_bytes() as u64 <= rest) || !row.is_applicable()
}

impl<'d> Object<'d> {
    /// Relocation types are known, and what they patch is inside the patched section. Also notes which functions have
    /// descriptors, and which functions' code names shared variables.
    pub(super) fn check_relocations(&mut self) -> Result<(), Malformed> {
        let mut described = Vec::new();
        let mut shared_uses = Vec::new();
        let shared = self.shared_symbols();
        for (index, section, target) in self.reloc_sections() {
            let patched = self.section(target);
            if is_rewritten(self.role(target)) {
                let name = String::from_utf8_lossy(patched.name);
                let what = format!("relocations for '{name}', which the linker writes anew");
                return Err(Malformed::section(section.name, 0, what));
            }
            if is_nobits(patched.sh_type) && !section.relocations().is_empty() {
                let name = String::from_utf8_lossy(patched.name);
                let what = format!("relocations for '{name}', which has no bytes");
                return Err(Malformed::section(section.name, 0, what));
            }
            let function = self.code_function(target);
            let size = patched.data.len() as u64;
            let records = match self.twins.of(index) {
                None => {
                    (self.check_places((b"", section), (patched.name, size), culd_reloc::cuda))?
                }
                Some(twin) => {
                    let own = (patched.name, self.mercury_size(target, function));
                    let found =
                        self.check_places((b".nv.merc", section), own, culd_reloc::mercury)?;
                    let twin = self.section(twin);
                    self.check_places((b"", twin), (patched.name, size), culd_reloc::cuda)?;
                    found
                }
            };
            described.extend(records.into_iter().map(|function| (target, function)));
            if let (Some((first, last)), Some(function)) = (shared, function) {
                section.relocations().iter().for_each(|reloc| {
                    let variable = reloc.symbol;
                    if variable >= first && variable <= last && self.symbol(variable).is_shared() {
                        shared_uses.push((function, variable));
                    }
                });
            }
        }
        described.dedup();
        (self.described, self.shared_uses) = (described, shared_uses);
        Ok(())
    }

    /// Bytes of a section in Mercury, where the code of `function` counts before compression.
    fn mercury_size(&self, section: SectionIndex, function: Option<SymbolIndex>) -> u64 {
        match function {
            Some(function) => self.mercury_symbol(function).map_or(0, |symbol| symbol.size),
            None => self.twin_data(section).len() as u64,
        }
    }

    /// The same for the records of `section`, which patch `size` bytes of the section called `target`; returns the functions with
    /// descriptors; `front` is what the name of `section` begins with in
    /// the file.
    fn check_places(
        &self,
        (front, section): (&[u8], &Section<'d>),
        (target, size): (&[u8], u64),
        known: impl Fn(u32) -> Option<&'static RelocDesc>,
    ) -> Result<Vec<SymbolIndex>, Malformed> {
        let mut described = Vec::new();
        let relocations = section.relocations();
        let wrong = relocations.position(|reloc| match known(reloc.kind) {
            Some(row) if fits(row, &reloc, size) => {
                if row.needs_function() {
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
            Some(row) => {
                let (name, offset) = (String::from_utf8_lossy(target), reloc.offset);
                let row = row.name;
                format!("{row} at {offset:#x} runs past the end of section '{name}' ({size:#x})")
            }
        };
        let record = if section.sh_type == sht::RELA { 24 } else { 16 };
        Err(Malformed::section(&[front, section.name].concat(), record * place as u64, what))
    }

    /// Shared variables, `extern` arrays too, and tentative definitions keep their alignment in the value. What is declared
    /// with a size has no address yet: -1 in an object of a linker's.
    fn check_alignment(
        index: SymbolIndex,
        symbol: &Symbol<'_>,
        takes_part: bool,
    ) -> Result<(), Malformed> {
        let common = symbol.section == SymbolSection::Common;
        let defined = symbol.section != SymbolSection::Undefined;
        let shared = symbol.is_shared() && (defined || takes_part && symbol.size == 0);
        if !common && !shared {
            return Ok(());
        }
        let align = symbol.value.max(1);
        if align.is_power_of_two() && align <= MAX_ALIGN && symbol.size <= MAX_SIZE {
            return Ok(());
        }
        let size = symbol.size;
        let what = format!("has alignment {align:#x} and size {size:#x}, which are not usable");
        Err(symbol_defect(index, symbol, &what))
    }

    /// Only variables are tentative, and not in shared memory. nvlink crashes on other symbols that take part (DIFFERENCES.md,
    /// common-symbols).
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

    /// What takes part in a link has a name, and the system's tables have the form that compilers give them: nvlink finds them
    /// by name here and by type there.
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

    /// Sections are what their names and types say: memory is allocated, code has its function, and banks of parameters
    /// belong to the kernel that they are named after. nvlink goes by one of these here and by another there.
    pub(super) fn check_sections(&self) -> Result<(), Malformed> {
        for (index, section) in self.cubin.section_indices() {
            let role = self.role(index);
            let defect = |what: &str| Err(Malformed::section(section.name, 0, what.to_owned()));
            if is_memory(role) && section.flags & shf::ALLOC == 0 {
                return defect("flags: it is in memory, but not allocated");
            }
            if !self.is_named_after_owner(index, section) {
                return defect("sh_info names something else than the code of its function");
            }
            match role {
                Role::Text => {
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
                Role::Constant(0) | Role::Parameters => {
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

    /// True for what belongs to no section, and for what has the name of the function whose code `sh_info` names.
    fn is_named_after_owner(&self, index: SectionIndex, section: &Section<'_>) -> bool {
        let prefix: &[u8] = match self.role(index) {
            Role::Constant(0) | Role::Parameters => b".nv.constant0.",
            Role::FunctionInfo | Role::TwinInfo => b".nv.info.",
            Role::OwnShared => b".nv.shared.",
            _ => return true,
        };
        let Some(owner) = section.info_section() else { return true };
        match self.role(owner) {
            Role::Text => {
                let code = self.section(owner).name.strip_prefix(b".text.");
                code == section.name.strip_prefix(prefix)
            }
            // Jump slots and Mercury code have attributes, too.
            _ => prefix == b".nv.info.",
        }
    }

    /// Functions are in code, variables in data, both inside their section. nvlink crashes on absolute ones
    /// (docs/DIFFERENCES.md, bad-relocation).
    pub(super) fn check_symbols(&self) -> Result<(), Malformed> {
        for (index, symbol) in self.cubin.symbol_indices() {
            let takes_part = takes_part(symbol);
            Self::check_alignment(index, symbol, takes_part)?;
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
                stt::FUNC => matches!(role, Role::Text | Role::JumpSlot),
                // A parameter of a kernel.
                _ if symbol.is_reference() => role == Role::Text,
                _ => matches!(
                    role,
                    Role::Constant(_)
                        | Role::Global
                        | Role::GlobalInit
                        | Role::UnifiedData
                        | Role::OwnShared
                        | Role::PoolShared
                        | Role::ReservedShared
                ),
            };
            let of_role = match role {
                Role::Constant(_) => sto::SPACE_CONSTANT,
                Role::Global | Role::GlobalInit => sto::SPACE_GLOBAL,
                Role::OwnShared | Role::PoolShared => sto::SPACE_SHARED,
                _ => 0,
            };
            let space = symbol.other & sto::SPACE;
            let fits = fits && (space == 0 || of_role == 0 || space == of_role);
            // The value of a shared variable is its alignment.
            let shared = symbol.is_shared() || role == Role::ReservedShared;
            let start = if shared { 0 } else { symbol.value };
            let inside = start.checked_add(symbol.size).is_some_and(|end| end <= section.size);
            if !fits || !inside {
                let name = String::from_utf8_lossy(symbol.name);
                let what = format!("symbol {} ('{name}') does not fit its section", index.0);
                return Err(Malformed::section(section.name, start, what));
            }
            // Banks without an owner are copied whole: constant variables, and addresses of position-independent code.
            let owned = section.info_section().is_some();
            if owned && matches!(role, Role::Constant(1..)) && !is_internal(symbol) {
                self.check_among_literals(at, index, symbol)?;
            }
        }
        Ok(())
    }

    /// What is behind the last literal of a bank of literals is not copied: nobody may name it.
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

/// True for sections that a running program has in some memory.
fn is_memory(role: Role) -> bool {
    use Role::{
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
    let name = String::from_utf8_lossy(symbol.name);
    let what = format!("symbol {} ('{name}') {what}", index.0);
    Malformed::section(b".symtab", SYMBOL_SIZE * u64::from(index.0), what)
}
