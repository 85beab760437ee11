//! Phase `objects`: shared variables of whole programs (`-ewp`) that have symbols.
//!
//! In: an object, read and checked. Out: which of its variables ptxas has placed, and an error for
//! a whole program that nvlink links wrongly. ptxas writes such symbols with `-g` and `-sanitize`.

use culd_cubin::{Symbol, SymbolSection, text_of};

use super::object::InputObject;
use super::roles::{SectionRole, is_internal};
use crate::diag::Message;
use crate::options::LinkOptions;

/// True for a variable of a kernel of a whole program: its value is its place in the kernel's
/// shared memory, not an alignment (case whole-program/placed).
pub(crate) fn is_placed(object: &InputObject<'_>, symbol: &Symbol<'_>) -> bool {
    object.is_extensible()
        && symbol.is_shared()
        && symbol.size > 0
        && is_in(object, symbol, SectionRole::OwnShared)
}

fn is_in(object: &InputObject<'_>, symbol: &Symbol<'_>, role: SectionRole) -> bool {
    matches!(symbol.section, SymbolSection::In(at) if object.role(at) == role)
}

/// What culd refuses of whole programs: shared variables outside of kernels, because nothing says
/// which kernels use them; variables whose places nvlink loses; and arrays without size beside
/// variables of kernels, with which nvlink drops symbol 0 (docs/DIFFERENCES.md,
/// whole-program-debug, whole-program-sanitized).
pub(super) fn defect(object: &InputObject<'_>, options: &LinkOptions) -> Option<Message> {
    if !object.is_extensible() {
        return None;
    }
    let symbols = || object.cubin.symbols.iter();
    let placed = symbols().find(|symbol| is_placed(object, symbol));
    let mut outside = symbols().filter(|symbol| {
        symbol.is_shared() && symbol.size > 0 && is_in(object, symbol, SectionRole::PoolShared)
    });
    let (variable, what) = if let Some(variable) = outside.next() {
        (variable, "shared variables outside of kernels")
    } else {
        let arrays = object.roles.contains(&SectionRole::PoolShared);
        match placed? {
            variable
                if options.relocatable
                    || is_internal(variable) && !options.dialect.places_sanitized =>
            {
                (variable, "the places of shared variables, which nvlink loses")
            }
            variable if arrays && !options.for_debugger() => {
                (variable, "an extern shared array beside shared variables")
            }
            _ => return None,
        }
    };
    let how = if is_internal(variable) { "-sanitize" } else { "-g" };
    let name = text_of(variable.name);
    let reason =
        format!("it is a whole program (-ewp) compiled with {how}, with {what} ('{name}')");
    Some(Message::unsupported(object.name, reason))
}
