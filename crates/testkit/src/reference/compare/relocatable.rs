//! Compares the objects that two linkers made with `-r`.
//!
//! In: nvlink's object and culd's. Out: nothing if they agree, else the lines of `culd-diff` about
//! the differences. Guaranteed: they may differ only in what docs/DIFFERENCES.md,
//! early-relocations, lists: each record that only culd keeps is applied as nvlink applies it, and
//! must then give nvlink's bytes. Files with Mercury code are compared in both halves. Their symbol
//! tables have the same symbols, so the meaning of a record is looked up in `.symtab`.

use super::mercury::consistent::{self, exits_in};
use super::mercury::copies::OtherFunctions;
use super::mercury::{self, LinkObjects, copies, has_barriers, lacks_barrier, listed};
use anyhow::{Context, Result};
use culd_cubin::capmerc::{self, Capsule, Site};
use culd_cubin::elf::{sht, stb, sto, stt};
use culd_cubin::{Cubin, RelocEntry, Section, SectionIndex, Symbol, SymbolIndex};
use culd_inspect::diff;
use culd_inspect::view::View;
use culd_reloc::RelocValue;
use std::collections::HashSet;

/// The symbol that stands for every array without size in nvlink's objects.
const EXTERN_INSTANCE: &str = "externsharedinstance";

/// The starts of lines about the debug information of machine code.
const OF_DEBUG: [&str; 10] = [
    "section.size  .debug_",
    "section.size  .nv_debug_",
    "bytes  .debug_",
    "bytes  .nv_debug_",
    "reloc.missing  .rela.debug_",
    "reloc.missing  .rela.nv_debug_",
    "reloc.symbol  .rela.debug_",
    "reloc.symbol  .rela.nv_debug_",
    "reloc.extra  .rela.debug_",
    "reloc.extra  .rela.nv_debug_",
];

/// The bank of constant variables.
const CONSTANT_VARIABLES: u8 = 3;

/// The difference of two objects that should be equal; `None` if they agree. `inputs` matter on
/// sm_100 and later only.
pub fn objects(
    expected: &[u8],
    actual: &[u8],
    inputs: impl FnOnce() -> LinkObjects,
) -> Option<String> {
    super::cubins(expected, actual)?;
    if !mercury::applies(expected) {
        return lines(expected, actual, &LinkObjects::default());
    }
    let (inputs, view) = (inputs(), View::parse(actual).ok()?);
    let mut names = copies::all(&view, &inputs);
    names.extend(RewrittenCode::find(&view, &inputs).functions);
    let (expected, actual) =
        (copies::without_ends(expected, &names), copies::without_ends(actual, &names));
    lines(&expected, &actual, &inputs)
}

fn lines(expected: &[u8], actual: &[u8], inputs: &LinkObjects) -> Option<String> {
    match difference(expected, actual, inputs) {
        Ok(lines) if lines.is_empty() => None,
        Ok(lines) => Some(lines.join("\n")),
        Err(error) => Some(format!("{error:#}")),
    }
}

