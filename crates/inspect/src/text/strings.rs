//! String tables: the strings in order, as far as they do not follow from the names in the file.

use std::collections::{HashMap, HashSet};

use culd_cubin::elf::sht;

use crate::name;
use crate::rules;
use crate::view::View;

/// A run of strings of the section name table is worth folding from this length on.
const SHORTEST_RUN: usize = 3;

/// The lines of string table `index`; `None` when it is no table of NUL-terminated strings.
pub(super) fn strings(view: &View<'_>, index: usize) -> Option<Vec<String>> {
    let section = view.cubin.sections.get(index)?;
    let entries = rules::strings(section.data)?;
    let entries = entries.get(1..)?;
    let names_index = usize::from(view.tables.header.shstrndx);
    let known = known_names(view, index);
    let (head, tail) = match rest_range(&known, entries) {
        Some((start, end)) => (entries.get(..start)?, Some(entries.get(end..)?)),
        None => (entries, None),
    };
    let names = view.cubin.sections.get(names_index);
    let names = names.filter(|names| names_index != index && names.sh_type == sht::STRTAB);
    let names = names.and_then(|names| rules::strings(names.data)).unwrap_or_default();
    let mut lines = explicit(head, &names);
    if let Some(tail) = tail {
        lines.push("rest".to_owned());
        lines.extend(explicit(tail, &names));
    }
    Some(lines)
}

/// The names that `rest` takes the strings of table `index` from: of sections, or of the symbols
/// of the tables linked to it.
fn known_names<'d>(view: &View<'d>, index: usize) -> Vec<&'d [u8]> {
    if index == usize::from(view.tables.header.shstrndx) {
        return view.cubin.sections.iter().map(|section| section.name).collect();
    }
    let mut names = Vec::new();
    let tables =
        [(sht::SYMTAB, &view.cubin.symbols), (sht::MERCURY_SYMTAB, &view.cubin.mercury_symbols)];
    for (sh_type, symbols) in tables {
        let linked = |s: &culd_cubin::Section<'_>| s.sh_type == sh_type && s.link as usize == index;
        if view.cubin.sections.iter().any(linked) {
            names.extend(symbols.iter().map(|symbol| symbol.name));
        }
    }
    names
}

/// The largest range of `entries` that is `rules::rest(known, what stands before)`, if one is
/// worth a line.
fn rest_range(known: &[&[u8]], entries: &[&[u8]]) -> Option<(usize, usize)> {
    let mut position: HashMap<&[u8], usize> = HashMap::new();
    for (at, &known) in known.iter().enumerate().filter(|(_, known)| !known.is_empty()) {
        position.entry(known).or_insert(at);
    }
    let end = entries.iter().rposition(|entry| position.contains_key(entry))? + 1;
    let mut start = end;
    let mut next = usize::MAX;
    while let Some(&at) =
        start.checked_sub(1).and_then(|at| position.get(entries.get(at)?)).filter(|&&at| at < next)
    {
        next = at;
        start -= 1;
    }
    let range = entries.get(start..end)?;
    let rest = rules::rest(known, entries.get(..start)?);
    (rest == range).then_some((start, end))
}

/// One line per string; runs of empty ones and runs copied from `names` folded.
fn explicit(entries: &[&[u8]], names: &[&[u8]]) -> Vec<String> {
    let mut first: HashMap<&[u8], usize> = HashMap::new();
    for (at, &name) in names.iter().enumerate() {
        first.entry(name).or_insert(at);
    }
    let mut lines = Vec::new();
    let mut at = 0;
    while let Some(tail) = entries.get(at..).filter(|tail| !tail.is_empty()) {
        let empty = tail.iter().take_while(|entry| entry.is_empty()).count();
        if empty > 0 {
            lines.push(format!("empty {empty}"));
            at += empty;
            continue;
        }
        let start = tail.first().and_then(|entry| first.get(entry)).copied();
        let source = start.and_then(|start| names.get(start..)).unwrap_or(&[]);
        let run = run_length(tail, source);
        let last = run.checked_sub(1).and_then(|last| tail.get(last));
        match (tail.first(), last) {
            (Some(first), Some(last)) if run >= SHORTEST_RUN => {
                lines.push(format!("run {} {}", name::quote(first), name::quote(last)));
                at += run;
            }
            (entry, _) => {
                lines.push(format!("string {}", name::quote(entry.unwrap_or(&&b""[..]))));
                at += 1;
            }
        }
    }
    lines
}

/// How many entries of `tail` and `source` agree, up to one whose first place in `source` that is.
fn run_length(tail: &[&[u8]], source: &[&[u8]]) -> usize {
    let mut seen = HashSet::new();
    let mut run = 0;
    for (count, (entry, _)) in
        (1..).zip(tail.iter().zip(source).take_while(|(entry, name)| entry == name))
    {
        if seen.insert(entry) && !entry.is_empty() {
            run = count;
        }
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_found_behind_what_has_another_order() {
        let known: [&[u8]; 4] = [b"", b"a", b"b", b"c"];
        assert_eq!(rest_range(&known, &[b"x", b"a", b"b", b"c", b""]), Some((1, 4)));
        assert_eq!(rest_range(&known, &[b"b", b"a", b"c"]), Some((1, 3)));
        assert_eq!(rest_range(&known, &[b"c", b"b", b"a"]), Some((2, 3)));
        // b is missing: it is a part of another string, and `rest` would add it.
        assert_eq!(rest_range(&known, &[b"a", b"c"]), None);
    }

    #[test]
    fn runs_and_empty_strings_are_folded() {
        let names: [&[u8]; 5] = [b"", b"a", b"b", b"", b"c"];
        let lines = explicit(&[b"x", b"a", b"b", b"", b"c", b"", b"", b"a"], &names);
        assert_eq!(lines, ["string x", "run a c", "empty 2", "string a"]);
    }
}
