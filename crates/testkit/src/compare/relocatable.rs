//! Compares the objects that two linkers made with `-r`.
//!
//! In: nvlink's object and culd's. Out: nothing when they agree, else the lines of `culd-diff` that say where they
//! part. Guaranteed: they may differ in what docs/DIFFERENCES.md, early-relocations, lists, and only there: each record
//! that culd alone keeps is applied as nvlink applies it, and must then give nvlink's bytes.

use anyhow::{Context, Result};
use culd_cubin::elf::{sht, stb, sto, stt};
use culd_cubin::{Cubin, RelocEntry, Section, Symbol, SymbolIndex};
use culd_inspect::diff;
use culd_inspect::view::View;
use culd_reloc::Value;
use std::collections::HashSet;

/// The symbol that stands for every array without size in nvlink's objects.
const EXTERN_INSTANCE: &str = "externsharedinstance";

/// Where two objects differ though they should not; `None` when they agree.
pub fn objects(expected: &[u8], actual: &[u8]) -> Option<String> {
    super::cubins(expected, actual)?;
    match difference(expected, actual) {
        Ok(lines) if lines.is_empty() => None,
        Ok(lines) => Some(lines.join("\n")),
        Err(error) => Some(format!("{error:#}")),
    }
}

fn difference(expected: &[u8], actual: &[u8]) -> Result<Vec<String>> {
    let theirs = View::parse(expected).context("nvlink's object")?;
    let ours = Cubin::parse(actual).context("culd's object")?;
    let mut pair = Pair { theirs: &theirs.cubin, ours: &ours, early: HashSet::new() };
    let resolved = pair.resolve(actual)?;
    let resolved = View::parse(&resolved).context("culd's object with relocations applied")?;
    let mut text = String::new();
    diff::compare(&theirs, &resolved, diff::Options { tool: false })
        .write(&mut text, usize::MAX)?;
    let allowed = pair.allowed(&resolved);
    if allowed.is_empty() {
        return Ok(vec!["the files differ, and no relocation is the cause".to_owned()]);
    }
    let may_differ = |line: &&str| allowed.iter().any(|start| line.starts_with(start.as_str()));
    Ok(text.lines().filter(|line| !may_differ(line)).map(str::to_owned).collect())
}

/// A record: index of its section, and its number there.
type Place = (usize, usize);

struct Pair<'a, 'd> {
    theirs: &'a Cubin<'d>,
    ours: &'a Cubin<'d>,
    /// Records that nvlink has resolved.
    early: HashSet<Place>,
}

impl Pair<'_, '_> {
    /// culd's object with nvlink's early relocations applied.
    fn resolve(&mut self, actual: &[u8]) -> Result<Vec<u8>> {
        let mut image = actual.to_vec();
        for (index, section) in self.ours.sections.iter().enumerate() {
            if !section.is_reloc() {
                continue;
            }
            let target = section.info_section().and_then(|target| self.ours.section(target));
            let target = target.context("a relocation section without target")?;
            let mut kept = self.their_records(section).into_iter().peekable();
            for (number, record) in section.relocations().iter().enumerate() {
                if kept.next_if(|kept| self.same(kept, &record)).is_some() {
                    continue;
                }
                let symbol = self.ours.symbol(record.symbol);
                let Some(value) = symbol.and_then(|symbol| self.early_value(symbol)) else {
                    continue;
                };
                self.early.insert((index, number));
                let start = target.data.as_ptr() as usize - actual.as_ptr() as usize;
                let place = image.get_mut(start..start + target.data.len());
                apply(place.context("the place of a section")?, section, record, value)?;
            }
        }
        Ok(image)
    }

