//! Explains what nvlink writes wrongly in programs with unified functions.
//!
//! In: nvlink's program and culd's. Out: the keys of the entries of docs/DIFFERENCES.md that
//! explain all differences, or `None`. Guaranteed: each line of the difference is explained alone,
//! by the contents of nvlink's file.

use culd_cubin::attr::{Records, code, format as form};
use culd_cubin::elf::{sht, stt};
use culd_cubin::unified::{SLOT, entries};
use culd_cubin::{Cubin, Symbol, SymbolIndex, SymbolSection};
use culd_inspect::diff::{self, DiffOptions};
use culd_inspect::view::View;
use std::collections::{BTreeSet, HashMap};

/// The attribute lists of jump slots.
const LISTS_OF_SLOTS: &[&str] = &[".nv.info..nv.uft", ".nv.merc.nv.info..nv.uft"];

/// Explains the differences of `actual` from `expected`.
pub(super) fn keys(expected: &[u8], actual: &[u8]) -> Option<BTreeSet<&'static str>> {
    let theirs = View::parse(expected).ok()?;
    let ours = View::parse(actual).ok()?;
    let difference = diff::compare(&theirs, &ours, DiffOptions { tool: false });
    let names = words_of_slots(expected)?;
    let mut lines: Vec<&str> =
        difference.groups.iter().flat_map(|group| &group.lines).map(String::as_str).collect();
    let mut keys = BTreeSet::new();
    // Attribute records first: they decide which sections may be longer.
    let mut longer = BTreeSet::new();
    for list in LISTS_OF_SLOTS.iter().filter(|list| list_is_longer(&theirs, &ours, list, &names)) {
        // The bytes behind a record without room for words are read as other records.
        lines.retain(|line| {
            let rest = line.split_once("  ").and_then(|(_, rest)| rest.strip_prefix(list));
            !rest.is_some_and(|rest| rest.starts_with([' ', '+']))
        });
        keys.insert("externs-of-slots");
    }
    lines.retain(|line| match misplaced(line, &names) {
        Some(section) => {
            longer.insert(section.to_owned());
            keys.insert("externs-of-slots");
            false
        }
        None => true,
    });
    lines.retain(|line| {
        let section = line.strip_prefix("section.size  ").and_then(|rest| rest.split("  ").next());
        section.is_none_or(|section| !longer.contains(section))
    });
    let moved: BTreeSet<String> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("reloc.missing  "))
        .map(str::to_owned)
        .collect();
    let extra: BTreeSet<String> =
        lines.iter().filter_map(|line| at_slot(line.strip_prefix("reloc.extra  ")?)).collect();
    if !moved.is_empty() && moved == extra {
        lines.retain(|line| !line.starts_with("reloc."));
        keys.insert("unified-relocations");
    }
    (lines.is_empty() && !keys.is_empty()).then_some(keys)
}

/// True for a list of attributes that is culd's, with words of `names` behind some records. A
/// record with a value in place of words counts four more for each.
pub(in crate::reference::compare) fn list_is_longer(
    theirs: &View<'_>,
    ours: &View<'_>,
    list: &str,
    names: &BTreeSet<String>,
) -> bool {
    let data = |view: &View<'_>| {
        Some(
            view.cubin
                .sections
                .iter()
                .find(|section| section.name == list.as_bytes())?
                .data
                .to_vec(),
        )
    };
    match (data(theirs), data(ours)) {
        (Some(theirs), Some(ours)) => {
            theirs.len() > ours.len() && behind_words(&theirs, &ours, names)
        }
        _ => false,
    }
}

