//! Where device code is found: CUDA fat binaries, and the host objects and archives that carry
//! them.
//!
//! In: the bytes of a file. Out: what kind of file it is ([`sniff()`]), the members of an archive
//! ([`archive`]), the fat binaries and lists of used names in a host object ([`host`]), the images
//! in a fat binary ([`container`]), and fat binaries made of images ([`writer`]), or files with
//! fewer of them ([`prune`]). Guaranteed: no
//! I/O, no `unsafe`; views borrow from the input; whatever the bytes, the answer is a value or an
//! [`Error`] with an offset, and memory stays within what the caller allows.
//!
//! The layout of a fat binary, and how each field was found, is written down in `docs/FATBIN.md`.
//!
//! ```
//! use culd_fatbin::container::{self, ImageKind};
//! use culd_fatbin::writer::{Compression, ImageTarget, InputImage, write};
//!
//! let ptx = ".version 9.0\n.target sm_90\n.address_size 64\n";
//! let image = InputImage::ptx(ptx, ImageTarget::sm(90))?;
//! let file = write(&[image.compressed(Compression::Zstd)?])?;
//!
//! for container in container::containers(&file) {
//!     for entry in container?.entries() {
//!         let entry = entry?;
//!         assert_eq!((entry.kind(), entry.sm()), (ImageKind::Ptx, 90));
//!         assert_eq!(entry.data(1 << 20)?, ptx.as_bytes());
//!     }
//! }
//! # Ok::<(), culd_fatbin::Error>(())
//! ```
//!
//! The example `list` walks archives and objects down to their images.
//!
//! # Limits
//!
//! | what | limit | beyond it |
//! |---|---|---|
//! | decompressed image | the size its entry declares, and the limit given to [`container::Unpacker::image`] | an error before memory is taken |
//! | memory for decompression | the image, and some 160 KiB of decoder state for each [`container::Unpacker`] | |
//! | containers in a file, entries in a container | what fits, 16 and 64 bytes each; read one at a time | an error |
//! | depth of nested archives, chains of thin archives, all images together | the caller's: nothing here opens a file or recurses | |
#![doc = ""]
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(
    test,
    allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod archive;
mod compress;
pub mod container;
pub mod embed;
mod error;
pub mod header;
pub mod host;
mod module_id;
pub mod packing;
pub mod prune;
mod ptx;
mod read;
pub mod registration;
mod sections;
mod sniff;
pub mod writer;

pub use crate::error::Error;
pub use crate::sniff::{Format, sniff};
