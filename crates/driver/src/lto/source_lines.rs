//! Lines of source files in PTX whose functions have another order.
//!
//! In: PTX, and its functions in that order. Out: the functions with `.loc` directives that number
//! files and inlined functions by their first use, as the compiler does, and the tables of both.
//! Guaranteed: there is no result if a directive or a table is not understood.

use std::collections::{BTreeMap, HashMap};

const LOC: &str = "\t.loc\t";
const FILE: &str = "\t.file\t";
const NAMES: &str = "\t.section\t.debug_str\n\t{\n";
/// A blank line is in front of it or not: this differs between compilers.
const NAMES_END: &str = "\t}";
/// The label of the name of an inlined function; a number follows.
const LABEL: &str = "$L__info_string";
const FIRST_FILE: usize = 1;
const FIRST_NAME: usize = 0;

/// The tables at the end of a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SourceTables<'t> {
    /// The names of files, in quotes.
    files: BTreeMap<usize, &'t str>,
    /// The names of inlined functions, as data.
    names: BTreeMap<usize, &'t str>,
    /// What follows the last name.
    names_end: &'t str,
    /// What follows the tables.
    end: &'t str,
}

impl<'t> SourceTables<'t> {
    /// `text` in front of its tables, and these.
    pub(super) fn split(text: &'t str) -> Option<(&'t str, Self)> {
        let Some(start) = text.find(&format!("\n{FILE}")) else {
            return Some((text, SourceTables::default()));
        };
        let (code, mut rest) = text.split_at_checked(start + 1)?;
        let mut tables = SourceTables::default();
        while let Some(file) = rest.strip_prefix(FILE) {
            let (line, next) = file.split_once('\n')?;
            let (number, name) = line.split_once(' ')?;
            tables.files.insert(number.parse().ok()?, name);
            rest = next;
        }
        if let Some(section) = rest.strip_prefix(NAMES) {
            let (section, end) = section.split_once(NAMES_END)?;
            let names = section.trim_end();
            tables.names_end = section.strip_prefix(names)?;
            for entry in names.strip_prefix(LABEL)?.split(&format!("\n{LABEL}")) {
                let (number, data) = entry.split_once(":\n")?;
                tables.names.insert(number.parse().ok()?, data);
            }
            rest = end;
        }
        tables.end = rest;
        rest.trim().is_empty().then_some((code, tables))
    }

    /// `functions`, which are all functions of the text, and the tables, numbered by first use.
    pub(super) fn numbered(&self, functions: String) -> Option<String> {
        self.numbered_for(functions, true)
    }

    /// The same of some of the functions: the tables have what these use.
    pub(super) fn numbered_for_some(&self, functions: String) -> Option<String> {
        self.numbered_for(functions, false)
    }

    fn numbered_for(&self, functions: String, all: bool) -> Option<String> {
        if self.files.is_empty() {
            return Some(functions);
        }
        let mut files = FirstUses::new(FIRST_FILE);
        let mut names = FirstUses::new(FIRST_NAME);
        let mut made = String::with_capacity(functions.len());
        for line in functions.split_inclusive('\n') {
            match line.strip_prefix(LOC) {
                Some(place) => made += &renumbered(place, &mut files, &mut names)?,
                None => made += line,
            }
        }
        let names = names.table(&self.names, all)?;
        // A blank line is in front of files, and with names behind these.
        let moved = if names.is_empty() && !self.names.is_empty() { "\n" } else { "" };
        made += moved;
        for (number, name) in files.table(&self.files, all)? {
            made += &format!("{FILE}{number} {name}\n");
        }
        if !names.is_empty() {
            let names = names.into_iter();
            let entries: Vec<String> =
                names.map(|(number, data)| format!("{LABEL}{number}:\n{data}")).collect();
            made += &format!("{NAMES}{}{}{NAMES_END}", entries.join("\n"), self.names_end);
        }
        made += self.end.strip_suffix(moved).unwrap_or(self.end);
        Some(made)
    }
}

/// `text` up to its tables. With lines of source files, nvcc writes PTX without the blanks at the
/// start of its lines; a text in an object has no table of files either.
pub(super) fn without_tables(text: &[u8]) -> &[u8] {
    const STARTS: [&[u8]; 2] = [b".file\t", b".section\t"];
    let mut end = 0;
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        if STARTS.iter().any(|start| line.trim_ascii_start().starts_with(start)) {
            break;
        }
        end += line.len();
    }
    text.get(..end).unwrap_or(text)
}

/// A `.loc` directive whose operands are `place`:
/// `2 1 45, function_name $L__info_string1, inlined_at 1 6 30`.
fn renumbered(place: &str, files: &mut FirstUses, names: &mut FirstUses) -> Option<String> {
    const AT: &str = "inlined_at ";
    let (file, rest) = place.split_once(' ')?;
    let file = files.number(file)?;
    let Some((line, inlined)) = rest.split_once(LABEL) else {
        return Some(format!("{LOC}{file} {rest}"));
    };
    let (name, at) = inlined.split_once(',')?;
    let name = names.number(name)?;
    let (between, at) = at.split_once(AT)?;
    let (caller, at) = at.split_once(' ')?;
    let caller = files.number(caller)?;
    Some(format!("{LOC}{file} {line}{LABEL}{name},{between}{AT}{caller} {at}"))
}

/// Numbers by first use.
struct FirstUses {
    first: usize,
    numbers: HashMap<usize, usize>,
}

