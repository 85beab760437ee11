//! Phase `check`: what is wrong with the program as a whole.
//!
//! In: everything laid out. Out: warnings and errors, in nvlink's order (docs/rules/
//! diagnostics.md, section 2): stack sizes, limits, undefined references, register limits. None
//! suppresses another; the link ends after all are told.

use culd_cubin::attr::code;
use culd_cubin::elf::{stb, sto, stt};

use crate::capsule::{debugger, skew};
use crate::diag::{DELETED, Diagnostics, Failed, Message, Note};
use crate::draft::{Kind, OutSection, OutSymbol};
use crate::dump;
use crate::explain::{self, Paths};
use crate::id::{IdVec, NodeId, OutSymbolId, SectionId, SymbolId};
use crate::program::Program;
use crate::symbols::space;
use crate::system_names::{
    is_descriptor_size, is_reserved_shared, is_unified_table, may_stay_undefined,
};

/// The most bytes of a constant bank.
pub(crate) const BANK_LIMIT: u64 = 0x10000;

/// MAXREG_COUNT of an entry without a limit.
const NO_REGISTER_LIMIT: u32 = 0xff;

/// Lines about registers that have notes: each of these costs a walk over the program.
const EXPLAINED: usize = 50;

impl Program<'_, '_> {
    /// Tells everything that is wrong; `Err` when the link ends at once.
    pub(crate) fn check(&self, diags: &mut Diagnostics) -> Result<(), Failed> {
        self.functions_fit(diags)?;
        self.literals_fit(diags)?;
        let silent = self.options.suppress_stack_size_warning || self.options.disable_infos;
        if !silent && !self.options.relocatable {
            self.stack_sizes(diags);
        }
        // No later line is told then (case errors-unified/after-stack-sizes).
        if let Some(problem) = &self.unified {
            return Err(diags.fatal(problem.clone()));
        }
        if self.options.relocatable {
            self.constant_variables(diags);
            skew::tell_barriers(&self.objects, &self.merged, self.options, diags);
            return Ok(());
        }
        self.limits(diags);
        self.undefined(diags);
        if let Some(names) = self.options.dump_callgraph {
            dump::lines(self, names).into_iter().for_each(|line| diags.dump(line));
        }
        self.stack_limits(diags);
        for &entry in &self.attributes.mixed_groups {
            let entry = self.function_name(entry);
            diags.error(Message::MixedGroups { entry }, Vec::new());
        }
        self.register_limits(diags);
        debugger::tell(&self.objects, self.options, diags);
        skew::tell(&self.objects, &self.merged, self.options, diags);
        skew::tell_barriers(&self.objects, &self.merged, self.options, diags);
        self.aliases(diags)
    }

    /// A function in code that is named after another one goes where that goes, and that can be shorter in another file.
    /// nvlink crashes then (docs/DIFFERENCES.md, bad-relocation).
    fn functions_fit(&self, diags: &mut Diagnostics) -> Result<(), Failed> {
        let draft = &self.merged.draft;
        for node in self.graph.nodes.ids() {
            let symbol = &draft.symbols[self.merged.function(&self.graph, node)];
            let Some(section) = symbol.section.map(|id| &draft.sections[id]) else { continue };
            let inside =
                symbol.value.checked_add(symbol.size).is_some_and(|end| end <= section.size);
            if inside || section.kind != Kind::Text {
                continue;
            }
            let definition = self.symbols.all[self.graph.nodes[node]].definition;
            let file =
                definition.map_or("<input>".to_owned(), |site| self.objects.file(site.object));
            let reason = format!(
                "function '{}' is in code of another function, of which another file has a shorter one",
                explain::shown(draft.names.get(symbol.name))
            );
            return Err(diags.fatal(Message::Unsupported { file, reason }));
        }
        Ok(())
    }

