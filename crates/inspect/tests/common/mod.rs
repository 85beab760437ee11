//! The recorded cubins.

use std::fs;
use std::path::{Path, PathBuf};

/// This crate's recorded files.
pub(crate) fn data(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every cubin of this crate's and of the project's test data, by path.
pub(crate) fn cubins() -> Vec<(PathBuf, Vec<u8>)> {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    walk(&crate_root.join("tests/data"), &mut paths);
    walk(&crate_root.join("../../testdata"), &mut paths);
    paths.sort();
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path, bytes)
    };
    paths.into_iter().map(read).collect()
}

fn walk(folder: &Path, paths: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries.map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            walk(&entry, paths);
        } else if entry.extension().is_some_and(|extension| extension == "cubin") {
            paths.push(entry);
        }
    }
}
