//! The functions of the output: their needs, the functions that set them, and the calls.
//!
//! In: the finished program. Out: [`AccountFunctions`] in node order, so that the place of a
//! function is the index of its node.

use culd_cubin::arch::Flavour;
use culd_cubin::attr::{Record, code};
use culd_cubin::parameter::KernelParameter;
use hashbrown::HashMap;

use super::columns::{ListColumn, TextColumn};
use super::sections::place;
use super::{
    AccountFunction, AccountKernel, AccountNeed, AccountPrototype, AccountStack, LaunchBounds,
};
use crate::base::half::RESERVED_SHARED;
use crate::base::id::{DenseId, IdVec, NameId, NodeId, SectionId};
use crate::base::paths::{DeepestPath, LargestNumber};
use crate::callgraph::alive::ReachGraph;
use crate::check::explain::source::SourceLines;
use crate::check::report::EntrySizes;
use crate::draft::jump_slots;
use crate::draft::kind::SectionKind;
use crate::layout::numbers::Numbers;
use crate::program::LinkedProgram;

/// MAXREG_COUNT of a kernel without a limit.
const NO_REGISTER_LIMIT: u32 = 0xff;

/// The functions of the output, in the order in which the inputs name them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountFunctions {
    /// The functions.
    pub rows: Vec<AccountFunction>,
    /// Their mangled names.
    pub names: TextColumn,
    /// For each function file and line in which its code begins: `saxpy.cu:12`. Empty for one
    /// without debug information; without rows if there is none in the output.
    pub sources: TextColumn,
    /// For each function those that it calls directly.
    pub calls: ListColumn<u32>,
    /// For each function the prototypes of its indirect calls.
    pub indirect: ListColumn<u32>,
    /// The kernels among them.
    pub kernels: Vec<AccountKernel>,
    /// For each kernel numbers and sizes of its constant banks, ascending.
    pub constants: ListColumn<(u8, u64)>,
    /// For each kernel its parameters in order: offset, bytes.
    pub parameters: ListColumn<(u32, u32)>,
}

impl AccountFunctions {
    pub(super) fn of(program: &LinkedProgram<'_, '_>, numbers: &Numbers) -> Self {
        let graph = &program.graph;
        let mut all = AccountFunctions::default();
        let kernels = Kernels::of(program);
        let own_barriers: IdVec<NodeId, u32> =
            graph.nodes.ids().map(|node| all.read_records(&kernels, node)).collect();
        let facts = FunctionFacts::of(program, own_barriers);
        let prototypes = prototype_numbers(program);
        let mut next_kernel = 0..;
        let function = |node: NodeId| {
            let draft = &program.merged.draft;
            let symbol = &draft.symbols[program.merged.function(graph, node)];
            let of_slot = jump_slots::symbol_of_slot(draft, symbol);
            let (offset, code) = of_slot.unwrap_or((symbol.value, symbol.size));
            let definition = program.symbols.all[graph.nodes[node]].definition;
            AccountFunction {
                object: definition.map(|site| site.object.index() as u32),
                section: symbol.section.and_then(|section| place(numbers, section)),
                offset,
                code,
                registers: facts.registers(program, node),
                barriers: facts.barriers(program, node),
                stack: facts.stack(program, node),
                address_taken: graph.is_address_taken(node),
                is_recursive: graph.reach().components.cycle(node.index() as u32).is_some(),
                kernel: kernels.has(node).then(|| next_kernel.next()).flatten(),
            }
        };
        all.rows = graph.nodes.ids().map(function).collect();
        all.calls.reserve(all.rows.len());
        all.indirect.reserve(all.rows.len());
        for node in graph.nodes.ids() {
            all.calls.push(graph.calls(node).map(|callee| callee.index() as u32));
            let indirect = graph.indirect(node).filter_map(|name| prototypes.get(&name));
            all.indirect.push(indirect.map(|&number| number as u32));
        }
        let draft = &program.merged.draft;
        all.names = TextColumn::of(graph.nodes.ids().map(|node| {
            let function = program.merged.function(graph, node);
            draft.names.get(draft.symbols[function].name)
        }));
        all.sources = sources(program);
        all
    }

