//! The file as ranges, and as chunks of ranges that are written together.
//!
//! In: the contents of the file in order, with sizes and alignments. Out: their offsets, and the
//! ranges ([`FileMap`]). Guaranteed: ranges are in order and do not overlap; chunks cover the whole
//! file.

use crate::base::half::Half;
use crate::base::id::SectionId;

/// Size of a chunk, bytes: small enough to stay in a core's cache until it is written, large enough
/// for few system calls.
const CHUNK: u64 = 1 << 20;

/// The content of a range of the file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RangeContent {
    FileHeader,
    /// Rows of a table from this row on.
    Rows(FileTable, u32),
    Section(Half, SectionId),
    ProgramHeaders,
    /// Zeros in front of a section with a large alignment.
    Gap,
}

/// A table whose rows are written one by one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FileTable {
    /// `.shstrtab`; each byte is a row.
    SectionStrings,
    /// `.strtab`; each byte is a row.
    Strings,
    Symbols,
    HighIndices,
    MercurySymbols,
    SectionHeaders,
}

impl FileTable {
    /// Bytes of a row.
    fn row(self) -> u64 {
        match self {
            FileTable::SectionStrings | FileTable::Strings => 1,
            FileTable::Symbols | FileTable::MercurySymbols => 24,
            FileTable::HighIndices => 4,
            FileTable::SectionHeaders => 64,
        }
    }
}

/// Bytes of a table in one range: a large table must span several chunks.
const TABLE_PIECE: u64 = 1 << 18;

/// A range of the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileRange {
    pub(crate) content: RangeContent,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// Ranges that are written together, with zeros between and after them.
pub(crate) struct OutputChunk<'p> {
    pub(crate) ranges: &'p [FileRange],
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl OutputChunk<'_> {
    /// Bytes.
    pub(crate) fn size(&self) -> usize {
        (self.end - self.start) as usize
    }
}

/// Splits a file of `size` bytes into chunks without gaps.
pub(crate) fn chunks(mut ranges: &[FileRange], size: u64) -> impl Iterator<Item = OutputChunk<'_>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        ranges.first()?;
        let count = ranges.iter().take_while(|range| range.end - start <= CHUNK).count().max(1);
        let (taken, rest) = ranges.split_at(count);
        let end = rest.first().map_or(size, |next| next.start);
        let chunk = OutputChunk { ranges: taken, start, end };
        (ranges, start) = (rest, end);
        Some(chunk)
    })
}

/// Splits every gap between `ranges` that is larger than a chunk into ranges of zeros, so that a
/// large alignment takes no more memory than other contents. Only for a file whose size was
/// checked: a gap can have many ranges.
pub(crate) fn split_gaps(ranges: &mut Vec<FileRange>) {
    let large = |pair: &[FileRange]| pair[1].start - pair[0].end > CHUNK;
    let gaps: Vec<FileRange> = ranges
        .windows(2)
        .filter(|pair| large(pair))
        .flat_map(|pair| {
            let (from, to) = (pair[0].end, pair[1].start);
            let part = move |start| FileRange {
                content: RangeContent::Gap,
                start,
                end: to.min(start + CHUNK),
            };
            (from..to).step_by(CHUNK as usize).map(part)
        })
        .collect();
    if !gaps.is_empty() {
        ranges.extend(gaps);
        ranges.sort_by_key(|range| range.start);
    }
}

/// The ranges of a file while it is laid out.
pub(crate) struct FileMap {
    list: Vec<FileRange>,
    /// End of the last range, bytes.
    end: u64,
}

impl FileMap {
    /// A map with the file header, and capacity for `count` more ranges.
    pub(crate) fn new(header: u64, count: usize) -> Self {
        let mut map = FileMap { list: Vec::with_capacity(count + 1), end: 0 };
        map.add(RangeContent::FileHeader, header, 1);
        map
    }

    /// Reserves `size` bytes at the next multiple of `align`; returns their offset.
    pub(crate) fn skip(&mut self, size: u64, align: u64) -> u64 {
        let start = self.end.next_multiple_of(align);
        self.end = start + size;
        start
    }

    /// As [`FileMap::skip`], for a range with contents.
    pub(crate) fn add(&mut self, content: RangeContent, size: u64, align: u64) -> u64 {
        let start = self.skip(size, align);
        if size != 0 {
            self.list.push(FileRange { content, start, end: self.end });
        }
        start
    }

    /// As [`FileMap::add`], for the rows of a table.
    pub(crate) fn add_table(&mut self, table: FileTable, rows: u64, align: u64) -> u64 {
        let start = self.skip(0, align);
        let each = TABLE_PIECE / table.row();
        for first in (0..rows).step_by(each as usize) {
            let count = each.min(rows - first);
            self.add(RangeContent::Rows(table, first as u32), table.row() * count, 1);
        }
        start
    }

    /// End of the last range, bytes.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// All ranges, in order.
    pub(crate) fn finish(self) -> Vec<FileRange> {
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, FileRange, RangeContent, chunks, split_gaps};

    #[test]
    fn a_gap_is_written_in_pieces() {
        let range = |start, end| FileRange { content: RangeContent::FileHeader, start, end };
        let far = 10 * CHUNK + 100;
        let mut ranges = vec![range(0, 64), range(64 + CHUNK, 80 + CHUNK), range(far, far + 8)];
        split_gaps(&mut ranges);
        let chunks: Vec<_> = chunks(&ranges, far + 8).collect();
        assert!(chunks.iter().all(|chunk| chunk.size() as u64 <= 2 * CHUNK));
        let ends = chunks.iter().map(|chunk| chunk.end);
        assert!(chunks.iter().skip(1).map(|chunk| chunk.start).eq(ends.take(chunks.len() - 1)));
        let (first, last) = (chunks.first(), chunks.last());
        assert_eq!(first.map(|chunk| chunk.start), Some(0));
        assert_eq!(last.map(|chunk| chunk.end), Some(far + 8));
        // A gap that fits into a chunk is not split.
        assert!(matches!(ranges[1].content, RangeContent::FileHeader));
    }
}
