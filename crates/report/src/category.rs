//! The category of a section.
//!
//! In: its name, type and flags. Out: its [`Category`].

use culd_cubin::elf::{shf, sht};

use crate::data::Category;

/// The category of the section `name`.
pub(crate) fn category(name: &[u8], sh_type: u32, flags: u64) -> Category {
    let begins = |prefix: &str| name.starts_with(prefix.as_bytes());
    match sh_type {
        _ if begins(".nv.capmerc") => Category::Mercury,
        _ if begins(".text.") || begins(".nv.uft") => Category::Code,
        sht::REL | sht::RELA | sht::MERCURY_RELA => Category::Relocations,
        sht::CUDA_RESOLVED_RELA | sht::MERCURY_RESOLVED_RELA => Category::Relocations,
        sht::STRTAB | sht::SYMTAB | sht::SYMTAB_SHNDX | sht::MERCURY_SYMTAB => Category::Symbols,
        sht::NOTE => Category::Notes,
        _ if begins(".rel") || begins(".nv.merc.rel") => Category::Relocations,
        _ if begins(".nv.constant") || begins(".nv.merc.nv.constant") => Category::Constants,
        _ if begins(".nv.global.init") || begins(".nv.merc.nv.global.init") => Category::Data,
        _ if begins(".nv.udt") => Category::Data,
        _ if begins(".nv.global") => Category::Zeroed,
        _ if begins(".nv.shared") || begins(".nv_debug.shared") => Category::Shared,
        _ if begins(".nv.info") || begins(".nv.merc.nv.info") => Category::Attributes,
        _ if begins(".nv.compat") => Category::Attributes,
        _ if begins(".debug_") || begins(".nv_debug_") => Category::Debug,
        _ if begins(".nv.merc.debug_") || begins(".nv.merc.nv_debug_") => Category::Debug,
        _ if begins(".nv.callgraph") || begins(".nv.prototype") => Category::Calls,
        _ if begins(".nv.merc.nv.callgraph") || begins(".nv.merc.nv.prototype") => Category::Calls,
        _ if begins(".nv.rel.action") => Category::Relocations,
        sht::PROGBITS if flags & shf::EXECINSTR != 0 => Category::Code,
        _ => Category::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_of_both_halves_are_known() {
        let of = |name: &str, sh_type| category(name.as_bytes(), sh_type, 0);
        assert_eq!(of(".text.k", sht::PROGBITS), Category::Code);
        assert_eq!(of(".nv.capmerc.text.k", sht::MERCURY_CODE), Category::Mercury);
        assert_eq!(of(".nv.constant0.k", sht::PROGBITS), Category::Constants);
        assert_eq!(of(".nv.global", sht::NOBITS), Category::Zeroed);
        assert_eq!(of(".nv.global.init", sht::PROGBITS), Category::Data);
        assert_eq!(of(".nv.merc.rela.text.k", sht::MERCURY_RELA), Category::Relocations);
        assert_eq!(of(".nv.merc.symtab", sht::MERCURY_SYMTAB), Category::Symbols);
        assert_eq!(of(".nv.info.k", sht::CUDA_INFO), Category::Attributes);
        assert_eq!(of(".debug_line", sht::PROGBITS), Category::Debug);
        assert_eq!(of(".note.nv.tkinfo", sht::NOTE), Category::Notes);
        assert_eq!(of(".what", sht::PROGBITS), Category::Other);
    }
}
