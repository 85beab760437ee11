//! Finds the deliberate differences of single links.
//!
//! In: the results of both linkers. Out: the keys of the entries of docs/DIFFERENCES.md that
//! explain them. Guaranteed: an entry explains only links that culd refuses with its words, and
//! differences of outputs that [`unified`] and [`barriers`] know.

mod barriers;
pub(super) mod unified;

use super::trial::Verdict;
use crate::reference::oracle::process::{Run, Status};
use culd_cubin::elf::{stb, stt};
use culd_cubin::{Cubin, Section};
use std::collections::HashSet;

/// The end of nvlink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NvlinkEnd {
    /// It wrote an output, or at least did not complain.
    Accepts,
    /// It was killed, did not end, or reported an internal error.
    Fails,
    /// It reported an error.
    Refuses,
}

/// A rule of an entry: the end of nvlink, and a part of culd's message.
struct DeliberateRule {
    key: &'static str,
    theirs: &'static [NvlinkEnd],
    ours: &'static str,
}

const BAD_RELOCATION: DeliberateRule = DeliberateRule {
    key: "bad-relocation",
    theirs: &[NvlinkEnd::Accepts, NvlinkEnd::Fails],
    ours: "",
};

/// Files that no compiler makes.
pub(super) const DAMAGED: &str = "damaged-input";

const RULES: &[DeliberateRule] = &[
    DeliberateRule {
        key: DAMAGED,
        theirs: &[NvlinkEnd::Accepts, NvlinkEnd::Fails, NvlinkEnd::Refuses],
        ours: "fatal   : Malformed input file ",
    },
    DeliberateRule {
        key: "relocation-overflow",
        theirs: &[NvlinkEnd::Accepts, NvlinkEnd::Fails],
        ours: " does not fit in the field, which holds bits ",
    },
    DeliberateRule {
        key: "reference-types",
        theirs: &[NvlinkEnd::Accepts, NvlinkEnd::Fails],
        ours: "its type means nothing for a texture, sampler or surface reference",
    },
    // The rows of the entry's table, in the words of culd's messages.
    DeliberateRule { ours: "its type describes a function, but its symbol is", ..BAD_RELOCATION },
    DeliberateRule { ours: "its symbol has no type", ..BAD_RELOCATION },
    DeliberateRule { ours: "its symbol is local and undefined", ..BAD_RELOCATION },
    DeliberateRule { ours: "its symbol is a section that the linker rewrites", ..BAD_RELOCATION },
    DeliberateRule {
        ours: "its type needs a constant bank, but its symbol is in none",
        ..BAD_RELOCATION
    },
    DeliberateRule {
        ours: "its type numbers a slot, but its symbol is no texture",
        ..BAD_RELOCATION
    },
    DeliberateRule { ours: "its place is not in the linked section", ..BAD_RELOCATION },
    DeliberateRule {
        key: "slots-with-frames",
        theirs: &[NvlinkEnd::Accepts, NvlinkEnd::Fails],
        ours: "is a jump slot with a frame, which the table of slots has no form for",
    },
    DeliberateRule {
        key: "whole-program-debug",
        // 13.5 refuses them where code names such a variable.
        theirs: &[NvlinkEnd::Accepts, NvlinkEnd::Refuses],
        ours: ", with shared variables outside of kernels",
    },
    DeliberateRule {
        key: "whole-program-images",
        theirs: &[NvlinkEnd::Accepts, NvlinkEnd::Refuses],
        ours: "with texture or surface references, of which Mercury has a table",
    },
    DeliberateRule {
        key: "whole-program-sanitized",
        // If both refuse, nvlink does so for an error that it finds later.
        theirs: &[NvlinkEnd::Accepts, NvlinkEnd::Refuses],
        ours: ", with the places of shared variables, which nvlink loses",
    },
    DeliberateRule {
        key: "whole-program-sanitized",
        theirs: &[NvlinkEnd::Accepts],
        ours: ", with an extern shared array beside shared variables",
    },
    DeliberateRule {
        key: "unified-places",
        // If both refuse, nvlink does so for an error that it finds later.
        theirs: &[NvlinkEnd::Accepts, NvlinkEnd::Fails, NvlinkEnd::Refuses],
        ours: ": the index file does not list it",
    },
];

