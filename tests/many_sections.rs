//! Programs with about 65,280 sections and more.
//!
//! In: objects of any number of sections (`culd_testkit::fixtures::many`). Out: no report, or the
//! faults. Guaranteed: no reference tool is needed; `cargo xtask compare sections` links the same
//! objects with nvlink too.

use culd_cubin::elf::sht;
use culd_cubin::{Cubin, SymbolSection};
use culd_testkit::fixtures::many::{ObjectForm, object};
use culd_testkit::reference::readers::{self, FunctionPlace};
use culd_tests::{lines, link, link_options};
use std::collections::HashMap;

const SHN_COMMON: u32 = 0xfff2;
const LARGE: usize = 65_600;

fn form(sections: usize) -> ObjectForm<'static> {
    ObjectForm { sections, attributes: false, kernel: "work", live_every: 1, sm: 80 }
}

/// The output of a link of `input` alone, or its lines.
fn linked(arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, Vec<String>> {
    let arguments: Vec<String> =
        ["-arch=sm_80"].iter().chain(arguments).map(|&argument| argument.to_owned()).collect();
    let inputs = [("a.cubin".to_owned(), input.to_vec())];
    let outcome = link(&link_options(&arguments).expect("options"), &inputs, 1).expect("a link");
    let lines = lines(&outcome);
    outcome.image.ok_or(lines)
}

/// Names of functions, with the names of their sections.
fn places(image: &[u8]) -> HashMap<String, String> {
    let cubin = Cubin::parse(image).expect("a cubin");
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let functions = cubin.symbols.iter().filter(|symbol| symbol.is_function());
    let place = |section| match section {
        SymbolSection::In(index) => text(cubin.section(index).expect("a section").name),
        other => format!("{other:?}"),
    };
    functions.map(|symbol| (text(symbol.name), place(symbol.section))).collect()
}

/// The same by goblin.
fn independent(image: &[u8]) -> HashMap<String, String> {
    let placed = readers::functions(image).expect("an ELF file").into_iter();
    placed
        .map(|FunctionPlace { function, section }| (function, section.expect("a section")))
        .collect()
}

fn check_places(image: &[u8], functions: usize, what: &str) {
    for (reader, places) in [("own", places(image)), ("goblin", independent(image))] {
        assert_eq!(places.len(), functions, "{what}, {reader}");
        for (name, place) in places {
            assert_eq!(place, format!(".text.{name}"), "{what}, {reader}");
        }
    }
}

#[test]
fn every_function_is_in_its_section() {
    let input = object(&form(LARGE));
    let functions = LARGE - 12;
    check_places(&input, functions, "input");
    let direct = linked(&[], &input).expect("a program");
    check_places(&direct, functions, "program");
    let object = linked(&["-r"], &input).expect("an object");
    check_places(&object, functions, "object");
    check_places(&linked(&[], &object).expect("a program"), functions, "program of the object");
}

#[test]
fn dead_code_leaves_a_small_program_with_its_table() {
    let input = object(&ObjectForm { live_every: 1000, ..form(LARGE) });
    let program = linked(&[], &input).expect("a program");
    check_places(&program, (LARGE - 13).div_ceil(1000) + 1, "program");
    let cubin = Cubin::parse(&program).expect("a cubin");
    assert!(cubin.section_by_name(b".symtab_shndx").is_some(), "nvlink keeps it");
}

/// The counts near the limit: of sections, in `e_shnum`, in header 0, and whether there is a table.
#[test]
fn counts_around_the_limit() {
    let counts = |image: &[u8]| {
        let number = |at: usize, size: usize| {
            let mut bytes = [0; 8];
            bytes[..size].copy_from_slice(&image[at..at + size]);
            u64::from_le_bytes(bytes)
        };
        let cubin = Cubin::parse(image).expect("a cubin");
        let table = cubin.section_by_name(b".symtab_shndx").is_some();
        (cubin.sections.len(), number(60, 2), number(number(40, 8) as usize + 32, 8), table)
    };
    let made = |sections| counts(&linked(&["-r"], &object(&form(sections))).expect("an object"));
    let mut seen = Vec::new();
    for sections in (65_270..65_290).step_by(3) {
        let (count, e_shnum, in_header, table) = made(sections);
        assert_eq!(
            (e_shnum, in_header),
            if count > 0xff00 { (0, count as u64) } else { (count as u64, 0) }
        );
        seen.push(table);
    }
    assert!(!seen[0] && seen[6], "the table appears in between: {seen:?}");
    assert!(seen.is_sorted(), "{seen:?}");
}

/// ptxas and nvlink leave index 0xfff2 in the symbol, although it means COMMON.
#[test]
fn the_index_of_common_is_a_section_for_functions() {
    let mut input = object(&form(LARGE));
    let elf = goblin::elf::Elf::parse(&input).expect("an ELF file");
    let table =
        |kind| elf.section_headers.iter().find(|header| header.sh_type == kind).expect("a table");
    let (symbols, high) =
        (table(sht::SYMTAB).sh_offset as usize, table(sht::SYMTAB_SHNDX).sh_offset as usize);
    let word = |at: usize| u32::from_le_bytes(input[at..at + 4].try_into().expect("4 bytes"));
    let number =
        (0..elf.syms.len()).find(|number| word(high + 4 * number) == SHN_COMMON).expect("a symbol");
    input[symbols + 24 * number + 6..][..2].copy_from_slice(&(SHN_COMMON as u16).to_le_bytes());
    input[high + 4 * number..][..4].copy_from_slice(&70_000u32.to_le_bytes());
    check_places_own(&input);
    check_places_own(&linked(&[], &input).expect("a program"));
}

fn check_places_own(image: &[u8]) {
    for (name, place) in places(image) {
        assert_eq!(place, format!(".text.{name}"));
    }
}

/// The damages and their lines.
#[test]
fn damaged_tables_of_indices_are_refused() {
    let good = object(&form(LARGE));
    let elf = goblin::elf::Elf::parse(&good).expect("an ELF file");
    let index =
        elf.section_headers.iter().position(|h| h.sh_type == sht::SYMTAB_SHNDX).expect("a table");
    let header = elf.header.e_shoff as usize + 64 * index;
    let entries = elf.section_headers[index].sh_offset as usize;
    let size = elf.section_headers[index].sh_size;
    let last = entries + size as usize - 4;
    let null = elf.header.e_shoff as usize;
    let next = header + 64;
    type ByteEdit = (usize, u64, usize);
    #[rustfmt::skip]
    let damages: &[(&str, &[ByteEdit], &str)] = &[
        ("missing", &[(header + 4, u64::from(sht::NULL), 4)], "is in a table that does not exist"),
        ("short", &[(header + 32, size - 4, 8)], "section indices for"),
        ("no multiple of 4", &[(header + 32, size - 1, 8)], "is no multiple of 4"),
        ("past the end", &[(header + 24, 1 << 40, 8)], "run past the end of the file"),
        ("of a string table", &[(header + 40, 2, 4)], "sh_link names section 2, not a symbol table"),
        ("of no section", &[(header + 40, 0xffff_ffff, 4)], "sh_link names section 4294967295, which does not exist"),
        ("two of them", &[(next + 4, u64::from(sht::SYMTAB_SHNDX), 4), (next + 40, 3, 4)], "more than one table of section indices"),
        ("entry out of range", &[(last, LARGE as u64, 4)], "is in section 65600, which does not exist"),
        ("entry of all ones", &[(last, u64::from(u32::MAX), 4)], "is in section 4294967295, which does not exist"),
        ("entry of nothing", &[(last, 0, 4)], "is in section 0, which does not exist"),
        ("entry of another kind", &[(last, 3, 4)], "does not fit its section"),
        ("too many sections", &[(null + 32, 1 << 60, 8)], "section header table of 1152921504606846976 entries runs past the end"),
        ("no sections", &[(null + 32, 0, 8)], "section name table index 1 is out of range"),
        ("names in no section", &[(62, 0xffff, 2), (null + 40, 1 << 30, 4)], "section name table index 1073741824 is out of range"),
    ];
    for (what, edits, expected) in damages {
        let mut bytes = good.clone();
        for &(at, value, size) in *edits {
            bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        }
        let lines = linked(&[], &bytes).expect_err(what);
        let [line] = lines.as_slice() else { panic!("{what}: {lines:?}") };
        assert!(line.contains("a.cubin") && line.contains(expected), "{what}: {line}");
    }
    // The other form of the index of the name table is valid, too.
    let mut bytes = good.clone();
    bytes[62..64].copy_from_slice(&0xffffu16.to_le_bytes());
    bytes[null + 40..null + 44].copy_from_slice(&1u32.to_le_bytes());
    assert_eq!(linked(&[], &bytes), linked(&[], &good));
}
