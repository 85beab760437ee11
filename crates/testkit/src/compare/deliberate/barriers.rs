//! Barriers of functions of CUDA 12.9 that nvlink forgets (docs/DIFFERENCES.md, barriers-of-cuda-12).
//!
//! In: nvlink's program. Out: the same with what it says itself in the flags of code, where it is larger than the
//! attribute, as the attribute. Guaranteed: nothing else is changed, so what is equal then differs in this only.

use culd_cubin::Cubin;
use culd_cubin::attr::{code, format};
use culd_cubin::raw::{SectionHeader, Tables};

/// Bits of `sh_flags` with the number of barriers.
const BITS: u64 = 0x7f << 20;
/// Where the flags are in a section header.
const FLAGS_AT: usize = 8;

/// nvlink's program with the numbers that it forgot; `None` when it forgot none.
pub(super) fn repaired(expected: &[u8]) -> Option<Vec<u8>> {
    let cubin = Cubin::parse(expected).ok()?;
    let tables = Tables::parse(expected).ok()?;
    let table = tables.header.shoff as usize;
    let mut repaired = expected.to_vec();
    let mut any = false;
    for (index, section) in cubin.sections.iter().enumerate() {
        let own = section.barriers_of_cuda_12() as u8;
        let Some(name) = section.name.strip_prefix(b".text.").filter(|_| own != 0) else {
            continue;
        };
        any = true;
        let at = table + index * SectionHeader::SIZE + FLAGS_AT;
        let flags = (section.flags & !BITS).to_le_bytes();
        repaired.get_mut(at..at + flags.len())?.copy_from_slice(&flags);
        let info = [b".nv.info.", name].concat();
        let list = cubin.sections.iter().position(|section| section.name == info)?;
        let start = tables.sections.get(list)?.offset as usize;
        let end = start + cubin.sections[list].data.len();
        let mut at = start;
        while let Some(&[kind, which, low, high]) = expected.get(at..at + 4).filter(|_| at < end) {
            if which == code::NUM_BARRIERS && kind == format::BYTE {
                repaired[at + 2] = low.max(own);
            }
            let payload = usize::from(u16::from_le_bytes([low, high]));
            at += 4 + if kind == format::SIZED { payload } else { 0 };
        }
    }
    any.then_some(repaired)
}
