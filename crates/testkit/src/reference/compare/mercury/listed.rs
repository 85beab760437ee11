//! Bytes that differ because nvlink writes meaningless values, or knows more (docs/DIFFERENCES.md).
//!
//! In: two linked cubins. Out: the same bytes in both where an entry says so. Guaranteed: places
//! follow from relocations and attributes, never from what differs.

use super::inputs::{COMPAT, LinkObjects, devices, finalizer};
use culd_cubin::attr::{Records, code};
use culd_cubin::elf::{sht, stb};
use culd_cubin::{SectionIndex, Symbol, SymbolIndex};
use culd_inspect::view::View;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Bytes of an entry of a jump table.
const ENTRY: usize = 4;

/// Clears entries of jump tables in `bytes` that several copies of a function fill: nvlink computes
/// first those of the copy that counts, then the other's. Also clears all entries of a kernel with
/// two banks, because nvlink computes none (jump-tables-of-replaced). Returns the cleared bytes.
pub(in crate::reference::compare) fn tables(view: &View<'_>, bytes: &mut [u8]) -> Vec<Vec<u8>> {
    let mut labels = HashMap::new();
    let mut cleared = Vec::new();
    for entry in entries(view) {
        let label = *labels.entry(entry.at).or_insert(entry.label);
        let several = label != entry.label || entry.of_two_banks;
        if let Some(place) = bytes.get_mut(entry.bytes()).filter(|_| several) {
            cleared.push(place.to_vec());
            place.fill(0);
        }
    }
    cleared
}

/// Clears entries of jump tables with places in the code of the sections `anew`, which differs.
pub(in crate::reference::compare) fn labels(view: &View<'_>, anew: &[usize], bytes: &mut [u8]) {
    for entry in entries(view).into_iter().filter(|entry| anew.contains(&entry.code)) {
        if let Some(label) = bytes.get_mut(entry.bytes()) {
            label.fill(0);
        }
    }
}

/// Moves entries of jump tables with places in the code of the sections `anew`.
pub(super) fn move_labels(
    view: &View<'_>,
    anew: &[usize],
    bytes: &mut [u8],
    place: impl Fn(u64) -> u64,
) {
    let mut seen = HashSet::new();
    for entry in entries(view).into_iter().filter(|entry| anew.contains(&entry.code)) {
        let label = bytes.get_mut(entry.bytes()).and_then(|label| label.first_chunk_mut());
        if let Some(label) = label.filter(|_| seen.insert(entry.at)) {
            *label = (place(u64::from(u32::from_le_bytes(*label))) as u32).to_le_bytes();
        }
    }
}

/// The first entry of a jump table that is no instruction of the code of the sections `anew`.
/// Tables of several copies may overlap; then a place in the code of any of them counts.
pub(in crate::reference::compare) fn stray(view: &View<'_>, anew: &[usize]) -> Option<String> {
    let stray = |entry: &JumpEntry| {
        let label = view.data.get(entry.bytes())?.first_chunk().map(|b| u32::from_le_bytes(*b))?;
        let size = view.cubin.sections.get(entry.code)?.size;
        (u64::from(label) >= size || label % 16 != 0).then(|| {
            format!("offset {:#x}: {label:#x} is no instruction of its {size:#x} bytes", entry.at)
        })
    };
    let all = entries(view);
    let mut uses: HashMap<usize, usize> = HashMap::new();
    all.iter().for_each(|entry| *uses.entry(entry.at).or_default() += 1);
    let alone = |entry: &&JumpEntry| anew.contains(&entry.code) && uses.get(&entry.at) == Some(&1);
    all.iter().filter(alone).find_map(stray)
}

/// An entry of a jump table.
struct JumpEntry {
    /// Its place in the file.
    at: usize,
    /// Index of the section of code with its place.
    code: usize,
    /// Its value in Mercury.
    label: i64,
    /// Its kernel has two banks of literals.
    of_two_banks: bool,
}

impl JumpEntry {
    fn bytes(&self) -> Range<usize> {
        self.at..self.at + ENTRY
    }
}

