//! Malformed inputs: each is reported in one line that names the file and the place, and nothing is
//! written.
//!
//! In: recorded inputs with one field overwritten. Out: no report, or the damage without the right
//! message. Guaranteed: without the damage the same files link, so the message is about the damage.

use culd_link::Severity;
use culd_testkit::fixtures::case;
use culd_tests::elf::*;
use culd_tests::{PROGRAM, command, lines, link, link_options};
use std::fs;
use std::path::Path;

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");
/// A case with every kind of section, and records of all of them in its first file.
const CASE: &str = "headers-and-order/every-section-90";

type NamedBytes = Vec<(String, Vec<u8>)>;

/// The name of a damage, its function, and the line after the name of the file.
type BadInput = (&'static str, fn(&mut Editor), &'static str);

#[rustfmt::skip]
const DAMAGES: &[BadInput] = &[
    // The file header.
    ("no ELF", |e| { e.header((0, 4), 0x4643_4c45); }, "offset 0x0: no ELF magic number"),
    ("32-bit class", |e| { e.header((4, 1), 1); }, "offset 0x4: ELF class 1, expected 64-bit (2)"),
    ("big endian", |e| { e.header((5, 1), 2); }, "offset 0x5: ELF data encoding 2, expected little endian (1)"),
    ("x86-64", |e| { e.header((18, 2), 62); }, "offset 0x12: ELF machine 62, expected 190 (CUDA)"),
    ("no section headers", |e| { e.header(E_SHOFF, 0); }, "offset 0x28: no section header table"),
    ("section headers past the end", |e| { e.header(E_SHOFF, 1 << 40); }, "offset 0x28: section header table at 0x10000000000, past the end"),
    ("section headers at the end of all", |e| { e.header(E_SHOFF, u64::MAX); }, "offset 0x28: section header table at 0xffffffffffffffff, past the end"),
    ("too many sections", |e| { e.header(E_SHNUM, 0xfeff); }, "section header table of 65279 entries runs past the end"),
    ("section headers of another size", |e| { e.header(E_SHENTSIZE, 40); }, "offset 0x3a: section headers are not 64 bytes long"),
    ("names in no section", |e| { e.header(E_SHSTRNDX, 0x200); }, "offset 0x3e: section name table index 512 is out of range"),

    // Section headers.
    ("section past the end", |e| { e.section(".text.first", SH_OFFSET, 0x10_0000); }, "section '.text.first', offset 0x0: 0x280 bytes at file offset 0x100000 run past the end of the file"),
    ("section with a huge size", |e| { e.section(".text.first", SH_SIZE, u64::MAX); }, "section '.text.first', offset 0x0: 0xffffffffffffffff bytes at file offset"),
    ("offset and size overflow", |e| { e.section(".nv.info", SH_OFFSET, u64::MAX - 8); }, "section '.nv.info', offset 0x0: "),
    ("name past the end", |e| { e.section(".nv.info", SH_NAME, 0x7fff_ffff); }, "at 0x7fffffff is not a terminated string"),
    ("sections overlap", |e| { let at = e.content(".text.first").start as u64; e.section(".nv.constant3", SH_OFFSET, at); }, "overlaps section"),
    ("section overlaps the headers", |e| { let at = e.get(0, E_SHOFF); e.section(".nv.constant3", SH_OFFSET, at); }, "overlaps"),
    ("section overlaps the ELF header", |e| { e.section(".nv.constant3", SH_OFFSET, 8); }, "offset 0x8: section '.nv.constant3' overlaps the ELF header"),
    ("huge alignment", |e| { e.section(".text.first", SH_ADDRALIGN, 1 << 62); }, "section '.text.first', offset 0x0: alignment 0x4000000000000000 is not usable"),
    ("alignment is no power of two", |e| { e.section(".text.first", SH_ADDRALIGN, 24); }, "section '.text.first', offset 0x0: alignment 0x18 is not usable"),
    ("sh_link of the symbol table", |e| { e.section(".symtab", SH_LINK, 0x7fff); }, "section '.symtab', offset 0x0: sh_link names section 32767, not a string table"),
    ("sh_link of the symbol table is code", |e| { let text = e.section_index(".text.first") as u64; e.section(".symtab", SH_LINK, text); }, "section '.symtab', offset 0x0: sh_link names section"),
    ("sh_info of attributes", |e| { e.section(".nv.info.first", SH_INFO, 0x7fff); }, "section '.nv.info.first', offset 0x0: sh_info names section 32767, which does not exist"),
    ("sh_info of relocations", |e| { e.section(".rela.text.first", SH_INFO, 0x7fff); }, "section '.rela.text.first', offset 0x0: sh_info names section 32767, which does not exist"),
    ("relocations of nothing", |e| { e.section(".rela.text.first", SH_INFO, 0); }, "section '.rela.text.first', offset 0x0: sh_info names section 0, which does not exist"),
    ("half a symbol", |e| { e.section(".symtab", SH_SIZE, 24 * 3 + 8); }, "section '.symtab', offset 0x48: size 0x50 is no multiple of 24"),
    ("half a relocation", |e| { e.section(".rela.text.first", SH_SIZE, 24 + 4); }, "section '.rela.text.first', offset 0x18: size 0x1c is no multiple of 24"),
    ("half a call", |e| { e.section(".nv.callgraph", SH_SIZE, 12); }, "section '.nv.callgraph', offset 0x8: size 0xc is no multiple of 8"),
    ("symbols of another size", |e| { e.section(".symtab", SH_ENTSIZE, 25); }, "section '.symtab', offset 0x0: entries of 0x19 bytes, expected 0x18"),
    ("symbols of no size", |e| { e.section(".symtab", SH_ENTSIZE, 0); }, "section '.symtab', offset 0x0: entries of 0x0 bytes, expected 0x18"),
    ("relocations of another size", |e| { e.section(".rela.text.first", SH_ENTSIZE, 79); }, "section '.rela.text.first', offset 0x0: entries of 0x4f bytes, expected 0x18"),
    ("calls of another size", |e| { e.section(".nv.callgraph", SH_ENTSIZE, 16); }, "section '.nv.callgraph', offset 0x0: entries of 0x10 bytes, expected 0x8"),
    ("prototypes of another size", |e| { e.section(".nv.prototype", SH_ENTSIZE, 0); }, "section '.nv.prototype', offset 0x0: entries of 0x0 bytes, expected 0x8"),
    ("sh_link of prototypes", |e| { e.section(".nv.prototype", SH_LINK, 0x7fff); }, "section '.nv.prototype', offset 0x0: sh_link names section 32767, which does not exist"),
    ("code of no function", |e| { e.section(".text.first", SH_INFO, 1); }, "section '.text.first', offset 0x0: sh_info names no function of this section"),
    ("code that a section owns", |e| { e.section(".text.shared_helper", SH_FLAGS, 0x46); e.section(".text.shared_helper", SH_INFO, 2); }, "section '.text.shared_helper', offset 0x0: sh_info names no function of this section"),
    ("parameters that are not allocated", |e| { e.section(".nv.constant0.first", SH_FLAGS, 0x40); }, "section '.nv.constant0.first', offset 0x0: flags: it is in memory, but not allocated"),
    ("parameters of another kernel", |e| { let other = e.section_index(".text.shared_helper") as u64; e.section(".nv.constant0.first", SH_INFO, other); }, "section '.nv.constant0.first', offset 0x0: sh_info names something else than the code of its function"),
    ("parameters of no code", |e| { let other = e.section_index(".nv.constant3") as u64; e.section(".nv.constant0.first", SH_INFO, other); }, "section '.nv.constant0.first', offset 0x0: sh_info names something else than the code of its function"),
    ("parameters of no kernel", |e| { e.symbol("first", ST_OTHER, 0); }, "section '.nv.constant0.first', offset 0x0: it has the parameters of a function that is no kernel"),
    ("attributes of another name", |e| { let name = e.content(".shstrtab").start; let at = e.bytes[name..].windows(14).position(|w| w == b".nv.info.first").expect("the name"); e.bytes[name + at + 13] = b'x'; }, "section '.nv.info.firsx', offset 0x0: sh_info names something else than the code of its function"),
    ("a note of another name", |e| { let name = e.content(".shstrtab").start; let at = e.bytes[name..].windows(15).position(|w| w == b".note.nv.cuinfo").expect("the name"); e.bytes[name + at + 9] = b'x'; }, "'.note.nv.xuinfo' of type 0x7 is of an unknown kind"),
    ("unknown section type", |e| { e.section(".nv.info", SH_TYPE, 0x7000_0050); }, "section '.nv.info' of type 0x70000050 is of an unknown kind"),
    ("two symbol tables", |e| { e.section(".rela.text.first", SH_TYPE, 2); }, "the file has more than one symbol table"),

    // Symbols.
    ("symbol in no section", |e| { e.symbol("counter", ST_SHNDX, 0x7fff); }, "which does not exist"),
    ("symbol with a name past the end", |e| { e.symbol("counter", ST_NAME, 0x7fff_ffff); }, "at 0x7fffffff is not a terminated string"),
    ("variable outside its section", |e| { e.symbol("counter", ST_VALUE, 0x1000); }, "section '.nv.global.init', offset 0x1000: symbol"),
    ("variable of huge size", |e| { e.symbol("counter", ST_SIZE, u64::MAX); }, "section '.nv.global.init', offset 0x0: symbol"),
    ("function outside its section", |e| { e.symbol("first", ST_SIZE, 0x1_0000); }, "section '.text.first', offset 0x0: symbol"),
    ("function in data", |e| { let data = e.section_index(".nv.global.init") as u64; e.symbol("first", ST_SHNDX, data); }, "section '.nv.global.init', offset 0x0: symbol"),
    ("shared variable with a huge alignment", |e| { e.symbol("pool", ST_VALUE, 1 << 40); }, "section '.symtab', offset 0x1b0: symbol 18 ('pool') has alignment"),
    ("shared variable with an odd alignment", |e| { e.symbol("pool", ST_VALUE, 24); }, "section '.symtab', offset 0x1b0: symbol 18 ('pool') has alignment"),
    ("absolute variable", |e| { e.symbol("counter", ST_SHNDX, 0xfff1); }, "section '.symtab', offset 0x240: symbol 24 ('counter') is absolute"),
    ("absolute function", |e| { e.symbol("first", ST_SHNDX, 0xfff1); }, "section '.symtab', offset 0x288: symbol 27 ('first') is absolute"),
    ("tentative function", |e| { e.symbol("from_b", ST_SHNDX, 0xfff2); }, "section '.symtab', offset 0x2a0: symbol 28 ('from_b') is common, which only variables in global memory can be"),
    ("tentative section", |e| { e.inside(".symtab", (24 + 6, 2), 0xfff2); }, "section '.symtab', offset 0x18: symbol 1 ('.note.nv.tkinfo') is common, which only variables in global memory can be"),
    ("tentative variable with an odd alignment", |e| { e.symbol("zeroed", ST_SHNDX, 0xfff2); e.symbol("zeroed", ST_VALUE, 6); }, "section '.symtab', offset 0x258: symbol 25 ('zeroed') has alignment 0x6 and size 0x18, which are not usable"),
    ("tentative variable of huge size", |e| { e.symbol("zeroed", ST_SHNDX, 0xfff2); e.symbol("zeroed", ST_SIZE, u64::MAX - 7); }, "section '.symtab', offset 0x258: symbol 25 ('zeroed') has alignment 0x1 and size 0xfffffffffffffff8, which are not usable"),
    ("variable without a name", |e| { e.symbol("counter", ST_NAME, 0); }, "section '.symtab', offset 0x240: symbol 24 ('') has no name"),
    ("variable in another memory", |e| { e.symbol("counter", ST_OTHER, 0x80); }, "section '.nv.global.init', offset 0x"),
    ("unified table that is a function", |e| { e.symbol("__UFT", ST_INFO, 0x22); }, "('__UFT') has type 2 and st_other 0x0, which no table has"),
    ("strings do not end", |e| { let end = e.content(".strtab").end; e.bytes[end - 2..end].fill(b'x'); }, "is not a terminated string"),

    // Relocations.
    ("relocation of no symbol", |e| { e.inside(".rela.text.first", (12, 4), 0x7fff); }, "section '.rela.text.first', offset 0x0: relocation names symbol 32767, which does not exist"),
    ("relocation past the end", |e| { e.inside(".rela.text.first", (0, 8), 0x280); }, "section '.rela.text.first', offset 0x0: relocation at 0x280 is past the end of its section"),
    ("relocation across the end", |e| { e.inside(".rela.text.first", (0, 8), 0x27c); }, "section '.rela.text.first', offset 0x0: R_CUDA_ABS32_HI_32 at 0x27c runs past the end of section '.text.first' (0x280)"),
    ("relocation far past the end", |e| { e.inside(".rela.text.first", (24, 8), u64::MAX); }, "section '.rela.text.first', offset 0x18: relocation at 0xffffffffffffffff is past the end of its section"),
    ("relocation of an unknown type", |e| { e.inside(".rela.text.first", (8, 4), 0xfff); }, "section '.rela.text.first', offset 0x0: relocation type 0xfff is unknown"),

    ("relocation of the symbol behind the last", |e| { let count = e.content(".symtab").len() as u64 / 24; e.inside(".rela.text.first", (12, 4), count); }, "section '.rela.text.first', offset 0x0: relocation names symbol 30, which does not exist"),
    ("relocation of the first unknown type", |e| { e.inside(".rela.text.first", (8, 4), 117); }, "section '.rela.text.first', offset 0x0: relocation type 0x75 is unknown"),
    ("relocation of a type of Mercury", |e| { e.inside(".rela.text.first", (24 + 8, 4), 0x10003); }, "section '.rela.text.first', offset 0x18: relocation type 0x10003 is unknown"),
    ("field that crosses the end by some bits", |e| { e.inside(".rela.text.first", (0, 8), 0x27a); e.inside(".rela.text.first", (8, 4), ABS32_23); }, "section '.rela.text.first', offset 0x0: R_CUDA_ABS32_23 at 0x27a runs past the end of section '.text.first' (0x280)"),
    ("one bit of a field behind the end", |e| { e.inside(".rela.text.first", (0, 8), 0x27c); e.inside(".rela.text.first", (8, 4), BITS_31_TO_36); }, "section '.rela.text.first', offset 0x0: R_CUDA_6_31 at 0x27c runs past the end of section '.text.first' (0x280)"),
    ("descriptor of a variable", |e| { e.inside(".rela.text.first", (8, 4), FUNC_DESC_64); }, "section '.rela.text.first', offset 0x130: R_CUDA_FUNC_DESC_64: its type describes a function, but its symbol is none"),
    ("descriptor of a shared variable", |e| { e.inside(".rela.text.first", (2 * 24 + 8, 4), FUNC_DESC_64); }, "section '.rela.text.first', offset 0xc0: R_CUDA_FUNC_DESC_64: its type describes a function, but its symbol is none"),
    ("descriptor of a constant", |e| { e.inside(".rela.text.first", (9 * 24 + 8, 4), FUNC_DESC_64); }, "section '.rela.text.first', offset 0x10: R_CUDA_FUNC_DESC_64: its type describes a function, but its symbol is none"),
    ("descriptor of a section", |e| { e.inside(".rela.debug_frame", (2 * 24 + 8, 4), FUNC_DESC_64); }, "section '.rela.debug_frame', offset 0xa4: R_CUDA_FUNC_DESC_64: its type describes a function, but its symbol is none"),
    ("bank of a shared variable", |e| { e.inside(".rela.text.first", (2 * 24 + 8, 4), CONST_FIELD19_23); }, "section '.rela.text.first', offset 0xc0: R_CUDA_CONST_FIELD19_23: its type needs a constant bank, but its symbol is in none"),
    ("slot of a constant", |e| { e.inside(".rela.text.first", (9 * 24 + 8, 4), TEX_SLOT); }, "section '.rela.text.first', offset 0x10: R_CUDA_TEX_SLOT: its type numbers a slot, but its symbol is no texture"),

    // Attributes.
    ("attribute cut short", |e| { let at = e.content(".nv.info").len() as u64; e.section(".nv.info", SH_SIZE, at - 4); }, "section '.nv.info', offset 0x3c: attribute 0x11 of 8 bytes runs past the section's end"),
    ("attribute head cut short", |e| { let at = e.content(".nv.info").len() as u64; e.section(".nv.info", SH_SIZE, at - 10); }, "section '.nv.info', offset 0x3c: attribute record is cut short"),
    ("attribute of an unknown format", |e| { e.inside(".nv.info", (0, 1), 9); }, "section '.nv.info', offset 0x0: attribute 0x2f has unknown format 9"),
    ("attribute larger than its section", |e| { e.inside(".nv.info", (2, 2), 0xffff); }, "section '.nv.info', offset 0x0: attribute 0x2f of 65535 bytes runs past the section's end"),
    ("attribute shorter than its kind", |e| { e.inside(".nv.info", (2, 2), 4); }, "section '.nv.info', offset 0x0: attribute 0x2f has 4 bytes, expected 8"),
    ("attribute longer than its kind", |e| { e.inside(".nv.info", (2, 2), 20); }, "section '.nv.info', offset 0x0: attribute 0x2f has 20 bytes, expected 8"),
    ("parameters in code", |e| { let text = e.symbol_index("first") as u64; let info = e.content(".nv.info.first"); let at = e.bytes[info].chunks_exact(4).position(|word| word == [4, 0x0a, 8, 0]).expect("the record"); e.inside(".nv.info.first", (4 * at as u64 as usize + 4, 4), text); }, "'first' is no bank of parameters"),
    ("attribute of no symbol", |e| { e.inside(".nv.info", (4, 4), 0x7fff); }, "section '.nv.info', offset 0x0: attribute 0x2f names symbol 32767, which does not exist"),

    // Call graph and prototypes.
    ("caller does not exist", |e| { e.inside(".nv.callgraph", (8, 4), 0x7fff); }, "section '.nv.callgraph', offset 0x"),
    ("callee does not exist", |e| { e.inside(".nv.callgraph", (12, 4), 0x7fff); }, "section '.nv.callgraph', offset 0x"),
    ("callee is no function", |e| { let at = e.symbol_index("counter") as u64; e.inside(".nv.callgraph", (12, 4), at); }, "section '.nv.callgraph', offset 0x"),
    ("unknown list of calls", |e| { e.inside(".nv.callgraph", (4, 4), 5); }, "section '.nv.callgraph', offset 0x0: unknown call-graph list 5"),
    ("call before the first list", |e| { e.inside(".nv.callgraph", (0, 4), 3); }, "section '.nv.callgraph', offset 0x0: call-graph record before the first list"),
    ("prototype of no function", |e| { e.inside(".nv.prototype", (0, 4), 0x7fff); }, "section '.nv.prototype', offset 0x"),
    ("prototype is no string", |e| { e.inside(".nv.prototype", (4, 4), 0x7fff_ffff); }, "section '.nv.prototype', offset 0x"),

    // Notes.
    ("note is cut short", |e| { e.section(".note.nv.cuinfo", SH_SIZE, 16); }, "section '.note.nv.cuinfo', offset 0x0: no driver record (type 1000) in the note"),
    ("note of another type", |e| { e.inside(".note.nv.cuinfo", (8, 4), 7); }, "section '.note.nv.cuinfo', offset 0x0: no driver record (type 1000) in the note"),
    ("note with a huge name", |e| { e.inside(".note.nv.cuinfo", (0, 4), 0xffff_fffc); }, "section '.note.nv.cuinfo', offset 0x0: no driver record (type 1000) in the note"),
];

