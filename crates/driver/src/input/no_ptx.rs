//! PTX in a build without feature `ptx`: every text is an error.
//!
//! In: PTX texts. Out: an error for each.

use culd_link::{Dialect, Session};
use thiserror::Error;

use super::compilation::{PtxCompilation, PtxJob};
use crate::options::CommandOptions;

/// Why there is no cubin.
#[derive(Debug, Error)]
pub(crate) enum CompileError {
    #[error("this build of culd has no feature 'ptx'")]
    NoFeature,
    /// As in other builds; it does not occur in this one.
    #[error("ptxas failed")]
    #[expect(dead_code, reason = "only ptxas refuses")]
    Refused(Option<String>),
    /// The same.
    #[error("an option is not known")]
    #[expect(dead_code, reason = "only records of options have unknown ones")]
    Unknown,
}

/// A compiler that waits for its text: this build has none.
pub enum PtxasAhead {}

/// The compiler of this build.
pub(crate) struct PtxCompiler;

impl PtxCompiler {
    pub(crate) fn new(_: &CommandOptions, _: &str, _: &Dialect) -> Self {
        PtxCompiler
    }

    pub(crate) fn compile(
        &self,
        jobs: &[PtxJob<'_>],
        _: Option<PtxasAhead>,
        _: &Session,
    ) -> Vec<PtxCompilation> {
        let refuse = |_: &PtxJob<'_>| PtxCompilation {
            cubin: Err(CompileError::NoFeature),
            lines: Vec::new(),
            time: 0.0,
        };
        jobs.iter().map(refuse).collect()
    }
}
