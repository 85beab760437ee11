//! Builds for an old glibc, by zig.
//!
//! In: cargo commands. Out: the same with zig as linker and C compiler. Guaranteed: what is built
//! needs no symbol of a glibc after 2.17, which is what Rust itself asks for. Versions of the tools
//! are pinned: they decide bytes.
//!
//! The machine's own linker would take the newest version of each symbol in the machine's glibc.

use super::paths::Folders;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use culd_testkit::reference::oracle::wheels::Environment;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// From PyPI: cargo-zigbuild is cargo with zig as linker, maturin makes wheels.
const TOOLS: &[&str] = &["cargo-zigbuild==0.24.1", "maturin==1.16.0", "ziglang==0.17.1"];
/// The oldest glibc that the files run with.
pub(super) const GLIBC: &str = "2.17";
/// The platform tag of wheels for it.
pub(super) const MANYLINUX: &str = "manylinux_2_17";

/// The tools, which are installed if they are missing.
pub(crate) fn install() -> Result<Environment> {
    Environment::install(&workspace::target().join("dist-tools"), TOOLS)
}

/// One of the tools, with the others in PATH. It builds the workspace in the folder `built`.
pub(crate) fn tool(tools: &Environment, name: &str, built: &Path) -> Result<Command> {
    let mut command = Command::new(tools.program(name));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(tools.program("")).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(all)?);
    command.current_dir(workspace::root()).env("CARGO_TARGET_DIR", built);
    Ok(command)
}

/// The tools, for one target.
pub(crate) struct OldGlibc {
    tools: Environment,
    /// The architecture as Rust and zig name it.
    pub(super) arch: String,
    /// Cargo's target folder.
    pub(super) built: PathBuf,
}

impl OldGlibc {
    /// The tools, which are installed if they are missing.
    pub(crate) fn install(arch: &str, built: &Path) -> Result<Self> {
        Ok(OldGlibc { tools: install()?, arch: arch.to_owned(), built: built.to_owned() })
    }

    /// Rust's name of the target.
    pub(super) fn target(&self) -> String {
        format!("{}-unknown-linux-gnu", self.arch)
    }

    /// One of the tools, without paths of this machine in its outputs.
    pub(super) fn tool(&self, name: &str, folders: &Folders) -> Result<Command> {
        let mut command = tool(&self.tools, name, &self.built)?;
        folders.hide(&mut command);
        Ok(command)
    }

    /// `cargo WORD` in the profile of what ships.
    pub(crate) fn cargo(&self, word: &str, folders: &Folders) -> Result<Command> {
        let mut command = self.tool("cargo-zigbuild", folders)?;
        command.args([word, "--locked", "--profile", "static", "--target"]);
        command.arg(format!("{}.{GLIBC}", self.target()));
        // zig has no static glibc, so the build script of package culd need not look for one.
        command.env("CULD_STATIC", "0");
        Ok(command)
    }

    /// The file called `name` of such a build.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.built.join(self.target()).join("static").join(name)
    }

    /// Links the archive `archive` as a shared library called `name` that exports `functions`, in
    /// the version node of that name, as NVIDIA's does.
    ///
    /// rustc links with a version script of its own, which names no node, and there can be only
    /// one.
    pub(super) fn shared_library(
        &self,
        archive: &Path,
        (name, functions): (&str, &[String]),
        to: &Path,
        folders: &Folders,
    ) -> Result<()> {
        let script = self.built.join(format!("{name}.map"));
        let all: String = functions.iter().map(|name| format!("    {name};\n")).collect();
        fs::write(&script, format!("{name} {{\n  global:\n{all}  local: *;\n}};\n"))?;
        let mut cc = self.tool("python", folders)?;
        cc.args(["-m", "ziglang", "cc", "-shared", "-O2", "-s", "-target"]);
        cc.arg(format!("{}-linux-gnu.{GLIBC}", self.arch));
        let option = |name: &str, path: &Path| {
            let mut word = OsString::from(name);
            word.push(path);
            word
        };
        cc.arg(format!("-Wl,-soname,{name}")).arg("-Wl,--gc-sections");
        // The loader resolves everything at once: no part of the library can be written to later.
        cc.args(["-Wl,-z,relro", "-Wl,-z,now"]);
        cc.arg(option("-Wl,--version-script=", &script));
        cc.args(functions.iter().map(|name| format!("-Wl,-u,{name}")));
        cc.arg(archive).args(["-lunwind", "-lc", "-lm", "-lpthread", "-ldl"]);
        cc.arg("-o").arg(to);
        super::said(&mut cc)?;
        check_glibc(to)
    }
}

/// Checks that a file runs with [`GLIBC`]: zig gives symbols of a newer one no version, and links
/// shared libraries that need them.
pub(super) fn check_glibc(file: &Path) -> Result<()> {
    let symbols = super::said(Command::new("readelf").args(["--dyn-syms", "-W"]).arg(file))?;
    let missing = unversioned(&symbols);
    ensure!(missing.is_empty(), "{} needs {}", file.display(), missing.join(", "));
    let newest = newest_glibc(file)?;
    let oldest = number(GLIBC).context("a version")?;
    ensure!(newest <= oldest, "{} needs glibc {newest:?}", file.display());
    Ok(())
}

/// The symbols in a table of readelf that must be found elsewhere and have no version. The Python
/// interpreter's are such.
fn unversioned(table: &str) -> Vec<&str> {
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let needed = rows.filter(|row| row.get(4) == Some(&"GLOBAL") && row.get(6) == Some(&"UND"));
    let names = needed.filter(|row| row.len() == 8).map(|row| row[7]);
    names
        .filter(|name| !name.contains('@') && !name.starts_with("Py") && !name.starts_with("_Py"))
        .collect()
}

/// The newest version of glibc whose symbols a file needs.
fn newest_glibc(file: &Path) -> Result<(u32, u32)> {
    let text = super::said(Command::new("readelf").args(["-VW"]).arg(file))?;
    let words = text.split(|c: char| c.is_whitespace() || c == '(' || c == ')');
    let versions = words.filter_map(|word| number(word.strip_prefix("GLIBC_")?));
    Ok(versions.max().unwrap_or_default())
}

/// `2.17` as two numbers; a third one does not count.
fn number(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_of_a_newer_glibc_is_found() {
        let table = "   Num:    Value          Size Type    Bind   Vis      Ndx Name\n\
             \x20    0: 0000000000000000     0 NOTYPE  LOCAL  DEFAULT  UND \n\
             \x20    1: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND read@GLIBC_2.2.5 (2)\n\
             \x20    2: 0000000000000000     0 NOTYPE  GLOBAL DEFAULT  UND memfd_create\n\
             \x20    3: 0000000000000000     0 NOTYPE  WEAK   DEFAULT  UND statx\n\
             \x20    4: 0000000000000000     0 NOTYPE  GLOBAL DEFAULT  UND PyList_New\n\
             \x20    5: 0000000000001000    16 FUNC    GLOBAL DEFAULT   12 nvJitLinkVersion\n";
        assert_eq!(unversioned(table), ["memfd_create"]);
    }

    #[test]
    fn versions_are_numbers() {
        assert_eq!(number("2.17"), Some((2, 17)));
        assert_eq!(number("2.2.5"), Some((2, 2)));
        assert_eq!(number("PRIVATE"), None);
        assert!(number("2.4") < number("2.17"));
    }
}
