//! Phase `data`: slots for legacy texture, sampler and surface references.
//!
//! In: the merged draft. Out: [`TextureSlots`]; parameter banks grown by one 32-bit slot per
//! reference of the whole program, behind the largest parameter bank, in every entry whose code
//! needs one; and relocation sections that tell the driver what to put there (cases textures/*).

use culd_cubin::arch::Flavour;
use culd_cubin::elf::stt;
use culd_reloc::{Reference, RelocDesc};
use hashbrown::HashMap;

use crate::callgraph::CallGraph;
use crate::capsule::Half;
use crate::capsule::images::{self, Images};
use crate::diag::Message;
use crate::draft::Draft;
use crate::id::{IdVec, NodeId, OutSymbolId, SectionId};
use crate::merge::Merged;
use crate::objects::Objects;
use crate::sort::list_sort;
use crate::symbols::{Fate, Symbols};

/// Symbol type and relocation type of the kinds of reference, in the order in which they go into
/// the sort.
const KINDS: [(u8, u32); 3] = [TEXTURE, SAMPLER, SURFACE];
const TEXTURE: (u8, u32) = (stt::CUDA_TEXTURE, 6);
const SAMPLER: (u8, u32) = (stt::CUDA_SAMPLER, 7);
const SURFACE: (u8, u32) = (stt::CUDA_SURFACE, 52);
const SAMPLER_BESIDE_MERCURY: u32 = 101;

/// The place of one reference in the parameter banks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) symbol: OutSymbolId,
    /// Relocation type by which the driver learns of it.
    pub(crate) kind: u32,
    /// Bytes from the start of the bank.
    pub(crate) offset: u64,
    /// The code of the entry that has it as a parameter; `None` for those of the program.
    owner: Option<SectionId>,
}

/// Which kinds of reference the code of an entry needs slots for.
#[derive(Debug, Clone, Copy, Default)]
struct Uses {
    textures: bool,
    samplers: bool,
    surfaces: bool,
}

impl Uses {
    /// By the type of a symbol.
    fn of(kind: u8) -> Self {
        Uses {
            textures: kind == stt::CUDA_TEXTURE,
            samplers: kind == stt::CUDA_SAMPLER,
            surfaces: kind == stt::CUDA_SURFACE,
        }
    }

    fn or(self, other: Self) -> Self {
        Uses {
            textures: self.textures || other.textures,
            samplers: self.samplers || other.samplers,
            surfaces: self.surfaces || other.surfaces,
        }
    }

    fn any(self) -> bool {
        self.textures || self.samplers || self.surfaces
    }

    /// Whether the driver fills slots of a kind: who uses a surface has all of them, and surfaces are
    /// filled for everyone (case textures/kinds-used).
    fn filled(self, kind: u32) -> bool {
        match kind {
            _ if kind == TEXTURE.1 => self.textures || self.surfaces,
            _ if kind == SAMPLER.1 => self.samplers || self.surfaces,
            _ => true,
        }
    }
}

/// An entry whose parameter bank has slots.
pub(crate) struct User {
    pub(crate) entry: NodeId,
    uses: Uses,
    /// Its code.
    code: SectionId,
    /// The relocation section of its parameter bank.
    pub(crate) relocs: SectionId,
}

/// Where references live in the parameter banks.
#[derive(Default)]
pub(crate) struct TextureSlots {
    slots: Vec<Slot>,
    offsets: HashMap<OutSymbolId, u64>,
    /// Where slots start, bytes. Mercury has them in a section of their own.
    base: u64,
    /// There are references, and slots have sections of their own in Mercury.
    in_images: bool,
    /// In node order.
    pub(crate) users: Vec<User>,
}

impl TextureSlots {
    /// Slots for the references of `order`, from byte `base` of bank 0 on; so far nobody uses them.
    fn new(draft: &Draft<'_>, order: &[(OutSymbolId, u32)], base: u64) -> Self {
        let slot = |(&(symbol, kind), offset): (&(OutSymbolId, u32), u64)| Slot {
            symbol,
            kind,
            offset,
            owner: draft.symbols[symbol].section,
        };
        let slots: Vec<Slot> = order.iter().zip((base..).step_by(4)).map(slot).collect();
        let offsets = slots.iter().map(|slot| (slot.symbol, slot.offset)).collect();
        let in_images = draft.flavour == Flavour::Mercury;
        TextureSlots { slots, offsets, base, in_images, users: Vec::new() }
    }

