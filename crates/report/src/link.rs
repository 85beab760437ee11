//! The account of a link as a report.
//!
//! In: a [`ReportedLink`]. Out: a [`Report`] with one image.

use std::collections::HashMap;

use culd_abi::limits::{BlockNeeds, Limits};
use culd_cubin::arch::Arch;
use culd_link::{Account, Dialect, LaunchBounds, demangle};

use crate::category::category;
use crate::data::{
    Bounds, DefinitionKind, RemovedWhy, Report, ReportCopies, ReportFunction, ReportImage,
    ReportInput, ReportKernel, ReportLimit, ReportLimits, ReportLink, ReportMessage, ReportNeed,
    ReportOccupancy, ReportPhase, ReportPrototype, ReportRelocations, ReportRemoval, ReportSection,
    ReportSpace, ReportStack, ReportVariable, SCHEMA,
};

/// Sizes of a block for which a report has the occupancy of a kernel.
const BLOCK_SIZES: [u32; 5] = [64, 128, 256, 512, 1024];

/// A link that is to be reported.
#[derive(Debug)]
pub struct ReportedLink<'a> {
    /// The output file as the command line names it; empty if there was no output.
    pub output: String,
    /// The target.
    pub target: &'a Arch,
    /// The release whose rules were followed.
    pub dialect: &'a Dialect,
    /// The options of the command line, without inputs.
    pub options: Vec<String>,
    /// The phases of the link in order.
    pub phases: Vec<ReportPhase>,
    /// The inputs that were linked, in link order, and behind them those that were not.
    pub inputs: Vec<ReportInput>,
    /// The place in `inputs` of each object of the account.
    pub objects: Vec<usize>,
    /// The account that the link made.
    pub account: &'a Account,
    /// The messages of the linker.
    pub messages: Vec<ReportMessage>,
}

impl Report {
    /// The report of a link.
    pub fn of_link(link: ReportedLink<'_>) -> Self {
        let AccountedParts { image, removed, copies } =
            AccountedParts::new(link.account, link.target, &link.objects);
        let linked = link.objects.iter().filter_map(|&place| link.inputs.get(place));
        Report {
            schema: SCHEMA.to_owned(),
            producer: producer(),
            link: Some(ReportLink {
                output: link.output,
                target: link.target.name.to_owned(),
                dialect: link.dialect.to_string(),
                options: link.options,
                input_bytes: linked.map(|input| input.bytes).sum(),
                output_bytes: image.bytes,
                phases: link.phases,
            }),
            file: None,
            inputs: link.inputs,
            images: vec![image],
            removed,
            copies,
            messages: link.messages,
        }
    }
}

/// The name of this program, with its version.
pub(crate) fn producer() -> String {
    format!("culd {}", env!("CARGO_PKG_VERSION"))
}

/// The parts of a report that an account has.
#[derive(Debug, Default)]
struct AccountedParts {
    image: ReportImage,
    removed: Vec<ReportRemoval>,
    copies: Vec<ReportCopies>,
}

impl AccountedParts {
    /// The account of a link to `target`; `inputs` has the place of each object among the inputs of
    /// the report.
    fn new(account: &Account, target: &Arch, inputs: &[usize]) -> Self {
        let input = |object: usize| inputs.get(object).copied();
        let limits = Limits::of(target.sm);
        let sections = account.sections.iter();
        let functions = account.functions.iter().enumerate();
        let function = |(place, function)| ReportFunction::of(function, place, limits, &input);
        let image = ReportImage {
            kind: "cubin".to_owned(),
            target: target.name.to_owned(),
            stored: account.size,
            bytes: account.size,
            limits: limits.map(ReportLimits::of),
            sections: sections.map(|section| ReportSection::of(section, account, &input)).collect(),
            functions: functions.map(function).collect(),
            prototypes: account.prototypes.iter().map(ReportPrototype::of).collect(),
            variables: account
                .variables
                .iter()
                .map(|one| ReportVariable::of(one, &input))
                .collect(),
            relocations: account.relocations.iter().map(ReportRelocations::of).collect(),
            ..ReportImage::default()
        };
        let removed = account.removed.iter().map(|one| ReportRemoval::of(one, &input)).collect();
        AccountedParts { image, removed, copies: copies(account, &input) }
    }
}

/// The place among the inputs of a report of an object.
type Places<'a> = &'a dyn Fn(usize) -> Option<usize>;

