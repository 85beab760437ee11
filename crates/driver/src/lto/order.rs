//! PTX in the order of nvlink's, and without some of its items.
//!
//! In: PTX that libnvJitLink made of LTO-IR and of a module of names, and other PTX of the same
//! source: nvcc's, or that in an object. Out: the former with functions and variables in the order
//! of the latter, as in nvlink's text (docs/rules/lto.md, 9), and what depends on it: declarations
//! of functions that are used in front of their definitions, and numbers. Guaranteed: there is no
//! result if one of the texts has anything but functions and variables, or if the other text lacks
//! a function.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

use super::reach::{begun_function, without_comments};
use super::source_lines::{self, SourceTables};

/// What a text is made of at its outermost level.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PtxItemKind {
    Definition,
    Declaration,
    Variable,
}

#[derive(Debug)]
pub(super) struct PtxItem {
    pub(super) kind: PtxItemKind,
    pub(super) name: String,
    pub(super) text: String,
}

impl PtxItem {
    /// The name in the comment in place of a variable.
    pub(super) fn demoted_name(&self) -> Option<&str> {
        let rest = self.text.strip_prefix("// ").filter(|_| is_of_demoted(&self.text))?;
        rest.split(' ').next()
    }

    /// The comment `line` in place of a variable.
    fn demoted(line: &str) -> Self {
        let (name, text) = (line.trim_end().to_owned(), line.to_owned());
        PtxItem { kind: PtxItemKind::Variable, name, text }
    }
}

/// A text in its items.
struct PtxItems<'t> {
    /// Up to the first of them.
    header: &'t str,
    items: Vec<PtxItem>,
    /// A blank line is in front of the first function: behind other items, and where the compiler
    /// has left out all of them.
    has_blank: bool,
    /// The comments in front of functions, by their names.
    remarks: HashMap<&'t str, &'t str>,
}

/// `text` without the items whose places `select` gives; `None` if it gives none, or if the text is
/// not understood.
pub(super) fn without_items(
    text: &str,
    select: impl FnOnce(&[PtxItem]) -> Option<HashSet<usize>>,
) -> Option<String> {
    let (code, source_tables) = SourceTables::split(text)?;
    let parsed = items(code)?;
    let dropped = select(&parsed.items)?;
    let kept = || (0..).zip(&parsed.items).filter(|(place, _)| !dropped.contains(place));
    let of = |kind: PtxItemKind| kept().map(|(_, item)| item).filter(move |item| item.kind == kind);
    let functions: Vec<&PtxItem> = of(PtxItemKind::Definition).collect();
    let variables: Vec<&PtxItem> = of(PtxItemKind::Variable).collect();
    let declared: Vec<&PtxItem> = of(PtxItemKind::Declaration).collect();
    let places = declared.iter().map(|item| item.name.as_str()).zip(0..).collect();
    let declarations = declarations(&functions, &variables, &declared, &places)?;
    let made = parsed.assembled(code, &declarations, &variables, &functions);
    source_tables.numbered_for_some(with_unnamed_counted(&made))
}

/// `text` with the numbers 1 to n behind the names of variables without names, in their order.
fn with_unnamed_counted(text: &str) -> String {
    let used: BTreeSet<usize> = numbers(text, UNNAMED).map(|(_, number)| number).collect();
    let counted: HashMap<usize, usize> = used.into_iter().zip(1..).collect();
    renumbered(text, UNNAMED, |number| counted.get(&number).copied().unwrap_or(number))
}

