//! Debug sections of machine code, which are made anew for the functions that are left.
//!
//! In: the merged draft and the inputs' sections. Out: [`Rebuilt`]: their contents, and where every byte of
//! the inputs went. Mercury's own debug sections are copied whole, dead functions included; in the other half
//! these are only what a live function needs (docs/MERCURY.md, debug sections).

mod frames;
mod lines;
mod registers;

use std::sync::OnceLock;

use culd_cubin::arch::Flavour;
use culd_cubin::elf::{sht, stt};
use culd_cubin::{Malformed, Section, SectionIndex, SymbolIndex};
use hashbrown::{HashMap, HashSet};

use super::Half;
use crate::Session;
use crate::callgraph::CallGraph;
use crate::diag::Message;
use crate::draft::{Draft, Kind};
use crate::id::{IdVec, ObjectId, OutSymbolId, SectionId, SymbolId};
use crate::merge::{self, Merged};
use crate::objects::{Object, Objects, Role};
use crate::program::Placed;
use crate::symbols::{Fate, Site, Symbols};

pub(crate) use self::frames::Frames;

/// `R_CUDA_64`: what machine code has for the addresses of functions.
pub(crate) const ADDRESS: u32 = 2;

/// `R_MERCURY_ABS_PROG_REL64`: the same in Mercury.
const MERCURY_ADDRESS: u32 = 0x1003d;

/// What the machine code's half has in place of copies.
#[derive(Debug, Default)]
pub(crate) struct Rebuilt {
    sections: Vec<(SectionId, Vec<u8>)>,
    pieces: HashMap<(ObjectId, SectionIndex), Vec<Piece>>,
    /// Where the headers of units in Mercury's tables of lines have their twins.
    headers: HashMap<(ObjectId, SectionIndex), Vec<Piece>>,
    lines: Vec<SectionId>,
    frames: Option<SectionId>,
}

/// Bytes of an input section and where they start in the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    from: u64,
    end: u64,
    to: u64,
}

/// Where byte `offset` went.
pub(crate) fn moved(pieces: &[Piece], offset: u64) -> Option<u64> {
    Cursor::default().moved(pieces, offset)
}

/// The place in a list of pieces where the last byte was found: the next one is often behind it.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// How many pieces start no later than the last byte.
    at: usize,
    last: Option<u64>,
}

impl Cursor {
    /// Where byte `offset` went; `pieces` are always the same.
    pub(crate) fn moved(&mut self, pieces: &[Piece], offset: u64) -> Option<u64> {
        if self.last.is_some_and(|last| last <= offset) {
            let rest = &pieces[self.at..];
            // Most are in the same piece or in the next.
            self.at += match rest {
                [_, second, ..] if second.from <= offset => {
                    rest.partition_point(|piece| piece.from <= offset)
                }
                [next, ..] if next.from <= offset => 1,
                _ => 0,
            };
        } else {
            self.at = pieces.partition_point(|piece| piece.from <= offset);
        }
        self.last = Some(offset);
        let piece = pieces.get(self.at.checked_sub(1)?)?;
        (offset < piece.end).then(|| piece.to + (offset - piece.from))
    }
}

impl Rebuilt {
    /// True for sections that [`Rebuilt::pieces`] has the bytes of.
    pub(crate) fn contains(&self, section: SectionId) -> bool {
        self.is_frames(section) || self.is_lines(section)
    }

    /// True for a table of lines: nvlink lists its records by place.
    pub(crate) fn is_lines(&self, section: SectionId) -> bool {
        self.lines.contains(&section)
    }

    /// True for `.debug_frame`, whose records are made of Mercury's: [`Rebuilt::pieces`] has their places, and
    /// what entries say of each other is set.
    pub(crate) fn is_frames(&self, section: SectionId) -> bool {
        self.frames == Some(section)
    }

    /// The bytes of an input section that are in the output; [`moved`] finds where one is.
    pub(crate) fn pieces(&self, object: ObjectId, section: SectionIndex) -> &[Piece] {
        self.pieces.get(&(object, section)).map_or(&[], Vec::as_slice)
    }

    /// Where byte `offset` of the Mercury half of a table of lines has its twin, if it is in a unit's header:
    /// these are equal once they are patched.
    pub(crate) fn header(
        &self,
        object: ObjectId,
        section: SectionIndex,
        offset: u64,
    ) -> Option<u64> {
        moved(self.headers.get(&(object, section))?, offset)
    }

    /// The contents that take the place of copies.
    pub(crate) fn into_contents(self) -> impl Iterator<Item = (SectionId, Vec<u8>)> {
        self.sections.into_iter()
    }

    /// Bytes of what takes the place of copies in `section`.
    pub(crate) fn size(&self, section: SectionId) -> Option<u64> {
        let own = self.sections.iter().find(|own| own.0 == section);
        own.map(|own| own.1.len() as u64)
    }

