//! Files for tests, made of recipes: what a compiler, `ar` or `fatbinary` would make, and what they
//! never would.
//!
//! In: [`Recipes`], names and how each file is made, of texts and of inputs of recorded cases. Out:
//! files in a folder. Guaranteed: no tool is needed and the bytes are the same on every machine; a
//! file that is made of others brings them along.

mod parts;

use crate::asm;
use crate::case::source_root;
use crate::uidx;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Names of files and how they are made.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Recipes(BTreeMap<String, Recipe>);

/// How one file is made: exactly one of the first keys, then the changes at the end.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recipe {
    /// A text.
    text: Option<String>,
    /// As many bytes of zero.
    zeros: Option<usize>,
    /// `<topic>/<case>/<file>` of testdata/cases without `.cubin.txt`.
    cubin: Option<String>,
    /// One container of images.
    fatbin: Option<Vec<parts::Image>>,
    /// A host object.
    host: Option<parts::Host>,
    /// An archive.
    archive: Option<parts::Archive>,
    /// An index file of unified functions and variables.
    uidx: Option<uidx::Text>,
    /// These files one after the other.
    join: Option<Vec<String>>,
    /// A symbolic link to this name.
    symlink: Option<String>,
    /// Another name of this file.
    hardlink: Option<String>,
    /// An empty folder.
    #[serde(default)]
    folder: bool,

    /// Words of the cubin's text that are other words: names, `sm=90`, `toolkit=130`.
    #[serde(default)]
    replace: BTreeMap<String, String>,
    /// Bytes of a name that are other bytes, everywhere in the file: names of sections.
    #[serde(default)]
    rename: BTreeMap<String, String>,
    /// Bytes at an offset, both hexadecimal.
    #[serde(default)]
    patch: BTreeMap<String, String>,
    /// Keep as many bytes, or all but as many when negative.
    cut: Option<isize>,
}

impl Recipes {
    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// These and, for names they do not have, those of `others`.
    pub fn or(&self, others: &Recipes) -> Recipes {
        let mut all = others.0.clone();
        all.extend(self.0.clone());
        Recipes(all)
    }

    /// Makes the file `name` in `dir`, and before it the files that it is made of. What is there
    /// already is kept.
    ///
    /// # Errors
    /// When there is no such recipe or it makes no sense.
    pub fn make(&self, name: &str, dir: &Path) -> Result<()> {
        let path = dir.join(name);
        if path.symlink_metadata().is_ok() {
            return Ok(());
        }
        let recipe = self.0.get(name).with_context(|| format!("no recipe for {name}"))?;
        for part in recipe.parts() {
            self.make(part, dir)?;
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        if recipe.folder {
            return Ok(fs::create_dir(&path)?);
        }
        if let Some(target) = &recipe.symlink {
            return Ok(symlink(target, &path)?);
        }
        if let Some(other) = &recipe.hardlink {
            return Ok(fs::hard_link(dir.join(other), &path)?);
        }
        let read = |name: &str| fs::read(dir.join(name)).with_context(|| format!("no {name}"));
        let bytes = recipe.bytes(&read).with_context(|| format!("recipe for {name}"))?;
        Ok(fs::write(&path, bytes)?)
    }
}

impl Recipe {
    /// Files that must be there first.
    fn parts(&self) -> Vec<&str> {
        let mut parts: Vec<&str> = Vec::new();
        parts.extend(self.fatbin.iter().flatten().filter_map(parts::Image::file));
        parts.extend(self.host.iter().flat_map(parts::Host::files));
        parts.extend(self.archive.iter().flat_map(|archive| &archive.members).map(String::as_str));
        parts.extend(self.join.iter().flatten().map(String::as_str));
        parts.extend(self.hardlink.as_deref());
        parts
    }

