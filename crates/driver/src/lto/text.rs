//! The PTX inside an object that libnvJitLink made of LTO-IR.
//!
//! In: an object. Out: PTX, and whether it is all of it.
//!
//! With `-lineinfo` ptxas keeps the text that it compiles, for debuggers: without comments, blanks
//! at the start of lines, and directives about lines of source files. Of LTO-IR in a link with
//! other code it is the text that nvlink compiles, in its order.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use culd_cubin::Cubin;

use super::order::{in_order_of, is_of_name, numbered_name};
use super::outline::Outline;
use super::roots::OTHER_FUNCTION;
use super::source_lines;

/// The start of the names of sections with PTX; a number follows.
const PTX: &[u8] = b".nv_debug_ptx_txt";
/// Only code with lines of source files has records for the table of lines.
const LINES: [&[u8]; 2] = [b".rela.debug_line", b".rel.debug_line"];

/// The PTX of which an object was made.
pub(super) struct ObjectText {
    pub(super) ptx: Vec<u8>,
    /// False if the text had lines of source files: these and their tables are lost.
    pub(super) is_complete: bool,
}

impl ObjectText {
    /// The text in `object`, if there is one.
    pub(super) fn of(object: &[u8]) -> Option<Self> {
        let cubin = Cubin::parse(object).ok()?;
        let texts = cubin.section_indices().map(|(_, section)| section);
        let texts = texts.filter(|section| section.name.starts_with(PTX));
        // The other input, which the library gets so that it keeps everything, declares nothing.
        let mut texts = texts.map(|section| section.data).filter(|text| text.contains(&b';'));
        let (Some(text), None) = (texts.next(), texts.next()) else { return None };
        let line_ends = text.iter().map(|&byte| if byte == 0 { b'\n' } else { byte });
        let line_ends: Vec<u8> = line_ends.collect();
        // It only keeps the library from taking LTO-IR for all of a program.
        let ptx = without_declarations(&line_ends, [OTHER_FUNCTION]);
        let is_complete = LINES.iter().all(|name| cubin.section_by_name(name).is_none());
        let ptx = if is_complete { ptx } else { source_lines::without_tables(&ptx).to_vec() };
        Some(ObjectText { ptx, is_complete })
    }
}

/// `text` without declarations of the functions `names` as a module of names makes them.
pub(super) fn without_declarations<'n>(
    text: &[u8],
    names: impl IntoIterator<Item = &'n str>,
) -> Vec<u8> {
    const DECLARED: &[u8] = b".extern .func ";
    const WITHOUT_TYPES: [&[u8]; 2] = [b"()\n", b";\n"];
    let names: HashSet<&[u8]> = names.into_iter().map(str::as_bytes).collect();
    let mut kept = Vec::with_capacity(text.len());
    let mut lines = text.split_inclusive(|&byte| byte == b'\n');
    while let Some(line) = lines.next() {
        let name = line.strip_prefix(DECLARED).map(<[u8]>::trim_ascii_end);
        let next = lines.clone().take(WITHOUT_TYPES.len());
        if name.is_some_and(|name| names.contains(name)) && next.eq(WITHOUT_TYPES) {
            lines.nth(WITHOUT_TYPES.len() - 1);
        } else {
            kept.extend_from_slice(line);
        }
    }
    kept
}

/// `text` by names with other alignments, in bytes, of variables in shared memory: the compiler
/// gives named ones 16 (docs/rules/lto.md, 9).
pub(super) fn with_shared_alignments(text: Vec<u8>, alignments: &BTreeMap<String, u64>) -> Vec<u8> {
    const OF_NAMED: &str = ".shared .align 16 ";
    if alignments.is_empty() {
        return text;
    }
    let text = match String::from_utf8(text) {
        Ok(text) => text,
        Err(error) => return error.into_bytes(),
    };
    let aligned = |line: &str| {
        let (linkage, variable) = line.split_once(OF_NAMED)?;
        // `.b8 name[128];`
        let name = variable.split([' ', '[', ';']).nth(1)?;
        let bytes = alignments.get(name)?;
        Some(format!("{linkage}.shared .align {bytes} {variable}"))
    };
    let lines = text.split_inclusive('\n');
    let lines = lines.map(|line| aligned(line).map_or(Cow::Borrowed(line), Cow::Owned));
    lines.collect::<String>().into_bytes()
}

