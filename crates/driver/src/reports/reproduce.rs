//! `--reproduce`: an archive with all inputs of a link and a script that links them again.
//!
//! In: options, the gathered inputs. Out: a tar archive. Guaranteed: the script makes the same
//! bytes in any folder: words that are part of the tool note stay as they are, and absolute paths
//! are looked for below the folder `root` (`--chroot`). The archive has no tools of NVIDIA: PTX and
//! LTO-IR need those of the release that `version.txt` names.

use culd_text::os::{OsStrExt, OsStringExt};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use culd_link::{Dialect, Severity};
use thiserror::Error;

use super::is_own;
use crate::input::Inputs;
use crate::messages::Line;
use crate::options::{CommandOptions, OptionArity, OptionId, TABLE, VERSION, base_name};
use crate::os::files::{self, Kinds};
use crate::os::output;

/// The folder in the archive for `/`.
const ROOT: &str = "root";

/// The most bytes of one input.
const MAX_INPUT: u64 = 8 << 30;

/// Why a link cannot be put into an archive.
#[derive(Debug, Error)]
enum ReproduceError {
    #[error("'{0}' cannot be read again: {1}")]
    Read(String, io::Error),
    #[error("the working folder is unknown: {0}")]
    Folder(io::Error),
    #[error("'{0}' leads out of the file system's root")]
    Outside(String),
    #[error("{0}")]
    Archive(#[from] io::Error),
}

/// Writes the archive at `path`.
pub(crate) fn reproduce(
    path: &Path,
    options: &CommandOptions,
    gathered: &Inputs<'_>,
    dialect: &Dialect,
) -> Result<(), Line> {
    let line = |problem: ReproduceError| {
        let text = format!("Could not write '{}'", culd_text::name(path));
        Line::new(Severity::Fatal, text).with_notes(vec![problem.to_string()])
    };
    let bytes = archive(path, options, gathered, dialect).map_err(line)?;
    output::write(path, &bytes).map_err(|error| line(error.into()))
}

fn archive(
    path: &Path,
    options: &CommandOptions,
    gathered: &Inputs<'_>,
    dialect: &Dialect,
) -> Result<Vec<u8>, ReproduceError> {
    let here = std::env::current_dir().map_err(ReproduceError::Folder)?;
    let name = path.file_stem().unwrap_or(OsStr::new("reproduce"));
    let mut archive = Archive { builder: tar::Builder::new(Vec::new()), name: name.into() };
    let mut done: Vec<PathBuf> = Vec::new();
    let index = options.path(OptionId::Uidx).map(Path::to_owned);
    for file in gathered.files.iter().chain(&index) {
        let place = inside(&here.join(file))
            .ok_or_else(|| ReproduceError::Outside(culd_text::name(file)))?;
        if done.contains(&place) {
            continue;
        }
        let from = files::below(options.path(OptionId::Chroot), file);
        let bytes = files::read_limited(&from, Kinds::Files, MAX_INPUT)
            .map_err(|error| ReproduceError::Read(culd_text::name(file), error))?;
        archive.add(&Path::new(ROOT).join(&place), &bytes, 0o644)?;
        done.push(place);
    }
    let inner = inside(&here).unwrap_or_default();
    // A separate, empty working folder.
    archive.folder(&Path::new(ROOT).join(&inner))?;
    // nvcc names its libraries `bin/../lib64`: that leads nowhere without a folder `bin`.
    let libraries = options.list(OptionId::LibraryPath).iter().map(Path::new);
    let paths = gathered.files.iter().map(PathBuf::as_path).chain(libraries);
    let left: BTreeSet<PathBuf> = paths.flat_map(|path| left(&here.join(path))).collect();
    for folder in left {
        archive.folder(&Path::new(ROOT).join(folder))?;
    }
    let words = words(options, dialect);
    let (script, response) = script(&inner, options, &words);
    if let Some(response) = response {
        archive.add(Path::new("response.txt"), &response, 0o644)?;
    }
    archive.add(Path::new("empty"), b"", 0o644)?;
    archive.add(Path::new("link.sh"), &script, 0o755)?;
    archive.add(Path::new("version.txt"), version(dialect).as_bytes(), 0o644)?;
    Ok(archive.builder.into_inner()?)
}

struct Archive {
    builder: tar::Builder<Vec<u8>>,
    /// The folder that everything is in.
    name: PathBuf,
}

impl Archive {
    fn add(&mut self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(mode);
        self.builder.append_data(&mut header, self.name.join(path), bytes)
    }

    fn folder(&mut self, path: &Path) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_size(0);
        header.set_mode(0o755);
        self.builder.append_data(&mut header, self.name.join(path), io::empty())
    }
}

/// An absolute path without its root, and without `.` and `..`; `None` if it leads out.
fn inside(path: &Path) -> Option<PathBuf> {
    let mut place = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => place.push(name),
            Component::ParentDir => place.pop().then_some(())?,
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Some(place)
}