    /// Gives their sections the sizes of these contents.
    pub(crate) fn set_sizes(&self, draft: &mut Draft<'_>) {
        for (section, bytes) in &self.sections {
            draft.sections[*section].size = bytes.len() as u64;
        }
    }

    /// Makes all of them; none in a program without Mercury. Errors: an input section that is no table of its kind.
    pub(crate) fn build<'d>(
        session: &Session,
        program: Placed<'_, 'd>,
        frames: Frames<'d>,
    ) -> Result<Self, Message> {
        let mut rebuilt = Rebuilt::default();
        if program.options.target.flavour != Flavour::Mercury {
            return Ok(rebuilt);
        }
        let builder = Builder::new(program);
        if let Some(made) = frames::build(session, &builder, frames)? {
            rebuilt.frames = Some(made.section);
            rebuilt.sections.push((made.section, made.bytes));
            rebuilt.pieces.extend(made.pieces);
        }
        for name in [&b".debug_line"[..], b".nv_debug_line_sass"] {
            let Some((section, out)) = builder.section(name, lines::append)? else { continue };
            rebuilt.lines.push(section);
            rebuilt.sections.push((section, out.bytes));
            rebuilt.pieces.extend(out.pieces);
            rebuilt.headers.extend(out.headers);
        }
        if let Some((section, out)) =
            builder.section(b".nv_debug_info_reg_sass", registers::append)?
        {
            rebuilt.sections.push((section, out.bytes));
        }
        Ok(rebuilt)
    }
}

/// What the sections are made of.
struct Builder<'a, 'd> {
    objects: &'a Objects<'d>,
    symbols: &'a Symbols,
    graph: &'a CallGraph,
    merged: &'a Merged<'d>,
    /// Place of every symbol in the output's table, those that are left out counted, once one is asked for.
    ranks: OnceLock<IdVec<OutSymbolId, u32>>,
    /// The first symbol of each code section.
    first_names: IdVec<SectionId, Option<OutSymbolId>>,
    /// All input sections of debug information that are in the output, and where they went.
    debug: Vec<(ObjectId, SectionIndex, SectionId)>,
}

/// One input section on its way.
struct Input<'a, 'd> {
    builder: &'a Builder<'a, 'd>,
    id: ObjectId,
    index: SectionIndex,
    object: &'a Object<'d>,
    section: &'a Section<'d>,
    /// (place, function) of the addresses of functions in it, by place.
    functions: Vec<(u64, SymbolIndex)>,
}

/// The output section so far.
#[derive(Default)]
struct Output<'d> {
    bytes: Vec<u8>,
    pieces: HashMap<(ObjectId, SectionIndex), Vec<Piece>>,
    headers: HashMap<(ObjectId, SectionIndex), Vec<Piece>>,
    /// Names of functions that have been seen.
    names: HashSet<&'d [u8]>,
}

