//! `-dump-callgraph`: the call graph as nvlink prints it.
//!
//! In: the finished program. Out: lines. Functions have numbers in the order in which the files
//! name them, the dead ones too, which are left blank. Calls through pointers come first, in reading
//! order, one for each function of the prototype whose address is taken, last first; then the
//! others, last read first (docs/rules/diagnostics.md, section 13).

use crate::callgraph;
use crate::diag::demangle;
use crate::id::{IdVec, NodeId};
use crate::program::Program;

/// Whose names the lines tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallGraphNames {
    /// As in the source.
    Source,
    /// As in the file.
    Mangled,
}

/// What the marks in the lines mean.
const LEGEND: [&str; 4] = [
    "# A: s -> B // s (number A) potentially calls B",
    "# s [N]     // s uses N registers",
    "# ^s        // s is entry point",
    "# &s        // s has address taken",
];

/// All lines, except those about registers that are handed on.
pub(crate) fn lines(program: &Program<'_, '_>, names: CallGraphNames) -> Vec<String> {
    let mut lines = vec![format!("callgraph for sm_{}:", program.options.target.sm)];
    lines.extend(LEGEND.map(str::to_owned));
    let functions: Vec<Option<NodeId>> = callgraph::functions(&program.objects, &program.symbols)
        .into_iter()
        .map(|function| program.graph.node(function))
        .collect();
    let mut numbers = IdVec::filled(0usize, program.graph.nodes.len());
    for (place, node) in functions.iter().enumerate() {
        if let Some(node) = *node {
            numbers[node] = place + 1;
        }
    }
    let candidates: Vec<NodeId> =
        program.graph.nodes.ids().filter(|&node| program.graph.is_address_taken(node)).collect();
    for (place, node) in functions.iter().enumerate() {
        let number = place + 1;
        lines.push(match *node {
            Some(node) => {
                let function = function(program, node, names);
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
fn function(program: &Program<'_, '_>, node: NodeId, names: CallGraphNames) -> String {
    let is_entry = program.graph.entries().binary_search(&node).is_ok();
    let entry = if is_entry { "^" } else { "" };
    let taken = if program.graph.is_address_taken(node) { "&" } else { "" };
    let name = name(&program.function_name(node), names);
    // An alias has code, and no count of its own.
    let registers = program.attributes.registers[node];
    match program.merged.code(&program.graph, node).filter(|_| registers != 0) {
        Some(_) => format!("{entry}{taken}{name} [{registers}]"),
        None => format!("{entry}{taken}{name}"),
    }
}

/// The name of a function as the lines tell it.
pub(crate) fn name(mangled: &str, names: CallGraphNames) -> String {
    match names {
        CallGraphNames::Mangled => mangled.to_owned(),
        CallGraphNames::Source => {
            demangle(mangled).map_or_else(|| mangled.to_owned(), |name| spaced(&name))
        }
    }
}

/// nvlink puts a blank in front of the stars of pointers: `int *`, `int **`, `int (*)(int)`.
fn spaced(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for letter in name.chars() {
        let pointer = matches!(letter, '*' | '&');
        if pointer && !text.ends_with([' ', '*', '&', '(']) {
            text.push(' ');
        }
        text.push(letter);
    }
    text.replace("(anonymous namespace)", "<unnamed>")
}

/// Whom `node` can call, in the order of the lines.
fn callees(program: &Program<'_, '_>, node: NodeId, candidates: &[NodeId]) -> Vec<NodeId> {
    let graph = &program.graph;
    let of_prototype = |prototype| {
        let of = candidates.iter().rev().copied();
        of.filter(move |&candidate| graph.prototype(candidate) == Some(prototype))
    };
    let mut prototypes: Vec<_> = graph.indirect(node).collect();
    prototypes.reverse();
    prototypes.into_iter().flat_map(of_prototype).chain(graph.calls(node)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spaced_like_nvlinks() {
        let cases = [
            ("_Z4testPii", "test(int *, int)"),
            ("_Z3indPFiiEi", "ind(int (*)(int), int)"),
            ("_Z1fPPcRf", "f(char **, float &)"),
            ("_ZN12_GLOBAL__N_14anonEi", "<unnamed>::anon(int)"),
            ("__nv_static_24__575e557d_4_b_cu__Z3exti__Z2k3Pi", "k3(int *)"),
            (
                "_ZN34_INTERNAL_45ebfa93_4_a_cu__Z4leafi36_GLOBAL__N__45ebfa93_4_a_cu__Z4leafi4anonEi",
                "<unnamed>::anon(int)",
            ),
            ("vprintf", "vprintf"),
        ];
        for (mangled, told) in cases {
            assert_eq!(name(mangled, CallGraphNames::Source), told);
            assert_eq!(name(mangled, CallGraphNames::Mangled), mangled);
        }
    }
}
