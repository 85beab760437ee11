//! Repairs the barriers of functions of CUDA 12.9 that nvlink forgets (docs/DIFFERENCES.md,
//! barriers-of-cuda-12).
//!
//! In: nvlink's program. Out: the same, with the number of barriers in the flags of code as the
//! attribute, if it is larger. Guaranteed: nothing else changes, so programs that are equal then
//! differ only in this.

use culd_cubin::Cubin;
use culd_cubin::attr::{code, format};
use culd_cubin::raw::Tables;

/// nvlink's program with the numbers that it forgot; `None` if it forgot none.
pub(super) fn repaired(expected: &[u8]) -> Option<Vec<u8>> {
    let cubin = Cubin::parse(expected).ok()?;
    let tables = Tables::parse(expected).ok()?;
    let mut repaired = expected.to_vec();
    let mut any = false;
    for section in &cubin.sections {
        let own = section.barriers_of_cuda_12() as u8;
        let Some(name) = section.name.strip_prefix(b".text.").filter(|_| own != 0) else {
            continue;
        };
        let info = [b".nv.info.", name].concat();
        let list = cubin.sections.iter().position(|section| section.name == info)?;
        let start = tables.sections.get(list)?.offset as usize;
        let end = start + cubin.sections[list].data.len();
        let mut at = start;
        while let Some(&[kind, which, low, high]) = expected.get(at..at + 4).filter(|_| at < end) {
            if which == code::NUM_BARRIERS && kind == format::BYTE {
                any |= low < own;
                repaired[at + 2] = low.max(own);
            }
            let payload = usize::from(u16::from_le_bytes([low, high]));
            at += 4 + if kind == format::SIZED { payload } else { 0 };
        }
    }
    any.then_some(repaired)
}
