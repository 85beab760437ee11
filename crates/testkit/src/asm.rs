//! The assembler of test fixtures: the text form of a cubin (docs/TEXT-FORMAT.md) back to bytes.
//!
//! In: text, as `culd-dump` prints it or a person writes it. Out: the bytes of the file.
//! Guaranteed: what `culd-dump` made of a file becomes that file again, byte for byte; text that
//! is no such form gives an [`Error`] with the line and what was expected there, never a panic.

mod body;
mod file;
mod keys;
mod parse;
mod strings;
mod symbols;

use std::fmt;

/// The largest file that is made, bytes. A slip in an offset must not fill the memory.
pub const MAX_SIZE: u64 = 1 << 30;

/// Text that cannot be assembled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Line number, from 1; 0 when the text as a whole is meant.
    pub line: usize,
    /// What is wrong or was expected, in words.
    pub what: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for Error {}

/// An error at `line`.
fn error<T>(line: usize, what: impl Into<String>) -> Result<T, Error> {
    Err(Error { line, what: what.into() })
}

/// The bytes of the file that `text` describes.
///
/// ```
/// let text = "\
/// cubin 1
/// file type=rel sm=90
/// section .shstrtab strtab
///   rest
/// section .nv.global.init nv_global_init flags=write+alloc align=8
///   0x0000 01020304
/// ";
/// let bytes = culd_testkit::asm::assemble(text)?;
/// assert_eq!(&bytes[..4], b"\x7fELF");
/// # Ok::<(), culd_testkit::asm::Error>(())
/// ```
pub fn assemble(text: &str) -> Result<Vec<u8>, Error> {
    file::write(&parse::document(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
cubin 1
// a remark
file type=exec sm=90
section .shstrtab strtab
  rest
section .strtab strtab
  string \"#ii\"
  rest
section .symtab symtab align=8
  local section .text.k
  local notype \"\"@2 other=internal
  globals
  global func k in=.text.k size=0x20 other=entry
  weak func \"odd name\"
section .nv.info nv_info align=4
  REGCOUNT words k 24
  EXTERNS words k \"odd name\"
section .nv.callgraph nv_callgraph align=4
  list calls
  k \"odd name\"
  list taken
  k \"#ii\"
section .rela.text.k rela flags=info align=8 info=.text.k
  0x10 R_CUDA_ABS32_LO_32 k -0x10
section .text.k progbits flags=alloc+exec align=128 symbol=k
  0x0000 00112233 4455
  0x0006 zero 0x1a
section .nv.global nobits flags=write+alloc align=4 size=0x10
segment phdr flags=r+x start=*PHDR*
segment load flags=r+x start=.text.k end=.text.k memory=0x40
";

    #[test]
    fn names_become_indices_and_places_follow_from_sizes() {
        let bytes = assemble(GOOD).unwrap();
        let cubin = culd_cubin::Cubin::parse(&bytes).unwrap();
        assert_eq!(cubin.header.sm(), 90);
        assert_eq!(cubin.symbols[4].name, b"odd name");
        let table = cubin.section_by_name(b".symtab").unwrap();
        assert_eq!((table.link, table.info), (2, 3));
        let text = cubin.section_by_name(b".text.k").unwrap();
        assert_eq!(
            (text.data[..6].to_vec(), text.size),
            (vec![0, 0x11, 0x22, 0x33, 0x44, 0x55], 32)
        );
        assert_eq!((text.link, text.info), (3, 3));
        let reloc = cubin.section_by_name(b".rela.text.k").unwrap().relocations().get(0).unwrap();
        assert_eq!((reloc.symbol.0, reloc.kind, reloc.addend), (3, 56, -16));
        let graph = cubin.section_by_name(b".nv.callgraph").unwrap().data;
        assert_eq!(graph[8..16], [3, 0, 0, 0, 4, 0, 0, 0]);
        assert_eq!(graph[24..32], [3, 0, 0, 0, 1, 0, 0, 0]);
        let tables = culd_cubin::raw::Tables::parse(&bytes).unwrap();
        assert_eq!(tables.segments[1].offset % 128, 0);
        assert_eq!((tables.segments[1].file_size, tables.segments[1].memory_size), (32, 64));
        assert_eq!(tables.segments[0].file_size, 112);
    }

    /// The error's line and a part of its words, for text with `from` replaced by `to`.
    #[test]
    fn errors_name_the_line_and_what_was_expected() {
        let cases = [
            ("cubin 1", "cubin 2", 1, "expected 'cubin 1'"),
            ("file type=exec sm=90", "file sm=90", 3, "type=rel, type=exec or type=ewp"),
            ("file type=exec sm=90", "file type=exec sm=90 color=1", 3, "unknown key 'color'"),
            ("sm=90", "sm=90 sm=91", 3, "stands twice"),
            ("sm=90", "sm=banana", 3, "a number of 16 bits, found 'banana'"),
            ("section .nv.info nv_info", "section .nv.info nv_inf", 15, "a section type"),
            ("section .nv.info nv_info", "sektion .nv.info nv_info", 15, "found 'sektion'"),
            ("section .strtab strtab", "section .shstrtab strtab", 6, "a second '.shstrtab'"),
            ("  rest\nsection .strtab", "  all\nsection .strtab", 5, "run FIRST LAST or rest"),
            ("  local section .text.k", "  loco section .text.k", 10, "a symbol binding"),
            ("func k in=.text.k", "func k in=.text.q", 13, "found '.text.q'"),
            ("  REGCOUNT words k 24", "  REGCOUNT words q 24", 16, "no symbol 'q'"),
            ("  REGCOUNT words k 24", "  REGCOUNT words k 0x100000000", 16, "32 bits"),
            ("  REGCOUNT words k 24", "  REGCONT words k 24", 16, "no attribute"),
            ("  list calls\n", "", 19, "a 'list' line first"),
            ("  k \"#ii\"", "  k \"#i\"", 22, "not in the string table"),
            ("R_CUDA_ABS32_LO_32", "R_CUDA_ABS32_L", 24, "no relocation type"),
            ("k -0x10", "k 0x10", 24, "expected +NUMBER or -NUMBER"),
            ("  0x0006 zero", "  0x0007 zero", 27, "expected the offset 0x0006"),
            ("4455", "445", 26, "two a byte"),
            ("end=.text.k", "end=.nv.global", 30, "a section with bytes"),
            ("128 symbol=k", "128 symbol=k offset=0x7fffffff0000", 25, "too far"),
            ("\"odd name\"\nsection", "\"odd name\nsection", 14, "a quote does not end"),
        ];
        for (from, to, line, part) in cases {
            assert!(GOOD.contains(from), "{from}");
            let error = assemble(&GOOD.replacen(from, to, 1)).expect_err(to);
            assert_eq!(error.line, line, "{to}: {error}");
            assert!(error.what.contains(part), "{to}: {error}");
        }
        assert_eq!(assemble("").unwrap_err().line, 0);
    }
}
