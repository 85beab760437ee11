//! The account of a link as a report.
//!
//! In: a [`ReportedLink`]. Out: a [`Report`] with one image.

use culd_abi::limits::{BlockNeeds, Limits};
use culd_cubin::arch::Arch;
use culd_link::{Account, DIALECTS, Dialect, LaunchBounds, SectionSource, demangle};
use hashbrown::HashMap;

use crate::category::category;
use crate::data::{
    Bounds, DefinitionKind, RemovedWhy, Report, ReportCopies, ReportFunction, ReportImage,
    ReportInput, ReportKernel, ReportLimit, ReportLimits, ReportLink, ReportMessage, ReportNeed,
    ReportOccupancy, ReportPhase, ReportPrototype, ReportRelocations, ReportRemoval, ReportSection,
    ReportSectionKind, ReportSpace, ReportStack, ReportVariable, SCHEMA,
};
use crate::program::Detail;

/// Sizes of a block for which a report has the occupancy of a kernel.
const BLOCK_SIZES: [u32; 5] = [64, 128, 256, 512, 1024];

/// The output of a link.
#[derive(Debug, Clone, Copy)]
pub enum LinkedCode<'a> {
    /// The account that the linker made of it.
    Account(&'a Account),
    /// The cubin, which a compiler made of all inputs: nothing is known of it but what it has.
    Cubin(&'a [u8]),
}

/// A link that is to be reported.
#[derive(Debug, Clone)]
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
    /// The output.
    pub code: LinkedCode<'a>,
    /// The messages of the linker.
    pub messages: Vec<ReportMessage>,
}

