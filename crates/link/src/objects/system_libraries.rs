//! Phase `objects`, second half: removes files of system libraries that nothing needs.
//!
//! In: all inputs, parsed. Out: those that are linked. nvcc puts libcudadevrt on every command
//! line; each of its files is linked whole or not at all (docs/LINKING.md, system libraries).

use culd_cubin::elf::stb;
use culd_cubin::{Cubin, Symbol, SymbolSection};
use hashbrown::HashMap;

use super::InputObjects;
use crate::options::LinkOptions;
use crate::options::dialect::Dialect;
use crate::options::driver_functions::is_driver_function;
use crate::options::input::Input;

/// Removes unused system files from `objects`; returns the places of their inputs.
pub(crate) fn remove_unused(
    objects: &mut InputObjects<'_>,
    inputs: &[Input<'_>],
    options: &LinkOptions,
) -> Vec<usize> {
    if options.keep_system_libraries || inputs.iter().all(|input| !input.system) {
        return Vec::new();
    }
    let mut undefined = UndefinedFunctions::new(options.dialect);
    let mut unused = Vec::new();
    for (place, (object, input)) in objects.all.values().zip(inputs).enumerate() {
        if input.system && !undefined.any() {
            unused.push(place);
        } else {
            undefined.add(&object.cubin.symbols);
        }
    }
    objects.remove(&unused);
    unused
}

/// True if a link of `inputs` takes any file of a system library. The bytes of those files are not
/// read, so a file that is left out need not be unpacked. Also true if another input cannot be
/// read: the link then reports the defect. Also true if the releases differ: the oldest release
/// knows the fewest functions of the driver.
pub fn needs_system_libraries(inputs: &[Input<'_>]) -> bool {
    let mut undefined = UndefinedFunctions::new(Dialect::usual());
    for input in inputs {
        if input.system {
            if undefined.any() {
                return true;
            }
            continue;
        }
        match Cubin::parse(input.bytes) {
            Ok(cubin) => undefined.add(&cubin.symbols),
            Err(_) => return true,
        }
    }
    false
}

/// Functions that files name and that no file so far defines.
struct UndefinedFunctions<'d> {
    /// Its functions of the driver count as defined.
    dialect: &'static Dialect,
    /// By name: whether it is defined.
    functions: HashMap<&'d [u8], bool>,
    count: usize,
}

impl<'d> UndefinedFunctions<'d> {
    fn new(dialect: &'static Dialect) -> Self {
        Self { dialect, functions: HashMap::new(), count: 0 }
    }

    fn any(&self) -> bool {
        self.count != 0
    }

    fn add(&mut self, symbols: &[Symbol<'d>]) {
        let global = |symbol: &&Symbol<'d>| symbol.is_function() && symbol.binding() != stb::LOCAL;
        for symbol in symbols.iter().filter(global) {
            let defined = symbol.section != SymbolSection::Undefined;
            if !defined && is_driver_function(symbol.name, self.dialect) {
                continue;
            }
            match self.functions.insert(symbol.name, defined) {
                None if !defined => self.count += 1,
                Some(false) if defined => self.count -= 1,
                Some(true) => {
                    self.functions.insert(symbol.name, true);
                }
                _ => {}
            }
        }
    }
}
