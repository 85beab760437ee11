//! Which images `fatbinary` compresses, and how.
//!
//! In: its options, an image. Out: the image as `fatbinary` 13.0 stores it, but for LTO-IR, which
//! only NVIDIA's program can scramble: it is stored as it is. docs/FATBIN.md has the rules.

use crate::container::ImageKind;
use crate::error::Error;
use crate::writer::{Compression, InputImage};

/// A cubin of more bytes is compressed where smaller ones are stored.
const LARGE: u64 = 10_000_000;

/// What `-compress-mode` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// zstd, and without a word.
    #[default]
    Default,
    /// The same.
    Balance,
    /// LZ4.
    Speed,
    /// zstd of a high level, cubins too.
    Size,
    /// Nothing is compressed.
    None,
}

impl Mode {
    /// The mode of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "default" => Some(Mode::Default),
            "balance" => Some(Mode::Balance),
            "speed" => Some(Mode::Speed),
            "size" => Some(Mode::Size),
            "none" => Some(Mode::None),
            _ => None,
        }
    }
}

/// The options of `fatbinary` that decide on compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Packing {
    /// `-compress-mode`.
    pub mode: Mode,
    /// `-compress=false`.
    pub off: bool,
    /// `-compress-all`, `-device-c` or `-g`: cubins, whatever their size.
    pub all: bool,
}

impl Packing {
    /// How an image of this kind and of `size` bytes is compressed; `None`: it is stored.
    #[must_use]
    pub fn compression(&self, kind: ImageKind, size: u64) -> Option<Compression> {
        let wanted = match kind {
            ImageKind::Elf => self.all || size > LARGE || self.mode == Mode::Size,
            ImageKind::Ptx => true,
            ImageKind::LtoIr | ImageKind::Other(_) => false,
        };
        match self.mode {
            Mode::None => None,
            _ if self.off || !wanted => None,
            Mode::Default | Mode::Balance => Some(Compression::Zstd),
            Mode::Speed => Some(Compression::Lz4),
            Mode::Size => Some(Compression::ZstdSmall),
        }
    }

    /// `image` as these options want it.
    ///
    /// # Errors
    /// No memory.
    pub fn pack(&self, image: InputImage) -> Result<InputImage, Error> {
        match self.compression(image.kind(), image.payload().len() as u64) {
            Some(compression) => image.compressed(compression),
            None => Ok(image),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compressed_is_that_of_the_table() {
        let packing = |mode, off, all| Packing { mode, off, all };
        let of = |packing: Packing, kind, size| packing.compression(kind, size);
        let usual = Packing::default();
        assert_eq!(of(usual, ImageKind::Elf, LARGE), None);
        assert_eq!(of(usual, ImageKind::Elf, LARGE + 1), Some(Compression::Zstd));
        assert_eq!(of(usual, ImageKind::Ptx, 1), Some(Compression::Zstd));
        assert_eq!(
            of(packing(Mode::Size, false, false), ImageKind::Elf, 1),
            Some(Compression::ZstdSmall)
        );
        assert_eq!(of(packing(Mode::Speed, false, false), ImageKind::Elf, 1), None);
        assert_eq!(
            of(packing(Mode::Speed, false, true), ImageKind::Elf, 1),
            Some(Compression::Lz4)
        );
        for off in [packing(Mode::None, false, true), packing(Mode::Size, true, true)] {
            assert_eq!(
                (of(off, ImageKind::Elf, LARGE + 1), of(off, ImageKind::Ptx, 1)),
                (None, None)
            );
        }
        assert_eq!(of(packing(Mode::Size, false, true), ImageKind::LtoIr, 1), None);
    }
}