    /// The slot of a reference, bytes from the start of bank 0, in Mercury from the first slot.
    pub(crate) fn offset(&self, symbol: OutSymbolId, half: Half) -> u64 {
        let offset = self.offsets.get(&symbol).copied().unwrap_or_default();
        match half {
            Half::Sass => offset,
            Half::Mercury => offset.saturating_sub(self.base),
        }
    }

    /// What a relocation of type `row` puts in for a reference: beside Mercury a number counts from the first slot, only a place
    /// in a bank from the start of that (case textures/in-registers).
    pub(crate) fn value(&self, symbol: OutSymbolId, half: Half, row: &RelocDesc) -> u64 {
        let number = self.in_images && !row.has_bank();
        self.offset(symbol, if number { Half::Mercury } else { half })
    }

    /// Beside Mercury: where slots start in machine code, bytes from the start of bank 0, if there are any.
    pub(crate) fn images(&self) -> Option<u64> {
        self.in_images.then_some(self.base)
    }

    /// What nvlink leaves in machine code of an object for a reference, whose record stays: where slots start now, or 0 for a number
    /// (case textures/in-registers with -r).
    pub(crate) fn place_holder(&self, row: &RelocDesc) -> Option<u64> {
        self.images().map(|base| if row.has_bank() { base } else { 0 })
    }

    /// Place and relocation type of a slot in a half.
    pub(crate) fn record(&self, slot: &Slot, half: Half) -> (u64, u32) {
        let kind = match half {
            // Machine code beside Mercury has a type of its own for samplers (case textures/samplers).
            Half::Sass if self.in_images && slot.kind == SAMPLER.1 => SAMPLER_BESIDE_MERCURY,
            Half::Sass => slot.kind,
            Half::Mercury => mercury_kind(slot.kind),
        };
        (self.offset(slot.symbol, half), kind)
    }

    /// The slots that the driver fills for an entry, by offset: not those of other entries' parameters.
    pub(crate) fn filled_for(&self, user: &User) -> impl DoubleEndedIterator<Item = &Slot> {
        let (code, uses) = (user.code, user.uses);
        let own = move |slot: &Slot| slot.owner.is_none_or(|owner| owner == code);
        self.slots.iter().filter(move |slot| own(slot) && uses.filled(slot.kind))
    }

    /// Number of textures, surfaces and samplers of an entry.
    pub(crate) fn counts(&self, user: &User) -> [usize; 3] {
        [TEXTURE, SURFACE, SAMPLER]
            .map(|(_, kind)| self.filled_for(user).filter(|slot| slot.kind == kind).count())
    }
}

/// Makes slots where the program has references.
pub(crate) fn lay_out<'d>(
    objects: &Objects<'d>,
    symbols: &Symbols,
    graph: &CallGraph,
    merged: &mut Merged<'d>,
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
        return Ok(in_images(objects, symbols, graph, merged, &order));
    }
    // Of kernels that only their address keeps, too (case selection/slots-of-kept-kernels).
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
        // A kernel without parameters has a bank for its slots.
        let section = &mut merged.draft.sections[bank];
        (section.size, section.dropped) = (end, false);
        let Some(&relocs) = merged.slot_relocs.get(&bank) else { continue };
        let Some(code) = merged.code(graph, entry) else { continue };
        let user = User { entry, uses, code, relocs };
        let filled = slots.filled_for(&user).count() as u64;
        let section = &mut merged.draft.sections[relocs];
        section.dropped = filled == 0;
        section.size = 16 * filled;
        slots.users.push(user);
    }
    Ok(slots)
}

