//! Compares files with uncompressed linked cubins: objects of `nvcc -dlink`, programs, libraries.
//!
//! In: two files that differ only in the device linker that made them. Out: the linkers of their
//! cubins, and the first difference. Guaranteed: every byte counts except the payloads of the
//! linkers' own notes, and what programs for sm_100 and later may differ in.

use super::mercury::LinkObjects;
use super::{linked, own_note, sections};
use culd_cubin::note::ToolRecord;
use object::elf::{EM_CUDA, ET_EXEC, FileHeader64};
use object::read::elf::FileHeader as _;
use object::{LittleEndian, elf};
use std::ops::Range;

/// The place of a linked cubin in a file.
struct EmbeddedCubin {
    whole: Range<usize>,
    /// The payload of its linker's note.
    own: Range<usize>,
}

/// The names that the linkers of the cubins in a file gave themselves.
pub fn linkers(file: &[u8]) -> Vec<String> {
    let name = |image: EmbeddedCubin| {
        let record = file.get(image.own).and_then(ToolRecord::parse);
        record.map_or_else(|| "nobody".to_owned(), |record| record.tool)
    };
    images(file).into_iter().map(name).collect()
}

/// The difference of two files; `None` if they are equal except the own notes of their linked
/// cubins.
pub fn files(expected: &[u8], actual: &[u8]) -> Option<String> {
    let (theirs, ours) = (images(expected), images(actual));
    for (number, (theirs, ours)) in theirs.iter().zip(&ours).enumerate() {
        let cubin = |file: &[u8], image: &EmbeddedCubin| {
            file.get(image.whole.clone()).unwrap_or_default().to_vec()
        };
        let (theirs, ours) = (cubin(expected, theirs), cubin(actual, ours));
        if let Err(what) = linked(&theirs, &ours, LinkObjects::default) {
            return Some(format!("cubin {}: {what}", number + 1));
        }
    }
    // These have been compared.
    let same_place = theirs.iter().zip(&ours).filter(|(theirs, ours)| theirs.whole == ours.whole);
    let compared: Vec<&Range<usize>> = same_place.map(|(theirs, _)| &theirs.whole).collect();
    let inside = |at: usize| compared.iter().any(|image| image.contains(&at));
    let differs = |&at: &usize| expected.get(at) != actual.get(at) && !inside(at);
    let first = (0..expected.len().max(actual.len())).find(differs)?;
    let (ours, theirs) = (ours.len(), theirs.len());
    Some(format!("offset {first:#x}, outside of cubins; {ours} cubins instead of {theirs}"))
}

/// The uncompressed linked cubins in a file.
fn images(file: &[u8]) -> Vec<EmbeddedCubin> {
    let mut images = Vec::new();
    let mut at = 0;
    while let Some(found) = find(file, at) {
        at = found + 1;
        if let Some(image) = image(file, found) {
            at = image.whole.end;
            images.push(image);
        }
    }
    images
}

/// The next offset from `from` at which an ELF file may begin.
fn find(file: &[u8], from: usize) -> Option<usize> {
    let rest = file.get(from..)?;
    Some(from + rest.windows(elf::ELFMAG.len()).position(|bytes| bytes == elf::ELFMAG)?)
}

fn image(file: &[u8], start: usize) -> Option<EmbeddedCubin> {
    let bytes = file.get(start..)?;
    let header = FileHeader64::<LittleEndian>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    if header.e_machine(endian) != EM_CUDA || header.e_type(endian) != ET_EXEC {
        return None;
    }
    let table = |offset: u64, count: u16, size: u16| {
        (offset as usize).saturating_add(usize::from(count) * usize::from(size))
    };
    let tables = [
        table(header.e_shoff(endian), header.e_shnum(endian), header.e_shentsize(endian)),
        table(header.e_phoff(endian), header.e_phnum(endian), header.e_phentsize(endian)),
    ];
    let contents = sections(bytes).into_iter().map(|(_, range)| range.end);
    let end = contents.chain(tables).max()?.min(bytes.len());
    let own = own_note(bytes)?;
    Some(EmbeddedCubin { whole: start..start + end, own: start + own.start..start + own.end })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::compare::tests::cubin;

    /// A file with two cubins between other bytes.
    fn file(notes: [&[u8; 8]; 2], text: &[u8; 4]) -> Vec<u8> {
        let cubins = notes.map(|note| cubin(note, b"same", text));
        [b"head\x7fELF", cubins[0].as_slice(), b"between", cubins[1].as_slice(), b"tail"].concat()
    }

    #[test]
    fn own_notes_may_differ_and_nothing_else() {
        let a = file([b"theirs..", b"theirs.."], b"code");
        let b = file([b"ours....", b"ours,,,,"], b"code");
        assert_eq!(images(&a).len(), 2);
        assert_eq!(files(&a, &b), None);
        let own: usize = images(&a).iter().map(|image| image.own.len()).sum();
        let same = (0..a.len()).filter(|&at| {
            let mut c = b.clone();
            c[at] ^= 0x10;
            files(&a, &c).is_none()
        });
        assert_eq!(same.count(), own);
        assert!(files(&a, &a[..a.len() - 1]).is_some());
    }

    #[test]
    fn a_difference_in_a_cubin_is_named() {
        let a = file([b"theirs..", b"theirs.."], b"code");
        let b = file([b"ours....", b"ours...."], b"coXe");
        let what = files(&a, &b).unwrap_or_default();
        assert!(what.starts_with("cubin 1: .text.k+0x2: 58 instead of 64"), "{what}");
    }
}