    /// Reads the attributes of a function in the input that defines it: returns its barriers
    /// without those of its callees, and adds it to the kernels if it is one.
    fn read_records(&mut self, kernels: &Kernels<'_, '_, '_>, node: NodeId) -> u32 {
        let mut barriers = None;
        if !kernels.has(node) {
            let records = may_have_barriers(kernels.program, node)
                .then(|| records(kernels.program, node))
                .into_iter();
            for record in records.flatten() {
                if record.code == code::NUM_BARRIERS {
                    barriers = barriers.max(Some(record.number()));
                }
            }
        } else {
            let mut kernel = kernels.without_attributes(node, &mut self.constants);
            let mut parameters: Vec<KernelParameter> = Vec::new();
            for record in records(kernels.program, node) {
                match KernelParameter::of(&record) {
                    Some(parameter) => parameters.push(parameter),
                    None if record.code == code::NUM_BARRIERS => {
                        barriers = barriers.max(Some(record.number()));
                    }
                    None => kernel.take(&record),
                }
            }
            parameters.sort_by_key(|parameter| parameter.ordinal);
            self.parameters.push(parameters.iter().map(|one| (one.offset, one.size)));
            self.kernels.push(kernel);
        }
        barriers.unwrap_or_else(|| barriers_in_flags(kernels.program, node))
    }
}

/// The lines of the source of all functions, if there is a line table.
fn sources(program: &LinkedProgram<'_, '_>) -> TextColumn {
    let draft = &program.merged.draft;
    let debug = draft.category_of(SectionKind::Debug).iter();
    let mut names = debug.map(|&id| draft.names.get(draft.sections[id].name));
    if !names.any(|name| name.ends_with(b".debug_line")) {
        return TextColumn::default();
    }
    let mut lines = SourceLines::default();
    let graph = &program.graph;
    let line = |node: NodeId| {
        let site = program.symbols.all[graph.nodes[node]].definition?;
        lines.of_symbol(&program.objects, site)
    };
    let all: Vec<Option<String>> = graph.nodes.ids().map(line).collect();
    TextColumn::of(all.iter().map(|line| line.as_deref().unwrap_or_default().as_bytes()))
}

/// The prototypes of all indirect calls.
pub(super) fn prototypes(program: &LinkedProgram<'_, '_>) -> Vec<AccountPrototype> {
    let graph = &program.graph;
    let numbers = prototype_numbers(program);
    let text = |name: NameId| program.merged.draft.names.text(name);
    let empty = AccountPrototype { text: String::new(), functions: Vec::new() };
    let mut all = vec![empty; numbers.len()];
    numbers.iter().for_each(|(&name, &number)| all[number].text = text(name));
    for node in graph.nodes.ids().filter(|&node| graph.is_address_taken(node)) {
        let number = graph.prototype(node).and_then(|name| numbers.get(&name));
        number.into_iter().for_each(|&number| all[number].functions.push(node.index()));
    }
    all
}

/// The places of the prototypes of indirect calls, in the order of the output.
fn prototype_numbers(program: &LinkedProgram<'_, '_>) -> HashMap<NameId, usize> {
    let graph = &program.graph;
    let mut numbers = HashMap::new();
    for node in graph.nodes.ids() {
        for name in graph.indirect(node) {
            let next = numbers.len();
            numbers.entry(name).or_insert(next);
        }
    }
    numbers
}

/// What functions need, and what they reach.
struct FunctionFacts {
    /// By vertex of the graph.
    registers_and_barriers: Vec<[LargestNumber; 2]>,
    stack: Vec<Option<DeepestPath>>,
    own_barriers: IdVec<NodeId, u32>,
    is_kernel: IdVec<NodeId, bool>,
}

impl FunctionFacts {
    fn of(program: &LinkedProgram<'_, '_>, own_barriers: IdVec<NodeId, u32>) -> Self {
        let graph = &program.graph;
        let ReachGraph { calls, components } = graph.reach();
        let of = |values: &IdVec<NodeId, u32>, vertex| {
            graph.vertex_node(vertex).map_or(0, |node| values[node])
        };
        let mut is_kernel = IdVec::filled(false, graph.nodes.len());
        let kernels = graph.kernels().iter().filter(|&&kernel| !graph.is_driver_function(kernel));
        kernels.for_each(|&kernel| is_kernel[kernel] = true);
        let attributes = &program.attributes;
        FunctionFacts {
            registers_and_barriers: components.largest(calls, |vertex| {
                [of(&attributes.registers, vertex), of(&own_barriers, vertex)]
            }),
            stack: components.deepest(calls, |vertex| of(&attributes.frames, vertex)),
            own_barriers,
            is_kernel,
        }
    }

