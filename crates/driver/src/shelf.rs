//! Memory for many small files.
//!
//! A map costs the system a structure for each file and a fault for every sixteen pages, memory that is read into a
//! fault for every page. Files of a few pages are read one behind the other into memory that comes in huge pages, where
//! the system has such, which costs less than either (docs/PERFORMANCE.md, inputs). Guaranteed: bytes of a file begin at
//! a multiple of [`ALIGN`], as in a map.

use std::fs::{self, File};
use std::io::{self, Read};
use std::mem;

use memmap2::{Advice, MmapMut};

use crate::files::{self, Bytes, Identity};
use crate::input::Store;

/// So many small files are not put on a shelf: the system clears a huge page for more than they cost.
const FIRST: usize = 64;

/// Larger files are mapped: to copy them costs more, bytes.
const LARGEST: u64 = 48 << 10;

/// Bytes that are asked for at a time. What is not used is not handed out.
const PIECE: usize = 32 << 20;

/// What all structures of an ELF file are aligned to, bytes.
const ALIGN: usize = 16;

/// Tells whether the system has huge pages for those who ask.
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Reads files; small ones go behind each other once there are many.
pub(crate) struct Shelf<'a> {
    store: &'a Store,
    /// Small files so far.
    files: usize,
    /// The rest of the last piece of memory.
    free: &'a mut [u8],
    /// There is no more.
    full: bool,
}

impl<'a> Shelf<'a> {
    /// A shelf whose memory lives as long as what is in `store`.
    pub(crate) fn new(store: &'a Store) -> Self {
        Shelf { store, files: 0, free: &mut [], full: false }
    }

    /// The bytes of the file at `path`, and which file it is.
    pub(crate) fn read(&mut self, path: &str) -> io::Result<(&'a [u8], Identity)> {
        let (mut file, meta) = files::open(path)?;
        let identity = files::identity_of(&meta);
        let small = meta.is_file() && meta.len() <= LARGEST;
        self.files += usize::from(small);
        if small
            && self.files > FIRST
            && let Some(room) = self.room(meta.len() as usize)
        {
            return Ok((fill(room, &mut file)?, identity));
        }
        let bytes = self.store.bytes_of(path, file, &meta)?;
        Ok((&**self.store.alloc(bytes), identity))
    }

    /// Room for `size` bytes, if there is some.
    fn room(&mut self, size: usize) -> Option<&'a mut [u8]> {
        let taken = size.next_multiple_of(ALIGN);
        if self.free.len() < taken {
            self.free = match self.full {
                true => return None,
                false => piece(self.store).unwrap_or_default(),
            };
            self.full = self.free.is_empty();
        }
        let (room, free) = mem::take(&mut self.free).split_at_mut_checked(taken)?;
        self.free = free;
        room.get_mut(..size)
    }
}

/// Memory in huge pages.
fn piece(store: &Store) -> Option<&mut [u8]> {
    let known = fs::read_to_string(HUGE_PAGES).ok()?;
    if known.contains("[never]") {
        return None;
    }
    let map = MmapMut::map_anon(PIECE).ok()?;
    map.advise(Advice::HugePage).ok()?;
    match store.alloc(Bytes::Shelf(map)) {
        Bytes::Shelf(map) => Some(map),
        _ => None,
    }
}

/// Reads `file` into `room`, which is as large as the file was when it was opened.
fn fill<'a>(room: &'a mut [u8], file: &mut File) -> io::Result<&'a [u8]> {
    let mut read = 0;
    while read < room.len() {
        match file.read(&mut room[read..]) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    match read == room.len() {
        true => Ok(room),
        false => Err(files::changed_while_read()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_its_own_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::mapping();
        let mut shelf = Shelf::new(&store);
        let mut all = Vec::new();
        for file in 0..2 * FIRST {
            // Among small ones some that are empty, odd or too large.
            let size = [0, 5, 4096, LARGEST as usize, LARGEST as usize + 1][file % 5];
            let path = folder.path().join(file.to_string());
            fs::write(&path, vec![file as u8; size]).unwrap();
            let (bytes, identity) = shelf.read(path.to_str().unwrap()).unwrap();
            assert_eq!(identity, files::identity(path.to_str().unwrap()).unwrap());
            assert_eq!(bytes.as_ptr() as usize % ALIGN * bytes.len().min(1), 0);
            all.push((bytes, vec![file as u8; size]));
        }
        assert!(all.iter().all(|(bytes, written)| bytes == written));
        assert!(shelf.read(folder.path().join("none").to_str().unwrap()).is_err());
    }

    #[test]
    fn a_file_that_has_become_shorter_is_an_error() {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, b"abc").unwrap();
        io::Seek::rewind(&mut file).unwrap();
        assert!(fill(&mut [0; 5], &mut file).is_err());
    }
}
