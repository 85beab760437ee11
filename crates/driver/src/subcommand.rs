//! Commands of culd that are no link.

use std::ffi::OsString;
use std::path::Path;

use crate::device_link::device_link;
use crate::interfaces::abi_check;
use crate::messages::Outcome;
use crate::options::{Shell, completions, man_page};
use crate::shadow::{check_shadow, install_shadow};

/// Runs the command that `words` begin with: what is for standard output, and how it ended.
/// `None` when they are a link. `program` is this very program.
pub fn subcommand(words: &[OsString], program: &Path) -> Option<(String, Outcome)> {
    let (command, rest) = words.split_first()?;
    match command.to_str()? {
        "install-shadow" => Some(install_shadow(rest, program)),
        "device-link" => Some(device_link(rest)),
        "check-shadow" => Some(check_shadow(rest, program)),
        "abi-check" => Some(abi_check(rest)),
        "man" => Some((man_page(), Outcome::success())),
        "completions" => Some(print_completions(rest)),
        _ => None,
    }
}

fn print_completions(rest: &[OsString]) -> (String, Outcome) {
    let shell = match rest {
        [name] => name.to_str().and_then(Shell::by_name),
        _ => None,
    };
    match shell {
        Some(shell) => (completions(shell), Outcome::success()),
        None => (String::new(), Outcome::fatal("completions: name bash, zsh or fish")),
    }
}
