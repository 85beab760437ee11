//! Compares what a linked cubin says about the code of its functions with that code.
//!
//! In: a linked cubin of sm_100 or later. Out: the first contradiction. Guaranteed: nvlink's
//! outputs have none.

use culd_cubin::attr::{Records, code};
use culd_cubin::capmerc::Capsule;
use culd_cubin::elf::sht;
use culd_cubin::{Cubin, Section, SectionIndex, SymbolIndex};
use culd_inspect::view::View;
use std::collections::{HashMap, HashSet};

/// Bytes of an instruction.
const WORD: usize = 16;
/// The low twelve bits of an instruction that ends a thread.
const EXIT: u16 = 0x94d;

/// The first contradiction in `view`, if there is one. Frames are those of the functions in the
/// sections `rewritten`: those of other sections describe replaced code, too.
pub(in crate::reference::compare) fn defect(
    view: &View<'_>,
    rewritten: &[usize],
) -> Option<String> {
    let cubin = &view.cubin;
    let mut instructions = HashMap::new();
    let mut infos = HashMap::new();
    for section in &cubin.sections {
        match section.sh_type {
            sht::MERCURY_CODE => {
                let capsule = match Capsule::parse(section.name, section.data) {
                    Ok(capsule) => capsule,
                    Err(malformed) => return Some(malformed.to_string()),
                };
                instructions.insert(capsule.code(), capsule.instructions());
            }
            sht::CUDA_INFO => {
                section.info_section().map(|function| infos.insert(function, section));
            }
            _ => {}
        }
    }
    let mut sizes = HashMap::new();
    for (index, section) in cubin.section_indices().filter(|(_, section)| section.is_code()) {
        let symbol = SymbolIndex(section.info & 0xff_ffff);
        if rewritten.contains(&(index.0 as usize)) {
            sizes.insert(symbol, (section.size, size_in_frame(cubin, symbol, index)));
        }
        if section.sh_type == sht::CUDA_UFT {
            // Its symbol is the first slot's, for which nvlink has another size.
            continue;
        }
        let what = size_of_symbol(cubin, symbol, section)
            .or_else(|| size_of_mercury(instructions.get(&index).copied(), section))
            .or_else(|| exits(infos.get(&index).copied(), section));
        if let Some(what) = what {
            return Some(format!("{}: {what}", view.section(index.0)));
        }
    }
    frames(cubin, &sizes)
}

fn size_of_symbol(cubin: &Cubin<'_>, symbol: SymbolIndex, section: &Section<'_>) -> Option<String> {
    let size = cubin.symbol(symbol)?.size;
    (size != section.size).then(|| format!("{:#x} bytes, its symbol has {size:#x}", section.size))
}

/// The length in the frame of a function with others inside: the bytes in front of the first of
/// them (case whole-program/stacks). Of a function of which another name was seen first, the bytes
/// of its Mercury code (case alias/other-file). None for functions with one name.
fn size_in_frame(cubin: &Cubin<'_>, symbol: SymbolIndex, section: SectionIndex) -> Option<u64> {
    let functions = cubin.symbols.iter().filter(|other| other.is_function());
    let names = || functions.clone().filter(|other| other.defined_in() == Some(section));
    let inner = names().map(|name| name.value).filter(|&value| value > 0).min();
    let twin = || cubin.mercury_symbols.get(symbol.0 as usize).map(|twin| twin.size);
    inner.or_else(|| twin().filter(|_| names().count() > 1))
}

/// The Mercury code describes as many instructions as the section has.
fn size_of_mercury(instructions: Option<u64>, section: &Section<'_>) -> Option<String> {
    let Some(instructions) = instructions else { return Some("no Mercury code".to_owned()) };
    (instructions * WORD as u64 != section.size).then(|| {
        format!("{:#x} bytes, its Mercury code is of {instructions} instructions", section.size)
    })
}

/// The attribute lists exactly the instructions that end a thread.
fn exits(info: Option<&Section<'_>>, section: &Section<'_>) -> Option<String> {
    let records = info.into_iter().flat_map(|info| Records::new(info.name, info.data));
    let lists = records.filter_map(Result::ok).filter(|r| r.code == code::EXIT_INSTR_OFFSETS);
    let mut listed: Vec<u32> = lists.flat_map(|r| r.words().collect::<Vec<_>>()).collect();
    listed.sort_unstable();
    let found = exits_in(section.data);
    (listed != found).then(|| format!("exits at {found:x?}, listed are {listed:x?}"))
}

/// Where `code` ends a thread, bytes.
pub(in crate::reference::compare) fn exits_in(code: &[u8]) -> Vec<u32> {
    let words = (0u32..).step_by(WORD).zip(code.chunks_exact(WORD));
    let is_exit = |word: &[u8]| match word {
        [low, high, ..] => u16::from_le_bytes([*low, *high]) & 0xfff == EXIT,
        _ => false,
    };
    words.filter(|(_, word)| is_exit(word)).map(|(at, _)| at).collect()
}

/// Every description of a function's frame is as long as the function, or has the second size of
/// `sizes`.
fn frames(cubin: &Cubin<'_>, sizes: &HashMap<SymbolIndex, (u64, Option<u64>)>) -> Option<String> {
    let (index, frames) = cubin.section_indices().find(|(_, s)| s.name == b".debug_frame")?;
    let relocations =
        cubin.sections.iter().filter(|s| s.is_reloc() && s.info_section() == Some(index));
    let mut records: Vec<_> =
        relocations.flat_map(|section| section.relocations().iter().collect::<Vec<_>>()).collect();
    // The first description of a function counts; others are about copies that it replaced.
    records.sort_by_key(|record| record.offset);
    let mut seen = HashSet::new();
    for record in records.into_iter().filter(|record| seen.insert(record.symbol)) {
        // A function's address is followed by its length; the other records are pointers between
        // descriptions.
        let Some(&(size, other)) = sizes.get(&record.symbol) else { continue };
        let at = record.offset as usize + 8;
        let bytes = frames.data.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        let length = bytes.map_or(0, u64::from_le_bytes);
        if length != size && Some(length) != other {
            return Some(format!(
                ".debug_frame+{at:#x}: {length:#x} bytes of code, there are {size:#x}"
            ));
        }
    }
    None
}