/// `text` in the order of `sibling`, the PTX next to the LTO-IR or that of an object; `None` if one
/// of the two is not understood.
pub(super) fn in_order_of(text: &[u8], sibling: &[u8]) -> Option<String> {
    // Copied first: an input may change while it is read (docs/RELIABILITY.md).
    let whole = culd_text::utf8(text)?;
    let sibling = culd_text::utf8(source_lines::without_tables(sibling))?;
    let whole = with_unnamed_of(&whole, &sibling).unwrap_or(whole);
    let (text, source_tables) = SourceTables::split(&whole)?;
    let (ours, mut theirs) = (items(text)?, items(&sibling)?);
    if !sibling.lines().any(is_of_demoted) {
        take_demoted_order(&mut theirs.items, &ours.items);
    }
    let of = |kind: PtxItemKind| ours.items.iter().filter(move |item| item.kind == kind);
    let place_of = |kind: PtxItemKind| -> HashMap<&str, usize> {
        let named = theirs.items.iter().filter(|item| item.kind == kind).enumerate();
        named.map(|(place, item)| (item.name.as_str(), place)).collect()
    };
    let mut functions: Vec<&PtxItem> = of(PtxItemKind::Definition).collect();
    let places = place_of(PtxItemKind::Definition);
    // Copies come last, in their own order.
    let place = |item: &&PtxItem| places.get(item.name.as_str()).copied().unwrap_or(usize::MAX);
    let is_copy = |name| copied_name(name).is_some_and(|name| places.contains_key(name));
    let is_known = |name| places.contains_key(name) || is_copy(name);
    if !functions.iter().all(|item| is_known(item.name.as_str())) {
        return None;
    }
    let mut is_sorted = functions.is_sorted_by_key(place);
    functions.sort_by_key(place);
    let mut variables: Vec<&PtxItem> = of(PtxItemKind::Variable).collect();
    let places = places_of(&variables, &place_of(PtxItemKind::Variable));
    let place = |item: &&PtxItem| places.get(item.name.as_str());
    is_sorted &= variables.is_sorted_by_key(place);
    variables.sort_by_key(place);
    if is_sorted {
        return Some(whole);
    }
    let declared: Vec<&PtxItem> = of(PtxItemKind::Declaration).collect();
    let declarations =
        declarations(&functions, &variables, &declared, &place_of(PtxItemKind::Declaration))?;
    source_tables.numbered(ours.assembled(text, &declarations, &variables, &functions))
}

impl PtxItems<'_> {
    /// The text of these items, with the header and the end of `text`.
    fn assembled(
        &self,
        text: &str,
        declarations: &[String],
        variables: &[&PtxItem],
        functions: &[&PtxItem],
    ) -> String {
        let end = text.trim_end().len();
        let tail = text.get(end..).and_then(|tail| tail.strip_prefix('\n')).unwrap_or_default();
        let variables = variables.iter().map(|item| item.text.as_str());
        let others = declarations.iter().map(String::as_str).chain(variables);
        let others = others.chain(self.has_blank.then_some("\n"));
        let remark = |item: &PtxItem| self.remarks.get(item.name.as_str()).copied().unwrap_or("");
        let mut made = self.header.to_owned();
        // That of the first function is in front of all else.
        made.extend(functions.first().map(|first| remark(first)).into_iter().chain(others));
        let mut counted = Counted::default();
        for (number, function) in functions.iter().enumerate() {
            made.push_str(if number > 0 { remark(function) } else { "" });
            made.push_str(&numbered(&function.text, number, &mut counted));
        }
        made + tail
    }
}

/// The function that the compiler has copied under `name`: it makes a copy for the space of a
/// pointer that calls hand over (`_Z3putPi$1`, 13.0 to 13.2).
fn copied_name(name: &str) -> Option<&str> {
    let (copied, _, rest) = numbered_name(name)?;
    rest.is_empty().then_some(copied)
}

/// The name and the number of `sqrt$6`, and what is behind them: its parameters have names of it,
/// such as `sqrt$6_param_0`.
pub(super) fn numbered_name(word: &str) -> Option<(&str, u32, &str)> {
    let (name, behind) = word.rsplit_once('$').filter(|(name, _)| !name.is_empty())?;
    let rest = behind.trim_start_matches(|char: char| char.is_ascii_digit());
    let number = behind.strip_suffix(rest)?.parse().ok()?;
    (rest.is_empty() || rest.starts_with("_param_")).then_some((name, number, rest))
}

/// The places of `variables` among those of the sibling, `named`. Those that it lacks are behind:
/// libdevice's, which optimization removed there. An object has no comments, and there a demoted
/// variable stays in front of the one that follows.
fn places_of<'i>(
    variables: &[&'i PtxItem],
    named: &HashMap<&str, usize>,
) -> HashMap<&'i str, usize> {
    let mut places = HashMap::new();
    let mut next = usize::MAX;
    for item in variables.iter().rev() {
        next = match named.get(item.name.as_str()) {
            Some(place) => *place,
            None if is_of_demoted(&item.text) => next,
            None => usize::MAX,
        };
        places.insert(item.name.as_str(), next);
    }
    places
}

