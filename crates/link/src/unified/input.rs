//! The unified functions and variables of one input.
//!
//! In: an object whose roles are known. Out: its entries. Guaranteed: an entry names a function, or
//! a variable in `.nv.udt`; a jump slot has the size of one and one local function at its start.

use culd_cubin::elf::stb;
use culd_cubin::unified::{Entry, SLOT, entries};
use culd_cubin::{Malformed, SectionIndex, SymbolIndex};

use crate::objects::{Object, Role};

/// What ptxas puts in front of a unified function's name to name its jump slot.
pub(crate) const STUB_PREFIX: &[u8] = b"__cuda_uf_stub_";

/// What it puts in front of the name to name the section.
pub(crate) const SLOT_PREFIX: &[u8] = b".nv.uft.rel.";

/// The entries of an entry section.
#[derive(Debug, Clone)]
pub(crate) struct Entries {
    pub(crate) section: SectionIndex,
    pub(crate) list: Vec<Entry>,
}

/// Reads and checks the entry sections of `object`, in section order.
pub(crate) fn read(object: &Object<'_>) -> Result<Vec<Entries>, Malformed> {
    let mut all = Vec::new();
    for (index, role) in object.unified_sections() {
        let functions = match role {
            Role::FunctionIds => true,
            Role::VariableIds => false,
            Role::JumpSlot => {
                check_slot(object, index)?;
                continue;
            }
            _ => continue,
        };
        let section = object.section(index);
        let mut list = Vec::with_capacity(section.data.len() / culd_cubin::unified::ENTRY_SIZE);
        for (at, entry) in entries(section) {
            if !names(object, entry.symbol, functions) {
                let what = format!("symbol {} is no {}", entry.symbol.0, kind(functions));
                return Err(Malformed::section(section.name, at, what));
            }
            list.push(entry);
        }
        all.push(Entries { section: index, list });
    }
    Ok(all)
}

fn kind(functions: bool) -> &'static str {
    if functions { "function" } else { "variable in '.nv.udt'" }
}

fn names(object: &Object<'_>, symbol: SymbolIndex, functions: bool) -> bool {
    let Some(symbol) = object.cubin.symbol(symbol) else { return false };
    if functions {
        return symbol.is_function();
    }
    symbol.defined_in().is_some_and(|section| object.role(section) == Role::UnifiedData)
}

fn check_slot(object: &Object<'_>, index: SectionIndex) -> Result<(), Malformed> {
    let section = object.section(index);
    let defect = |what: String| Err(Malformed::section(section.name, 0, what));
    let size = section.data.len() as u64;
    if size == 0 || !size.is_multiple_of(SLOT) || section.align() > SLOT {
        let align = section.align();
        return defect(format!(
            "a jump slot of {size:#x} bytes at alignment {align:#x}, not {SLOT:#x}"
        ));
    }
    let Some(function) = object.code_function(index) else {
        return defect("a jump slot without its function".to_owned());
    };
    let symbol = object.symbol(function);
    if symbol.binding() != stb::LOCAL || symbol.value != 0 {
        return defect("the function of a jump slot is not local or not at its start".to_owned());
    }
    Ok(())
}
