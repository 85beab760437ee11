//! Barriers of functions of CUDA 12.9 that nvlink forgets (docs/DIFFERENCES.md, barriers-of-cuda-12).
//!
//! In: nvlink's program. Out: the same with what it says itself in the flags of code, where it is larger than the
//! attribute, as the attribute. Guaranteed: nothing else is changed, so what is equal then differs in this only.

use culd_cubin::Cubin;
use culd_cubin::attr::{code, format};

/// Bits of `sh_flags` with the number of barriers.
const BITS: u64 = 0x7f << 20;
/// Where an ELF header has the offset of the section headers, the size of one, and where its flags are.
const TABLE_AT: usize = 0x28;
const HEADER_SIZE: usize = 64;
const FLAGS_AT: usize = 8;
const OFFSET_AT: usize = 24;

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// nvlink's program with the numbers that it forgot; `None` when it forgot none.
pub(super) fn repaired(expected: &[u8]) -> Option<Vec<u8>> {
    let cubin = Cubin::parse(expected).ok()?;
    let table = word(expected, TABLE_AT)? as usize;
    let header = |index: usize| table + index * HEADER_SIZE;
    let mut repaired = expected.to_vec();
    let mut any = false;
    for (index, section) in cubin.sections.iter().enumerate() {
        let own = section.barriers_of_cuda_12() as u8;
        let Some(name) = section.name.strip_prefix(b".text.").filter(|_| own != 0) else {
            continue;
        };
        any = true;
        let at = header(index) + FLAGS_AT;
        let flags = (section.flags & !BITS).to_le_bytes();
        repaired.get_mut(at..at + flags.len())?.copy_from_slice(&flags);
        let info = [b".nv.info.", name].concat();
        let list = cubin.sections.iter().position(|section| section.name == info)?;
        let start = word(expected, header(list) + OFFSET_AT)? as usize;
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
