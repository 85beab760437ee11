//! What host code does not use, in the text of a whole program.
//!
//! In: PTX, and the patterns of host code's lists. Out: PTX without kernels that host code does not
//! launch, and without variables that nothing uses. Guaranteed: what stays is the same text; what
//! host code uses stays, and what that names. A text that is not understood keeps its kernels.
//!
//! The lists hold patterns for whole names. libnvJitLink searches each pattern anywhere in a name,
//! so of two kernels `run` and `rerun`, of which host code launches the first, it keeps both. And
//! the name of a variable with internal linkage has the name of the first variable of its file in
//! it: `__nv_static_20__56731d3b_4_b_cu_pa0_pq0` is `pq0` in a file that begins with `pa0`. If host
//! code uses `pa0`, the library keeps `pq0`, too, and nvlink does not (*first.o* of `compare lto`).

use std::collections::{HashMap, HashSet};

use culd_link::NamePatterns;

use super::order::{PtxItem, PtxItemKind, variable_name, without_items};
use super::reach;
use crate::input::HostUses;

/// `ptx` without what neither `host` nor anything in it uses.
pub(super) fn without_unused(ptx: Vec<u8>, host: &HostUses<'_>) -> Vec<u8> {
    match String::from_utf8(ptx) {
        Ok(text) => {
            let launched = in_one(&[&host.external, &host.internal]);
            let variables = [
                &host.variables,
                &host.internal_variables,
                &host.constants,
                &host.internal_constants,
            ];
            let variables = in_one(&variables);
            let used = NamePatterns::new(&variables);
            let select = |items: &[PtxItem]| only_unused(items, &launched, &used);
            let text = without_items(&text, select).unwrap_or(text);
            without_variables(&text, &used).unwrap_or_else(|| text.into_bytes())
        }
        Err(error) => error.into_bytes(),
    }
}

/// The places of the `items` that host code does not use: no kernel that it launches, which the
/// patterns `launched` tell, no variable of `used`, and nothing that these name. `None` if kernels
/// are not among them.
fn only_unused(
    items: &[PtxItem],
    launched: &[u8],
    used: &NamePatterns<'_>,
) -> Option<HashSet<usize>> {
    // Without a word about kernels all of them stay.
    if launched.iter().all(|&byte| byte == 0) {
        return None;
    }
    let launched = NamePatterns::new(launched);
    let is_used = |item: &PtxItem| match item.kind {
        PtxItemKind::Definition => is_kernel(item) && launched.describe(item.name.as_bytes()),
        PtxItemKind::Variable => used.describe(item.name.as_bytes()),
        PtxItemKind::Declaration => false,
    };
    let named = NamedItems::new(items);
    let kept = named.reached(named.places(|_, item| is_used(item)));
    // A demoted variable is defined inside its kernel.
    let inside = kept.iter().filter_map(|place| items.get(*place));
    let inside: HashSet<&str> = inside.flat_map(|item| reach::names_in(&item.text)).collect();
    let is_demoted = |item: &PtxItem| item.demoted_name().is_some_and(|name| inside.contains(name));
    let dropped = named.places(|place, item| !kept.contains(&place) && !is_demoted(item));
    let has_kernel = dropped.iter().filter_map(|place| items.get(*place)).any(is_kernel);
    has_kernel.then(|| dropped.into_iter().collect())
}

/// The items of a text, which name each other.
struct NamedItems<'i> {
    items: &'i [PtxItem],
    /// The places of the items of each name: a function may be declared and defined.
    by_name: HashMap<&'i str, Vec<usize>>,
}

impl<'i> NamedItems<'i> {
    fn new(items: &'i [PtxItem]) -> Self {
        let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
        for (place, item) in items.iter().enumerate() {
            by_name.entry(&item.name).or_default().push(place);
        }
        NamedItems { items, by_name }
    }

    /// The places of the items that are `wanted`.
    fn places(&self, wanted: impl Fn(usize, &PtxItem) -> bool) -> Vec<usize> {
        let items = self.items.iter().enumerate();
        items.filter(|(place, item)| wanted(*place, item)).map(|(place, _)| place).collect()
    }

