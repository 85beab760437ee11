//! Keeps paths of the builder's machine out of the built files.
//!
//! In: a cargo command, then files. Out: the command with prefixes that compilers write in place of
//! this machine's folders; then the first file that still has such a folder. Guaranteed: the
//! prefixes are the same everywhere, so they do not change bytes.

use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders of this machine, and the prefix of each. A folder inside another comes later.
pub(crate) struct Folders(Vec<(PathBuf, &'static str)>);

impl Folders {
    /// The folders of this build in `target`.
    pub(crate) fn find(target: &Path) -> Result<Self> {
        let home = PathBuf::from(std::env::var_os("HOME").context("no HOME")?);
        let cargo =
            std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let sysroot = super::said(Command::new(rustc).args(["--print", "sysroot"]))?;
        Ok(Folders(vec![
            (home, "/home"),
            (PathBuf::from(sysroot.trim()), "/rust"),
            (cargo, "/cargo"),
            (workspace::root(), "/culd"),
            (target.to_owned(), "/target"),
        ]))
    }

    /// Makes rustc and the C compiler write the prefixes.
    pub(crate) fn hide(&self, cargo: &mut Command) {
        let pairs =
            || self.0.iter().map(|(folder, prefix)| format!("{}={prefix}", folder.display()));
        let mut rust: Vec<String> = std::env::var("RUSTFLAGS")
            .map(|words| words.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default();
        rust.extend(pairs().map(|pair| format!("--remap-path-prefix={pair}")));
        cargo.env("CARGO_ENCODED_RUSTFLAGS", rust.join("\x1f"));
        let mut flags = std::env::var_os("CFLAGS").unwrap_or_default();
        // A folder may have blanks, so each flag stands in quotes. The crate `cc` reads them if
        // CC_SHELL_ESCAPED_FLAGS is set.
        let quoted = |pair: String| format!(" '-ffile-prefix-map={}'", pair.replace('\'', r"'\''"));
        flags.extend(pairs().map(|pair| OsString::from(quoted(pair))));
        cargo.env("CFLAGS", flags).env("CC_SHELL_ESCAPED_FLAGS", "1");
    }

    /// Looks for the folders in a file.
    pub(crate) fn check(&self, file: &Path) -> Result<()> {
        let bytes = fs::read(file).with_context(|| file.display().to_string())?;
        for (folder, _) in &self.0 {
            let name = folder.as_os_str().as_encoded_bytes();
            // A folder of that name in another is none of these: "$here/root/" in a script is not
            // the home of root. And the root folder as home is no evidence.
            let is_path = |at: usize| at == 0 || !bytes[at - 1].is_ascii_alphanumeric();
            let mut parts = bytes.windows(name.len()).enumerate();
            let found = name.len() > 1 && parts.any(|(at, part)| part == name && is_path(at));
            ensure!(!found, "{} has the path {}", file.display(), folder.display());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_a_folder_of_the_builder_is_found() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("program");
        let folders = Folders(vec![("/opt/builder".into(), "/home"), ("/".into(), "/root")]);
        fs::write(&file, b"\x7fELF /rust/library /opt/build").expect("a file");
        folders.check(&file).expect("no such folder in it");
        fs::write(&file, b"\x7fELF $here/opt/builder/link.sh").expect("a file");
        folders.check(&file).expect("a folder of that name in another");
        fs::write(&file, b"\x7fELF\0/opt/builder/src/main.rs\0").expect("a file");
        let error = folders.check(&file).expect_err("it has one").to_string();
        assert!(error.ends_with("has the path /opt/builder"), "{error}");
    }

    #[test]
    fn every_folder_has_a_prefix_in_both_languages() {
        let folders = Folders(vec![("/h".into(), "/home"), ("/h/c d".into(), "/cargo")]);
        let mut cargo = Command::new("cargo");
        folders.hide(&mut cargo);
        let value = |name: &str| {
            let (_, value) = cargo.get_envs().find(|(key, _)| *key == name).expect("it is set");
            value.expect("a value").to_str().expect("text").to_owned()
        };
        let rust = value("CARGO_ENCODED_RUSTFLAGS");
        assert!(
            rust.ends_with("--remap-path-prefix=/h=/home\x1f--remap-path-prefix=/h/c d=/cargo")
        );
        let c = value("CFLAGS");
        assert!(c.ends_with(" '-ffile-prefix-map=/h=/home' '-ffile-prefix-map=/h/c d=/cargo'"));
        assert_eq!(value("CC_SHELL_ESCAPED_FLAGS"), "1");
    }
}
