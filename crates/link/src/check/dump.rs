//! `-dump-callgraph`: the call graph as nvlink prints it.
//!
//! In: the finished program. Out: lines. Functions are numbered in the order in which the files
//! name them; dead functions have numbers too, and empty lines. A function's indirect calls come
//! first, in reading order; each lists the functions with that prototype whose address is taken,
//! the last one first. Direct calls follow, the last read first (docs/rules/diagnostics.md, section
//! 13).

mod names;

use crate::base::id::{IdVec, NodeId, OutSymbolId, SymbolId};
use crate::callgraph::records;
use crate::options::CallGraphNames;
use crate::options::dialect::Dialect;
use crate::program::LinkedProgram;

/// The legend of the lines.
const LEGEND: [&str; 4] = [
    "# A: s -> B // s (number A) potentially calls B",
    "# s [N]     // s uses N registers",
    "# ^s        // s is entry point",
    "# &s        // s has address taken",
];

/// nvlink's line where no input has device code.
const NOTHING: &str = "No relocatable objects found. Did not generate callgraph.";

/// All lines, except those about propagated register counts.
pub(crate) fn lines(program: &LinkedProgram<'_, '_>, names: CallGraphNames) -> Vec<String> {
    if program.objects.all.len() == 0 {
        return vec![NOTHING.to_owned()];
    }
    let mut lines = vec![format!("callgraph for sm_{}:", program.options.target.sm)];
    lines.extend(LEGEND.map(str::to_owned));
    let functions = records::functions(&program.objects, &program.symbols);
    let undefined = program.merged.undefined_entries().all;
    let mut numbers = IdVec::filled(0usize, program.symbols.all.len());
    for (place, &function) in functions.iter().enumerate() {
        numbers[function] = place + 1;
    }
    let candidates: Vec<NodeId> =
        program.graph.nodes.ids().filter(|&node| program.graph.is_address_taken(node)).collect();
    for symbol in functions {
        let number = numbers[symbol];
        lines.push(match program.graph.node(symbol) {
            Some(node) => {
                let function = function(program, node, names, &undefined);
                let callees = callees(program, node, &candidates);
                let callees: String =
                    callees.iter().map(|&callee| format!(" {}", numbers[callee])).collect();
                format!("{number}: {function} ->{callees}")
            }
            None => format!("{number}: "),
        });
    }
    lines
}

/// `^kernel(int *) [24]`.
fn function(
    program: &LinkedProgram<'_, '_>,
    node: NodeId,
    names: CallGraphNames,
    undefined_entries: &[OutSymbolId],
) -> String {
    let symbol = program.merged.function(&program.graph, node);
    let is_undefined = undefined_entries.binary_search(&symbol).is_ok();
    let is_entry = is_undefined || program.graph.entries().binary_search(&node).is_ok();
    let entry = if is_entry { "^" } else { "" };
    let taken = if program.graph.is_address_taken(node) { "&" } else { "" };
    let name = name(&program.function_name(node), names, program.options.dialect);
    // An alias has code, but no register count.
    let registers = program.attributes.registers[node];
    match program.merged.code(&program.graph, node).filter(|_| registers != 0) {
        Some(_) => format!("{entry}{taken}{name} [{registers}]"),
        None => format!("{entry}{taken}{name}"),
    }
}

/// The name of a function as the lines show it.
pub(crate) fn name(mangled: &str, names: CallGraphNames, dialect: &Dialect) -> String {
    match names {
        CallGraphNames::Mangled => mangled.to_owned(),
        CallGraphNames::Source => names::declaration(mangled, dialect.brackets_clones)
            .unwrap_or_else(|| mangled.to_owned()),
    }
}

/// The functions that `node` can call, in the order of the lines.
fn callees(program: &LinkedProgram<'_, '_>, node: NodeId, candidates: &[NodeId]) -> Vec<SymbolId> {
    let graph = &program.graph;
    let of_prototype = |prototype| {
        let of = candidates.iter().rev().copied();
        of.filter(move |&candidate| graph.prototype(candidate) == Some(prototype))
    };
    let mut prototypes: Vec<_> = graph.indirect(node).collect();
    prototypes.reverse();
    let symbol = |node| graph.nodes[node];
    let indirect = prototypes.into_iter().flat_map(of_prototype).map(symbol);
    // Where nothing reaches the caller, functions that it alone calls are dead, but are listed.
    match graph.unreached().binary_search(&node) {
        Ok(_) => indirect.chain(graph.calls_of_unreached(node)).collect(),
        Err(_) => indirect.chain(graph.calls(node).map(symbol)).collect(),
    }
}