impl ReportFunction {
    fn of(
        function: &culd_link::AccountFunction,
        place: usize,
        limits: Option<&Limits>,
        input: Places<'_>,
    ) -> Self {
        let (registers, barriers) = (function.registers.total, function.barriers.total);
        let kernel = function.kernel.as_deref();
        ReportFunction {
            name: function.name.clone(),
            demangled: demangled(&function.name),
            input: function.object.and_then(input),
            section: function.section,
            offset: function.offset,
            code: function.code,
            registers: ReportNeed::of(function.registers, place),
            barriers: ReportNeed::of(function.barriers, place),
            stack: ReportStack::of(function.stack),
            address_taken: function.address_taken,
            recursive: function.is_recursive,
            calls: function.calls.clone(),
            indirect: function.indirect.clone(),
            kernel: kernel
                .map(|kernel| Box::new(ReportKernel::of(kernel, registers, barriers, limits))),
            source: String::new(),
        }
    }
}

impl ReportPrototype {
    fn of(prototype: &culd_link::AccountPrototype) -> Self {
        ReportPrototype { text: prototype.text.clone(), functions: prototype.functions.clone() }
    }
}

impl ReportVariable {
    fn of(variable: &culd_link::AccountVariable, input: Places<'_>) -> Self {
        ReportVariable {
            name: variable.name.clone(),
            demangled: demangled(&variable.name),
            space: ReportSpace::of(variable.space),
            input: variable.object.and_then(input),
            section: variable.section,
            offset: variable.offset,
            bytes: variable.size,
        }
    }
}

impl ReportRelocations {
    fn of(kept: &culd_link::KeptRelocations) -> Self {
        ReportRelocations { kind: kept.name.clone(), count: kept.count }
    }
}

impl ReportRemoval {
    fn of(removed: &culd_link::AccountRemoval, input: Places<'_>) -> Self {
        let (kind, why) = match removed.why {
            culd_link::RemovalReason::Unused => (DefinitionKind::Kernel, RemovedWhy::Unused),
            _ if removed.function => (DefinitionKind::Function, RemovedWhy::Unreached),
            _ => (DefinitionKind::Variable, RemovedWhy::Unreached),
        };
        ReportRemoval {
            name: removed.name.clone(),
            demangled: demangled(&removed.name),
            kind,
            input: input(removed.object).unwrap_or_default(),
            bytes: removed.size,
            why,
        }
    }
}

/// The dropped copies, one row for each name and winner, in the order of the inputs.
fn copies(account: &Account, input: Places<'_>) -> Vec<ReportCopies> {
    let mut all: Vec<ReportCopies> = Vec::new();
    let mut places: HashMap<(&str, usize), usize> = HashMap::new();
    for copy in &account.copies {
        let place = *places.entry((&copy.name, copy.winner)).or_insert_with(|| {
            let kind =
                if copy.function { DefinitionKind::Function } else { DefinitionKind::Variable };
            all.push(ReportCopies {
                name: copy.name.clone(),
                demangled: demangled(&copy.name),
                kind,
                kept: input(copy.winner).unwrap_or_default(),
                bytes: copy.kept,
                dropped: Vec::new(),
            });
            all.len() - 1
        });
        all[place].dropped.push((input(copy.object).unwrap_or_default(), copy.size));
    }
    all
}

/// The name in the source; empty if it is the same.
pub(crate) fn demangled(name: &str) -> String {
    demangle(name).filter(|demangled| demangled != name).unwrap_or_default()
}

impl ReportSection {
    fn of(section: &culd_link::OutputSection, account: &Account, input: Places<'_>) -> Self {
        let of_function = section
            .function
            .and_then(|function| account.functions.get(function)?.object.and_then(input));
        let pieces = section.pieces.iter();
        let pieces =
            pieces.filter_map(|piece| Some((input(piece.object)?, piece.offset, piece.size)));
        let mut pieces: Vec<(usize, u64, u64)> = pieces.collect();
        let only = match pieces[..] {
            [(input, 0, size)] if size == section.size => Some(input),
            _ => None,
        };
        if only.is_some() {
            pieces.clear();
        }
        ReportSection {
            name: section.name.clone(),
            category: category(&section.name, section.sh_type, section.flags),
            sh_type: section.sh_type,
            flags: section.flags,
            offset: section.offset,
            bytes: section.size,
            align: section.align,
            function: section.function,
            input: only.or_else(|| of_function.filter(|_| pieces.is_empty())),
            pieces,
        }
    }
}