/// Types of relocations, by number: records are damaged.
const ABS64: u64 = 2;
const ABS32_23: u64 = 12;
/// Bits 26 to 57.
const ABS32_26: u64 = 5;
const TEX_SLOT: u64 = 19;
const CONST_FIELD19_23: u64 = 25;
const BITS_31_TO_36: u64 = 27;
const FUNC_DESC_64: u64 = 35;

/// Its second file has records without addends.
const REL_CASE: &str = "relocations/rel-75";

/// Damage to records without addends, whose places hold the addends.
#[rustfmt::skip]
const REL_DAMAGES: &[BadInput] = &[
    ("two relocation sections of a type", |e| { let (header, name) = (e.section_header(".rela.text.kernel"), e.get(e.section_header(".rel.text.kernel"), SH_NAME)); e.put(header, SH_NAME, name).put(header, SH_TYPE, 9).put(header, SH_ENTSIZE, 16).put(header, SH_SIZE, 16); }, "section '.rel.text.kernel', offset 0x0: what it patches has another relocation section of this type"),
    ("half a record", |e| { e.section(".rel.nv.global.init", SH_SIZE, 16 + 8); }, "section '.rel.nv.global.init', offset 0x10: size 0x18 is no multiple of 16"),
    ("no symbol", |e| { e.inside(".rel.nv.global.init", (16 + 12, 4), 0x7fff); }, "section '.rel.nv.global.init', offset 0x10: relocation names symbol 32767, which does not exist"),
    ("past the end", |e| { e.inside(".rel.nv.global.init", (0, 8), 0x810); }, "section '.rel.nv.global.init', offset 0x0: relocation at 0x810 is past the end of its section"),
    ("across the end", |e| { e.inside(".rel.nv.global.init", (0, 8), 0x80d); }, "section '.rel.nv.global.init', offset 0x0: R_CUDA_32 at 0x80d runs past the end of section '.nv.global.init' (0x810)"),
    ("a field across the end", |e| { e.inside(".rel.nv.global.init", (0, 8), 0x80a); e.inside(".rel.nv.global.init", (8, 4), ABS32_23); }, "section '.rel.nv.global.init', offset 0x0: R_CUDA_ABS32_23 at 0x80a runs past the end of section '.nv.global.init' (0x810)"),
    ("an unknown type", |e| { e.inside(".rel.nv.global.init", (8, 4), 0x1_0001); }, "section '.rel.nv.global.init', offset 0x0: relocation type 0x10001 is unknown"),
    ("a descriptor of a constant", |e| { e.inside(".rel.nv.global.init", (8, 4), FUNC_DESC_64); }, "section '.rel.nv.global.init', offset 0x10: R_CUDA_FUNC_DESC_64: its type describes a function, but its symbol is none"),
    ("records of RELA", |e| { e.section(".rel.nv.global.init", SH_TYPE, 4); }, "section '.rel.nv.global.init', offset 0x0: entries of 0x10 bytes, expected 0x18"),
];

