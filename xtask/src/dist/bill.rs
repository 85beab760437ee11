//! The bill of materials of the package, CycloneDX 1.6 in JSON (<https://cyclonedx.org>).
//!
//! In: cargo's list of the crates in the programs and the library, and Cargo.lock for their
//! checksums. Out: the text of `culd.cdx.json`. Guaranteed: every compiled crate is in it once,
//! with name, version, licence and package URL. It is sorted and has no time or path, so the same
//! tree gives the same text.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The arguments of `cargo tree`, without the target: one line for each use of a crate, with its
/// depth.
pub(super) const TREE: &[&str] = &[
    "tree",
    "--locked",
    "--edges=no-dev",
    "--prefix=depth",
    "--no-dedupe",
    "--format={p}\t{l}\t{r}",
];

/// The crate with a C library in it; the library's version is behind the `+` of its own.
const ZSTD: &str = "zstd-sys";
/// The crate with a script for reports, and what its first line says before the version.
const REPORT: &str = "culd-report";
const D3: &str = include_str!("../../../crates/report/assets/d3-hierarchy.min.js");
const D3_PLACE: &str = "https://github.com/d3/d3-hierarchy";
const D3_VERSION: &str = "d3-hierarchy/ v";

/// A crate, or a library in another language.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct BillEntry {
    name: String,
    version: String,
    licence: String,
    repository: String,
    /// SHA-256 of the package; `None` for our own crates.
    checksum: Option<String>,
    /// Package URLs of its dependencies.
    needs: BTreeSet<String>,
}

/// The bill of the crates in `tree`.
///
/// # Errors
/// When the tree or the lock file has another form.
pub(super) fn text(tree: &str, lock: &str) -> Result<String> {
    let checksums = checksums(lock)?;
    let mut materials: BTreeMap<String, BillEntry> = BTreeMap::new();
    let mut path: Vec<String> = Vec::new();
    let mut roots = BTreeSet::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let (depth, mut material) = entry(line).with_context(|| format!("cargo tree: '{line}'"))?;
        let id = (material.name.clone(), material.version.clone());
        material.checksum = checksums.get(&id).cloned().flatten();
        let url = material.url();
        path.truncate(depth);
        match path.last().and_then(|parent| materials.get_mut(parent)) {
            Some(parent) => _ = parent.needs.insert(url.clone()),
            None => _ = roots.insert(url.clone()),
        }
        path.push(url.clone());
        materials.entry(url).or_insert(material);
    }
    add_zstd(&mut materials);
    add_d3(&mut materials).context("d3-hierarchy has no version")?;
    let components: Vec<Value> = materials.values().map(BillEntry::component).collect();
    let edges = materials.iter().map(|(url, material)| (url, &material.needs));
    let edges = edges.map(|(url, needs)| json!({ "ref": url, "dependsOn": needs }));
    let program = "culd-dist";
    let all = [json!({ "ref": program, "dependsOn": roots })].into_iter().chain(edges);
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": {
            "type": "application",
            "bom-ref": program,
            "name": "culd",
            "version": env!("CARGO_PKG_VERSION"),
            "licenses": [{ "expression": "MIT OR Apache-2.0" }],
        }},
        "components": components,
        "dependencies": all.collect::<Vec<_>>(),
    });
    Ok(format!("{}\n", serde_json::to_string_pretty(&bill)?))
}

/// Parses `2thiserror v2.0.21 (...)`, licence and repository, separated by tabs.
fn entry(line: &str) -> Option<(usize, BillEntry)> {
    let digits = line.find(|c: char| !c.is_ascii_digit())?;
    let (depth, rest) = line.split_at(digits);
    let mut fields = rest.split('\t');
    let mut words = fields.next()?.split(' ');
    let material = BillEntry {
        name: words.next()?.to_owned(),
        version: words.next()?.strip_prefix('v')?.to_owned(),
        // An older form that is not SPDX.
        licence: fields.next()?.replace('/', " OR "),
        repository: fields.next()?.to_owned(),
        ..BillEntry::default()
    };
    Some((depth.parse().ok()?, material))
}

/// Name and version of each package, and its checksum.
fn checksums(lock: &str) -> Result<BTreeMap<(String, String), Option<String>>> {
    let lock: toml::Table = toml::from_str(lock).context("Cargo.lock")?;
    let packages = lock.get("package").and_then(toml::Value::as_array).context("no packages")?;
    let text = |package: &toml::Value, key: &str| {
        package.get(key).and_then(toml::Value::as_str).map(str::to_owned)
    };
    let row = |package: &toml::Value| {
        let id = (text(package, "name")?, text(package, "version")?);
        Some((id, text(package, "checksum")))
    };
    packages.iter().map(row).collect::<Option<_>>().context("a package without name or version")
}

