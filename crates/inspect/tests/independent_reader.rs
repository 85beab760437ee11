//! goblin, which shares no code with culd-cubin, sees the same sections and symbols.

use culd_cubin::{Cubin, SymbolSection};
use goblin::elf::Elf;

#[allow(dead_code, reason = "other tests use the rest")]
mod common;

#[test]
fn goblin_agrees_on_sections_and_symbols() {
    let (mut sections, mut symbols) = (0, 0);
    for (path, bytes) in common::cubins() {
        let path = path.display();
        let cubin = Cubin::parse(&bytes).unwrap_or_else(|error| panic!("{path}: {error}"));
        let elf = Elf::parse(&bytes).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(cubin.header.e_type, elf.header.e_type, "{path}");
        assert_eq!(cubin.header.flags, elf.header.e_flags, "{path}");
        assert_eq!(cubin.sections.len(), elf.section_headers.len(), "{path}");
        for (index, (ours, theirs)) in cubin.sections.iter().zip(&elf.section_headers).enumerate() {
            let at = format!("{path}: section {index}");
            let name = elf.shdr_strtab.get_at(theirs.sh_name).unwrap();
            assert_eq!(ours.name, name.as_bytes(), "{at}");
            assert_eq!((ours.sh_type, ours.flags), (theirs.sh_type, theirs.sh_flags), "{at}");
            assert_eq!((ours.link, ours.info), (theirs.sh_link, theirs.sh_info), "{at}");
            assert_eq!(ours.size, theirs.sh_size, "{at}");
            assert_eq!(ours.align(), theirs.sh_addralign.max(1), "{at}");
            if !ours.data.is_empty() {
                let start = theirs.sh_offset as usize;
                assert_eq!(ours.data, &bytes[start..start + theirs.sh_size as usize], "{at}");
            }
        }
        assert_eq!(cubin.symbols.len(), elf.syms.len(), "{path}");
        for (index, (ours, theirs)) in cubin.symbols.iter().zip(&elf.syms).enumerate() {
            let at = format!("{path}: symbol {index}");
            let name = elf.strtab.get_at(theirs.st_name).unwrap();
            assert_eq!(ours.name, name.as_bytes(), "{at}");
            assert_eq!((ours.info, ours.other), (theirs.st_info, theirs.st_other), "{at}");
            assert_eq!((ours.value, ours.size), (theirs.st_value, theirs.st_size), "{at}");
            let section = match ours.section {
                SymbolSection::Undefined => 0,
                SymbolSection::Absolute => 0xfff1,
                SymbolSection::Common => 0xfff2,
                SymbolSection::In(section) => section.0 as usize,
            };
            assert_eq!(section, theirs.st_shndx, "{at}");
        }
        sections += cubin.sections.len();
        symbols += cubin.symbols.len();
    }
    assert!(sections > 200 && symbols > 200, "{sections} sections, {symbols} symbols");
}

#[test]
fn goblin_agrees_on_relocations() {
    let mut records = 0;
    for (path, bytes) in common::cubins() {
        let path = path.display();
        let cubin = Cubin::parse(&bytes).unwrap();
        let elf = Elf::parse(&bytes).unwrap();
        for (index, theirs) in &elf.shdr_relocs {
            let ours = cubin.sections[*index].relocations();
            assert_eq!(ours.len(), theirs.len(), "{path}: section {index}");
            for (ours, theirs) in ours.iter().zip(theirs.iter()) {
                assert_eq!(ours.offset, theirs.r_offset, "{path}: section {index}");
                assert_eq!(ours.symbol.0 as usize, theirs.r_sym, "{path}: section {index}");
                assert_eq!(ours.kind, theirs.r_type, "{path}: section {index}");
                assert_eq!(ours.addend, theirs.r_addend.unwrap_or(0), "{path}: section {index}");
                records += 1;
            }
        }
    }
    assert!(records > 50, "{records} records");
}