/// The same for sm_100.
const MERCURY_CASE: &str = "headers-and-order/every-section-100";

/// Damage to parts that only files of sm_100 and later have.
#[rustfmt::skip]
const MERCURY_DAMAGES: &[BadInput] = &[
    ("Mercury code of no section", |e| { e.inside(".nv.capmerc.text.first", (0, 4), 0x7fff); }, "section '.nv.capmerc.text.first', offset 0x0: it is for section 32767, which is not its machine code"),
    ("Mercury code of another section", |e| { let other = e.section_index(".nv.info") as u64; e.inside(".nv.capmerc.text.first", (0, 4), other); }, "section '.nv.capmerc.text.first', offset 0x0: it is for section"),
    ("Mercury code of another form", |e| { e.inside(".nv.capmerc.text.first", (4, 4), 7); }, "section '.nv.capmerc.text.first', offset 0x4: "),
    ("too many records", |e| { e.inside(".nv.capmerc.text.first", (8, 4), 0xffff_ffff); }, "section '.nv.capmerc.text.first', offset 0x8: "),
    ("no records", |e| { e.inside(".nv.capmerc.text.first", (8, 4), 0); }, "section '.nv.capmerc.text.first', offset 0xc: "),
    ("Mercury code is cut short", |e| { e.section(".nv.capmerc.text.first", SH_SIZE, 30); }, "section '.nv.capmerc.text.first', offset 0x"),
    ("no head", |e| { e.section(".nv.capmerc.text.first", SH_SIZE, 7); }, "section '.nv.capmerc.text.first', offset 0x0: "),
    ("no Mercury symbols", |e| { e.section(".nv.merc.symtab", SH_TYPE, 1); }, "offset 0x0: relocation names symbol"),
    ("half a Mercury symbol", |e| { e.section(".nv.merc.symtab", SH_SIZE, 24 * 3 + 8); }, "section '.nv.merc.symtab', offset 0x48: size 0x50 is no multiple of 24"),
    ("a Mercury symbol is missing", |e| { let size = e.content(".nv.merc.symtab").len() as u64; e.section(".nv.merc.symtab", SH_SIZE, size - 24); }, "section '.nv.merc.rela.text.first', offset 0xa8: relocation names symbol 28, which does not exist"),
    ("symbol of another type", |e| { e.inside(".nv.merc.symtab", (28, 1), 1); }, "section '.nv.merc.symtab', offset 0x18: symbol 1 differs from"),
    ("symbol in another section", |e| { e.inside(".nv.merc.symtab", (30, 2), 1); }, "section '.nv.merc.symtab', offset 0x18: symbol 1 differs from"),
    ("variable in another place", |e| { let at = 24 * e.symbol_index("counter") + 8; e.inside(".nv.merc.symtab", (at, 8), 8); }, "differs from 'counter' in .symtab"),
    ("no twin in Mercury", |e| { e.section(".nv.merc.debug_frame", SH_FLAGS, 0); }, "cannot be linked: section '.nv.merc.debug_frame' of type 0x1 is of an unknown kind"),
    ("no twin in machine code", |e| { e.section(".debug_frame", SH_FLAGS, 0x1000_0000); }, "'.debug_frame'"),
    ("relocation of another half's type", |e| { e.inside(".nv.merc.rela.text.first", (8, 4), 2); }, "section '.nv.merc.rela.text.first', offset 0x0: relocation type 0x2 is unknown"),
    ("relocation past Mercury code", |e| { e.inside(".nv.merc.rela.debug_frame", (0, 8), 0x10_0000); }, "section '.nv.merc.rela.debug_frame', offset 0x0: "),
    ("relocation of no Mercury symbol", |e| { e.inside(".nv.merc.rela.text.first", (12, 4), 0x7fff); }, "section '.nv.merc.rela.text.first', offset 0x0: relocation names symbol 32767, which does not exist"),
    ("frames in another form", |e| { e.inside(".debug_frame", (0, 4), 4); }, "section '.debug_frame', offset 0x0: an entry is not in the 64-bit form, or runs past the end"),
    ("frame past the end", |e| { e.inside(".nv.merc.debug_frame", (4, 8), 1 << 40); }, "section '.debug_frame', offset 0x0: an entry is not in the 64-bit form, or runs past the end"),
];

