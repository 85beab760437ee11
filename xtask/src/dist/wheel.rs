//! The Python package as a wheel.
//!
//! In: the package's source (`crates/python`), and the built programs and libraries. Out: a wheel
//! for every Python from 3.9 on. Guaranteed: it has the programs in its scripts, the libraries in
//! its own folder, and nothing that is not of this project.

use super::paths::Folders;
use super::zig::{MANYLINUX, OldGlibc};
use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// The line of pyproject.toml that names the crate.
const MANIFEST: &str = "manifest-path = \"Cargo.toml\"";
/// The licences, which the package's own folder does not have.
const LICENCES: &[&str] = &["LICENSE-MIT", "LICENSE-APACHE"];

/// How pyproject.toml names them.
const FILES: &str = "license-files = [\"LICENSE-MIT\", \"LICENSE-APACHE\"";

/// maturin's own bill of materials has paths of the builder.
const BILL_OF_PACKAGE: &str =
    "\n[tool.maturin.sbom]\nrust = false\ninclude = [\"culd.cdx.json\"]\n";

/// Makes the wheel in `to` of `programs`, `libraries`, and the bill of materials and licences in
/// the folder `pages`; returns its path.
pub(super) fn make(
    zig: &OldGlibc,
    folders: &Folders,
    (programs, libraries): (&[PathBuf], &[PathBuf]),
    pages: &Path,
    to: &Path,
) -> Result<PathBuf> {
    let stage = workspace::target().join("dist-build/wheel");
    let source = workspace::root().join("crates/python");
    workspace::keep_tree(&source.join("python"), &stage.join("python"))?;
    for page in LICENCES {
        fs::copy(workspace::root().join(page), stage.join(page))?;
    }
    fs::copy(source.join("README.md"), stage.join("README.md"))?;
    // maturin takes files from beside pyproject.toml only.
    let text = fs::read_to_string(source.join("pyproject.toml"))?;
    ensure!(text.contains(MANIFEST), "pyproject.toml has no line {MANIFEST}");
    ensure!(text.contains(FILES), "pyproject.toml has no {FILES}");
    let text = text.replace(FILES, &format!("{FILES}, {:?}", super::NOTICES));
    let crate_file = format!("manifest-path = {:?}\ndata = \"data\"", source.join("Cargo.toml"));
    let text = text.replace(MANIFEST, &crate_file) + BILL_OF_PACKAGE;
    fs::write(stage.join("pyproject.toml"), text)?;
    for page in [super::BILL, super::NOTICES] {
        fs::copy(pages.join(page), stage.join(page))?;
    }
    let copy = |files: &[PathBuf], folder: PathBuf| -> Result<()> {
        fs::create_dir_all(&folder)?;
        for file in files {
            fs::copy(file, folder.join(file.file_name().context("a name")?))?;
        }
        Ok(())
    };
    fs::remove_dir_all(stage.join("data")).ok();
    copy(programs, stage.join("data/scripts"))?;
    copy(libraries, stage.join("python/culd/lib"))?;
    // An interpreter's leavings, from a run of the tests in place.
    fs::remove_dir_all(stage.join("python/culd/__pycache__")).ok();
    let mut maturin = zig.tool("maturin", folders)?;
    maturin.args([
        "build",
        "--locked",
        "--zig",
        "--profile",
        "static",
        "--compatibility",
        MANYLINUX,
    ]);
    // maturin sets flags of its own. In the folder of the other builds, each would undo the other.
    maturin.env("CARGO_TARGET_DIR", zig.built.join("python"));
    maturin.env("SOURCE_DATE_EPOCH", super::packages::TIME);
    maturin.args(["--target", &zig.target(), "--out"]).arg(to).current_dir(&stage);
    super::said(&mut maturin)?;
    let module = zig.built.join("python").join(zig.target()).join("static/lib_culd.so");
    super::zig::check_glibc(&module)?;
    let made = fs::read_dir(to)?.filter_map(|entry| Some(entry.ok()?.path()));
    let name = |path: &PathBuf| path.to_string_lossy().ends_with(&format!("{}.whl", zig.arch));
    made.into_iter().find(name).context("maturin made no wheel")
}
