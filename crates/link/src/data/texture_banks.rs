//! Sections for texture slots in files with a Mercury half.
//!
//! In: the merged draft and the parameter banks of kernels. Out: a section for every kernel that
//! uses a texture, sampler or surface reference, created after the last input. In the Mercury half
//! it contains the slots only. In the machine code it is the kernel's parameter bank followed by
//! the slots, so such a kernel has no other parameter bank (cases textures/* on sm_100).

use culd_cubin::Section;
use culd_cubin::elf::{shf, sht};

use super::parameters;
use crate::base::half;
use crate::base::id::{NodeId, SectionId};
use crate::callgraph::CallGraph;
use crate::draft::kind::SectionKind;
use crate::draft::merged::{BankKey, MergeResult};
use crate::draft::section::{InputChunk, OutSymbol};
use crate::objects::InputObjects;
use crate::symbols::Symbols;

/// Slots start at a multiple of this, bytes.
const ALIGN: u64 = 16;

/// Where parameters start, bytes; in a file without kernels slots start here.
const PARAMETERS: u64 = 0x380;

/// The slots of a program.
#[derive(Clone, Copy)]
pub(crate) struct SlotRange {
    /// Where they start in bank 0 of machine code, bytes; see [`start`].
    pub(crate) start: u64,
    pub(crate) count: u64,
}

/// A kernel with texture slots: its code, and the section of the slots' relocations.
pub(crate) struct TextureBank {
    pub(crate) entry: NodeId,
    pub(crate) code: SectionId,
    pub(crate) relocs: SectionId,
}

/// Where slots start in machine code, bytes: after the largest parameter bank. Kernels that are
/// only kept because their address is taken count too (case selection/slots-of-kept-kernels).
pub(crate) fn start(objects: &InputObjects<'_>, symbols: &Symbols, graph: &CallGraph) -> u64 {
    let sizes =
        banks(objects, symbols, graph, graph.kernels()).map(|(_, bank)| bank.data.len() as u64);
    sizes.max().unwrap_or(PARAMETERS).next_multiple_of(ALIGN)
}

/// The kernels among `kernels` that have a parameter bank, with that bank.
fn banks<'a, 'd>(
    objects: &'a InputObjects<'d>,
    symbols: &'a Symbols,
    graph: &'a CallGraph,
    kernels: &'a [NodeId],
) -> impl Iterator<Item = (NodeId, &'a Section<'d>)> + 'a {
    let bank = |&entry| Some((entry, parameters::bank(objects, symbols, graph.nodes[entry])?));
    kernels.iter().filter_map(bank)
}

/// Creates a section of `slots` for every kernel that uses one.
pub(crate) fn lay_out<'d>(
    objects: &InputObjects<'d>,
    symbols: &Symbols,
    graph: &CallGraph,
    merged: &mut MergeResult<'d>,
    slots: SlotRange,
    is_user: impl Fn(NodeId) -> bool,
) -> Vec<TextureBank> {
    let mut made = Vec::new();
    let used = banks(objects, symbols, graph, graph.entries()).filter(|&(entry, _)| is_user(entry));
    let mut used: Vec<_> =
        used.filter_map(|(entry, bank)| Some((merged.code(graph, entry)?, entry, bank))).collect();
    // By code: a file may refer to a kernel before another file defines it (case
    // textures/kernels-named-early).
    used.sort_by_key(|&(code, ..)| code);
    for (code, entry, bank) in used {
        let (bytes, align) = (bank.data, bank.align());
        let function = merged.function(graph, entry);
        let draft = &mut merged.draft;
        let name = draft.names.prefixed(half::TEXTURE_SLOTS, draft.symbols[function].name);
        let reloc_name = draft.names.prefixed(b".rela", name);
        draft.section_strings.add(name);
        draft.section_strings.add(reloc_name);
        draft.local_strings.add(reloc_name);
        draft.local_strings.add(name);
        let section =
            draft.push_section(name, SectionKind::Constant(0), shf::ALLOC | shf::INFO_LINK, align);
        let output = &mut draft.sections[section];
        output.owner = Some(code);
        output.chunks = vec![InputChunk { offset: 0, bytes, mercury: &[] }];
        output.size = slots.start + 4 * slots.count;
        output.mercury_size = 4 * slots.count;
        let symbol = draft.symbols.push(OutSymbol::section(name, section));
        draft.locals.push(symbol);
        draft.sections[section].symbol = Some(symbol);
        let relocs = draft.push_section(reloc_name, SectionKind::Reloc, shf::INFO_LINK, 8);
        let output = &mut draft.sections[relocs];
        output.sh_type = sht::RELA;
        output.owner = Some(section);
        merged.entry_banks.insert(BankKey { code, number: 0 }, section);
        made.push(TextureBank { entry, code, relocs });
    }
    made
}
