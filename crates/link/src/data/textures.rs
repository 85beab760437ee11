//! Phase `data`: slots for legacy texture, sampler and surface references.
//!
//! In: the merged draft. Out: [`TextureSlots`]. Each reference of the program has a 32-bit slot.
//! The slots follow the largest parameter bank, in the bank of every entry whose code needs one.
//! Relocation sections name the slots that the driver fills (cases textures/*).

use culd_cubin::arch::Flavour;
use culd_cubin::elf::stt;
use culd_reloc::{ReferenceTreatment, RelocDesc};
use hashbrown::HashMap;

use super::texture_banks::{self, SlotRange, TextureBank};
use crate::base::half::Half;
use crate::base::id::{IdVec, NodeId, OutSymbolId, SectionId};
use crate::base::sort::list_sort;
use crate::callgraph::CallGraph;
use crate::diag::Message;
use crate::draft::Draft;
use crate::draft::merged::MergeResult;
use crate::objects::InputObjects;
use crate::symbols::{Fate, Symbols};

/// A kind of reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReferenceKind {
    Texture,
    Sampler,
    Surface,
}

impl ReferenceKind {
    /// In the order in which nvlink sorts them.
    const ALL: [ReferenceKind; 3] =
        [ReferenceKind::Texture, ReferenceKind::Sampler, ReferenceKind::Surface];

    /// The type of its symbols.
    fn symbol_type(self) -> u8 {
        match self {
            ReferenceKind::Texture => stt::CUDA_TEXTURE,
            ReferenceKind::Sampler => stt::CUDA_SAMPLER,
            ReferenceKind::Surface => stt::CUDA_SURFACE,
        }
    }

    /// The type of the record that the driver reads to fill a slot. In files with a Mercury half,
    /// machine code has another type for samplers (case textures/samplers).
    fn relocation_type(self, half: Half, with_mercury: bool) -> u32 {
        match (half, self) {
            (Half::Sass, ReferenceKind::Texture) => 6,
            (Half::Sass, ReferenceKind::Sampler) if with_mercury => 101,
            (Half::Sass, ReferenceKind::Sampler) => 7,
            (Half::Sass, ReferenceKind::Surface) => 52,
            (Half::Mercury, ReferenceKind::Texture) => 0x1000b,
            (Half::Mercury, ReferenceKind::Sampler) => 0x1000c,
            (Half::Mercury, ReferenceKind::Surface) => 0x1000d,
        }
    }
}

/// A texture, sampler or surface reference of the program.
#[derive(Debug, Clone, Copy)]
struct Reference {
    symbol: OutSymbolId,
    kind: ReferenceKind,
}

/// The record that the driver reads to fill a slot.
pub(crate) struct SlotRecord {
    /// Bytes from the start of the section of slots in its half.
    pub(crate) offset: u64,
    /// Relocation type.
    pub(crate) relocation_type: u32,
}

/// The slot of one reference in the parameter banks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextureSlot {
    pub(crate) symbol: OutSymbolId,
    kind: ReferenceKind,
    /// Bytes from the start of the bank.
    pub(crate) offset: u64,
    /// The code of the entry whose parameter the reference is; `None` for references of the whole
    /// program.
    owner: Option<SectionId>,
}

/// The kinds of reference for which the code of an entry needs slots.
#[derive(Debug, Clone, Copy, Default)]
struct SlotKinds {
    textures: bool,
    samplers: bool,
    surfaces: bool,
}

impl SlotKinds {
    /// The kind of references with this symbol type.
    fn of(symbol_type: u8) -> Self {
        SlotKinds {
            textures: symbol_type == stt::CUDA_TEXTURE,
            samplers: symbol_type == stt::CUDA_SAMPLER,
            surfaces: symbol_type == stt::CUDA_SURFACE,
        }
    }

    fn or(self, other: Self) -> Self {
        SlotKinds {
            textures: self.textures || other.textures,
            samplers: self.samplers || other.samplers,
            surfaces: self.surfaces || other.surfaces,
        }
    }

    fn any(self) -> bool {
        self.textures || self.samplers || self.surfaces
    }

