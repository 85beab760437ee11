//! Which inputs define and use a symbol.
//!
//! In: the cubins that are linked. Out: lines. Guaranteed: lines have the order of the inputs, also
//! after a failed link; an unreadable input has no names.

use culd_text::os::OsStrExt;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;

use culd_cubin::elf::{stb, stt};
use culd_cubin::{Cubin, Symbol, SymbolSection};

use crate::input::LinkCubin;

/// Columns of a name in the cross reference table.
const NAME: usize = 49;

/// Calls `visit` with each global symbol of each input.
fn each_symbol<'a>(inputs: &[LinkCubin<'a>], mut visit: impl FnMut(usize, &Symbol<'a>)) {
    for (place, input) in inputs.iter().enumerate() {
        let Ok(cubin) = Cubin::parse(input.bytes) else { continue };
        let named = |symbol: &&Symbol<'_>| {
            let kind = matches!(symbol.kind(), stt::FUNC | stt::OBJECT | stt::CUDA_OBJECT);
            kind && symbol.binding() != stb::LOCAL && !symbol.name.is_empty()
        };
        cubin.symbols.iter().filter(named).for_each(|symbol| visit(place, symbol));
    }
}

/// The lines of `--trace-symbol`, in lld's words.
pub(super) fn traced(inputs: &[LinkCubin<'_>], names: &[String]) -> String {
    let mut text = String::new();
    let mut asked: HashMap<&[u8], bool> = HashMap::new();
    each_symbol(inputs, |place, symbol| {
        let is_asked = asked.entry(symbol.name).or_insert_with(|| {
            let mangled = culd_text::bytes(symbol.name);
            let demangled = culd_link::demangle(&mangled).unwrap_or_default();
            names.iter().any(|name| culd_report::names(name, &mangled, &demangled))
        });
        if !*is_asked {
            return;
        }
        let what = match symbol.section {
            SymbolSection::Undefined => "reference to",
            SymbolSection::Common => "common definition of",
            _ if symbol.binding() == stb::WEAK => "weak definition of",
            _ => "definition of",
        };
        let line = format!("{}: {what} {}", inputs[place].name, culd_text::bytes(symbol.name));
        text.push_str(&culd_text::escaped(&line));
        text.push('\n');
    });
    text
}

/// The patterns of `-kernels-used` that match no kernel, as notes.
pub(super) fn unmatched(inputs: &[LinkCubin<'_>], patterns: &[OsString]) -> Vec<String> {
    let missing = unused(inputs, patterns, |symbol| symbol.is_entry(), occurs).into_iter();
    let note = |pattern: &OsString| {
        format!("no kernel has a name that contains '{}' (-kernels-used)", culd_text::name(pattern))
    };
    missing.map(note).collect()
}

/// The names of `-u` that no input defines as a function, as notes.
pub(super) fn undefined(inputs: &[LinkCubin<'_>], names: &[OsString]) -> Vec<String> {
    let is_defined =
        |symbol: &Symbol<'_>| symbol.is_function() && symbol.section != SymbolSection::Undefined;
    let missing = unused(inputs, names, is_defined, |name, symbol| name == symbol);
    let mangled = mangled(inputs, &missing, is_defined);
    let note = |(name, mangled): (&&OsString, &Option<String>)| {
        let name = culd_text::name(name);
        let meant = mangled.as_ref().map(|mangled| format!(": '{mangled}'")).unwrap_or_default();
        format!("no input defines a function '{name}' (-u takes mangled names{meant})")
    };
    missing.iter().zip(&mangled).map(note).collect()
}

/// For each of `names` the first mangled name of a symbol that counts and has it in the source.
fn mangled(
    inputs: &[LinkCubin<'_>],
    names: &[&OsString],
    counts: impl Fn(&Symbol<'_>) -> bool,
) -> Vec<Option<String>> {
    let texts: Vec<String> = names.iter().map(culd_text::name).collect();
    let mut mangled = vec![None; names.len()];
    let mut known: HashSet<&[u8]> = HashSet::new();
    each_symbol(inputs, |_, symbol| {
        if mangled.iter().all(Option::is_some) || !counts(symbol) || !known.insert(symbol.name) {
            return;
        }
        let own = culd_text::bytes(symbol.name);
        let Some(source) = culd_link::demangle(&own) else { return };
        for (text, mangled) in texts.iter().zip(&mut mangled) {
            if mangled.is_none() && culd_report::names(text, &own, &source) {
                *mangled = Some(own.clone());
            }
        }
    });
    mangled
}

/// Those of `names` that mean no symbol that counts; none if the names of an input are not known.
fn unused<'n>(
    inputs: &[LinkCubin<'_>],
    names: &'n [OsString],
    counts: impl Fn(&Symbol<'_>) -> bool,
    means: impl Fn(&[u8], &[u8]) -> bool,
) -> Vec<&'n OsString> {
    let mut missing: Vec<&OsString> = names.iter().collect();
    for input in inputs {
        if missing.is_empty() {
            break;
        }
        let Ok(cubin) = Cubin::parse(input.bytes) else { return Vec::new() };
        let counted = cubin.symbols.iter().filter(|symbol| counts(symbol));
        let counted: Vec<&[u8]> = counted.map(|symbol| symbol.name).collect();
        missing.retain(|name| !counted.iter().any(|symbol| means(name.as_bytes(), symbol)));
    }
    missing
}

/// True if the pieces of `pattern` between `*` are in `name`, in order.
fn occurs(pattern: &[u8], name: &[u8]) -> bool {
    let mut rest = name;
    pattern.split(|&byte| byte == b'*').all(|piece| {
        let at = match piece {
            [] => Some(0),
            _ => rest.windows(piece.len()).position(|window| window == piece),
        };
        at.map(|at| rest = &rest[at + piece.len()..]).is_some()
    })
}

/// The lines of `--cref`: each symbol with the input that defines it, and those that name it.
pub(super) fn cross_references(inputs: &[LinkCubin<'_>]) -> Vec<String> {
    let mut users: HashMap<Vec<u8>, (Vec<usize>, Vec<usize>)> = HashMap::new();
    each_symbol(inputs, |place, symbol| {
        let (defining, using) = users.entry(symbol.name.to_vec()).or_default();
        let list = match symbol.section {
            SymbolSection::Undefined => using,
            _ => defining,
        };
        if list.last() != Some(&place) {
            list.push(place);
        }
    });
    let mut all: Vec<_> = users.into_iter().collect();
    all.sort_unstable();
    let mut lines = vec![
        "Cross Reference Table".to_owned(),
        String::new(),
        format!("{:<NAME$} File", "Symbol"),
    ];
    for (name, (defining, using)) in all {
        let mut first = culd_text::bytes(&name);
        for place in defining.into_iter().chain(using) {
            lines.push(format!("{first:<NAME$} {}", inputs[place].name));
            first.clear();
        }
    }
    lines
}
