//! Phase `check`: errors of the program as a whole.
//!
//! In: the program, laid out and resolved. Out: warnings and errors, in nvlink's order
//! (docs/rules/diagnostics.md, section 2): stack sizes, limits, undefined references, register
//! limits. No message suppresses another, unless a comment says so; the link ends after the last
//! one.

pub(crate) mod clash;
mod debugger;
mod dump;
mod early;
pub(crate) mod explain;
mod redefined_literals;
pub(crate) mod report;
mod skew;
pub(crate) mod tools_patch;

use std::cell::RefCell;

use culd_cubin::attr::code;
use culd_cubin::elf::{stb, sto, stt};
use hashbrown::HashMap;

use self::explain::recursion::{CallPaths, DeepestCalls, ShownFunction};
use self::explain::source::SourceLines;
use self::explain::{references, sizes};
use crate::base::id::{IdVec, NodeId, OutSymbolId, SectionId, SharedId, SymbolId};
use crate::base::system_names::{is_descriptor_size, is_reserved_shared, is_unified_table};
use crate::data::shared::SharedClash;
use crate::diag::note::Note;
use crate::diag::{DELETED, Diagnostics, Failed, Message};
use crate::draft::kind::{BANK_LIMIT, SectionKind};
use crate::draft::section::{OutSection, OutSymbol};
use crate::options::driver_functions::is_driver_function;
use crate::program::LinkedProgram;
use crate::symbols::space;

/// MAXREG_COUNT of an entry without a limit.
const NO_REGISTER_LIMIT: u32 = 0xff;

/// The most register messages with notes: each note costs a walk over the call graph.
const MAX_CALL_PATHS: usize = 50;

impl LinkedProgram<'_, '_> {
    /// Reports everything that is wrong.
    ///
    /// # Errors
    /// Problems after which nvlink reports nothing more.
    pub(crate) fn check(&self, diags: &mut Diagnostics) -> Result<(), Failed> {
        self.functions_fit(diags)?;
        self.literals_fit(diags)?;
        let silent = self.options.suppress_stack_size_warning || self.options.disable_infos;
        if !silent && !self.options.relocatable {
            self.stack_sizes(diags);
        }
        self.never_called(diags);
        // nvlink reports nothing after this (case errors-unified/after-stack-sizes).
        if let Some(problem) = &self.unified {
            return Err(diags.fatal(problem.clone()));
        }
        if self.options.relocatable {
            self.constant_variables(diags);
            early::report(self, diags);
            skew::report_barriers(&self.objects, &self.merged, self.options, diags);
            return Ok(());
        }
        let registers_first = self.options.dialect.checks_registers_first;
        if registers_first {
            self.dump_callgraph(diags);
            self.register_limits(diags);
        }
        self.placed_already(diags);
        self.limits(diags);
        self.undefined(diags);
        if !registers_first {
            self.dump_callgraph(diags);
        }
        self.stack_limits(diags);
        for &entry in &self.attributes.mixed_groups {
            let entry = self.function_name(entry);
            diags.error(Message::MixedGroups { entry }, Vec::new());
        }
        if !registers_first {
            self.register_limits(diags);
        }
        debugger::report(&self.objects, self.options, diags);
        skew::report(&self.objects, &self.merged, self.options, diags);
        skew::report_barriers(&self.objects, &self.merged, self.options, diags);
        self.aliases(diags)?;
        early::report(self, diags);
        Ok(())
    }

    /// Checks that functions lie inside their code. A function in code that is named after another
    /// function moves with that one, whose copy in another file can be shorter. nvlink crashes then
    /// (docs/DIFFERENCES.md, bad-relocation).
    fn functions_fit(&self, diags: &mut Diagnostics) -> Result<(), Failed> {
        let draft = &self.merged.draft;
        for node in self.graph.nodes.ids() {
            let symbol = &draft.symbols[self.merged.function(&self.graph, node)];
            let Some(section) = symbol.section.map(|id| &draft.sections[id]) else { continue };
            let inside =
                symbol.value.checked_add(symbol.size).is_some_and(|end| end <= section.size);
            if inside || section.kind != SectionKind::Text {
                continue;
            }
            let definition = self.symbols.all[self.graph.nodes[node]].definition;
            let file =
                definition.map_or("<input>".to_owned(), |site| self.objects.file(site.object));
            let reason = format!(
                "function '{}' is in code of another function, of which another file has a shorter one",
                explain::display_name(draft.names.get(symbol.name))
            );
            return Err(diags.fatal(Message::Unsupported { file, reason }));
        }
        Ok(())
    }

