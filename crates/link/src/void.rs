//! Relocation records that nvlink forgets because they speak of, or lie in, something that lost.
//!
//! In: [`Objects`], [`Symbols`]. Out: [`VoidRecords`], asked for every record. A void record is
//! as good as absent: it brings no name and no section (docs/LINKING.md, weak definitions).

use culd_cubin::elf::stt;
use culd_cubin::{RelocEntry, SectionIndex, SymbolIndex};

use crate::capsule::twins::OPTIMIZER;
use crate::id::{Id, ObjectId};
use crate::objects::{Object, Objects, Role};
use crate::symbols::{Fate, Symbols};

/// Byte ranges by section: (section, start, end).
type Ranges = Vec<(SectionIndex, u64, u64)>;

/// What is needed to tell void records.
pub(crate) struct VoidRecords {
    /// By object: initialised weak variables that lost to weak ones; `None` where nothing lost.
    lost: Vec<Option<Ranges>>,
}

impl VoidRecords {
    pub(crate) fn find(objects: &Objects<'_>, symbols: &Symbols) -> Self {
        let lost =
            |(id, object)| symbols.any_lost(id, object).then(|| lost_ranges(symbols, id, object));
        VoidRecords { lost: objects.iter().map(lost).collect() }
    }

    /// True when records of `id` may be void.
    pub(crate) fn any_in(&self, id: ObjectId) -> bool {
        self.lost[id.index()].is_some()
    }

    /// True when `record`, which patches section `target` of `object`, is void.
    #[inline]
    pub(crate) fn contains(
        &self,
        symbols: &Symbols,
        id: ObjectId,
        object: &Object<'_>,
        target: SectionIndex,
        record: RelocEntry,
    ) -> bool {
        // That some have lost is rare.
        self.any_in(id) && self.is_void(symbols, (id, object), target, record)
    }

    fn is_void(
        &self,
        symbols: &Symbols,
        (id, object): (ObjectId, &Object<'_>),
        target: SectionIndex,
        record: RelocEntry,
    ) -> bool {
        self.lost[id.index()].as_ref().is_some_and(|lost| is_inside(lost, target, record.offset))
            || is_forgotten(symbols, id, object, target, record.symbol)
    }
}

/// True when records in section `target` of `object` about its `symbol` are void: tables of addresses forget what lost (cases
/// debug/weak-losers, debug/lost-variables-80); other debug sections and variables in global memory keep the record, for the
/// definition that counts. That constants forget it too is a defect of nvlink, kept for identity (docs/DIFFERENCES.md,
/// constant-tables-forget).
pub(crate) fn is_forgotten(
    symbols: &Symbols,
    id: ObjectId,
    object: &Object<'_>,
    target: SectionIndex,
    symbol: SymbolIndex,
) -> bool {
    symbols.fate(id, symbol) == Fate::Lost
        && match object.role(target) {
            Role::Debug => is_line_table(object.section(target).name),
            // Jump tables of Mercury stay (case literals/jump-tables-of-copies).
            // Parameters keep what an edited file relocates (`xtask mutate --differential`).
            Role::Constant(0) => false,
            Role::Constant(_) => !object.section(target).name.starts_with(OPTIMIZER),
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

fn lost_ranges(symbols: &Symbols, id: ObjectId, object: &Object<'_>) -> Ranges {
    let lost = object.cubin.symbol_indices().filter_map(|(index, symbol)| {
        let variable = matches!(symbol.kind(), stt::OBJECT | stt::CUDA_OBJECT);
        let lost = variable && symbols.lost_to_weak(id, index);
        let section = symbol.defined_in().filter(|_| lost)?;
        let initialised = object.role(section) == Role::GlobalInit;
        initialised.then(|| (section, symbol.value, symbol.value + symbol.size))
    });
    let mut ranges: Ranges = lost.collect();
    ranges.sort_unstable();
    ranges
}

fn is_inside(ranges: &Ranges, section: SectionIndex, offset: u64) -> bool {
    let end = ranges.partition_point(|&(s, start, _)| (s, start) <= (section, offset));
    // Variables do not overlap, so the last range that starts before the place decides.
    ranges[..end]
        .last()
        .is_some_and(|&(s, start, end)| s == section && start <= offset && offset < end)
}
