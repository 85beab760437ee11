//! The account of a link as a report.
//!
//! In: a [`ReportedLink`]. Out: a [`Report`] with one image.

use std::collections::HashMap;

use culd_abi::limits::{BlockNeeds, Limits as Table};
use culd_cubin::arch::Arch;
use culd_link::{Account, Dialect, LaunchBounds, demangle};

use crate::category::category;
use crate::data::{
    Bounds, Copies, DefinitionKind, Function, Image, Input, Kernel, Limit, Limits, Link, Message,
    Need, Occupancy, Phase, Prototype, Relocations, Removed, RemovedWhy, Report, SCHEMA, Section,
    Space, Stack, Variable,
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
    pub phases: Vec<Phase>,
    /// The inputs that were linked, in link order, and behind them those that were not.
    pub inputs: Vec<Input>,
    /// The place in `inputs` of each object of the account.
    pub objects: Vec<usize>,
    /// The account that the link made.
    pub account: &'a Account,
    /// The messages of the linker.
    pub messages: Vec<Message>,
}

impl Report {
    /// The report of a link.
    pub fn of_link(link: ReportedLink<'_>) -> Self {
        let Accounted { image, removed, copies } =
            Accounted::new(link.account, link.target, &link.objects);
        let linked = link.objects.iter().filter_map(|&place| link.inputs.get(place));
        Report {
            schema: SCHEMA.to_owned(),
            producer: producer(),
            link: Some(Link {
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
struct Accounted {
    image: Image,
    removed: Vec<Removed>,
    copies: Vec<Copies>,
}

impl Accounted {
    /// The account of a link to `target`; `inputs` has the place of each object among the inputs of
    /// the report.
    fn new(account: &Account, target: &Arch, inputs: &[usize]) -> Self {
        let input = |object: usize| inputs.get(object).copied();
        let limits = Table::of(target.sm);
        let sections = account.sections.iter();
        let functions = account.functions.iter().enumerate();
        let function = |(place, function)| Function::of(function, place, limits, &input);
        let image = Image {
            kind: "cubin".to_owned(),
            target: target.name.to_owned(),
            stored: account.size,
            bytes: account.size,
            limits: limits.map(Limits::of),
            sections: sections.map(|section| Section::of(section, account, &input)).collect(),
            functions: functions.map(function).collect(),
            prototypes: account.prototypes.iter().map(Prototype::of).collect(),
            variables: account.variables.iter().map(|one| Variable::of(one, &input)).collect(),
            relocations: account.relocations.iter().map(Relocations::of).collect(),
            ..Image::default()
        };
        let removed = account.removed.iter().map(|one| Removed::of(one, &input)).collect();
        Accounted { image, removed, copies: copies(account, &input) }
    }
}

/// The place among the inputs of a report of an object.
type Places<'a> = &'a dyn Fn(usize) -> Option<usize>;

impl Function {
    fn of(
        function: &culd_link::Function,
        place: usize,
        limits: Option<&Table>,
        input: Places<'_>,
    ) -> Self {
        let needs = (function.registers.total, function.barriers.total);
        let kernel = function.kernel.as_deref();
        Function {
            name: function.name.clone(),
            demangled: demangled(&function.name),
            input: function.object.and_then(input),
            section: function.section,
            offset: function.offset,
            code: function.code,
            registers: Need::of(function.registers, place),
            barriers: Need::of(function.barriers, place),
            stack: Stack::of(function.stack),
            address_taken: function.address_taken,
            recursive: function.is_recursive,
            calls: function.calls.clone(),
            indirect: function.indirect.clone(),
            kernel: kernel.map(|kernel| Box::new(Kernel::of(kernel, needs, limits))),
            source: String::new(),
        }
    }
}

impl Prototype {
    fn of(prototype: &culd_link::Prototype) -> Self {
        Prototype { text: prototype.text.clone(), functions: prototype.functions.clone() }
    }
}

impl Variable {
    fn of(variable: &culd_link::Variable, input: Places<'_>) -> Self {
        Variable {
            name: variable.name.clone(),
            demangled: demangled(&variable.name),
            space: Space::of(variable.space),
            input: variable.object.and_then(input),
            section: variable.section,
            offset: variable.offset,
            bytes: variable.size,
        }
    }
}

impl Relocations {
    fn of(kept: &culd_link::KeptRelocations) -> Self {
        Relocations { kind: kept.name.clone(), count: kept.count }
    }
}

impl Removed {
    fn of(removed: &culd_link::Removed, input: Places<'_>) -> Self {
        let (kind, why) = match removed.why {
            culd_link::Why::Unused => (DefinitionKind::Kernel, RemovedWhy::Unused),
            _ if removed.function => (DefinitionKind::Function, RemovedWhy::Unreached),
            _ => (DefinitionKind::Variable, RemovedWhy::Unreached),
        };
        Removed {
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
fn copies(account: &Account, input: Places<'_>) -> Vec<Copies> {
    let mut all: Vec<Copies> = Vec::new();
    let mut places: HashMap<(&str, usize), usize> = HashMap::new();
    for copy in &account.copies {
        let place = *places.entry((&copy.name, copy.winner)).or_insert_with(|| {
            let kind =
                if copy.function { DefinitionKind::Function } else { DefinitionKind::Variable };
            all.push(Copies {
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

impl Section {
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
        Section {
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

impl Stack {
    fn of(stack: culd_link::Stack) -> Self {
        Stack { own: Some(stack.own), total: stack.total, next: stack.next }
    }
}

impl Need {
    /// The need of the function at `place`.
    fn of(need: culd_link::Need, place: usize) -> Self {
        Need {
            own: Some(need.own),
            total: Some(need.total),
            set_by: need.set_by.filter(|&other| other != place),
        }
    }
}

impl Kernel {
    fn of(
        kernel: &culd_link::Kernel,
        (registers, barriers): (u32, u32),
        limits: Option<&Table>,
    ) -> Self {
        let parameters = kernel.parameters.iter();
        let mut own = Kernel {
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
    pub(crate) fn fill_occupancy(&mut self, registers: u32, barriers: u32, limits: &Table) {
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
            Occupancy::of(
                threads,
                limits.occupancy(BlockNeeds { threads, registers, shared, barriers }),
            )
        };
        self.occupancy = sizes.into_iter().map(row).collect();
    }
}

impl Occupancy {
    fn of(threads: u32, occupancy: culd_abi::limits::Occupancy) -> Self {
        let culd_abi::limits::Occupancy { blocks, warps, limit, each } = occupancy;
        let limit = match limit {
            culd_abi::limits::Limit::Warps => Limit::Warps,
            culd_abi::limits::Limit::Blocks => Limit::Blocks,
            culd_abi::limits::Limit::Registers => Limit::Registers,
            culd_abi::limits::Limit::Shared => Limit::Shared,
            culd_abi::limits::Limit::Barriers => Limit::Barriers,
        };
        Occupancy { threads, blocks, warps, limit, by: each }
    }
}

impl Bounds {
    fn of(bounds: &LaunchBounds) -> Self {
        let LaunchBounds { most_threads, threads, registers, cluster, most_cluster } = *bounds;
        Bounds { most_threads, threads, registers, cluster, most_cluster }
    }
}

impl Limits {
    pub(crate) fn of(limits: &Table) -> Self {
        Limits {
            source: limits.source.name().to_owned(),
            blocks: limits.blocks,
            warps: limits.warps,
            registers: limits.registers,
            shared: limits.shared,
            block_shared: limits.block_shared,
        }
    }
}

impl Space {
    fn of(space: culd_link::Space) -> Self {
        match space {
            culd_link::Space::Global => Space::Global,
            culd_link::Space::Managed => Space::Managed,
            culd_link::Space::Constant => Space::Constant,
            culd_link::Space::Shared => Space::Shared,
        }
    }
}