fn difference(expected: &[u8], actual: &[u8], inputs: &LinkObjects) -> Result<Vec<String>> {
    let theirs = View::parse(expected).context("nvlink's object")?;
    let ours = Cubin::parse(actual).context("culd's object")?;
    let mut pair = ObjectPair { theirs: &theirs.cubin, ours: &ours, early: HashSet::new() };
    let mut resolved = pair.resolve(actual)?;
    // Differences about code that lost (docs/DIFFERENCES.md, family-of-dead-code,
    // jump-tables-of-replaced).
    let mut expected_bytes = expected.to_vec();
    let before = resolved.clone();
    let before = View::parse(&before).context("culd's object with relocations applied")?;
    listed::family((&theirs, &before), inputs, expected, &mut resolved);
    listed::tables(&theirs, &mut expected_bytes);
    listed::tables(&before, &mut resolved);
    let rewritten = RewrittenCode::find(&before, inputs);
    if mercury::applies(expected) {
        copies::clear_equal_names(&theirs, &mut expected_bytes);
        copies::clear_equal_names(&before, &mut resolved);
        // Files with kept relocations have more sections.
        let sections = rewritten.sections_in(&theirs.cubin);
        listed::labels(&theirs, &sections, &mut expected_bytes);
        listed::labels(&before, &rewritten.sections, &mut resolved);
        let stray = listed::stray(&before, &rewritten.sections);
        if let Some(what) = stray.or_else(|| consistent::defect(&before, &rewritten.sections)) {
            return Ok(vec![format!("contradiction: {what}")]);
        }
    }
    let without = View::parse(&expected_bytes).context("nvlink's object without such entries")?;
    let resolved = View::parse(&resolved).context("culd's object with relocations applied")?;
    let mut text = String::new();
    diff::compare(&without, &resolved, diff::DiffOptions { tool: false })
        .write(&mut text, usize::MAX)?;
    let mut allowed = pair.allowed(&resolved);
    allowed.extend(rewritten.allowed());
    let copies = copies::all(&resolved, inputs);
    let others = OtherFunctions { copies, ..OtherFunctions::default() };
    if mercury::applies(expected)
        && copies::debug_lines(&without, &others) == copies::debug_lines(&resolved, &others)
    {
        // Debug data of copies that others replaced (docs/DIFFERENCES.md, debug-of-replaced).
        allowed
            .extend(OF_DEBUG.iter().filter(|_| !others.is_empty()).map(|&start| start.to_owned()));
    }
    let slots = inputs.for_debugger();
    if allowed.is_empty() && !slots {
        return Ok(vec!["the files differ, and no relocation is the cause".to_owned()]);
    }
    let may_differ = |line: &&str| {
        allowed.iter().any(|start| line.starts_with(start.as_str()))
            || rewritten.places(line)
            || slots && is_slot(line)
            || pair.names_one_section(line)
    };
    Ok(text.lines().filter(|line| !may_differ(line)).map(str::to_owned).collect())
}

/// A record: index of its section, and its number there.
type RecordPlace = (usize, usize);

struct ObjectPair<'a, 'd> {
    theirs: &'a Cubin<'d>,
    ours: &'a Cubin<'d>,
    /// Records that nvlink has resolved.
    early: HashSet<RecordPlace>,
}

