//! The unified functions and variables of one input.
//!
//! In: an object whose roles are known. Out: its entries. Guaranteed: an entry names a function, or
//! a variable in `.nv.udt`; a jump slot is as long as one slot or several, and has one local
//! function at its start.

use culd_cubin::elf::stb;
use culd_cubin::unified::{Entry, SLOT, entries};
use culd_cubin::{Malformed, SectionIndex, SymbolIndex};

use super::object::InputObject;
use super::roles::SectionRole;

/// The entries of an entry section.
#[derive(Debug, Clone)]
pub(crate) struct UnifiedIds {
    pub(crate) section: SectionIndex,
    pub(crate) list: Vec<Entry>,
}

/// Reads and checks the entry sections of `object`, in section order.
pub(crate) fn read(object: &InputObject<'_>) -> Result<Vec<UnifiedIds>, Malformed> {
    let mut all = Vec::new();
    for (index, role) in object.unified_sections() {
        let kind = match role {
            SectionRole::FunctionIds => UnifiedKind::Function,
            SectionRole::VariableIds => UnifiedKind::Variable,
            SectionRole::JumpSlot => {
                check_slot(object, index)?;
                continue;
            }
            _ => continue,
        };
        let section = object.section(index);
        let mut list = Vec::with_capacity(section.data.len() / culd_cubin::unified::ENTRY_SIZE);
        for (at, entry) in entries(section) {
            if !kind.is_kind_of(object, entry.symbol) {
                let what = format!("symbol {} is no {}", entry.symbol.0, kind.text());
                return Err(Malformed::section(section.name, at, what));
            }
            list.push(entry);
        }
        all.push(UnifiedIds { section: index, list });
    }
    Ok(all)
}

/// What the entries of a section name.
#[derive(Clone, Copy)]
enum UnifiedKind {
    Function,
    Variable,
}

impl UnifiedKind {
    /// For messages.
    fn text(self) -> &'static str {
        match self {
            UnifiedKind::Function => "function",
            UnifiedKind::Variable => "variable in '.nv.udt'",
        }
    }

    fn is_kind_of(self, object: &InputObject<'_>, symbol: SymbolIndex) -> bool {
        let Some(symbol) = object.cubin.symbol(symbol) else { return false };
        let is_unified_data = |section| object.role(section) == SectionRole::UnifiedData;
        match self {
            UnifiedKind::Function => symbol.is_function(),
            UnifiedKind::Variable => symbol.defined_in().is_some_and(is_unified_data),
        }
    }
}

fn check_slot(object: &InputObject<'_>, index: SectionIndex) -> Result<(), Malformed> {
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