    fn registers(&self, program: &LinkedProgram<'_, '_>, node: NodeId) -> AccountNeed {
        let own = program.attributes.registers[node];
        let linked = self.is_kernel[node]
            .then(|| program.attributes.kernel_facts(&program.graph, node).registers);
        need(program, node, own, linked, self.registers_and_barriers[node.index()][0])
    }

    fn barriers(&self, program: &LinkedProgram<'_, '_>, node: NodeId) -> AccountNeed {
        let own = self.own_barriers[node];
        let linked = self.is_kernel[node]
            .then(|| program.attributes.number(node, code::NUM_BARRIERS).unwrap_or(own));
        need(program, node, own, linked, self.registers_and_barriers[node.index()][1])
    }

    fn stack(&self, program: &LinkedProgram<'_, '_>, node: NodeId) -> AccountStack {
        let own = program.attributes.frames[node];
        if program.merged.draft.relocatable {
            return AccountStack { own, total: None, next: None };
        }
        let deepest = self.stack[node.index()];
        let total = match self.is_kernel[node] {
            true => program.attributes.kernel_facts(&program.graph, node).stack,
            false => deepest.map(|deepest| deepest.sum),
        };
        let next = total.and(deepest).and_then(|deepest| self.function_behind(program, deepest));
        AccountStack { own, total, next }
    }

    /// The function behind the next vertex of a path, which may be a prototype.
    fn function_behind(
        &self,
        program: &LinkedProgram<'_, '_>,
        deepest: DeepestPath,
    ) -> Option<u32> {
        let next = deepest.next?;
        match program.graph.vertex_node(next) {
            Some(node) => Some(node.index() as u32),
            None => self.function_behind(program, self.stack[next as usize]?),
        }
    }
}

/// The need of a function: `linked` is the number that the output has for a kernel.
fn need(
    program: &LinkedProgram<'_, '_>,
    node: NodeId,
    own: u32,
    linked: Option<u32>,
    largest: LargestNumber,
) -> AccountNeed {
    let itself = Some(node.index() as u32);
    if program.merged.draft.relocatable {
        return AccountNeed { own, total: own, set_by: itself };
    }
    let total = linked.unwrap_or(largest.value);
    let reached = || Some(program.graph.vertex_node(largest.vertex)?.index() as u32);
    let set_by = match total {
        _ if total == own => itself,
        _ if total == largest.value => reached(),
        _ => None,
    };
    AccountNeed { own, total, set_by }
}

/// Barriers of a function without its callees, in the flags of its code.
fn barriers_in_flags(program: &LinkedProgram<'_, '_>, node: NodeId) -> u32 {
    let of_code = || {
        if !program.attributes.flag_barriers.in_inputs {
            return None;
        }
        let site = program.symbols.all[program.graph.nodes[node]].definition?;
        let object = &program.objects[site.object];
        let text = object.symbol(site.index).defined_in()?;
        Some(object.section(text).barriers_of_cuda_12())
    };
    of_code().unwrap_or(0)
}

/// True if [`records`] may have NUM_BARRIERS. Few functions have it, and their records have left
/// the caches since they were read. Of two halves only the first was read.
fn may_have_barriers(program: &LinkedProgram<'_, '_>, node: NodeId) -> bool {
    program.merged.draft.flavour == Flavour::Mercury || program.attributes.may_have_barriers(node)
}

/// The attributes of a function in the input that defines it: those of its machine code, if it has
/// two halves.
fn records<'d>(
    program: &LinkedProgram<'_, 'd>,
    node: NodeId,
) -> impl Iterator<Item = Record<'d>> + use<'d> {
    let source = program.merged.function_infos[node];
    let records = source.map(|source| {
        let object = &program.objects[source.object];
        object.info_records(object.counterparts.of(source.input).unwrap_or(source.input))
    });
    records.into_iter().flatten()
}

/// The kernels of a program, and the sizes of what belongs to them.
struct Kernels<'p, 'o, 'd> {
    program: &'p LinkedProgram<'o, 'd>,
    is_kernel: IdVec<NodeId, bool>,
    sizes: EntrySizes<'p, 'o, 'd>,
    /// Shared sections and constant banks with the code sections of their kernels, by these.
    sections: Vec<(SectionId, SectionKind, u64)>,
}

