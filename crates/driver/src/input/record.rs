//! The options that an entry of PTX carries for ptxas.
//!
//! In: the record of an entry. Out: words for ptxas, or an error. Guaranteed: no word names a file
//! or makes ptxas print instead of compile. An input must not choose which files are read or
//! written.

use thiserror::Error;

use RecordValue::{Level, Nothing, Number, Value};

/// The value of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordValue {
    Nothing,
    /// A value, behind `=` or as the next word.
    Value,
    /// A number. It may follow the short name directly; it is never the next word.
    Number,
    /// One of [`LEVELS`], or empty.
    Level,
}

const LEVELS: &[&str] = &["0", "min", "mid", "max"];

/// Options by their two names: those that `ptxas --help` of a release from 12.9 to 13.5 lists,
/// except those of [`REFUSED`] and [`DROPPED`].
#[rustfmt::skip]
const TAKEN: &[(&str, &str, RecordValue)] = &[
    ("Ofast-compile", "Ofc", Level),
    ("allow-expensive-optimizations", "allow-expensive-optimizations", Value),
    ("compile-as-tools-patch", "astoolspatch", Nothing),
    ("compile-only", "c", Nothing),
    ("compiler-annotations", "annotate", Nothing),
    ("def-load-cache", "dlcm", Value),
    ("def-store-cache", "dscm", Value),
    ("device-debug", "g", Nothing),
    ("device-function-maxrregcount", "func-maxrregcount", Value),
    ("device-stack-protector", "device-stack-protector", Value),
    ("disable-optimizer-constants", "disable-optimizer-consts", Nothing),
    ("disable-warnings", "w", Nothing),
    ("dont-merge-basicblocks", "no-bb-merge", Nothing),
    ("enable-func-clone-sc", "enable-func-clone-sc", Value),
    ("entry", "e", Value),
    ("extensible-whole-program", "ewp", Nothing),
    ("fmad", "fmad", Value),
    ("force-load-cache", "flcm", Value),
    ("force-store-cache", "fscm", Value),
    ("g-tensor-memory-access-check", "g-tmem-access-check", Nothing),
    ("generate-line-info", "lineinfo", Nothing),
    ("gno-fabric-access-check", "gno-fabric-access-check", Nothing),
    ("gno-tensor-memory-access-check", "gno-tmem-access-check", Nothing),
    ("gpu-name", "arch", Value),
    ("jobserver", "jobserver", Nothing),
    ("legacy-bar-warp-wide-behavior", "legacy-bar-warp-wide-behavior", Nothing),
    ("machine", "m", Value),
    ("make-errors-visible-at-exit", "make-errors-visible-at-exit", Nothing),
    ("maxntid", "maxntid", Value),
    ("maxrregcount", "maxrregcount", Value),
    ("minnctapersm", "minnctapersm", Value),
    ("opt-level", "O", Number),
    ("optimize-float-atomics", "opt-fp-atomics", Nothing),
    ("override-directive-values", "override-directive-values", Nothing),
    ("position-independent-code", "pic", Value),
    ("preserve-relocs", "preserve-relocs", Nothing),
    ("register-usage-level", "regUsageLevel", Value),
    ("return-at-end", "ret-end", Nothing),
    ("sanitize", "sanitize", Value),
    ("sp-bounds-check", "sp-bounds-check", Nothing),
    ("split-compile", "split-compile", Value),
    ("suppress-async-bulk-multicast-advisory-warning", "suppress-async-bulk-multicast-advisory-warning", Nothing),
    ("suppress-debug-info", "suppress-debug-info", Nothing),
    ("suppress-double-demote-warning", "suppress-double-demote-warning", Nothing),
    ("suppress-position-independent-code-warning", "suppress-position-independent-code-warning", Nothing),
    ("suppress-sparse-mma-advisory-info", "suppress-sparse-mma-advisory-info", Nothing),
    ("suppress-stack-size-warning", "suppress-stack-size-warning", Nothing),
    ("verbose", "v", Nothing),
    ("verbose2", "v2", Nothing),
    ("warn-on-double-precision-use", "warn-double-usage", Nothing),
    ("warn-on-local-memory-usage", "warn-lmem-usage", Nothing),
    ("warn-on-spills", "warn-spills", Nothing),
    ("warning-as-error", "Werror", Nothing),
];