fn good() -> NamedBytes {
    inputs_of(CASE)
}

fn inputs_of(name: &str) -> NamedBytes {
    case::named(name).and_then(|case| case.inputs()).expect("the recorded case")
}

fn damaged(damage: fn(&mut Editor)) -> NamedBytes {
    damaged_inputs(good(), damage)
}

fn damaged_inputs(mut inputs: NamedBytes, damage: fn(&mut Editor)) -> NamedBytes {
    let mut editor = Editor::new(&inputs[0].1);
    damage(&mut editor);
    inputs[0].1 = editor.bytes;
    inputs
}

/// The one line of a refused link; an error describes any other result.
fn refused(inputs: &NamedBytes) -> Result<String, String> {
    refused_for("sm_90", inputs)
}

fn refused_for(arch: &str, inputs: &NamedBytes) -> Result<String, String> {
    let options = link_options(&[format!("-arch={arch}")]).expect("options");
    let outcome = link(&options, inputs, 1).expect("threads");
    let lines = lines(&outcome);
    match lines.as_slice() {
        _ if outcome.image.is_some() => Err(format!("links, saying {lines:?}")),
        [line] if outcome.diagnostics[0].severity == Severity::Fatal => Ok(line.clone()),
        _ => Err(format!("not one fatal line: {lines:?}")),
    }
}

