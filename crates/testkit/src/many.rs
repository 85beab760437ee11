//! Objects of any number of sections, made in memory: programs beyond 65,280 sections.
//!
//! In: a [`Form`]. Out: the bytes of a relocatable cubin: a kernel, which calls the live ones of
//! its functions, and a variable with the kernel's address. Guaranteed: exactly that many sections,
//! in ptxas's order; indices that do not fit are written as ELF has it.

use culd_cubin::attr::{code, format};
use culd_cubin::elf::{shf, shn, sht, stb, sto, stt};
use culd_cubin::encode::{
    FileHeader, RESERVED_INDEX, SectionHeader, SymbolEntry, null_section, write_rela,
};
use culd_cubin::note::CuInfo;

/// What an object is made of.
#[derive(Clone, Debug)]
pub struct Form<'n> {
    /// Number of sections, tables included; one less where that would be half a function.
    pub sections: usize,
    /// Each function has a section of attributes, as from ptxas. On sm_90 nvlink crashes on others
    /// beside other files.
    pub attributes: bool,
    /// Name of the kernel; functions and the variable are called after it.
    pub kernel: &'n str,
    /// The kernel calls every function whose number is a multiple of this.
    pub live_every: usize,
    /// The SM number, below 100.
    pub sm: u16,
}

/// Sections besides null, tables and functions: [`object`] lists them.
const FIXED: usize = 8;
/// EXIT.
const CODE: [u8; 16] = [0x4d, 0x79, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x03, 0, 0xea, 0x0f, 0];
const FUNCTION: u8 = stb::GLOBAL << 4 | stt::FUNC;
const VARIABLE: u8 = stb::GLOBAL << 4 | stt::CUDA_OBJECT;
/// `R_CUDA_64`.
const ADDRESS: u32 = 2;

/// A section: its header without name, offset and size, and its bytes.
struct Part {
    name: String,
    header: SectionHeader,
    bytes: Vec<u8>,
}

/// The object.
///
/// # Panics
/// When there are too few sections for what every object has.
pub fn object(form: &Form<'_>) -> Vec<u8> {
    let tables = if form.sections > RESERVED_INDEX { 5 } else { 4 };
    let free = form.sections.checked_sub(tables + FIXED).expect("more sections");
    let functions = if form.attributes { free / 2 } else { free };
    let infos = if form.attributes { functions } else { 0 };
    let sections = tables + FIXED + infos + functions;
    let kernel = form.kernel;
    let [cuinfo, info, own_info] = std::array::from_fn(|index| tables + index);
    let [graph, rela, parameters, text] = std::array::from_fn(|index| own_info + 1 + infos + index);
    let data = sections - 1;

    let name = |number: usize| format!("{kernel}_{number:05}");
    let mut symbols = vec![(kernel.to_owned(), FUNCTION, sto::ENTRY, text, CODE.len())];
    symbols.extend((0..functions).map(|n| (name(n), FUNCTION, 0, text + 1 + n, CODE.len())));
    symbols.push((format!("{kernel}_address"), VARIABLE, sto::SPACE_GLOBAL, data, 8));

    let mut parts = Vec::with_capacity(sections - tables);
    let mut add = |index: usize, name: String, header: SectionHeader, bytes: Vec<u8>| {
        assert_eq!(index, tables + parts.len(), "sections come in order");
        parts.push(Part { name, header, bytes });
    };
    let plain = SectionHeader { align: 4, ..SectionHeader::default() };
    let owned = SectionHeader { flags: shf::INFO_LINK, ..plain };
    let mut note = Vec::new();
    CuInfo { version: 2, virtual_sm: form.sm, toolkit: 130 }.write(&mut note);
    let header = SectionHeader { sh_type: sht::NOTE, flags: shf::NOTE_CUINFO, ..plain };
    add(cuinfo, ".note.nv.cuinfo".to_owned(), header, note);
    let header = SectionHeader { sh_type: sht::CUDA_INFO, link: 3, ..plain };
    add(info, ".nv.info".to_owned(), header, attributes(functions));
    let header =
        SectionHeader { info: text as u32, ..SectionHeader { flags: shf::INFO_LINK, ..header } };
    let limit = vec![format::HALF, code::MAXREG_COUNT, 0xff, 0];
    add(own_info, format!(".nv.info.{kernel}"), header, limit);
    for number in 0..infos {
        let mut version = vec![format::SIZED, code::CUDA_API_VERSION, 4, 0];
        version.extend(130u32.to_le_bytes());
        let header = SectionHeader { info: (text + 1 + number) as u32, ..header };
        add(own_info + 1 + number, format!(".nv.info.{}", name(number)), header, version);
    }
    let header = SectionHeader { sh_type: sht::CUDA_CALLGRAPH, link: 3, entsize: 8, ..plain };
    let live = (0..functions).step_by(form.live_every.max(1));
    add(graph, ".nv.callgraph".to_owned(), header, call_graph(live));
    let header = SectionHeader {
        sh_type: sht::RELA,
        link: 3,
        info: data as u32,
        align: 8,
        entsize: 24,
        ..owned
    };
    let mut record = Vec::new();
    write_rela(&mut record, 0, 1, ADDRESS, 0);
    add(rela, ".rela.nv.global.init".to_owned(), header, record);
    let header = SectionHeader {
        sh_type: sht::CUDA_CONSTANT0,
        flags: shf::ALLOC | shf::INFO_LINK,
        info: text as u32,
        ..plain
    };
    let size = if form.sm < 90 { 0x160 } else { 0x210 };
    add(parameters, format!(".nv.constant0.{kernel}"), header, vec![0; size]);
    for function in 0..=functions {
        let name = symbols.get(function).map_or("", |symbol| symbol.0.as_str());
        let header = SectionHeader {
            sh_type: sht::PROGBITS,
            flags: shf::ALLOC | shf::EXECINSTR,
            link: 3,
            info: 1 + function as u32,
            align: 16,
            ..plain
        };
        add(text + function, format!(".text.{name}"), header, CODE.to_vec());
    }
    let header = SectionHeader {
        sh_type: sht::CUDA_GLOBAL_INIT,
        flags: shf::WRITE | shf::ALLOC,
        align: 8,
        ..plain
    };
    add(data, ".nv.global.init".to_owned(), header, vec![0; 8]);
    file((form.sm, sections), cuinfo, &symbols, parts)
}

