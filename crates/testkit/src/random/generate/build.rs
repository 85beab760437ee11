//! Builds the frame of a program: files, names, definitions, and what each file may name.
//!
//! In: a family and a random number generator. Out: a [`GeneratedProgram`] whose functions have
//! empty bodies; [`super::fill`] fills them. Guaranteed: no two symbols of a file share a name.
//! Calls can be acyclic, because only functions with a smaller id call a function.

use super::cuda;
use super::fill;
use super::mix::{Mix, ProgramFamily};
use super::model::{
    ArrayShape, DebugLevel, GeneratedFunction, GeneratedItem, GeneratedLinkage, GeneratedProgram,
    GeneratedSpace, GeneratedSymbol, GeneratedSymbolId, GeneratedType, GeneratedVariable,
    ModelSymbolKind, OpaqueReference, PtxArch, Signature, Unit,
};
use super::names;
use super::recent;
use super::rng::Rng;
use std::collections::BTreeMap;

/// The complete program of a family.
pub(super) fn build(
    seed: u64,
    family: &ProgramFamily,
    arch: PtxArch,
    rng: &mut Rng,
) -> GeneratedProgram {
    let mut builder = ProgramBuilder::new(seed, family, arch, rng);
    if builder.mix.cuda {
        cuda::fill(&mut builder.program, builder.mix, builder.rng);
        return builder.program;
    }
    builder.variables();
    builder.functions();
    builder.aliases();
    builder.entries();
    builder.tables();
    fill::fill(&mut builder);
    if builder.rng.chance(builder.mix.select_pc) {
        builder.selection();
    }
    // Numbers of its own: programs of seeds that it leaves alone stay the same.
    names::of_driver(&mut builder.program, &mut Rng::new(!seed));
    builder.program
}

/// The file that defines a symbol, and which files may name it.
pub(super) struct SymbolHome {
    /// First file that defines it.
    pub unit: usize,
    /// Only that file may name it.
    pub local: bool,
    /// It can be declared before its definition.
    pub ahead: bool,
}

/// A program under construction.
pub(super) struct ProgramBuilder<'r> {
    pub rng: &'r mut Rng,
    pub mix: &'static Mix,
    pub program: GeneratedProgram,
    homes: Vec<SymbolHome>,
    /// By file, the symbol of each name.
    claims: Vec<BTreeMap<String, GeneratedSymbolId>>,
    signatures: Vec<Signature>,
}

impl<'r> ProgramBuilder<'r> {
    fn new(seed: u64, family: &ProgramFamily, arch: PtxArch, rng: &'r mut Rng) -> Self {
        let mix = family.mix;
        let count = rng.range(mix.units.0, mix.units.1);
        let program = GeneratedProgram {
            seed,
            family: family.name,
            link_arch: arch,
            link_options: Vec::new(),
            symbols: Vec::new(),
            units: (0..count).map(|index| unit(index, arch, mix, rng)).collect(),
            library: false,
            index: None,
            rounds: Vec::new(),
        };
        let variety = rng.range(1, mix.signature_variety);
        let signatures = (0..variety).map(|i| signature(i, rng)).collect();
        let claims = vec![BTreeMap::new(); count];
        let mut builder = Self { rng, mix, program, homes: Vec::new(), claims, signatures };
        if !mix.link_options.is_empty() {
            for _ in 0..builder.rng.range(1, 2) {
                let option = builder.rng.pick(mix.link_options).to_owned();
                if !builder.program.link_options.contains(&option) {
                    builder.program.link_options.push(option);
                }
            }
        }
        if mix.textures.1 > 0 && builder.rng.chance(mix.independent_pc) {
            builder.program.units.iter_mut().for_each(|unit| unit.independent_textures = true);
        }
        builder
    }

    /// Adds options that keep some of the kernels.
    fn selection(&mut self) {
        let named = |wanted: fn(&ModelSymbolKind) -> bool| {
            let symbols = self.program.symbols.iter().filter(|symbol| wanted(&symbol.kind));
            symbols.map(|symbol| symbol.name.clone()).collect::<Vec<_>>()
        };
        let kernels = named(|kind| matches!(kind, ModelSymbolKind::Entry(_)));
        let variables = named(|kind| matches!(kind, ModelSymbolKind::Variable(..)));
        for _ in 0..self.rng.range(1, 2) {
            let option = if !variables.is_empty() && self.rng.chance(15) {
                format!("-variables-used={}", variables[self.rng.below(variables.len())])
            } else if kernels.is_empty() {
                "-kernels-used=k".to_owned()
            } else {
                let name = &kernels[self.rng.below(kernels.len())];
                format!("-kernels-used={}", self.pattern(name))
            };
            self.program.link_options.push(option);
        }
    }

