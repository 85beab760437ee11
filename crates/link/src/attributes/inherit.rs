//! Inheritance of one attribute of a function by the list of an entry that reaches it.

use super::attribute::OutAttribute;
use super::rules::{InheritMode, add, position, rule_of};

/// Merges the attribute `incoming` of a callee into an entry's `list`.
pub(super) fn inherit<'d>(list: &mut Vec<OutAttribute<'d>>, incoming: &OutAttribute<'d>) {
    let code = incoming.code();
    let at = position(list, code);
    if let OutAttribute::Externs(functions) = incoming {
        match at.map(|at| &mut list[at]) {
            Some(OutAttribute::Externs(own)) => {
                for &function in functions {
                    if !own.contains(&function) {
                        own.push(function);
                    }
                }
            }
            // Even empty EXTERNS are added: they reserve the place for functions inherited later.
            _ => list.push(incoming.clone()),
        }
        return;
    }
    let Some(rule) = rule_of(code) else {
        match at {
            None => list.push(incoming.clone()),
            Some(at) => {
                let mut bytes = list[at].bytes().to_vec();
                add_words(&mut bytes, incoming.bytes());
                list[at] = OutAttribute::Bytes { code, bytes };
            }
        }
        return;
    };
    let value = incoming.number();
    let Some(at) = at else {
        let value = if rule.mode == InheritMode::Flag { 0 } else { value };
        list.push(OutAttribute::Number { format: rule.format, code, value });
        return;
    };
    let own = list[at].number();
    match rule.mode {
        InheritMode::Flag => {}
        InheritMode::Max => list[at] = list[at].with_number(own.max(value)),
        InheritMode::Sum => list[at] = list[at].with_number(add(own, value)),
        InheritMode::Union => list[at] = list[at].with_number(own | value),
        InheritMode::Last if value == 0 => {}
        InheritMode::Last => list[at] = list[at].with_number(value),
    }
}

/// Appends the words of `incoming` that `bytes` does not have.
pub(super) fn add_words(bytes: &mut Vec<u8>, incoming: &[u8]) {
    for word in incoming.chunks_exact(4) {
        if !has_word(bytes, word) {
            bytes.extend_from_slice(word);
        }
    }
}

pub(super) fn has_word(bytes: &[u8], word: &[u8]) -> bool {
    bytes.chunks_exact(4).any(|own| own == word)
}
