//! Names of files as bytes, on every system.
//!
//! In: bytes of a command line, an archive or a response file. Out: names of the system.
//! Guaranteed: where names are bytes, as on Linux and macOS, nothing is lost and nothing is copied.
//! Elsewhere, as on Windows, a name is text; bytes that are none become U+FFFD, which names no
//! file.

#[cfg(unix)]
pub use std::os::unix::ffi::{OsStrExt, OsStringExt};

#[cfg(not(unix))]
pub use plain::{NO_NAME, OsStrExt, OsStringExt};

#[cfg(not(unix))]
mod plain {
    use std::ffi::{OsStr, OsString};

    /// The name for bytes that are no text.
    pub const NO_NAME: &str = "\u{fffd}";

    /// As the trait of this name in std for Unix.
    pub trait OsStrExt {
        /// The name that has these bytes.
        fn from_bytes(bytes: &[u8]) -> &Self;
        /// The bytes of the name.
        fn as_bytes(&self) -> &[u8];
    }

    impl OsStrExt for OsStr {
        fn from_bytes(bytes: &[u8]) -> &Self {
            // Files are not mapped on such a system, so these bytes do not change.
            OsStr::new(std::str::from_utf8(bytes).unwrap_or(NO_NAME))
        }

        fn as_bytes(&self) -> &[u8] {
            self.as_encoded_bytes()
        }
    }

    /// As the trait of this name in std for Unix.
    pub trait OsStringExt {
        /// The name that has these bytes.
        fn from_vec(bytes: Vec<u8>) -> Self;
        /// The bytes of the name.
        fn into_vec(self) -> Vec<u8>;
    }

    impl OsStringExt for OsString {
        fn from_vec(bytes: Vec<u8>) -> Self {
            OsStr::from_bytes(&bytes).to_owned()
        }

        fn into_vec(self) -> Vec<u8> {
            self.into_encoded_bytes()
        }
    }
}
