//! Commands about existing programs and reports.
//!
//! In: words of the command line. Out: text for standard output, files, exit status.

pub(crate) mod diff;
pub(crate) mod inspect;
pub(crate) mod size;

use std::ffi::{OsStr, OsString};

use crate::messages::RunOutcome;

/// An option with its value, which follows `=` or is the next word.
fn value_of<'w>(
    name: &str,
    word: &'w OsStr,
    rest: &mut std::slice::Iter<'w, OsString>,
) -> Option<Option<&'w OsStr>> {
    use culd_text::os::OsStrExt;
    let behind = word.as_bytes().strip_prefix(name.as_bytes())?;
    match behind {
        [] => Some(rest.next().map(OsString::as_os_str)),
        [b'=', value @ ..] => Some(Some(OsStr::from_bytes(value))),
        _ => None,
    }
}

/// The answer to a command that cannot be followed.
fn refused(text: impl ToString) -> (String, RunOutcome) {
    (String::new(), RunOutcome::fatal(text))
}