    /// A pattern that matches `name`, and perhaps other names.
    fn pattern(&mut self, name: &str) -> String {
        let (first, last) = (self.rng.below(name.len()), self.rng.below(name.len()));
        let (from, to) = (first.min(last), first.max(last) + 1);
        match self.rng.below(5) {
            0 | 1 => name.to_owned(),
            2 => name[from..to].to_owned(),
            3 => format!("{}*{}", &name[..from], &name[to..]),
            _ => format!("{}*", &name[from..to]),
        }
    }

    /// All symbols with their homes.
    pub(super) fn symbols(
        &self,
    ) -> impl Iterator<Item = (GeneratedSymbolId, &GeneratedSymbol, &SymbolHome)> {
        let pairs = self.program.symbols.iter().zip(&self.homes);
        pairs.enumerate().map(|(i, (symbol, home))| (GeneratedSymbolId(i as u32), symbol, home))
    }

    /// True if code or data of `unit` may name `id`.
    pub(super) fn visible(&self, unit: usize, id: GeneratedSymbolId) -> bool {
        let home = &self.homes[id.0 as usize];
        let name = &self.program.symbol(id).name;
        (home.unit == unit || !home.local)
            && self.claims[unit].get(name).is_none_or(|&claimed| claimed == id)
    }

    /// Notes that `unit` names `id`, so that no other symbol of that name can be used there.
    pub(super) fn claim(&mut self, unit: usize, id: GeneratedSymbolId) {
        self.claims[unit].insert(self.program.symbol(id).name.clone(), id);
    }

    fn add(&mut self, stem: &str, kind: ModelSymbolKind, home: SymbolHome) -> GeneratedSymbolId {
        let id = GeneratedSymbolId(self.program.symbols.len() as u32);
        let mut name = format!("{stem}{}", id.0);
        if home.local && self.rng.chance(self.mix.same_name_pc) {
            // One of few names, so that other files use it too, for the same kind of symbol or for
            // another.
            let common = format!("{stem}_same{}", self.rng.below(2));
            if !self.claims[home.unit].contains_key(&common) {
                name = common;
            }
        } else if self.mix.names_pc > 0 && self.rng.chance(self.mix.names_pc) {
            name = names::odd(stem, id.0, self.rng);
        } else if self.rng.chance(20) {
            name = match self.rng.below(4) {
                0 => format!("_ZN2ns{}{stem}E{}v", stem.len(), id.0),
                1 => format!("{stem}${}", id.0),
                2 => format!("a_rather_long_name_of_{stem}_{}", id.0),
                _ => format!("_{}{stem}", id.0),
            };
        }
        let unit = home.unit;
        self.program.symbols.push(GeneratedSymbol { name, kind, unified: None });
        self.homes.push(home);
        self.claim(unit, id);
        id
    }

    /// The files that define another copy of a symbol of `unit`: some other files in which the name
    /// is free.
    pub(super) fn further_units(&mut self, unit: usize, id: GeneratedSymbolId) -> Vec<usize> {
        let mut others = Vec::new();
        for other in 0..self.program.units.len() {
            if other != unit && self.visible(other, id) && self.rng.chance(50) {
                self.claim(other, id);
                others.push(other);
            }
        }
        others
    }

    fn variables(&mut self) {
        for unit in 0..self.program.units.len() {
            for (space, range) in [
                (GeneratedSpace::Global, self.mix.globals),
                (GeneratedSpace::Const, self.mix.constants),
                (GeneratedSpace::Shared, self.mix.shared),
            ] {
                for _ in 0..self.rng.range(range.0, range.1) {
                    self.variable(unit, space);
                }
            }
            for _ in 0..self.rng.range(self.mix.textures.0, self.mix.textures.1) {
                self.reference(unit);
            }
        }
        for _ in 0..self.rng.range(self.mix.commons.0, self.mix.commons.1) {
            self.common();
        }
        if self.rng.chance(self.mix.dynamic_shared_pc) {
            self.dynamic_shared();
        }
    }