/// The output is always culd's; nvlink does not look at this one either.
const DROPPED: (&str, &str, RecordValue) = ("output-file", "o", Value);

/// Options that read a file, or print and do not compile.
const REFUSED: &[(&str, &str)] = &[
    ("apply-controls", "apply-controls"),
    ("help", "h"),
    ("input-as-string", "ias"),
    ("list-arch", "arch-ls"),
    ("list-version", "version-ls"),
    ("options-file", "optf"),
    ("version", "V"),
];

/// Why a record is not followed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum BadRecord {
    /// In ptxas's words.
    #[error("Unknown option '{0}'")]
    Unknown(String),
    /// In ptxas's words.
    #[error("argument expected after '{0}'")]
    NoValue(String),
    #[error(
        "it comes with the word '{0}' for ptxas, which names a file to read or prints something; an input does not choose \
         that"
    )]
    NotTaken(String),
}

/// The words for ptxas in a record, values joined to their options by `=`.
pub(crate) fn words(record: &str) -> Result<Vec<String>, BadRecord> {
    let mut words = Vec::new();
    let mut rest = record.split_whitespace().peekable();
    while let Some(word) = rest.next() {
        let (name, value) =
            word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        let is = |(long, short): (&str, &str)| match name.strip_prefix("--") {
            Some(name) => name == long,
            None => name.strip_prefix('-') == Some(short),
        };
        if !word.starts_with('-') || word == "-" || REFUSED.iter().any(|&names| is(names)) {
            return Err(BadRecord::NotTaken(word.to_owned()));
        }
        let rows = TAKEN.iter().chain([&DROPPED]);
        let row = rows.into_iter().find(|(long, short, _)| is((long, short)));
        let Some(row @ &(_, _, takes)) = row else {
            if !has_joined_number(word) {
                return Err(BadRecord::Unknown(name[1..].to_owned()));
            }
            words.push(word.to_owned());
            continue;
        };
        let next = match (value, takes) {
            (Some(_), _) | (None, Nothing | Number) => None,
            (None, Level) => rest.next_if(|next| LEVELS.contains(next)),
            (None, Value) => {
                let next = rest.next().ok_or_else(|| BadRecord::NoValue(word.to_owned()))?;
                Some(next)
            }
        };
        if *row != DROPPED {
            words.push(next.map_or_else(|| word.to_owned(), |next| format!("{word}={next}")));
        }
    }
    Ok(words)
}

/// `-O3` or `-m64`.
fn has_joined_number(word: &str) -> bool {
    let number = word.strip_prefix("-O").or_else(|| word.strip_prefix("-m"));
    number.is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_ptxas_pass_with_their_values() {
        let passes = |record: &str| words(record).unwrap().join(" ");
        assert_eq!(passes("--compile-only  -g -O3 -m64"), "--compile-only -g -O3 -m64");
        assert_eq!(
            passes("-dlcm ca --def-load-cache=cg -O=1"),
            "-dlcm=ca --def-load-cache=cg -O=1"
        );
        assert_eq!(passes("-Ofc -v -Ofc mid --maxntid 32,1"), "-Ofc -v -Ofc=mid --maxntid=32,1");
        // What looks like an option is the value of another to ptxas, too.
        assert_eq!(passes("-e -optf"), "-e=-optf");
        assert_eq!(passes("-o /etc/passwd -v --output-file=x"), "-v");
        assert_eq!(passes(""), "");
    }

    #[test]
    fn no_word_names_a_file() {
        for record in [
            "in.ptx",
            "-v in.ptx",
            "-O 3",
            "-Ofc in.ptx",
            "-",
            "-optf x",
            "--options-file=x",
            "-ias x",
            "-apply-controls x",
            "--apply-controls=x",
            "-h",
            "--version",
            "-arch-ls",
            "-o a b",
        ] {
            assert!(matches!(words(record), Err(BadRecord::NotTaken(_))), "{record}");
        }
    }

    #[test]
    fn errors_are_reported_as_ptxas_does() {
        let message = |record: &str| words(record).unwrap_err().to_string();
        assert_eq!(message("--bogus"), "Unknown option '-bogus'");
        assert_eq!(message("-bogus=x"), "Unknown option 'bogus'");
        assert_eq!(message("-O3x"), "Unknown option 'O3x'");
        assert_eq!(message("-v -dlcm"), "argument expected after '-dlcm'");
    }
}
