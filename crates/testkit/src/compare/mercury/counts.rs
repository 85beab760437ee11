//! The text form without what counts the code of rewritten kernels.
//!
//! In: the text form of a linked cubin. Out: its sections, in which sizes, offsets and bytes are left out that follow
//! from the number of a rewritten kernel's instructions. Guaranteed: no line is left out, added or moved but inside the
//! contents that have to differ.

use super::classes::{Class, Kernel};
use std::collections::{HashMap, HashSet};

/// A section of the text form, or what stands outside of sections.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    head: String,
    body: Vec<String>,
}

/// A function with other code.
#[derive(Debug, Clone, Copy)]
pub(super) struct Anew<'a> {
    name: &'a str,
    /// It was compiled by a later ptxas.
    later: bool,
}

impl<'a> Anew<'a> {
    pub(super) fn of(kernel: &'a Kernel) -> Self {
        Anew { name: &kernel.name, later: kernel.class == Class::Later }
    }

    /// Attributes that are offsets of its instructions.
    fn tells_places(self, attribute: &str) -> bool {
        attribute.ends_with("_OFFSETS")
            || attribute == "INDIRECT_BRANCH_TARGETS"
            || (self.later && attribute == "ANNOTATIONS")
    }
}

/// What may differ in a file.
pub(super) struct Allowed<'a> {
    /// Functions with other code.
    pub(super) rewritten: &'a [Anew<'a>],
    /// Functions that several objects define.
    pub(super) copies: &'a HashSet<Vec<u8>>,
    /// The contents of debug sections without what nvlink computes for copies.
    pub(super) told: HashMap<&'static str, Vec<String>>,
}

/// The sections of `text` without what may differ.
pub(super) fn blocks(text: &str, allowed: &Allowed<'_>) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("  "), blocks.last_mut()) {
            (Some(line), Some(block)) => block.body.push(line.to_owned()),
            _ => blocks.push(Block { head: line.to_owned(), body: Vec::new() }),
        }
    }
    for block in &mut blocks {
        let name = block.head.strip_prefix("section ").and_then(|rest| rest.split(' ').next());
        if let Some(name) = name.map(str::to_owned) {
            block.reduce(&name, allowed.rewritten);
            block.without_copies(&name, allowed);
        }
    }
    // Bytes that no section has, row by row at offsets behind the code: as one row, without zeros.
    let patches = |block: &Block| block.head.strip_prefix("patch ").map(str::to_owned);
    let rows: Vec<String> = blocks.iter().filter_map(patches).collect();
    let bytes = rows.iter().filter_map(|row| row.split_once(' ')).flat_map(|(_, hex)| pairs(hex));
    let bytes = bytes.filter(|byte| byte != "00").collect();
    blocks.retain(|block| patches(block).is_none());
    blocks.push(Block { head: "patches".to_owned(), body: bytes });
    blocks
}

/// The bytes of a row of digits.
fn pairs(hex: &str) -> impl Iterator<Item = String> + '_ {
    let digits: Vec<char> = hex.chars().filter(char::is_ascii_hexdigit).collect();
    let pair = move |at: usize| digits.get(2 * at..2 * at + 2).map(|pair| pair.iter().collect());
    (0..).map_while(pair)
}

impl Block {
    fn reduce(&mut self, name: &str, rewritten: &[Anew<'_>]) {
        let kernel = |prefix: &str| {
            let name = name.strip_prefix(prefix)?;
            rewritten.iter().find(|anew| anew.name == name)
        };
        let of_kernel = |prefix: &str| kernel(prefix).is_some();
        let debug = |name: &str| name.starts_with(".debug_") || name.starts_with(".nv_debug_");
        if of_kernel(".text.") || of_kernel(".nv.capmerc.text.") || debug(name) {
            self.body.clear();
        } else if of_kernel(".rela.text.") || name.strip_prefix(".rela").is_some_and(debug) {
            // OFFSET TYPE SYMBOL [ADDEND]
            self.each(|line| line.split(' ').skip(1).take(2).collect::<Vec<_>>().join(" "));
        } else if let Some(anew) = kernel(".nv.info.") {
            // ATTRIBUTE words N...
            self.each(|line| match line.split(' ').next() {
                Some(attribute) if anew.tells_places(attribute) => attribute.to_owned(),
                _ => line.to_owned(),
            });
            self.body.retain(|line| !(anew.later && line.starts_with("ATTRIBUTE_6B ")));
        } else if name == ".symtab" {
            let places: Vec<String> =
                rewritten.iter().map(|anew| format!("in=.text.{}", anew.name)).collect();
            self.each(|line| {
                let function = line.split(' ').nth(1) == Some("func")
                    && line.split(' ').any(|word| places.iter().any(|place| place == word));
                let kept = |word: &&str| !(function && word.starts_with("size="));
                line.split(' ').filter(kept).collect::<Vec<_>>().join(" ")
            });
        }
    }

    /// Leaves out what is told of copies, and places that move with it.
    fn without_copies(&mut self, name: &str, allowed: &Allowed<'_>) {
        let Allowed { rewritten, copies, told } = allowed;
        if !rewritten.is_empty() || copies.is_empty() {
            return;
        }
        if let Some(lines) = told.get(name) {
            self.body.clone_from(lines);
        }
        let Some(target) = name.strip_prefix(".rela") else { return };
        if target.starts_with(".debug_") || target.starts_with(".nv_debug_") {
            let moves = told.contains_key(target);
            // OFFSET TYPE SYMBOL [ADDEND]
            self.each(|line| {
                let mut words: Vec<&str> = line.split(' ').collect();
                if words.get(2).is_some_and(|name| copies.contains(name.as_bytes())) {
                    words.truncate(3);
                }
                words.into_iter().skip(usize::from(moves)).collect::<Vec<_>>().join(" ")
            });
        }
    }

    fn each(&mut self, line: impl Fn(&str) -> String) {
        self.body.iter_mut().for_each(|text| *text = line(text));
    }
}

/// The first difference of two files.
pub(super) fn difference(theirs: &[Block], ours: &[Block]) -> Option<String> {
    let at = (0..theirs.len().max(ours.len())).find(|&at| theirs.get(at) != ours.get(at))?;
    let head = |blocks: &[Block]| blocks.get(at).map_or("end".to_owned(), |b| b.head.clone());
    let (section, expected) = (head(ours), head(theirs));
    if section != expected {
        return Some(format!("'{section}' instead of '{expected}'"));
    }
    let (theirs, ours) = (&theirs.get(at)?.body, &ours.get(at)?.body);
    let line =
        (0..theirs.len().max(ours.len())).find(|&line| theirs.get(line) != ours.get(line))?;
    let text = |lines: &[String]| lines.get(line).cloned().unwrap_or_else(|| "end".to_owned());
    let section = section.trim_start_matches("section ").split(' ').next().unwrap_or_default();
    Some(format!("{section}: '{}' instead of '{}'", text(ours), text(theirs)))
}
