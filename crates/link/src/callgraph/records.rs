//! The combined call-graph records of all files: pairs of functions, signatures, and roots.

use hashbrown::HashSet;

use crate::base::id::{DenseId, IdVec, NameId, NodeId, SymbolId};
use crate::base::names::Names;
use crate::objects::InputObjects;
use crate::symbols::Symbols;

/// Known facts about a function's signature.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FunctionSignature {
    pub(super) prototype: Option<NameId>,
    pub(super) address_taken: bool,
}

/// All records of all files, as pairs of program symbols or of nodes of live functions. The second
/// of a pair in `indirect` is the name of a prototype.
#[derive(Default)]
pub(super) struct CallRecords {
    pub(super) calls: Vec<(u32, u32)>,
    pub(super) indirect: Vec<(u32, u32)>,
    pub(super) references: Vec<(u32, u32)>,
}

impl CallRecords {
    /// Removes repeated pairs: an object lists each pair once, where it was read first
    /// (cases weak/latest-target, errors-stack/replaced-entry with -r).
    pub(super) fn list_once(&mut self) {
        for list in [&mut self.calls, &mut self.references] {
            let mut seen = HashSet::new();
            list.retain(|&pair| seen.insert(pair));
        }
    }

    /// The direct calls of some functions by caller, each in reading order, those of dead functions
    /// too. `callers` is in order.
    pub(super) fn calls_of(
        &self,
        callers: &[NodeId],
        node_of: &IdVec<SymbolId, Option<NodeId>>,
    ) -> Vec<(NodeId, SymbolId)> {
        if callers.is_empty() {
            return Vec::new();
        }
        let symbol = |number: u32| SymbolId::from_index(number as usize);
        let caller =
            |function| node_of[function].filter(|node| callers.binary_search(node).is_ok());
        let calls = self.calls.iter();
        let mut calls: Vec<_> =
            calls.filter_map(|&(from, to)| Some((caller(symbol(from))?, symbol(to)))).collect();
        calls.sort_by_key(|call| call.0);
        calls
    }

    /// The records between live functions.
    pub(super) fn among(&self, node_of: &IdVec<SymbolId, Option<NodeId>>) -> Self {
        let node = |symbol: u32| {
            node_of[SymbolId::from_index(symbol as usize)].map(|node| node.index() as u32)
        };
        let pairs = |list: &[(u32, u32)]| {
            list.iter().filter_map(|&(from, to)| Some((node(from)?, node(to)?))).collect()
        };
        let named = |&(from, name): &(u32, u32)| Some((node(from)?, name));
        CallRecords {
            calls: pairs(&self.calls),
            indirect: self.indirect.iter().filter_map(named).collect(),
            references: pairs(&self.references),
        }
    }
}

/// Where execution can begin.
pub(super) struct Roots {
    /// By kernel: whether it was known to be kept when the first file that defines it was read.
    pub(super) known: IdVec<SymbolId, Option<bool>>,
    pub(super) is_entry: IdVec<SymbolId, bool>,
    /// Defined functions with the name of a function of the driver.
    pub(super) driver: HashSet<SymbolId>,
    /// Exactly one kernel is selected.
    pub(super) single: bool,
}

impl Roots {
    pub(super) fn none(symbols: &Symbols) -> Self {
        Roots {
            known: IdVec::filled(None, symbols.all.len()),
            is_entry: IdVec::filled(false, symbols.all.len()),
            driver: HashSet::new(),
            single: false,
        }
    }

    /// Adds the kernels called `names`; returns the other functions called so.
    pub(super) fn add_named(
        &mut self,
        symbols: &Symbols,
        table: &Names<'_>,
        names: &[Vec<u8>],
    ) -> Vec<SymbolId> {
        let wanted: HashSet<NameId> = names.iter().filter_map(|name| table.lookup(name)).collect();
        if wanted.is_empty() {
            return Vec::new();
        }
        let named = |id: &SymbolId| wanted.contains(&symbols.all[*id].name);
        let (kernels, others): (Vec<SymbolId>, Vec<SymbolId>) =
            symbols.all.ids().filter(named).partition(|&id| symbols.all[id].is_kernel);
        kernels.into_iter().for_each(|kernel| self.is_entry[kernel] = true);
        others
    }

    /// Adds kernels whose address is taken anywhere, definitions with names of the driver's, and
    /// jump slots of unified functions, unless exactly one kernel is selected
    /// (case syscalls/definitions-as-roots).
    pub(super) fn add_taken(
        &mut self,
        symbols: &Symbols,
        signatures: &IdVec<SymbolId, FunctionSignature>,
        slots: &[SymbolId],
    ) {
        self.single = self.is_entry.values().filter(|&&is_entry| is_entry).count() == 1;
        if self.single {
            return;
        }
        for id in symbols.all.ids().filter(|&id| signatures[id].address_taken) {
            self.is_entry[id] |= symbols.all[id].is_kernel;
        }
        for &function in &self.driver {
            self.is_entry[function] = true;
        }
        for &slot in slots {
            self.is_entry[slot] = true;
            self.known[slot] = Some(false);
        }
    }
}

/// All functions that any file names, dead ones included, in order of first sight.
pub(crate) fn functions(objects: &InputObjects<'_>, symbols: &Symbols) -> Vec<SymbolId> {
    let mut seen = IdVec::filled(false, symbols.all.len());
    let mut functions = Vec::new();
    for (id, object) in objects.iter() {
        for function in &object.outline.functions {
            let Some(function) = symbols.of(id, function.index) else { continue };
            if !std::mem::replace(&mut seen[function], true) {
                functions.extend(symbols.nameless_before(function));
                functions.push(function);
            }
        }
    }
    functions
}