/// Adds the C library that is compiled into its crate.
fn add_zstd(materials: &mut BTreeMap<String, BillEntry>) {
    let Some(own) = materials.values_mut().find(|material| material.name == ZSTD) else { return };
    let Some((_, version)) = own.version.split_once("+zstd.") else { return };
    let library = BillEntry {
        name: "zstd".to_owned(),
        version: version.to_owned(),
        licence: "BSD-3-Clause".to_owned(),
        repository: "https://github.com/facebook/zstd".to_owned(),
        ..BillEntry::default()
    };
    let url = format!("pkg:github/facebook/zstd@v{version}");
    own.needs.insert(url.clone());
    materials.insert(url, library);
}

/// Adds the script that is part of a report's page.
fn add_d3(materials: &mut BTreeMap<String, BillEntry>) -> Option<()> {
    let (_, version) = D3.lines().next()?.split_once(D3_VERSION)?;
    let library = BillEntry {
        name: "d3-hierarchy".to_owned(),
        version: version.split(' ').next()?.to_owned(),
        licence: "ISC".to_owned(),
        repository: D3_PLACE.to_owned(),
        ..BillEntry::default()
    };
    if let Some(own) = materials.values_mut().find(|material| material.name == REPORT) {
        let url = library.url();
        own.needs.insert(url.clone());
        materials.insert(url, library);
    }
    Some(())
}

impl BillEntry {
    /// Its package URL.
    fn url(&self) -> String {
        match self.repository.as_str() {
            "https://github.com/facebook/zstd" => {
                format!("pkg:github/facebook/zstd@v{}", self.version)
            }
            D3_PLACE => format!("pkg:npm/{}@{}", self.name, self.version),
            _ => format!("pkg:cargo/{}@{}", self.name, self.version.replace('+', "%2B")),
        }
    }

    fn component(&self) -> Value {
        let url = self.url();
        let mut component = json!({
            "type": "library",
            "bom-ref": url,
            "name": self.name,
            "version": self.version,
            "licenses": [{ "expression": self.licence }],
            "purl": url,
        });
        if let Some(checksum) = &self.checksum {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        if !self.repository.is_empty() {
            component["externalReferences"] = json!([{ "type": "vcs", "url": self.repository }]);
        }
        component
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"b\"\nversion = \"2.0.0\"\n\
        checksum = \"00ff\"\n\n[[package]]\nname = \"zstd-sys\"\nversion = \"2.0.16+zstd.1.5.7\"\nchecksum = \"11\"\n";
    const TREE: &str = "0a v1.0.0 (/opt/builder/a)\tMIT OR Apache-2.0\t\n1b v2.0.0\tMIT/Apache-2.0\thttps://b\n\
        1zstd-sys v2.0.16+zstd.1.5.7\tMIT\thttps://z\n2b v2.0.0 (*)\tMIT/Apache-2.0\thttps://b\n\
        1culd-report v0.1.0\tMIT\t\n";

    fn bill(tree: &str) -> Value {
        serde_json::from_str(&text(tree, LOCK).expect("a bill")).expect("JSON")
    }

    #[test]
    fn each_crate_is_listed_once_with_what_it_needs() {
        let bill = bill(TREE);
        let list = |key: &str| bill[key].as_array().cloned().expect("a list");
        let urls: Vec<String> =
            list("components").iter().map(|one| one["purl"].as_str().unwrap().to_owned()).collect();
        assert_eq!(
            urls,
            [
                "pkg:cargo/a@1.0.0",
                "pkg:cargo/b@2.0.0",
                "pkg:cargo/culd-report@0.1.0",
                "pkg:cargo/zstd-sys@2.0.16%2Bzstd.1.5.7",
                "pkg:github/facebook/zstd@v1.5.7",
                "pkg:npm/d3-hierarchy@3.1.2"
            ]
        );
        let b = &list("components")[1];
        assert_eq!(b["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(b["hashes"][0]["content"], "00ff");
        let needs = |of: &str| {
            let edges = list("dependencies");
            edges.iter().find(|edge| edge["ref"] == of).expect("it")["dependsOn"].clone()
        };
        assert_eq!(needs("culd-dist"), json!(["pkg:cargo/a@1.0.0"]));
        assert_eq!(needs("pkg:cargo/a@1.0.0"), json!([&urls[1], &urls[2], &urls[3]]));
        assert_eq!(needs(&urls[2]), json!([&urls[5]]));
        assert_eq!(needs(&urls[3]), json!([&urls[1], &urls[4]]));
        assert!(!text(TREE, LOCK).expect("a bill").contains("builder"));
    }

    #[test]
    fn a_tree_of_another_form_is_refused() {
        for tree in ["a v1.0.0\tMIT\t", "0a\tMIT\t", "0a 1.0.0\tMIT\t", "0a v1.0.0"] {
            assert!(text(tree, LOCK).is_err(), "{tree}");
        }
    }
}