#[test]
fn the_undamaged_files_link() {
    assert!(refused(&good()).is_err_and(|what| what == "links, saying []"));
}

#[test]
fn every_damage_is_reported_in_one_line_with_its_place() {
    all_reported("a.cubin", DAMAGES, |damage| refused(&damaged(damage)));
}

#[test]
fn every_damage_of_a_mercury_half_is_reported_in_one_line_with_its_place() {
    let good = inputs_of(MERCURY_CASE);
    assert!(refused_for("sm_100", &good).is_err_and(|what| what == "links, saying []"));
    all_reported("a.cubin", MERCURY_DAMAGES, |damage| {
        refused_for("sm_100", &damaged_inputs(good.clone(), damage))
    });
}

#[test]
fn every_damage_of_records_without_addends_is_reported_in_one_line_with_its_place() {
    let mut good = inputs_of(REL_CASE);
    good.reverse();
    assert!(refused_for("sm_75", &good).is_err_and(|what| what == "links, saying []"));
    all_reported("places.cubin", REL_DAMAGES, |damage| {
        refused_for("sm_75", &damaged_inputs(good.clone(), damage))
    });
}

/// The address of a function is left to the driver, but a relocation of no symbol would be applied
/// at once.
#[test]
fn compressed_code_of_jump_slots_is_not_patched() {
    let inputs = damaged_inputs(inputs_of("unified/called-100"), |editor| {
        editor.inside(".nv.merc.rela.nv.uft.rel.uf", (12, 4), 0);
    });
    let options = link_options(&["-arch=sm_100".to_owned(), "-r".to_owned()]).expect("options");
    let outcome = link(&options, &inputs, 1).expect("threads");
    assert!(outcome.image.is_none());
    let message = lines(&outcome).concat();
    assert!(message.contains("offset 0x0: Mercury code of a jump slot is compressed"), "{message}");
}

