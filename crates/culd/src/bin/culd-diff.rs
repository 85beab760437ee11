//! `culd-diff A B`: the readable difference of two cubins, or of the images of other files.
//!
//! Exit status: 0 nothing differs, 1 something does, 2 trouble.

use std::ffi::OsString;
use std::process::ExitCode;

use culd_inspect::command::{self, Trouble};

const NAME: &str = "culd-diff";

fn run() -> Result<bool, Trouble> {
    if let Some(version) = culd_inspect::asked_version(NAME) {
        culd_inspect::print(&version)?;
        return Ok(false);
    }
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    command::diff(&words, &culd_inspect::read)
}

fn main() -> ExitCode {
    match run() {
        Ok(differs) => ExitCode::from(u8::from(differs)),
        Err(Trouble { error, usage }) => {
            culd_inspect::complain(NAME, &error, usage);
            ExitCode::from(2)
        }
    }
}