impl ObjectPair<'_, '_> {
    /// True for a line about numbers of one section, which has another number in each file. Banks
    /// from CUDA 12.0 to 12.2 have no flag that says that their number is one of a section.
    fn names_one_section(&self, line: &str) -> bool {
        let Some(rest) = line.strip_prefix("section.info  .nv.constant") else { return false };
        let numbers = rest.split_once("  ").and_then(|(_, numbers)| numbers.split_once(" != "));
        let name = |cubin: &Cubin<'_>, number: &str| {
            let number = u32::from_str_radix(number.strip_prefix("0x")?, 16).ok()?;
            cubin.section(SectionIndex(number)).map(|section| section.name.to_vec())
        };
        numbers.is_some_and(|(theirs, ours)| {
            let name_of_theirs = name(self.theirs, theirs);
            name_of_theirs.is_some() && name_of_theirs == name(self.ours, ours)
        })
    }

    /// culd's object with nvlink's early relocations applied.
    fn resolve(&mut self, actual: &[u8]) -> Result<Vec<u8>> {
        let mut image = actual.to_vec();
        for (index, section) in self.ours.sections.iter().enumerate() {
            if !section.is_reloc() && section.sh_type != sht::MERCURY_RELA {
                continue;
            }
            let target = section.info_section().and_then(|target| self.ours.section(target));
            let target = target.context("a relocation section without target")?;
            let mut kept = self.their_records(section).into_iter().peekable();
            let mut early = Vec::new();
            for (number, record) in section.relocations().iter().enumerate() {
                let symbol = self.ours.symbol(record.symbol);
                if kept.next_if(|kept| self.same(kept, &record)).is_some() {
                    continue;
                }
                let value = symbol.and_then(|symbol| self.early_value(symbol));
                if let Some(value) = value {
                    early.push((record, value));
                    self.early.insert((index, number));
                }
            }
            let start = target.data.as_ptr() as usize - actual.as_ptr() as usize;
            let place = image.get_mut(start..start + target.data.len());
            let place = place.context("the place of a section")?;
            if target.sh_type == sht::MERCURY_CODE {
                self.apply_stored(place, target, &early)?;
                continue;
            }
            for (record, value) in early {
                apply(place, section, record, value)?;
            }
        }
        Ok(image)
    }

    /// Applies records of Mercury code, which is stored compressed. Records of the machine code
    /// were applied before.
    fn apply_stored(
        &self,
        place: &mut [u8],
        target: &Section<'_>,
        early: &[(RelocEntry, RelocValue)],
    ) -> Result<()> {
        let capsule = Capsule::parse(target.name, target.data)?;
        let mercury: Vec<RelocEntry> = early.iter().map(|(record, _)| *record).collect();
        let counterparts = capmerc::counterparts(&self.early_records(capsule.code()), &mercury);
        let mut sites = Vec::with_capacity(early.len());
        for (&(record, value), counterpart) in early.iter().zip(counterparts) {
            let row = culd_reloc::lookup(record.kind).context("an unknown relocation type")?;
            let code = counterpart.context("a record of Mercury code alone")?.offset;
            let site = Site { code, mercury: record.offset, width: row.span_bytes() };
            sites.push((site, row, moved(value, record)));
        }
        sites.sort_by_key(|(site, ..)| site.code);
        let places: Vec<Site> = sites.iter().map(|(site, ..)| *site).collect();
        for (field, (_, row, value)) in capsule.fields(&places)?.into_iter().zip(sites) {
            if let Some(field) = field {
                row.apply(place, field.start, value).map_err(|error| anyhow::anyhow!("{error}"))?;
            }
        }
        Ok(())
    }

    /// The records of section `target` that nvlink has resolved.
    fn early_records(&self, target: SectionIndex) -> Vec<RelocEntry> {
        let sections = self.ours.sections.iter().enumerate();
        let sections = sections
            .filter(|(_, section)| section.is_reloc() && section.info_section() == Some(target));
        let records = sections.flat_map(|(index, section)| {
            let records: Vec<_> = section.relocations().iter().enumerate().collect();
            records.into_iter().map(move |(number, record)| ((index, number), record))
        });
        records.filter(|(place, _)| self.early.contains(place)).map(|(_, record)| record).collect()
    }

    /// nvlink's records of the same section. Sections of several local functions of one name have
    /// one name; the right one patches the same of them.
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

    /// The value that nvlink writes to places that name `symbol`; `None` for symbols whose records
    /// it keeps.
    fn early_value(&self, symbol: &Symbol<'_>) -> Option<RelocValue> {
        let section = symbol.defined_in().and_then(|section| self.ours.section(section));
        // nvlink takes the bank from the type of the symbol's section, even if it is no bank:
        // parameters that are references are in code.
        let section_type = section.map_or(sht::NULL, |section| section.sh_type);
        let no_bank = (section_type as u8).wrapping_sub(sht::CUDA_CONSTANT0 as u8);
        // In files with Mercury code, all constants without a bank are in that of variables.
        let classic = self.ours.mercury_symbols.is_empty();
        let missing_bank = if classic { no_bank } else { CONSTANT_VARIABLES };
        let slot_bank = if classic { no_bank } else { 0 };
        let (address, bank) = match (symbol.kind(), section) {
            (stt::FUNC, _) => return None,
            (stt::CUDA_TEXTURE | stt::CUDA_SAMPLER | stt::CUDA_SURFACE, _) => (0, slot_bank),
            (_, None) if symbol.is_shared() && symbol.size != 0 => (u64::MAX, 0),
            _ if symbol.is_shared() => (self.their_value(symbol), 0),
            (_, Some(section)) => (symbol.value, section.constant_bank()?),
            (_, None) if symbol.other & sto::INTERNAL != 0 => (symbol.value, 0),
            (_, None) if symbol.other & sto::SPACE == sto::SPACE_CONSTANT => {
                (u64::MAX, missing_bank)
            }
            (_, None) => return None,
        };
        Some(RelocValue { address, bank })
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
                // Of several equal names, any may be listed as missing.
                let words = ["missing", "section", "value", "size", "order"];
                let halves = ["", "mercury "];
                halves.into_iter().flat_map(move |half| {
                    let name = name.clone();
                    words.map(move |what| format!("symbol.{what}  {half}{name}"))
                })
            })
            .collect();
        if !starts.is_empty() {
            let counts = [
                "section.size  .symtab  ",
                "section.size  .nv.merc.symtab  ",
                "section.info  .symtab  ",
            ];
            starts.extend(counts.map(str::to_owned));
        }
        starts
    }

    /// The starts of lines about relocation sections that have another label in nvlink's object,
    /// which lacks one of the same name in front: all its records are early. Those that stay must
    /// patch the same sections with the same records (case syscalls/local-definitions with `-r`).
    fn labels_behind_early(&self, ours: &View<'_>) -> Vec<String> {
        let sections = || self.ours.sections.iter().enumerate().filter(|(_, one)| one.is_reloc());
        let kept = |(index, section): (usize, &Section<'_>)| -> Vec<RelocEntry> {
            let records = section.relocations().iter().enumerate();
            records
                .filter(|(number, _)| !self.early.contains(&(index, *number)))
                .map(|(_, record)| record)
                .collect()
        };
        let mut starts = Vec::new();
        for (first, gone) in sections().filter(|one| kept(*one).is_empty()) {
            let named = || sections().filter(|(_, other)| other.name == gone.name);
            let agrees = |one: (usize, &Section<'_>)| {
                let (own, theirs) = (kept(one), self.their_records(one.1));
                own.len() == theirs.len()
                    && theirs.iter().zip(&own).all(|(theirs, own)| self.same(theirs, own))
            };
            if named().any(|(index, _)| index > first) && named().all(agrees) {
                let base = ours.section(first as u32);
                starts.extend(["info", "order"].map(|what| format!("section.{what}  {base}  ")));
                starts.push(format!("reloc.missing  {base}+"));
                for (index, _) in named() {
                    let label = ours.section(index as u32);
                    starts.push(format!("section.extra  {label}  "));
                    starts.push(format!("reloc.extra  {label}+"));
                }
            }
        }
        starts
    }

    /// The starts of the lines that are allowed; empty if nothing may differ.
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
                // CUDA 13.5 writes only names of existing sections.
                starts.push(format!("string.extra  .shstrtab {name}  "));
                starts.push("header  sections  ".to_owned());
                if let Some(own) = name.strip_prefix(".nv.merc") {
                    // A name that the other half's section does not replace, and the string that
                    // remains after it.
                    starts.push(format!("string.missing  .shstrtab {own}  "));
                    starts.push("string.extra  .shstrtab \"\" ".to_owned());
                    starts.push("string.order  .shstrtab \"\" ".to_owned());
                }
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
        starts.extend(self.labels_behind_early(ours));
        let own = ours.symbols.iter().cloned();
        let mercury = ours.mercury_symbols.iter().map(|word| format!("mercury {word}"));
        let symbols = ours.cubin.symbols.iter().zip(own);
        for (symbol, word) in symbols.chain(ours.cubin.symbols.iter().zip(mercury)) {
            if is_extern_array(symbol) {
                starts.extend(extern_array(&word));
            } else if symbol.is_shared() && self.their_value(symbol) != symbol.value {
                // The alignment of a replaced weak variable.
                starts.push(format!("symbol.value  {word}  "));
            }
        }
        if !starts.is_empty() && !ours.mercury_symbols.is_empty() {
            // Consequences of sizes: gaps in front of sections, and names that both halves have.
            starts.push("section.gap  ".to_owned());
            starts.push("section.size  .shstrtab  ".to_owned());
            starts.push("string.extra  .shstrtab .nv.merc.rela".to_owned());
        }
        starts
    }
}

