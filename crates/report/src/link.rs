//! The account of a link as a report.
//!
//! In: a [`ReportedLink`]. Out: a [`Report`] with one image.

use std::borrow::Cow;

use culd_abi::limits::{BlockNeeds, Limits};
use culd_cubin::arch::Arch;
use culd_link::{Account, DIALECTS, Dialect, LaunchBounds, demangle};
use hashbrown::HashMap;

use crate::category::category;
use crate::data::{
    Bounds, DefinitionKind, RemovedWhy, Report, ReportCopies, ReportImage, ReportInput,
    ReportLimit, ReportLimits, ReportLink, ReportMessage, ReportNeed, ReportOccupancy, ReportPhase,
    ReportPrototype, ReportRelocations, ReportRemoval, ReportSection, ReportSectionKind,
    ReportSpace, ReportStack, SCHEMA,
};
use crate::rows::{FunctionRow, KernelRow, VariableRow};

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
        let rows = AccountRows::of(&link);
        let mut image = rows.image_without_rows();
        image.sections = (0..link.account.sections.len()).map(|at| rows.section(at)).collect();
        let (functions, variables) = (link.account.functions.len(), link.account.variables.len());
        image.functions = (0..functions).map(|at| rows.function(at).into()).collect();
        image.variables = (0..variables).map(|at| rows.variable(at).into()).collect();
        let (removed, copies) = (rows.removed(), rows.copies());
        let of_link = link.report_link();
        Report {
            schema: SCHEMA.to_owned(),
            producer: producer(),
            link: Some(of_link),
            file: None,
            inputs: link.inputs,
            images: vec![image],
            removed,
            copies,
            messages: link.messages,
        }
    }
}

impl ReportedLink<'_> {
    pub(crate) fn report_link(&self) -> ReportLink {
        let linked = self.objects.iter().filter_map(|&place| self.inputs.get(place));
        let newest = DIALECTS.last();
        let rules = |newest| {
            let rules = self.dialect.rules_unlike(newest).into_iter();
            rules.filter(|name| !NO_RULES.contains(name)).map(str::to_owned).collect()
        };
        ReportLink {
            output: self.output.clone(),
            target: self.target.name.to_owned(),
            dialect: self.dialect.to_string(),
            rules: newest.map(rules).unwrap_or_default(),
            options: self.options.clone(),
            input_bytes: linked.map(|input| input.bytes).sum(),
            output_bytes: self.account.size,
            phases: self.phases.clone(),
        }
    }
}

/// The name of this program, with its version.
pub(crate) fn producer() -> String {
    format!("culd {}", env!("CARGO_PKG_VERSION"))
}

/// Fields of a dialect that name its release.
const NO_RULES: [&str; 2] = ["toolkit", "build"];

/// The rows of a report, each made of the account when it is asked for: the rows of a large link
/// would be tens of megabytes.
pub(crate) struct AccountRows<'a> {
    pub(crate) account: &'a Account,
    target: &'a Arch,
    /// The place among the inputs of the report of each object.
    objects: &'a [usize],
    occupancies: Vec<Vec<ReportOccupancy>>,
    /// By kernel, in the order of the functions: the place of its occupancy.
    occupancy_of: HashMap<usize, usize>,
}

impl<'a> AccountRows<'a> {
    pub(crate) fn of(link: &'a ReportedLink<'_>) -> Self {
        let mut occupancy_of = HashMap::new();
        let mut all = Limits::of(link.target.sm).map(Occupancies::new);
        let functions = link.account.functions.iter().enumerate();
        for (place, function) in functions {
            let Some((kernel, all)) = function.kernel.as_deref().zip(all.as_mut()) else {
                continue;
            };
            let shared = kernel.shared.saturating_sub(kernel.system_shared);
            let bounds = Bounds::of(&kernel.bounds);
            let (registers, barriers) = (function.registers.total, function.barriers.total);
            occupancy_of.insert(place, all.place(bounds, registers, barriers, shared));
        }
        AccountRows {
            account: link.account,
            target: link.target,
            objects: &link.objects,
            occupancies: all.map(|all| all.all).unwrap_or_default(),
            occupancy_of,
        }
    }

    fn input(&self, object: usize) -> Option<usize> {
        self.objects.get(object).copied()
    }

