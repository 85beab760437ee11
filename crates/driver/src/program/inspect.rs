//! `culd dump` and `culd diff`: culd-dump and culd-diff, for files that are mapped.

use std::ffi::OsString;
use std::path::Path;

use culd_inspect::command::{self, Trouble};
use culd_link::Severity;

use crate::messages::{Line, RunOutcome};
use crate::os::files::{Kinds, Store};

/// The exit status of trouble.
const TROUBLE: u8 = 2;

/// Runs `culd dump`; `words` stand behind its name.
pub(crate) fn dump(words: &[OsString]) -> (String, RunOutcome) {
    outcome(command::dump(words, &mapped).map(|()| false))
}

/// Runs `culd diff`.
pub(crate) fn diff(words: &[OsString]) -> (String, RunOutcome) {
    outcome(command::diff(words, &mapped))
}

fn outcome(ended: Result<bool, Trouble>) -> (String, RunOutcome) {
    match ended {
        Ok(differs) => (String::new(), RunOutcome { status: u8::from(differs), lines: Vec::new() }),
        Err(Trouble { error, usage }) => {
            let usage = usage.lines().map(str::to_owned).collect();
            let line = Line::new(Severity::Fatal, error).with_notes(usage);
            (String::new(), RunOutcome { status: TROUBLE, lines: vec![line] })
        }
    }
}

/// The bytes of a file, which stay until the process ends.
fn mapped(path: &OsString) -> Result<&'static [u8], String> {
    let store: &'static Store = Box::leak(Box::new(Store::mapping()));
    let read = store.read(Path::new(path), Kinds::Any);
    let (bytes, _) = read.map_err(|error| culd_inspect::about(path, error))?;
    Ok(store.alloc(bytes))
}
