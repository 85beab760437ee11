//! Checks that a program has the code of an object, as the compiler wrote it.
//!
//! In: the objects of a link, and the code of a function in culd's output. Out: the first place
//! where the code is no object's. Guaranteed: every bit counts; in fields of relocations and in
//! loads from texture slots, only the operation and the control bits do. So no mask for code that
//! nvlink rewrites hides a change by culd.

use super::finalizer::{INSTRUCTION, same_operation};
use culd_cubin::capmerc::Capsule;
use culd_cubin::elf::sht;
use culd_cubin::{Cubin, SectionIndex};
use std::collections::{HashMap, HashSet};

/// The code of the objects, by the name of the function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ObjectCode {
    functions: HashMap<Vec<u8>, Vec<FunctionCopy>>,
}

/// A copy of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FunctionCopy {
    bytes: Vec<u8>,
    /// Numbers of the instructions with a field for a linker.
    filled: HashSet<usize>,
}

impl ObjectCode {
    pub(super) fn add(&mut self, object: &Cubin<'_>) {
        let filled = filled(object);
        for symbol in object.symbols.iter().filter(|symbol| symbol.is_function()) {
            let index = symbol.defined_in();
            let Some((index, code)) = index.and_then(|i| Some((i, object.section(i)?))) else {
                continue;
            };
            let filled = filled.get(&index).cloned().unwrap_or_default();
            let code = FunctionCopy { bytes: code.data.to_vec(), filled };
            self.functions.entry(symbol.name.to_vec()).or_default().push(code);
        }
    }

    /// The first place where `code` is not that of a copy of the function; `None` for functions
    /// that no object has.
    pub(super) fn difference(&self, function: &[u8], code: &[u8]) -> Option<String> {
        let copies = self.functions.get(function)?;
        let differences = copies.iter().map(|copy| copy.difference(code));
        // Of several copies, the one that agrees longest counts.
        let place = differences.collect::<Option<Vec<usize>>>()?.into_iter().max()?;
        Some(format!("+{place:#x}: not as it was compiled"))
    }
}

impl FunctionCopy {
    fn difference(&self, code: &[u8]) -> Option<usize> {
        let (own, others) = (self.bytes.chunks(INSTRUCTION), code.chunks(INSTRUCTION));
        let differs = |(number, (own, other)): &(usize, (&[u8], &[u8]))| match own == other {
            true => false,
            false => !(self.filled.contains(number) && same_operation(own, other)),
        };
        let pairs = own.zip(others).enumerate();
        let first = pairs.into_iter().find(differs).map(|(number, _)| number * INSTRUCTION);
        let length = self.bytes.len().min(code.len());
        first.or_else(|| (self.bytes.len() != code.len()).then_some(length))
    }
}

/// The instructions of each section of code that a linker changes.
fn filled(object: &Cubin<'_>) -> HashMap<SectionIndex, HashSet<usize>> {
    let mut filled: HashMap<SectionIndex, HashSet<usize>> = HashMap::new();
    let mut fill = |code: SectionIndex, place: u64| {
        filled.entry(code).or_default().insert(place as usize / INSTRUCTION);
    };
    for section in &object.sections {
        if section.sh_type == sht::MERCURY_CODE
            && let Ok(capsule) = Capsule::parse(section.name, section.data)
        {
            let loads = capsule.image_loads().unwrap_or_default();
            loads.iter().for_each(|load| fill(capsule.code(), load.code));
        } else if section.is_reloc()
            && let Some(code) = section.info_section()
        {
            section.relocations().iter().for_each(|record| fill(code, record.offset));
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three instructions; a linker fills a field of the second.
    fn compiled() -> ObjectCode {
        let code = FunctionCopy { bytes: (0..48).collect(), filled: HashSet::from([1]) };
        ObjectCode { functions: HashMap::from([(b"f".to_vec(), vec![code])]) }
    }

    #[test]
    fn only_operands_that_a_linker_fills_may_differ() {
        let code: Vec<u8> = (0..48).collect();
        let changed = |at: usize| {
            let mut code = code.clone();
            code[at] ^= 2;
            compiled().difference(b"f", &code)
        };
        assert_eq!(compiled().difference(b"f", &code), None);
        for at in [0, 5, 15, 16, 16 + 13, 16 + 15, 32, 47] {
            let place = at / INSTRUCTION * INSTRUCTION;
            assert_eq!(changed(at), Some(format!("+{place:#x}: not as it was compiled")), "{at}");
        }
        assert_eq!(changed(16 + 4), None);
        let short = compiled().difference(b"f", &code[..32]);
        assert_eq!(short, Some("+0x20: not as it was compiled".to_owned()));
        assert_eq!(compiled().difference(b"g", &code[..32]), None);
    }
}
