//! Why a function is in the output, what nothing needs, and how full memories are.
//!
//! In: a [`Report`] of a link. Out: lines for standard output. Guaranteed: names as text; linear in
//! functions and calls for each line that is asked for.

use std::collections::VecDeque;

use crate::data::{Report, ReportImage, ReportSpace};
use crate::text::{clipped, grouped, shown};

/// Bytes of a constant bank.
const BANK: u64 = 64 << 10;

/// Characters of a region in the table of memories.
const MOST_REGION: usize = 80;

/// A step on the way from a kernel to a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LivePathStep {
    function: usize,
    /// The call to the function goes through a pointer.
    indirect: bool,
}

impl Report {
    /// Why functions are in the output: for each whose mangled or source name, with or without
    /// parameters, is `name` (`*` stands for any characters) the shortest way from a kernel.
    pub fn why_live(&self, name: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for image in &self.images {
            let ways = LivePaths::of(image);
            for (place, function) in image.functions.iter().enumerate() {
                if names(name, &function.name, &function.demangled) {
                    lines.extend(self.why_function(image, &ways, place));
                }
            }
            for variable in &image.variables {
                if names(name, &variable.name, &variable.demangled) {
                    let file = self.input_name(variable.input);
                    lines.push(format!(
                        "live symbol: {file}:({})",
                        shown(&variable.demangled, &variable.name)
                    ));
                    lines.push("  >>> variables are never removed".to_owned());
                }
            }
        }
        if lines.is_empty() {
            lines.push(format!("no live symbol: {name}"));
            let gone = self.removed.iter();
            let gone = gone.filter(|one| names(name, &one.name, &one.demangled));
            lines.extend(gone.map(|removed| {
                let file = self.input_name(Some(removed.input));
                format!("  >>> removed from {file}: {}", removed.why.words())
            }));
        }
        lines
    }

    fn why_function(&self, image: &ReportImage, ways: &LivePaths, place: usize) -> Vec<String> {
        let function = |place: usize| &image.functions[place];
        let shown_function = |place: usize| {
            format!("{}:({})", self.input_name(function(place).input), function(place).shown())
        };
        let mut lines = vec![format!("live symbol: {}", shown_function(place))];
        let way = ways.to(place);
        for pair in way.windows(2).rev() {
            let how = if pair[1].indirect { "called through a pointer by" } else { "called by" };
            lines.push(format!("  >>> {how} {}", shown_function(pair[0].function)));
        }
        let first = way.first().map_or(place, |step| step.function);
        let root = function(first);
        // Whole programs have functions in the sections of kernels, which no table says who calls.
        let around = image
            .kernels()
            .find(|(_, kernel, _)| root.section.is_some() && kernel.section == root.section);
        let root = match (around, root) {
            _ if root.kernel.is_some() => "a kernel, which the host starts",
            (Some((_, kernel, _)), _) => {
                let kernel = kernel.shown();
                lines.push(format!("  >>> a part of the code of {kernel}"));
                "a kernel, which the host starts"
            }
            _ if root.address_taken => "its address is taken",
            _ if root.section.is_none() => "code refers to it, and no input defines it",
            _ => "an option keeps it",
        };
        lines.push(format!("  >>> {root}"));
        lines
    }

    /// A line for each definition that nothing needs, as lld words it.
    pub fn removed_lines(&self) -> Vec<String> {
        let line = |removed: &crate::data::ReportRemoval| {
            format!(
                "removing unused section {}:(.text.{})",
                self.input_name(Some(removed.input)),
                removed.name
            )
        };
        self.removed.iter().map(line).collect()
    }

    /// The table of `--print-memory-usage`: constant variables, and for each kernel what has a
    /// limit.
    pub fn memory_lines(&self, shared_limit: u64) -> Vec<String> {
        let mut rows: Vec<(String, u64, u64)> = Vec::new();
        let mut row = |region: String, used: u64, size: u64| {
            rows.push((clipped(&region, MOST_REGION).into_owned(), used, size));
        };
        for image in &self.images {
            let constants = |section: &&crate::data::ReportSection| {
                image.section_name(section) == ".nv.constant3"
            };
            if let Some(section) = image.sections.iter().find(constants) {
                row("constant variables".to_owned(), section.bytes, BANK);
            }
            for (_, function, kernel) in image.kernels() {
                let own = kernel.shared.saturating_sub(kernel.system_shared);
                row(format!("shared of {}", function.shown()), own, shared_limit);
                for &(bank, bytes) in &kernel.constants {
                    row(format!("constant[{bank}] of {}", function.shown()), bytes, BANK);
                }
            }
        }
        let width = rows.iter().map(|(region, ..)| region.chars().count()).max().unwrap_or(0);
        let width = width.max("Memory region".len() - 1);
        let head = format!(
            "{:>width$}   Used Size  Region Size  %age Used",
            "Memory region",
            width = width + 1
        );
        let line = |(region, used, size): &(String, u64, u64)| {
            let percent = 100.0 * *used as f64 / *size as f64;
            let (used, size) = (grouped(*used), grouped(*size));
            format!("{region:>width$}: {used:>9} B {size:>10} B {percent:>9.2}%")
        };
        std::iter::once(head).chain(rows.iter().map(line)).collect()
    }