impl<'p, 'o, 'd> Kernels<'p, 'o, 'd> {
    fn of(program: &'p LinkedProgram<'o, 'd>) -> Self {
        let graph = &program.graph;
        let sizes = EntrySizes::of(program);
        let mut is_kernel = IdVec::filled(false, graph.nodes.len());
        graph.kernels().iter().for_each(|&kernel| is_kernel[kernel] = sizes.has(kernel));
        let mut sections = Vec::new();
        let draft = &program.merged.draft;
        let kinds = [SectionKind::Shared, SectionKind::Constant(0), SectionKind::Parameters];
        let all = kinds.iter().flat_map(|&kind| draft.category_of(kind));
        let all = all.map(|&id| &draft.sections[id]);
        for section in all.filter(|section| !section.dropped) {
            let kind = match section.kind {
                SectionKind::Parameters => SectionKind::Constant(0),
                kind @ (SectionKind::Constant(_) | SectionKind::Shared) => kind,
                _ => continue,
            };
            sections.extend(section.owner.map(|code| (code, kind, section.size)));
        }
        sections.sort_by_key(|section| section.0);
        Kernels { program, is_kernel, sizes, sections }
    }

    fn has(&self, node: NodeId) -> bool {
        self.is_kernel[node]
    }

    /// A kernel without what its attributes say.
    fn without_attributes(
        &self,
        node: NodeId,
        constants: &mut ListColumn<(u8, u64)>,
    ) -> AccountKernel {
        let (program, sizes) = (self.program, &self.sizes);
        let own = program.merged.code(&program.graph, node).map_or(&[][..], |code| {
            let rest = &self.sections[self.sections.partition_point(|section| section.0 < code)..];
            &rest[..rest.iter().take_while(|section| section.0 == code).count()]
        });
        let mut banks: Vec<(u8, u64)> = Vec::with_capacity(own.len());
        let mut shared = None;
        for &(_, kind, size) in own {
            match kind {
                SectionKind::Constant(bank) => banks.push((bank, size)),
                _ => shared = shared.or(Some(size)),
            }
        }
        // Local kernels of one name share their banks, which name one of them.
        for (bank, size) in [(0, sizes.constant0(node)), (2, sizes.constant2(node))] {
            let is_own = banks.iter().any(|constant| constant.0 == bank);
            let size = size.filter(|&size| size != 0 && !is_own);
            banks.extend(size.map(|size| (bank, size)));
        }
        banks.sort_unstable();
        banks.dedup_by_key(|bank| bank.0);
        constants.push(banks);
        // Objects do not have it yet. `-v` leaves it out on sm_100 and later.
        let system = match program.merged.draft.relocatable {
            true => 0,
            false => program.options.target.reserved_shared.min(RESERVED_SHARED),
        };
        let shared = shared.unwrap_or_else(|| sizes.shared(node));
        let number = program.graph.kernels().binary_search(&node);
        let [textures, surfaces, samplers] = sizes.slots(node);
        AccountKernel {
            shared,
            system_shared: system.min(shared),
            dynamic_shared: number.is_ok_and(|number| program.data.shared.is_dynamic(number)),
            textures,
            surfaces,
            samplers,
            ..AccountKernel::default()
        }
    }
}

impl AccountKernel {
    fn take(&mut self, record: &Record<'_>) {
        let words = || Some([record.word(0)?, record.word(1)?, record.word(2)?]);
        let LaunchBounds { most_threads, threads, registers, cluster, most_cluster } =
            &mut self.bounds;
        match record.code {
            code::PARAM_CBANK => {
                let place = record.word(1).unwrap_or(0);
                (self.parameter_offset, self.parameter_size) = (place & 0xffff, place >> 16);
            }
            code::MAX_THREADS => *most_threads = words(),
            code::REQNTID => *threads = words(),
            code::MAXREG_COUNT => {
                *registers = Some(record.number()).filter(|&limit| limit != NO_REGISTER_LIMIT);
            }
            code::CTA_PER_CLUSTER => *cluster = words(),
            code::MAX_CLUSTER_RANK => *most_cluster = Some(record.number()),
            _ => {}
        }
    }
}
