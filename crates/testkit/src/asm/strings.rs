//! String tables.

use culd_inspect::{name, rules, words};

use super::parse::SectionText;
use super::{Error, error};

/// The longest run of empty strings in a line.
const MAX_EMPTY: u64 = 1 << 24;

/// The bytes of string table `section`: `known` are the names that `rest` takes from, `names` the
/// strings of the section name table, for `run`.
pub(super) fn table(
    section: &SectionText<'_>,
    known: &[&[u8]],
    names: &[&[u8]],
) -> Result<Vec<u8>, Error> {
    let mut strings: Vec<Vec<u8>> = vec![Vec::new()];
    for line in &section.body {
        let name = |word: &str| match name::unquote(word) {
            Some(name) => Ok(name),
            None => error(line.number, format!("'{word}' is no name")),
        };
        match *line.words {
            ["string", word] => strings.push(name(word)?),
            ["empty", count] => match words::number(count).filter(|&count| count <= MAX_EMPTY) {
                Some(count) => strings.extend((0..count).map(|_| Vec::new())),
                None => return error(line.number, "expected: empty NUMBER"),
            },
            ["run", first, last] => {
                let (first, last) = (name(first)?, name(last)?);
                let Some(run) = run(names, &first, &last) else {
                    let what = "expected two strings of the section name table, in its order";
                    return error(line.number, what);
                };
                strings.extend(run.iter().map(|string| string.to_vec()));
            }
            ["rest"] => {
                let before: Vec<&[u8]> = strings.iter().map(Vec::as_slice).collect();
                let rest = rules::rest(known, &before);
                strings.extend(rest.into_iter().map(<[u8]>::to_vec));
            }
            _ => {
                let what = "expected: string NAME, empty NUMBER, run FIRST LAST or rest";
                return error(line.number, what);
            }
        }
    }
    let mut out = Vec::new();
    for string in strings {
        out.extend_from_slice(&string);
        out.push(0);
    }
    Ok(out)
}

/// The strings from the first `first` to the next `last`.
fn run<'n>(names: &'n [&'n [u8]], first: &[u8], last: &[u8]) -> Option<&'n [&'n [u8]]> {
    let start = names.iter().position(|name| *name == first)?;
    let tail = names.get(start..)?;
    let end = tail.iter().position(|name| *name == last)?;
    tail.get(..=end)
}