/// True when `theirs` is the records `ours`, with words of `names` behind some. A record with a
/// value in place of words may count four for each word; then other records of its kind may count
/// words that they do not have.
fn behind_words(mut theirs: &[u8], ours: &[u8], names: &BTreeSet<String>) -> bool {
    let is_name = |word: [u8; 4]| names.contains(&format!("{:#x}", u32::from_le_bytes(word)));
    for record in Records::new(b"", ours) {
        let Ok(record) = record else { return false };
        // The number of bytes behind the right ones of a record with words.
        let more_bytes;
        loop {
            let Some((&[format, code, low, high], behind)) = theirs.split_first_chunk() else {
                return false;
            };
            let more = u16::from_le_bytes([low, high]).checked_sub(record.value);
            let same = (format, code) == (record.format, record.code);
            let rest = behind.strip_prefix(record.payload);
            if let (true, Some(more), Some(rest)) =
                (same && more.is_some_and(|m| m % 4 == 0), more, rest)
            {
                (theirs, more_bytes) = (rest, if format == form::SIZED { more } else { 0 });
                break;
            }
            if !is_name([format, code, low, high]) {
                return false;
            }
            theirs = behind;
        }
        let Some((words, rest)) = theirs.split_at_checked(more_bytes.into()) else { return false };
        if !words.as_chunks().0.iter().copied().all(is_name) {
            return false;
        }
        theirs = rest;
    }
    let (words, odd) = theirs.as_chunks();
    odd.is_empty() && words.iter().copied().all(is_name)
}

/// True if a line of nvlink's attribute list `section` has words of `names` that culd's line, or
/// culd's list, does not have.
pub(in crate::reference::compare) fn is_stray(
    section: &str,
    theirs: &str,
    ours: Option<&str>,
    names: &BTreeSet<String>,
) -> bool {
    let Some((name, value)) = theirs.split_once(' ') else { return false };
    let line = match ours.map(|ours| ours.split_once(' ')) {
        Some(Some((own, ours))) if own == name => {
            format!("attr  {section} {name}  {value} != {ours}")
        }
        Some(_) => return false,
        None => format!("attr.missing  {section} {name}  {value}"),
    };
    misplaced(&line, names).is_some()
}

/// True for a program whose jump slots are not where the entries of the table say.
pub(super) fn has_stray_slots(program: &[u8]) -> bool {
    let Ok(cubin) = Cubin::parse(program) else { return false };
    let tables = cubin.sections.iter().filter(|section| section.sh_type == sht::CUDA_UFT_ENTRY);
    let entries = tables.flat_map(entries).map(|(_, entry)| (entry.symbol, entry.offset));
    let places: HashMap<SymbolIndex, u64> = entries.collect();
    let slots = cubin.section_indices().find(|(_, section)| section.sh_type == sht::CUDA_UFT);
    let Some((slots, _)) = slots else { return false };
    let records = cubin
        .sections
        .iter()
        .filter(|table| table.is_reloc() && table.info_section() == Some(slots));
    let mut jumps = records.flat_map(|table| table.relocations().iter().collect::<Vec<_>>());
    jumps.any(|jump| places.get(&jump.symbol).is_some_and(|&place| place != jump.offset))
}

/// The words that jump slots would inherit, as the text of a difference has them: names in EXTERNS,
/// numbers elsewhere. They are undefined functions, and since CUDA 13.2 the words of attribute
/// 0x66.
pub(in crate::reference::compare) fn words_of_slots(bytes: &[u8]) -> Option<BTreeSet<String>> {
    let cubin = Cubin::parse(bytes).ok()?;
    let mut taken = BTreeSet::new();
    for section in cubin.sections.iter().filter(|section| section.sh_type == sht::CUDA_INFO) {
        for record in Records::new(section.name, section.data) {
            // The list of a slot may be malformed.
            let Ok(record) = record else { break };
            if record.code == code::ATTRIBUTE_66 {
                taken.extend((0..).map_while(|place| record.word(place)));
            }
        }
    }
    let taken = taken.into_iter().flat_map(|word| {
        let symbol = cubin.symbols.get(word as usize).map(|symbol| label(&cubin, symbol));
        symbol.into_iter().chain([format!("{word:#x}")])
    });
    let undefined = cubin.symbols.iter().enumerate().filter(|(_, symbol)| {
        symbol.kind() == stt::FUNC && symbol.section == SymbolSection::Undefined
    });
    let words =
        undefined.flat_map(|(index, symbol)| [label(&cubin, symbol), format!("{index:#x}")]);
    Some(words.chain(taken).collect())
}

/// The name of a symbol in the text of a difference: for the symbol of a section, the section.
fn label(cubin: &Cubin<'_>, symbol: &Symbol<'_>) -> String {
    let own = || cubin.section(symbol.defined_in()?).map(|section| section.name);
    let name = if symbol.name.is_empty() { own().unwrap_or_default() } else { symbol.name };
    String::from_utf8_lossy(name).into_owned()
}