    /// nvlink's records of the same section. Of several sections of one name, those of local
    /// functions, it is the one that patches the same of several.
    fn their_records(&self, section: &Section<'_>) -> Vec<RelocEntry> {
        let number = |cubin: &Cubin<'_>, section: &Section<'_>| {
            let target = section.info_section();
            let name = |index| cubin.section(index).map(|section: &Section<'_>| section.name);
            let wanted = target.and_then(name);
            let same = cubin.section_indices().filter(|(_, other)| Some(other.name) == wanted);
            same.take_while(|(index, _)| Some(*index) != target).count()
        };
        let mut sections = self.theirs.sections.iter();
        let found = sections.find(|other| {
            other.name == section.name && number(self.theirs, other) == number(self.ours, section)
        });
        found.map_or(Vec::new(), |found| found.relocations().iter().collect())
    }

    fn same(&self, theirs: &RelocEntry, ours: &RelocEntry) -> bool {
        let name = |cubin: &Cubin<'_>, index: SymbolIndex| {
            cubin.symbol(index).map_or(Vec::new(), |symbol| symbol.name.to_vec())
        };
        let their_name = name(self.theirs, theirs.symbol);
        let instance = their_name == EXTERN_INSTANCE.as_bytes()
            && self.ours.symbol(ours.symbol).is_some_and(is_extern_array);
        (theirs.offset, theirs.kind, theirs.addend) == (ours.offset, ours.kind, ours.addend)
            && (instance || their_name == name(self.ours, ours.symbol))
    }

    /// What nvlink puts into the places that name `symbol`; `None` for symbols that it keeps.
    fn early_value(&self, symbol: &Symbol<'_>) -> Option<Value> {
        let section = symbol.defined_in().and_then(|section| self.ours.section(section));
        // nvlink takes the bank from the type of the symbol's section, also where that is no bank: parameters
        // that are references are in code.
        let section_type = section.map_or(sht::NULL, |section| section.sh_type);
        let no_bank = (section_type as u8).wrapping_sub(sht::CUDA_CONSTANT0 as u8);
        let (address, bank) = match (symbol.kind(), section) {
            (stt::FUNC, _) => return None,
            (stt::CUDA_TEXTURE | stt::CUDA_SAMPLER | stt::CUDA_SURFACE, _) => (0, no_bank),
            (_, None) if symbol.is_shared() && symbol.size != 0 => (u64::MAX, 0),
            _ if symbol.is_shared() => (self.their_value(symbol), 0),
            (_, Some(section)) => (symbol.value, section.constant_bank()?),
            (_, None) if symbol.other & sto::INTERNAL != 0 => (symbol.value, 0),
            (_, None) if symbol.other & sto::SPACE == sto::SPACE_CONSTANT => (u64::MAX, no_bank),
            (_, None) => return None,
        };
        Some(Value { address, bank })
    }

    /// nvlink's value of a shared variable: it defines arrays without size, and keeps the
    /// alignment of a weak definition that was replaced.
    fn their_value(&self, symbol: &Symbol<'_>) -> u64 {
        let same = |other: &&Symbol<'_>| other.name == symbol.name && other.binding() != stb::LOCAL;
        let global = self.theirs.symbols.iter().find(same);
        global.filter(|_| symbol.binding() != stb::LOCAL).unwrap_or(symbol).value
    }

