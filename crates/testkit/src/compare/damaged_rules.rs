//! Why two linkers treat damaged files differently.
//!
//! In: what both did. Out: the key of the entry of docs/DIFFERENCES.md that says so. Guaranteed: a rule looks for words or
//! facts that only its entry explains; what fits none is told as unexplained.

use super::damaged::{Class, Link};
use super::deliberate;
use crate::mutate::program::Mutant;

/// What is known of a link.
pub(super) struct Facts<'f> {
    pub(super) mutant: &'f Mutant,
    pub(super) theirs: &'f Link,
    pub(super) ours: &'f Link,
    /// What differs.
    pub(super) what: &'f str,
}

/// An entry: for which class, and what the linkers say; an empty part is in every text.
struct Rule {
    key: &'static str,
    class: Class,
    theirs: &'static str,
    ours: &'static str,
}

const fn rule(key: &'static str, class: Class, theirs: &'static str, ours: &'static str) -> Rule {
    Rule { key, class, theirs, ours }
}

const RULES: &[Rule] = &[
    rule("damaged-input", Class::CuldRefuses, "", "fatal   : Malformed input file "),
    rule("damaged-input", Class::CuldRefuses, "", "' cannot be linked: "),
    rule("damaged-input", Class::CuldRefuses, "", "fatal   : Could not find fatbin in "),
    rule("damaged-input", Class::CuldRefuses, "", "fatal   : unexpected archive format"),
    rule("damaged-image", Class::CuldRefuses, "Uncompress failed", "Uncompress failed"),
    rule("unified-places", Class::CuldRefuses, "", "fatal   : Internal error: uuid not found"),
    rule("ignored-inputs", Class::EqualOutputs, "", " was ignored: "),
    rule("ignored-inputs", Class::EqualOutputs, "", "is empty and was ignored"),
    rule("ignored-inputs", Class::EqualOutputs, "", "Library 'none' was not found"),
    rule("fatbin-segment", Class::CuldAccepts, "fatal   : Could not find fatbin in ", ""),
    // What is wrong with the archive is nothing that a member's bytes depend on.
    rule("archive-names", Class::CuldAccepts, "fatal   : unexpected archive format", ""),
    rule("archive-names", Class::CuldAccepts, "fatal   : Memory allocation failure", ""),
];

/// The entry that explains a link.
pub(super) fn key(class: Class, facts: &Facts<'_>) -> Option<&'static str> {
    let (theirs, ours) = (facts.theirs.run.stderr_text(), facts.ours.run.stderr_text());
    let fits = |rule: &&Rule| {
        rule.class == class && theirs.contains(rule.theirs) && ours.contains(rule.ours)
    };
    let rule = RULES.iter().find(fits).map(|rule| rule.key);
    rule.or_else(|| match class {
        Class::CuldRefuses => deliberate::refusal(&ours),
        Class::OutputsDiffer => output_key(facts),
        _ => None,
    })
}

/// The entry about outputs that differ.
fn output_key(facts: &Facts<'_>) -> Option<&'static str> {
    let sm = facts.mutant.arch.trim_start_matches("sm_").trim_end_matches(['a', 'f']);
    let two_halves = sm.parse::<u32>().is_ok_and(|sm| sm >= 100);
    if two_halves {
        return Some("damaged-halves");
    }
    const UNREAD: &[&str] = &["section header sh_link of ", "section header sh_entsize of "];
    UNREAD.iter().any(|start| facts.what.starts_with(start)).then_some("damaged-fields")
}
