//! The text form without counts of the code of rewritten kernels.
//!
//! In: the text form of a linked cubin. Out: its sections without sizes, offsets and bytes that
//! follow from the number of instructions of a rewritten kernel. In culd's file, those of a kernel
//! that the finalizer shortens are changed to the shorter code. Guaranteed: lines are dropped,
//! added or moved only in contents that have to differ.

use super::classes::{ClassifiedKernel, CodeClass};
use super::copies::OtherFunctions;
use super::finalizer::ShortenedCode;
use crate::reference::compare::deliberate::unified;
use std::collections::{BTreeSet, HashMap};

/// A section of the text form, or the lines outside sections.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    head: String,
    body: Vec<String>,
}

/// A function with other code.
#[derive(Debug, Clone, Copy)]
pub(super) struct RewrittenFunction<'a> {
    name: &'a str,
    /// It was compiled by a later ptxas.
    later: bool,
    /// The rewritten code, if known.
    shortened: Option<&'a ShortenedCode>,
}

impl<'a> RewrittenFunction<'a> {
    pub(super) fn of(kernel: &'a ClassifiedKernel) -> Self {
        let shortened = match &kernel.class {
            CodeClass::Fences(shortened) => Some(shortened),
            _ => None,
        };
        RewrittenFunction { name: &kernel.name, later: kernel.class == CodeClass::Later, shortened }
    }

    /// A line of its attributes without offsets of its instructions; in culd's file, with their new
    /// offsets.
    fn attribute(self, line: &str, own: bool) -> String {
        // ATTRIBUTE words N...
        let words: Vec<&str> = line.split(' ').collect();
        let name = words.first().copied().unwrap_or_default();
        let is_place = are_places(name, words.get(2..).unwrap_or_default());
        let is_known = is_place.contains(&true);
        let differs = name.ends_with("_REG_MAP") || (self.later && name == "ANNOTATIONS");
        match self.shortened {
            Some(shortened) if is_known && own => {
                let is_place = [false, false].into_iter().chain(is_place);
                let moved = words.iter().zip(is_place).map(|(word, is_place)| match is_place {
                    true => moved(word, shortened),
                    false => (*word).to_owned(),
                });
                moved.collect::<Vec<_>>().join(" ")
            }
            None if is_known => name.to_owned(),
            _ if differs => name.to_owned(),
            _ => line.to_owned(),
        }
    }

    /// The same for a relocation record of its code, `OFFSET TYPE SYMBOL [ADDEND]`.
    fn record(self, line: &str, own: bool) -> String {
        match (self.shortened, line.split_once(' ')) {
            (Some(shortened), Some((place, rest))) if own => {
                let place = moved(place, shortened);
                let digits = place.trim_start_matches("0x");
                format!("0x{digits:0>4} {rest}")
            }
            (Some(_), _) => line.to_owned(),
            (None, _) => without_places(line),
        }
    }

    /// The same for a word of its symbol's line.
    fn size(self, word: &str, own: bool) -> Option<String> {
        match self.shortened {
            _ if !word.starts_with("size=") => Some(word.to_owned()),
            Some(shortened) if own => Some(format!("size={:#x}", shortened.size())),
            Some(_) => Some(word.to_owned()),
            None => None,
        }
    }
}

/// For each word of an attribute, whether it is a place in code.
fn are_places(attribute: &str, words: &[&str]) -> Vec<bool> {
    match attribute {
        // The place of a load, and its unused bytes.
        "UNUSED_LOAD_BYTE_OFFSET" => (0..words.len()).map(|at| at == 0).collect(),
        // The place of an operation on a barrier, and three words that describe it.
        "MBARRIER_INSTR_OFFSETS" => (0..words.len()).map(|at| at % 4 == 0).collect(),
        // For each branch: its place, 0, the number of its targets, and the targets.
        "INDIRECT_BRANCH_TARGETS" => {
            let (mut places, mut rest) = (Vec::new(), words.iter());
            while let (Some(_), Some(_), Some(count)) = (rest.next(), rest.next(), rest.next()) {
                let digits = count.trim_start_matches("0x");
                let targets = usize::from_str_radix(digits, 16).unwrap_or_default();
                places.extend([true, false, false]);
                places.extend(rest.by_ref().take(targets).map(|_| true));
            }
            places
        }
        name => vec![name.ends_with("_OFFSETS"); words.len()],
    }
}

/// A place in the shortened code; other words stay.
fn moved(word: &str, shortened: &ShortenedCode) -> String {
    let place = word.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    place.map_or(word.to_owned(), |place| format!("{:#x}", shortened.place(place)))
}

