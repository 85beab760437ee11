//! Two lists of keyed items compared: what is missing, extra, different, out of order.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// One thing of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListedItem {
    /// The list it stands in when one file has many lists of the kind (a section), else empty.
    /// Order is compared inside a list.
    pub(super) list: String,
    /// The key; a key for the second time in a list means its second occurrence.
    pub(super) key: String,
    /// Its properties; a property without a name is the item's value.
    pub(super) fields: Vec<(&'static str, String)>,
}

/// The lines of group `name`, in the order of `a`, then of `b`.
pub(super) fn compare(name: &str, a: &[ListedItem], b: &[ListedItem]) -> Vec<String> {
    let (a_keys, b_keys) = (keys(a), keys(b));
    let b_at: HashMap<&str, usize> = b_keys.iter().map(String::as_str).zip(0..).collect();
    let mut matched = vec![false; b.len()];
    let mut pairs = Vec::new();
    let mut missing = Vec::new();
    let mut different = Vec::new();
    for ((item, key), at) in a.iter().zip(&a_keys).zip(0..) {
        let Some((other, other_at)) = b_at.get(key.as_str()).and_then(|&i| Some((b.get(i)?, i)))
        else {
            missing.push(format!("{name}.missing  {key}  {}", values(item)));
            continue;
        };
        if let Some(seen) = matched.get_mut(other_at) {
            *seen = true;
        }
        pairs.push((at, other_at));
        different.extend(fields(name, key, item, other));
    }
    let unmatched = b.iter().zip(&b_keys).zip(&matched).filter(|(_, matched)| !**matched);
    missing
        .extend(unmatched.map(|((item, key), _)| format!("{name}.extra  {key}  {}", values(item))));
    missing.extend(different);
    missing.extend(order(name, a, &a_keys, &pairs));
    missing
}

/// Full keys: list, key, and the ordinal of a repeated key.
fn keys(items: &[ListedItem]) -> Vec<String> {
    let mut seen: HashMap<String, u32> = HashMap::new();
    let key = |item: &ListedItem| {
        let blank = if item.list.is_empty() || item.key.starts_with('+') { "" } else { " " };
        let key = format!("{}{blank}{}", item.list, item.key);
        match seen.entry(key.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(1);
                key
            }
            Entry::Occupied(mut entry) => {
                *entry.get_mut() += 1;
                format!("{key} (no. {})", entry.get())
            }
        }
    };
    items.iter().map(key).collect()
}

fn values(item: &ListedItem) -> String {
    let part = |(field, value): &(&str, String)| {
        if field.is_empty() { value.clone() } else { format!("{field}={value}") }
    };
    item.fields.iter().map(part).collect::<Vec<_>>().join(" ")
}

fn fields(name: &str, key: &str, a: &ListedItem, b: &ListedItem) -> Vec<String> {
    let line = |((field, a), (_, b)): (&(&str, String), &(&str, String))| {
        let dot = if field.is_empty() { "" } else { "." };
        (a != b).then(|| format!("{name}{dot}{field}  {key}  {a} != {b}"))
    };
    a.fields.iter().zip(&b.fields).filter_map(line).collect()
}

/// One line per item that has to move for the order of `b`: all but a longest run in order.
fn order(name: &str, a: &[ListedItem], a_keys: &[String], pairs: &[(usize, usize)]) -> Vec<String> {
    let mut lists: HashMap<&str, Vec<(usize, usize)>> = HashMap::new();
    let mut names = Vec::new();
    for &pair in pairs {
        let list = a.get(pair.0).map_or("", |item| item.list.as_str());
        lists
            .entry(list)
            .or_insert_with(|| {
                names.push(list);
                Vec::new()
            })
            .push(pair);
    }
    let mut lines = Vec::new();
    for list in names {
        let pairs = lists.get(list).map_or(&[][..], Vec::as_slice);
        let mut in_b = pairs.to_vec();
        in_b.sort_unstable_by_key(|pair| pair.1);
        let short = |pair: &(usize, usize)| a.get(pair.0).map(|item| item.key.clone());
        for position in moved(pairs) {
            let Some(pair) = pairs.get(position) else { continue };
            let other = in_b.partition_point(|other| other.1 < pair.1);
            let before = |list: &[(usize, usize)], at: usize| {
                let pair = at.checked_sub(1).and_then(|at| list.get(at));
                pair.and_then(short).unwrap_or_else(|| "the start".to_owned())
            };
            let (first, second) = (before(pairs, position), before(&in_b, other));
            // The rest of a block that moves as a whole.
            if first == second {
                continue;
            }
            let key = a_keys.get(pair.0).map_or("", String::as_str);
            lines.push(format!("{name}.order  {key}  after {first} != after {second}"));
        }
    }
    lines
}

/// Positions of `pairs` (ascending in the first number) outside a longest increasing run of the
/// second number.
fn moved(pairs: &[(usize, usize)]) -> Vec<usize> {
    // tails[k]: position that ends the lowest-ending run of length k + 1.
    let mut tails: Vec<usize> = Vec::new();
    let mut previous = vec![None; pairs.len()];
    let second = |position: usize| pairs.get(position).map_or(0, |pair| pair.1);
    for (position, pair) in pairs.iter().enumerate() {
        let length = tails.partition_point(|&tail| second(tail) < pair.1);
        if let Some(slot) = previous.get_mut(position) {
            *slot = length.checked_sub(1).and_then(|k| tails.get(k)).copied();
        }
        match tails.get_mut(length) {
            Some(tail) => *tail = position,
            None => tails.push(position),
        }
    }
    let mut keep = vec![false; pairs.len()];
    let mut at = tails.last().copied();
    while let Some(position) = at {
        if let Some(slot) = keep.get_mut(position) {
            *slot = true;
        }
        at = previous.get(position).copied().flatten();
    }
    (0..pairs.len()).filter(|&position| keep.get(position) == Some(&false)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(list: &str, key: &str, value: &str) -> ListedItem {
        ListedItem { list: list.into(), key: key.into(), fields: vec![("v", value.into())] }
    }

    #[test]
    fn every_kind_of_difference_has_its_line() {
        let a = [item("", "x", "1"), item("", "y", "2"), item("", "z", "3"), item("", "z", "4")];
        let b = [item("", "y", "5"), item("", "z", "3"), item("", "x", "1"), item("", "w", "0")];
        let lines = compare("g", &a, &b);
        assert_eq!(
            lines,
            [
                "g.missing  z (no. 2)  v=4",
                "g.extra  w  v=0",
                "g.v  y  2 != 5",
                "g.order  x  after the start != after z",
            ]
        );
        assert!(compare("g", &a, &a).is_empty());
    }

    #[test]
    fn order_is_compared_inside_a_list() {
        let a = [item("l", "x", "1"), item("m", "y", "2")];
        let b = [item("m", "y", "2"), item("l", "x", "1")];
        assert!(compare("g", &a, &b).is_empty());
    }

    #[test]
    fn few_items_move() {
        let pairs: Vec<_> = [1, 2, 3, 0, 4, 5].into_iter().enumerate().collect();
        assert_eq!(moved(&pairs), [3]);
        assert_eq!(moved(&[]), [0usize; 0]);
    }
}
