//! `.nv_debug_info_reg_sass`: which registers hold which variables, by address in the code.
//!
//! ```text
//! name\0  u32 n  n times { u32  register\0  u32  u32 start  u32 end }
//! ```
//!
//! The ranges of dead functions are zeroed. So are those of a second function of the same name,
//! because the section has names only (cases debug/* on sm_100).

use culd_cubin::{Malformed, SymbolIndex};
use hashbrown::HashMap;

use super::{DebugInput, DebugOutput, number};

pub(super) fn append<'d>(
    input: &DebugInput<'_, 'd>,
    out: &mut DebugOutput<'d>,
) -> Result<(), Malformed> {
    let data = input.section.data;
    let symbols = input.object.cubin.symbol_indices();
    let defined = symbols.filter(|(_, s)| s.is_function() && s.defined_in().is_some());
    let functions: HashMap<&[u8], SymbolIndex> = defined.map(|(i, s)| (s.name, i)).collect();
    let base = out.bytes.len();
    out.bytes.extend_from_slice(data);
    let truncated = |at| input.defect(at, "a record runs past the end");
    let mut at = 0;
    while at < data.len() {
        let name = string(data, at).ok_or_else(|| truncated(at))?;
        let count_at = at + name.len() + 1;
        let count = number::<4>(data, count_at).ok_or_else(|| truncated(count_at))?;
        let live = functions.get(name).is_some_and(|&function| input.is_live(function));
        let live = out.names.insert(name) && live;
        at = count_at + 4;
        for _ in 0..count {
            let register = string(data, at + 4).ok_or_else(|| truncated(at))?;
            let range = at + 4 + register.len() + 1 + 4;
            let place = out.bytes.get_mut(base + range..base + range + 8);
            let place = place.ok_or_else(|| truncated(range))?;
            if !live {
                place.fill(0);
            }
            at = range + 8;
        }
    }
    Ok(())
}

/// The string at `at`, without its NUL.
fn string(data: &[u8], at: usize) -> Option<&[u8]> {
    let tail = data.get(at..)?;
    let end = tail.iter().position(|&byte| byte == 0)?;
    tail.get(..end)
}
