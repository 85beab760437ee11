//! Commands of culd that are no link.

use std::path::Path;

use crate::interfaces::abi_check;
use crate::lines::Outcome;
use crate::options::{Shell, completions, man_page};
use crate::shadow::install_shadow;

/// The usage and meaning of each command, for help and manual page.
pub(crate) const COMMANDS: &[(&str, &str)] = &[
    (
        "install-shadow <folder> [--cuda <toolkit>] [--copy]",
        "Make a folder that stands for the toolkit, with culd as its nvlink",
    ),
    (
        "abi-check <file>...",
        "Hold the declarations of PTX files against each other and against the documented ABI",
    ),
    ("man", "Print the manual page"),
    ("completions <bash|zsh|fish>", "Print completions for a shell"),
];

/// Runs the command that `words` begin with: what is for standard output, and how it ended.
/// `None` when they are a link. `program` is this very program.
pub fn subcommand(words: &[String], program: &Path) -> Option<(String, Outcome)> {
    let (command, rest) = words.split_first()?;
    match command.as_str() {
        "install-shadow" => Some(install_shadow(rest, program)),
        "abi-check" => Some(abi_check(rest)),
        "man" => Some((man_page(), Outcome::success())),
        "completions" => Some(print_completions(rest)),
        _ => None,
    }
}

fn print_completions(rest: &[String]) -> (String, Outcome) {
    let shell = match rest {
        [name] => Shell::by_name(name),
        _ => None,
    };
    match shell {
        Some(shell) => (completions(shell), Outcome::success()),
        None => (String::new(), Outcome::fatal("completions: name bash, zsh or fish")),
    }
}
