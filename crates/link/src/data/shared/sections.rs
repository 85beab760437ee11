//! The sections of shared memory of a program.
//!
//! In: the layout of the variables. Out: sizes and alignments of the sections; those that do not
//! exist are dropped, and those of kernels that phase `merge` could not know are created.

use culd_cubin::arch::Flavour;
use culd_cubin::elf::shf;
use hashbrown::HashMap;

use super::{HelperSection, KernelNumber, SharedBuilder, SharedLayout, entries_by_code};
use crate::base::half::system_shared;
use crate::base::id::{NameId, SectionId};
use crate::callgraph::CallGraph;
use crate::draft::kind::SectionKind;
use crate::draft::merged::{MergeResult, SharedAllocation, SharedVariables};
use crate::draft::section::OutSection;
use crate::options::LinkOptions;

/// Properties of the whole program that decide which sections exist.
#[derive(Clone, Copy)]
pub(super) struct PoolShape {
    /// Some file declares an array without size, used or not, and no earlier file defined it.
    any_extern: bool,
    /// See [`SharedVariables::whole_pool`].
    whole_pool: bool,
    /// Code refers to some defined pool variable with no user or with several.
    multi: bool,
    /// Largest alignment of a pool variable. From CUDA 13.1 on, objects record it for arrays
    /// without size too.
    pool_align: u64,
}

impl PoolShape {
    pub(super) fn of(variables: &SharedVariables, builder: &SharedBuilder<'_, '_>) -> Self {
        let pool = || variables.allocations.values().filter(|allocation| allocation.is_pool());
        let is_multi = |allocation: &SharedAllocation| {
            let variable = allocation.variable;
            allocation.defined && builder.referenced[variable] && builder.users[variable].len() != 1
        };
        PoolShape {
            any_extern: variables.any_extern,
            whole_pool: variables.whole_pool,
            multi: pool().any(is_multi),
            pool_align: pool().map(|allocation| allocation.align).max().unwrap_or(1),
        }
    }

    /// Alignment of an entry's section; its own variables need `own`.
    pub(super) fn section_align(&self, own: u64) -> u64 {
        own.max(if self.multi { self.pool_align } else { 1 })
    }
}

/// Creates the shared sections of kernels that phase `merge` could not know to be alive (case
/// selection/address-taken-shared), and of jump slots. Returns the new sections.
fn add_missing(
    merged: &mut MergeResult<'_>,
    graph: &CallGraph,
    layout: &SharedLayout,
    EntryNeeds { aligns, order, .. }: EntryNeeds<'_>,
    options: &LinkOptions,
) -> HashMap<SectionId, KernelNumber> {
    let mut late = HashMap::new();
    for &place in order {
        let kernel = graph.kernels()[place];
        // An extern array has no size, but needs a section for its alignment.
        let needed = layout.sizes[place] > 0 || aligns[place] > 1;
        if !needed || graph.is_known_entry(kernel) {
            continue;
        }
        let code = merged.code(graph, kernel);
        let function = merged.function(graph, kernel);
        let name = merged.draft.symbols[function].name;
        let name = merged.draft.names.prefixed(b".nv.shared.", name);
        // All jump slots share one section of code.
        let exists = |&id: &SectionId| {
            let section = &merged.draft.sections[id];
            section.kind == SectionKind::Shared && section.owner == code && section.name == name
        };
        if merged.draft.category_of(SectionKind::Shared).iter().any(exists) {
            continue;
        }
        if layout.is_dynamic(place) && !layout.filled[place] {
            super::arrays::name_instance(merged, options);
        }
        let flags = shf::WRITE | shf::ALLOC | shf::INFO_LINK;
        let section = merged.draft.add_section(name, SectionKind::Shared, flags, 1);
        merged.draft.sections[section].owner = code;
        late.insert(section, place);
    }
    late
}

/// What entries need besides the layout.
#[derive(Clone, Copy)]
pub(super) struct EntryNeeds<'a> {
    /// The alignment of each entry's section.
    pub(super) aligns: &'a [u64],
    /// The entries in the order in which their sections are created.
    pub(super) order: &'a [KernelNumber],
    /// The alignment of the variables that a kernel of a whole program has for itself, by its code.
    pub(super) whole: &'a HashMap<SectionId, u64>,
    /// The sections without a variable, by the name of their code.
    pub(super) helpers: &'a HashMap<NameId, HelperSection>,
}