    fn variable(&mut self, unit: usize, space: GeneratedSpace) {
        let mut shape = shape(self.rng, space);
        shape.align = self.large_align(space).unwrap_or(shape.align);
        let managed = space == GeneratedSpace::Global && self.rng.chance(self.mix.managed_pc);
        let kind =
            ModelSymbolKind::Variable(if managed { GeneratedSpace::Managed } else { space }, shape);
        let local = self.rng.chance(self.mix.local_pc);
        let weak = !local && self.rng.chance(self.mix.weak_variable_pc);
        let stem = ["g", "data", "tab"][self.rng.below(3)];
        let home = SymbolHome { unit, local, ahead: !local };
        let id = self.add(stem, kind.clone(), home);
        let linkage = match (local, weak) {
            (true, _) => GeneratedLinkage::Local,
            (_, true) => GeneratedLinkage::Weak,
            _ => GeneratedLinkage::Visible,
        };
        let mut copies = vec![(unit, linkage)];
        if weak {
            copies.extend(
                self.further_units(unit, id)
                    .into_iter()
                    .map(|other| (other, GeneratedLinkage::Weak)),
            );
            self.crown(&mut copies);
        }
        for (unit, linkage) in copies {
            let mut kind = kind.clone();
            if let (ModelSymbolKind::Variable(_, shape), true) =
                (&mut kind, weak && self.rng.chance(8))
            {
                shape.align = 1 << self.rng.range(shape.width.trailing_zeros() as usize, 6);
            }
            if let (ModelSymbolKind::Variable(_, shape), true) = (&mut kind, weak) {
                shape.align = self.large_align(space).unwrap_or(shape.align);
            }
            let variable = GeneratedVariable { symbol: id, linkage, kind, init: Vec::new() };
            self.program.units[unit].items.push(GeneratedItem::Variable(variable));
        }
    }

    /// Sometimes an alignment larger than any use needs, in families that have such.
    pub(super) fn large_align(&mut self, space: GeneratedSpace) -> Option<u32> {
        let largest =
            if matches!(space, GeneratedSpace::Shared | GeneratedSpace::Const) { 14 } else { 20 };
        let pc = self.mix.large_align_pc;
        (pc > 0 && self.rng.chance(pc)).then(|| 1 << self.rng.range(6, largest))
    }

    /// Sometimes makes one of several weak copies strong.
    fn crown(&mut self, copies: &mut [(usize, GeneratedLinkage)]) {
        if self.rng.chance(self.mix.strong_winner_pc) {
            let winner = self.rng.below(copies.len());
            copies[winner].1 = GeneratedLinkage::Visible;
        }
    }

    fn reference(&mut self, unit: usize) {
        let independent = self.program.units[unit].independent_textures;
        let kind = match self.rng.below(4) {
            0 => OpaqueReference::Surface,
            1 if independent => OpaqueReference::Sampler,
            _ => OpaqueReference::Texture,
        };
        let home = SymbolHome { unit, local: false, ahead: false };
        let kind = ModelSymbolKind::Reference(kind);
        let id = self.add("tex", kind.clone(), home);
        self.define_reference(unit, id, &kind);
    }

    /// A common symbol of several files. If the sizes differ, every file declares it itself: a
    /// plain reference would have to guess the largest.
    fn common(&mut self) {
        let unit = self.rng.below(self.program.units.len());
        let first = shape(self.rng, GeneratedSpace::Global);
        let kind = ModelSymbolKind::Variable(GeneratedSpace::Global, first);
        let id = self.add("common", kind, SymbolHome { unit, local: false, ahead: false });
        let same_size = self.rng.chance(50);
        let mut units = vec![unit];
        if same_size {
            units.extend(self.further_units(unit, id));
        } else {
            units.extend((0..self.program.units.len()).filter(|&other| other != unit));
        }
        // A definition wins over common symbols; it must be at least as large.
        let winner = self.rng.chance(15).then(|| self.rng.pick(&units));
        for unit in units {
            let mut shape = first;
            if !same_size {
                shape.count = if winner == Some(unit) { 20 } else { self.rng.range(1, 20) as u32 };
            }
            shape.align = self
                .large_align(GeneratedSpace::Global)
                .unwrap_or(shape.width << self.rng.below(4));
            let linkage = if winner == Some(unit) {
                GeneratedLinkage::Visible
            } else {
                GeneratedLinkage::Common
            };
            let kind = ModelSymbolKind::Variable(GeneratedSpace::Global, shape);
            let variable = GeneratedVariable { symbol: id, linkage, kind, init: Vec::new() };
            self.program.units[unit].items.push(GeneratedItem::Variable(variable));
            self.claim(unit, id);
        }
    }

