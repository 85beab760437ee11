//! The PTX inside an object that libnvJitLink made of LTO-IR.
//!
//! In: an object. Out: PTX, and whether it is all of it.
//!
//! With `-lineinfo` ptxas keeps the text that it compiles, for debuggers: without comments, blanks
//! at the start of lines, and directives about lines of source files. Of LTO-IR in a link with
//! other code it is the text that nvlink compiles, in its order.

use culd_cubin::Cubin;

use super::roots::OTHER_FUNCTION;

/// The start of the names of sections with PTX; a number follows.
const PTX: &[u8] = b".nv_debug_ptx_txt";
/// Only code with lines of source files has records for the table of lines.
const LINES: [&[u8]; 2] = [b".rela.debug_line", b".rel.debug_line"];

/// The PTX of which an object was made.
pub(super) struct ObjectText {
    pub(super) ptx: Vec<u8>,
    /// False if the text had lines of source files: they are lost.
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
        let ptx = without_other_function(line_ends.collect());
        let is_complete = LINES.iter().all(|name| cubin.section_by_name(name).is_none());
        Some(ObjectText { ptx, is_complete })
    }
}

/// `text` without the declaration of the function that only keeps the library from taking LTO-IR
/// for all of a program.
fn without_other_function(mut text: Vec<u8>) -> Vec<u8> {
    let declaration = format!(".extern .func {OTHER_FUNCTION}\n()\n;\n");
    let declaration = declaration.as_bytes();
    if let Some(at) = text.windows(declaration.len()).position(|window| window == declaration) {
        text.drain(at..at + declaration.len());
    }
    text
}

/// True if the PTX `one` and `other` differ in comments, blanks at the ends of lines and empty
/// lines alone: an [`ObjectText`] has none of them.
pub(super) fn is_same(one: &[u8], other: &[u8]) -> bool {
    lines(one).eq(lines(other))
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let comment = |line: &[u8]| line.windows(2).position(|pair| pair == b"//");
    let code = move |line| comment(line).map_or(line, |at| &line[..at]);
    let lines = text.split(|&byte| byte == b'\n').map(move |line| code(line).trim_ascii());
    lines.filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_same_but_for_comments_and_blanks() {
        let text = b"//\n.func f\n{\n\t{ // callseq 0, 0\n\n\tret;\n}\n";
        assert!(is_same(text, b".func f\n{\n{\nret;\n}\n"));
        assert!(!is_same(text, b".func f\n{\n{\nexit;\n}\n"));
        assert!(!is_same(text, b".func f\n{\n{\nret;\n"));
    }

    #[test]
    fn the_declaration_of_the_other_function_goes() {
        let with = b".target sm_90\n.extern .func culd_other_code\n()\n;\n.func f\n()\n;\n";
        assert_eq!(without_other_function(with.to_vec()), b".target sm_90\n.func f\n()\n;\n");
        let without = b".extern .func f\n()\n;\n";
        assert_eq!(without_other_function(without.to_vec()), without);
    }

    #[test]
    fn what_is_no_object_has_no_text() {
        assert!(ObjectText::of(b"").is_none());
        assert!(ObjectText::of(b"\x7fELF").is_none());
    }
}