/// `text` with the numbers that `other` gives variables without names (`__unnamed_1`, the texts of
/// `assert`), as far as one there has the same contents.
fn with_unnamed_of(text: &str, other: &str) -> Option<String> {
    if !text.contains(UNNAMED) {
        return None;
    }
    let unnamed = |text: &str| -> Option<Vec<(usize, String)>> {
        let items = items(text)?.items.into_iter();
        let items = items.filter(|item| item.kind == PtxItemKind::Variable);
        let number = |item: PtxItem| {
            let number = item.name.strip_prefix(UNNAMED)?.parse().ok()?;
            Some((number, item.text.replacen(&item.name, UNNAMED, 1)))
        };
        Some(items.filter_map(number).collect())
    };
    let ours = unnamed(text)?;
    let mut theirs: HashMap<String, Vec<usize>> = HashMap::new();
    for (number, contents) in unnamed(other)?.into_iter().rev() {
        theirs.entry(contents).or_default().push(number);
    }
    let mut same = Vec::new();
    for (number, contents) in &ours {
        same.push((theirs.get_mut(contents)?.pop()?, *number));
    }
    // Both are counted, but the other text may have more of them.
    same.sort_unstable();
    let mut counted: Vec<usize> = ours.iter().map(|(number, _)| *number).collect();
    counted.sort_unstable();
    let numbers: HashMap<usize, usize> =
        same.iter().map(|(_, number)| *number).zip(counted).collect();
    Some(renumbered(text, UNNAMED, |number| numbers.get(&number).copied().unwrap_or(number)))
}

/// The declarations in front of all `functions`: of those that are not defined, and of those that
/// something in front of them uses. `places` are those of declarations in the text with this order.
fn declarations(
    functions: &[&PtxItem],
    variables: &[&PtxItem],
    declared: &[&PtxItem],
    places: &HashMap<&str, usize>,
) -> Option<Vec<String>> {
    let numbers = functions.iter().enumerate().map(|(number, item)| (item.name.as_str(), number));
    let numbers: HashMap<&str, usize> = numbers.collect();
    let mut early = BTreeSet::new();
    let mut uses = |text: &str, user: Option<usize>| {
        let names = text.split(|char: char| !is_of_name(char));
        early.extend(
            names.filter_map(|name| numbers.get(name).copied()).filter(|used| Some(*used) > user),
        );
    };
    variables.iter().for_each(|item| uses(&item.text, None));
    functions.iter().enumerate().for_each(|(number, item)| uses(&item.text, Some(number)));
    let known: HashMap<&str, &PtxItem> =
        declared.iter().map(|item| (item.name.as_str(), *item)).collect();
    let open = declared.iter().filter(|item| !numbers.contains_key(item.name.as_str()));
    let mut sequence: Vec<&str> = open.map(|item| item.name.as_str()).collect();
    if !sequence.iter().all(|name| places.contains_key(name)) {
        return None;
    }
    let early = early.into_iter().filter_map(|number| functions.get(number));
    sequence.extend(early.map(|item| item.name.as_str()));
    // One that the sibling does not declare stands in front of the next one by its definition.
    let place = |name: &str| {
        let number = numbers.get(name).copied().unwrap_or(0);
        let after = functions.iter().skip(number).find_map(|item| places.get(item.name.as_str()));
        (places.get(name).or(after).copied().unwrap_or(usize::MAX), places.contains_key(name))
    };
    sequence.sort_by_key(|name| place(name));
    let of = |name: &str| match known.get(name) {
        Some(item) => Some(item.text.clone()),
        None => head(functions.get(*numbers.get(name)?)?),
    };
    sequence.into_iter().map(of).collect()
}

/// The declaration of a function that is defined; none for one with directives.
fn head(function: &PtxItem) -> Option<String> {
    let (head, _) = function.text.split_once("\n{")?;
    let (begin, parameters) = head.rsplit_once(&format!("{}(", function.name))?;
    let parameters = parameters.trim_end().strip_suffix(')')?;
    (!parameters.contains(')')).then(|| format!("{begin}{}\n({})\n;\n", function.name, parameters))
}

/// What stands in front of the number of a call. The prototype of one has the same number.
const MARKS_OF_CALLS: [&str; 2] = ["callseq ", "prototype_"];

/// The label at the end of a function with lines of source files.
const END_OF_FUNCTION: &str = "$L__func_end";

/// The start of the names of variables without names; a number follows.
const UNNAMED: &str = "__unnamed_";