    /// The places `from`, and those of all items that these name, and so on.
    fn reached(&self, from: Vec<usize>) -> HashSet<usize> {
        let mut reached: HashSet<usize> = from.iter().copied().collect();
        let mut worklist = from;
        while let Some(place) = worklist.pop() {
            let text = self.items.get(place).map_or("", |item| item.text.as_str());
            let named = reach::names_in(text).filter_map(|name| self.by_name.get(name)).flatten();
            worklist.extend(named.copied().filter(|named| reached.insert(*named)));
        }
        reached
    }
}

/// True for a kernel.
fn is_kernel(item: &PtxItem) -> bool {
    let head = item.text.split('(').next().unwrap_or_default();
    item.kind == PtxItemKind::Definition && head.contains(".entry ")
}

/// The patterns in `lists` of host code, each ended by NUL.
fn in_one(lists: &[&Vec<&[u8]>]) -> Vec<u8> {
    let lists: Vec<&[u8]> = lists.iter().flat_map(|list| list.iter().copied()).collect();
    lists.join(&0)
}

/// `text` without the variables that are not `used` by host code and that nothing in it names;
/// `None` if all stay.
fn without_variables(text: &str, used: &NamePatterns<'_>) -> Option<Vec<u8>> {
    let is_used = |name: &str| used.describe(name.as_bytes());
    let mut unused: HashMap<&str, &str> = HashMap::new();
    for line in outermost_lines(text) {
        if let Some(name) = variable(line).filter(|name| !is_used(name)) {
            unused.insert(name, line);
        }
    }
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for name in reach::names_in(text).filter(|name| unused.contains_key(name)) {
        *counts.entry(name).or_default() += 1;
    }
    // A definition names its variable once.
    let is_alone = |counts: &HashMap<&str, usize>, name: &str| counts.get(name) == Some(&1);
    let mut dropped: HashSet<&str> = HashSet::new();
    let mut worklist: Vec<&str> =
        unused.keys().copied().filter(|name| is_alone(&counts, name)).collect();
    while let Some(name) = worklist.pop() {
        let Some(line) = unused.get(name).filter(|line| dropped.insert(line)) else { continue };
        for named in reach::names_in(line).filter(|named| *named != name) {
            if let Some(count) = counts.get_mut(named) {
                *count -= 1;
            }
            if is_alone(&counts, named) {
                worklist.push(named);
            }
        }
    }
    if dropped.is_empty() {
        return None;
    }
    let kept = text.split_inclusive('\n').filter(|line| !dropped.contains(line));
    Some(kept.collect::<String>().into_bytes())
}

/// The lines of `text` outside functions.
fn outermost_lines(text: &str) -> impl Iterator<Item = &str> {
    let code = reach::without_comments(text);
    let mut depth = 0usize;
    let is_outside = |line: &str| {
        let is_outside = depth == 0;
        depth = (depth + line.matches('{').count()).saturating_sub(line.matches('}').count());
        is_outside
    };
    let outside: Vec<bool> = code.split_inclusive('\n').map(is_outside).collect();
    text.split_inclusive('\n').zip(outside).filter(|(_, outside)| *outside).map(|(line, _)| line)
}

