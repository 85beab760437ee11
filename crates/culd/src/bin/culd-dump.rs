//! `culd-dump FILE`: the text form of a cubin, or the images of another file.
//!
//! Exit status: 0 done, 2 trouble.

use std::ffi::OsString;
use std::process::ExitCode;

use culd_inspect::command::{self, Trouble};

const NAME: &str = "culd-dump";

fn run() -> Result<(), Trouble> {
    if let Some(version) = culd_inspect::asked_version(NAME) {
        return Ok(culd_inspect::print(&version)?);
    }
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    command::dump(&words, &culd_inspect::read)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(Trouble { error, usage }) => {
            culd_inspect::complain(NAME, &error, usage);
            ExitCode::from(2)
        }
    }
}
