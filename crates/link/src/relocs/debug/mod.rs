//! Debug sections of machine code, rebuilt with the functions that are in the output.
//!
//! In: the merged draft and the inputs' sections. Out: [`RebuiltDebug`]: the contents, and the new
//! offset of every copied byte. The Mercury half's debug sections are copied whole, dead functions
//! included. The machine code's contain only what live functions need (docs/MERCURY.md, debug
//! sections).

pub(crate) mod frames;
mod lines;
mod registers;

use std::sync::OnceLock;

use culd_cubin::arch::Flavour;
use culd_cubin::elf::sht;
use culd_cubin::{Malformed, Section, SectionIndex, SymbolIndex};
use hashbrown::{HashMap, HashSet};

use self::frames::{DebugFrames, FrameSection};
use crate::base::half::Half;
use crate::base::id::{IdVec, ObjectId, OutSymbolId, SectionId, SymbolId};
use crate::base::session::Session;
use crate::callgraph::CallGraph;
use crate::diag::Message;
use crate::draft::kind::SectionKind;
use crate::draft::merged::{self, MergeResult};
use crate::draft::offset_map::{MovedRange, translate};
use crate::draft::{Draft, first_names};
use crate::objects::InputObjects;
use crate::objects::object::InputObject;
use crate::objects::roles::SectionRole;
use crate::program::LaidOutProgram;
use crate::symbols::{Fate, SymbolSite, Symbols};

/// `R_CUDA_64`: the type for addresses of functions in machine code.
pub(crate) const ADDRESS: u32 = 2;

/// `R_MERCURY_ABS_PROG_REL64`: the same in the Mercury half.
const MERCURY_ADDRESS: u32 = 0x1003d;

/// A section of an input file.
type InputSection = (ObjectId, SectionIndex);

/// The new places of ranges of input sections.
type MovedRanges = HashMap<InputSection, Vec<MovedRange>>;

/// An input debug section that is in the output.
#[derive(Clone, Copy)]
struct DebugSection {
    object: ObjectId,
    index: SectionIndex,
    output: SectionId,
}

/// A place in a debug section that holds the address of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FunctionAddress {
    /// Bytes.
    offset: u64,
    function: SymbolIndex,
}

/// The place of a jump slot.
#[derive(Debug, Clone, Copy)]
struct SlotPlace {
    /// Bytes from the start of the table of jump slots.
    offset: u64,
    /// Bytes of the table.
    table_size: u64,
}

/// The rebuilt debug sections of the machine code.
#[derive(Debug, Default)]
pub(crate) struct RebuiltDebug {
    sections: Vec<(SectionId, Vec<u8>)>,
    copied: MovedRanges,
    /// New places of unit headers in line tables, by their offsets in the Mercury half.
    headers: MovedRanges,
    lines: Vec<SectionId>,
    frames: Option<SectionId>,
}

impl RebuiltDebug {
    /// True for a section whose moved ranges [`RebuiltDebug::copied`] has.
    pub(crate) fn contains(&self, section: SectionId) -> bool {
        self.is_frames(section) || self.is_lines(section)
    }

    /// True for a line table. nvlink sorts its records by offset.
    pub(crate) fn is_lines(&self, section: SectionId) -> bool {
        self.lines.contains(&section)
    }

    /// True for `.debug_frame`. Its records are derived from those of the Mercury half,
    /// [`RebuiltDebug::copied`] has their places, and references between entries are already set.
    pub(crate) fn is_frames(&self, section: SectionId) -> bool {
        self.frames == Some(section)
    }

    /// The ranges of an input section that are in the output; [`translate`] gives the new offset of
    /// a byte.
    pub(crate) fn copied(&self, object: ObjectId, section: SectionIndex) -> &[MovedRange] {
        self.copied.get(&(object, section)).map_or(&[], Vec::as_slice)
    }

    /// The place in the machine code's line table for byte `offset` of the Mercury half's, if that
    /// is in a unit's header. Both headers are equal after relocation.
    pub(crate) fn header(
        &self,
        object: ObjectId,
        section: SectionIndex,
        offset: u64,
    ) -> Option<u64> {
        translate(self.headers.get(&(object, section))?, offset)
    }

