//! The rule for make: the files on which the output depends.
//!
//! In: options, the gathered inputs. Out: the rule, and an empty one for each file, so that make
//! does not stop if a file was deleted. The words are those of lld and gcc.

use culd_text::os::OsStrExt;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::PathBuf;

use crate::input::Inputs;
use crate::options::{CommandOptions, OptionId};

/// The rule for the output of a link.
pub(super) fn rule(options: &CommandOptions, gathered: &Inputs<'_>) -> String {
    let output = options.output().map(|path| escaped(path.as_os_str())).unwrap_or_default();
    let index = options.path(OptionId::Uidx).map(PathBuf::from);
    let mut seen = HashSet::new();
    let files = gathered.files.iter().chain(&index).filter(|file| seen.insert(*file));
    let files: Vec<String> = files.map(|file| escaped(file.as_os_str())).collect();
    let mut text = format!("{output}:");
    files.iter().for_each(|file| text.push_str(&format!(" \\\n  {file}")));
    text.push('\n');
    files.iter().for_each(|file| text.push_str(&format!("\n{file}:\n")));
    text
}

/// A path as make reads it.
fn escaped(path: &OsStr) -> String {
    let mut text = String::new();
    for char in culd_text::bytes(path.as_bytes()).chars() {
        match char {
            ' ' | '\t' | '#' | ':' | '\\' | '%' => {
                text.push('\\');
                text.push(char);
            }
            '$' => text.push_str("$$"),
            // A line's end would end the rule, and a terminal obeys others.
            char if char.is_control() => text.push('?'),
            _ => text.push(char),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_escaped() {
        assert_eq!(escaped(OsStr::new("a b#c$d\ne\x1bf")), "a\\ b\\#c$$d?e?f");
    }
}