impl Report {
    /// The report of a link.
    pub fn of_link(link: ReportedLink<'_>) -> Self {
        let (image, removed, copies) = match link.code {
            LinkedCode::Account(account) => {
                let rows = AccountRows::of(&link, account);
                (rows.image(), rows.removed(), rows.copies())
            }
            LinkedCode::Cubin(bytes) => {
                let mut image =
                    ReportImage::new(String::new(), "cubin", link.target.name.to_owned());
                image.stored = bytes.len() as u64;
                image.read(bytes, Detail::Sections);
                (image, Vec::new(), Vec::new())
            }
        };
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

/// Rows of a report, by a function that fills one in.
fn filled<T: Default>(count: usize, fill: impl Fn(usize, &mut T)) -> Vec<T> {
    let row = |at| {
        let mut row = T::default();
        fill(at, &mut row);
        row
    };
    (0..count).map(row).collect()
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
            output_bytes: match self.code {
                LinkedCode::Account(account) => account.size,
                LinkedCode::Cubin(bytes) => bytes.len() as u64,
            },
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
/// would be tens of megabytes. They are written into rows of the caller's, whose memory they use
/// again.
pub(crate) struct AccountRows<'a> {
    pub(crate) account: &'a Account,
    target: &'a Arch,
    /// The place among the inputs of the report of each object.
    objects: &'a [usize],
    occupancies: Vec<Vec<ReportOccupancy>>,
    /// By kernel: the place of its occupancy; empty if nothing is known of the target.
    occupancy_of: Vec<usize>,
}

impl<'a> AccountRows<'a> {
    /// The rows of `link` by its account.
    pub(crate) fn of(link: &'a ReportedLink<'_>, account: &'a Account) -> Self {
        let functions = &account.functions;
        let mut occupancy_of = Vec::new();
        let mut all = Limits::of(link.target.sm).map(Occupancies::new);
        if let Some(all) = &mut all {
            occupancy_of.resize(functions.kernels.len(), 0);
            for function in &functions.rows {
                let Some(place) = function.kernel.map(|kernel| kernel as usize) else { continue };
                let kernel = &functions.kernels[place];
                let shared = kernel.shared.saturating_sub(kernel.system_shared);
                let bounds = Bounds::of(&kernel.bounds);
                let (registers, barriers) = (function.registers.total, function.barriers.total);
                occupancy_of[place] = all.place(bounds, registers, barriers, shared);
            }
        }
        AccountRows {
            account,
            target: link.target,
            objects: &link.objects,
            occupancies: all.map(|all| all.all).unwrap_or_default(),
            occupancy_of,
        }
    }

    fn input(&self, object: u32) -> Option<usize> {
        self.objects.get(object as usize).copied()
    }

    /// The image.
    fn image(&self) -> ReportImage {
        let account = self.account;
        ReportImage {
            sections: filled(account.sections.len(), |at, row| self.section(at, row)),
            functions: filled(account.functions.rows.len(), |at, row| self.function(at, row)),
            variables: filled(account.definitions.variables.len(), |at, row| {
                self.variable(at, row);
            }),
            ..self.image_without_rows()
        }
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

    pub(crate) fn section(&self, place: usize, row: &mut ReportSection) {
        let section = &self.account.sections[place];
        let of_function = || {
            let function = self.account.functions.rows.get(section.function? as usize);
            self.input(function?.object?)
        };
        row.kind = section.kind as usize;
        row.offset = section.offset;
        row.bytes = section.size;
        row.function = section.function.map(|function| function as usize);
        row.input = match section.source {
            SectionSource::Linker => of_function(),
            SectionSource::Object(object) => self.input(object).or_else(of_function),
            SectionSource::Pieces(..) => None,
        };
        let pieces = self.account.pieces_of(section).iter();
        row.pieces.clear();
        row.pieces
            .extend(pieces.filter_map(|one| Some((self.input(one.object)?, one.offset, one.size))));
    }

    pub(crate) fn function(&self, place: usize, row: &mut ReportFunction) {
        let functions = &self.account.functions;
        let function = &functions.rows[place];
        set_names(&mut row.name, &mut row.demangled, functions.names.get(place));
        row.input = function.object.and_then(|object| self.input(object));
        row.section = function.section.map(|section| section as usize);
        row.offset = function.offset;
        row.code = function.code;
        row.registers = ReportNeed::of(function.registers, place);
        row.barriers = ReportNeed::of(function.barriers, place);
        row.stack = ReportStack::of(function.stack);
        row.source.clear();
        row.source.push_str(functions.sources.get(place));
        row.address_taken = function.address_taken;
        row.recursive = function.is_recursive;
        set_places(&mut row.calls, functions.calls.get(place));
        set_places(&mut row.indirect, functions.indirect.get(place));
        match function.kernel {
            Some(kernel) => self.kernel(kernel as usize, row.kernel.get_or_insert_default()),
            None => row.kernel = None,
        }
    }

    fn kernel(&self, place: usize, row: &mut ReportKernel) {
        let functions = &self.account.functions;
        let kernel = &functions.kernels[place];
        row.shared = kernel.shared;
        row.system_shared = kernel.system_shared;
        row.dynamic_shared = kernel.dynamic_shared;
        row.constants.clear();
        row.constants.extend_from_slice(functions.constants.get(place));
        row.textures = kernel.textures;
        row.surfaces = kernel.surfaces;
        row.samplers = kernel.samplers;
        row.parameter_offset = kernel.parameter_offset;
        row.parameter_bytes = kernel.parameter_size;
        row.parameters.clear();
        row.parameters.extend_from_slice(functions.parameters.get(place));
        row.bounds = Bounds::of(&kernel.bounds);
        row.occupancy = self.occupancy_of.get(place).copied();
    }

    pub(crate) fn variable(&self, place: usize, row: &mut ReportVariable) {
        let definitions = &self.account.definitions;
        let variable = &definitions.variables[place];
        set_names(&mut row.name, &mut row.demangled, definitions.variable_names.get(place));
        row.space = ReportSpace::of(variable.space);
        row.input = variable.object.and_then(|object| self.input(object));
        row.section = variable.section.map(|section| section as usize);
        row.offset = variable.offset;
        row.bytes = variable.size;
    }

    pub(crate) fn removed(&self) -> Vec<ReportRemoval> {
        let definitions = &self.account.definitions;
        let row = |(place, removed): (usize, &culd_link::AccountRemoval)| {
            let name = definitions.removed_names.get(place);
            let (kind, why) = match removed.why {
                culd_link::RemovalReason::Unused => (DefinitionKind::Kernel, RemovedWhy::Unused),
                _ if removed.function => (DefinitionKind::Function, RemovedWhy::Unreached),
                _ => (DefinitionKind::Variable, RemovedWhy::Unreached),
            };
            ReportRemoval {
                name: name.to_owned(),
                demangled: demangled(name),
                kind,
                input: self.input(removed.object).unwrap_or_default(),
                bytes: removed.size,
                why,
            }
        };
        definitions.removed.iter().enumerate().map(row).collect()
    }

    /// The dropped copies, one row for each name and winner, in the order of the inputs.
    pub(crate) fn copies(&self) -> Vec<ReportCopies> {
        let mut all: Vec<ReportCopies> = Vec::new();
        let mut places: HashMap<(&str, u32), usize> = HashMap::new();
        let definitions = &self.account.definitions;
        for (place, copy) in definitions.copies.iter().enumerate() {
            let name = definitions.copy_names.get(place);
            let place = *places.entry((name, copy.winner)).or_insert_with(|| {
                let kind =
                    if copy.function { DefinitionKind::Function } else { DefinitionKind::Variable };
                all.push(ReportCopies {
                    name: name.to_owned(),
                    demangled: demangled(name),
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

/// Sets the names of a row.
fn set_names(name: &mut String, in_source: &mut String, mangled: &str) {
    name.clear();
    name.push_str(mangled);
    *in_source = demangled(mangled);
}

fn set_places(row: &mut Vec<usize>, places: &[u32]) {
    row.clear();
    row.extend(places.iter().map(|&place| place as usize));
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
        let next = stack.next.map(|next| next as usize);
        ReportStack { own: Some(stack.own), total: stack.total, next }
    }
}

impl ReportNeed {
    /// The need of the function at `place`.
    fn of(need: culd_link::AccountNeed, place: usize) -> Self {
        ReportNeed {
            own: Some(need.own),
            total: Some(need.total),
            set_by: need.set_by.map(|other| other as usize).filter(|&other| other != place),
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