    /// `.extern .shared x[]` of one name in several files; each file declares it, none defines it.
    fn dynamic_shared(&mut self) {
        let align = self.large_align(GeneratedSpace::Shared).unwrap_or(1 << self.rng.range(0, 5));
        let shape = ArrayShape { width: 1, count: 0, align };
        let home = SymbolHome { unit: 0, local: false, ahead: false };
        self.add("dynamic", ModelSymbolKind::DynamicShared(shape), home);
        if self.rng.chance(30) {
            let home = SymbolHome { unit: 0, local: false, ahead: false };
            self.add("dynamic", ModelSymbolKind::DynamicShared(shape), home);
        }
    }

    fn functions(&mut self) {
        let mut units = Vec::new();
        for unit in 0..self.program.units.len() {
            let count = self.rng.range(self.mix.functions.0, self.mix.functions.1);
            units.extend(std::iter::repeat_n(unit, count));
        }
        // Calls go from smaller to greater ids; mixing the files lets calls go both ways between
        // them.
        for i in (1..units.len()).rev() {
            units.swap(i, self.rng.below(i + 1));
        }
        for unit in units {
            self.function(unit);
        }
    }

    fn function(&mut self, unit: usize) {
        let at = self.rng.below(self.signatures.len());
        let mut signature = self.signatures[at].clone();
        if self.rng.chance(self.mix.noreturn_pc) {
            signature = Signature { result: None, noreturn: true, ..signature };
        }
        let local = self.rng.chance(self.mix.local_pc);
        let weak = !local && self.rng.chance(self.mix.weak_function_pc);
        let stem = ["f", "work", "fn_"][self.rng.below(3)];
        let home = SymbolHome { unit, local, ahead: true };
        let id = self.add(stem, ModelSymbolKind::Function(signature), home);
        let linkage = match (local, weak) {
            (true, _) => GeneratedLinkage::Local,
            (_, true) => GeneratedLinkage::Weak,
            _ => GeneratedLinkage::Visible,
        };
        self.function_copies(unit, id, linkage, Vec::new());
    }

    /// True if every file is of the newest version of PTX.
    fn newest(&self) -> bool {
        self.program.units.iter().all(|unit| unit.ptx_version.starts_with('9'))
    }

    fn function_copies(
        &mut self,
        unit: usize,
        id: GeneratedSymbolId,
        linkage: GeneratedLinkage,
        directives: Vec<String>,
    ) {
        let entry = matches!(self.program.symbol(id).kind, ModelSymbolKind::Entry(_));
        let references = if entry { self.parameters() } else { Vec::new() };
        let mut copies = vec![(unit, linkage)];
        if linkage == GeneratedLinkage::Weak {
            copies.extend(
                self.further_units(unit, id)
                    .into_iter()
                    .map(|other| (other, GeneratedLinkage::Weak)),
            );
            self.crown(&mut copies);
        }
        for (unit, linkage) in copies {
            let (directives, references) = (directives.clone(), references.clone());
            let body = Vec::new();
            let function = GeneratedFunction { symbol: id, linkage, references, directives, body };
            self.program.units[unit].items.push(GeneratedItem::Function(function));
        }
    }

    fn entries(&mut self) {
        for unit in 0..self.program.units.len() {
            // A program without any kernel is legal and rare.
            let least = usize::from(unit == 0 && self.rng.chance(97));
            let count = self.rng.range(self.mix.entries.0, self.mix.entries.1).max(least);
            for _ in 0..count {
                self.entry(unit);
            }
        }
    }