/// Kernels, and functions that can end a thread, that nvlink's finalizer rewrites even in an object
/// (docs/DIFFERENCES.md, kept-code).
#[derive(Default)]
struct RewrittenCode {
    /// Their names as the text form has them.
    names: Vec<String>,
    functions: Vec<Vec<u8>>,
    sections: Vec<usize>,
}

impl RewrittenCode {
    fn find(view: &View<'_>, inputs: &LinkObjects) -> Self {
        let mut found = RewrittenCode::default();
        let barriers = !view.cubin.mercury_symbols.is_empty() && has_barriers(&view.cubin);
        for (symbol, word) in view.cubin.symbols.iter().zip(&view.symbols) {
            let Some(section) = symbol.defined_in().filter(|_| symbol.is_function()) else {
                continue;
            };
            let ends = || {
                let code = view.cubin.section(section);
                symbol.is_entry() || code.is_some_and(|code| !exits_in(code.data).is_empty())
            };
            let bare = || {
                let code = view.cubin.section(section);
                barriers && code.is_some_and(|code| lacks_barrier(code.data))
            };
            if inputs.lacks_debug(symbol.name) && ends() || bare() {
                found.names.push(word.clone());
                found.functions.push(symbol.name.to_vec());
                found.sections.push(section.0 as usize);
            }
        }
        found
    }

    /// The sections of the code of these functions in another file.
    fn sections_in(&self, cubin: &Cubin<'_>) -> Vec<usize> {
        let functions: HashSet<&[u8]> = self.functions.iter().map(Vec::as_slice).collect();
        let same = cubin
            .symbols
            .iter()
            .filter(|symbol| symbol.is_function() && functions.contains(symbol.name));
        same.filter_map(Symbol::defined_in).map(|section| section.0 as usize).collect()
    }

