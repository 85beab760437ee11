//! The licences of the crates in the package, which ask that their texts go with every copy.
//!
//! In: cargo's list of the crates, and where cargo has their sources. Out: the text of
//! `THIRD-PARTY.txt`. Guaranteed: every crate that is not ours is in it, with all files of its
//! package that state a licence; equal texts are there once. It has no time or path, so the same
//! tree gives the same text.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The arguments of `cargo metadata`.
pub(super) const METADATA: &[&str] = &["metadata", "--locked", "--format-version=1"];

/// How the names of files with a licence begin, in small letters.
const NAMES: &[&str] = &["license", "licence", "copying", "copyright", "notice", "unlicense"];
/// Folders of C libraries in their crates.
const LIBRARIES: &[&str] = &["zstd", "liblz4"];

/// The script in the page of a report, which no crate is.
const D3: (&str, &str) =
    ("d3-hierarchy ISC", include_str!("../../../crates/report/assets/d3-hierarchy.LICENSE"));

const HEAD: &str = "\
culd itself is under MIT (LICENSE-MIT) or Apache 2.0 (LICENSE-APACHE), at your choice.

Its programs and libraries contain the crates and the script below, and the standard library of Rust (MIT OR
Apache-2.0, https://github.com/rust-lang/rust). The program culd, which is static, contains the GNU
C library too (LGPL-2.1-or-later, https://sourceware.org/glibc); `cargo static` in culd's source
tree links it again, with any other version.
";

/// The text for the crates in `tree`, whose lines are those of the bill of materials; `metadata` is
/// what cargo says about all crates.
///
/// # Errors
/// When a crate has no text, or cannot be read.
pub(super) fn text(tree: &str, metadata: &str) -> Result<String> {
    let metadata: Value = serde_json::from_str(metadata).context("cargo metadata")?;
    let mut users: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    users.insert(D3.1.trim().to_owned(), [D3.0.to_owned()].into());
    for package in metadata["packages"].as_array().context("no packages")? {
        let field = |name: &str| package[name].as_str().with_context(|| format!("no {name}"));
        let name = format!("{} v{}", field("name")?, field("version")?);
        // Our own crates come from no registry.
        if package["source"].is_null() || !tree.lines().any(|line| is_of(line, &name)) {
            continue;
        }
        let folder = Path::new(field("manifest_path")?).parent().context("a folder")?;
        let texts = texts(folder).with_context(|| name.clone())?;
        ensure!(!texts.is_empty(), "{name} has no licence");
        let user = format!("{} {}", name.replacen(" v", " ", 1), field("license").unwrap_or(""));
        for text in texts {
            users.entry(text).or_default().insert(user.trim().to_owned());
        }
    }
    let mut sections: Vec<(BTreeSet<String>, String)> =
        users.into_iter().map(|(text, users)| (users, text)).collect();
    sections.sort();
    let rule = "=".repeat(100);
    let section = |(users, text): &(BTreeSet<String>, String)| {
        let users: Vec<&str> = users.iter().map(String::as_str).collect();
        format!("\n{rule}\n{}\n\n{text}\n", users.join("\n"))
    };
    Ok(HEAD.to_owned() + &sections.iter().map(section).collect::<String>())
}

/// True if the line of the tree is about the crate `name v1.0.0`.
fn is_of(line: &str, name: &str) -> bool {
    let line = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['\t', ' ']))
}

/// The texts in a crate's folder, and in that of its C library.
fn texts(folder: &Path) -> Result<BTreeSet<String>> {
    let mut texts = BTreeSet::new();
    let folders = LIBRARIES.iter().map(|library| folder.join(library));
    for folder in std::iter::once(folder.to_owned()).chain(folders.filter(|folder| folder.is_dir()))
    {
        for path in
            fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?
        {
            if states_a_licence(&path) && path.is_file() {
                let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
                texts.insert(lines.join("\n").trim_matches('\n').to_owned());
            }
        }
    }
    // The GNU licence that zstd may be used under instead is none of the package's.
    texts.retain(|text| !text.is_empty() && !text.contains("GNU GENERAL PUBLIC LICENSE"));
    Ok(texts)
}

fn states_a_licence(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    NAMES.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn equal_texts_are_there_once_with_all_crates_that_have_them() {
        let dir = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("a/LICENSE-MIT", "MIT  \r\nof all\r\n\r\n");
        write("b/license.txt", "MIT\nof all");
        write("b/zstd/LICENSE", "BSD");
        write("b/zstd/COPYING", "  GNU GENERAL PUBLIC LICENSE");
        write("c/src/lib.rs", "none");
        let package = |name: &str, source: Value| {
            let manifest = dir.path().join(name).join("Cargo.toml");
            json!({ "name": name, "version": "1.0.0", "license": "MIT", "source": source, "manifest_path": manifest })
        };
        let mut packages = vec![
            package("a", json!("registry")),
            package("b", json!("registry")),
            package("culd", Value::Null),
            package("unused", json!("registry")),
        ];
        let metadata = |packages: &[Value]| json!({ "packages": packages }).to_string();
        let tree = "0culd v1.0.0 (/opt/builder)\tMIT\t\n1a v1.0.0\tMIT\t\n2b v1.0.0 (*)\tMIT\t\n1c v1.0.0\tMIT\t\n";
        let made = text(tree, &metadata(&packages)).expect("texts");
        let rest = made.strip_prefix(HEAD).expect("the head");
        let rule = "=".repeat(100);
        let expected = format!(
            "\n{rule}\na 1.0.0 MIT\nb 1.0.0 MIT\n\nMIT\nof all\n\n{rule}\nb 1.0.0 MIT\n\nBSD\n\n{rule}\n{}\n\n{}\n",
            D3.0,
            D3.1.trim()
        );
        assert_eq!(rest, expected);
        packages.push(package("c", json!("registry")));
        let error = text(tree, &metadata(&packages)).expect_err("a crate without a text");
        assert_eq!(error.to_string(), "c v1.0.0 has no licence");
    }
}