/// The end of a bank that no literal names is not copied.
#[test]
fn a_symbol_behind_the_literals_of_its_bank_is_refused() {
    let mut inputs = inputs_of("literals/replaced-twice-86");
    assert!(refused_for("sm_86", &inputs).is_err_and(|what| what == "links, saying []"));
    let strong = inputs.iter_mut().find(|(name, _)| name == "strong.cubin").expect("a file");
    let mut editor = Editor::new(&strong.1);
    editor.symbol("k.const_opt.24.32", ST_OTHER, 0x80);
    strong.1 = editor.bytes;
    let line = refused_for("sm_86", &inputs).expect("refused");
    assert!(line.contains("('k.const_opt.24.32') is behind the literals of its bank"), "{line}");
}

#[test]
fn an_array_without_size_has_a_usable_alignment() {
    let good = inputs_of("shared/dynamic-aligned-90");
    assert!(refused(&good).is_err_and(|what| what == "links, saying []"));
    let damaged = damaged_inputs(good, |e| {
        e.symbol("d128", ST_VALUE, i64::MAX as u64);
    });
    let line = refused(&damaged).expect("refused");
    assert!(line.contains("'a.cubin'") && line.contains("alignment 0x7fffffffffffffff"), "{line}");
}

/// Compilers accept alignments up to 2^31 (case global/large-alignments); the file is too large.
#[test]
fn an_array_has_any_alignment_that_a_compiler_takes() {
    let aligned = |align: u64| {
        let mut inputs = inputs_of("shared/dynamic-aligned-90");
        let mut editor = Editor::new(&inputs[0].1);
        editor.symbol("d128", ST_VALUE, align);
        inputs[0].1 = editor.bytes;
        inputs
    };
    let options = link_options(&["-arch=sm_90".to_owned()]).expect("options");
    let image = link(&options, &aligned(1 << 20), 1).expect("threads").image.expect("links");
    let output = Editor::new(&image);
    assert_eq!(output.get(output.section_header(".nv.shared.ka"), SH_ADDRALIGN), 1 << 20);
    let line = refused(&aligned(1 << 31)).expect("refused");
    assert!(line.contains("Output too large"), "{line}");
}

