//! Relocation records that nvlink discards because they name, or lie in, a definition that lost.
//!
//! In: [`InputObjects`], [`Symbols`]. Out: [`DiscardedRecords`], which answers for every record. A
//! discarded record has no effect: it brings no name and no section (docs/LINKING.md, weak
//! definitions).

use culd_cubin::elf::stt;
use culd_cubin::{RelocEntry, SectionIndex, SymbolIndex};

use super::{Fate, Symbols};
use crate::base::id::{DenseId, ObjectId};
use crate::objects::InputObjects;
use crate::objects::counterparts::OPTIMIZER;
use crate::objects::object::InputObject;
use crate::objects::roles::SectionRole;
use crate::options::LinkOptions;

/// Byte ranges by section: (section, start, end).
type LostRanges = Vec<(SectionIndex, u64, u64)>;

/// A section of an input that relocation records patch.
#[derive(Clone, Copy)]
pub(crate) struct PatchedSection<'o, 'd> {
    pub(crate) id: ObjectId,
    pub(crate) object: &'o InputObject<'d>,
    pub(crate) target: SectionIndex,
}

/// Decides which records are discarded.
pub(crate) struct DiscardedRecords {
    /// By object: the bytes of initialised weak variables that lost to weak ones; `None` if nothing
    /// lost.
    lost: Vec<Option<LostRanges>>,
    /// Tables of code addresses keep their records.
    keeps_addresses: bool,
}

impl DiscardedRecords {
    pub(crate) fn find(
        objects: &InputObjects<'_>,
        symbols: &Symbols,
        options: &LinkOptions,
    ) -> Self {
        let lost =
            |(id, object)| symbols.any_lost(id, object).then(|| lost_ranges(symbols, id, object));
        let keeps_addresses = options.dialect.keeps_lost_addresses;
        DiscardedRecords { lost: objects.iter().map(lost).collect(), keeps_addresses }
    }

    /// True if records of object `id` may be discarded.
    pub(crate) fn any_in_object(&self, id: ObjectId) -> bool {
        self.lost[id.index()].is_some()
    }

    /// True if `record`, one of those that patch `patched`, is discarded.
    pub(crate) fn contains(
        &self,
        symbols: &Symbols,
        patched: PatchedSection<'_, '_>,
        record: RelocEntry,
    ) -> bool {
        // Fast path: few objects have a definition that lost. Without it: +15 % instructions on
        // many1000.
        self.any_in_object(patched.id) && self.is_discarded(symbols, patched, record)
    }

    fn is_discarded(
        &self,
        symbols: &Symbols,
        patched: PatchedSection<'_, '_>,
        record: RelocEntry,
    ) -> bool {
        let lost = self.lost[patched.id.index()].as_ref();
        lost.is_some_and(|lost| is_inside(lost, patched.target, record.offset))
            || names_loser(symbols, patched, record.symbol) && !self.keeps(patched)
    }

    /// True for a table of code addresses that keeps records about copies that lost.
    fn keeps(&self, PatchedSection { object, target, .. }: PatchedSection<'_, '_>) -> bool {
        self.keeps_addresses && object.role(target) == SectionRole::Debug
    }
}

/// True if a record that patches `target` is discarded because `symbol` lost. Tables of code
/// addresses discard it (cases debug/weak-losers, debug/lost-variables-80). Other debug sections
/// and variables in global memory keep it, for the definition that counts. That constants discard
/// it, too, is a defect of nvlink, kept for identity (docs/DIFFERENCES.md, constant-tables-forget).
pub(crate) fn names_loser(
    symbols: &Symbols,
    PatchedSection { id, object, target }: PatchedSection<'_, '_>,
    symbol: SymbolIndex,
) -> bool {
    symbols.fate(id, symbol) == Fate::Lost
        && match object.role(target) {
            SectionRole::Debug => is_line_table(object.section(target).name),
            // Parameter banks keep relocations that an edited file has (`xtask mutate
            // --differential`). Mercury's jump tables keep theirs, too
            // (case literals/jump-tables-of-copies).
            SectionRole::Constant(0) => false,
            SectionRole::Constant(_) => !object.section(target).name.starts_with(OPTIMIZER),
            _ => false,
        }
}

/// Debug sections that are tables of code addresses.
pub(crate) const LINE_TABLES: [&[u8]; 3] =
    [b".debug_frame", b".debug_line", b".nv_debug_line_sass"];

/// True for debug sections that are tables of code addresses.
pub(crate) fn is_line_table(name: &[u8]) -> bool {
    LINE_TABLES.contains(&name)
}

fn lost_ranges(symbols: &Symbols, id: ObjectId, object: &InputObject<'_>) -> LostRanges {
    let lost = object.cubin.symbol_indices().filter_map(|(index, symbol)| {
        let variable = matches!(symbol.kind(), stt::OBJECT | stt::CUDA_OBJECT);
        let lost = variable && symbols.lost_to_weak(id, index);
        let section = symbol.defined_in().filter(|_| lost)?;
        let initialised = object.role(section) == SectionRole::GlobalInit;
        initialised.then(|| (section, symbol.value, symbol.value + symbol.size))
    });
    let mut ranges: LostRanges = lost.collect();
    ranges.sort_unstable();
    ranges
}

fn is_inside(ranges: &LostRanges, section: SectionIndex, offset: u64) -> bool {
    let end = ranges.partition_point(|&(s, start, _)| (s, start) <= (section, offset));
    // Variables do not overlap, so the last range that starts before the place decides.
    ranges[..end]
        .last()
        .is_some_and(|&(s, start, end)| s == section && start <= offset && offset < end)
}
