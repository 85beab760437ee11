//! What the fuzz targets share: bodies are in `tests/src/fuzz.rs`, so that `cargo test` runs them
//! too.

use culd_tests::fuzz::TARGETS;

/// Runs the body of the target called `name`.
///
/// # Panics
/// When there is none of that name, or the body finds something.
pub fn run(name: &str, data: &[u8]) {
    let (_, body) = TARGETS.iter().find(|target| target.0 == name).expect("a target");
    body(data);
}