/// The barriers that nvlink of any release forgets in a link with objects of CUDA 12.9.
pub(super) const BARRIERS: &str = "barriers-of-cuda-12";

/// True for the results `how` of a program with an unused alias.
pub(super) fn is_unused_alias(how: &str, aliases: impl FnOnce() -> bool) -> bool {
    how == "nvlink fatal   : Internal error: reference to deleted symbol; exit code 0" && aliases()
}

/// A part of culd's message about objects in which nvlink has resolved too much
/// (docs/DIFFERENCES.md, early-relocations).
const RESOLVED_EARLY: &str = "cannot be linked here: nvlink -r resolved references to ";

/// True for a difference that is such a refusal.
pub(super) fn is_resolved_early(what: &str) -> bool {
    what.starts_with("exit code ") && what.contains(RESOLVED_EARLY)
}

/// True for a difference that docs/DIFFERENCES.md lists as parameter-names.
pub(super) fn is_parameter_name(what: &str) -> bool {
    let accepted = what.starts_with("exit code 1 instead of exit code 0: ");
    accepted
        && what.contains("error   : Multiple definition of ")
        && what.contains("first defined in '<input>'")
}

/// True for an object with a function that shares the code of another.
pub(super) fn has_alias(object: &[u8]) -> bool {
    Cubin::parse(object).is_ok_and(|cubin| {
        cubin.symbols.iter().any(|symbol| {
            let code = symbol.defined_in().and_then(|section| Some(cubin.section(section)?.name));
            let own = |code: &[u8]| code.strip_prefix(b".text.") == Some(symbol.name);
            symbol.kind() == stt::FUNC && symbol.size == 0 && code.is_some_and(|code| !own(code))
        })
    })
}

/// True for the results `how` of a link with a selection of kernels in which a later object defines
/// a weak function again whose code has relocations.
pub(super) fn is_replaced_with_selection(
    how: &str,
    arguments: &[String],
    objects: impl FnOnce() -> Vec<Vec<u8>>,
) -> bool {
    let selects = |word: &String| {
        ["-kernels-used", "-variables-used"].iter().any(|option| word.starts_with(option))
    };
    how == "nvlink fatal   : Internal error: unexpected reloc; exit code 0"
        && arguments.iter().any(selects)
        && defined_again(&objects())
}

/// True if one of the objects has a weak function whose code has relocations, and a later one
/// defines it again.
fn defined_again(objects: &[Vec<u8>]) -> bool {
    let mut weak = HashSet::new();
    for object in objects.iter().filter_map(|bytes| Cubin::parse(bytes).ok()) {
        let functions = object.symbols.iter().filter(|symbol| symbol.is_function());
        let defined = functions.filter_map(|symbol| Some((symbol, symbol.defined_in()?)));
        for (symbol, code) in defined.filter(|(symbol, _)| symbol.binding() != stb::LOCAL) {
            if weak.contains(symbol.name) {
                return true;
            }
            let of_code = |table: &&Section<'_>| table.info_section() == Some(code);
            let mut tables = object.sections.iter().filter(of_code);
            if symbol.binding() == stb::WEAK && tables.any(|table| !table.relocations().is_empty())
            {
                weak.insert(symbol.name.to_vec());
            }
        }
    }
    false
}

/// True for a file whose symbol 0 is no null symbol, so it is no valid ELF file.
fn lacks_null_symbol(file: &[u8]) -> bool {
    let Ok(cubin) = Cubin::parse(file) else { return false };
    cubin.symbols.first().is_some_and(|first| first.info != 0)
}

