//! Sections for the slots of texture, sampler and surface references.
//!
//! In: the merged draft and the parameter banks of kernels. Out: a section of slots for every kernel that uses one, made after the
//! last input. In Mercury it has the slots alone; in machine code it is the parameter bank with the slots behind it,
//! so that kernels with slots have no other (cases textures/* on sm_100).

use culd_cubin::Section;
use culd_cubin::elf::{shf, sht};
use thin_vec::thin_vec;

use super::parameters;
use crate::callgraph::CallGraph;
use crate::draft::{Kind, OutSymbol, Part};
use crate::id::{NodeId, SectionId};
use crate::merge::Merged;
use crate::objects::Objects;
use crate::symbols::Symbols;

/// Slots start at a multiple of this, bytes.
const ALIGN: u64 = 16;

/// Where parameters start: also where slots do in a file without kernels, bytes.
const PARAMETERS: u64 = 0x380;

/// A kernel's section, and that of its records.
pub(crate) struct Images {
    pub(crate) entry: NodeId,
    pub(crate) code: SectionId,
    pub(crate) relocs: SectionId,
}

/// Where slots start in machine code, bytes: behind the largest parameter bank, also of kernels that only their address keeps
/// (case selection/slots-of-kept-kernels).
pub(crate) fn start(objects: &Objects<'_>, symbols: &Symbols, graph: &CallGraph) -> u64 {
    let sizes =
        banks(objects, symbols, graph, graph.kernels()).map(|(_, bank)| bank.data.len() as u64);
    sizes.max().unwrap_or(PARAMETERS).next_multiple_of(ALIGN)
}

/// Those of `kernels` that have parameter banks, and the banks.
fn banks<'a, 'd>(
    objects: &'a Objects<'d>,
    symbols: &'a Symbols,
    graph: &'a CallGraph,
    kernels: &'a [NodeId],
) -> impl Iterator<Item = (NodeId, &'a Section<'d>)> + 'a {
    let bank = |&entry| Some((entry, parameters::bank(objects, symbols, graph.nodes[entry])?));
    kernels.iter().filter_map(bank)
}

/// Makes the sections for `count` slots in all kernels that use one; returns where slots start in machine code,
/// bytes.
pub(crate) fn lay_out<'d>(
    objects: &Objects<'d>,
    symbols: &Symbols,
    graph: &CallGraph,
    merged: &mut Merged<'d>,
    (count, is_user): (u64, impl Fn(NodeId) -> bool),
) -> (u64, Vec<Images>) {
    let base = start(objects, symbols, graph);
    let mut made = Vec::new();
    let used = banks(objects, symbols, graph, graph.entries()).filter(|&(entry, _)| is_user(entry));
    let mut used: Vec<_> =
        used.filter_map(|(entry, bank)| Some((merged.code(graph, entry)?, entry, bank))).collect();
    // A kernel may be named by a file before the one that defines it (case textures/kernels-named-early).
    used.sort_by_key(|&(code, ..)| code);
    for (code, entry, bank) in used {
        let (bytes, align) = (bank.data, bank.align());
        let function = merged.function(graph, entry);
        let draft = &mut merged.draft;
        let name = draft.names.prefixed(super::IMAGES, draft.symbols[function].name);
        let reloc_name = draft.names.prefixed(b".rela", name);
        draft.section_strings.add(name);
        draft.section_strings.add(reloc_name);
        draft.local_strings.add(reloc_name);
        draft.local_strings.add(name);
        let section =
            draft.push_section(name, Kind::Constant(0), shf::ALLOC | shf::INFO_LINK, align);
        let output = &mut draft.sections[section];
        output.owner = Some(code);
        output.parts = thin_vec![Part { offset: 0, bytes, twin: &[] }];
        output.size = base + 4 * count;
        output.twin_size = 4 * count;
        let symbol = draft.symbols.push(OutSymbol::section(name, section));
        draft.locals.push(symbol);
        draft.sections[section].symbol = Some(symbol);
        let relocs = draft.push_section(reloc_name, Kind::Reloc, shf::INFO_LINK, 8);
        let output = &mut draft.sections[relocs];
        output.sh_type = sht::RELA;
        output.owner = Some(section);
        merged.entry_banks.insert((code, 0), section);
        made.push(Images { entry, code, relocs });
    }
    (base, made)
}
