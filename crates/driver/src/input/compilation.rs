//! The work of a compiler of PTX, with and without feature `ptx`.
//!
//! In: a PTX text and its options, as a [`PtxJob`]. Out: a [`PtxCompilation`].

use super::ptx::CompileError;

/// One text to compile.
#[derive(Debug)]
pub(crate) struct PtxJob<'a> {
    /// Up to its first NUL.
    pub(crate) text: &'a [u8],
    /// The option record of its entry.
    pub(crate) options: String,
}

/// The result of a job.
#[derive(Debug)]
pub(crate) struct PtxCompilation {
    pub(crate) cubin: Result<Vec<u8>, CompileError>,
    /// Lines of ptxas.
    pub(crate) lines: Vec<String>,
    /// Milliseconds.
    pub(crate) time: f64,
}
