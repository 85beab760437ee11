//! The recorded files of the crate behind culd-dump and culd-diff.

use std::fs;
use std::path::{Path, PathBuf};

/// The path of a recorded file.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../inspect/tests/data").join(name)
}

/// Its bytes.
pub(crate) fn data(name: &str) -> Vec<u8> {
    fs::read(path(name)).unwrap()
}
