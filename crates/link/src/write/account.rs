//! An account of the inputs, for library users: which definitions were dropped and why, and who
//! calls whom.
//!
//! In: the finished program. Out: an [`Account`], in the order of the inputs. Guaranteed: made only
//! on request.

use culd_cubin::{Symbol, SymbolIndex, SymbolSection, text_of};

use super::Image;
use crate::base::id::{NodeId, ObjectId, SymbolId};
use crate::callgraph::records;
use crate::program::LinkedProgram;
use crate::symbols::{Fate, SymbolSite};

/// An account of the inputs of a link.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// Definitions of functions and variables in the inputs that are not in the output.
    pub removed: Vec<Removed>,
    /// The functions of the output, in the order in which the inputs name them.
    pub functions: Vec<Function>,
}

/// A definition that is not in the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// The input, as messages name it.
    pub file: String,
    /// The mangled name.
    pub symbol: String,
    /// True for a function, false for a variable.
    pub function: bool,
    /// The reason.
    pub why: Why,
}

/// Why a definition is not in the output.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// A function that no kernel reaches.
    Unreached,
    /// A kernel that neither the options nor the host's code use.
    Unused,
    /// Another input's definition was chosen.
    Overridden {
        /// The input, as messages name it.
        by: String,
    },
}

/// A function of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// The mangled name.
    pub name: String,
    /// True for a kernel.
    pub kernel: bool,
    /// True if its address is taken.
    pub address_taken: bool,
    /// Names of the functions that it calls directly.
    pub calls: Vec<String>,
    /// Names of the functions that it may call through pointers: those with the prototype of an
    /// indirect call whose address is taken.
    pub may_call: Vec<String>,
}

impl Image<'_, '_> {
    /// The account of the inputs.
    pub fn account(&self) -> Account {
        Account { removed: removed(&self.program), functions: functions(&self.program) }
    }
}

fn removed(program: &LinkedProgram<'_, '_>) -> Vec<Removed> {
    let mut all = Vec::new();
    for (id, object) in program.objects.iter() {
        for (index, symbol) in object.cubin.symbol_indices() {
            let Some(why) = why(program, id, index, symbol) else { continue };
            let symbol_name = text_of(symbol.name);
            all.push(Removed {
                file: program.objects.file(id),
                symbol: symbol_name,
                function: symbol.is_function(),
                why,
            });
        }
    }
    all
}

/// Why a file's symbol is not in the output; `None` if it is in the output, or defines nothing.
fn why(
    program: &LinkedProgram<'_, '_>,
    object: ObjectId,
    index: SymbolIndex,
    symbol: &Symbol<'_>,
) -> Option<Why> {
    let id = program.symbols.of(object, index)?;
    let defines = matches!(symbol.section, SymbolSection::In(_));
    match program.symbols.fate(object, index) {
        Fate::Replaced | Fate::Lost if defines => {
            let SymbolSite { object, .. } = program.symbols.all[id].definition?;
            Some(Why::Overridden { by: program.objects.file(object) })
        }
        Fate::Chosen if symbol.is_function() && program.graph.node(id).is_none() => {
            Some(if symbol.is_entry() { Why::Unused } else { Why::Unreached })
        }
        _ => None,
    }
}

fn functions(program: &LinkedProgram<'_, '_>) -> Vec<Function> {
    let graph = &program.graph;
    let name = |node: NodeId| program.function_name(node);
    let taken: Vec<NodeId> =
        graph.nodes.ids().filter(|&node| graph.is_address_taken(node)).collect();
    let live = |symbol: SymbolId| graph.node(symbol);
    let nodes = records::functions(&program.objects, &program.symbols).into_iter();
    let function = |node: NodeId| {
        let fits = |candidate: &&NodeId| {
            let own = graph.prototype(**candidate);
            graph.indirect(node).any(|prototype| own == Some(prototype))
        };
        Function {
            name: name(node),
            kernel: graph.kernels().binary_search(&node).is_ok(),
            address_taken: graph.is_address_taken(node),
            calls: graph.calls(node).map(name).collect(),
            may_call: taken.iter().filter(fits).map(|&node| name(node)).collect(),
        }
    };
    nodes.filter_map(live).map(function).collect()
}
