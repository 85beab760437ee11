//! The functions of the output: their needs, the functions that set them, and the calls.
//!
//! In: the finished program. Out: [`AccountFunction`]s in node order, so that the place of a
//! function is the index of its node.

use culd_cubin::attr::{Record, code};
use culd_cubin::parameter::KernelParameter;
use hashbrown::HashMap;

use super::sections::Places;
use super::{
    AccountFunction, AccountKernel, AccountNeed, AccountPrototype, AccountStack, LaunchBounds,
};
use crate::base::half::RESERVED_SHARED;
use crate::base::id::{DenseId, IdVec, NameId, NodeId, SectionId};
use crate::base::paths::{DeepestPath, LargestNumber};
use crate::check::report::{EntryReport, entry_reports};
use crate::draft::kind::SectionKind;
use crate::program::LinkedProgram;

/// MAXREG_COUNT of a kernel without a limit.
const NO_REGISTER_LIMIT: u32 = 0xff;

/// The functions of the output.
pub(super) fn functions(
    program: &LinkedProgram<'_, '_>,
    sections: &Places,
) -> Vec<AccountFunction> {
    let graph = &program.graph;
    let facts = FunctionFacts::of(program);
    let mut reports: HashMap<NodeId, EntryReport> = entry_reports(program).into_iter().collect();
    let sizes = kernel_sections(program);
    let numbers = prototype_numbers(program);
    let function = |node: NodeId| {
        let symbol = &program.merged.draft.symbols[program.merged.function(graph, node)];
        let definition = program.symbols.all[graph.nodes[node]].definition;
        let report = reports.remove(&node);
        let kernel = report.map(|report| Box::new(kernel(program, node, &report, &sizes)));
        AccountFunction {
            name: program.function_name(node),
            object: definition.map(|site| site.object.index()),
            section: symbol.section.and_then(|section| sections[section]),
            offset: symbol.value,
            code: symbol.size,
            registers: facts.registers(program, node),
            barriers: facts.barriers(program, node),
            stack: facts.stack(program, node),
            address_taken: graph.is_address_taken(node),
            is_recursive: graph.reach().1.cycle(node.index() as u32).is_some(),
            calls: graph.calls(node).map(DenseId::index).collect(),
            indirect: graph.indirect(node).filter_map(|name| numbers.get(&name)).copied().collect(),
            kernel,
        }
    };
    graph.nodes.ids().map(function).collect()
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
    registers: Vec<LargestNumber>,
    barriers: Vec<LargestNumber>,
    stack: Vec<Option<DeepestPath>>,
    own_barriers: IdVec<NodeId, u32>,
    is_kernel: IdVec<NodeId, bool>,
}

impl FunctionFacts {
    fn of(program: &LinkedProgram<'_, '_>) -> Self {
        let graph = &program.graph;
        let (reach, components) = graph.reach();
        let own_barriers: IdVec<NodeId, u32> =
            graph.nodes.ids().map(|node| own_barriers(program, node)).collect();
        let of = |values: &IdVec<NodeId, u32>, vertex| {
            graph.vertex_node(vertex).map_or(0, |node| values[node])
        };
        let mut is_kernel = IdVec::filled(false, graph.nodes.len());
        let kernels = graph.kernels().iter().filter(|&&kernel| !graph.is_driver_function(kernel));
        kernels.for_each(|&kernel| is_kernel[kernel] = true);
        let attributes = &program.attributes;
        FunctionFacts {
            registers: components.largest(reach, |vertex| of(&attributes.registers, vertex)),
            barriers: components.largest(reach, |vertex| of(&own_barriers, vertex)),
            stack: components.deepest(reach, |vertex| of(&attributes.frames, vertex)),
            own_barriers,
            is_kernel,
        }
    }

    fn registers(&self, program: &LinkedProgram<'_, '_>, node: NodeId) -> AccountNeed {
        let own = program.attributes.registers[node];
        let linked = self.is_kernel[node]
            .then(|| program.attributes.kernel_facts(&program.graph, node).registers);
        need(program, node, own, linked, self.registers[node.index()])
    }

