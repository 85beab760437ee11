//! Fills a program: initialisers of variables, bodies of functions, calls that make functions
//! reachable.
//!
//! In: a [`ProgramBuilder`] with all names in place. Out: the same, complete.

use super::build::ProgramBuilder;
use super::mix;
use super::model::{
    ArrayShape, GeneratedItem, GeneratedLinkage, GeneratedSpace, GeneratedSymbolId, Init,
    ModelSymbolKind, OpaqueReference, Signature, SlowPath, SpecialInstruction, Stmt, Syscall,
};
use super::recent;

/// Completes the program.
pub(super) fn fill(builder: &mut ProgramBuilder<'_>) {
    for unit in 0..builder.program.units.len() {
        for item in 0..builder.program.units[unit].items.len() {
            builder.initialise(unit, item);
        }
    }
    for unit in 0..builder.program.units.len() {
        for item in 0..builder.program.units[unit].items.len() {
            builder.body(unit, item);
        }
    }
    builder.connect();
}

impl ProgramBuilder<'_> {
    fn initialise(&mut self, unit: usize, at: usize) {
        let GeneratedItem::Variable(variable) = &self.program.units[unit].items[at] else { return };
        let ModelSymbolKind::Variable(space, shape) = variable.kind else { return };
        let (id, linkage) = (variable.symbol, variable.linkage);
        if space == GeneratedSpace::Shared || linkage == GeneratedLinkage::Common {
            return;
        }
        let table = self.is_table(id);
        if !table && !self.rng.chance(self.mix.initialised_pc) {
            return;
        }
        let count = if table {
            shape.count
        } else {
            self.rng.range(1, shape.count.min(12) as usize) as u32
        };
        let mut init = Vec::new();
        for _ in 0..count {
            let pc = self.mix.reference_pointer_pc;
            let pointer = if pc > 0 && shape.width == 8 && !table && self.rng.chance(pc) {
                self.reference_element(unit)
            } else if table {
                self.function_element(unit)
            } else if self.rng.chance(self.mix.pointer_pc) {
                self.pointer_element(unit, id, shape)
            } else {
                None
            };
            let limit = if shape.width == 1 { 256 } else { 60_000 };
            init.push(pointer.unwrap_or_else(|| Init::Value(self.rng.below(limit) as u64)));
        }
        if let GeneratedItem::Variable(variable) = &mut self.program.units[unit].items[at] {
            variable.init = init;
        }
    }

    fn is_table(&self, id: GeneratedSymbolId) -> bool {
        self.program.symbol(id).name.contains("vtable")
    }

    fn function_element(&mut self, unit: usize) -> Option<Init> {
        let symbol = self.any(unit, |kind| matches!(kind, ModelSymbolKind::Function(_)))?;
        Some(Init::Address { symbol, addend: 0, generic: false, byte: None })
    }

    fn pointer_element(
        &mut self,
        unit: usize,
        own: GeneratedSymbolId,
        shape: ArrayShape,
    ) -> Option<Init> {
        if shape.width != 8 && shape.width != 1 {
            return None;
        }
        // Variables of the file must be defined before, or can be declared ahead.
        let above: Vec<GeneratedSymbolId> = self
            .symbols()
            .filter(|(id, symbol, home)| {
                let memory = matches!(
                    symbol.kind,
                    ModelSymbolKind::Variable(
                        GeneratedSpace::Global | GeneratedSpace::Managed | GeneratedSpace::Const,
                        _
                    )
                );
                memory && *id != own && (*id < own || home.ahead)
            })
            .map(|(id, ..)| id)
            .filter(|&id| self.visible(unit, id) && !self.is_table(id))
            .collect();
        let mut symbol = *self.rng.choose(&above)?;
        if shape.width == 8 && self.rng.chance(15) {
            symbol = self
                .any(unit, |kind| matches!(kind, ModelSymbolKind::Function(_)))
                .unwrap_or(symbol);
        }
        self.claim(unit, symbol);
        let data = matches!(self.program.symbol(symbol).kind, ModelSymbolKind::Variable(..));
        let byte = (shape.width == 1).then(|| self.rng.below(8) as u8);
        let addend = if data && self.rng.chance(40) { 4 * self.rng.below(8) as u32 } else { 0 };
        Some(Init::Address { symbol, addend, generic: data && self.rng.chance(50), byte })
    }

    /// A random symbol of some kind that `unit` may name; its name is claimed.
    pub(super) fn any(
        &mut self,
        unit: usize,
        test: impl Fn(&ModelSymbolKind) -> bool,
    ) -> Option<GeneratedSymbolId> {
        let found: Vec<GeneratedSymbolId> = self
            .symbols()
            .filter(|(id, symbol, _)| test(&symbol.kind) && self.visible(unit, *id))
            .map(|(id, ..)| id)
            .collect();
        let id = *self.rng.choose(&found)?;
        self.claim(unit, id);
        Some(id)
    }

    fn body(&mut self, unit: usize, at: usize) {
        let GeneratedItem::Function(function) = &self.program.units[unit].items[at] else { return };
        let id = function.symbol;
        let body = self.same_body(unit, id).unwrap_or_else(|| {
            let count = self.rng.range(self.mix.statements.0, self.mix.statements.1);
            self.statements(unit, id, count, 0)
        });
        if let GeneratedItem::Function(function) = &mut self.program.units[unit].items[at] {
            function.body = body;
        }
    }

    /// Sometimes the body of the same function in an earlier file, as with templates in C++.
    fn same_body(&mut self, unit: usize, id: GeneratedSymbolId) -> Option<Vec<Stmt>> {
        let target = self.program.units[unit].target;
        let earlier = self.program.units[..unit].iter().filter(|other| other.target == target);
        let item = earlier.flat_map(|other| &other.items).find(|item| item.symbol() == id)?;
        let references = item.references();
        let GeneratedItem::Function(function) = item else { return None };
        let body = function.body.clone();
        let possible = references.iter().all(|&id| self.visible(unit, id));
        if !possible || !self.rng.chance(40) {
            return None;
        }
        references.into_iter().for_each(|id| self.claim(unit, id));
        Some(body)
    }

    fn statements(
        &mut self,
        unit: usize,
        id: GeneratedSymbolId,
        count: usize,
        depth: u32,
    ) -> Vec<Stmt> {
        (0..count).filter_map(|_| self.statement(unit, id, depth)).collect()
    }

    fn statement(&mut self, unit: usize, id: GeneratedSymbolId, depth: u32) -> Option<Stmt> {
        let m = self.mix;
        let weights = [
            m.w_arith,
            m.w_pressure,
            m.w_call,
            m.w_call_address,
            m.w_call_table,
            m.w_address,
            m.w_global,
            m.w_const,
            m.w_shared,
            m.w_function_shared,
            m.w_frame,
            m.w_alloca,
            m.w_doubles,
            m.w_switch,
            m.w_barrier,
            m.w_syscall,
            m.w_fetch,
            m.w_special,
            m.w_slow_path,
            m.w_kernel_address,
            m.w_query,
            m.w_query_parameter,
            m.w_object,
            if depth < 2 { m.w_nested } else { 0 },
        ];
        match self.rng.weighted(&weights)? {
            0 => Some(Stmt::Arith(self.rng.range(1, 12) as u32)),
            1 => Some(Stmt::Pressure(self.rng.range(4, 30) as u32)),
            2 => self.callee(unit, id).map(Stmt::Call),
            3 => self.callee(unit, id).map(Stmt::CallAddress),
            4 => self.table_call(unit),
            5 => self.address(unit),
            6 => self.access(unit, GeneratedSpace::Global),
            7 => self.access(unit, GeneratedSpace::Const),
            8 => self.access(unit, GeneratedSpace::Shared),
            9 => {
                let mut shape = ArrayShape {
                    width: 1 << self.rng.below(4),
                    count: self.rng.range(1, 80) as u32,
                    align: 8 << self.rng.below(5),
                };
                shape.align = self.large_align(GeneratedSpace::Shared).unwrap_or(shape.align);
                Some(Stmt::FunctionShared { shape, used: self.rng.chance(85) })
            }
            10 => Some(Stmt::Frame(8 * self.rng.range(2, 80) as u32)),
            11 => Some(Stmt::Alloca),
            12 => Some(Stmt::Doubles(self.rng.range(1, 6) as u32)),
            13 => Some(Stmt::Switch(self.rng.range(5, 20) as u32)),
            14 => Some(Stmt::Barrier(self.rng.below(16) as u32)),
            15 => Some(Stmt::Syscall(self.rng.pick(&Syscall::ALL))),
            16 => self.fetch(unit),
            17 => self.special(unit),
            18 => Some(Stmt::SlowPath(self.rng.pick(&SlowPath::ALL))),
            19 => {
                let symbol = self.any(unit, |kind| matches!(kind, ModelSymbolKind::Entry(_)))?;
                Some(Stmt::Address { symbol, addend: 0, generic: false })
            }
            20 => self.query(unit),
            21 => self.parameter_query(unit, id),
            22 => Some(Stmt::Object { surface: self.rng.chance(50) }),
            _ => {
                let count = self.rng.range(1, 2);
                let body = self.statements(unit, id, count, depth + 1);
                Some(if self.rng.chance(50) { Stmt::Loop(body) } else { Stmt::If(body) })
            }
        }
    }

    /// A function that `caller` may call: one with a greater id, or sometimes any, for recursion.
    fn callee(&mut self, unit: usize, caller: GeneratedSymbolId) -> Option<GeneratedSymbolId> {
        let any = self.rng.chance(self.mix.recursion_pc) || self.is_entry(caller);
        let found: Vec<GeneratedSymbolId> = self
            .symbols()
            .filter(|(id, symbol, _)| {
                matches!(symbol.kind, ModelSymbolKind::Function(_)) && (any || *id > caller)
            })
            .map(|(id, ..)| id)
            .filter(|&id| self.visible(unit, id))
            .collect();
        let id = *self.rng.choose(&found)?;
        self.claim(unit, id);
        Some(id)
    }

    fn is_entry(&self, id: GeneratedSymbolId) -> bool {
        matches!(self.program.symbol(id).kind, ModelSymbolKind::Entry(_))
    }

    fn table_call(&mut self, unit: usize) -> Option<Stmt> {
        let tables: Vec<GeneratedSymbolId> = self
            .symbols()
            .map(|(id, ..)| id)
            .filter(|&id| self.is_table(id) && self.visible(unit, id))
            .collect();
        let table = *self.rng.choose(&tables)?;
        self.claim(unit, table);
        let ModelSymbolKind::Variable(_, shape) = self.program.symbol(table).kind else {
            return None;
        };
        let signatures: Vec<Signature> = self
            .symbols()
            .filter_map(|(_, symbol, _)| match &symbol.kind {
                ModelSymbolKind::Function(signature) if !signature.noreturn => {
                    Some(signature.clone())
                }
                _ => None,
            })
            .collect();
        let signature = self.rng.choose(&signatures)?.clone();
        Some(Stmt::CallTable {
            table,
            index: self.rng.below(shape.count as usize) as u32,
            signature,
        })
    }

    fn address(&mut self, unit: usize) -> Option<Stmt> {
        let functions = self.rng.chance(50);
        let symbol = self.any(unit, |kind| match kind {
            ModelSymbolKind::Function(_) => functions,
            ModelSymbolKind::Variable(..) | ModelSymbolKind::DynamicShared(_) => !functions,
            _ => false,
        })?;
        let data = !functions;
        let addend = if data && self.rng.chance(40) { 4 * self.rng.below(10) as u32 } else { 0 };
        Some(Stmt::Address { symbol, addend, generic: data && self.rng.chance(60) })
    }

    fn access(&mut self, unit: usize, space: GeneratedSpace) -> Option<Stmt> {
        let symbol = self.any(unit, |kind| match kind {
            ModelSymbolKind::Variable(of, _) => of.name() == space.name(),
            ModelSymbolKind::DynamicShared(_) => space == GeneratedSpace::Shared,
            _ => false,
        })?;
        let (ModelSymbolKind::Variable(_, shape) | ModelSymbolKind::DynamicShared(shape)) =
            self.program.symbol(symbol).kind
        else {
            return None;
        };
        self.maybe_unsized(unit, symbol, space);
        let element = self.rng.below(shape.count.min(30) as usize) as u32;
        let store = space != GeneratedSpace::Const && self.rng.chance(40);
        Some(Stmt::Access {
            symbol,
            offset: element * shape.width,
            store,
            indexed: self.rng.chance(35),
        })
    }

    /// Lets a file declare another file's variable without its size.
    fn maybe_unsized(&mut self, unit: usize, symbol: GeneratedSymbolId, space: GeneratedSpace) {
        let content = &self.program.units[unit];
        let foreign = content.items.iter().all(|item| item.symbol() != symbol);
        let new = content.beliefs.iter().all(|(id, _)| *id != symbol);
        if space == GeneratedSpace::Shared
            || !foreign
            || !new
            || !self.rng.chance(self.mix.unsized_pc)
        {
            return;
        }
        if let ModelSymbolKind::Variable(space, mut shape) = self.program.symbol(symbol).kind {
            shape.count = 0;
            self.program.units[unit]
                .beliefs
                .push((symbol, ModelSymbolKind::Variable(space, shape)));
        }
    }

    fn fetch(&mut self, unit: usize) -> Option<Stmt> {
        let symbol = self.any(unit, |kind| {
            matches!(
                kind,
                ModelSymbolKind::Reference(OpaqueReference::Texture | OpaqueReference::Surface)
            )
        })?;
        let texture = self.program.symbol(symbol).kind
            == ModelSymbolKind::Reference(OpaqueReference::Texture);
        let sampler =
            if texture && self.program.units[unit].independent_textures {
                Some(self.any(unit, |kind| {
                    *kind == ModelSymbolKind::Reference(OpaqueReference::Sampler)
                })?)
            } else {
                None
            };
        Some(Stmt::Fetch { symbol, sampler })
    }

    fn special(&mut self, unit: usize) -> Option<Stmt> {
        let arch = self.program.units[unit].target;
        let recent = self.mix.recent_pc;
        // Older versions of PTX know less.
        if recent > 0
            && self.program.units[unit].ptx_version.starts_with('9')
            && self.rng.chance(recent)
        {
            return recent::special(arch, self.rng).map(Stmt::Special);
        }
        let sm = 10 * arch.number() + u32::from(arch.0.ends_with('a'));
        let possible: Vec<SpecialInstruction> = SpecialInstruction::ALL
            .iter()
            .filter(|(_, since)| if *since > 900 { sm == *since } else { sm >= 10 * since })
            .map(|(special, _)| *special)
            .collect();
        self.rng.choose(&possible).copied().map(Stmt::Special)
    }

    /// Gives every function that is not meant to be dead a caller.
    fn connect(&mut self) {
        let functions: Vec<GeneratedSymbolId> = self
            .symbols()
            .filter(|(_, symbol, _)| matches!(symbol.kind, ModelSymbolKind::Function(_)))
            .map(|(id, ..)| id)
            .collect();
        let row = self.rng.range(2, 4);
        for (i, &callee) in functions.iter().enumerate() {
            if self.rng.chance(self.mix.dead_pc) {
                continue;
            }
            let wanted: Vec<GeneratedSymbolId> = match self.mix.shape {
                mix::CallShape::Chain => functions[..i].iter().rev().take(1).copied().collect(),
                mix::CallShape::Layers => {
                    let start = (i / row).saturating_sub(1) * row;
                    functions[start..(i / row) * row].to_vec()
                }
                mix::CallShape::Random => {
                    let low = i.saturating_sub(6);
                    let entry = self.rng.chance(30);
                    if entry {
                        Vec::new()
                    } else {
                        self.rng.choose(&functions[low..i]).copied().into_iter().collect()
                    }
                }
            };
            self.call_from(&wanted, callee);
        }
    }

    /// Adds calls of `callee` to the functions in `callers` that may name it, or to a random kernel
    /// if there are none.
    fn call_from(&mut self, callers: &[GeneratedSymbolId], callee: GeneratedSymbolId) {
        let mut places = self.places(callee, |_, id| callers.contains(&id));
        if places.is_empty() {
            let entries = self.places(callee, |builder, id| builder.is_entry(id));
            places.extend(self.rng.choose(&entries).copied());
        }
        for (unit, item) in places {
            if !self.visible(unit, callee) {
                continue;
            }
            self.claim(unit, callee);
            let at_front = self.rng.chance(50);
            if let GeneratedItem::Function(function) = &mut self.program.units[unit].items[item] {
                let at = if at_front { 0 } else { function.body.len() };
                function.body.insert(at, Stmt::Call(callee));
            }
        }
    }

    /// Definitions from which `callee` can be named.
    fn places(
        &self,
        callee: GeneratedSymbolId,
        test: impl Fn(&Self, GeneratedSymbolId) -> bool,
    ) -> Vec<(usize, usize)> {
        let mut places = Vec::new();
        for (unit, content) in self.program.units.iter().enumerate() {
            for (at, item) in content.items.iter().enumerate() {
                if matches!(item, GeneratedItem::Function(f) if test(self, f.symbol))
                    && self.visible(unit, callee)
                {
                    places.push((unit, at));
                }
            }
        }
        places
    }
}