/// The entries of all jump tables, as Mercury's relocations list them.
fn entries(view: &View<'_>) -> Vec<JumpEntry> {
    // The twins of banks have the same order; names may be equal (literals/equal-banks).
    let sections = || view.cubin.section_indices();
    let twins = || sections().filter(|(_, s)| s.sh_type == sht::MERCURY_CONSTANT_OPTIMIZER);
    let own = sections().filter(|(_, section)| section.constant_bank() == Some(2));
    let banks: HashMap<SectionIndex, SectionIndex> =
        twins().zip(own).map(|((twin, _), (bank, _))| (twin, bank)).collect();
    let mut uses: HashMap<u32, usize> = HashMap::new();
    twins().for_each(|(_, twin)| *uses.entry(twin.info).or_default() += 1);
    let mut found = Vec::new();
    for table in view.cubin.sections.iter().filter(|s| s.sh_type == sht::MERCURY_RELA) {
        let twin = table.info_section().and_then(|twin| Some((twin, view.cubin.section(twin)?)));
        let Some((index, twin)) = twin else { continue };
        let of_two_banks = uses.get(&twin.info).is_some_and(|&uses| uses > 1);
        let bank = banks.get(&index);
        let raw = bank.and_then(|&SectionIndex(bank)| view.tables.sections.get(bank as usize));
        let Some(raw) = raw else { continue };
        found.extend(table.relocations().iter().filter_map(|record| {
            let code = view.cubin.symbol(record.symbol)?.defined_in()?.0 as usize;
            Some(JumpEntry {
                at: (raw.offset + record.offset) as usize,
                code,
                label: record.addend,
                of_two_banks,
            })
        }));
    }
    found
}

/// Clears the frame sizes of kernels with functions inside their code, and of these functions, in
/// `bytes`, and returns the cleared bytes. nvlink's finalizer counts them anew for code that it
/// does not change (frames-of-whole-programs).
pub(in crate::reference::compare) fn inner_frames(
    view: &View<'_>,
    bytes: &mut [u8],
) -> Vec<Vec<u8>> {
    let is_inner = |symbol: &&Symbol<'_>| {
        symbol.is_function() && symbol.binding() == stb::LOCAL && symbol.value > 0
    };
    let inner = view.cubin.symbols.iter().filter(is_inner);
    let kernels: HashSet<SectionIndex> = inner.filter_map(Symbol::defined_in).collect();
    let in_kernel = |symbol: Option<u32>| {
        let symbol = view.cubin.symbol(SymbolIndex(symbol?))?;
        kernels.contains(&symbol.defined_in()?).then_some(())
    };
    let info = view.cubin.section_indices().find(|(_, section)| section.name == b".nv.info");
    let Some((index, section)) = info else { return Vec::new() };
    let Some(raw) = view.tables.sections.get(index.0 as usize) else { return Vec::new() };
    let records = Records::new(section.name, section.data).filter_map(Result::ok);
    let frames = records.filter(|record| record.code == code::FRAME_SIZE);
    let frames = frames.filter(|record| in_kernel(record.word(0)).is_some());
    let mut clear = |payload: &[u8]| {
        let inside = payload.as_ptr() as usize - section.data.as_ptr() as usize;
        let at = raw.offset as usize + inside + 4;
        let number = bytes.get_mut(at..at + 4)?;
        let old = number.to_vec();
        number.fill(0);
        Some(old)
    };
    frames.filter_map(|record| clear(record.payload)).collect()
}

/// Takes over nvlink's list of devices that can run the machine code, if the reason may be code
/// that is not in the program (family-of-dead-code). True if it was taken over.
pub(in crate::reference::compare) fn family(
    (theirs, ours): (&View<'_>, &View<'_>),
    inputs: &LinkObjects,
    expected: &[u8],
    actual: &mut [u8],
) -> bool {
    let (Some(all), Some(own)) = (devices(&theirs.cubin), devices(&ours.cubin)) else {
        return false;
    };
    let more = all & !own;
    if more == 0 || own & !all != 0 || !inputs.may_suit(more, &ours.cubin) {
        return false;
    }
    let (Some(from), Some(to)) = (place(theirs), place(ours)) else { return false };
    match (expected.get(from..from + 8), actual.get_mut(to..to + 8)) {
        (Some(from), Some(to)) => to.copy_from_slice(from),
        _ => return false,
    }
    true
}

/// The place of the attribute's value in the file.
fn place(view: &View<'_>) -> Option<usize> {
    let (index, section) =
        view.cubin.section_indices().find(|(_, section)| section.name == COMPAT)?;
    let raw = view.tables.sections.get(index.0 as usize)?;
    let record = finalizer(section)?;
    let inside = record.payload.as_ptr() as usize - section.data.as_ptr() as usize;
    Some(raw.offset as usize + inside)
}
