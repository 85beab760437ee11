//! The text form without what counts the code of rewritten kernels.
//!
//! In: the text form of a linked cubin. Out: its sections, in which sizes, offsets and bytes are left out that follow
//! from the number of a rewritten kernel's instructions. Guaranteed: no line is left out, added or moved but inside the
//! contents that have to differ.

use super::classes::{Class, Kernel};
use crate::compare::deliberate::unified;
use std::collections::{BTreeSet, HashMap, HashSet};

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
            || attribute.ends_with("_REG_MAP")
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

/// Takes from nvlink's lists of attributes what it forgets to drop beside jump slots, `names` (docs/DIFFERENCES.md,
/// externs-of-slots), where culd's have nothing of it, or of lists that are `longer` for this reason. True when something was.
pub(super) fn without_externs(
    theirs: &mut [Block],
    ours: &[Block],
    names: &BTreeSet<String>,
    longer: impl Fn(&str) -> bool,
) -> bool {
    let mut taken = false;
    for (theirs, ours) in theirs.iter_mut().zip(ours).filter(|(theirs, ours)| theirs != ours) {
        let section = theirs.head.strip_prefix("section ").and_then(|rest| rest.split(' ').next());
        let Some(section) = section else { continue };
        if longer(section) {
            // The form of a list that cannot be read to its end.
            theirs.head = theirs.head.replacen(" raw ", " ", 1);
            theirs.body.clone_from(&ours.body);
            taken = true;
            continue;
        }
        let mut own = ours.body.iter().peekable();
        let mut body = Vec::new();
        for line in &theirs.body {
            let is_stray = |own: Option<&String>| {
                unified::is_stray(section, line, own.map(String::as_str), names)
            };
            match own.peek().copied() {
                Some(next) if next != line && is_stray(Some(next)) => {
                    body.extend(own.next().cloned());
                    taken = true;
                }
                next if next != Some(line) && is_stray(None) => taken = true,
                _ => {
                    body.push(line.clone());
                    own.next();
                }
            }
        }
        theirs.body = body;
    }
    taken
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slots_leave_behind_is_taken_out_and_nothing_else() {
        const OURS: &str = "section .nv.info nv_info\n  MIN_STACK_SIZE words k 0x8\nsection .nv.info.k nv_info\n  \
            CRS_STACK_SIZE words 0x10\n  NUM_BARRIERS byte 0x1\nsection .nv.info..nv.uft nv_info flags=info\n  \
            SW_WAR words 0x8\n";
        let copies = HashSet::new();
        let read = |text: &str| {
            let allowed = Allowed { rewritten: &[], copies: &copies, told: HashMap::new() };
            blocks(text, &allowed)
        };
        let names = BTreeSet::from(["0x3".to_owned(), "free".to_owned()]);
        let compared = |from: &str, to: &str| {
            assert!(OURS.contains(from), "{from}");
            let (mut theirs, ours) = (read(&OURS.replacen(from, to, 1)), read(OURS));
            let longer = |list: &str| list == ".nv.info..nv.uft" && to.contains(" raw ");
            (without_externs(&mut theirs, &ours, &names, longer), difference(&theirs, &ours))
        };
        let barriers = "  NUM_BARRIERS byte 0x1\n";
        let more = format!("  EXTERNS words free\n{barriers}");
        let raw = ("nv_info flags=info\n  SW_WAR words 0x8", "nv_info raw flags=info\n  0000 02");
        for (from, to) in [
            ("words k 0x8", "words k 0x8 0x3"),
            ("words 0x10", "words 0x10 0x3 0x3"),
            (barriers, &more),
            raw,
        ] {
            assert_eq!(compared(from, to), (true, None), "{to}");
        }
        for (from, to) in
            [("0x8", "0x8 0x4"), ("0x8", "0x9"), ("byte 0x1", "byte 0x3"), (barriers, "")]
        {
            assert!(compared(from, to).1.is_some(), "{to}");
        }
        assert_eq!(compared(barriers, barriers), (false, None));
    }
}