/// The section of an attribute that has additional names of undefined functions in nvlink's file
/// only.
fn misplaced<'l>(line: &'l str, names: &BTreeSet<String>) -> Option<&'l str> {
    let all_names = |words: &str| {
        !words.is_empty() && words.split_whitespace().all(|word| names.contains(word))
    };
    let (kind, rest) = line.split_once("  ")?;
    let (key, values) = rest.split_once("  ")?;
    let mut key = key.split(' ');
    let (section, name) = (key.next()?, key.next()?);
    if !section.starts_with(".nv.info") && !section.starts_with(".nv.merc.nv.info") {
        return None;
    }
    let found = match (kind, name) {
        ("attr.missing", "EXTERNS") => all_names(values.strip_prefix("words ")?),
        ("attr", "EXTERNS" | "MIN_STACK_SIZE" | "CRS_STACK_SIZE") => {
            let (theirs, ours) = values.split_once(" != ")?;
            match (
                theirs.strip_prefix(ours),
                theirs.strip_prefix("words "),
                ours.strip_prefix("words "),
            ) {
                (Some(behind), ..) => all_names(behind),
                // The entry's own names follow them.
                (None, Some(theirs), Some(ours)) if name == "EXTERNS" => {
                    all_names(theirs.strip_suffix(ours)?)
                }
                _ => return None,
            }
        }
        _ => false,
    };
    found.then_some(section)
}

