//! Patches in Mercury code, which is stored compressed.
//!
//! In: patches whose offsets count before compression, and the records they come from. Out: patches
//! of the stored bytes. A value that the machine code contains is not stored, so its patch
//! disappears. Format: [`culd_cubin::capmerc`].

use culd_cubin::capmerc::{self, Capsule, ImageLoad, Site};
use culd_cubin::{Malformed, RelocEntry, Section};
use culd_reloc::RelocValue;

use super::patch::{FieldPatch, PatchMode};

/// Opcode of a load from a texture slot in machine code: the lower 12 bits of a word.
const LOAD: u16 = 0xb82;

/// Translates `patches` to the stored bytes of `section`; there is one patch for each record in
/// `mercury`. `code` are the applied records of the machine code.
pub(crate) fn compressed_patches(
    section: &Section<'_>,
    code: &[RelocEntry],
    mercury: &[RelocEntry],
    patches: Vec<FieldPatch>,
) -> Result<Vec<FieldPatch>, Malformed> {
    if patches.is_empty() {
        return Ok(patches);
    }
    let capsule = Capsule::parse(section.name, section.data)?;
    let mut sites = Vec::with_capacity(patches.len());
    for ((counterpart, record), patch) in
        capmerc::counterparts(code, mercury).into_iter().zip(mercury).zip(patches)
    {
        let Some(counterpart) = counterpart else {
            let what = format!(
                "the relocation at {:#x} of Mercury code has none beside it in the machine code",
                record.offset
            );
            return Err(Malformed::section(section.name, 0, what));
        };
        let width = patch.desc.span_bytes();
        sites.push((Site { code: counterpart.offset, mercury: record.offset, width }, patch));
    }
    sites.sort_by_key(|(site, _)| site.code);
    let places: Vec<Site> = sites.iter().map(|(site, _)| *site).collect();
    let fields = capsule.fields(&places)?;
    let moved = sites.into_iter().zip(fields).filter_map(|((_, patch), field)| {
        field.map(|field| FieldPatch { offset: field.start as u64, ..patch })
    });
    Ok(moved.collect())
}

/// Patches of `machine`, the machine code of which `section` is the Mercury code: each load from a
/// texture slot gets the address of the slot. `base` is that of the first slot.
pub(crate) fn texture_loads(
    section: &Section<'_>,
    machine: &Section<'_>,
    base: u64,
) -> Result<Vec<FieldPatch>, Malformed> {
    let desc = culd_reloc::lookup(ImageLoad::ADDRESS).filter(|desc| desc.has_bank());
    let loads = Capsule::parse(section.name, section.data)?.image_loads()?;
    let patch = |load: ImageLoad| {
        let unknown = || {
            let what =
                "Mercury code reads slots of textures here, machine code does something else";
            Malformed::section(machine.name, load.code, what.to_owned())
        };
        let code = machine.data.get(load.code as usize..);
        let word = code.and_then(|code| code.first_chunk::<{ capmerc::INSTRUCTION as usize }>());
        let loads = word.is_some_and(|word| u16::from_le_bytes([word[0], word[1]]) & 0xfff == LOAD);
        let desc = desc.filter(|_| loads).ok_or_else(unknown)?;
        let address = base + u64::from(load.offset);
        let value = RelocValue { address, bank: 0 };
        if !desc.fits(value) {
            return Err(unknown());
        }
        Ok(FieldPatch { offset: load.code, desc, value, mode: PatchMode::Set })
    };
    loads.into_iter().map(patch).collect()
}