    fn bytes(&self, read: parts::Read<'_>) -> Result<Vec<u8>> {
        let mut made: Vec<Vec<u8>> = Vec::new();
        made.extend(self.text.as_ref().map(|text| text.clone().into_bytes()));
        made.extend(self.zeros.map(|count| vec![0; count]));
        if let Some(name) = &self.cubin {
            made.push(cubin(name, &self.replace)?);
        }
        if let Some(images) = &self.fatbin {
            made.push(parts::fatbin(images, read)?);
        }
        if let Some(host) = &self.host {
            made.push(host.pack(read)?);
        }
        if let Some(archive) = &self.archive {
            made.push(archive.pack(read)?);
        }
        if let Some(text) = &self.uidx {
            made.push(text.bytes()?);
        }
        if let Some(names) = &self.join {
            made.push(names.iter().map(|name| read(name)).collect::<Result<Vec<_>>>()?.concat());
        }
        let [bytes] = &mut made[..] else { bail!("{} ways to make it", made.len()) };
        let mut bytes = std::mem::take(bytes);
        for (old, new) in &self.rename {
            rename(&mut bytes, old, new)?;
        }
        for (at, new) in &self.patch {
            patch(&mut bytes, at, new)?;
        }
        match self.cut {
            Some(kept @ 0..) => bytes.truncate(kept.unsigned_abs()),
            Some(dropped) => bytes.truncate(bytes.len().saturating_sub(dropped.unsigned_abs())),
            None => {}
        }
        Ok(bytes)
    }
}

/// A cubin of a recorded case with some words changed.
fn cubin(name: &str, replace: &BTreeMap<String, String>) -> Result<Vec<u8>> {
    let path = source_root().join("testdata/cases").join(format!("{name}.cubin.txt"));
    let mut text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    for (old, new) in replace {
        text = replaced(&text, old, new);
    }
    asm::assemble(&text).with_context(|| path.display().to_string())
}

/// The text with every whole word `old`, also as the last part of a section's name, changed to
/// `new`.
fn replaced(text: &str, old: &str, new: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(old) {
        let (front, back) = rest.split_at(at);
        out.push_str(front);
        rest = &back[old.len()..];
        let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
        let whole = !out.ends_with(part_of_name) && !rest.starts_with(part_of_name);
        out.push_str(if whole { new } else { old });
    }
    out + rest
}

fn rename(bytes: &mut [u8], old: &str, new: &str) -> Result<()> {
    ensure!(old.len() == new.len(), "{old}: the new name has another length");
    let places: Vec<usize> =
        (0..bytes.len()).filter(|&at| bytes[at..].starts_with(old.as_bytes())).collect();
    ensure!(!places.is_empty(), "no {old}");
    places.iter().for_each(|&at| bytes[at..at + old.len()].copy_from_slice(new.as_bytes()));
    Ok(())
}

fn patch(bytes: &mut [u8], at: &str, new: &str) -> Result<()> {
    let at = usize::from_str_radix(at.trim_start_matches("0x"), 16).context("offset of a patch")?;
    ensure!(new.len().is_multiple_of(2) && new.is_ascii(), "{new}: an odd number of digits");
    let new = (0..new.len()).step_by(2).map(|at| u8::from_str_radix(&new[at..at + 2], 16));
    let new: Vec<u8> = new.collect::<Result<_, _>>().context("bytes of a patch")?;
    let place = bytes.get_mut(at..at + new.len()).context("a patch behind the end")?;
    place.copy_from_slice(&new);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_replaced_whole() {
        assert_eq!(replaced("k .text.k k2 kk", "k", "new"), "new .text.new k2 kk");
    }

    #[test]
    fn a_file_brings_its_parts_along() -> Result<()> {
        let recipes: Recipes = toml::from_str(
            r#"
            "a" = { text = "abcdef", patch = { "1" = "5859" }, cut = -1 }
            "b" = { join = ["a", "a"], cut = 7 }
            "#,
        )?;
        let dir = tempfile::tempdir()?;
        recipes.make("b", dir.path())?;
        assert_eq!(fs::read_to_string(dir.path().join("a"))?, "aXYde");
        assert_eq!(fs::read_to_string(dir.path().join("b"))?, "aXYdeaX");
        assert!(recipes.make("c", dir.path()).is_err());
        Ok(())
    }
}