impl FirstUses {
    fn new(first: usize) -> Self {
        FirstUses { first, numbers: HashMap::new() }
    }

    /// The number of what has the number `old` in the text.
    fn number(&mut self, old: &str) -> Option<usize> {
        let next = self.first + self.numbers.len();
        Some(*self.numbers.entry(old.parse().ok()?).or_insert(next))
    }

    /// The entries of `table` that have a use, by their numbers; `None` if one lacks, or if `all`
    /// must have a use and one has none.
    fn table<'t>(
        &self,
        table: &BTreeMap<usize, &'t str>,
        all: bool,
    ) -> Option<BTreeMap<usize, &'t str>> {
        let entry = |(old, text): (&usize, &&'t str)| Some((*self.numbers.get(old)?, *text));
        let entries: BTreeMap<_, _> = table.iter().filter_map(entry).collect();
        let lacks_use = all && entries.len() < table.len();
        (!lacks_use && entries.len() == self.numbers.len()).then_some(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FUNCTIONS: &str = "\
        \t.loc\t2 5 0\n\tret;\n\
        \t.loc\t1 7 31, function_name $L__info_string1, inlined_at 2 5 51\n\
        \t.loc\t3 1 45, function_name $L__info_string0, inlined_at 1 7 31\n";
    const TABLES: &str = "\
        \t.file\t1 \"h.h\"\n\t.file\t2 \"a.cu\"\n\t.file\t3 \"g.h\"\n\
        \t.section\t.debug_str\n\t{\n\
        $L__info_string0:\n.b8 95,0\n$L__info_string1:\n.b8 96\n.b8 97,0\n\n\t}\n";

    #[test]
    fn tables_of_some_functions_have_what_these_use() {
        let text = format!("}}\n{TABLES}");
        let (_, tables) = SourceTables::split(&text).unwrap();
        let some = "\t.loc\t3 1 0\n\tret;\n\n}\n";
        // Without names the blank line is in front of the files.
        let made = "\t.loc\t1 1 0\n\tret;\n\n}\n\n\t.file\t1 \"g.h\"\n";
        assert_eq!(tables.numbered_for_some(some.to_owned()).as_deref(), Some(made));
        // All functions use all of them.
        assert_eq!(tables.numbered(some.to_owned()), None);
        let inlined = "\t.loc\t2 7 31, function_name $L__info_string1, inlined_at 2 5 51\n}\n";
        let made = "\t.loc\t1 7 31, function_name $L__info_string0, inlined_at 1 5 51\n}\n\
            \t.file\t1 \"a.cu\"\n\t.section\t.debug_str\n\t{\n\
            $L__info_string0:\n.b8 96\n.b8 97,0\n\n\t}\n";
        assert_eq!(tables.numbered_for_some(inlined.to_owned()).as_deref(), Some(made));
    }

    #[test]
    fn files_and_names_have_the_order_of_their_first_use() {
        let text = format!("}}\n{TABLES}");
        let (code, tables) = SourceTables::split(&text).unwrap();
        assert_eq!(code, "}\n");
        let wanted = "\
            \t.loc\t1 5 0\n\tret;\n\
            \t.loc\t2 7 31, function_name $L__info_string0, inlined_at 1 5 51\n\
            \t.loc\t3 1 45, function_name $L__info_string1, inlined_at 2 7 31\n\
            \t.file\t1 \"a.cu\"\n\t.file\t2 \"h.h\"\n\t.file\t3 \"g.h\"\n\
            \t.section\t.debug_str\n\t{\n\
            $L__info_string0:\n.b8 96\n.b8 97,0\n$L__info_string1:\n.b8 95,0\n\n\t}\n";
        assert_eq!(tables.numbered(FUNCTIONS.to_owned()).as_deref(), Some(wanted));
        // Other compilers write no blank line at the end.
        let text = text.replace("\n\n\t}", "\n\t}");
        let (_, tables) = SourceTables::split(&text).unwrap();
        assert_eq!(tables.numbered(FUNCTIONS.to_owned()), Some(wanted.replace("\n\n\t}", "\n\t}")));
    }

    #[test]
    fn what_is_not_understood_has_no_result() {
        assert_eq!(SourceTables::split("}\n\t.file\t1 \"a.cu\"\nmore"), None);
        assert_eq!(SourceTables::split("}\n\t.file\tx \"a.cu\"\n"), None);
        let text = format!("}}\n{TABLES}");
        let (_, tables) = SourceTables::split(&text).unwrap();
        for functions in ["", "\t.loc\t4 1 2\n", "\t.loc\t1\n", "\t.loc\tx 1 2\n"] {
            assert_eq!(tables.numbered(functions.to_owned()), None, "{functions}");
        }
    }

    #[test]
    fn tables_of_each_form_go() {
        let text = format!("}}\n{TABLES}");
        let trimmed = text.replace("\n\t", "\n");
        let of_object: Vec<&str> = trimmed.lines().filter(|line| !line.contains(".file")).collect();
        for text in [&text, &trimmed, &of_object.join("\n"), "}\n"] {
            assert_eq!(without_tables(text.as_bytes()), b"}\n", "{text}");
        }
    }

    #[test]
    fn a_text_without_lines_stays() {
        let (code, tables) = SourceTables::split("}\n").unwrap();
        assert_eq!((code, tables.numbered("}\n".to_owned()).as_deref()), ("}\n", Some("}\n")));
    }
}
