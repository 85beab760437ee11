//! Places inside Mercury code, which is stored compressed.
//!
//! In: patches whose places count before compression, and the records that they are of. Out: patches of the
//! bytes that are stored. Where the machine code tells the value, nothing is stored. Format:
//! [`culd_cubin::capmerc`].

use culd_cubin::capmerc::{self, Capsule, Site};
use culd_cubin::{Malformed, RelocEntry, Section};

use crate::relocs::Patch;

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
