//! Which functions the kernels of LTO-IR reach.
//!
//! In: the images next to LTO-IR, PTX or cubins. Out: names of functions. Guaranteed: what is not
//! understood names nothing.

use std::collections::{HashMap, HashSet};
use std::iter;

use culd_abi::ptx::comment_len;
use culd_cubin::{Cubin, SectionIndex, text_of};

use super::order::is_of_name;

/// What each function names in its code: functions, and whatever else may be the name of one.
#[derive(Debug, Default)]
pub(super) struct CallMap {
    functions: HashMap<String, HashSet<String>>,
}

impl CallMap {
    /// Adds the functions that the PTX `text` defines.
    pub(super) fn add_ptx(&mut self, text: &str) {
        let mut open: Option<(String, HashSet<String>)> = None;
        let mut depth = 0usize;
        for line in without_comments(text).lines() {
            if open.is_none() && depth == 0 {
                open = begun_function(line).map(|name| (name.to_owned(), HashSet::new()));
            }
            let inside = depth > 0;
            let body =
                if inside { line } else { line.split_once('{').map_or("", |(_, body)| body) };
            if let Some((_, named)) = &mut open {
                for name in names(body) {
                    if !named.contains(name) {
                        named.insert(name.to_owned());
                    }
                }
            }
            let [begins, ends] = ['{', '}'].map(|brace| line.matches(brace).count());
            depth = (depth + begins).saturating_sub(ends);
            if depth > 0 {
                continue;
            }
            if ends > 0 {
                self.functions.extend(open.take());
            } else if line.trim_end().ends_with(';') {
                // A declaration has no body.
                open = None;
            }
        }
    }

    /// Adds the functions that the cubin `bytes` defines.
    pub(super) fn add_cubin(&mut self, bytes: &[u8]) {
        let Ok(cubin) = Cubin::parse(bytes) else { return };
        let mut named: HashMap<SectionIndex, HashSet<String>> = HashMap::new();
        for (_, section) in cubin.section_indices() {
            let Some(place) = section.info_section() else { continue };
            let symbols = section.relocations().iter();
            let symbols = symbols.filter_map(|record| cubin.symbol(record.symbol));
            named.entry(place).or_default().extend(symbols.map(|symbol| text_of(symbol.name)));
        }
        for symbol in cubin.symbols.iter().filter(|symbol| symbol.is_function()) {
            let names = symbol.defined_in().and_then(|section| named.get(&section));
            if let Some(names) = names {
                self.functions.insert(text_of(symbol.name), names.clone());
            }
        }
    }

    /// The names in the code of the functions `from`, and of all functions that these reach.
    pub(super) fn reached<'m>(&'m self, from: impl Iterator<Item = &'m str>) -> HashSet<&'m str> {
        let mut reached = HashSet::new();
        let mut worklist: Vec<&str> = from.collect();
        while let Some(name) = worklist.pop() {
            let Some(named) = self.functions.get(name) else { continue };
            let new = named.iter().map(String::as_str).filter(|name| reached.insert(*name));
            worklist.extend(new);
        }
        reached
    }
}

/// The name of the function that starts in `line`.
pub(super) fn begun_function(line: &str) -> Option<&str> {
    let mut words = line.split_ascii_whitespace();
    let word = words.find(|word| matches!(*word, ".entry" | ".func"))?;
    let (_, rest) = line.split_once(word)?;
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix('(') {
        Some(result) => result.split_once(')')?.1.trim_start(),
        None => rest,
    };
    rest.split(|char: char| !is_of_name(char)).next().filter(|name| !name.is_empty())
}

/// The words of the PTX `text` that can be names of functions, without comments.
pub(super) fn names_in(text: &str) -> impl Iterator<Item = &str> {
    code_and_comments(text).flat_map(|(code, _)| names(code))
}

/// The PTX `text` without its comments, in as many lines. Inline assembly may have any text in
/// comments.
pub(super) fn without_comments(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    for (code, comment) in code_and_comments(text) {
        made.push_str(code);
        made.push_str(if comment.is_empty() { "" } else { " " });
        made.extend(comment.matches('\n'));
    }
    made
}

/// The parts of the PTX `text` outside comments, each with the comment behind it.
fn code_and_comments(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    iter::from_fn(move || {
        let all = (!rest.is_empty()).then_some(rest)?;
        let comment = |place: usize| Some((place, comment_len(all.get(place..)?)?));
        let comment = all.match_indices('/').find_map(|(place, _)| comment(place));
        let (start, len) = comment.unwrap_or((all.len(), 0));
        let (code, behind) = all.split_at_checked(start)?;
        let (comment, next) = behind.split_at_checked(len)?;
        rest = next;
        Some((code, comment))
    })
}

/// The words of `line` that can be names of functions: no instructions, registers and numbers.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|char: char| !is_of_name(char));
    words.filter(|word| {
        let first = word.chars().next();
        !word.contains(['.', '%']) && first.is_some_and(|first| !first.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
        .version 9.0\n.target sm_90\n.address_size 64\n\
        .extern .func  (.param .b32 r) far\n(\n\t.param .b32 p\n)\n;\n\
        .extern .func unused (.param .b32 p);\n\
        .visible .func  (.param .b32 r) near(\n\t.param .b32 near_param_0\n)\n\
        {\n\t{ // callseq 0, 0\n\tcall.uni (retval0), far, (param0);\n\t}\n\tret;\n}\n\
        .visible .func dead () { call unused; ret; }\n\
        .file 1 \"x.cu\"\n\
        .visible .entry kernel(\n\t.param .u64 kernel_param_0\n)\n.maxntid 32\n\
        {\n\tmov.u64 %rd1, near; // dead\n\tcall %rd1, (), p;\n\tret;\n}\n";

    #[test]
    fn what_kernels_reach_through_others_is_found_in_ptx() {
        let mut map = CallMap::default();
        map.add_ptx(TEXT);
        let reached = map.reached(["kernel"].into_iter());
        assert!(reached.contains("near") && reached.contains("far"), "{reached:?}");
        assert!(!reached.contains("unused") && !reached.contains("dead"), "{reached:?}");
    }

    #[test]
    fn comments_of_both_kinds_have_no_names_and_no_braces() {
        let text = "a: // b {\n/* c\n// */ d /**/ {e} /*/ f */\n / g // h\n// i\n/* j";
        assert_eq!(names_in(text).collect::<Vec<_>>(), ["a", "d", "e", "g"]);
        let code = without_comments(text);
        assert_eq!(code, "a:  \n \n d   {e}  \n / g  \n \n ");
        assert_eq!(code.lines().count(), text.lines().count());
        assert_eq!(without_comments("a\n"), "a\n");
    }

    #[test]
    fn one_line_functions_are_read() {
        let mut map = CallMap::default();
        map.add_ptx(".visible .func one () { call two; ret; }\n.entry k () { call one; }\n");
        assert!(map.reached(["k"].into_iter()).contains("two"));
    }
}
