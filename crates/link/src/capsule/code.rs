//! Places inside Mercury code, which is stored compressed.
//!
//! In: patches whose places count before compression, and the records that they are of. Out: patches of the
//! bytes that are stored. Where the machine code tells the value, nothing is stored. Format:
//! [`culd_cubin::capmerc`].

use culd_cubin::capmerc::{self, Capsule, ImageLoad, Site};
use culd_cubin::{Malformed, RelocEntry, Section};
use culd_reloc::Value;

use crate::relocs::{Patch, Write};

/// Opcode of such a load in machine code, the lower 12 bits of a word.
const LOAD: u16 = 0xb82;

/// Moves `patches`, made of `mercury` one by one, to the stored bytes of `section`. `code` are the records of the
/// machine code that are resolved too.
pub(crate) fn stored(
    section: &Section<'_>,
    code: &[RelocEntry],
    mercury: &[RelocEntry],
    patches: Vec<Patch>,
) -> Result<Vec<Patch>, Malformed> {
    if patches.is_empty() {
        return Ok(patches);
    }
    let capsule = Capsule::parse(section.name, section.data)?;
    let mut sites = Vec::with_capacity(patches.len());
    for ((twin, record), patch) in
        capmerc::twins(code, mercury).into_iter().zip(mercury).zip(patches)
    {
        let Some(twin) = twin else {
            let what = format!(
                "the relocation at {:#x} of Mercury code has none beside it in the machine code",
                record.offset
            );
            return Err(Malformed::section(section.name, 0, what));
        };
        let width = patch.row.span_bytes();
        sites.push((Site { code: twin.offset, mercury: record.offset, width }, patch));
    }
    sites.sort_by_key(|(site, _)| site.code);
    let places: Vec<Site> = sites.iter().map(|(site, _)| *site).collect();
    let fields = capsule.fields(&places)?;
    let moved = sites.into_iter().zip(fields).filter_map(|((_, patch), field)| {
        field.map(|field| Patch { offset: field.start as u64, ..patch })
    });
    Ok(moved.collect())
}

/// Patches of `machine`, the machine code beside Mercury code `section`: loads from the slots of textures get the address
/// `base` of the first slot.
pub(crate) fn image_loads(
    section: &Section<'_>,
    machine: &Section<'_>,
    base: u64,
) -> Result<Vec<Patch>, Malformed> {
    let row = culd_reloc::lookup(ImageLoad::ADDRESS).filter(|row| row.has_bank());
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
        let row = row.filter(|_| loads).ok_or_else(unknown)?;
        let address = base + u64::from(load.offset);
        let value = Value { address, bank: 0 };
        if !row.fits(value) {
            return Err(unknown());
        }
        Ok(Patch { offset: load.code, row, value, write: Write::Set })
    };
    loads.into_iter().map(patch).collect()
}
