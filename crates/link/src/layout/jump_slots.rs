//! The table of jump slots, `.nv.uft`, in files with a Mercury half.
//!
//! In: the objects, which have each slot in both halves, and the place of each slot in the table.
//! Out: the table's bytes in both halves. In an object a slot is a function like any other: six
//! instructions, then two of the padding that ends each function's code. nvlink runs its finalizer
//! over the table as over one function. Each padding is replaced by copies of the instruction
//! before it, and one padding of a slot's length ends the table (docs/MERCURY.md). Since CUDA 13.1
//! each slot keeps its padding, and ptxas omits what fills a slot up to it; nvlink's finalizer adds
//! that, with `-r` too ([`SlotCode::read_again`]). Guaranteed by `find_odd` in phase `objects`:
//! every slot has this form.

use culd_cubin::capmerc;
use culd_cubin::unified::SLOT;

use crate::base::half::{BothHalves, HalfBytes};
use crate::base::id::SectionId;
use crate::draft::kind::SectionKind;
use crate::draft::merged::MergeResult;
use crate::objects::InputObjects;
use crate::objects::jump_slot::{INSTRUCTIONS, OWN_INSTRUCTIONS, PADDING, SlotCode};
use crate::symbols::Symbols;

/// Mercury code of the padding after the last slot: a group of eight instructions without records.
const LAST_PADDING: [u8; 2] = [0x50, 4];

/// Both halves of the table. With `for_debugger`, padding is kept as it is
/// (docs/DIFFERENCES.md, slots-for-debugger).
pub(crate) fn table(
    objects: &InputObjects<'_>,
    merged: &MergeResult<'_>,
    for_debugger: bool,
) -> BothHalves<Vec<u8>> {
    let keeps_padding = merged.draft.dialect.slots_keep_padding;
    let mut slots = Vec::with_capacity(merged.unified.slots.len());
    for slot in &merged.unified.slots {
        let object = &objects[slot.object];
        if let Some(section) = object.symbol(slot.function).defined_in() {
            let place = merged.draft.symbols[slot.stub].value;
            let size = object.mercury_symbol(slot.function).map_or(SLOT, |symbol| symbol.size);
            let sass = object.section(section).data;
            let halves = HalfBytes { sass, mercury: object.counterpart_data(section) };
            slots.push((place, SlotCode::read_again(halves, size)));
        }
    }
    slots.sort_unstable_by_key(|slot| slot.0);
    let mut code = Vec::with_capacity(SLOT as usize * (slots.len() + 1));
    let mut entries: Vec<Option<&[u8]>> = Vec::with_capacity(INSTRUCTIONS * slots.len() + 1);
    for (_, slot) in &slots {
        let instructions = || slot.sass.chunks_exact(capmerc::INSTRUCTION as usize);
        let (kept, repeated) = match keeps_padding {
            true if for_debugger => (INSTRUCTIONS, None),
            true => (OWN_INSTRUCTIONS, instructions().next_back()),
            false => (OWN_INSTRUCTIONS, instructions().nth(OWN_INSTRUCTIONS - 1)),
        };
        let whole = instructions().take(kept).chain(repeated.into_iter().cycle());
        whole.take(INSTRUCTIONS).for_each(|word| code.extend_from_slice(word));
        let records = slot.records.iter().take(OWN_INSTRUCTIONS);
        entries.extend(records.map(|record| slot.bytes(record).filter(|b| !b.is_empty())));
        match keeps_padding {
            true => entries.push(Some(&PADDING)),
            false => entries.extend([None; INSTRUCTIONS - OWN_INSTRUCTIONS]),
        }
    }
    if let (Some((_, first)), false) = (slots.first(), keeps_padding) {
        let padding = first.sass.chunks_exact(capmerc::INSTRUCTION as usize).skip(OWN_INSTRUCTIONS);
        let repeated = padding.clone().next_back().into_iter().cycle();
        padding.chain(repeated).take(INSTRUCTIONS).for_each(|word| code.extend_from_slice(word));
        entries.push(Some(&LAST_PADDING));
    }
    BothHalves { sass: code, mercury: capmerc::encode(&entries) }
}

/// With `-r`: the slots, which are sections of their own.
pub(crate) fn slots_of_object(
    objects: &InputObjects<'_>,
    symbols: &Symbols,
    merged: &MergeResult<'_>,
) -> Vec<(SectionId, BothHalves<Vec<u8>>)> {
    let sections = merged.draft.sections.iter();
    let slots =
        sections.filter(|(_, section)| section.kind == SectionKind::JumpSlots && !section.dropped);
    let halves = slots.filter_map(|(id, section)| {
        let program = merged.draft.symbols[section.function?].program?;
        let site = symbols.all[program].definition?;
        let size = objects[site.object].mercury_symbol(site.index)?.size;
        let chunk = section.chunks.first()?;
        let bytes = HalfBytes { sass: chunk.bytes, mercury: chunk.mercury };
        let SlotCode { sass, mercury, .. } = SlotCode::read_again(bytes, size);
        Some((id, BothHalves { sass: sass.into_owned(), mercury: mercury.into_owned() }))
    });
    halves.collect()
}