    /// True for a line about an attribute with places in such code.
    fn places(&self, line: &str) -> bool {
        let rest = line.strip_prefix("attr  .nv.info.");
        let mut words = rest.map(|rest| rest.split(' ')).into_iter().flatten();
        let own = words.next().is_some_and(|name| self.names.iter().any(|own| own == name));
        own && words.next().is_some_and(|attribute| {
            attribute.ends_with("_OFFSETS") || attribute == "INDIRECT_BRANCH_TARGETS"
        })
    }

    /// The starts of the lines that are allowed.
    fn allowed(&self) -> Vec<String> {
        let of_kernel = |name: &String| {
            [
                format!("section.size  .text.{name}  "),
                format!("section.size  .nv.capmerc.text.{name}  "),
                format!("symbol.size  {name}  "),
                format!("record.missing  .nv.capmerc.text.{name}+"),
                format!("record.extra  .nv.capmerc.text.{name}+"),
                format!("record.kind  .nv.capmerc.text.{name}+"),
                format!("record.bytes  .nv.capmerc.text.{name}+"),
                format!("bytes  .text.{name}+"),
                format!("reloc.missing  .rela.text.{name}+"),
                format!("reloc.extra  .rela.text.{name}+"),
                // Another record may have moved to the place of one (CUB's kernels with -g).
                format!("reloc.type  .rela.text.{name}+"),
                format!("reloc.symbol  .rela.text.{name}+"),
                format!("reloc.addend  .rela.text.{name}+"),
            ]
        };
        let debug = OF_DEBUG.iter().filter(|_| !self.names.is_empty());
        let debug = debug.map(|&start| start.to_owned());
        self.names.iter().flat_map(of_kernel).chain(debug).collect()
    }
}

/// True for a line about control bits of an instruction of a jump slot.
fn is_slot(line: &str) -> bool {
    let rows = line.strip_prefix("bytes  .nv.uft.rel.").and_then(|rest| rest.split_once("  "));
    let rows = rows.and_then(|(_, rows)| rows.split_once(" != "));
    // All but the last three bytes.
    rows.is_some_and(|(theirs, ours)| theirs.len() == 32 && theirs.get(..26) == ours.get(..26))
}

fn is_extern_array(symbol: &Symbol<'_>) -> bool {
    symbol.is_shared() && symbol.defined_in().is_none() && symbol.size == 0
}

/// The starts of lines about an array without size: nvlink defines it, and kernels refer to another
/// symbol.
fn extern_array(word: &str) -> [String; 26] {
    [
        "symbol.missing  mercury .nv.shared.".to_owned(),
        format!("symbol.missing  mercury {EXTERN_INSTANCE}"),
        "reloc.symbol  .nv.merc.rela".to_owned(),
        "section.size  .nv.merc.symtab  ".to_owned(),
        "section.info  .symtab  globals from ".to_owned(),
        format!("symbol.section  {word}  .nv_debug.shared != undef"),
        format!("symbol.value  {word}  "),
        // The alignment of shared memory without a variable (LINKING.md, shared memory).
        "symbol.value  \"\"  ".to_owned(),
        "symbol.value  mercury \"\"  ".to_owned(),
        format!("symbol.missing  {EXTERN_INSTANCE}"),
        format!("string.missing  .strtab {EXTERN_INSTANCE}  "),
        "reloc.symbol  .rel".to_owned(),
        "section.size  .strtab  ".to_owned(),
        "section.size  .shstrtab  ".to_owned(),
        "string.missing  .shstrtab .nv.shared.".to_owned(),
        // CUDA 13.5 only, where missing sections leave no name.
        "string.missing  .shstrtab .nv_debug.shared  ".to_owned(),
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

/// The value with the record's addend.
fn moved(value: RelocValue, record: RelocEntry) -> RelocValue {
    RelocValue { address: value.address.wrapping_add_signed(record.addend), ..value }
}

/// Applies one record to the bytes of the section it patches.
fn apply(
    place: &mut [u8],
    section: &Section<'_>,
    record: RelocEntry,
    value: RelocValue,
) -> Result<()> {
    let row = culd_reloc::lookup(record.kind).context("an unknown relocation type")?;
    let (offset, value) = (record.offset as usize, moved(value, record));
    let done = match section.sh_type {
        sht::REL => row.add(place, offset, value),
        _ => row.apply(place, offset, value),
    };
    done.map_err(|error| anyhow::anyhow!("{error}"))
}