    /// Lines about literals of replaced copies, whose symbols only nvlink keeps.
    fn replaced_literals(&self) -> Vec<String> {
        let count = |cubin: &Cubin<'_>, name: &[u8]| {
            cubin.symbols.iter().filter(|symbol| symbol.name == name).count()
        };
        let literal = |symbol: &&Symbol<'_>| {
            let section = symbol.defined_in().and_then(|index| self.theirs.section(index));
            symbol.other & sto::INTERNAL != 0
                && section.and_then(Section::constant_bank).is_some_and(|bank| bank != 0)
        };
        let literals = self.theirs.symbols.iter().filter(literal);
        let more = literals.filter(|s| count(self.theirs, s.name) > count(self.ours, s.name));
        let mut starts: Vec<String> = more
            .flat_map(|symbol| {
                let name = String::from_utf8_lossy(symbol.name);
                // Of equal names any may count as the one that is missing.
                ["missing", "section", "value", "size", "order"]
                    .map(|what| format!("symbol.{what}  {name}"))
            })
            .collect();
        starts.extend((!starts.is_empty()).then(|| "section.size  .symtab  ".to_owned()));
        starts
    }

    /// How the lines begin that may be there; none when nothing may differ.
    fn allowed(&self, ours: &View<'_>) -> Vec<String> {
        let mut starts = Vec::new();
        for (index, section) in ours.cubin.sections.iter().enumerate() {
            let name = ours.section(index as u32);
            let records: Vec<RelocEntry> = section.relocations().iter().collect();
            let early = |number: &usize| self.early.contains(&(index, *number));
            let early: Vec<usize> = (0..records.len()).filter(early).collect();
            starts.extend((!early.is_empty()).then(|| format!("section.size  {name}  ")));
            if early.len() == records.len() {
                starts.push(format!("section.extra  {name}  "));
                starts.push("header  sections  ".to_owned());
            }
            for record in early.iter().filter_map(|&number| records.get(number)) {
                starts.push(format!("reloc.extra  {name}+{:#x}", record.offset));
                if ours.cubin.symbol(record.symbol).is_some_and(Symbol::is_shared) {
                    starts.push("section.size  .nv.shared.".to_owned());
                    starts.push("section.align  .nv.shared.".to_owned());
                }
            }
        }
        starts.extend(self.replaced_literals());
        for (symbol, word) in ours.cubin.symbols.iter().zip(&ours.symbols) {
            if is_extern_array(symbol) {
                starts.extend(extern_array(word));
            } else if symbol.is_shared() && self.their_value(symbol) != symbol.value {
                // The alignment of a replaced weak variable.
                starts.push(format!("symbol.value  {word}  "));
            }
        }
        starts
    }
}

fn is_extern_array(symbol: &Symbol<'_>) -> bool {
    symbol.is_shared() && symbol.defined_in().is_none() && symbol.size == 0
}

/// nvlink defines an array without size, and lets kernels speak of another symbol.
fn extern_array(word: &str) -> [String; 18] {
    [
        format!("symbol.section  {word}  .nv_debug.shared != undef"),
        format!("symbol.value  {word}  "),
        format!("symbol.missing  {EXTERN_INSTANCE}"),
        format!("string.missing  .strtab {EXTERN_INSTANCE}  "),
        "reloc.symbol  .rel".to_owned(),
        "section.size  .strtab  ".to_owned(),
        "section.size  .shstrtab  ".to_owned(),
        "string.missing  .shstrtab .nv.shared.".to_owned(),
        "string.missing  .strtab .nv.shared.".to_owned(),
        "section.size  .symtab  ".to_owned(),
        "section.size  .nv.shared.".to_owned(),
        "section.align  .nv.shared.".to_owned(),
        "section.missing  .nv.shared.".to_owned(),
        "symbol.missing  .nv.shared.".to_owned(),
        "section.missing  .nv_debug.shared  ".to_owned(),
        "section.size  .nv_debug.shared  ".to_owned(),
        "section.align  .nv_debug.shared  ".to_owned(),
        "header  sections  ".to_owned(),
    ]
}

/// Applies one record to the bytes of the section it patches.
fn apply(place: &mut [u8], section: &Section<'_>, record: RelocEntry, value: Value) -> Result<()> {
    let row = culd_reloc::cuda(record.kind).context("an unknown relocation type")?;
    let address = value.address.wrapping_add_signed(record.addend);
    let (offset, value) = (record.offset as usize, Value { address, ..value });
    let done = match section.sh_type {
        sht::REL => row.add(place, offset, value),
        _ => row.apply(place, offset, value),
    };
    done.map_err(|error| anyhow::anyhow!("{error}"))
}