#[test]
fn a_function_in_code_that_another_file_shortens_is_refused() {
    let good = inputs_of("attributes/externs-one-kernel-75");
    assert!(refused_for("sm_75", &good).is_err_and(|what| what == "links, saying []"));
    let mut inputs = good;
    let mut editor = Editor::new(&inputs[2].1);
    let text = editor.section_index(".text.heap") as u64;
    let own = editor.section_index(".text.taken") as u64;
    editor.symbol("taken", ST_SHNDX, text);
    // Its code belongs to another function now.
    let other = editor.symbol_index("vprintf") as u64;
    editor.symbol("vprintf", ST_SHNDX, own);
    editor.section(".text.taken", SH_INFO, other);
    inputs[2].1 = editor.bytes;
    let line = refused_for("sm_75", &inputs).expect("refused");
    assert!(line.contains("'b.cubin'") && line.contains("function 'taken' is in code"), "{line}");
}

#[test]
fn fields_may_end_with_their_section() {
    for (at, kind) in [(0x279, ABS32_23), (0x278, ABS32_26), (0x27c, 1), (0x278, ABS64)] {
        let mut inputs = good();
        let mut editor = Editor::new(&inputs[0].1);
        editor.inside(".rela.text.first", (2 * 24, 8), at);
        editor.inside(".rela.text.first", (2 * 24 + 8, 4), kind);
        inputs[0].1 = editor.bytes;
        assert_eq!(refused(&inputs), Err("links, saying []".to_owned()), "{kind} at {at:#x}");
    }
}