impl ReportStack {
    fn of(stack: culd_link::AccountStack) -> Self {
        ReportStack { own: Some(stack.own), total: stack.total, next: stack.next }
    }
}

impl ReportNeed {
    /// The need of the function at `place`.
    fn of(need: culd_link::AccountNeed, place: usize) -> Self {
        ReportNeed {
            own: Some(need.own),
            total: Some(need.total),
            set_by: need.set_by.filter(|&other| other != place),
        }
    }
}

impl ReportKernel {
    fn of(
        kernel: &culd_link::AccountKernel,
        registers: u32,
        barriers: u32,
        limits: Option<&Limits>,
    ) -> Self {
        let parameters = kernel.parameters.iter();
        let mut own = ReportKernel {
            shared: kernel.shared,
            system_shared: kernel.system_shared,
            dynamic_shared: kernel.dynamic_shared,
            local: 0,
            constants: kernel.constants.clone(),
            textures: kernel.textures,
            surfaces: kernel.surfaces,
            samplers: kernel.samplers,
            parameter_offset: kernel.parameter_offset,
            parameter_bytes: kernel.parameter_size,
            parameters: parameters.map(|parameter| (parameter.offset, parameter.size)).collect(),
            bounds: Bounds::of(&kernel.bounds),
            occupancy: Vec::new(),
        };
        if let Some(limits) = limits {
            own.fill_occupancy(registers, barriers, limits);
        }
        own
    }

    /// Computes the occupancy of the kernel, which needs these registers and barriers.
    pub(crate) fn fill_occupancy(&mut self, registers: u32, barriers: u32, limits: &Limits) {
        let bounds = self.bounds.threads.or(self.bounds.most_threads);
        let own = bounds.map(|[x, y, z]| x.saturating_mul(y).saturating_mul(z));
        let own = own.filter(|threads| (1..=limits.block_threads).contains(threads));
        let mut sizes: Vec<u32> = BLOCK_SIZES.to_vec();
        match (self.bounds.threads, own) {
            // The only size that can be launched.
            (Some(_), Some(own)) => sizes = vec![own],
            (None, Some(own)) => {
                sizes.retain(|&threads| threads < own);
                sizes.push(own);
            }
            _ => {}
        }
        let shared = self.shared.saturating_sub(self.system_shared);
        let shared = u32::try_from(shared).unwrap_or(u32::MAX);
        let row = |threads| {
            ReportOccupancy::of(
                threads,
                limits.occupancy(BlockNeeds { threads, registers, shared, barriers }),
            )
        };
        self.occupancy = sizes.into_iter().map(row).collect();
    }
}

impl ReportOccupancy {
    fn of(threads: u32, occupancy: culd_abi::limits::Occupancy) -> Self {
        let culd_abi::limits::Occupancy { blocks, warps, limit, each } = occupancy;
        let limit = match limit {
            culd_abi::limits::Limit::Warps => ReportLimit::Warps,
            culd_abi::limits::Limit::Blocks => ReportLimit::Blocks,
            culd_abi::limits::Limit::Registers => ReportLimit::Registers,
            culd_abi::limits::Limit::Shared => ReportLimit::Shared,
            culd_abi::limits::Limit::Barriers => ReportLimit::Barriers,
        };
        ReportOccupancy { threads, blocks, warps, limit, by: each }
    }
}

impl Bounds {
    fn of(bounds: &LaunchBounds) -> Self {
        let LaunchBounds { most_threads, threads, registers, cluster, most_cluster } = *bounds;
        Bounds { most_threads, threads, registers, cluster, most_cluster }
    }
}

impl ReportLimits {
    pub(crate) fn of(limits: &Limits) -> Self {
        ReportLimits {
            source: limits.source.name().to_owned(),
            blocks: limits.blocks,
            warps: limits.warps,
            registers: limits.registers,
            shared: limits.shared,
            block_shared: limits.block_shared,
        }
    }
}

impl ReportSpace {
    fn of(space: culd_link::AccountSpace) -> Self {
        match space {
            culd_link::AccountSpace::Global => ReportSpace::Global,
            culd_link::AccountSpace::Managed => ReportSpace::Managed,
            culd_link::AccountSpace::Constant => ReportSpace::Constant,
            culd_link::AccountSpace::Shared => ReportSpace::Shared,
        }
    }
}