    /// Bytes of all variables in a memory space.
    pub fn bytes_in(&self, space: ReportSpace) -> u64 {
        let variables = self.images.iter().flat_map(|image| &image.variables);
        variables.filter(|variable| variable.space == space).map(|variable| variable.bytes).sum()
    }

    /// The name of an input; words for what no input brings.
    pub(crate) fn input_name(&self, input: Option<usize>) -> &str {
        input.and_then(|input| self.inputs.get(input)).map_or("<internal>", |input| &input.name)
    }
}

/// True if `pattern` is a mangled name, or the name in the source: the whole declaration, or its
/// name alone, with or without template arguments. `*` stands for any characters.
pub fn names(pattern: &str, mangled: &str, demangled: &str) -> bool {
    let in_source = || {
        let name = declared(demangled);
        [demangled, name, template(name)].into_iter().any(|name| matches(pattern, name))
    };
    matches(pattern, mangled) || !demangled.is_empty() && in_source()
}

/// The name without its template arguments: `ns::C<int>::f<float>` is one of `ns::C<int>::f`.
fn template(name: &str) -> &str {
    // Names of operators may end with angle brackets, too.
    if !name.ends_with('>') || name.contains("operator") {
        return name;
    }
    let mut depth = 0usize;
    let begin = name.char_indices().rev().find(|&(_, letter)| {
        depth += usize::from(letter == '>');
        depth = depth.saturating_sub(usize::from(letter == '<'));
        depth == 0
    });
    begin.map_or(name, |(at, _)| &name[..at])
}

/// The name in a declaration, without parameters and the type of the result:
/// `void ns::f<int>(float)` declares `ns::f<int>`.
fn declared(declaration: &str) -> &str {
    let Some(end) = declaration.rfind(')') else { return declaration };
    let mut depth = 0usize;
    let mut begin = None;
    for (at, letter) in declaration[..=end].char_indices().rev() {
        depth += usize::from(letter == ')');
        if letter == '(' {
            depth -= 1;
            if depth == 0 {
                begin = Some(at);
                break;
            }
        }
    }
    let name = &declaration[..begin.unwrap_or(declaration.len())];
    let mut depth = 0usize;
    let space = name.char_indices().rev().find(|&(_, letter)| {
        depth += usize::from(matches!(letter, '>' | ')'));
        let found = depth == 0 && letter == ' ';
        depth = depth.saturating_sub(usize::from(matches!(letter, '<' | '(')));
        found
    });
    space.map_or(name, |(at, _)| &name[at + 1..])
}

/// The shortest ways from kernels to all functions; to those that no kernel reaches, from functions
/// whose address is taken or that no other calls.
struct LivePaths {
    /// By function: the step before it, and whether the call goes through a pointer.
    before: Vec<Option<(usize, bool)>>,
}

impl LivePaths {
    fn of(image: &ReportImage) -> Self {
        let mut before = vec![None; image.functions.len()];
        let mut seen: Vec<bool> = vec![false; image.functions.len()];
        let mut followed = vec![false; image.prototypes.len()];
        let mut queue: VecDeque<usize> = image.kernels().map(|(place, ..)| place).collect();
        queue.iter().for_each(|&kernel| seen[kernel] = true);
        let mut is_called = vec![false; image.functions.len()];
        let calls = image.functions.iter().enumerate().flat_map(|(place, function)| {
            function.calls.iter().filter(move |&&callee| callee != place)
        });
        calls.for_each(|&callee| {
            is_called.get_mut(callee).into_iter().for_each(|called| *called = true);
        });
        // Such functions in the order in which they become roots.
        let taken = |&place: &usize| image.functions[place].address_taken;
        let uncalled = |&place: &usize| !is_called[place];
        let all = 0..image.functions.len();
        let mut roots = all.clone().filter(taken).chain(all.filter(uncalled));
        loop {
            let next = || roots.find(|&place| !std::mem::replace(&mut seen[place], true));
            let Some(place) = queue.pop_front().or_else(next) else { break };
            let function = &image.functions[place];
            let direct = function.calls.iter().map(|&callee| (callee, false));
            // Each prototype leads to its functions once.
            let new = |&prototype: &usize| {
                followed.get_mut(prototype).is_some_and(|seen| !std::mem::replace(seen, true))
            };
            let prototypes: Vec<usize> = function.indirect.iter().copied().filter(new).collect();
            let indirect = prototypes.iter().flat_map(|&place| &image.prototypes[place].functions);
            let calls: Vec<(usize, bool)> =
                direct.chain(indirect.map(|&callee| (callee, true))).collect();
            for (callee, indirect) in calls {
                if seen.get_mut(callee).is_some_and(|seen| !std::mem::replace(seen, true)) {
                    before[callee] = Some((place, indirect));
                    queue.push_back(callee);
                }
            }
        }
        LivePaths { before }
    }