    /// In an object, literals and parameters keep their symbols. A copy that counts can bring a shorter bank than one that its
    /// symbols came with (`testdata/fuzz/link_records/symbol-of-a-shorter-bank`).
    fn literals_fit(&self, diags: &mut Diagnostics) -> Result<(), Failed> {
        let draft = &self.merged.draft;
        if !self.options.relocatable {
            return Ok(());
        }
        for symbol in draft.symbols.values().filter(|symbol| !symbol.dropped) {
            let Some(section) = symbol.section.map(|id| &draft.sections[id]) else { continue };
            let inside =
                symbol.value.checked_add(symbol.size).is_some_and(|end| end <= section.size);
            if inside || !matches!(section.kind, Kind::Constant(_)) {
                continue;
            }
            let definition =
                symbol.program.and_then(|program| self.symbols.all[program].definition);
            let file =
                definition.map_or("<input>".to_owned(), |site| self.objects.file(site.object));
            let reason = format!(
                "'{}' is in a bank of constants of which another file has a shorter one",
                explain::shown(draft.names.get(symbol.name))
            );
            return Err(diags.fatal(Message::Unsupported { file, reason }));
        }
        Ok(())
    }

    /// Code belongs to the function that it is named after. An alias that is alive while that one is dead, because
    /// nothing but its address keeps it, has no code (case errors/address-of-alias-90).
    fn aliases(&self, diags: &mut Diagnostics) -> Result<(), Failed> {
        let is_lost = |&function: &SymbolId| {
            let Some(site) = self.symbols.all[function].definition else { return false };
            let object = &self.objects[site.object];
            let text = object.symbol(site.index).defined_in();
            let main = text.and_then(|text| object.code_function(text));
            let main = main.and_then(|main| self.symbols.of(site.object, main));
            main.is_some_and(|main| self.graph.node(main).is_none())
        };
        match self.graph.nodes.values().any(is_lost) {
            true => Err(diags.fatal(Message::Internal { what: DELETED })),
            false => Ok(()),
        }
    }

    fn name(&self, symbol: OutSymbolId) -> String {
        self.merged.draft.names.text(self.merged.draft.symbols[symbol].name)
    }

    pub(crate) fn function_name(&self, node: NodeId) -> String {
        self.name(self.merged.function(&self.graph, node))
    }

    /// One line for every entry that can reach recursion. nvlink repeats it for every call that does
    /// (docs/DIFFERENCES.md, stack-warning-once).
    fn stack_sizes(&self, diags: &mut Diagnostics) {
        if self.attributes.entries.iter().all(|facts| facts.stack.is_some()) {
            return;
        }
        let notes = self.paths().recursion();
        let entries = self.graph.entries().iter().zip(&self.attributes.entries);
        for ((&entry, facts), notes) in entries.zip(notes) {
            if facts.stack.is_none() {
                let entry = self.function_name(entry);
                diags.explained_warning(Message::StackSizeUnknown { entry }, notes);
            }
        }
    }