type Append = for<'a, 'd> fn(&Input<'a, 'd>, &mut Output<'d>) -> Result<(), Malformed>;

impl<'a, 'd> Builder<'a, 'd> {
    fn new(program: Placed<'a, 'd>) -> Self {
        let Placed { objects, symbols, graph, merged, .. } = program;
        let draft = &merged.draft;
        let first_names = first_names(draft);
        let mut debug = Vec::new();
        for (id, object) in objects.iter() {
            let roles = object.cubin.section_indices().zip(&object.roles);
            for ((index, _), _) in roles.filter(|(_, role)| **role == Role::Debug) {
                if let merge::Placed::At { section, .. } = merged.placed(id, index) {
                    debug.push((id, index, section));
                }
            }
        }
        let ranks = OnceLock::new();
        Builder { objects, symbols, graph, merged, ranks, first_names, debug }
    }

    /// All input sections called `name` that are in the output, and where they went.
    fn inputs(&self, name: &[u8]) -> Vec<(ObjectId, SectionIndex, SectionId)> {
        let is_called = |id: ObjectId, index| self.objects[id].section(index).name == name;
        self.debug.iter().copied().filter(|&(id, index, _)| is_called(id, index)).collect()
    }

    /// Makes the output section called `name`, if there is one.
    fn section(
        &self,
        name: &[u8],
        append: Append,
    ) -> Result<Option<(SectionId, Output<'d>)>, Message> {
        let inputs = self.inputs(name);
        let Some(&(.., target)) = inputs.first() else { return Ok(None) };
        let mut out = Output::default();
        for (id, index, _) in inputs {
            let object = &self.objects[id];
            let section = object.section(index);
            let functions = functions(object, index, Half::Sass);
            let input = Input { builder: self, id, index, object, section, functions };
            append(&input, &mut out)
                .map_err(|defect| Message::Malformed { file: object.name.to_owned(), defect })?;
        }
        Ok(Some((target, out)))
    }

    /// True when records of this file about a function count.
    fn is_live(&self, id: ObjectId, function: SymbolIndex) -> bool {
        let Some(program) = self.symbols.of(id, function) else { return false };
        let void = self.merged.void_debug.get(&program).is_some_and(|&by| id < by);
        let alive = self.graph.node(program).is_some();
        alive && !void && self.symbols.fate(id, function) != Fate::Lost
    }

    /// The symbol of a function and its definition, if its code goes by that name in the output.
    fn definition(&self, id: ObjectId, function: SymbolIndex) -> Option<(SymbolId, Site)> {
        let program = self.symbols.of(id, function)?;
        let out = self.merged.out_symbol(program)?;
        let code = self.merged.draft.symbols[out].section?;
        let first = self.first_names[code] == Some(out);
        let site = self.symbols.all[program].definition.filter(|_| first)?;
        Some((program, site))
    }

    /// Where the jump slot that `function` is starts in the table, and bytes of the table.
    fn slot(&self, id: ObjectId, function: SymbolIndex) -> Option<(u64, u64)> {
        let draft = &self.merged.draft;
        let symbol = &draft.symbols[self.merged.out_symbol(self.symbols.of(id, function)?)?];
        let table = &draft.sections[symbol.section?];
        let is_slot = table.kind == Kind::JumpSlots && !draft.relocatable;
        is_slot.then_some((symbol.value, table.size))
    }

    /// Place of a function in the output's symbol table.
    fn rank(&self, id: ObjectId, function: SymbolIndex) -> u32 {
        let out = self.symbols.of(id, function).and_then(|program| self.merged.out_symbol(program));
        let ranks = self.ranks.get_or_init(|| {
            let draft = &self.merged.draft;
            let mut ranks = IdVec::filled(u32::MAX, draft.symbols.len());
            for (&symbol, rank) in draft.locals.iter().chain(&draft.globals).zip(0..) {
                ranks[symbol] = rank;
            }
            ranks
        });
        out.map_or(u32::MAX, |out| ranks[out])
    }
}

/// The symbol by which nvlink's finalizer knows each code section: the first of it, by 13.5 its function (case
/// alias/other-file).
pub(crate) fn first_names(draft: &Draft<'_>) -> IdVec<SectionId, Option<OutSymbolId>> {
    let mut first = IdVec::filled(None, draft.sections.len());
    for &id in draft.locals.iter().chain(&draft.globals) {
        let symbol = &draft.symbols[id];
        if let (stt::FUNC, Some(section)) = (symbol.info & 15, symbol.section) {
            // Of all jump slots it is that at the start of the table (case unified/called).
            let code = &draft.sections[section];
            let counts = match code.kind {
                Kind::JumpSlots => symbol.value == 0,
                _ if draft.dialect.knows_code_by_function => {
                    code.function.is_none_or(|own| own == id)
                }
                _ => true,
            };
            if !counts {
                continue;
            }
            first[section].get_or_insert(id);
        }
    }
    first
}

/// (place, function) of the addresses of functions that the records of a half put into section `target`, by place.
fn functions(object: &Object<'_>, target: SectionIndex, half: Half) -> Vec<(u64, SymbolIndex)> {
    let (role, kind) = match half {
        Half::Sass => (Role::Twin, ADDRESS),
        Half::Mercury => (Role::Reloc, MERCURY_ADDRESS),
    };
    let mut functions = Vec::new();
    for (_, section) in
        object.roles.iter().zip(&object.cubin.sections).filter(|(is, _)| **is == role)
    {
        if section.sh_type != sht::RELA || section.info_section() != Some(target) {
            continue;
        }
        let records = section.relocations();
        // One of the three records about an entry.
        functions.reserve(records.len() / 3);
        // ptxas writes records from the last to the first.
        records.iter().rev().for_each(|record| {
            if record.kind == kind && object.symbol(record.symbol).is_function() {
                functions.push((record.offset, record.symbol));
            }
        });
    }
    functions.sort_unstable();
    functions
}

impl Input<'_, '_> {
    fn is_live(&self, function: SymbolIndex) -> bool {
        self.builder.is_live(self.id, function)
    }

    /// The functions whose addresses are in bytes `from..end`.
    fn functions_in(&self, from: usize, end: usize) -> &[(u64, SymbolIndex)] {
        let at = |offset: usize| self.functions.partition_point(|entry| entry.0 < offset as u64);
        self.functions.get(at(from)..at(end)).unwrap_or_default()
    }

    fn defect(&self, at: usize, what: &'static str) -> Malformed {
        Malformed::section(self.section.name, at as u64, what)
    }
}

/// The number of `N` bytes at `at`, little endian.
fn number<const N: usize>(data: &[u8], at: usize) -> Option<usize> {
    let bytes = data.get(at..at.checked_add(N)?)?;
    let value = bytes.iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte));
    usize::try_from(value).ok()
}