    /// With `-r`, checks that symbols of literals and parameters lie inside their bank. The copy
    /// that was accepted can bring a shorter bank than the one that the symbols came with
    /// (`testdata/fuzz/link_records/symbol-of-a-shorter-bank`).
    fn literals_fit(&self, diags: &mut Diagnostics) -> Result<(), Failed> {
        let draft = &self.merged.draft;
        if !self.options.relocatable {
            return Ok(());
        }
        for symbol in draft.symbols.values().filter(|symbol| !symbol.dropped) {
            let Some(section) = symbol.section.map(|id| &draft.sections[id]) else { continue };
            let inside =
                symbol.value.checked_add(symbol.size).is_some_and(|end| end <= section.size);
            if inside || !matches!(section.kind, SectionKind::Constant(_)) {
                continue;
            }
            let definition =
                symbol.program.and_then(|program| self.symbols.all[program].definition);
            let file =
                definition.map_or("<input>".to_owned(), |site| self.objects.file(site.object));
            let reason = format!(
                "'{}' is in a bank of constants of which another file has a shorter one",
                explain::display_name(draft.names.get(symbol.name))
            );
            return Err(diags.fatal(Message::Unsupported { file, reason }));
        }
        Ok(())
    }

    /// Checks that aliases have code. Code belongs to the function that it is named after. If that
    /// function is dead, a live alias has no code; an alias that only its taken address keeps alive
    /// is such a case (case errors/address-of-alias-90).
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

    /// Reports shared variables that kernels of whole programs reach: ptxas has placed the own
    /// variables of those kernels.
    fn placed_already(&self, diags: &mut Diagnostics) {
        let clashes = &self.data.shared.clashes;
        if clashes.is_empty() {
            return;
        }
        let symbols = self.merged.draft.symbols.iter();
        let by_variable: HashMap<SharedId, OutSymbolId> =
            symbols.filter_map(|(id, symbol)| Some((symbol.shared?, id))).collect();
        for &SharedClash { variable, kernel } in clashes {
            let symbol = by_variable.get(&variable).map_or_else(String::new, |&id| self.name(id));
            let entry = self.function_name(self.graph.kernels()[kernel]);
            diags.error(Message::PlacedAlready { symbol, entry }, Vec::new());
        }
    }

    fn name(&self, symbol: OutSymbolId) -> String {
        self.merged.draft.names.text(self.merged.draft.symbols[symbol].name)
    }

    pub(crate) fn function_name(&self, node: NodeId) -> String {
        self.name(self.merged.function(&self.graph, node))
    }

    /// Warns about functions that are kept because their address is taken, though no kernel calls
    /// them, directly or through others (case indirect/never-called). Kernels that nothing defines
    /// are none of them (case indirect/never-called-kernels).
    fn never_called(&self, diags: &mut Diagnostics) {
        if !self.options.extra_warnings || self.options.disable_infos {
            return;
        }
        for &node in self.graph.unreached() {
            let symbol = &self.merged.draft.symbols[self.merged.function(&self.graph, node)];
            if symbol.section.is_none() && symbol.is_entry() {
                continue;
            }
            let function = self.function_name(node);
            diags.warning(Message::NeverCalled { function });
        }
    }

    /// Warns once about every entry that can reach recursion. nvlink repeats the warning for every
    /// call that does (docs/DIFFERENCES.md, stack-warning-once).
    fn stack_sizes(&self, diags: &mut Diagnostics) {
        if !self.attributes.entries.iter().any(|facts| facts.is_recursive) {
            return;
        }
        let lines = RefCell::default();
        let notes = self.paths(&lines).recursion();
        let entries = self.graph.entries().iter().zip(&self.attributes.entries);
        for ((&entry, facts), notes) in entries.zip(notes) {
            if facts.is_recursive {
                let entry = self.function_name(entry);
                diags.explained_warning(Message::StackSizeUnknown { entry }, notes);
            }
        }
    }