/// The folders of an absolute path that `..` leaves, without their root.
fn left(path: &Path) -> Vec<PathBuf> {
    let (mut place, mut folders) = (PathBuf::new(), Vec::new());
    for part in path.components() {
        match part {
            Component::Normal(name) => place.push(name),
            Component::ParentDir => {
                folders.push(place.clone());
                place.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    folders
}

/// The words of the link, without the output and without options for reports.
fn words(options: &CommandOptions, dialect: &Dialect) -> Vec<OsString> {
    let mut words = Vec::new();
    for row in TABLE {
        let Some(values) = options.values(row.id) else { continue };
        let kept = !is_own(row.id) || matches!(row.id, OptionId::Undefined | OptionId::Strict);
        if !kept || matches!(row.id, OptionId::Output | OptionId::OptionsFile) {
            continue;
        }
        let option = format!("--{}", row.long);
        for value in values {
            match row.takes {
                OptionArity::Nothing => words.push(option.clone().into()),
                OptionArity::List(_) => words.push(joined(&option, &element(value))),
                // Outputs lie in the working folder; the note of -g has their last names.
                _ if matches!(row.id, OptionId::RegisterFile | OptionId::Time) && value != "-" => {
                    words.push(joined(&option, base_name(value)));
                }
                _ => words.push(joined(&option, value.as_bytes())),
            }
        }
    }
    words.push(format!("--dialect={dialect}").into());
    words.extend(options.inputs.iter().cloned());
    words
}

fn joined(option: &str, value: &[u8]) -> OsString {
    OsString::from_vec([option.as_bytes(), b"=", value].concat())
}

/// An element of a list as the command line takes it.
fn element(value: &OsStr) -> Vec<u8> {
    let bytes = value.as_bytes();
    let plain = !bytes.iter().any(|byte| b", \t".contains(byte));
    if plain { bytes.to_vec() } else { [b"\"", bytes, b"\""].concat() }
}

/// The script, and the words that it reads from a file.
fn script(
    inner: &Path,
    options: &CommandOptions,
    words: &[OsString],
) -> (Vec<u8>, Option<Vec<u8>>) {
    // Options files have no way to say a quotation mark.
    let is_plain = |word: &OsString| !word.as_bytes().iter().any(|byte| b"\"\0".contains(byte));
    let response = words.iter().all(is_plain).then(|| response(words));
    let output = options.output().map(|path| base_name(path).to_vec()).unwrap_or_default();
    let mut text = b"#!/bin/sh\n# Links again: sh link.sh [more options]. CULD names the linker.\n\
        here=$(cd \"$(dirname \"$0\")\" && pwd) || exit 1\ncd \"$here/root/\""
        .to_vec();
    text.extend(shell(inner.as_os_str().as_bytes()));
    text.extend(b" && exec \"${CULD:-culd}\" --chroot=\"$here/root\" ");
    if options.values(OptionId::OptionsFile).is_some() {
        text.extend(b"--options-file=\"$here/empty\" ");
    }
    match &response {
        Some(_) => text.extend(b"@\"$here/response.txt\""),
        None => {
            for word in words {
                text.extend(shell(word.as_bytes()));
                text.push(b' ');
            }
        }
    }
    if !output.is_empty() {
        text.extend(b" -o \"$here\"/");
        text.extend(shell(&output));
    }
    text.extend(b" \"$@\"\n");
    (text, response)
}

/// Words as an options file has them.
fn response(words: &[OsString]) -> Vec<u8> {
    let mut text = Vec::new();
    for word in words {
        for &byte in word.as_bytes() {
            if byte == b'\\' || byte.is_ascii_whitespace() {
                text.push(b'\\');
            }
            text.push(byte);
        }
        text.push(b'\n');
    }
    text
}

/// A word as a shell takes it.
fn shell(word: &[u8]) -> Vec<u8> {
    let mut text = vec![b'\''];
    for &byte in word {
        match byte {
            b'\'' => text.extend(b"'\\''"),
            _ => text.push(byte),
        }
    }
    text.push(b'\'');
    text
}

fn version(dialect: &Dialect) -> String {
    format!("culd {VERSION}\nfollows nvlink {dialect} ({})\n", dialect.build)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lose_their_root_and_their_dots() {
        let shown = |path: &str| inside(Path::new(path)).map(|place| place.display().to_string());
        assert_eq!(shown("/a/./b/../c").as_deref(), Some("a/c"));
        assert_eq!(shown("/"), Some(String::new()));
        assert_eq!(shown("/a/../.."), None);
        assert_eq!(left(Path::new("/a/./b/../c/d/..")), [Path::new("a/b"), Path::new("a/c/d")]);
        assert!(left(Path::new("/a/b")).is_empty());
    }

    #[test]
    fn words_pass_through_a_shell_and_an_options_file() {
        assert_eq!(shell(b"it's"), b"'it'\\''s'");
        let words = ["a b", "c\\d", "e"].map(OsString::from);
        assert_eq!(response(&words), b"a\\ b\nc\\\\d\ne\n");
        assert_eq!(element(OsStr::new("a,b")), b"\"a,b\"");
    }
}
