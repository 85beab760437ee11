//! Notes below errors about the command line.
//!
//! In: an error. Out: notes.

use super::table::{OptionArity, OptionRow, TABLE};
use super::{OptionId, Target, UsageError};

/// Shorter names are compared with no other, because any two letters are similar.
const SHORT: usize = 3;

impl UsageError {
    /// Lines that say what to do.
    pub fn notes(&self) -> Vec<String> {
        let note = match self {
            UsageError::Unknown(typed) => similar_option(&format!("-{typed}")),
            UsageError::BadValue { value, option } => value_note(value, option),
            UsageError::NoArch => Some("name a target: -arch=sm_90".to_owned()),
            UsageError::NoNvvmPath => {
                Some("name the folder in the toolkit: -nvvmpath=<toolkit>/nvvm".to_owned())
            }
            UsageError::OptionsFile { reason, .. } => Some(reason.clone()),
            UsageError::NotSupported(_) => {
                Some("it changes the output in ways that are not known well enough".to_owned())
            }
            UsageError::Nothing => {
                return vec![
                    "usage: culd -arch=sm_90 a.o libb.a -o program.cubin".to_owned(),
                    "'culd install-shadow FOLDER' makes a toolkit in which nvcc links with culd"
                        .to_owned(),
                ];
            }
            _ => None,
        };
        note.into_iter().collect()
    }
}

/// An option with a similar name.
fn similar_option(typed: &str) -> Option<String> {
    let all: Vec<String> = TABLE.iter().flat_map(OptionRow::names).collect();
    let bare = |name: &str| name.trim_start_matches('-').to_owned();
    let wanted = bare(typed);
    if let Some(same) = all.iter().find(|name| bare(name) == wanted) {
        // The message has a '-' less than was typed.
        let dashes = same.len() - wanted.len();
        return Some(format!("there is an option '{same}', with {dashes} '-'"));
    }
    let begun = || {
        let begun = |name: &&String| wanted.len() >= SHORT && bare(name).starts_with(&wanted);
        all.iter().filter(begun).min_by_key(|name| name.len())
    };
    let found = begun().or_else(|| nearest(&wanted, &all, bare));
    found.map(|name| format!("there is an option '{name}'"))
}

/// Possible values.
fn value_note(value: &str, option: &str) -> Option<String> {
    let row = TABLE.iter().find(|row| row.long == option)?;
    match row.takes {
        OptionArity::Choice(names) => Some(format!("it takes one of {}", names.join(", "))),
        OptionArity::Target => {
            let all = Target::all_names();
            let near = nearest(value, &all, str::to_owned);
            let like = near.map(|name| format!("there is a target '{name}'; "));
            Some(format!("{}--help lists the targets", like.unwrap_or_default()))
        }
        _ if row.id == OptionId::Report => {
            Some("the ending says the form: .json, .html or .txt; '-' is text".to_owned())
        }
        _ if row.id == OptionId::CallGraph => {
            Some("the ending says the form: .dot or .svg".to_owned())
        }
        _ if matches!(row.id, OptionId::Reproduce | OptionId::Trace) => {
            Some("it takes the name of a file; './-' is the file of that name".to_owned())
        }
        OptionArity::Number(only) if row.id == OptionId::Machine => {
            Some(format!("only {only} exists"))
        }
        _ => None,
    }
}

/// The first of `all` that differs from `wanted` in fewest letters: at most a third.
fn nearest<'a>(
    wanted: &str,
    all: &'a [String],
    bare: impl Fn(&str) -> String,
) -> Option<&'a String> {
    let most = wanted.chars().count() / SHORT;
    let distance = |name: &String| strsim::osa_distance(&bare(name), wanted);
    let near = all.iter().filter(|name| name.trim_start_matches('-').len() >= SHORT);
    let near = near.map(|name| (distance(name), name)).filter(|(distance, _)| *distance <= most);
    near.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// A line about the support of `row`, for the help.
pub(super) fn support(row: &OptionRow) -> &'static str {
    match row.support {
        super::table::Support::Full => "",
        super::table::Support::Ignored => ". Accepted and of no effect",
        super::table::Support::Refused => ". Not supported by culd: an error",
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    fn notes(line: &str) -> Vec<String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words).request.unwrap_err().notes()
    }

    #[test]
    fn a_name_that_is_nearly_an_option_is_reported() {
        for (typed, option) in [
            ("--verb", "--verbose"),
            ("-preserve-reloc", "-preserve-relocs"),
            ("--maxregcount=3", "-maxrregcount"),
            ("-nvvmpaht=x", "-nvvmpath"),
        ] {
            assert_eq!(notes(typed), [format!("there is an option '{option}'")], "{typed}");
        }
        for (typed, option, dashes) in
            [("--v", "-v", 1), ("--Map=m", "-Map", 1), ("-verbose", "--verbose", 2)]
        {
            let note = format!("there is an option '{option}', with {dashes} '-'");
            assert_eq!(notes(typed), [note], "{typed}");
        }
        for typed in ["--", "-x", "-bogus", "-of", "---"] {
            assert_eq!(notes(typed), [""; 0], "{typed}");
        }
    }

    #[test]
    fn a_newcomer_learns_what_is_missing() {
        assert_eq!(notes("a.cubin"), ["name a target: -arch=sm_90"]);
        assert_eq!(notes("-arch=sm_90b"), ["there is a target 'sm_90'; --help lists the targets"]);
        assert_eq!(notes("-arch=gfx942"), ["--help lists the targets"]);
        assert_eq!(notes("-ghls=x"), ["it takes one of lcs-abs, lcs-aug"]);
        assert_eq!(notes("@nowhere"), ["No such file or directory (os error 2)"]);
    }
}
