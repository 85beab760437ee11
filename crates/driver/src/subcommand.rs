//! Commands of culd that are not a link.
//!
//! In: words. Out: text, lines and status.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::device_link::device_link;
use crate::fatbinary::fatbinary;
use crate::interfaces::abi_check;
use crate::messages::{Product, RunOutcome};
use crate::options::{Shell, command_help, completions, man_page};
use crate::program::{diff, inspect, size};
use crate::prune::prune;
use crate::shadow::{check_shadow, install_shadow};

/// Runs the command that `words` begin with. Returns the text for standard output, and lines and
/// status; `None` if the words are a link. `program` gives the path of this program.
pub fn subcommand(
    words: &[OsString],
    program: impl FnOnce() -> PathBuf,
) -> Option<(Product, RunOutcome)> {
    let (command, rest) = words.split_first()?;
    let command = command.to_str()?;
    // Most command lines are links: the commands are looked through only for these words.
    let asks = |words: &[&str]| rest.iter().any(|word| words.iter().any(|asked| word == asked));
    if asks(&["--version"]) && command_help(command).is_some() {
        let version = format!("culd {}\n", env!("CARGO_PKG_VERSION"));
        return Some((version.into(), RunOutcome::success()));
    }
    if matches!(command, "cmake" | "man" | "completions") && asks(&["--help", "-h"]) {
        return Some((command_help(command)?.into(), RunOutcome::success()));
    }
    let (text, outcome) = match command {
        "install-shadow" => install_shadow(rest, &program()),
        "device-link" => device_link(rest),
        "fatbinary" => fatbinary(rest),
        "prune" => prune(rest),
        "cmake" => cmake(rest, &program()),
        "check-shadow" => check_shadow(rest, &program()),
        "abi-check" => abi_check(rest),
        "size" => return Some(size::size(rest)),
        "dump" => inspect::dump(rest),
        "diff" => inspect::diff(rest),
        "report" => diff::report(rest),
        "man" => (man_page(), RunOutcome::success()),
        "completions" => print_completions(rest),
        _ => return None,
    };
    Some((text.into(), outcome))
}

/// The two variables of a toolchain file by which CMake has culd make device links.
fn cmake(rest: &[OsString], program: &Path) -> (String, RunOutcome) {
    if !rest.is_empty() {
        return (String::new(), RunOutcome::fatal("cmake: it takes no words"));
    }
    // A bracket argument of CMake has no escapes.
    let program = culd_text::name(program);
    let line = |kind: &str| {
        format!(
            "set(CMAKE_CUDA_DEVICE_LINK_{kind} [==[\"{program}\" device-link \
             --nvcc <CMAKE_CUDA_COMPILER> -forward-unknown-to-host-compiler \
             <LANGUAGE_COMPILE_FLAGS> <LINK_FLAGS> -Xcompiler=-fPIC -shared <OBJECTS> \
             -o <TARGET> <LINK_LIBRARIES>]==])\n"
        )
    };
    let text = format!(
        "# Device links by culd: a toolchain file, or a part of one.\n{}{}",
        line("EXECUTABLE"),
        line("LIBRARY")
    );
    (text, RunOutcome::success())
}

fn print_completions(rest: &[OsString]) -> (String, RunOutcome) {
    let shell = match rest {
        [name] => name.to_str().and_then(Shell::by_name),
        _ => None,
    };
    match shell {
        Some(shell) => (completions(shell), RunOutcome::success()),
        None => (String::new(), RunOutcome::fatal("completions: name bash, zsh or fish")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_version_and_help() {
        for command in ["size", "prune", "cmake", "man", "completions", "abi-check", "report"] {
            assert!(command_help(command).is_some(), "{command}");
            let said = |option: &str| {
                let words = [command, option].map(OsString::from);
                let (text, outcome) = subcommand(&words, || "culd".into()).expect(command);
                assert_eq!(outcome.status, 0, "{command} {option}");
                String::from_utf8(text.pieces().collect::<Vec<_>>().concat()).expect(command)
            };
            assert!(said("--version").starts_with("culd "), "{command}");
            assert!(said("--help").starts_with("usage: "), "{command}");
        }
    }
}