    /// Whether the driver fills the slots of a kind for an entry. An entry that uses a surface gets
    /// the slots of all kinds; slots of surfaces are filled for every entry (case
    /// textures/kinds-used).
    fn filled(self, kind: ReferenceKind) -> bool {
        match kind {
            ReferenceKind::Texture => self.textures || self.surfaces,
            ReferenceKind::Sampler => self.samplers || self.surfaces,
            ReferenceKind::Surface => true,
        }
    }
}

/// An entry with slots in its parameter bank.
pub(crate) struct SlotUser {
    pub(crate) entry: NodeId,
    uses: SlotKinds,
    /// The entry's code section.
    code: SectionId,
    /// The relocation section of its parameter bank.
    pub(crate) relocs: SectionId,
}

/// The slots of all references, and the entries that use them.
#[derive(Default)]
pub(crate) struct TextureSlots {
    slots: Vec<TextureSlot>,
    offsets: HashMap<OutSymbolId, u64>,
    /// Where slots start in bank 0 of machine code, bytes. In the Mercury half they have a section
    /// of their own, which starts with slot 0.
    base: u64,
    /// The program has references, and the file has a Mercury half, in which the slots have
    /// sections of their own.
    with_mercury: bool,
    /// In node order.
    pub(crate) users: Vec<SlotUser>,
}

impl TextureSlots {
    /// Slots for the references of `order`, from byte `base` of bank 0 on; without users yet.
    fn new(draft: &Draft<'_>, order: &[Reference], base: u64) -> Self {
        let slot = |(&Reference { symbol, kind }, offset): (&Reference, u64)| TextureSlot {
            symbol,
            kind,
            offset,
            owner: draft.symbols[symbol].section,
        };
        let slots: Vec<TextureSlot> = order.iter().zip((base..).step_by(4)).map(slot).collect();
        let offsets = slots.iter().map(|slot| (slot.symbol, slot.offset)).collect();
        let with_mercury = draft.flavour == Flavour::Mercury;
        TextureSlots { slots, offsets, base, with_mercury, users: Vec::new() }
    }

    /// The offset of a reference's slot: from the start of bank 0 in machine code, from the first
    /// slot in the Mercury half.
    pub(crate) fn offset(&self, symbol: OutSymbolId, half: Half) -> u64 {
        let offset = self.offsets.get(&symbol).copied().unwrap_or_default();
        match half {
            Half::Sass => offset,
            Half::Mercury => offset.saturating_sub(self.base),
        }
    }

    /// The value of a relocation with `desc` against a reference. In files with a Mercury half, a
    /// type for a place in a bank gives the offset in the bank, every other type the offset from
    /// the first slot (case textures/in-registers).
    pub(crate) fn value(&self, symbol: OutSymbolId, half: Half, desc: &RelocDesc) -> u64 {
        let number = self.with_mercury && !desc.has_bank();
        self.offset(symbol, if number { Half::Mercury } else { half })
    }

    /// Where slots start in machine code, bytes from the start of bank 0; `None` if there are no
    /// slots or no Mercury half.
    pub(crate) fn start_with_mercury(&self) -> Option<u64> {
        self.with_mercury.then_some(self.base)
    }

    /// With `-r`, the value that nvlink writes into machine code for a reference whose record is
    /// kept: the present start of the slots for a place in a bank, 0 for any other type (case
    /// textures/in-registers with -r).
    pub(crate) fn placeholder(&self, desc: &RelocDesc) -> Option<u64> {
        self.start_with_mercury().map(|base| if desc.has_bank() { base } else { 0 })
    }

    /// The record of a slot in one half.
    pub(crate) fn record(&self, slot: &TextureSlot, half: Half) -> SlotRecord {
        let relocation_type = slot.kind.relocation_type(half, self.with_mercury);
        SlotRecord { offset: self.offset(slot.symbol, half), relocation_type }
    }