/// What is counted through a text.
#[derive(Default)]
struct Counted {
    /// The numbers of calls, by those that they had.
    calls: HashMap<usize, usize>,
    /// Functions with a label at the end: others are not counted.
    ends: usize,
}

/// The text of the function with this number. Its calls get the next numbers and keep the order of
/// those they have: the compiler numbers a call before it moves its block.
fn numbered(text: &str, number: usize, Counted { calls, ends }: &mut Counted) -> String {
    let mut text = text.to_owned();
    if numbers(&text, END_OF_FUNCTION).next().is_some() {
        text = renumbered(&text, END_OF_FUNCTION, |_| *ends);
        *ends += 1;
    }
    for mark in ["$L__BB", "__local_depot"] {
        text = renumbered(&text, mark, |_| number);
    }
    let own: BTreeSet<usize> =
        MARKS_OF_CALLS.iter().flat_map(|mark| numbers(&text, mark)).map(|(_, call)| call).collect();
    let first = calls.len();
    calls.extend(own.into_iter().enumerate().map(|(place, call)| (call, first + place)));
    for mark in MARKS_OF_CALLS {
        text = renumbered(&text, mark, |call| calls.get(&call).copied().unwrap_or(call));
    }
    text
}

/// The numbers behind each `mark` that is not inside a name, with the places of their digits.
fn numbers<'t>(text: &'t str, mark: &'t str) -> impl Iterator<Item = (Range<usize>, usize)> + 't {
    text.match_indices(mark).filter_map(move |(place, _)| {
        let (before, marked) = text.split_at(place);
        let rest = marked.strip_prefix(mark).filter(|_| !before.ends_with(is_of_name))?;
        let behind = rest.trim_start_matches(|char: char| char.is_ascii_digit());
        let digits = text.len() - rest.len()..text.len() - behind.len();
        let number = text[digits.clone()].parse().ok()?;
        Some((digits, number))
    })
}

/// `text` with other numbers behind each `mark`.
fn renumbered(text: &str, mark: &str, other: impl Fn(usize) -> usize) -> String {
    let mut made = String::with_capacity(text.len());
    let mut done = 0;
    for (digits, number) in numbers(text, mark) {
        made.push_str(&text[done..digits.start]);
        made.push_str(&other(number).to_string());
        done = digits.end;
    }
    made + &text[done..]
}

/// True in names of functions, instructions and registers.
pub(super) fn is_of_name(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '_' | '$' | '%' | '.')
}

/// The items of `text`; none where something else is in it.
fn items(text: &str) -> Option<PtxItems<'_>> {
    const LAST: &str = ".address_size 64\n";
    let start = text.find(LAST)? + LAST.len();
    let rest = text.get(start..)?;
    // A second blank line belongs to the first function.
    let blank = usize::from(rest.starts_with('\n'));
    let (header, rest) = text.split_at_checked(start + blank)?;
    let mut found =
        PtxItems { header, items: Vec::new(), has_blank: false, remarks: HashMap::new() };
    let (mut item, mut depth) = (String::new(), 0usize);
    // Before which items there is a blank line.
    let mut blanks = Vec::new();
    let code = without_comments(rest);
    for (line, code) in rest.split_inclusive('\n').zip(code.split_inclusive('\n')) {
        let remark = ["\t// .globl\t", "\t// .weak\t"];
        if let Some(name) = remark.iter().find_map(|begin| line.strip_prefix(begin)) {
            found.remarks.insert(name.trim_end(), line);
            continue;
        }
        if item.is_empty() && is_of_demoted(line) {
            found.items.push(PtxItem::demoted(line));
            continue;
        }
        if item.is_empty() && line == "\n" {
            blanks.push(found.items.len());
        }
        item.push_str(line);
        depth = (depth + code.matches('{').count()).checked_sub(code.matches('}').count())?;
        let code = code.trim_end();
        if depth == 0 && (code.is_empty() || code.ends_with([';', '}'])) {
            let text = std::mem::take(&mut item);
            if !text.trim().is_empty() {
                found.items.push(named(text.trim_start_matches('\n'))?);
            }
        }
    }
    // Two functions in one would be moved or dropped together.
    if !found.items.iter().all(is_single) {
        return None;
    }
    let is_function = |item: &PtxItem| item.kind == PtxItemKind::Definition;
    let first = found.items.iter().position(is_function);
    found.has_blank = first.is_some_and(|place| blanks.contains(&place));
    add_demoted(&mut found.items, &blanks);
    item.trim().is_empty().then_some(found)
}

