//! The two compressions of a payload.
//!
//! In: bytes. Out: bytes. Guaranteed: decompression makes exactly the size that was asked for or
//! fails, and takes no more memory than that size and the decoder's state.

use zstd::bulk::Decompressor;

use crate::error::Error;

/// The most bytes that one byte of an LZ4 block can stand for: a length byte of 255.
const LZ4_RATIO: usize = 255;

/// Decompresses an LZ4 block of `size` bytes.
pub(crate) fn from_lz4(block: &[u8], size: usize, spare: Vec<u8>) -> Result<Vec<u8>, String> {
    if size / LZ4_RATIO > block.len() {
        return Err(format!("{} bytes of LZ4 cannot be {size:#x} bytes", block.len()));
    }
    let mut data = reserve(size, spare)?;
    data.resize(size, 0);
    match lz4_flex::block::decompress_into(block, &mut data) {
        Ok(made) if made == size => Ok(data),
        Ok(made) => Err(wrong_size(made as u64, size)),
        Err(error) => Err(format!("broken LZ4 block: {error}")),
    }
}

/// Decompresses what was compressed with zstd. Its memory, some 160 KiB, is taken by the first
/// frame and serves all.
#[derive(Default)]
pub(crate) struct Zstd {
    decoder: Option<Decompressor<'static>>,
    /// A copy of the frame. The library is C; it may read a byte again after its check, and another
    /// process may write into the file that the frame is part of.
    frame: Vec<u8>,
}

impl Zstd {
    /// Decompresses frames of `size` bytes together.
    pub(crate) fn decompress(
        &mut self,
        frame: &[u8],
        size: usize,
        spare: Vec<u8>,
    ) -> Result<Vec<u8>, String> {
        self.frame.clear();
        let room = self.frame.try_reserve(frame.len());
        room.map_err(|_| format!("no memory for {:#x} bytes", frame.len()))?;
        self.frame.extend_from_slice(frame);
        if let Some(made) = zstd::decompressed_size(&self.frame).filter(|&made| made > size as u64)
        {
            return Err(wrong_size(made, size));
        }
        // The capacity of the vector is the limit of the output.
        let mut data = reserve(size, spare)?;
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(Decompressor::new().map_err(|error| error.to_string())?),
        };
        match decoder.decompress_to_buffer(&self.frame, &mut data) {
            Ok(made) if made == size => Ok(data),
            Ok(made) => Err(wrong_size(made as u64, size)),
            Err(error) => Err(format!("broken zstd frame: {error}")),
        }
    }
}

/// Room for `size` bytes, in the memory of `spare` if it is enough.
fn reserve(size: usize, spare: Vec<u8>) -> Result<Vec<u8>, String> {
    let mut data = spare;
    data.clear();
    data.try_reserve_exact(size).map_err(|_| format!("no memory for {size:#x} bytes"))?;
    Ok(data)
}

fn wrong_size(made: u64, declared: usize) -> String {
    format!("{made:#x} bytes when decompressed, but {declared:#x} are declared")
}

/// Level of LZ4's high compression, as `fatbinary` 13.0 has it. Level 1 makes the same.
const LZ4_LEVEL: i32 = 2;

/// Makes an LZ4 block, by the C library: its bytes are those of `fatbinary`.
pub(crate) fn to_lz4(data: &[u8]) -> Result<Vec<u8>, Error> {
    let mode = lz4::block::CompressionMode::HIGHCOMPRESSION(LZ4_LEVEL);
    lz4::block::compress(data, Some(mode), false)
        .map_err(|error| Error::new(0, format!("LZ4: {error}")))
}

/// Makes a zstd frame with the size of its contents and without a checksum.
pub(crate) fn to_zstd(data: &[u8], level: i32) -> Result<Vec<u8>, Error> {
    let mut frame = zstd::bulk::compress(data, level)
        .map_err(|error| Error::new(0, format!("zstd: {error}")))?;
    // It has room for a frame that is larger than its contents.
    frame.shrink_to_fit();
    Ok(frame)
}