/// Sets sizes and alignments of the shared sections, and drops those that do not exist. Returns the
/// section of each entry.
pub(super) fn size_sections(
    merged: &mut MergeResult<'_>,
    graph: &CallGraph,
    layout: &SharedLayout,
    needs: EntryNeeds<'_>,
    shape: PoolShape,
    options: &LinkOptions,
) -> Vec<Option<SectionId>> {
    let kernel_of_code = entries_by_code(merged, graph);
    let late = add_missing(merged, graph, layout, needs, options);
    let sizes = SectionSizes { layout, needs, shape, options };
    let mut own = vec![None; needs.aligns.len()];
    for id in merged.draft.category_of(SectionKind::Shared).to_vec() {
        let owner = merged.draft.sections[id].owner;
        let code_name = owner.map(|owner| merged.draft.sections[owner].name);
        let section = &mut merged.draft.sections[id];
        match section.kind {
            SectionKind::Shared => {
                let late_kernel = late.get(&id).copied();
                let of_code = || owner.and_then(|code| kernel_of_code.get(&code)).copied();
                let kernel = late_kernel.or_else(of_code);
                if let Some(kernel) = kernel {
                    own[kernel] = Some(id);
                }
                let is_late = late_kernel.is_some();
                sizes.set_kernel_section(section, KernelSection { kernel, is_late, code_name });
            }
            SectionKind::ReservedShared => {
                section.mercury_size = section.size;
                section.size += system_shared(options.target.flavour);
            }
            SectionKind::PoolShared => sizes.set_pool(section),
            _ => {}
        }
    }
    own
}

/// The owner of a shared section.
#[derive(Clone, Copy)]
struct KernelSection {
    /// `None` for a kernel that is not in the program, and for a function that is no kernel.
    kernel: Option<KernelNumber>,
    /// The section was created by [`add_missing`].
    is_late: bool,
    code_name: Option<NameId>,
}

/// What the sizes of shared sections depend on.
struct SectionSizes<'a> {
    layout: &'a SharedLayout,
    needs: EntryNeeds<'a>,
    shape: PoolShape,
    options: &'a LinkOptions,
}

impl SectionSizes<'_> {
    /// Sets size and alignment of the section of a kernel, or drops it.
    fn set_kernel_section(&self, section: &mut OutSection<'_>, of: KernelSection) {
        let SectionSizes { layout, needs, shape, options } = *self;
        let KernelSection { kernel, is_late, code_name } = of;
        let (flavour, reserved) = (options.target.flavour, options.target.reserved_shared);
        // The section of a kernel in a whole program stays, even if it is empty, and so does the
        // section of a function that is not a kernel.
        let whole = section.owner.and_then(|owner| needs.whole.get(&owner)).copied();
        let helper = code_name.and_then(|code| needs.helpers.get(&code)).copied();
        let unused = HelperSection { size: 0, align: whole.unwrap_or(1) };
        let HelperSection { size, align: own_align } = match kernel {
            Some(kernel) => {
                HelperSection { size: layout.sizes[kernel], align: needs.aligns[kernel] }
            }
            None => helper.unwrap_or(unused),
        };
        let has_arrays_only = kernel.is_some_and(|kernel| is_late && !layout.filled[kernel]);
        let align = if has_arrays_only { own_align } else { shape.section_align(own_align) };
        let is_exact = reserved == 0 || flavour == Flavour::Mercury;
        let wide_enough = if is_exact { align == 16 } else { align >= 16 };
        let keep = size > 0 || (kernel.is_some() && shape.any_extern && wide_enough);
        section.align = align;
        let rounds = options.dialect.aligns_dynamic_shared
            && kernel.is_some_and(|kernel| layout.is_dynamic[kernel]);
        let end = reserved + size.next_multiple_of(if rounds { align } else { 1 });
        let stays = whole.is_some();
        section.size = match flavour {
            Flavour::Mercury if stays => end,
            _ if keep => end,
            _ => 0,
        };
        section.dropped = !(keep || stays);
    }

    /// Sets size and alignment of the section of the pool, or drops it.
    fn set_pool(&self, section: &mut OutSection<'_>) {
        let SectionSizes { layout, shape, options, .. } = *self;
        let reserved = options.target.reserved_shared;
        // That of a whole program stays (case whole-program/unused-array-80).
        let wanted =
            shape.any_extern && !(shape.multi && shape.pool_align > 16) || shape.whole_pool;
        if options.keeps_shared_symbols() {
            let multi = if shape.multi { shape.pool_align } else { 1 };
            section.align = multi.max(if shape.any_extern { 16 } else { 1 });
            section.size = reserved + layout.pool_end;
            section.dropped = !wanted && layout.pool_end == 0;
            return;
        }
        section.align = 16;
        section.size = match options.target.flavour {
            Flavour::Classic => 0,
            Flavour::Mercury => reserved,
        };
        section.dropped = !wanted;
    }
}