    /// The image without sections, functions and variables.
    pub(crate) fn image_without_rows(&self) -> ReportImage {
        let account = self.account;
        ReportImage {
            kind: "cubin".to_owned(),
            target: self.target.name.to_owned(),
            stored: account.size,
            bytes: account.size,
            limits: Limits::of(self.target.sm).map(ReportLimits::of),
            prototypes: account.prototypes.iter().map(ReportPrototype::of).collect(),
            relocations: account.relocations.iter().map(ReportRelocations::of).collect(),
            occupancies: self.occupancies.clone(),
            section_kinds: account.section_kinds.iter().map(ReportSectionKind::of).collect(),
            ..ReportImage::default()
        }
    }

    pub(crate) fn section(&self, place: usize) -> ReportSection {
        let section = &self.account.sections[place];
        let of_function = || self.input(self.account.functions.get(section.function?)?.object?);
        let whole = section.object.and_then(|object| self.input(object));
        let pieces = section.pieces.iter();
        let piece =
            |one: &culd_link::Contribution| Some((self.input(one.object)?, one.offset, one.size));
        ReportSection {
            kind: section.kind,
            offset: section.offset,
            bytes: section.size,
            function: section.function,
            input: match section.pieces[..] {
                [] => whole.or_else(of_function),
                _ => None,
            },
            pieces: pieces.filter_map(piece).collect(),
        }
    }

    pub(crate) fn function(&self, place: usize) -> FunctionRow<'a> {
        let function = &self.account.functions[place];
        let occupancy = || self.occupancy_of.get(&place).copied();
        let kernel = function.kernel.as_deref();
        FunctionRow {
            name: &function.name,
            demangled: Cow::Owned(demangled(&function.name)),
            input: function.object.and_then(|object| self.input(object)),
            section: function.section,
            offset: function.offset,
            code: function.code,
            registers: ReportNeed::of(function.registers, place),
            barriers: ReportNeed::of(function.barriers, place),
            stack: ReportStack::of(function.stack),
            address_taken: function.address_taken,
            recursive: function.is_recursive,
            calls: &function.calls,
            indirect: &function.indirect,
            kernel: kernel.map(|kernel| KernelRow::of_account(kernel, occupancy())),
            source: "",
        }
    }

    pub(crate) fn variable(&self, place: usize) -> VariableRow<'a> {
        let variable = &self.account.variables[place];
        VariableRow {
            name: &variable.name,
            demangled: Cow::Owned(demangled(&variable.name)),
            space: ReportSpace::of(variable.space),
            input: variable.object.and_then(|object| self.input(object)),
            section: variable.section,
            offset: variable.offset,
            bytes: variable.size,
        }
    }

    pub(crate) fn removed(&self) -> Vec<ReportRemoval> {
        let row = |removed: &culd_link::AccountRemoval| {
            let (kind, why) = match removed.why {
                culd_link::RemovalReason::Unused => (DefinitionKind::Kernel, RemovedWhy::Unused),
                _ if removed.function => (DefinitionKind::Function, RemovedWhy::Unreached),
                _ => (DefinitionKind::Variable, RemovedWhy::Unreached),
            };
            ReportRemoval {
                name: removed.name.clone(),
                demangled: demangled(&removed.name),
                kind,
                input: self.input(removed.object).unwrap_or_default(),
                bytes: removed.size,
                why,
            }
        };
        self.account.removed.iter().map(row).collect()
    }

    /// The dropped copies, one row for each name and winner, in the order of the inputs.
    pub(crate) fn copies(&self) -> Vec<ReportCopies> {
        let mut all: Vec<ReportCopies> = Vec::new();
        let mut places: HashMap<(&str, usize), usize> = HashMap::new();
        for copy in &self.account.copies {
            let place = *places.entry((&copy.name, copy.winner)).or_insert_with(|| {
                let kind =
                    if copy.function { DefinitionKind::Function } else { DefinitionKind::Variable };
                all.push(ReportCopies {
                    name: copy.name.clone(),
                    demangled: demangled(&copy.name),
                    kind,
                    kept: self.input(copy.winner).unwrap_or_default(),
                    bytes: copy.kept,
                    dropped: Vec::new(),
                });
                all.len() - 1
            });
            let dropped = (self.input(copy.object).unwrap_or_default(), copy.size);
            all[place].dropped.push(dropped);
        }
        all
    }
}

impl ReportPrototype {
    fn of(prototype: &culd_link::AccountPrototype) -> Self {
        ReportPrototype { text: prototype.text.clone(), functions: prototype.functions.clone() }
    }
}