fn all_reported(
    file: &str,
    damages: &[BadInput],
    refused: impl Fn(fn(&mut Editor)) -> Result<String, String>,
) {
    let mut wrong = Vec::new();
    for (name, damage, place) in damages {
        match refused(*damage) {
            Ok(line) if !line.contains(&format!("'{file}'")) => {
                wrong.push(format!("{name}: no file: {line}"))
            }
            Ok(line) if !line.contains(place) => {
                wrong.push(format!("{name}: {line}\n    not {place}"))
            }
            Ok(line) if line.contains('\n') => wrong.push(format!("{name}: several lines: {line}")),
            Ok(_) => {}
            Err(what) => wrong.push(format!("{name}: {what}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), damages.len(), wrong.join("\n"));
}

#[test]
fn a_bad_file_is_reported_wherever_it_stands() {
    let (_, damage, place) = DAMAGES[0];
    let mut inputs = damaged(damage);
    inputs.reverse();
    let line = refused(&inputs).expect("refused");
    assert!(line.contains("'a.cubin'") && line.contains(place), "{line}");
}

#[test]
fn files_that_end_early_are_refused() {
    let whole = good();
    let length = whole[0].1.len();
    // Every byte of the header, then a sample of all lengths, then the last bytes.
    let lengths = (1..70).chain((70..length).step_by(37)).chain(length - 66..length);
    for length in lengths {
        let mut inputs = whole.clone();
        inputs[0].1.truncate(length);
        let line = refused(&inputs).unwrap_or_else(|what| panic!("{length:#x} bytes: {what}"));
        assert!(line.contains("'a.cubin'") && line.contains("offset 0x"), "{length:#x}: {line}");
    }
}

#[test]
fn the_command_leaves_an_old_output_alone() {
    for (name, damage, place) in DAMAGES.iter().step_by(6) {
        let dir = tempfile::tempdir().expect("a folder");
        let mut names = vec!["out.cubin".to_owned()];
        for (name, bytes) in damaged(*damage) {
            fs::write(dir.path().join(&name), bytes).expect("written");
            names.push(name);
        }
        let out = dir.path().join("out.cubin");
        fs::write(&out, b"the old output").expect("written");
        let arguments = ["-arch=sm_90", "a.cubin", "b.cubin", "-o", "out.cubin"];
        let run = command(Path::new(CULD), PROGRAM, &arguments.map(str::to_owned), dir.path());
        let run = run.expect(name);
        assert_eq!((run.status, run.stdout.as_str()), (1, ""), "{name}: {}", run.stderr);
        let is_note = |line: &&str| line.starts_with(culd_driver::NOTE);
        let lines = run.stderr.lines().filter(|line| !is_note(line)).count();
        assert_eq!(lines, 1, "{name}: {}", run.stderr);
        assert!(run.stderr.starts_with("culd fatal   : "), "{name}: {}", run.stderr);
        assert!(run.stderr.contains(place), "{name}: {}", run.stderr);
        assert_eq!(fs::read(&out).expect("still there"), b"the old output", "{name}");
        let mut left: Vec<String> = fs::read_dir(dir.path())
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        left.sort();
        names.sort();
        assert_eq!(left, names, "{name}");
    }
}