/// A record inside a jump slot as nvlink writes it: at the start of the slot.
fn at_slot(record: &str) -> Option<String> {
    let (place, rest) = record.strip_prefix(".rela.nv.uft+0x")?.split_once(' ')?;
    let place = u64::from_str_radix(place, 16).ok()?;
    Some(format!(".rela.nv.uft+{:#x} {rest}", place / SLOT * SLOT))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "\
cubin 1
file type=exec sm=90
section .shstrtab strtab
  rest
section .strtab strtab
  rest
section .symtab symtab align=8
  globals
  global func k in=.text.k size=0x10 other=entry
  global func free
  global func f in=.text.f size=0x10
section .nv.info nv_info align=4
  MIN_STACK_SIZE words k 0x8
section .nv.info.k nv_info flags=info align=4 info=.text.k
  CRS_STACK_SIZE words 0x10
  NUM_BARRIERS byte 0x1
section .rela.nv.uft rela flags=info align=8 info=.nv.uft
  0x0090 R_CUDA_ABS55_16_34 f
section .text.k progbits flags=alloc+exec align=128 symbol=k
  0x0000 zero 0x10
section .text.f progbits flags=alloc+exec align=128 symbol=f
  0x0000 zero 0x10
section .nv.uft nv_uft flags=alloc+exec align=128 entsize=128
  0x0000 zero 0x100
";

    /// The explanation of `to` in nvlink's file in place of `from` in culd's.
    fn explained(from: &str, to: &str) -> Option<Vec<&'static str>> {
        assert!(OURS.contains(from), "{from}");
        let assemble =
            |text: &str| crate::fixtures::asm::assemble(text).expect("the text is sound");
        let keys = keys(&assemble(&OURS.replacen(from, to, 1)), &assemble(OURS));
        keys.map(|keys| keys.into_iter().collect())
    }

    #[test]
    fn names_behind_records_are_explained() {
        let names = Some(vec!["externs-of-slots"]);
        let stack = "MIN_STACK_SIZE words k 0x8";
        assert_eq!(explained(stack, "MIN_STACK_SIZE words k 0x8 0x2"), names);
        assert_eq!(explained("CRS_STACK_SIZE words 0x10", "CRS_STACK_SIZE words 0x10 0x2"), names);
        let barriers = "  NUM_BARRIERS byte 0x1\n";
        assert_eq!(explained(barriers, "  NUM_BARRIERS byte 0x1\n  EXTERNS words free\n"), names);
        // Words of attribute 0x66, as numbers or as the symbol with this number.
        let with = "NUM_BARRIERS byte 0x1\n  ATTRIBUTE_66 words 0x3\n";
        let ours = OURS.replacen("NUM_BARRIERS byte 0x1\n", with, 1);
        let explained_66 = |to: &str| {
            let assemble =
                |text: &str| crate::fixtures::asm::assemble(text).expect("the text is sound");
            keys(&assemble(&ours.replacen(stack, to, 1)), &assemble(&ours)).map(|keys| keys.len())
        };
        assert_eq!(explained_66("MIN_STACK_SIZE words k 0x8 0x3"), Some(1));
        assert_eq!(explained_66("MIN_STACK_SIZE words k 0x8 0x4"), None);
        // In front of an entry's own, where both are undefined.
        let own = "  NUM_BARRIERS byte 0x1\n  EXTERNS words free\n";
        let ours = OURS.replacen(barriers, own, 1);
        let assemble =
            |text: &str| crate::fixtures::asm::assemble(text).expect("the text is sound");
        let front = |to: &str| {
            let theirs = ours.replacen("EXTERNS words free", to, 1);
            keys(&assemble(&theirs), &assemble(&ours)).map(|keys| keys.len())
        };
        assert_eq!(front("EXTERNS words free free"), Some(1));
        assert_eq!(front("EXTERNS words f free"), None);
        // A defined function, another value, another attribute, one that culd has and nvlink has
        // not.
        assert_eq!(explained(stack, "MIN_STACK_SIZE words k 0x8 0x3"), None);
        assert_eq!(explained(stack, "MIN_STACK_SIZE words k 0x10"), None);
        assert_eq!(explained(barriers, "  NUM_BARRIERS byte 0x2\n"), None);
        assert_eq!(explained(barriers, ""), None);
        assert_eq!(explained(barriers, "  NUM_BARRIERS byte 0x1\n  EXTERNS words f\n"), None);
    }

    #[test]
    fn words_behind_any_record_of_slots_are_explained() {
        let names = BTreeSet::from(["0x3".to_owned()]);
        let ours = [2, 0x4a, 0, 0, 4, 0x2f, 4, 0, 9, 0, 0, 0, 3, 0x50, 0, 0];
        let behind_value = [2, 0x4a, 4, 0, 3, 0, 0, 0, 4, 0x2f, 4, 0, 9, 0, 0, 0, 3, 0x50, 0, 0];
        let behind_words = [2, 0x4a, 0, 0, 4, 0x2f, 8, 0, 9, 0, 0, 0, 3, 0, 0, 0, 3, 0x50, 0, 0];
        // Machine code's list does not count the word, Mercury's does.
        let behind_nothing = [2, 0x4a, 0, 0, 3, 0, 0, 0, 4, 0x2f, 4, 0, 9, 0, 0, 0, 3, 0x50, 0, 0];
        let explained = |theirs: &[u8]| super::behind_words(theirs, &ours, &names);
        assert!(explained(&ours) && explained(&behind_value) && explained(&behind_words));
        assert!(explained(&behind_nothing));
        // Counted and absent, as in all records but one.
        assert!(explained(&[&[2, 0x4a, 4, 0], &ours[4..]].concat()));
        // Another word, another value, a record less, bytes more.
        let edited = |at: usize, byte: u8| {
            let mut bytes = behind_value;
            bytes[at] = byte;
            bytes
        };
        for (at, byte) in [(2, 5), (4, 4), (5, 1), (12, 8), (16, 2)] {
            assert!(!explained(&edited(at, byte)), "{at}");
        }
        assert!(!explained(&ours[..12]));
        assert!(!explained(&[&ours[..], &[0; 4]].concat()));
    }

    #[test]
    fn records_at_the_start_of_their_slot_are_explained() {
        let record = "0x0090 R_CUDA_ABS55_16_34 f";
        let key = Some(vec!["unified-relocations"]);
        assert_eq!(explained(record, "0x0080 R_CUDA_ABS55_16_34 f"), key);
        assert_eq!(explained(record, "0x0000 R_CUDA_ABS55_16_34 f"), None);
        assert_eq!(explained(record, "0x0080 R_CUDA_ABS55_16_34 k"), None);
        assert_eq!(explained(record, "0x0080 R_CUDA_ABS56_16_34 f"), None);
    }
}