    /// The rebuilt contents.
    pub(crate) fn into_contents(self) -> impl Iterator<Item = (SectionId, Vec<u8>)> {
        self.sections.into_iter()
    }

    /// Bytes of the rebuilt contents of `section`.
    pub(crate) fn size(&self, section: SectionId) -> Option<u64> {
        let own = self.sections.iter().find(|own| own.0 == section);
        own.map(|own| own.1.len() as u64)
    }

    /// Sets the sizes of the rebuilt sections.
    pub(crate) fn set_sizes(&self, draft: &mut Draft<'_>) {
        for (section, bytes) in &self.sections {
            draft.sections[*section].size = bytes.len() as u64;
        }
    }

    /// Rebuilds all of them; none in a program without a Mercury half.
    ///
    /// # Errors
    /// An input section is malformed as a table of its kind.
    pub(crate) fn build<'d>(
        session: &Session,
        program: LaidOutProgram<'_, 'd>,
        frames: DebugFrames<'d>,
    ) -> Result<Self, Message> {
        let mut rebuilt = RebuiltDebug::default();
        if program.options.target.flavour != Flavour::Mercury {
            return Ok(rebuilt);
        }
        let builder = DebugBuilder::new(program);
        if let Some(FrameSection { section, bytes, copied }) =
            frames::build(session, &builder, frames)?
        {
            rebuilt.frames = Some(section);
            rebuilt.sections.push((section, bytes));
            rebuilt.copied.extend(copied);
        }
        for name in [&b".debug_line"[..], b".nv_debug_line_sass"] {
            let Some((section, out)) = builder.section(name, lines::append)? else { continue };
            rebuilt.lines.push(section);
            rebuilt.sections.push((section, out.bytes));
            rebuilt.copied.extend(out.copied);
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

/// The sources of the rebuilt sections.
struct DebugBuilder<'a, 'd> {
    objects: &'a InputObjects<'d>,
    symbols: &'a Symbols,
    graph: &'a CallGraph,
    merged: &'a MergeResult<'d>,
    /// Place of every symbol in the order of the output's symbol table, dropped symbols included;
    /// computed on first use.
    ranks: OnceLock<IdVec<OutSymbolId, u32>>,
    /// The first symbol of each code section, see [`first_names`].
    first_names: IdVec<SectionId, Option<OutSymbolId>>,
    /// All input debug sections that are in the output.
    debug: Vec<DebugSection>,
}

/// An input section that is being copied.
struct DebugInput<'a, 'd> {
    builder: &'a DebugBuilder<'a, 'd>,
    id: ObjectId,
    index: SectionIndex,
    object: &'a InputObject<'d>,
    section: &'a Section<'d>,
    /// The addresses of functions in it, by offset.
    functions: Vec<FunctionAddress>,
}

/// The rebuilt section so far.
#[derive(Default)]
struct DebugOutput<'d> {
    bytes: Vec<u8>,
    copied: MovedRanges,
    headers: MovedRanges,
    /// Names of functions seen so far.
    names: HashSet<&'d [u8]>,
}

type AppendSection =
    for<'a, 'd> fn(&DebugInput<'a, 'd>, &mut DebugOutput<'d>) -> Result<(), Malformed>;

impl<'a, 'd> DebugBuilder<'a, 'd> {
    fn new(program: LaidOutProgram<'a, 'd>) -> Self {
        let LaidOutProgram { objects, symbols, graph, merged, .. } = program;
        let draft = &merged.draft;
        let first_names = first_names(draft);
        let mut debug = Vec::new();
        for (id, object) in objects.iter() {
            let roles = object.cubin.section_indices().zip(&object.roles);
            for ((index, _), _) in roles.filter(|(_, role)| **role == SectionRole::Debug) {
                if let merged::SectionPlacement::At { section, .. } = merged.placement(id, index) {
                    debug.push(DebugSection { object: id, index, output: section });
                }
            }
        }
        let ranks = OnceLock::new();
        DebugBuilder { objects, symbols, graph, merged, ranks, first_names, debug }
    }

    /// All input sections called `name` that are in the output.
    fn inputs(&self, name: &[u8]) -> Vec<DebugSection> {
        let is_called =
            |input: &DebugSection| self.objects[input.object].section(input.index).name == name;
        self.debug.iter().copied().filter(is_called).collect()
    }

    /// Rebuilds the output section called `name`, if there is one.
    fn section(
        &self,
        name: &[u8],
        append: AppendSection,
    ) -> Result<Option<(SectionId, DebugOutput<'d>)>, Message> {
        let inputs = self.inputs(name);
        let Some(&DebugSection { output, .. }) = inputs.first() else { return Ok(None) };
        let mut out = DebugOutput::default();
        for DebugSection { object: id, index, .. } in inputs {
            let object = &self.objects[id];
            let section = object.section(index);
            let functions = functions(object, index, Half::Sass);
            let input = DebugInput { builder: self, id, index, object, section, functions };
            append(&input, &mut out).map_err(|defect| Message::malformed(object.name, defect))?;
        }
        Ok(Some((output, out)))
    }

    /// True if this file's debug information about a function is in the output.
    fn is_live(&self, id: ObjectId, function: SymbolIndex) -> bool {
        let Some(program) = self.symbols.of(id, function) else { return false };
        let replaced_by = self.merged.discarded_debug.get(&program);
        let is_discarded = replaced_by.is_some_and(|&by| id < by);
        let alive = self.graph.node(program).is_some();
        alive && !is_discarded && self.symbols.fate(id, function) != Fate::Lost
    }

    /// The program symbol of a function and its definition, if it is the first name of its code in
    /// the output.
    fn definition(&self, id: ObjectId, function: SymbolIndex) -> Option<(SymbolId, SymbolSite)> {
        let program = self.symbols.of(id, function)?;
        let out = self.merged.out_symbol(program)?;
        let code = self.merged.draft.symbols[out].section?;
        let first = self.first_names[code] == Some(out);
        let site = self.symbols.all[program].definition.filter(|_| first)?;
        Some((program, site))
    }

    /// The place of `function`, if it is a jump slot.
    fn slot(&self, id: ObjectId, function: SymbolIndex) -> Option<SlotPlace> {
        let draft = &self.merged.draft;
        let symbol = &draft.symbols[self.merged.out_symbol(self.symbols.of(id, function)?)?];
        let table = &draft.sections[symbol.section?];
        let is_slot = table.kind == SectionKind::JumpSlots && !draft.relocatable;
        is_slot.then_some(SlotPlace { offset: symbol.value, table_size: table.size })
    }

    /// Place of a function in the order of the output's symbol table.
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

/// The addresses of functions that the records of a half put into section `target`, by offset.
fn functions(object: &InputObject<'_>, target: SectionIndex, half: Half) -> Vec<FunctionAddress> {
    let (role, kind) = match half {
        Half::Sass => (SectionRole::Counterpart, ADDRESS),
        Half::Mercury => (SectionRole::Reloc, MERCURY_ADDRESS),
    };
    let mut functions = Vec::new();
    for (_, section) in
        object.roles.iter().zip(&object.cubin.sections).filter(|(is, _)| **is == role)
    {
        if section.sh_type != sht::RELA || section.info_section() != Some(target) {
            continue;
        }
        let records = section.relocations();
        // Each entry has three records, one of them with the address.
        functions.reserve(records.len() / 3);
        // ptxas writes records from the last to the first.
        records.iter().rev().for_each(|record| {
            if record.kind == kind && object.symbol(record.symbol).is_function() {
                functions.push(FunctionAddress { offset: record.offset, function: record.symbol });
            }
        });
    }
    functions.sort_unstable();
    functions
}

impl DebugInput<'_, '_> {
    fn is_live(&self, function: SymbolIndex) -> bool {
        self.builder.is_live(self.id, function)
    }

    /// The functions whose addresses are in bytes `from..end`.
    fn functions_in(&self, from: usize, end: usize) -> &[FunctionAddress] {
        let at = |offset: usize| {
            self.functions.partition_point(|address| address.offset < offset as u64)
        };
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
