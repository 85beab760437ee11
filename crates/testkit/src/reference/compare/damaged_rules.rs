//! Explains why two linkers treat damaged files differently.
//!
//! In: the results of both. Out: the key of the entry of docs/DIFFERENCES.md that explains them.
//! Guaranteed: a rule looks for words or facts that only its entry explains; a difference that fits
//! none is reported as unexplained.

use super::damaged::{DamageClass, DamagedLink};
use super::{TOOL_NOTE, deliberate, masked, mercury, sections};
use std::ops::Range;

/// The facts about a link.
pub(super) struct DamageFacts<'f> {
    pub(super) theirs: &'f DamagedLink,
    pub(super) ours: &'f DamagedLink,
    /// The difference.
    pub(super) what: &'f str,
}

/// A rule of an entry: the class, and parts of the linkers' messages; an empty part is in every
/// text.
struct DamageRule {
    key: &'static str,
    class: DamageClass,
    theirs: &'static str,
    ours: &'static str,
}

const fn rule(
    key: &'static str,
    class: DamageClass,
    theirs: &'static str,
    ours: &'static str,
) -> DamageRule {
    DamageRule { key, class, theirs, ours }
}

const RULES: &[DamageRule] = &[
    rule("damaged-input", DamageClass::CuldRefuses, "", "fatal   : Malformed input file "),
    rule("damaged-input", DamageClass::CuldRefuses, "", "' cannot be linked: "),
    rule("damaged-input", DamageClass::CuldRefuses, "", "fatal   : Could not find fatbin in "),
    rule("damaged-input", DamageClass::CuldRefuses, "", "fatal   : unexpected archive format"),
    rule("damaged-image", DamageClass::CuldRefuses, "Uncompress failed", "Uncompress failed"),
    rule("damaged-image", DamageClass::CuldRefuses, "", " size does not match target '-m64'"),
    rule(
        "unified-places",
        DamageClass::CuldRefuses,
        "",
        "fatal   : Internal error: uuid not found",
    ),
    rule("ignored-inputs", DamageClass::EqualOutputs, "", " was ignored: "),
    rule("ignored-inputs", DamageClass::EqualOutputs, "", "is empty and was ignored"),
    rule("ignored-inputs", DamageClass::EqualOutputs, "", "' has no code for '"),
    rule("ignored-inputs", DamageClass::EqualOutputs, "", "Library 'none' was not found"),
    rule("ignored-inputs", DamageClass::EqualOutputs, "", "warning : SM Arch ('"),
    rule("options", DamageClass::CuldAccepts, "fatal   : Unknown option '", ""),
    rule("fatbin-segment", DamageClass::CuldAccepts, "fatal   : Could not find fatbin in ", ""),
    // The fault of the archive does not concern the bytes of its members.
    rule("archive-names", DamageClass::CuldAccepts, "fatal   : unexpected archive format", ""),
    rule("archive-names", DamageClass::CuldAccepts, "fatal   : Memory allocation failure", ""),
];

/// True for the options of docs/DIFFERENCES.md, preserve-with-selection.
fn preserves_with_selection(words: &[String]) -> bool {
    let starts =
        |option: &str| words.iter().any(|word| word.trim_start_matches('-').starts_with(option));
    starts("preserve-relocs") && (starts("kernels-used") || starts("variables-used"))
}

/// The entry about outputs that differ, by the links of the undamaged files. `differ` is true if
/// those outputs differ too; `theirs` and `ours` are nvlink's and culd's outputs, `good` is
/// nvlink's of the undamaged files.
pub(super) fn key_beside_good(
    words: &[String],
    differ: bool,
    (theirs, ours, good): (&DamagedLink, &DamagedLink, &DamagedLink),
) -> Option<&'static str> {
    let (theirs, ours) = (theirs.output.as_deref()?, ours.output.as_deref()?);
    // The entry is about good files.
    if differ && preserves_with_selection(words) {
        return Some("preserve-with-selection");
    }
    // A third of the programs have the label of another target than they were compiled for;
    // nvlink's finalizer makes code for that target.
    if differ && mercury::applies(theirs) {
        return Some("kept-code");
    }
    // nvlink did not read the damaged part, and made it anew.
    let anew = mercury::applies(theirs)
        && good.output.as_deref().is_some_and(|good| differ_in_notes_only(good, theirs));
    (anew || differs_in_machine_half(theirs, ours)).then_some("damaged-halves")
}

/// The entry that explains a link.
pub(super) fn key(class: DamageClass, facts: &DamageFacts<'_>) -> Option<&'static str> {
    let (theirs, ours) = (facts.theirs.run.stderr_text(), facts.ours.run.stderr_text());
    let fits = |rule: &&DamageRule| {
        rule.class == class && theirs.contains(rule.theirs) && ours.contains(rule.ours)
    };
    let rule = RULES.iter().find(fits).map(|rule| rule.key);
    rule.or_else(|| match class {
        DamageClass::CuldRefuses => deliberate::refusal(&ours),
        DamageClass::OutputsDiffer => output_key(facts),
        _ => None,
    })
}

/// True for outputs of sm_100 and later that differ only in parts that nvlink's finalizer makes
/// anew for machine code: the Mercury half, data, constants, names and the list of sections are
/// equal.
fn differs_in_machine_half(expected: &[u8], actual: &[u8]) -> bool {
    const ANEW: &[&[u8]] = &[
        b".text.",
        b".nv.info",
        b".rela.text.",
        b".nv.constant0.",
        b".debug_",
        b".rela.debug_",
        b".nv_debug_",
        b".rela.nv_debug_",
    ];
    let anew = |name: &[u8]| ANEW.iter().any(|start| name.starts_with(start));
    let (theirs, ours) = (sections(expected), sections(actual));
    // Symbols say how long the code is.
    let equal = |(name, a): &(Vec<u8>, Range<usize>), b: &Range<usize>| match name.as_slice() {
        b".symtab" => a.len() == b.len(),
        name => anew(name) || masked(expected, a, name) == masked(actual, b, name),
    };
    mercury::applies(expected)
        && theirs.len() == ours.len()
        && theirs.iter().zip(&ours).all(|(a, b)| a.0 == b.0 && equal(a, &b.1))
}

/// True for files whose sections are equal except tool notes, which name the inputs.
fn differ_in_notes_only(good: &[u8], other: &[u8]) -> bool {
    let contents = |bytes: &[u8]| -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let content = |(name, range): (Vec<u8>, Range<usize>)| {
            let content_that_counts =
                (name != TOOL_NOTE).then(|| bytes.get(range).unwrap_or_default().to_vec());
            (name, content_that_counts)
        };
        sections(bytes).into_iter().map(content).collect()
    };
    contents(good) == contents(other)
}

/// The entry about outputs that differ.
fn output_key(facts: &DamageFacts<'_>) -> Option<&'static str> {
    const UNREAD: &[&str] = &[
        "section header sh_link of ",
        "section header sh_entsize of ",
        "section.link ",
        "section.entsize ",
    ];
    let unread = |line: &str| UNREAD.iter().any(|start| line.starts_with(start));
    facts.what.lines().all(unread).then_some("damaged-fields")
}