    fn paths(&self) -> Paths<'_, impl Fn(NodeId) -> String> {
        let name = |node| {
            let symbol = &self.merged.draft.symbols[self.merged.function(&self.graph, node)];
            explain::shown(self.merged.draft.names.get(symbol.name))
        };
        Paths { graph: &self.graph, name }
    }

    fn limits(&self, diags: &mut Diagnostics) {
        let draft = &self.merged.draft;
        let kinds = [Kind::Constant(0), Kind::Shared];
        // Each list is in order, both together nearly so.
        let mut limited = kinds.map(|kind| draft.category_of(kind)).concat();
        limited.sort();
        for id in limited {
            let section = &draft.sections[id];
            match section.kind {
                Kind::Constant(bank) if section.size > BANK_LIMIT => {
                    let message = self.bank_message(section, bank);
                    diags.error(message, explain::constants(draft, id));
                }
                Kind::Shared | Kind::PoolShared if !section.dropped => {
                    let size = section.size.saturating_sub(self.options.target.reserved_shared);
                    let limit = self.options.target.shared_limit;
                    if size > limit {
                        let entry = self.shared_owner(section);
                        let message = Message::SharedTooLarge { entry, size, limit };
                        diags.error(message, self.shared_variables(section.owner));
                    }
                }
                _ => {}
            }
        }
    }

    /// The entry that nvlink takes a shared section for. The pool has a size where variables keep
    /// their symbols; its name is read as that of an entry's section, `.nv.shared.<entry>`
    /// (docs/rules/diagnostics.md, 4).
    fn shared_owner(&self, section: &OutSection<'_>) -> String {
        if section.kind == Kind::Shared {
            return self.owner_name(section.owner);
        }
        let name = self.merged.draft.names.text(section.name);
        name.get(b".nv.shared.".len()..).unwrap_or_default().to_owned()
    }

    /// What fills the shared memory of the entry whose code is `code`.
    fn shared_variables(&self, code: Option<SectionId>) -> Vec<Note> {
        let entries = self.graph.kernels().iter();
        let own = |&(_, &entry): &(usize, &NodeId)| self.merged.code(&self.graph, entry) == code;
        let Some((number, _)) = entries.enumerate().find(own) else { return Vec::new() };
        let groups = &self.merged.shared.groups;
        let size =
            |group: u32| self.data.shared.uses(number, group).then(|| groups[group as usize].size);
        explain::shared(&self.merged.draft, size)
    }

    /// The one thing that is checked before the program is complete.
    fn constant_variables(&self, diags: &mut Diagnostics) {
        let draft = &self.merged.draft;
        let Some(bank) = draft.constant_variables() else { return };
        if draft.sections[bank].size > BANK_LIMIT {
            let message = self.bank_message(&draft.sections[bank], 3);
            diags.error(message, explain::constants(draft, bank));
        }
    }

    fn bank_message(&self, section: &OutSection<'_>, bank: u8) -> Message {
        let (size, limit) = (section.size, BANK_LIMIT);
        match (section.owner, bank) {
            (None, _) => Message::ConstantTooLarge { size, limit },
            (owner, 0) => {
                Message::ParametersTooLarge { entry: self.owner_name(owner), size, limit }
            }
            (owner, _) => Message::LiteralsTooLarge { entry: self.owner_name(owner) },
        }
    }

    fn owner_name(&self, code: Option<SectionId>) -> String {
        let function = code.and_then(|code| self.merged.draft.sections[code].function);
        function.map_or(String::new(), |function| self.name(function))
    }

    fn undefined(&self, diags: &mut Diagnostics) {
        let draft = &self.merged.draft;
        let symbols = draft.globals.iter().map(|&id| &draft.symbols[id]);
        let missing = symbols.filter(|symbol| self.must_be_defined(symbol));
        let missing: Vec<SymbolId> = missing.filter_map(|symbol| symbol.program).collect();
        if missing.is_empty() {
            return;
        }
        let notes =
            explain::undefined(&self.objects, &self.symbols, &self.graph, &draft.names, &missing);
        for (id, notes) in missing.into_iter().zip(notes) {
            let info = &self.symbols.all[id];
            let symbol = draft.names.text(info.name);
            let file = self.objects.file(info.first.object);
            diags.error(Message::Undefined { symbol, file }, notes);
        }
    }

    /// True for a variable in global memory.
    fn is_global(&self, symbol: &OutSymbol) -> bool {
        symbol.program.is_some_and(|program| {
            let first = self.symbols.all[program].first;
            space(self.objects[first.object].symbol(first.index)) == sto::SPACE_GLOBAL
        })
    }

    fn must_be_defined(&self, symbol: &OutSymbol) -> bool {
        let may_be_absent =
            symbol.info >> 4 == stb::WEAK && !self.options.dialect.weak_must_be_defined;
        if symbol.section.is_some() || may_be_absent {
            return false;
        }
        let name = self.merged.draft.names.get(symbol.name);
        match symbol.info & 15 {
            stt::FUNC => !may_stay_undefined(name),
            stt::OBJECT | stt::CUDA_OBJECT => {
                let system =
                    is_unified_table(name) || is_reserved_shared(name) || is_descriptor_size(name);
                let allowed = self.options.allow_undefined_globals && self.is_global(symbol);
                // The layout keeps no section for shared variables; their definition tells.
                let defined = symbol.shared.is_some_and(|index| {
                    let variable = &self.merged.shared.groups[index as usize];
                    variable.defined || variable.size == 0
                });
                !system && !allowed && !defined
            }
            _ => false,
        }
    }

    /// An entry that says how much stack it may need, MAX_STACK_SIZE. What recursion needs is more than any limit, and
    /// told as nvlink tells numbers, with a sign (docs/rules/diagnostics.md, 3).
    fn stack_limits(&self, diags: &mut Diagnostics) {
        for (&entry, facts) in self.graph.entries().iter().zip(&self.attributes.entries) {
            let needed = facts.stack.unwrap_or(u32::MAX);
            if facts.stack_limit != 0 && needed > facts.stack_limit {
                let (needed, limit) = (needed as i32, facts.stack_limit as i32);
                let entry = self.function_name(entry);
                diags.error(Message::StackTooLarge { entry, needed, limit }, Vec::new());
            }
        }
    }

    /// An entry with a register limit must not call a function that needs more. A line is told
    /// for every callee that raises the count, in the order in which its code was created.
    fn register_limits(&self, diags: &mut Diagnostics) {
        let entries = self.graph.entries();
        let limit = |entry| {
            let limit = self.attributes.number(entry, code::MAXREG_COUNT);
            limit.filter(|&limit| limit != 0 && limit != NO_REGISTER_LIMIT)
        };
        let exceeded: Vec<Option<u32>> = entries
            .iter()
            .zip(&self.attributes.entries)
            .map(|(&entry, facts)| limit(entry).filter(|&limit| facts.registers > limit))
            .collect();
        // The dump of the call graph tells who raises the count of any entry.
        let dump = self.options.dump_callgraph;
        // Jump slots need what they need without being told.
        let is_slot = |place: usize| {
            self.merged.is_jump_slot(self.merged.function(&self.graph, entries[place]))
        };
        let watched =
            |&place: &usize| exceeded[place].is_some() || dump.is_some() && !is_slot(place);
        let watched: Vec<usize> = (0..entries.len()).filter(watched).collect();
        if watched.is_empty() {
            return;
        }
        let mut wanted = IdVec::filled(true, self.graph.nodes.len());
        entries.iter().for_each(|&entry| wanted[entry] = false);
        let reached = self.graph.reached_by_entries(&wanted);
        let mut current: Vec<u32> =
            entries.iter().map(|&entry| self.attributes.registers[entry]).collect();
        let mut functions: Vec<NodeId> =
            self.merged.info_order.iter().copied().filter(|&node| wanted[node]).collect();
        functions.sort_by_key(|&node| self.merged.code(&self.graph, node));
        let mut told = 0;
        for function in functions {
            let registers = self.attributes.registers[function];
            for &place in watched.iter().rev() {
                let calls = reached[place].binary_search(&function).is_ok();
                if !calls || registers <= current[place] {
                    continue;
                }
                current[place] = registers;
                if let Some(limit) = exceeded[place].filter(|&limit| registers > limit) {
                    let path = (told < EXPLAINED)
                        .then(|| self.paths().call_path(entries[place], function));
                    told += 1;
                    let entry = self.function_name(entries[place]);
                    let function = self.function_name(function);
                    let message = Message::TooManyRegisters { entry, limit, function, registers };
                    diags.error(message, path.into_iter().collect());
                }
                if let Some(names) = dump {
                    let told = |node| dump::name(&self.function_name(node), names);
                    let (function, entry) = (told(function), told(entries[place]));
                    diags.dump(format!(
                        "regcount {registers} for {function} propagated to entry {entry}"
                    ));
                }
            }
        }
    }
}
