//! Names of the numbers in a cubin's headers, for both directions.
//!
//! In: a number or a word. Out: the other. Guaranteed: every number has a form that reads back as
//! the same number; what has no name is written in hexadecimal.

use culd_cubin::elf::{shf, sht, stb, stt};

/// A table of numbers and their names.
pub type NumberNames<T> = &'static [(T, &'static str)];

/// Section types (`sh_type`).
pub const SECTION_TYPES: NumberNames<u32> = &[
    (sht::NULL, "null"),
    (sht::PROGBITS, "progbits"),
    (sht::SYMTAB, "symtab"),
    (sht::STRTAB, "strtab"),
    (sht::RELA, "rela"),
    (sht::NOTE, "note"),
    (sht::NOBITS, "nobits"),
    (sht::REL, "rel"),
    (sht::SYMTAB_SHNDX, "symtab_shndx"),
    (sht::CUDA_INFO, "nv_info"),
    (sht::CUDA_CALLGRAPH, "nv_callgraph"),
    (sht::CUDA_PROTOTYPE, "nv_prototype"),
    (sht::CUDA_RESOLVED_RELA, "nv_resolvedrela"),
    (sht::CUDA_GLOBAL, "nv_global"),
    (sht::CUDA_GLOBAL_INIT, "nv_global_init"),
    (sht::CUDA_SHARED, "nv_shared"),
    (sht::CUDA_REL_ACTION, "nv_rel_action"),
    (sht::CUDA_UFT, "nv_uft"),
    (sht::CUDA_UIDX, "nv_uidx"),
    (sht::CUDA_UFT_ENTRY, "nv_uft_entry"),
    (sht::CUDA_UDT, "nv_udt"),
    (sht::CUDA_UDT_ENTRY, "nv_udt_entry"),
    (sht::CUDA_COMPAT, "nv_compat"),
    (sht::CUDA_CONSTANT0, "nv_constant0"),
    (sht::CUDA_CONSTANT0 + 1, "nv_constant1"),
    (sht::CUDA_CONSTANT0 + 2, "nv_constant2"),
    (sht::CUDA_CONSTANT0 + 3, "nv_constant3"),
    (sht::CUDA_CONSTANT0 + 4, "nv_constant4"),
    (sht::CUDA_CONSTANT0 + 5, "nv_constant5"),
    (sht::CUDA_SHARED_RESERVED, "nv_reserved"),
    (sht::MERCURY_CODE, "merc_code"),
    (sht::MERCURY_RELA, "merc_rela"),
    (sht::MERCURY_INFO, "merc_info"),
    (sht::MERCURY_RESOLVED_RELA, "merc_resolvedrela"),
    (sht::MERCURY_SYMTAB, "merc_symtab"),
    (sht::MERCURY_CALLGRAPH, "merc_callgraph"),
    (sht::MERCURY_PROTOTYPE, "merc_prototype"),
];

/// Section flags (`sh_flags`).
pub const SECTION_FLAGS: NumberNames<u64> = &[
    (shf::WRITE, "write"),
    (shf::ALLOC, "alloc"),
    (shf::EXECINSTR, "exec"),
    (shf::INFO_LINK, "info"),
    (shf::NOTE_CUINFO, "cuinfo"),
    (shf::NOTE_TKINFO, "tkinfo"),
    (shf::MERCURY, "mercury"),
];

/// Symbol types (`st_info & 15`).
pub const SYMBOL_TYPES: NumberNames<u64> = &[
    (stt::NOTYPE as u64, "notype"),
    (stt::OBJECT as u64, "object"),
    (stt::FUNC as u64, "func"),
    (stt::SECTION as u64, "section"),
    (stt::CUDA_TEXTURE as u64, "texture"),
    (stt::CUDA_SURFACE as u64, "surface"),
    (stt::CUDA_OBJECT as u64, "cuda_object"),
];

/// Symbol bindings (`st_info >> 4`).
pub const SYMBOL_BINDINGS: NumberNames<u64> =
    &[(stb::LOCAL as u64, "local"), (stb::GLOBAL as u64, "global"), (stb::WEAK as u64, "weak")];

/// Bits of `st_other`.
pub const SYMBOL_OTHER: NumberNames<u64> = &[
    (0x01, "internal"),
    (0x04, "managed"),
    (0x10, "entry"),
    (0x20, "global"),
    (0x40, "shared"),
    (0x80, "constant"),
];

/// Program header types (`p_type`).
pub const SEGMENT_TYPES: NumberNames<u64> = &[(1, "load"), (6, "phdr")];

/// Bits of `p_flags`.
pub const SEGMENT_FLAGS: NumberNames<u64> = &[(4, "r"), (2, "w"), (1, "x")];

/// ELF file types (`e_type`).
pub const FILE_TYPES: NumberNames<u64> = &[(1, "rel"), (2, "exec"), (0xff00, "ewp")];

/// The name of `value` in `words`, else the number.
pub fn word<T: Copy + PartialEq + Into<u64>>(words: NumberNames<T>, value: T) -> String {
    match words.iter().find(|row| row.0 == value) {
        Some(row) => row.1.to_owned(),
        None => format!("{:#x}", value.into()),
    }
}

/// The number that [`word`] wrote as `text`.
pub fn number_of<T: Copy + Into<u64>>(words: NumberNames<T>, text: &str) -> Option<u64> {
    match words.iter().find(|row| row.1 == text) {
        Some(row) => Some(row.0.into()),
        None => number(text),
    }
}

/// The names of the bits of `value` joined by `+`, what has no name last; `0` for 0.
pub fn bits(words: NumberNames<u64>, value: u64) -> String {
    let mut left = value;
    let mut parts = Vec::new();
    for &(bit, name) in words {
        if left & bit != 0 {
            parts.push(name.to_owned());
            left &= !bit;
        }
    }
    if left != 0 || parts.is_empty() {
        parts.push(format!("{left:#x}"));
    }
    parts.join("+")
}

/// The number that [`bits`] wrote as `text`.
pub fn bits_of(words: NumberNames<u64>, text: &str) -> Option<u64> {
    text.split('+').try_fold(0, |value, part| Some(value | number_of(words, part)?))
}

/// Reads a number, decimal or with `0x`.
pub fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None if text.starts_with('+') => None,
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_reads_back() {
        for value in (0..0x200).chain([0x7000_0064, 0x7000_0086, 0x7000_00ff]) {
            assert_eq!(number_of(SECTION_TYPES, &word(SECTION_TYPES, value)), Some(value.into()));
        }
        for value in (0..256).chain([0x1000_0043, 0x10_0006]) {
            assert_eq!(bits_of(SECTION_FLAGS, &bits(SECTION_FLAGS, value)), Some(value));
            assert_eq!(bits_of(SYMBOL_OTHER, &bits(SYMBOL_OTHER, value)), Some(value));
        }
    }

    #[test]
    fn words_are_readable_and_nonsense_is_refused() {
        assert_eq!(bits(SECTION_FLAGS, 6), "alloc+exec");
        assert_eq!(bits(SYMBOL_OTHER, 0), "0x0");
        assert_eq!(bits_of(SYMBOL_OTHER, "entry+nonsense"), None);
        assert_eq!(number("0x+1"), None);
        assert_eq!(number("+1"), None);
    }
}
