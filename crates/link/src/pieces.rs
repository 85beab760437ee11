//! The file as pieces, and as chunks of those that are written at once.
//!
//! In: what there is, in file order, with sizes and alignments. Out: where each starts, and [`Pieces`]. Guaranteed: pieces are in
//! order and do not overlap; chunks leave nothing out.

use crate::capsule::Half;
use crate::id::SectionId;

/// Sections are put together in chunks of about this many bytes: few enough to stay in a core's cache until they
/// are written, enough for few system calls.
const CHUNK: u64 = 1 << 20;

/// What a range of the file holds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    FileHeader,
    /// A table's rows from this one on.
    Rows(Table, u32),
    Section(Half, SectionId),
    ProgramHeaders,
    /// Nothing: zeros in front of a section with a large alignment.
    Gap,
}

/// A table of many rows, which are written one by one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Table {
    /// Its rows are bytes.
    SectionStrings,
    /// The same.
    Strings,
    Symbols,
    HighIndices,
    MercurySymbols,
    SectionHeaders,
}

impl Table {
    /// Bytes of a row.
    fn row(self) -> u64 {
        match self {
            Table::SectionStrings | Table::Strings => 1,
            Table::Symbols | Table::MercurySymbols => 24,
            Table::HighIndices => 4,
            Table::SectionHeaders => 64,
        }
    }
}

/// Bytes of a table that are one piece, about: a large table must not be one chunk.
const TABLE_PIECE: u64 = 1 << 18;

/// A range of the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) what: What,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// Pieces that are written at once, and zeros between and behind them.
pub(crate) struct Chunk<'p> {
    pub(crate) pieces: &'p [Piece],
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Chunk<'_> {
    /// Bytes.
    pub(crate) fn size(&self) -> usize {
        (self.end - self.start) as usize
    }
}

/// A file of `size` bytes as chunks that leave nothing out.
pub(crate) fn chunks(mut pieces: &[Piece], size: u64) -> impl Iterator<Item = Chunk<'_>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        pieces.first()?;
        let count = pieces.iter().take_while(|piece| piece.end - start <= CHUNK).count().max(1);
        let (taken, rest) = pieces.split_at(count);
        let end = rest.first().map_or(size, |next| next.start);
        let chunk = Chunk { pieces: taken, start, end };
        (pieces, start) = (rest, end);
        Some(chunk)
    })
}

/// Makes pieces of what lies between `pieces`, where it is so much that it would be a chunk of its own: an alignment takes
/// no more memory than anything else. For a file that is not too large: there may be many.
pub(crate) fn split_gaps(pieces: &mut Vec<Piece>) {
    let large = |pair: &[Piece]| pair[1].start - pair[0].end > CHUNK;
    let gaps: Vec<Piece> = pieces
        .windows(2)
        .filter(|pair| large(pair))
        .flat_map(|pair| {
            let (from, to) = (pair[0].end, pair[1].start);
            let part = move |start| Piece { what: What::Gap, start, end: to.min(start + CHUNK) };
            (from..to).step_by(CHUNK as usize).map(part)
        })
        .collect();
    if !gaps.is_empty() {
        pieces.extend(gaps);
        pieces.sort_by_key(|piece| piece.start);
    }
}

/// The pieces of a file that is being laid out.
pub(crate) struct Pieces {
    list: Vec<Piece>,
    /// Where the last thing ends, bytes.
    end: u64,
}

impl Pieces {
    /// The file header, with room for `count` pieces more.
    pub(crate) fn new(header: u64, count: usize) -> Self {
        let mut pieces = Pieces { list: Vec::with_capacity(count + 1), end: 0 };
        pieces.add(What::FileHeader, header, 1);
        pieces
    }

    /// Takes room for `size` bytes at the next multiple of `align`; returns where.
    pub(crate) fn skip(&mut self, size: u64, align: u64) -> u64 {
        let start = self.end.next_multiple_of(align);
        self.end = start + size;
        start
    }

    /// The same for bytes that are written.
    pub(crate) fn add(&mut self, what: What, size: u64, align: u64) -> u64 {
        let start = self.skip(size, align);
        if size != 0 {
            self.list.push(Piece { what, start, end: self.end });
        }
        start
    }

    /// The same for the rows of a table.
    pub(crate) fn add_table(&mut self, table: Table, rows: u64, align: u64) -> u64 {
        let start = self.skip(0, align);
        let each = TABLE_PIECE / table.row();
        for first in (0..rows).step_by(each as usize) {
            let count = each.min(rows - first);
            self.add(What::Rows(table, first as u32), table.row() * count, 1);
        }
        start
    }

    /// Where the last thing ends, bytes.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// All pieces, in order.
    pub(crate) fn finish(self) -> Vec<Piece> {
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, Piece, What, chunks, split_gaps};

    #[test]
    fn a_gap_is_written_in_pieces() {
        let piece = |start, end| Piece { what: What::FileHeader, start, end };
        let far = 10 * CHUNK + 100;
        let mut pieces = vec![piece(0, 64), piece(64 + CHUNK, 80 + CHUNK), piece(far, far + 8)];
        split_gaps(&mut pieces);
        let chunks: Vec<_> = chunks(&pieces, far + 8).collect();
        assert!(chunks.iter().all(|chunk| chunk.size() as u64 <= 2 * CHUNK));
        let ends = chunks.iter().map(|chunk| chunk.end);
        assert!(chunks.iter().skip(1).map(|chunk| chunk.start).eq(ends.take(chunks.len() - 1)));
        let (first, last) = (chunks.first(), chunks.last());
        assert_eq!(first.map(|chunk| chunk.start), Some(0));
        assert_eq!(last.map(|chunk| chunk.end), Some(far + 8));
        // A gap that fits into a chunk stays one.
        assert!(matches!(pieces[1].what, What::FileHeader));
    }
}
