//! Phase 7: slots for legacy texture, sampler and surface references.
//!
//! In: the merged draft. Out: [`TextureSlots`]; parameter banks grown by one 32-bit slot per
//! reference of the whole program, behind the largest parameter bank, in every entry whose code
//! names one; and relocation sections that tell the driver what to put there (cases textures/*).

use culd_cubin::elf::stt;
use hashbrown::HashMap;

use crate::callgraph::CallGraph;
use crate::id::{IdVec, NodeId, OutSymbolId, SectionId};
use crate::merge::Merged;
use crate::objects::Objects;
use crate::sort::list_sort;
use crate::symbols::Symbols;

/// Symbol type and relocation type of the kinds of reference, in the order in which they go into
/// the sort.
const KINDS: [(u8, u32); 3] = [TEXTURE, SAMPLER, SURFACE];
const TEXTURE: (u8, u32) = (stt::CUDA_TEXTURE, 6);
const SAMPLER: (u8, u32) = (stt::CUDA_SAMPLER, 7);
const SURFACE: (u8, u32) = (stt::CUDA_SURFACE, 52);

/// Where references live in the parameter banks.
#[derive(Default)]
pub(crate) struct TextureSlots {
    /// Offset in the parameter bank of every user, bytes.
    offsets: HashMap<OutSymbolId, u64>,
    /// References in slot order with the relocation type of their kind.
    order: Vec<(OutSymbolId, u32)>,
    /// Relocation sections made for the slots.
    pub(crate) relocs: Vec<SectionId>,
    /// Entries with slots.
    pub(crate) entries: Vec<NodeId>,
}

impl TextureSlots {
    /// The slot of a reference, bytes from the start of bank 0.
    pub(crate) fn offset(&self, symbol: OutSymbolId) -> Option<u64> {
        self.offsets.get(&symbol).copied()
    }

    /// (place, symbol, type) of the records of every slot section, in output order.
    pub(crate) fn records(&self) -> impl Iterator<Item = (u64, OutSymbolId, u32)> + '_ {
        self.order.iter().rev().map(|&(symbol, kind)| (self.offsets[&symbol], symbol, kind))
    }

    /// Number of textures, surfaces and samplers.
    pub(crate) fn counts(&self) -> [usize; 3] {
        let count = |kind: (u8, u32)| self.order.iter().filter(|slot| slot.1 == kind.1).count();
        [count(TEXTURE), count(SURFACE), count(SAMPLER)]
    }
}

/// Makes slots where the program has references.
pub(crate) fn lay_out(
    objects: &Objects<'_>,
    symbols: &Symbols,
    graph: &CallGraph,
    merged: &mut Merged<'_>,
) -> TextureSlots {
    let references = references(merged);
    if references.is_empty() {
        return TextureSlots::default();
    }
    let order = list_sort(&references, &|_, _| true);
    let banks: Vec<(NodeId, Option<SectionId>)> =
        graph.entries().iter().map(|&entry| (entry, merged.entry_bank(graph, entry, 0))).collect();
    let size = |bank: SectionId| merged.draft.sections[bank].size;
    let largest = banks.iter().filter_map(|(_, bank)| bank.map(size)).max().unwrap_or(0);
    let base = largest.next_multiple_of(4);
    let offsets =
        order.iter().zip(0u64..).map(|(slot, i)| (slot.0, base + 4 * i)).collect::<HashMap<_, _>>();
    let end = base + 4 * order.len() as u64;
    let mut slots = TextureSlots { offsets, order, relocs: Vec::new(), entries: Vec::new() };
    let users = users(objects, symbols, graph, merged, &slots);
    for (entry, bank) in banks {
        let Some(bank) = bank.filter(|_| users[entry]) else { continue };
        merged.draft.sections[bank].size = end;
        let Some(&reloc) = merged.slot_relocs.get(&bank) else { continue };
        let section = &mut merged.draft.sections[reloc];
        section.dropped = false;
        section.size = 16 * slots.order.len() as u64;
        slots.relocs.push(reloc);
        slots.entries.push(entry);
    }
    slots
}

/// All references, kind by kind, each from the last symbol to the first.
fn references(merged: &Merged<'_>) -> Vec<(OutSymbolId, u32)> {
    let draft = &merged.draft;
    let all = || draft.globals.iter().chain(&draft.locals).rev().copied();
    let of_kind = |(kind, reloc): (u8, u32)| {
        all()
            .filter(move |&symbol| draft.symbols[symbol].info & 15 == kind)
            .map(move |symbol| (symbol, reloc))
    };
    KINDS.into_iter().flat_map(of_kind).collect()
}

/// Entries that reach code which names a reference.
fn users(
    objects: &Objects<'_>,
    symbols: &Symbols,
    graph: &CallGraph,
    merged: &Merged<'_>,
    slots: &TextureSlots,
) -> IdVec<NodeId, bool> {
    let mut names_one = IdVec::filled(false, graph.nodes.len());
    for (id, object) in objects.iter() {
        for (function, section) in object.code_relocations() {
            let program = symbols.of(id, function);
            let Some(node) = program.and_then(|program| graph.node(program)) else { continue };
            names_one[node] |= section.relocations().iter().any(|record| {
                let program = symbols.of(id, record.symbol);
                let out = program.and_then(|program| merged.out_symbol(program));
                out.is_some_and(|out| slots.offset(out).is_some())
            });
        }
    }
    graph.fold(false, |node| names_one[node], |a, b| *a || *b)
}