/// Registers and stack of the kernel and all functions.
fn attributes(functions: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for symbol in 1..=1 + functions as u32 {
        for (code, value) in [(code::REGCOUNT, 24u32), (code::FRAME_SIZE, 0)] {
            bytes.extend([format::SIZED, code, 8, 0]);
            bytes.extend(symbol.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
    }
    bytes
}

/// The kernel's calls, and the other lists, which are empty.
fn call_graph(live: impl Iterator<Item = usize>) -> Vec<u8> {
    let calls = live.map(|function| [1, 2 + function as u32]);
    let empty = (2..=4u32).map(|list| [0, list.wrapping_neg()]);
    let records = std::iter::once([0, u32::MAX]).chain(calls).chain(empty);
    records.flatten().flat_map(u32::to_le_bytes).collect()
}

type Symbol = (String, u8, u8, usize, usize);

/// Tables, sections and headers, one behind the other.
fn file(
    (sm, sections): (u16, usize),
    cuinfo: usize,
    symbols: &[Symbol],
    parts: Vec<Part>,
) -> Vec<u8> {
    let mut strings = vec![0];
    let (mut table, mut high) = (Vec::new(), vec![0; 4]);
    SymbolEntry::default().write(&mut table);
    for (name, info, other, section, size) in symbols {
        let fits = *section < RESERVED_INDEX;
        let entry = SymbolEntry {
            name: strings.len() as u32,
            info: *info,
            other: *other,
            section: if fits { *section as u16 } else { shn::XINDEX },
            value: 0,
            size: *size as u64,
        };
        entry.write(&mut table);
        high.extend((if fits { 0 } else { *section as u32 }).to_le_bytes());
        strings.extend(name.as_bytes());
        strings.push(0);
    }
    let table_part = |name: &str, sh_type, header: SectionHeader, bytes| {
        let align = header.align.max(1);
        Part { name: name.to_owned(), header: SectionHeader { sh_type, align, ..header }, bytes }
    };
    let none = SectionHeader::default();
    let records = SectionHeader { link: 2, info: 1, align: 8, entsize: 24, ..none };
    let mut all = vec![
        table_part(".shstrtab", sht::STRTAB, none, Vec::new()),
        table_part(".strtab", sht::STRTAB, none, strings),
        table_part(".symtab", sht::SYMTAB, records, table),
    ];
    if sections > RESERVED_INDEX {
        let words = SectionHeader { link: 3, align: 4, entsize: 4, ..none };
        all.push(table_part(".symtab_shndx", sht::SYMTAB_SHNDX, words, high));
    }
    all.extend(parts);
    let mut names = vec![0];
    for part in &mut all {
        part.header.name = names.len() as u32;
        names.extend(part.name.as_bytes());
        names.push(0);
    }
    if let Some(first) = all.first_mut() {
        first.bytes = names;
    }

    let mut image = vec![0; 64];
    let mut headers = Vec::with_capacity(64 * sections);
    null_section(sections).write(&mut headers);
    for Part { header, bytes, .. } in &all {
        image.resize(image.len().next_multiple_of(header.align as usize), 0);
        let (offset, size) = (image.len() as u64, bytes.len() as u64);
        SectionHeader { offset, size, ..*header }.write(&mut headers);
        image.extend(bytes);
    }
    image.resize(image.len().next_multiple_of(8), 0);
    let header = FileHeader {
        e_type: 1,
        flags: 4 | u32::from(sm) << 8 | (cuinfo as u32) << 24,
        program_headers: 0,
        program_header_count: 0,
        program_header_size: 56,
        section_headers: image.len() as u64,
        section_count: sections,
        section_names: 1,
    };
    image.splice(..64, header.bytes());
    image.extend(headers);
    image
}