    fn paths<'a>(
        &'a self,
        lines: &'a RefCell<SourceLines>,
    ) -> CallPaths<'a, impl Fn(NodeId) -> ShownFunction> {
        let function = |node| {
            let symbol = &self.merged.draft.symbols[self.merged.function(&self.graph, node)];
            let name = explain::display_name(self.merged.draft.names.get(symbol.name));
            ShownFunction { name, source_line: self.source_line(symbol, lines) }
        };
        CallPaths { graph: &self.graph, function }
    }

    /// The line of the definition that a symbol of the output comes from.
    fn source_line(&self, symbol: &OutSymbol, lines: &RefCell<SourceLines>) -> Option<String> {
        let site = self.symbols.all[symbol.program?].definition?;
        lines.borrow_mut().of_symbol(&self.objects, site)
    }

    fn limits(&self, diags: &mut Diagnostics) {
        let draft = &self.merged.draft;
        let kinds = [SectionKind::Constant(0), SectionKind::Shared];
        // Both lists are sorted, so this sort merges two runs.
        let mut limited = kinds.map(|kind| draft.category_of(kind)).concat();
        limited.sort();
        let lines = RefCell::default();
        for id in limited {
            let section = &draft.sections[id];
            match section.kind {
                SectionKind::Constant(bank) if section.size > BANK_LIMIT => {
                    let message = self.bank_message(section, bank);
                    let line = |symbol: &OutSymbol| self.source_line(symbol, &lines);
                    diags.error(message, sizes::constants(draft, id, line));
                }
                SectionKind::Shared | SectionKind::PoolShared if !section.dropped => {
                    let size = section.size.saturating_sub(self.options.target.reserved_shared);
                    let limit = self.options.dialect.shared_limit(self.options.target);
                    if size > limit {
                        let entry = self.shared_owner(section);
                        let message = Message::SharedTooLarge { entry, size, limit };
                        diags.error(message, self.shared_variables(section.owner, &lines));
                    }
                }
                _ => {}
            }
        }
    }

    /// The entry that nvlink names for a shared section. The pool has a size if variables keep
    /// their symbols; nvlink reads the pool's name as `.nv.shared.<entry>` then
    /// (docs/rules/diagnostics.md, 4).
    fn shared_owner(&self, section: &OutSection<'_>) -> String {
        if section.kind == SectionKind::Shared {
            return self.owner_name(section.owner);
        }
        let name = self.merged.draft.names.text(section.name);
        name.get(b".nv.shared.".len()..).unwrap_or_default().to_owned()
    }

    /// Notes about the largest shared variables of the entry with section `code`.
    fn shared_variables(&self, code: Option<SectionId>, lines: &RefCell<SourceLines>) -> Vec<Note> {
        let entries = self.graph.kernels().iter();
        let own = |&(_, &entry): &(usize, &NodeId)| self.merged.code(&self.graph, entry) == code;
        let Some((kernel, _)) = entries.enumerate().find(own) else { return Vec::new() };
        let variables = &self.merged.shared.variables;
        let size = |variable: SharedId| {
            self.data.shared.uses(kernel, variable).then(|| variables[variable].size)
        };
        let line = |symbol: &OutSymbol| self.source_line(symbol, lines);
        sizes::shared(&self.merged.draft, size, line)
    }

    /// The only limit that `-r` checks: the size of the bank of constant variables.
    fn constant_variables(&self, diags: &mut Diagnostics) {
        let draft = &self.merged.draft;
        let Some(bank) = draft.constant_variables() else { return };
        if draft.sections[bank].size > BANK_LIMIT {
            let message = self.bank_message(&draft.sections[bank], 3);
            let lines = RefCell::default();
            let line = |symbol: &OutSymbol| self.source_line(symbol, &lines);
            diags.error(message, sizes::constants(draft, bank, line));
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
        let notes = references::undefined(
            &self.objects,
            &self.symbols,
            &self.graph,
            &draft.names,
            &missing,
        );
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
            stt::FUNC => !name.is_empty() && !is_driver_function(name, self.options.dialect),
            stt::OBJECT | stt::CUDA_OBJECT => {
                let system =
                    is_unified_table(name) || is_reserved_shared(name) || is_descriptor_size(name);
                let allowed = self.options.allow_undefined_globals && self.is_global(symbol);
                // Shared variables have no section after layout; `defined` says if a file defines
                // them.
                let defined = symbol.shared.is_some_and(|variable| {
                    let variable = &self.merged.shared.variables[variable];
                    variable.defined || variable.size == 0
                });
                !system && !allowed && !defined
            }
            _ => false,
        }
    }

    /// Checks entries with MAX_STACK_SIZE. Recursion exceeds any limit. nvlink prints the numbers
    /// as signed ones (docs/rules/diagnostics.md, 3).
    fn stack_limits(&self, diags: &mut Diagnostics) {
        let (lines, mut deepest) = (RefCell::default(), None);
        for (&entry, facts) in self.graph.entries().iter().zip(&self.attributes.entries) {
            let needed = facts.stack.unwrap_or(u32::MAX);
            if facts.stack_limit != 0 && needed > facts.stack_limit {
                let (needed, limit) = (needed as i32, facts.stack_limit as i32);
                let deepest = deepest
                    .get_or_insert_with(|| DeepestCalls::of(&self.graph, &self.attributes.frames));
                let note = self.paths(&lines).deepest(entry, deepest);
                let entry = self.function_name(entry);
                let message = Message::StackTooLarge { entry, needed, limit };
                diags.error(message, note.into_iter().collect());
            }
        }
    }

    fn dump_callgraph(&self, diags: &mut Diagnostics) {
        if let Some(names) = self.options.dump_callgraph {
            dump::lines(self, names).into_iter().for_each(|line| diags.dump(line));
        }
    }

    /// The entries whose register count is watched: those whose limit is exceeded, and with a dump
    /// of the call graph all but jump slots.
    fn watched_entries(&self) -> Vec<WatchedEntry> {
        let dumps = self.options.dump_callgraph.is_some();
        let entries = self.graph.entries().iter().zip(&self.attributes.entries).enumerate();
        let watched = entries.filter_map(|(place, (&entry, facts))| {
            let limit = self.attributes.number(entry, code::MAXREG_COUNT);
            let limit = limit.filter(|&limit| limit != 0 && limit != NO_REGISTER_LIMIT);
            let exceeded_limit = limit.filter(|&limit| facts.registers > limit);
            let is_dumped = || dumps && !self.merged.is_slot(&self.graph, entry);
            (exceeded_limit.is_some() || is_dumped()).then(|| WatchedEntry {
                place,
                entry,
                exceeded_limit,
                registers: self.attributes.registers[entry],
            })
        });
        watched.collect()
    }

    /// Checks that no entry with a register limit calls a function that needs more. There is one
    /// message for every callee that raises the count, in the order of creation of its code. The
    /// dump of the call graph lists every such callee.
    fn register_limits(&self, diags: &mut Diagnostics) {
        let mut watched = self.watched_entries();
        if watched.is_empty() {
            return;
        }
        let mut is_callee = IdVec::filled(true, self.graph.nodes.len());
        let entries = self.graph.entries().iter();
        let kernels = entries.filter(|&&entry| !self.graph.is_driver_function(entry));
        kernels.for_each(|&entry| is_callee[entry] = false);
        let reached = self.graph.reached_by_entries(&is_callee);
        let mut functions: Vec<NodeId> =
            self.merged.info_order.iter().copied().filter(|&node| is_callee[node]).collect();
        functions.sort_by_key(|&node| self.merged.code(&self.graph, node));
        let (lines, mut reported) = (RefCell::default(), 0);
        for function in functions {
            let registers = self.attributes.registers[function];
            for watched in watched.iter_mut().rev() {
                let calls = reached[watched.place].binary_search(&function).is_ok();
                if !calls || registers <= watched.registers {
                    continue;
                }
                watched.registers = registers;
                let entry = watched.entry;
                if let Some(limit) = watched.exceeded_limit.filter(|&limit| registers > limit) {
                    let path = (reported < MAX_CALL_PATHS)
                        .then(|| self.paths(&lines).call_path(entry, function));
                    reported += 1;
                    let (entry, function) =
                        (self.function_name(entry), self.function_name(function));
                    let message = Message::TooManyRegisters { entry, limit, function, registers };
                    diags.error(message, path.into_iter().collect());
                }
                if let Some(names) = self.options.dump_callgraph {
                    let dialect = self.options.dialect;
                    let name = |node| dump::name(&self.function_name(node), names, dialect);
                    let (function, entry) = (name(function), name(entry));
                    diags.dump(format!(
                        "regcount {registers} for {function} propagated to entry {entry}"
                    ));
                }
            }
        }
    }
}

/// An entry whose register count is watched while callees raise it.
struct WatchedEntry {
    /// Its place in [`CallGraph::entries`](crate::callgraph::CallGraph::entries).
    place: usize,
    entry: NodeId,
    /// Its limit, if it needs more registers with all that it reaches.
    exceeded_limit: Option<u32>,
    /// The count with the callees met so far.
    registers: u32,
}