/// True if one line at most begins a function.
fn is_single(item: &PtxItem) -> bool {
    let begins = |line: &&str| line.starts_with('.') && begun_function(line).is_some();
    item.text.lines().filter(begins).nth(1).is_none()
}

/// Adds the comments about demoted variables to the items of a text that has blank lines in their
/// place: one in an object or in a fat binary. The variables are inside kernels, in the same order.
/// `blanks` tells before which items there are blank lines.
fn add_demoted(items: &mut Vec<PtxItem>, blanks: &[usize]) {
    let is_variable = |item: &PtxItem| item.kind == PtxItemKind::Variable;
    if items.iter().any(|item| is_of_demoted(&item.text)) {
        return;
    }
    let bodies = items.iter().filter(|item| item.kind == PtxItemKind::Definition);
    let inside = bodies.flat_map(|item| item.text.lines()).map(str::trim_start);
    // `.shared .align 4 .b8 name[64];`
    let shared = inside.filter_map(|line| variable_name(line.strip_prefix(".shared ")?));
    let demoted: Vec<PtxItem> =
        shared.map(|name| PtxItem::demoted(&format!("// {name} has been demoted\n"))).collect();
    let start = items.iter().take_while(|item| item.kind == PtxItemKind::Declaration).count();
    let (first, end) = match items.iter().position(is_variable) {
        Some(first) => (first, items.iter().rposition(is_variable).map_or(first, |last| last + 1)),
        None => (start, start),
    };
    let within = blanks.iter().copied().filter(|place| (first + 1..end).contains(place));
    // One of those behind the variables is in front of the first function.
    let behind = blanks.iter().copied().filter(|place| *place == end).skip(1);
    let mut places: Vec<usize> =
        if first == end { Vec::new() } else { within.chain(behind).collect() };
    let Some(before) = demoted.len().checked_sub(places.len()) else { return };
    places.splice(0..0, vec![first; before]);
    for (place, item) in places.into_iter().zip(demoted).rev() {
        items.insert(place, item);
    }
}

/// Puts comments about demoted variables that [`add_demoted`] has added to one place of `items`
/// into the order of `known`, a text of the same source: their kernels may stand in another one
/// (13.5, a random program with `-lineinfo` and `-Ofc=min`).
fn take_demoted_order(items: &mut [PtxItem], known: &[PtxItem]) {
    let known = known.iter().filter(|item| is_of_demoted(&item.text));
    let places: HashMap<&str, usize> = known.map(|item| item.name.as_str()).zip(0..).collect();
    for run in items.chunk_by_mut(|one, next| is_of_demoted(&one.text) && is_of_demoted(&next.text))
    {
        if run.iter().all(|item| places.contains_key(item.name.as_str())) {
            run.sort_by_key(|item| places.get(item.name.as_str()).copied());
        }
    }
}

/// True for the comment that the compiler writes in place of a demoted variable. Such a variable is
/// in shared memory, one kernel alone uses it, and it is defined inside that kernel. The comment
/// stands among the other variables, in their order.
fn is_of_demoted(line: &str) -> bool {
    line.starts_with("// ") && line.trim_end().ends_with(" has been demoted")
}

/// The name in what is behind the space of a variable: `.align 4 .b8 name[64];`
pub(super) fn variable_name(declared: &str) -> Option<&str> {
    declared.split(['=', ';', '[']).next()?.split_ascii_whitespace().next_back()
}