    /// The slots that the driver fills for an entry, by offset. Slots for parameters of other
    /// entries are not among them.
    pub(crate) fn filled_for(
        &self,
        user: &SlotUser,
    ) -> impl DoubleEndedIterator<Item = &TextureSlot> {
        let (code, uses) = (user.code, user.uses);
        let own = move |slot: &TextureSlot| slot.owner.is_none_or(|owner| owner == code);
        self.slots.iter().filter(move |slot| own(slot) && uses.filled(slot.kind))
    }

    /// Number of textures, surfaces and samplers of an entry.
    pub(crate) fn counts(&self, user: &SlotUser) -> [usize; 3] {
        [ReferenceKind::Texture, ReferenceKind::Surface, ReferenceKind::Sampler]
            .map(|kind| self.filled_for(user).filter(|slot| slot.kind == kind).count())
    }
}

/// Lays out the slots of all references.
///
/// # Errors
/// A kernel that is not in the program has a reference as parameter, and its file named the
/// parameter first: nvlink ends there.
pub(crate) fn lay_out<'d>(
    objects: &InputObjects<'d>,
    symbols: &Symbols,
    graph: &CallGraph,
    merged: &mut MergeResult<'d>,
) -> Result<TextureSlots, Message> {
    let references = references(merged);
    if references.is_empty() {
        return Ok(TextureSlots::default());
    }
    if any_deleted(objects, symbols, graph) {
        return Err(Message::Internal { what: "reference to deleted section" });
    }
    let order = list_sort(&references, &|_, _| true);
    if merged.draft.flavour == Flavour::Mercury {
        return Ok(lay_out_with_mercury(objects, symbols, graph, merged, &order));
    }
    // Kernels that are only kept because their address is taken count too (case
    // selection/slots-of-kept-kernels).
    let banks: Vec<(NodeId, Option<SectionId>)> = graph
        .kernels()
        .iter()
        .map(|&kernel| (kernel, merged.entry_bank(graph, kernel, 0)))
        .collect();
    let size = |bank: SectionId| merged.draft.sections[bank].size;
    let largest = banks.iter().filter_map(|(_, bank)| bank.map(size)).max().unwrap_or(0);
    let base = largest.next_multiple_of(4);
    let mut slots = TextureSlots::new(&merged.draft, &order, base);
    let end = base + 4 * order.len() as u64;
    let uses = uses(objects, symbols, graph);
    for (entry, bank) in banks {
        let uses = uses[entry];
        let Some(bank) = bank.filter(|_| uses.any()) else { continue };
        // This revives the empty bank of a kernel without parameters.
        let section = &mut merged.draft.sections[bank];
        (section.size, section.dropped) = (end, false);
        let Some(&relocs) = merged.slot_relocs.get(&bank) else { continue };
        let Some(code) = merged.code(graph, entry) else { continue };
        let user = SlotUser { entry, uses, code, relocs };
        let filled = slots.filled_for(&user).count() as u64;
        let section = &mut merged.draft.sections[relocs];
        section.dropped = filled == 0;
        section.size = 16 * filled;
        slots.users.push(user);
    }
    Ok(slots)
}

/// Adds a bank and a symbol for each reference, which stand for the slots and are in no program.
/// The bank takes an index (cases textures/* behind many sections). Only releases with one list of
/// names keep those of both (case textures/many by 12.3).
pub(super) fn add_offsets(merged: &mut MergeResult<'_>) {
    let references = references(merged);
    if references.is_empty() {
        return;
    }
    let draft = &mut merged.draft;
    if draft.flavour == Flavour::Classic {
        draft.unlisted += 1;
    }
    if draft.dialect.has_three_lists {
        return;
    }
    draft.add_lost_section_name(b".nv.constant0");
    for Reference { symbol, .. } in references {
        let name = draft.names.prefixed(b"$NVLINKBINDLESSOFF_", draft.symbols[symbol].name);
        draft.add_lost_name(name);
    }
}

/// With `-r` there are no slots yet. In files with a Mercury half, the machine code holds their
/// present start all the same.
pub(crate) fn of_object(
    objects: &InputObjects<'_>,
    symbols: &Symbols,
    graph: &CallGraph,
    merged: &MergeResult<'_>,
) -> TextureSlots {
    if merged.draft.flavour == Flavour::Classic || references(merged).is_empty() {
        return TextureSlots::default();
    }
    let base = texture_banks::start(objects, symbols, graph);
    TextureSlots { base, with_mercury: true, ..TextureSlots::default() }
}