impl ReportRelocations {
    fn of(kept: &culd_link::KeptRelocations) -> Self {
        ReportRelocations { kind: kept.name.clone(), count: kept.count }
    }
}

/// The name in the source; empty if it is the same.
pub(crate) fn demangled(name: &str) -> String {
    demangle(name).filter(|demangled| demangled != name).unwrap_or_default()
}

impl ReportSectionKind {
    fn of(kind: &culd_link::OutputSectionKind) -> Self {
        ReportSectionKind {
            name: kind.name.clone(),
            of_function: kind.of_function,
            category: category(kind.name.as_bytes(), kind.sh_type, kind.flags),
            sh_type: kind.sh_type,
            flags: kind.flags,
            align: kind.align,
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

impl<'a> KernelRow<'a> {
    fn of_account(kernel: &'a culd_link::AccountKernel, occupancy: Option<usize>) -> Self {
        KernelRow {
            shared: kernel.shared,
            system_shared: kernel.system_shared,
            dynamic_shared: kernel.dynamic_shared,
            local: 0,
            textures: kernel.textures,
            surfaces: kernel.surfaces,
            samplers: kernel.samplers,
            parameter_offset: kernel.parameter_offset,
            parameter_bytes: kernel.parameter_size,
            parameters: &kernel.parameters,
            constants: &kernel.constants,
            bounds: Bounds::of(&kernel.bounds),
            occupancy,
        }
    }
}

impl Bounds {
    /// The sizes of a block for which the occupancy is of interest.
    fn block_sizes(self, limits: &Limits) -> BlockSizes {
        let bounds = self.threads.or(self.most_threads);
        let own = bounds.map(|[x, y, z]| x.saturating_mul(y).saturating_mul(z));
        let own = own.filter(|threads| (1..=limits.block_threads).contains(threads));
        match (self.threads, own) {
            (Some(_), Some(own)) => BlockSizes::Only(own),
            (None, Some(own)) => BlockSizes::UpTo(own),
            _ => BlockSizes::Usual,
        }
    }
}

/// Sizes of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum BlockSizes {
    Usual,
    /// Usual sizes below this one, and this one.
    UpTo(u32),
    /// The only size that can be launched.
    Only(u32),
}

impl BlockSizes {
    fn list(self) -> Vec<u32> {
        let mut sizes: Vec<u32> = BLOCK_SIZES.to_vec();
        match self {
            BlockSizes::Usual => {}
            BlockSizes::UpTo(own) => {
                sizes.retain(|&threads| threads < own);
                sizes.push(own);
            }
            BlockSizes::Only(own) => sizes = vec![own],
        }
        sizes
    }
}

/// The occupancies of kernels: those of kernels with the same needs once.
struct Occupancies<'l> {
    limits: &'l Limits,
    known: HashMap<(BlockSizes, u32, u32, u32), usize>,
    all: Vec<Vec<ReportOccupancy>>,
}

impl<'l> Occupancies<'l> {
    fn new(limits: &'l Limits) -> Self {
        Occupancies { limits, known: HashMap::new(), all: Vec::new() }
    }

    /// The place of the occupancy of a kernel; `shared` is without the part of the system.
    fn place(&mut self, bounds: Bounds, registers: u32, barriers: u32, shared: u64) -> usize {
        let Occupancies { limits, known, all } = self;
        let shared = u32::try_from(shared).unwrap_or(u32::MAX);
        let sizes = bounds.block_sizes(limits);
        *known.entry((sizes, registers, shared, barriers)).or_insert_with(|| {
            let row = |threads| {
                let needs = BlockNeeds { threads, registers, shared, barriers };
                ReportOccupancy::of(threads, limits.occupancy(needs))
            };
            all.push(sizes.list().into_iter().map(row).collect());
            all.len() - 1
        })
    }
}

impl ReportImage {
    /// Computes the occupancy of all kernels.
    pub(crate) fn fill_occupancies(&mut self, limits: &Limits) {
        let mut all = Occupancies::new(limits);
        for function in &mut self.functions {
            let Some(kernel) = function.kernel.as_deref_mut() else { continue };
            let shared = kernel.shared.saturating_sub(kernel.system_shared);
            let registers = function.registers.total.unwrap_or(0);
            let barriers = function.barriers.total.unwrap_or(0);
            kernel.occupancy = Some(all.place(kernel.bounds, registers, barriers, shared));
        }
        self.occupancies = all.all;
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