    /// The way to a function, from its kernel on.
    fn to(&self, place: usize) -> Vec<LivePathStep> {
        let mut way = Vec::new();
        let mut at = place;
        while let Some((before, indirect)) = self.before[at] {
            way.push(LivePathStep { function: at, indirect });
            at = before;
        }
        way.push(LivePathStep { function: at, indirect: false });
        way.reverse();
        way
    }
}

/// True if `pattern` is all of `name`; `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(rest) = pieces.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    let mut rest = rest;
    for piece in pieces {
        let Some((_, behind)) = rest.split_once(piece) else { return false };
        rest = behind;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ReportFunction, ReportPrototype};

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, name) in [("f", "f"), ("*", "f"), ("*", ""), ("f*", "fgh"), ("*a*b", "xaxb")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("f", "fg"), ("", "f"), ("*a", "ab"), ("a*", "ba"), ("a*a", "a")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn functions_are_called_by_any_of_their_names() {
        for (declaration, name) in [
            ("f(int*)", "f"),
            ("void ns::f<int, (g)(1)>(float, void (*)(int))", "ns::f<int, (g)(1)>"),
            ("ns::(anonymous namespace)::f(int) const", "ns::(anonymous namespace)::f"),
            ("S::operator()(int)", "S::operator()"),
            ("ns::v", "ns::v"),
            ("a)", "a)"),
            ("", ""),
        ] {
            assert_eq!(declared(declaration), name);
        }
        for (name, of) in [
            ("ns::f<int, (g)(1)>", "ns::f"),
            ("C<int>::f<D<int> >", "C<int>::f"),
            ("C<int>::f", "C<int>::f"),
            ("S::operator>", "S::operator>"),
            ("operator()<int>", "operator()<int>"),
            (">", ">"),
            ("", ""),
        ] {
            assert_eq!(template(name), of);
        }
        for name in ["ns::f", "ns::f<int>", "void ns::f<int>(int)"] {
            assert!(names(name, "_ZN2ns1fIiEEvT_", "void ns::f<int>(int)"), "{name}");
        }
        for name in ["_Z1fPi", "f(int*)", "f"] {
            assert!(names(name, "_Z1fPi", "f(int*)"), "{name}");
        }
        for name in ["g", "f(int)", "int", ""] {
            assert!(!names(name, "_Z1fPi", "f(int*)"), "{name}");
            assert!(!names(name, "f", ""), "{name}");
        }
    }

    #[test]
    fn a_part_of_a_kernels_section_is_there_for_the_kernel() {
        let function = |name: &str, section: usize| ReportFunction {
            name: name.to_owned(),
            section: Some(section),
            ..ReportFunction::default()
        };
        let mut kernel = function("k", 3);
        kernel.kernel = Some(Box::default());
        let functions = vec![function("$k$f", 3), kernel, function("g", 4)];
        let image = ReportImage { functions, ..ReportImage::default() };
        let report = Report { images: vec![image], ..Report::default() };
        let lines = report.why_live("$k$f");
        assert_eq!(
            lines[1..],
            ["  >>> a part of the code of k", "  >>> a kernel, which the host starts"]
        );
        assert_eq!(report.why_live("g")[1], "  >>> an option keeps it");
    }

    #[test]
    fn the_shortest_path_goes_through_pointers_too() {
        let function = |name: &str, calls: &[usize], indirect: &[usize]| ReportFunction {
            name: name.to_owned(),
            calls: calls.to_vec(),
            indirect: indirect.to_vec(),
            section: Some(0),
            ..ReportFunction::default()
        };
        let mut kernel = function("k", &[1], &[0]);
        kernel.kernel = Some(Box::default());
        let image = ReportImage {
            functions: vec![
                kernel,
                function("a", &[2], &[]),
                function("b", &[3], &[]),
                function("c", &[], &[]),
            ],
            prototypes: vec![ReportPrototype { functions: vec![2], ..ReportPrototype::default() }],
            ..ReportImage::default()
        };
        let report = Report { images: vec![image], ..Report::default() };
        assert_eq!(
            report.why_live("c"),
            [
                "live symbol: <internal>:(c)",
                "  >>> called by <internal>:(b)",
                "  >>> called through a pointer by <internal>:(k)",
                "  >>> a kernel, which the host starts",
            ]
        );
        assert_eq!(report.why_live("d"), ["no live symbol: d"]);
    }
}