    fn barriers(&self, program: &LinkedProgram<'_, '_>, node: NodeId) -> AccountNeed {
        let own = self.own_barriers[node];
        let linked = self.is_kernel[node]
            .then(|| program.attributes.number(node, code::NUM_BARRIERS).unwrap_or(own));
        need(program, node, own, linked, self.barriers[node.index()])
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
    ) -> Option<usize> {
        let next = deepest.next?;
        match program.graph.vertex_node(next) {
            Some(node) => Some(node.index()),
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
    let itself = Some(node.index());
    if program.merged.draft.relocatable {
        return AccountNeed { own, total: own, set_by: itself };
    }
    let total = linked.unwrap_or(largest.value);
    let reached = program.graph.vertex_node(largest.vertex).map(DenseId::index);
    let set_by = match total {
        _ if total == own => itself,
        _ if total == largest.value => reached,
        _ => None,
    };
    AccountNeed { own, total, set_by }
}

/// Barriers of a function without its callees.
fn own_barriers(program: &LinkedProgram<'_, '_>, node: NodeId) -> u32 {
    let of_attributes = records(program, node)
        .filter(|record| record.code == code::NUM_BARRIERS)
        .map(|record| record.number())
        .max();
    let of_flags = || {
        let site = program.symbols.all[program.graph.nodes[node]].definition?;
        let object = &program.objects[site.object];
        let text = object.symbol(site.index).defined_in()?;
        Some(object.section(text).barriers_of_cuda_12())
    };
    of_attributes.or_else(of_flags).unwrap_or(0)
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

/// Sizes of shared sections and constant banks, by the code section of the kernel that they belong
/// to.
fn kernel_sections(program: &LinkedProgram<'_, '_>) -> HashMap<SectionId, Vec<(SectionKind, u64)>> {
    let mut all: HashMap<SectionId, Vec<(SectionKind, u64)>> = HashMap::new();
    for section in program.merged.draft.sections.values().filter(|section| !section.dropped) {
        let kind = match section.kind {
            SectionKind::Parameters => SectionKind::Constant(0),
            kind @ (SectionKind::Constant(_) | SectionKind::Shared) => kind,
            _ => continue,
        };
        if let Some(code) = section.owner {
            all.entry(code).or_default().push((kind, section.size));
        }
    }
    all
}

fn kernel(
    program: &LinkedProgram<'_, '_>,
    node: NodeId,
    report: &EntryReport,
    sizes: &HashMap<SectionId, Vec<(SectionKind, u64)>>,
) -> AccountKernel {
    let code = program.merged.code(&program.graph, node);
    let own = code.and_then(|code| sizes.get(&code)).map_or(&[][..], Vec::as_slice);
    let constant = |&(kind, size): &(SectionKind, u64)| match kind {
        SectionKind::Constant(bank) => Some((bank, size)),
        _ => None,
    };
    let mut constants: Vec<(u8, u64)> = own.iter().filter_map(constant).collect();
    // Local kernels of one name share their banks, which name one of them.
    for (bank, size) in [(0, report.constant0), (2, report.constant2)] {
        let is_own = constants.iter().any(|constant| constant.0 == bank);
        let size = size.filter(|&size| size != 0 && !is_own);
        constants.extend(size.map(|size| (bank, size)));
    }
    constants.sort_unstable();
    constants.dedup_by_key(|bank| bank.0);
    let shared = own.iter().find(|own| own.0 == SectionKind::Shared).map(|own| own.1);
    // `-v` leaves the system's part out on sm_100 and later.
    let system = program.options.target.reserved_shared.min(RESERVED_SHARED);
    let shared = shared.unwrap_or(report.shared);
    let number = program.graph.kernels().binary_search(&node);
    let mut kernel = AccountKernel {
        shared,
        system_shared: system.min(shared),
        dynamic_shared: number.is_ok_and(|number| program.data.shared.is_dynamic(number)),
        constants,
        textures: report.textures,
        surfaces: report.surfaces,
        samplers: report.samplers,
        ..AccountKernel::default()
    };
    let mut parameters: Vec<KernelParameter> = Vec::new();
    for record in records(program, node) {
        match KernelParameter::of(&record) {
            Some(parameter) => parameters.push(parameter),
            None => kernel.take(&record),
        }
    }
    parameters.sort_by_key(|parameter| parameter.ordinal);
    kernel.parameters = parameters.iter().map(|one| (one.offset, one.size)).collect();
    kernel
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
