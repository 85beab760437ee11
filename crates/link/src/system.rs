//! Phase `objects`, second half: system libraries that nothing needs are left out.
//!
//! In: all inputs, parsed. Out: those that are linked. nvcc puts libcudadevrt on every command
//! line; a file of it is linked whole, or not at all (docs/LINKING.md, system libraries).

use culd_cubin::elf::stb;
use culd_cubin::{Cubin, Symbol, SymbolSection};
use hashbrown::HashMap;

use crate::objects::Objects;
use crate::system_names::may_stay_undefined;
use crate::{Input, LinkOptions};

/// Removes unused system files from `objects`; returns the places of their inputs.
pub(crate) fn remove_unused(
    objects: &mut Objects<'_>,
    inputs: &[Input<'_>],
    options: &LinkOptions,
) -> Vec<usize> {
    if options.keep_system_libraries || inputs.iter().all(|input| !input.system) {
        return Vec::new();
    }
    let mut open = Open::default();
    let mut unused = Vec::new();
    for (place, (object, input)) in objects.all.values().zip(inputs).enumerate() {
        if input.system && !open.any() {
            unused.push(place);
        } else {
            open.add(&object.cubin.symbols);
        }
    }
    objects.remove(&unused);
    unused
}

/// Whether a link of `inputs` takes any file of a system library. Bytes of those files are not looked at, so that they
/// need not be unpacked to be left out. Of what cannot be read the answer is that it does: the link tells what is wrong.
pub fn needs_system_libraries(inputs: &[Input<'_>]) -> bool {
    let mut open = Open::default();
    for input in inputs {
        if input.system {
            if open.any() {
                return true;
            }
            continue;
        }
        match Cubin::parse(input.bytes) {
            Ok(cubin) => open.add(&cubin.symbols),
            Err(_) => return true,
        }
    }
    false
}

/// Functions that files name and none so far defines.
#[derive(Default)]
struct Open<'d> {
    /// By name: defined.
    functions: HashMap<&'d [u8], bool>,
    count: usize,
}

impl<'d> Open<'d> {
    fn any(&self) -> bool {
        self.count != 0
    }

    fn add(&mut self, symbols: &[Symbol<'d>]) {
        let global = |symbol: &&Symbol<'d>| symbol.is_function() && symbol.binding() != stb::LOCAL;
        for symbol in symbols.iter().filter(global) {
            let defined = symbol.section != SymbolSection::Undefined;
            if !defined && may_stay_undefined(symbol.name) {
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
