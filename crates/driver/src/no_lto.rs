//! LTO-IR in a build without feature `lto`: an error.
//!
//! In: the LTO-IR of a link. Out: a line that names it.

use culd_cubin::arch::Arch;
use culd_link::{Dialect, Session, Severity};

use crate::input::{InputStop, Inputs, Store};
use crate::messages::{InputError, Line};
use crate::options::CommandOptions;

/// LTO-IR of a link.
pub(crate) struct LinkTime<'a, 'l> {
    found: &'l mut Inputs<'a>,
    lines: &'l mut Vec<Line>,
}

impl<'a, 'l> LinkTime<'a, 'l> {
    /// As in other builds.
    pub(crate) fn new(
        _: &'l CommandOptions,
        _: &'static Arch,
        _: &'static Dialect,
        _: &'a Store,
        found: &'l mut Inputs<'a>,
        lines: &'l mut Vec<Line>,
        _: &'l Session,
    ) -> Self {
        LinkTime { found, lines }
    }

    /// There are no options about LTO-IR that could be wrong.
    pub(crate) fn check(self) -> Result<(), InputStop> {
        Ok(())
    }

    pub(crate) fn compile(self) -> Result<(), InputStop> {
        let file = self.found.lto.first().map(|part| part.name.clone()).unwrap_or_default();
        let error = "this build of culd has no feature 'lto'".to_owned();
        self.lines.push(Line::about(Severity::Fatal, InputError::Lto { file, error }));
        Err(InputStop)
    }
}