/// The keys of the differences of two programs.
pub(super) fn keys_of_outputs(expected: &[u8], actual: &[u8]) -> Vec<&'static str> {
    let repaired = barriers::repaired(expected);
    if repaired.is_some_and(|repaired| super::cubins(&repaired, actual).is_none()) {
        return vec![BARRIERS];
    }
    if lacks_null_symbol(expected) && !lacks_null_symbol(actual) {
        return vec!["whole-program-sanitized"];
    }
    if unified::has_stray_slots(expected) && !unified::has_stray_slots(actual) {
        return vec!["slots-for-debugger"];
    }
    unified::keys(expected, actual).into_iter().flatten().collect()
}

/// The entry whose words are in a refusal.
pub(super) fn refusal(text: &str) -> Option<&'static str> {
    RULES.iter().find(|rule| text.contains(rule.ours)).map(|rule| rule.key)
}

/// The key of the difference in `verdict`.
pub(super) fn key(expected: &Run, actual: &Run, verdict: &Verdict) -> Option<&'static str> {
    let theirs = match verdict {
        Verdict::Different(_) if expected.status.success() => NvlinkEnd::Accepts,
        Verdict::Different(_) => NvlinkEnd::Refuses,
        Verdict::NoVerdict(_) => NvlinkEnd::Fails,
        _ => return None,
    };
    if actual.status.success() || !matches!(actual.status, Status::Exit(_)) {
        return None;
    }
    let text = actual.stderr_text();
    let rule = RULES.iter().find(|rule| rule.theirs.contains(&theirs) && text.contains(rule.ours));
    rule.map(|rule| rule.key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::compare::trial::Difference;
    use std::fs;
    use std::time::Duration;

    fn run(status: Status, stderr: &str) -> Run {
        let stderr = stderr.as_bytes().to_vec();
        Run { status, stdout: Vec::new(), stderr, wall: Duration::ZERO }
    }

    #[test]
    fn every_key_is_documented() {
        let page = crate::fixtures::case::source_root().join("docs/DIFFERENCES.md");
        let page = fs::read_to_string(page).expect("the page is there");
        let others = [
            "externs-of-slots",
            "unified-relocations",
            "slots-for-debugger",
            BARRIERS,
            "unused-alias",
            "replaced-with-selection",
        ];
        for key in RULES.iter().map(|rule| rule.key).chain(others) {
            assert!(page.contains(&format!("\n### {key}\n")), "{key}");
        }
    }

    #[test]
    fn only_a_refusal_in_the_words_of_the_entry_is_excused() {
        let theirs = run(Status::Exit(0), "");
        let line = "culd fatal   : Malformed input file 'a.cubin': section 'x', offset 0x0: y";
        let what = "exit code 1 instead of exit code 0".to_owned();
        let different = Verdict::Different(Difference { arguments: Vec::new(), what });
        let ours = run(Status::Exit(1), line);
        assert_eq!(key(&theirs, &ours, &different), Some("damaged-input"));
        assert_eq!(key(&theirs, &ours, &Verdict::Identical(Default::default())), None);
        // Another message, another output, a crash.
        let other = run(Status::Exit(1), "culd error   : Undefined reference to 'x' in 'a.cubin'");
        assert_eq!(key(&theirs, &other, &different), None);
        assert_eq!(key(&theirs, &run(Status::Exit(0), line), &different), None);
        assert_eq!(key(&theirs, &run(Status::Signal(11), line), &different), None);
        let crash = Verdict::NoVerdict("signal 11".to_owned());
        let refused = "culd fatal   : Input file 'a': R: its type describes a function, but its symbol is a variable";
        let refused = run(Status::Exit(1), refused);
        assert_eq!(key(&theirs, &refused, &crash), Some("bad-relocation"));
        // Where nvlink reports an error of its own, culd has to report the same.
        assert_eq!(key(&run(Status::Exit(1), "nvlink error"), &refused, &different), None);
    }
}