/// In an object there are no slots yet, but machine code beside Mercury tells where they would start.
pub(crate) fn of_object(
    objects: &Objects<'_>,
    symbols: &Symbols,
    graph: &CallGraph,
    merged: &Merged<'_>,
) -> TextureSlots {
    if merged.draft.flavour == Flavour::Classic || references(merged).is_empty() {
        return TextureSlots::default();
    }
    let base = images::start(objects, symbols, graph);
    TextureSlots { base, in_images: true, ..TextureSlots::default() }
}

/// The same beside Mercury, where slots have sections of their own.
fn in_images<'d>(
    objects: &Objects<'d>,
    symbols: &Symbols,
    graph: &CallGraph,
    merged: &mut Merged<'d>,
    order: &[(OutSymbolId, u32)],
) -> TextureSlots {
    let uses = uses(objects, symbols, graph);
    let count = order.len() as u64;
    let (base, made) =
        images::lay_out(objects, symbols, graph, merged, (count, |entry| uses[entry].any()));
    let mut slots = TextureSlots::new(&merged.draft, order, base);
    for Images { entry, code, relocs } in made {
        let user = User { entry, uses: uses[entry], code, relocs };
        merged.draft.sections[relocs].dropped = slots.filled_for(&user).next().is_none();
        slots.users.push(user);
    }
    slots
}

/// The relocation type of a kind of reference in Mercury.
fn mercury_kind(kind: u32) -> u32 {
    match kind {
        _ if kind == TEXTURE.1 => 0x1000b,
        _ if kind == SAMPLER.1 => 0x1000c,
        _ => 0x1000d,
    }
}

/// Whether a kernel that is not in the program has a reference as parameter, and had that name first: nvlink ends there
/// (cases errors-finish/deleted-parameter, errors-finish/deleted-first-parameter, textures/deleted-later-parameter).
fn any_deleted(objects: &Objects<'_>, symbols: &Symbols, graph: &CallGraph) -> bool {
    symbols.all.values().any(|name| {
        let object = &objects[name.first.object];
        let symbol = object.symbol(name.first.index);
        let code = symbol.defined_in().filter(|_| symbol.is_reference());
        let function = code.and_then(|code| object.code_function(code));
        let program = function.and_then(|function| symbols.of(name.first.object, function));
        program.is_some_and(|program| graph.node(program).is_none())
    })
}

/// All references, kind by kind, each from the symbol created last to the first.
fn references(merged: &Merged<'_>) -> Vec<(OutSymbolId, u32)> {
    let of_kind = |(kind, reloc): (u8, u32)| {
        let all = merged.draft.symbols.iter();
        let found = all.filter(move |(_, symbol)| symbol.info & 15 == kind);
        let mut found: Vec<_> = found.map(|(id, _)| (id, reloc)).collect();
        found.reverse();
        found
    };
    KINDS.into_iter().flat_map(of_kind).collect()
}

/// What the code that each function reaches needs: its records whose value is a slot.
/// Where there is one entry only, all functions count, dead ones too (case textures/one-kernel).
fn uses(objects: &Objects<'_>, symbols: &Symbols, graph: &CallGraph) -> IdVec<NodeId, Uses> {
    let mut own = IdVec::filled(Uses::default(), graph.nodes.len());
    let mut all = Uses::default();
    for (id, object) in objects.iter() {
        for (function, section) in object.code_relocations() {
            // Neither what lost nor what was replaced counts (case textures/copies).
            if symbols.fate(id, function) != Fate::Chosen {
                continue;
            }
            let program = symbols.of(id, function);
            let node = program.and_then(|program| graph.node(program));
            for record in section.relocations().iter() {
                let symbol = object.symbol(record.symbol);
                let row = culd_reloc::lookup(record.kind);
                let slot = row.is_some_and(|row| row.against_reference() == Reference::Slot);
                if !slot || !symbol.is_reference() {
                    continue;
                }
                let uses = Uses::of(symbol.kind());
                all = all.or(uses);
                if let Some(node) = node {
                    own[node] = own[node].or(uses);
                }
            }
        }
    }
    let mut uses = graph.fold(Uses::default(), |node| own[node], |a, b| a.or(*b));
    if let [entry] = *graph.entries() {
        uses[entry] = all;
    }
    uses
}