/// A record without its place and addend.
fn without_places(line: &str) -> String {
    line.split(' ').skip(1).take(2).collect::<Vec<_>>().join(" ")
}

/// What may differ in a file.
pub(super) struct AllowedDifferences<'a> {
    /// The file is culd's.
    pub(super) own: bool,
    /// Functions with other code.
    pub(super) rewritten: &'a [RewrittenFunction<'a>],
    /// Those, and others whose debug data differs.
    pub(super) others: &'a OtherFunctions,
    /// The contents of debug sections without that.
    pub(super) debug_lines: HashMap<&'static str, Vec<String>>,
}

/// The sections of `text` without what may differ.
pub(super) fn blocks(text: &str, allowed: &AllowedDifferences<'_>) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("  "), blocks.last_mut()) {
            (Some(line), Some(block)) => block.body.push(line.to_owned()),
            _ => blocks.push(Block { head: line.to_owned(), body: Vec::new() }),
        }
    }
    for block in &mut blocks {
        if let Some(name) = block.section().map(str::to_owned) {
            block.reduce(&name, allowed);
            block.without_others(&name, allowed);
        }
    }
    // Bytes outside sections, row by row at offsets behind the code: as one row, without zeros.
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
    /// The name of the section that it is about.
    pub(super) fn section(&self) -> Option<&str> {
        self.head.strip_prefix("section ").and_then(|rest| rest.split(' ').next())
    }

    fn reduce(&mut self, name: &str, allowed: &AllowedDifferences<'_>) {
        let kernel = |prefix: &str| {
            let name = name.strip_prefix(prefix)?;
            allowed.rewritten.iter().find(|anew| anew.name == name)
        };
        let of_kernel = |prefix: &str| kernel(prefix).is_some();
        if of_kernel(".text.") || of_kernel(".nv.capmerc.text.") {
            self.body.clear();
        } else if let Some(anew) = kernel(".rela.text.") {
            self.each(|line| anew.record(line, allowed.own));
        } else if let Some(anew) = kernel(".nv.info.") {
            self.each(|line| anew.attribute(line, allowed.own));
            self.body.retain(|line| !(anew.later && line.starts_with("ATTRIBUTE_6B ")));
        } else if name == ".symtab" {
            self.each(|line| {
                let mut words = line.split(' ');
                let place = words.clone().find_map(|word| word.strip_prefix("in=.text."));
                let anew = place.and_then(|name| allowed.rewritten.iter().find(|a| a.name == name));
                match anew.filter(|_| words.nth(1) == Some("func")) {
                    Some(anew) => {
                        let words = line.split(' ').filter_map(|word| anew.size(word, allowed.own));
                        words.collect::<Vec<_>>().join(" ")
                    }
                    None => line.to_owned(),
                }
            });
        }
    }

    /// Leaves out the debug data of copies and of other code, and places that move with it.
    fn without_others(&mut self, name: &str, allowed: &AllowedDifferences<'_>) {
        let AllowedDifferences { others, debug_lines, .. } = allowed;
        if others.is_empty() {
            return;
        }
        if let Some(lines) = debug_lines.get(name) {
            self.body.clone_from(lines);
        }
        if name == ".debug_info" && !others.anew.is_empty() {
            // It has the offset of each unit in a table of lines, where rewritten code has another
            // size.
            self.body.clear();
        }
        let Some(target) = name.strip_prefix(".rela") else { return };
        if target.starts_with(".debug_") || target.starts_with(".nv_debug_") {
            let moves = debug_lines.contains_key(target);
            // OFFSET TYPE SYMBOL [ADDEND]
            self.each(|line| {
                let mut words: Vec<&str> = line.split(' ').collect();
                let symbol = words.get(2).copied().unwrap_or_default();
                // Places in tables of which a part has another length.
                let in_table = !others.anew.is_empty() && debug_lines.contains_key(symbol);
                if others.contains(symbol.as_bytes()) || in_table {
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

/// Drops the `names` from nvlink's attribute lists that it forgets to drop in programs with jump
/// slots (docs/DIFFERENCES.md, externs-of-slots), if culd's lists do not have them, or if lists are
/// `longer` for this reason. True if something was dropped.
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
            // The form of a malformed list.
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
        let others = OtherFunctions::default();
        let read = |text: &str| {
            let (rewritten, debug_lines) = (&[][..], HashMap::new());
            let allowed =
                AllowedDifferences { own: false, rewritten, others: &others, debug_lines };
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
