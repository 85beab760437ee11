//! Variables that host code does not use, in the text of a whole program.
//!
//! In: PTX, and the patterns of host code's lists. Out: PTX without the variables that nothing
//! uses. Guaranteed: what stays is the same text; a variable that the text names anywhere else
//! stays.
//!
//! The lists hold patterns for whole names. libnvJitLink searches each pattern anywhere in a name.
//! The name of a variable with internal linkage has the name of the first variable of its file in
//! it: `__nv_static_20__56731d3b_4_b_cu_pa0_pq0` is `pq0` in a file that begins with `pa0`. If host
//! code uses `pa0`, the library keeps `pq0`, too, and nvlink does not (*first.o* of `compare lto`).

use std::collections::{HashMap, HashSet};

use culd_link::NamePatterns;

use super::order::variable_name;
use super::reach;
use crate::input::HostUses;

/// `ptx` without the variables that neither `host` nor anything in it uses.
pub(super) fn without_unused(ptx: Vec<u8>, host: &HostUses<'_>) -> Vec<u8> {
    match String::from_utf8(ptx) {
        Ok(text) => in_text(&text, host).unwrap_or_else(|| text.into_bytes()),
        Err(error) => error.into_bytes(),
    }
}

/// The same; `None` if all stay.
fn in_text(text: &str, host: &HostUses<'_>) -> Option<Vec<u8>> {
    let lists =
        [&host.variables, &host.internal_variables, &host.constants, &host.internal_constants];
    let lists: Vec<&[u8]> = lists.into_iter().flatten().copied().collect();
    let lists = lists.join(&0);
    let used = NamePatterns::new(&lists);
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
    let mut depth = 0usize;
    text.split_inclusive('\n').filter(move |line| {
        let is_outside = depth == 0;
        depth = (depth + line.matches('{').count()).saturating_sub(line.matches('}').count());
        is_outside
    })
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