/// `text` with the numbers that `object` gives local names of which the program has several
/// (`$str$5`). Both count up, but the module of names takes part. Numbers stay where one of the
/// texts has more of them.
fn with_numbers_of(text: &[u8], object: &[u8]) -> Option<Vec<u8>> {
    // Copied first: an input may change while it is read (docs/RELIABILITY.md).
    let text = culd_text::utf8(text)?;
    let object = culd_text::utf8(object)?;
    let (ours, theirs) = (numbers_of_names(&text), numbers_of_names(&object));
    let mut others = HashMap::new();
    for (name, numbers) in &ours {
        if let Some(named) = theirs.get(name).filter(|named| named.len() == numbers.len()) {
            others.extend(numbers.iter().map(|number| (*name, *number)).zip(named.iter().copied()));
        }
    }
    let mut made = String::with_capacity(text.len());
    for word in words(&text) {
        let other = |(name, number, rest)| Some((name, others.get(&(name, number))?, rest));
        match numbered_name(word).and_then(other) {
            Some((name, number, rest)) => made.extend([name, "$", &number.to_string(), rest]),
            None => made.push_str(word),
        }
    }
    Some(made.into_bytes())
}

/// The numbers behind each local name that has some.
fn numbers_of_names(text: &str) -> BTreeMap<&str, BTreeSet<u32>> {
    let mut found: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for (name, number, _) in words(text).filter_map(numbered_name) {
        found.entry(name).or_default().insert(number);
    }
    found
}

/// `text` in names and what is between them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(|char| !is_of_name(char)).flat_map(|part| {
        let name = part.trim_end_matches(|char| !is_of_name(char));
        [name, &part[name.len()..]]
    })
}

/// `text` by names with the variables of `object`, the text in an object: in its order, and in
/// shared memory with its alignments. It stays if it is not nvlink's then: the compiler may read
/// what it aligns in larger pieces.
pub(super) fn as_in_object(object: &[u8], text: Vec<u8>) -> Vec<u8> {
    let numbered = with_numbers_of(&text, object).unwrap_or_else(|| text.clone());
    let aligned = with_shared_alignments(numbered, &Outline::of_ptx(object).shared_alignments);
    let ordered = in_order_of(&aligned, object).map_or(aligned, String::into_bytes);
    if is_same(&ordered, object, SourceLines::Lost) { ordered } else { text }
}

/// Whether a text in an object has the directives about lines of source files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SourceLines {
    Kept,
    Lost,
}

/// True if the PTX `text` and that in an `object` differ in comments, blanks at the ends of lines
/// and empty lines alone, and in `lines`: the one in an object has none of them.
pub(super) fn is_same(text: &[u8], object: &[u8], lines: SourceLines) -> bool {
    code_lines(text, lines).eq(code_lines(object, lines))
}

