//! Objects and archives with fewer images: the work of `nvprune`.
//!
//! In: an object or archive, and which entries stay. Out: the same file without the others.
//! Guaranteed: the bytes of `nvprune` 12.4. What stands behind an entry that is left out moves to
//! its place; offsets in the headers of the file follow, and nothing else changes.

use std::ops::Range;

use crate::archive::{self, MemberContents};
use crate::container::{FatbinEntry, containers};
use crate::error::Error;
use crate::header::CONTAINER_HEADER;
use crate::host::HostObject;
use crate::read;
use crate::sniff::{Format, sniff};

/// Bytes of the header of an archive's member, and where its size stands.
const MEMBER: usize = 60;
const MEMBER_SIZE: Range<usize> = 48..58;

/// Fields of the ELF header: where the section table is, and the size of its entries.
const TABLE: usize = 40;
const ENTRY_SIZE: usize = 58;
/// Fields of a section header.
const OFFSET: usize = 24;
const SIZE: usize = 32;

/// A file with fewer images.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// The whole file.
    pub bytes: Vec<u8>,
    /// Entries that stay.
    pub kept: usize,
}

/// Whether an entry stays; the word says if it is in code that is to be linked.
pub type Keep<'k> = &'k dyn Fn(&FatbinEntry<'_>, bool) -> bool;

/// A change of a file: other bytes in place of a range.
struct Edit {
    range: Range<usize>,
    new: Vec<u8>,
}

/// The object or archive `data` with the images that `keep` wants.
///
/// # Errors
/// Neither a relocatable ELF object nor an archive of files; damaged; an archive whose offsets do
/// not fit.
pub fn prune(data: &[u8], keep: Keep<'_>) -> Result<Pruned, Error> {
    match sniff(data) {
        Format::HostElf { relocatable: true } => {
            let (bytes, kept) = object(data, keep)?;
            Ok(Pruned { bytes, kept })
        }
        Format::Archive => whole_archive(data, keep),
        _ => Err(Error::new(0, "neither a relocatable object nor an archive")),
    }
}

/// An object with fewer images, and how many it has.
fn object(data: &[u8], keep: Keep<'_>) -> Result<(Vec<u8>, usize), Error> {
    let host = HostObject::parse(data)?.unwrap_or_default();
    let mut kept = 0;
    let mut edits = Vec::new();
    let linkable = host.fatbins.iter().map(|section| (section, true));
    let linked = host.whole_programs.iter().map(|section| (section, false));
    for (section, relocatable) in linkable.chain(linked) {
        let start = usize::try_from(section.offset).unwrap_or(usize::MAX);
        let keep = |entry: &FatbinEntry<'_>| keep(entry, relocatable);
        let new =
            fewer(section.data, &keep, &mut kept).map_err(|error| error.at(section.offset))?;
        edits.push(Edit { range: start..start.saturating_add(section.data.len()), new });
    }
    edits.retain(|edit| edit.new.len() != edit.range.len());
    edits.sort_by_key(|edit| edit.range.start);
    let mut bytes = edited(data, &edits)?;
    let table = read::u64_at(data, TABLE).unwrap_or_default();
    let moves = moves(&edits);
    let moved = |offset: u64| moved(&moves, offset);
    put(&mut bytes, TABLE, &moved(table).to_le_bytes())?;
    let size = usize::from(read::u16_at(data, ENTRY_SIZE).unwrap_or_default());
    let at = |table: u64, index: usize| {
        let table = usize::try_from(table).unwrap_or(usize::MAX);
        table.saturating_add(size.saturating_mul(index))
    };
    for index in 0..sections(data, table) {
        let (old, new) = (at(table, index), at(moved(table), index));
        let Some(offset) = read::u64_at(data, old.saturating_add(OFFSET)) else { continue };
        put(&mut bytes, new.saturating_add(OFFSET), &moved(offset).to_le_bytes())?;
        let own = |edit: &&Edit| edit.range.start as u64 == offset && is_fatbin(data, old, edit);
        if let Some(edit) = edits.iter().find(own) {
            let size = edit.new.len() as u64;
            put(&mut bytes, new.saturating_add(SIZE), &size.to_le_bytes())?;
        }
    }
    Ok((bytes, kept))
}

/// True if the section with its header at `at` is what `edit` changes, and no empty one in front.
fn is_fatbin(data: &[u8], at: usize, edit: &Edit) -> bool {
    read::u64_at(data, at.saturating_add(SIZE)) == Some(edit.range.len() as u64)
}

/// The number of sections, which is in the first one if it does not fit in the header.
fn sections(data: &[u8], table: u64) -> usize {
    let first = usize::try_from(table).unwrap_or(usize::MAX).saturating_add(SIZE);
    match read::u16_at(data, 60) {
        Some(0) | None => {
            let count = read::u64_at(data, first).unwrap_or_default();
            usize::try_from(count).unwrap_or_default().min(data.len() / 64)
        }
        Some(count) => count.into(),
    }
}

/// Containers with fewer entries.
fn fewer(
    data: &[u8],
    keep: &dyn Fn(&FatbinEntry<'_>) -> bool,
    kept: &mut usize,
) -> Result<Vec<u8>, Error> {
    let mut made = Vec::with_capacity(data.len());
    let mut at = 0;
    for container in containers(data) {
        let container = container?;
        let start = container.offset();
        made.extend_from_slice(data.get(at..start).unwrap_or_default());
        let header = made.len();
        let whole = container.bytes();
        made.extend_from_slice(whole.get(..CONTAINER_HEADER).unwrap_or_default());
        for entry in container.entries() {
            let entry = entry?;
            if keep(&entry) {
                *kept += 1;
                let (at, size) = (entry.offset(), entry.stored_size());
                made.extend_from_slice(read::bytes(data, at, size).unwrap_or_default());
            }
        }
        let body = (made.len() - header - CONTAINER_HEADER) as u64;
        put(&mut made, header + 8, &body.to_le_bytes())?;
        at = start + whole.len();
    }
    made.extend_from_slice(data.get(at..).unwrap_or_default());
    Ok(made)
}

/// An archive whose members have fewer images.
fn whole_archive(data: &[u8], keep: Keep<'_>) -> Result<Pruned, Error> {
    let (mut kept, mut edits) = (0, Vec::new());
    for member in archive::members(data)? {
        let member = member?;
        let MemberContents::Here { offset, data: bytes } = member.contents else {
            return Err(Error::new(0, "a thin archive"));
        };
        if sniff(bytes) != (Format::HostElf { relocatable: true }) {
            continue;
        }
        let (mut new, own) = object(bytes, keep).map_err(|error| error.at(offset))?;
        kept += own;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let size = new.len();
        // Members begin at even offsets.
        let pad = |size: usize| size % 2;
        let old_pad = pad(bytes.len()).min(data.len().saturating_sub(start + bytes.len()));
        if pad(size) == 1 {
            new.push(b'\n');
        }
        let head = start.checked_sub(MEMBER).ok_or_else(|| Error::new(start, "no header"))?;
        let field = head + MEMBER_SIZE.start..head + MEMBER_SIZE.end;
        edits.push(Edit { range: field, new: format!("{size:<10}").into_bytes() });
        edits.push(Edit { range: start..start + bytes.len() + old_pad, new });
    }
    let mut bytes = edited(data, &edits)?;
    move_symbols(data, &mut bytes, &edits)?;
    Ok(Pruned { bytes, kept })
}

/// The offsets of members in the archive's symbol table, big-endian: `/` has 32 bits for each,
/// `/SYM64/` 64.
fn move_symbols(data: &[u8], bytes: &mut [u8], edits: &[Edit]) -> Result<(), Error> {
    let start = 8;
    let name = read::bytes(data, start, 16).unwrap_or_default();
    let width = match () {
        () if name.starts_with(b"/ ") => 4,
        () if name.starts_with(b"/SYM64/ ") => 8,
        () => return Ok(()),
    };
    let number = |at: usize| -> Option<u64> {
        let field = read::bytes(data, at, width)?;
        Some(field.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    };
    let moves = moves(edits);
    let table = start + MEMBER;
    let count = number(table).unwrap_or_default();
    for index in 1..=usize::try_from(count).unwrap_or_default().min(data.len() / width) {
        let at = table + index * width;
        let Some(old) = number(at) else { break };
        let new = moved(&moves, old).to_be_bytes();
        put(bytes, at, new.get(8 - width..).unwrap_or_default())?;
    }
    Ok(())
}

/// For each edit where it begins, and how many bytes it and those before it take away.
fn moves(edits: &[Edit]) -> Vec<(u64, u64)> {
    let mut removed = 0;
    let step = |edit: &Edit| {
        removed += edit.range.len().saturating_sub(edit.new.len()) as u64;
        (edit.range.start as u64, removed)
    };
    edits.iter().map(step).collect()
}

/// Where that is what stands at `offset` before the edits.
fn moved(moves: &[(u64, u64)], offset: u64) -> u64 {
    let before = moves.partition_point(|&(start, _)| start < offset);
    let removed = before.checked_sub(1).and_then(|last| moves.get(last));
    offset.saturating_sub(removed.map_or(0, |&(_, removed)| removed))
}

/// `data` with all `edits`, which are in order.
fn edited(data: &[u8], edits: &[Edit]) -> Result<Vec<u8>, Error> {
    let mut made = Vec::with_capacity(data.len());
    let mut at = 0;
    for Edit { range, new } in edits {
        let before = data.get(at..range.start);
        made.extend_from_slice(before.ok_or_else(|| Error::new(at, "sections overlap"))?);
        made.extend_from_slice(new);
        at = range.end;
    }
    made.extend_from_slice(data.get(at..).unwrap_or_default());
    Ok(made)
}

fn put(bytes: &mut [u8], at: usize, new: &[u8]) -> Result<(), Error> {
    let place = at.checked_add(new.len()).and_then(|end| bytes.get_mut(at..end));
    match place {
        Some(place) => {
            place.copy_from_slice(new);
            Ok(())
        }
        None => Err(Error::new(at, "a header outside of the file")),
    }
}