/// As [`lay_out`] for files with a Mercury half, where slots have sections of their own.
fn lay_out_with_mercury<'d>(
    objects: &InputObjects<'d>,
    symbols: &Symbols,
    graph: &CallGraph,
    merged: &mut MergeResult<'d>,
    order: &[Reference],
) -> TextureSlots {
    let uses = uses(objects, symbols, graph);
    let start = texture_banks::start(objects, symbols, graph);
    let range = SlotRange { start, count: order.len() as u64 };
    let is_user = |entry| uses[entry].any();
    let made = texture_banks::lay_out(objects, symbols, graph, merged, range, is_user);
    let mut slots = TextureSlots::new(&merged.draft, order, start);
    for TextureBank { entry, code, relocs } in made {
        let user = SlotUser { entry, uses: uses[entry], code, relocs };
        merged.draft.sections[relocs].dropped = slots.filled_for(&user).next().is_none();
        slots.users.push(user);
    }
    slots
}

/// True if a kernel that is not in the program has a reference as parameter, and that name was
/// first seen there: nvlink ends there (cases errors-finish/deleted-parameter,
/// errors-finish/deleted-first-parameter, textures/deleted-later-parameter).
fn any_deleted(objects: &InputObjects<'_>, symbols: &Symbols, graph: &CallGraph) -> bool {
    symbols.all.values().any(|name| {
        let object = &objects[name.first.object];
        let symbol = object.symbol(name.first.index);
        let code = symbol.defined_in().filter(|_| symbol.is_reference());
        let function = code.and_then(|code| object.code_function(code));
        let program = function.and_then(|function| symbols.of(name.first.object, function));
        program.is_some_and(|program| graph.node(program).is_none())
    })
}

/// All references by kind, each kind in the reverse order of creation.
fn references(merged: &MergeResult<'_>) -> Vec<Reference> {
    let of_kind = |kind: ReferenceKind| {
        let all = merged.draft.symbols.iter();
        let found = all.filter(move |(_, symbol)| symbol.info & 15 == kind.symbol_type());
        let mut found: Vec<_> = found.map(|(symbol, _)| Reference { symbol, kind }).collect();
        found.reverse();
        found
    };
    ReferenceKind::ALL.into_iter().flat_map(of_kind).collect()
}

/// The kinds of slot that each function needs with all it reaches: those of its records whose value
/// is a slot. In a program with a single entry, the records of all functions count for it, dead
/// ones included (case textures/one-kernel).
fn uses(
    objects: &InputObjects<'_>,
    symbols: &Symbols,
    graph: &CallGraph,
) -> IdVec<NodeId, SlotKinds> {
    let mut own = IdVec::filled(SlotKinds::default(), graph.nodes.len());
    let mut all = SlotKinds::default();
    for (id, object) in objects.iter() {
        for (function, section) in object.code_relocations() {
            // Copies that lost or were replaced do not count (case textures/copies).
            if symbols.fate(id, function) != Fate::Chosen {
                continue;
            }
            let program = symbols.of(id, function);
            let node = program.and_then(|program| graph.node(program));
            for record in section.relocations().iter() {
                let symbol = object.symbol(record.symbol);
                let desc = culd_reloc::lookup(record.kind);
                let is_slot =
                    desc.is_some_and(|desc| desc.against_reference() == ReferenceTreatment::Slot);
                if !is_slot || !symbol.is_reference() {
                    continue;
                }
                let uses = SlotKinds::of(symbol.kind());
                all = all.or(uses);
                if let Some(node) = node {
                    own[node] = own[node].or(uses);
                }
            }
        }
    }
    let mut uses = graph.fold(SlotKinds::default(), |node| own[node], |a, b| a.or(*b));
    if let Some(entry) = graph.single_entry() {
        uses[entry] = all;
    }
    uses
}
