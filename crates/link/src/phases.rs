//! The times of the phases of a link, and their spans for `tracing`.

use std::time::{Duration, Instant};

use tracing::span::EnteredSpan;

use crate::base::session::Session;
use crate::diag::{Diagnostics, Failed, Message};

/// One phase of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// The name in the table of ARCHITECTURE.md.
    pub name: &'static str,
    /// Wall-clock time.
    pub time: Duration,
}

/// The phases that ended, and the running one.
#[derive(Debug)]
pub(crate) struct Phases<'s> {
    session: &'s Session,
    ended: Vec<Phase>,
    running: Option<(&'static str, Instant, EnteredSpan)>,
}

impl<'s> Phases<'s> {
    pub(crate) fn new(session: &'s Session) -> Self {
        Phases { session, ended: Vec::new(), running: None }
    }

    /// Ends the running phase and begins the next one, unless the link is cancelled.
    pub(crate) fn begin(
        &mut self,
        name: &'static str,
        diags: &mut Diagnostics,
    ) -> Result<(), Failed> {
        self.end();
        self.session.begin(name);
        if self.session.is_cancelled() {
            return Err(diags.fatal(Message::Cancelled));
        }
        let span = tracing::debug_span!("phase", name).entered();
        self.running = Some((name, Instant::now(), span));
        Ok(())
    }

    fn end(&mut self) {
        if let Some((name, start, span)) = self.running.take() {
            drop(span);
            self.ended.push(Phase { name, time: start.elapsed() });
        }
    }

    /// Ends the running phase, which took `time`. The rest of the time is that of phase `name`,
    /// which ran in parallel.
    pub(crate) fn ran_in_parallel(&mut self, time: Duration, name: &'static str) {
        self.end();
        let Some(first) = self.ended.last_mut() else { return };
        let rest = first.time.saturating_sub(time);
        first.time -= rest;
        self.ended.push(Phase { name, time: rest });
    }

    /// All phases, the last one ended.
    pub(crate) fn finish(mut self) -> Vec<Phase> {
        self.end();
        self.ended
    }
}