    fn entry(&mut self, unit: usize) {
        let mut params: Vec<GeneratedType> =
            (0..self.rng.below(4)).map(|_| value_type(self.rng)).collect();
        if self.rng.chance(5) {
            params.push(GeneratedType::Bytes {
                size: 4 * self.rng.range(100, 900) as u32,
                align: 16,
            });
        }
        if self.mix.recent_pc > 0 && self.newest() && self.rng.chance(20) {
            let (size, align) = (4 * self.rng.range(1, 7000) as u32, 4 << self.rng.below(6));
            params.push(GeneratedType::Bytes { size, align });
        }
        let home = SymbolHome { unit, local: false, ahead: true };
        let stem = ["k", "kernel", "main"][self.rng.below(3)];
        let id = self.add(stem, ModelSymbolKind::Entry(params), home);
        let directives = self.directives();
        let weak = self.rng.chance(self.mix.weak_entry_pc);
        let linkage = if weak { GeneratedLinkage::Weak } else { GeneratedLinkage::Visible };
        self.function_copies(unit, id, linkage, directives);
    }

    fn directives(&mut self) -> Vec<String> {
        // Every unit may hold a copy of the kernel.
        let clusters = self.program.units.iter().all(|unit| unit.target.number() >= 90);
        let mut directives = Vec::new();
        if !self.rng.chance(self.mix.launch_bounds_pc) {
            return directives;
        }
        if self.mix.recent_pc > 0 && self.rng.chance(self.mix.recent_pc) {
            return recent::kernel_directives(clusters && self.newest(), self.rng);
        }
        let threads = 32 << self.rng.below(4);
        match self.rng.below(5) {
            0 => directives.push(format!(".reqntid {threads}")),
            1 => directives
                .push(format!(".maxntid {threads}, 1, 1 .minnctapersm {}", self.rng.range(1, 3))),
            2 => directives.push(format!(".maxnreg {}", registers(self.rng))),
            3 => directives.push(format!(".maxntid {threads}, 2, 1")),
            _ if clusters => {
                directives.push(match self.rng.below(3) {
                    0 => format!(".maxclusterrank {}", 2 << self.rng.below(3)),
                    1 => ".explicitcluster".to_owned(),
                    _ => format!(".reqnctapercluster {}, 1, 1", 1 << self.rng.below(3)),
                });
            }
            _ => {}
        }
        directives
    }

    fn aliases(&mut self) {
        for unit in 0..self.program.units.len() {
            // PTX has no alias of a weak function, and nvlink crashes on some aliases of local
            // ones.
            let targets: Vec<GeneratedSymbolId> = self.program.units[unit]
                .items
                .iter()
                .filter_map(|item| match item {
                    GeneratedItem::Function(function)
                        if function.linkage == GeneratedLinkage::Visible =>
                    {
                        Some(function.symbol)
                    }
                    _ => None,
                })
                .collect();
            for _ in 0..self.rng.range(self.mix.aliases.0, self.mix.aliases.1) {
                let Some(&target) = self.rng.choose(&targets) else { break };
                let kind = self.program.symbol(target).kind.clone();
                let symbol =
                    self.add("alias", kind, SymbolHome { unit, local: false, ahead: true });
                let weak = self.rng.chance(40);
                self.program.units[unit].items.push(GeneratedItem::Alias { symbol, weak, target });
            }
        }
    }

    /// Tables of function addresses; their elements come from [`super::fill`].
    fn tables(&mut self) {
        for unit in 0..self.program.units.len() {
            for _ in 0..self.rng.range(self.mix.tables.0, self.mix.tables.1) {
                let space = if self.rng.chance(25) {
                    GeneratedSpace::Const
                } else {
                    GeneratedSpace::Global
                };
                let shape = ArrayShape { width: 8, count: self.rng.range(1, 6) as u32, align: 8 };
                let local = self.rng.chance(self.mix.local_pc);
                let kind = ModelSymbolKind::Variable(space, shape);
                let id = self.add("vtable", kind.clone(), SymbolHome { unit, local, ahead: false });
                let linkage =
                    if local { GeneratedLinkage::Local } else { GeneratedLinkage::Visible };
                let variable = GeneratedVariable { symbol: id, linkage, kind, init: Vec::new() };
                // Before the functions, which use it.
                self.program.units[unit].items.insert(0, GeneratedItem::Variable(variable));
            }
        }
    }
}

