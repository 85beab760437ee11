//! Phase 1, last checks of an object: symbols and relocations fit what they name.
//!
//! In: an object with its roles and lookups. Out: nothing, or the first defect. Guaranteed: afterwards functions
//! and variables are inside their sections, and everything that is patched is inside the patched section.

use culd_cubin::elf::{sht, stt};
use culd_cubin::{
    MAX_ALIGN, MAX_SIZE, Malformed, RelocEntry, Section, SectionIndex, Symbol, SymbolIndex,
    SymbolSection,
};

use super::{Object, Role, takes_part};

/// Bytes of a symbol.
const SYMBOL_SIZE: u64 = 24;

/// True for sections whose contents are records that the linker reads: nvlink ends with `unexpected reloc section`.
fn is_rewritten(role: Role) -> bool {
    use Role::{CallGraph, FileInfo, FunctionInfo, Prototype, Reloc, Table};
    matches!(role, Table | Reloc | FileInfo | FunctionInfo | CallGraph | Prototype)
}

impl<'d> Object<'d> {
    /// Relocation types are known, and what they patch is inside the patched section. Also notes which functions have
    /// descriptors.
    pub(super) fn check_relocations(&mut self) -> Result<(), Malformed> {
        let mut described = Vec::new();
        for (index, section, target) in self.reloc_sections() {
            if is_rewritten(self.role(target)) {
                let name = String::from_utf8_lossy(self.section(target).name);
                let what = format!("relocations for '{name}', which the linker writes anew");
                return Err(Malformed::section(section.name, 0, what));
            }
            let Some(twin) = self.twins.of(index) else {
                let size = self.section(target).data.len() as u64;
                described.extend(self.check_places(
                    (b"", section),
                    target,
                    size,
                    culd_reloc::cuda,
                )?);
                continue;
            };
            let size = self.mercury_size(target);
            described.extend(self.check_places(
                (b".nv.merc", section),
                target,
                size,
                culd_reloc::mercury,
            )?);
            let size = self.section(target).data.len() as u64;
            self.check_places((b"", self.section(twin)), target, size, culd_reloc::cuda)?;
        }
        described.dedup();
        self.described = described;
        Ok(())
    }

    /// Bytes of a section in Mercury, where code counts before compression.
    fn mercury_size(&self, section: SectionIndex) -> u64 {
        match self.code_function(section) {
            Some(function) => self.mercury_symbol(function).map_or(0, |symbol| symbol.size),
            None => self.twin_data(section).len() as u64,
        }
    }

    /// The same for the records of `section`, which patch `size` bytes of `target`; returns the functions with
    /// descriptors; `front` is what the name of `section` begins with in
    /// the file.
    fn check_places(
        &self,
        (front, section): (&[u8], &Section<'d>),
        target: SectionIndex,
        size: u64,
        known: impl Fn(u32) -> Option<&'static culd_reloc::RelocDesc>,
    ) -> Result<Vec<(SectionIndex, SymbolIndex)>, Malformed> {
        let mut described = Vec::new();
        // What only the driver applies may stick out, as an address in a 32-bit element of
        // an array does: nvlink keeps such records.
        let fits = |row: &culd_reloc::RelocDesc, reloc: &RelocEntry| {
            let end = reloc.offset.saturating_add(row.span_bytes() as u64);
            end <= size || !row.is_applicable()
        };
        let relocations = section.relocations();
        let wrong = relocations.iter().position(|reloc| match known(reloc.kind) {
            Some(row) if fits(row, &reloc) => {
                if row.needs_function() {
                    described.push((target, reloc.symbol));
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
                let name = String::from_utf8_lossy(self.section(target).name);
                format!(
                    "{} at {:#x} runs past the end of section '{name}' ({size:#x})",
                    row.name, reloc.offset
                )
            }
        };
        let record = if section.sh_type == sht::RELA { 24 } else { 16 };
        Err(Malformed::section(&[front, section.name].concat(), record * place as u64, what))
    }

    /// Shared variables, `extern` arrays too, and tentative definitions keep their alignment in the value. What is declared
    /// with a size has no address yet: -1 in an object of a linker's.
    fn check_alignment(index: SymbolIndex, symbol: &Symbol<'_>) -> Result<(), Malformed> {
        let common = symbol.section == SymbolSection::Common;
        let defined = symbol.section != SymbolSection::Undefined;
        let shared = symbol.is_shared() && (defined || takes_part(symbol) && symbol.size == 0);
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
    fn check_common(index: SymbolIndex, symbol: &Symbol<'_>) -> Result<(), Malformed> {
        let variable = matches!(symbol.kind(), stt::OBJECT | stt::CUDA_OBJECT);
        let takes_part = takes_part(symbol) || symbol.kind() == stt::SECTION;
        if symbol.section != SymbolSection::Common || !takes_part || variable && !symbol.is_shared()
        {
            return Ok(());
        }
        Err(symbol_defect(index, symbol, "is common, which only variables in global memory can be"))
    }

    /// Functions are in code, variables in data, both inside their section. nvlink crashes on absolute ones
    /// (docs/DIFFERENCES.md, bad-relocation).
    pub(super) fn check_symbols(&self) -> Result<(), Malformed> {
        for (index, symbol) in self.cubin.symbol_indices() {
            Self::check_alignment(index, symbol)?;
            Self::check_common(index, symbol)?;
            if symbol.section == SymbolSection::Absolute && takes_part(symbol) {
                return Err(symbol_defect(index, symbol, "is absolute"));
            }
            let SymbolSection::In(section) = symbol.section else { continue };
            let role = self.role(section);
            let section = self.section(section);
            let fits = match symbol.kind() {
                _ if !takes_part(symbol) => continue,
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
            // The value of a shared variable is its alignment.
            let shared = symbol.is_shared() || role == Role::ReservedShared;
            let start = if shared { 0 } else { symbol.value };
            let inside = start.checked_add(symbol.size).is_some_and(|end| end <= section.size);
            if !fits || !inside {
                let name = String::from_utf8_lossy(symbol.name);
                let what = format!("symbol {} ('{name}') does not fit its section", index.0);
                return Err(Malformed::section(section.name, start, what));
            }
        }
        Ok(())
    }
}

/// What is wrong with a symbol, at its place in the table.
fn symbol_defect(index: SymbolIndex, symbol: &Symbol<'_>, what: &str) -> Malformed {
    let name = String::from_utf8_lossy(symbol.name);
    let what = format!("symbol {} ('{name}') {what}", index.0);
    Malformed::section(b".symtab", SYMBOL_SIZE * u64::from(index.0), what)
}