/// The variable that `line` defines in global or constant memory.
fn variable(line: &str) -> Option<&str> {
    let linkage = [".visible ", ".weak ", ".common "];
    let rest = linkage.iter().find_map(|linkage| line.strip_prefix(linkage)).unwrap_or(line);
    let rest = rest.strip_prefix(".global ").or_else(|| rest.strip_prefix(".const "))?;
    rest.trim_end().ends_with(';').then(|| variable_name(rest))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_host_code_does_not_launch_are_dropped_with_what_only_they_use() {
        const DECLARED: &str = ".func one\n(\n\t.param .b32 one_param_0\n)\n;\n";
        let function = |name: &str, number: usize, body: &str| {
            format!(
                ".func {name}(\n\t.param .b32 {name}_param_0\n)\n{{\n$L__BB{number}_1:\n\
                 {body}\tret;\n\n}}\n"
            )
        };
        let kernel = |name: &str, number: usize, body: &str| {
            format!(
                "\t// .globl\t{name}\n.visible .entry {name}()\n{{\n$L__BB{number}_1:\n{body}\t\
                 ret;\n\n}}\n"
            )
        };
        let text = |items: &[&str]| [&[".address_size 64\n\n"], items].concat().concat();
        let printed = "// s has been demoted\n";
        let kept = ".visible .global .align 4 .u32 kept;\n";
        let gone = ".global .align 1 .b8 __unnamed_1[2] = {97};\n";
        let (second, first) = [2, 1]
            .map(|number| format!(".global .align 1 .b8 __unnamed_{number}[2] = {{98}};\n"))
            .into();
        let body = "\t.shared .align 4 .b8 s[4];\n\tcall one;\n\tcall two;\n\tmov __unnamed_1;\n\
            \tst [kept];\n";
        let before = text(&[
            ".extern .func only\n()\n;\n",
            DECLARED,
            printed,
            kept,
            gone,
            &second,
            "\n",
            &kernel("rerun", 0, body),
            &function("one", 1, "\tcall only;\n"),
            &function("two", 2, ""),
            &kernel("run", 3, "\tcall two;\n\tmov __unnamed_2;\n"),
        ]);
        let after = text(&[
            kept,
            &first,
            "\n",
            &function("two", 0, ""),
            &kernel("run", 1, "\tcall two;\n\tmov __unnamed_1;\n"),
        ]);
        let host = |kernels: &'static [u8]| HostUses {
            external: vec![kernels],
            variables: vec![b"kept\0"],
            ..HostUses::default()
        };
        let without = |host: &HostUses<'_>| {
            String::from_utf8(without_unused(before.clone().into_bytes(), host)).unwrap()
        };
        assert_eq!(without(&host(b"run\0")), after);
        assert_eq!(without(&host(b"run\0rerun\0")), before);
        assert_eq!(without(&host(b"*run\0")), before);
        // Without a word about kernels all stay.
        assert_eq!(without(&host(b"\0")), before);
        // Variables stay without any function.
        assert_eq!(without(&host(b"er\0")), text(&[kept, "\n"]));
    }

    #[test]
    fn what_host_code_launches_stays_whoever_names_it() {
        let kernel = |name: &str, body: &str| {
            format!("\t// .globl\t{name}\n.visible .entry {name}()\n{{\n{body}\tret;\n\n}}\n")
        };
        let table = ".global .align 8 .u64 table[2] = {run, arun};\n";
        let text = |items: &[&str]| [&[".address_size 64\n\n"], items].concat().concat();
        let run = kernel("run", "\t// b } /* { */\n");
        let arun = kernel("arun", "");
        // Only the kernel that is dropped names these, and a function that nothing names goes, too.
        let rerun = kernel("rerun", "\tmov table;\n\tmov run;\n\t// a {\n");
        let orphan = ".func orphan()\n{\n\tret;\n\n}\n";
        let before = text(&[table, "\n", orphan, &rerun, &run, &arun]);
        let host = HostUses { external: vec![b"run\0arun\0"], ..HostUses::default() };
        let after = String::from_utf8(without_unused(before.into_bytes(), &host)).unwrap();
        let first = run.split_once('\n').unwrap();
        assert_eq!(after, text(&[first.0, "\n", "\n", first.1, &arun]));
    }

    #[test]
    fn variables_that_nothing_names_are_dropped() {
        let text = |variables: &[&str]| {
            let variables = variables.concat();
            format!(".address_size 64\n\n{variables}\n.visible .entry k(\n)\n{{\nld [read];\n}}\n")
        };
        let used = ".visible .global .align 4 .b8 pa0[16];\n";
        let read = ".global .align 4 .u32 x_pa0_read;\n".replace("x_pa0_", "");
        let star = ".global .attribute(.managed) .align 4 .u32 a_12_sv;\n";
        let first = ".global .align 8 .u64 x_pa0_first = generic(x_pa0_second)+8;\n";
        let second = ".const .align 8 .b8 x_pa0_second[8] = {1, 2};\n";
        let outside = ".extern .global .align 4 .u32 outside;\n";
        let itself = ".global .align 8 .u64 itself = generic(itself);\n";
        let list: &[u8] = b"pa0\0a_*sv\0";
        let host = HostUses { variables: vec![list], ..HostUses::default() };
        let without =
            |text: &str| String::from_utf8(without_unused(text.as_bytes().to_vec(), &host));
        let all = [used, &read, star, second, first, outside, itself];
        let kept = text(&[used, &read, star, outside, itself]);
        assert_eq!(without(&text(&all)).as_deref(), Ok(kept.as_str()));
        assert_eq!(without(&kept).as_deref(), Ok(kept.as_str()));
        // A function may hold the same line.
        let inside = format!("{}.func f()\n{{\n{first}}}\n", text(&[used]));
        assert_eq!(without(&inside).as_deref(), Ok(inside.as_str()));
    }
}
