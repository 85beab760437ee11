//! Measures the code of a cubin.
//!
//! In: a cubin. Out: its functions with their bytes and registers. Guaranteed: pure.

use culd_cubin::Cubin;
use culd_cubin::attr::{Records, code};
use std::collections::BTreeMap;

/// The code of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodeSize {
    /// Bytes.
    pub bytes: u64,
    /// Registers; 0 if unknown.
    pub registers: u32,
    /// A kernel.
    pub entry: bool,
}

/// The functions of `cubin` by name; `None` if it is no cubin. Local functions of one name count as
/// one.
pub fn functions(cubin: &[u8]) -> Option<BTreeMap<String, CodeSize>> {
    let cubin = Cubin::parse(cubin).ok()?;
    let mut found: BTreeMap<String, CodeSize> = BTreeMap::new();
    let name = |index: usize| {
        let symbol = cubin.symbols.get(index)?;
        Some(String::from_utf8_lossy(symbol.name).into_owned())
    };
    for (index, symbol) in cubin.symbols.iter().enumerate() {
        if symbol.is_function() && symbol.defined_in().is_some() {
            let code = found.entry(name(index)?).or_default();
            code.bytes += symbol.size;
            code.entry |= symbol.is_entry();
        }
    }
    for section in cubin.sections.iter().filter(|section| section.name == b".nv.info") {
        for record in Records::new(section.name, section.data).flatten() {
            let (Some(symbol), true) = (record.word(0), record.code == code::REGCOUNT) else {
                continue;
            };
            let of = name(symbol as usize).and_then(|name| found.get_mut(&name));
            if let (Some(code), Some(registers)) = (of, record.word(1)) {
                code.registers = code.registers.max(registers);
            }
        }
    }
    Some(found)
}