fn unit(index: usize, arch: PtxArch, mix: &Mix, rng: &mut Rng) -> Unit {
    let guest = rng.chance(mix.cross_arch_pc) && rng.chance(60);
    let arch = if guest { rng.choose(arch.guests()).copied().unwrap_or(arch) } else { arch };
    let lower =
        PtxArch::ALL.into_iter().filter(|a| a.number() < arch.number() && *a != PtxArch("sm_90a"));
    let lower: Vec<PtxArch> = lower.collect();
    let target = if rng.chance(8) { rng.choose(&lower).copied().unwrap_or(arch) } else { arch };
    let debug = match () {
        () if rng.chance(mix.debug_pc) => DebugLevel::Full,
        () if rng.chance(mix.lines_pc) => DebugLevel::Lines,
        () => DebugLevel::Off,
    };
    let mut options = Vec::new();
    if rng.chance(mix.options_pc) {
        options.push(match rng.below(3) {
            // -g goes with -O0 only, its default.
            0 if debug != DebugLevel::Full => format!("-O{}", rng.below(4)),
            _ => format!("-maxrregcount={}", registers(rng)),
        });
    }
    if mix.compiler_pc > 0 && rng.chance(mix.compiler_pc) {
        let plain = debug == DebugLevel::Off && options.is_empty();
        for _ in 0..rng.range(1, 2) {
            options.extend(recent::compiler_option(plain, rng));
        }
    }
    // ptxas takes no notice of it beside -c.
    let before = options.len();
    options.retain(|option| option != "-ewp");
    let whole_program = options.len() < before;
    let stem = ["unit", "m", "file_"][rng.below(3)];
    let name = format!("{stem}{index}");
    Unit {
        name: if mix.names_pc > 0 {
            names::file(name, debug == DebugLevel::Off, rng)
        } else {
            name
        },
        ptx_version: ptx_version(target, rng),
        target,
        arch,
        options,
        debug,
        independent_textures: false,
        beliefs: Vec::new(),
        items: Vec::new(),
        whole_program,
        cuda: None,
    }
}

/// Mostly the newest, else an older one that knows the target and what the generator writes.
fn ptx_version(target: PtxArch, rng: &mut Rng) -> &'static str {
    if rng.chance(85) || target == PtxArch("sm_88") || target.number() >= 100 {
        return target.ptx_version();
    }
    if target.number() >= 89 { rng.pick(&["8.6", "8.0"]) } else { rng.pick(&["8.6", "8.0", "7.8"]) }
}

/// A register limit. Low ones often make the link fail, since a kernel may not call a function that
/// needs more.
fn registers(rng: &mut Rng) -> usize {
    if rng.chance(10) { 24 + 8 * rng.below(5) } else { 64 + 8 * rng.below(8) }
}

fn value_type(rng: &mut Rng) -> GeneratedType {
    match rng.below(8) {
        0..4 => GeneratedType::B32,
        4 => GeneratedType::B64,
        5 => GeneratedType::F32,
        6 => GeneratedType::F64,
        _ => GeneratedType::Bytes { size: 4 * rng.range(1, 16) as u32, align: 4 << rng.below(3) },
    }
}

/// The first signature of a program is the plain one, so that prototypes of different files meet.
fn signature(index: usize, rng: &mut Rng) -> Signature {
    let params = if index == 0 {
        vec![GeneratedType::B32]
    } else {
        (0..rng.below(5)).map(|_| value_type(rng)).collect()
    };
    let result = if index == 0 || rng.chance(70) { Some(GeneratedType::B32) } else { None };
    let result = if index > 0 && rng.chance(30) { Some(value_type(rng)) } else { result };
    Signature { params, result, noreturn: false }
}

fn shape(rng: &mut Rng, space: GeneratedSpace) -> ArrayShape {
    let width = 1 << rng.weighted(&[3, 1, 8, 3]).unwrap_or(2);
    let count = match rng.below(10) {
        0..3 => 1,
        3..8 => rng.range(2, 16),
        8 => rng.range(17, 100),
        _ => rng.range(100, if space == GeneratedSpace::Global { 2000 } else { 400 }),
    } as u32;
    let align = if rng.chance(60) { width } else { width.max(1 << rng.below(8)) };
    ArrayShape { width, count, align }
}