/// The item of `text`, a function or variable.
fn named(text: &str) -> Option<PtxItem> {
    let mut rest = text;
    while let Some(word) = rest.split_ascii_whitespace().next() {
        rest = rest.get(rest.find(word)? + word.len()..)?.trim_start();
        match word {
            ".visible" | ".weak" | ".extern" | ".common" => {}
            ".func" | ".entry" => {
                if let Some(result) = rest.strip_prefix('(') {
                    rest = result.split_once(')')?.1.trim_start();
                }
                let name = rest.split(|char: char| !is_of_name(char)).next()?.to_owned();
                let kind = match text.contains('{') {
                    true => PtxItemKind::Definition,
                    false => PtxItemKind::Declaration,
                };
                return (!name.is_empty()).then(|| PtxItem { kind, name, text: text.to_owned() });
            }
            ".global" | ".const" | ".shared" => {
                let name = variable_name(rest)?.to_owned();
                return Some(PtxItem { kind: PtxItemKind::Variable, name, text: text.to_owned() });
            }
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "//\n.version 9.2\n.target sm_90\n.address_size 64\n\n";
    const OUTSIDE: &str =
        ".extern .func  (.param .b32 func_retval0) outside\n(\n\t.param .b32 p\n)\n;\n";

    fn function(linkage: &str, name: &str, number: usize, body: &str) -> String {
        format!(
            "{linkage}.func  (.param .b32 func_retval0) {name}(\n\t.param .b32 {name}_param_0\n)\n\
             {{\n$L__BB{number}_1:\n\tmov.u64 %SPL, __local_depot{number};\n{body}\tret;\n\
             $L__func_end{number}:\n\n}}\n"
        )
    }

    fn call(name: &str, number: usize) -> String {
        format!("\t{{ // callseq {number}, 0\n\tcall {name};\n\t}} // callseq {number}\n")
    }

    #[test]
    fn functions_have_the_order_of_the_sibling_with_declarations_and_numbers() {
        let (one, two) = ("\t// .globl\tone\n", "\t// .weak\ttwo\n");
        let ours = format!(
            "{HEADER}{two}{OUTSIDE}.global .u32 v;\n\n{}{one}{}\n",
            function(".weak ", "two", 0, &call("outside", 0)),
            function(".visible ", "one", 1, &call("two", 1)),
        );
        let sibling = format!(
            "{HEADER}{one}{OUTSIDE}{}{}",
            function(".visible ", "one", 0, ""),
            function(".weak ", "two", 1, "")
        );
        let declaration =
            ".weak .func  (.param .b32 func_retval0) two\n(\n\t.param .b32 two_param_0\n)\n;\n";
        let wanted = format!(
            "{HEADER}{one}{OUTSIDE}{declaration}.global .u32 v;\n\n{}{two}{}\n",
            function(".visible ", "one", 0, &call("two", 0)),
            function(".weak ", "two", 1, &call("outside", 1)),
        );
        let made = in_order_of(ours.as_bytes(), sibling.as_bytes()).unwrap();
        assert_eq!(made, wanted);
        assert_eq!(in_order_of(made.as_bytes(), sibling.as_bytes()), Some(made));
    }

    #[test]
    fn variables_have_the_order_of_the_other_text() {
        let [first, second] = [".shared .u32 a;\n", ".global .u32 b;\n"];
        let text = |variables: &str| {
            let function = function(".visible ", "one", 0, "");
            format!("{HEADER}{variables}\n{function}\n")
        };
        let [ours, theirs] = [text(&format!("{second}{first}")), text(&format!("{first}{second}"))];
        let [ours, theirs] = [ours.as_bytes(), theirs.as_bytes()];
        assert_eq!(in_order_of(ours, theirs).unwrap().as_bytes(), theirs);
    }

    #[test]
    fn copies_of_functions_come_last() {
        let sibling = [function(".visible ", "a", 0, ""), function(".visible ", "b", 0, "")];
        let sibling = format!("{HEADER}{}\n", sibling.concat());
        let names = |names: [&str; 3]| {
            let functions = names.map(|name| function(".visible ", name, 0, "")).concat();
            let text =
                in_order_of(format!("{HEADER}{functions}\n").as_bytes(), sibling.as_bytes())?;
            let name = |line: &str| Some(line.split_once(") ")?.1.trim_end_matches('(').to_owned());
            Some(text.lines().filter_map(name).collect::<Vec<_>>())
        };
        let wanted = Some(["a", "b", "a$1"].map(str::to_owned).to_vec());
        assert_eq!(names(["a$1", "b", "a"]), wanted);
        assert_eq!(names(["c$1", "b", "a"]), None);
        assert_eq!(names(["a$x", "b", "a"]), None);
    }

    #[test]
    fn texts_with_other_functions_or_other_items_stay() {
        let [a, b] = ["a", "b"].map(|name| function(".visible ", name, 0, ""));
        let two = format!("{HEADER}{b}{a}");
        let made = |text: &str, sibling: &str| in_order_of(text.as_bytes(), sibling.as_bytes());
        assert!(made(&two, &format!("{HEADER}{a}{b}")).is_some());
        assert_eq!(made(&two, &format!("{HEADER}{a}")), None);
        assert_eq!(made(&two, &format!("{HEADER}{a}{b}.alias c, a;\n")), None);
        assert_eq!(made(&format!("{two}\t.pragma \"x\";\n"), &format!("{HEADER}{a}{b}")), None);
        assert_eq!(made(&two, "no PTX"), None);
    }

    #[test]
    fn numbers_in_names_stay() {
        let text = "my_prototype_3 prototype_3 x$L__BB3_1 $L__BB3_1 $L__BBx";
        let numbered = numbered(text, 7, &mut Counted::default());
        assert_eq!(numbered, "my_prototype_3 prototype_0 x$L__BB3_1 $L__BB7_1 $L__BBx");
    }

    #[test]
    fn calls_keep_the_order_of_their_numbers() {
        let text = "{ // callseq 9, 0\n\tprototype_9 : .callprototype ()_ ();\n} // callseq 9\n\
                    { // callseq 7, 0\n} // callseq 7\nmy_callseq 9\n";
        let mut counted = Counted { calls: HashMap::from([(1, 0)]), ends: 2 };
        let text = &format!("{text}$L__func_end9:\n.L$L__func_end9 - f\n");
        let made = numbered(text, 3, &mut counted);
        assert_eq!(
            made,
            "{ // callseq 2, 0\n\tprototype_2 : .callprototype ()_ ();\n} // callseq 2\n\
             { // callseq 1, 0\n} // callseq 1\nmy_callseq 9\n$L__func_end2:\n.L$L__func_end9 - f\n"
        );
        assert_eq!((counted.calls.len(), counted.ends), (3, 3));
    }

    #[test]
    fn demoted_variables_stand_where_an_object_has_blank_lines() {
        let kernel = |name: &str, shared: &str| {
            format!(".visible .entry {name}(\n)\n{{\n{shared}\tret;\n\n}}\n")
        };
        let (a, b) = (".global .u32 a;\n", ".global .u32 b;\n");
        let [s, t, u] = ["s", "t", "u"].map(|name| format!("// {name} has been demoted\n"));
        let inside = |name: &str| format!("\t.shared .align 4 .b8 {name}[8];\n");
        let kernels = kernel("one", &inside("s"))
            + &kernel("two", &format!("{}{}", inside("t"), inside("u")));
        let ours = format!("{HEADER}{u}{b}{s}{a}{t}\n{kernels}");
        // Behind the blank line of `.globl`.
        let before_all = format!("{HEADER}\n\n{a}\n{b}\n\n{kernels}");
        let expected = format!("{HEADER}{s}{a}{t}{b}{u}\n{kernels}");
        assert_eq!(in_order_of(ours.as_bytes(), before_all.as_bytes()).unwrap(), expected);
        // Two in one place keep our order, which is not that of their kernels.
        let ours_of_one_place = format!("{HEADER}{b}{t}{s}{a}{u}\n{kernels}");
        let theirs = format!("{HEADER}\n{b}\n\n{a}\n\n{kernels}");
        let same = in_order_of(ours_of_one_place.as_bytes(), theirs.as_bytes()).unwrap();
        assert_eq!(same, ours_of_one_place);
        // These are not theirs, so each stays in front of the variable that follows.
        let fewer = format!("{HEADER}\n{a}{b}\n\n\n\n\n\n{kernels}");
        let expected = format!("{HEADER}{s}{a}{u}{b}{t}\n{kernels}");
        assert_eq!(in_order_of(ours.as_bytes(), fewer.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn variables_without_names_are_numbered_by_their_contents() {
        let function = function(".visible ", "f", 0, "\tmov %rd1, __unnamed_1;\n");
        let variable = |number: usize, value: usize| {
            format!(".global .b8 __unnamed_{number}[2] = {{{value}}};\n")
        };
        let ours = format!("{HEADER}{}{}\n{function}", variable(1, 30), variable(2, 10));
        let [a, b, c] = [variable(1, 10), variable(2, 20), variable(3, 30)];
        let theirs = format!("{HEADER}{a}{b}{c}\n{function}");
        let renamed = function.replace("__unnamed_1", "__unnamed_2");
        let expected = format!("{HEADER}{a}{}\n{renamed}", variable(2, 30));
        assert_eq!(in_order_of(ours.as_bytes(), theirs.as_bytes()), Some(expected));
    }
}