fn code_lines(text: &[u8], lines: SourceLines) -> impl Iterator<Item = &[u8]> {
    let comment = |line: &[u8]| line.windows(2).position(|pair| pair == b"//");
    let code = move |line| comment(line).map_or(line, |at| &line[..at]);
    // In a section with the names of inlined functions.
    let mut in_names = false;
    let mut is_about_lines = move |line: &[u8]| {
        in_names |= line.starts_with(b".section");
        let is = in_names || line.starts_with(b".loc\t") || line.starts_with(b".file\t");
        in_names &= line != b"}";
        is
    };
    let kept = move |line: &&[u8]| {
        let is_lost = is_about_lines(line) && lines == SourceLines::Lost;
        !(is_lost || line.is_empty())
    };
    text.split(|&byte| byte == b'\n').map(move |line| code(line).trim_ascii()).filter(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_same_but_for_comments_and_blanks() {
        let is_same = |text, object| is_same(text, object, SourceLines::Kept);
        let text = b"//\n.func f\n{\n\t{ // callseq 0, 0\n\n\tret;\n}\n";
        assert!(is_same(text, b".func f\n{\n{\nret;\n}\n"));
        assert!(!is_same(text, b".func f\n{\n{\nexit;\n}\n"));
        assert!(!is_same(text, b".func f\n{\n{\nret;\n"));
        assert!(!is_same(b"\t.loc\t1 2 3\nret;\n", b"ret;\n"));
    }

    #[test]
    fn source_lines_that_an_object_has_lost_do_not_count() {
        let text = b".func f\n{\n\t.loc\t1 4 51\n\tret;\n}\n\t.file\t1 \"a.cu\"\n\
            \t.section\t.debug_str\n\t{\n$L__info_string0:\n.b8 95,0\n\n\t}\n.func g\n";
        let object = |tail: &str| {
            format!(
                ".func f\n{{\nret;\n}}\n.section\t.debug_str\n{{\n$L__info_string0:\n}}\n{tail}"
            )
        };
        assert!(is_same(text, object(".func g\n").as_bytes(), SourceLines::Lost));
        assert!(!is_same(text, object(".func h\n").as_bytes(), SourceLines::Lost));
        assert!(!is_same(text, object(".func g\n").as_bytes(), SourceLines::Kept));
    }

    #[test]
    fn a_text_gets_the_alignments_of_an_object_only_if_it_is_the_same_then() {
        let text =
            b".visible .shared .align 16 .b8 pool[8];\nld.shared.u32 %r1, [pool];\n".to_vec();
        let object = b".visible .shared .align 4 .b8 pool[8];\nld.shared.u32 %r1, [pool];\n";
        assert_eq!(as_in_object(object, text.clone()), object);
        let other = b".visible .shared .align 4 .b8 pool[8];\nld.shared.u16 %r1, [pool];\n";
        assert_eq!(as_in_object(other, text.clone()), text);
    }

    #[test]
    fn shared_variables_get_the_alignments_of_the_other_text() {
        let text = b".visible .shared .align 16 .b8 pool[128];\n\
            .extern .shared .align 16 .b8 dynamic[];\n\
            .visible .shared .align 16 .u32 one;\n.shared .align 16 .u32 own;\n";
        let alignments = [("pool", 4), ("dynamic", 8), ("one", 4)];
        let alignments = alignments.map(|(name, bytes)| (name.to_owned(), bytes)).into();
        let other = with_shared_alignments(text.to_vec(), &alignments);
        assert_eq!(
            String::from_utf8_lossy(&other),
            ".visible .shared .align 4 .b8 pool[128];\n\
             .extern .shared .align 8 .b8 dynamic[];\n\
             .visible .shared .align 4 .u32 one;\n.shared .align 16 .u32 own;\n"
        );
    }

    #[test]
    fn declarations_of_the_module_of_names_go() {
        let gone = |text: &[u8]| without_declarations(text, ["absent", OTHER_FUNCTION]);
        let with = b".target sm_90\n.extern .func culd_other_code\n()\n;\n.func f\n()\n;\n";
        assert_eq!(gone(with), b".target sm_90\n.func f\n()\n;\n");
        let without = b".extern .func f\n()\n;\n";
        assert_eq!(gone(without), without);
    }

    #[test]
    fn what_is_no_object_has_no_text() {
        assert!(ObjectText::of(b"").is_none());
        assert!(ObjectText::of(b"\x7fELF").is_none());
    }

    #[test]
    fn local_names_get_the_numbers_of_an_object() {
        let text = b".func sqrt$11(\n.param .b64 sqrt$11_param_0\n)\n{\n$L__BB0_1:\n\
            ld.global.u8 %r1, [$str$17];\ncall sqrt$12, f$2g, only$3;\n}\n";
        let object = b".func sqrt$3(\nsqrt$8, $str$4, f$1g, only$1, only$2\n";
        let made = with_numbers_of(text, object).unwrap();
        assert_eq!(
            String::from_utf8_lossy(&made),
            ".func sqrt$3(\n.param .b64 sqrt$3_param_0\n)\n{\n$L__BB0_1:\n\
             ld.global.u8 %r1, [$str$4];\ncall sqrt$8, f$2g, only$3;\n}\n"
        );
    }
}
