//! Packaging of device code, as nvcc, ld and ar do it: fat binaries, host objects, archives.
//!
//! In: cubins, names, files. Out: bytes of a file. Guaranteed: the same input makes the same bytes;
//! nvlink 13.0.88 links what is made here (`cargo xtask fatbin`), so that tests need neither nvcc
//! nor a compiler.

use anyhow::{Context, Result};
use culd_fatbin::host::Reference;
use culd_fatbin::writer::{self, Image, Target};
use object::pe::ANON_OBJECT_HEADER_BIGOBJ_CLASS_ID;
use object::write::{Object, Relocation, StandardSection, Symbol, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationEncoding, RelocationFlags, RelocationKind,
    SectionKind, SymbolFlags, SymbolKind, SymbolScope,
};

/// A fat binary of `images`.
///
/// # Errors
/// An image that is too large for its entry.
pub fn fatbin(images: &[Image]) -> Result<Vec<u8>> {
    Ok(writer::write(images)?)
}

/// A fat binary with one cubin, not compressed.
///
/// # Errors
/// Not a cubin.
pub fn cubin_fatbin(cubin: &[u8], target: Target) -> Result<Vec<u8>> {
    fatbin(&[Image::cubin(cubin, target)?])
}

/// What a host object holds for the device linker. The default is an object without device code.
#[derive(Clone, Debug, Default)]
pub struct HostParts {
    /// Contents of `__nv_relfatbin`; each begins at a multiple of eight bytes. There is no such
    /// section when this is empty.
    pub fatbins: Vec<Vec<u8>>,
    /// Contents of `.nv_fatbin`, device code that is not linked; there is no such section when this
    /// is empty.
    pub whole_program: Vec<u8>,
    /// Whether there is `.nvFatBinSegment`, without which nvlink looks for no device code; if this
    /// does not say, it is there when there are `fatbins`.
    pub segment: Option<bool>,
    /// Contents of `__nv_module_id`, a NUL is added to each.
    pub module_ids: Vec<String>,
    /// The bytes of `__nv_module_id`, in the place of `module_ids`.
    pub id_section: Option<Vec<u8>>,
    /// Names in the sections `.nvHRKE` and so on, a NUL is added to each. nvcc writes all six; here
    /// a section is written when it is listed, with a single NUL when it is listed without names.
    pub references: Vec<(Reference, Vec<String>)>,
    /// How many sections of no interest stand in front. ELF counts more than some 65,000 in another
    /// way.
    pub others: usize,
}

/// An ELF object for x86-64.
///
/// # Errors
/// What the object writer refuses.
pub fn host_object(parts: &HostParts) -> Result<Vec<u8>> {
    object(parts, BinaryFormat::Elf)
}

/// A COFF object for x86-64.
///
/// # Errors
/// What the object writer refuses.
pub fn coff_object(parts: &HostParts) -> Result<Vec<u8>> {
    object(parts, BinaryFormat::Coff)
}

fn object(parts: &HostParts, format: BinaryFormat) -> Result<Vec<u8>> {
    let mut object = Object::new(format, Architecture::X86_64, Endianness::Little);
    let text = object.section_id(StandardSection::Text);
    object.append_section_data(text, &[0xc3], 16);
    let mut add = |name: &str, kind, data: &[u8], align| {
        let id = object.add_section(Vec::new(), name.into(), kind);
        object.append_section_data(id, data, align);
        id
    };
    for _ in 0..parts.others {
        add(".text.f", SectionKind::Text, &[0xc3], 1);
    }
    let ids = || (!parts.module_ids.is_empty()).then(|| names(&parts.module_ids));
    if let Some(ids) = parts.id_section.clone().or_else(ids) {
        add("__nv_module_id", SectionKind::ReadOnlyData, &ids, 1);
    }
    if !parts.whole_program.is_empty() {
        add(".nv_fatbin", SectionKind::ReadOnlyData, &parts.whole_program, 8);
    }
    let mut code = None;
    if !parts.fatbins.is_empty() {
        let mut data = Vec::new();
        for fatbin in &parts.fatbins {
            data.resize(data.len().next_multiple_of(8), 0);
            data.extend_from_slice(fatbin);
        }
        code = Some(add("__nv_relfatbin", SectionKind::ReadOnlyData, &data, 8));
    }
    let mut segment = None;
    if parts.segment.unwrap_or(!parts.fatbins.is_empty()) {
        let mut wrapper = [0; 24];
        wrapper[..8].copy_from_slice(&[0xb1, 0x43, 0x62, 0x46, 1, 0, 0, 0]);
        segment = Some(add(".nvFatBinSegment", SectionKind::Data, &wrapper, 8));
    }
    for (reference, names_of) in &parts.references {
        add(section_name(*reference), SectionKind::ReadOnlyData, &names(names_of), 1);
    }
    if let (Some(segment), Some(data)) = (segment, code) {
        let symbol = object.section_symbol(data);
        let flags = RelocationFlags::Generic {
            kind: RelocationKind::Absolute,
            encoding: RelocationEncoding::Generic,
            size: 64,
        };
        object.add_relocation(segment, Relocation { offset: 8, symbol, addend: 0, flags })?;
        for id in &parts.module_ids {
            object.add_symbol(Symbol {
                name: format!("__fatbinwrap{id}").into_bytes(),
                value: 0,
                size: 24,
                kind: SymbolKind::Data,
                scope: SymbolScope::Linkage,
                weak: false,
                section: SymbolSection::Section(segment),
                flags: SymbolFlags::None,
            });
        }
    }
    object.write().context("object writer")
}

/// The same COFF object with 32-bit section numbers, as `cl /bigobj` writes it.
///
/// # Panics
/// When `coff` is no object of [`coff_object`].
pub fn bigobj(coff: &[u8]) -> Vec<u8> {
    const HEADER: usize = 20;
    const BIG_HEADER: usize = 56;
    let word = |at: usize| u32::from_le_bytes(coff[at..at + 4].try_into().expect("4 bytes"));
    let sections = usize::from(u16::from_le_bytes([coff[2], coff[3]]));
    let (symbols, count) = (word(8) as usize, word(12) as usize);
    let moved = (BIG_HEADER - HEADER) as u32;

    let mut out = vec![0, 0, 0xff, 0xff, 2, 0];
    out.extend_from_slice(&coff[..2]);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&ANON_OBJECT_HEADER_BIGOBJ_CLASS_ID.0);
    out.extend_from_slice(&[0; 16]);
    for field in [sections, symbols + moved as usize, count] {
        out.extend_from_slice(&(field as u32).to_le_bytes());
    }
    for header in coff[HEADER..][..40 * sections].chunks(40) {
        out.extend_from_slice(&header[..20]);
        for (at, field) in header[20..32].chunks(4).enumerate() {
            let field = u32::from_le_bytes(field.try_into().expect("4 bytes"));
            // Contents and relocations have moved; line numbers there are none.
            let moved = if field == 0 || at == 2 { 0 } else { moved };
            out.extend_from_slice(&(field + moved).to_le_bytes());
        }
        out.extend_from_slice(&header[32..]);
    }
    out.extend_from_slice(&coff[HEADER + 40 * sections..symbols]);
    let mut auxiliary = 0;
    for symbol in coff[symbols..][..18 * count].chunks(18) {
        if auxiliary > 0 {
            auxiliary -= 1;
            out.extend_from_slice(symbol);
            out.extend_from_slice(&[0; 2]);
            continue;
        }
        auxiliary = symbol[17];
        let section = i16::from_le_bytes([symbol[12], symbol[13]]);
        out.extend_from_slice(&symbol[..12]);
        out.extend_from_slice(&i32::from(section).to_le_bytes());
        out.extend_from_slice(&symbol[14..]);
    }
    out.extend_from_slice(&coff[symbols + 18 * count..]);
    out
}

/// Each with the NUL that ends it; a single NUL for none.
fn names(names: &[String]) -> Vec<u8> {
    if names.is_empty() {
        return vec![0];
    }
    names.iter().flat_map(|name| name.bytes().chain([0])).collect()
}

fn section_name(reference: Reference) -> &'static str {
    match reference {
        Reference::Kernel => ".nvHRKE",
        Reference::InternalKernel => ".nvHRKI",
        Reference::Variable => ".nvHRDE",
        Reference::InternalVariable => ".nvHRDI",
        Reference::Constant => ".nvHRCE",
        Reference::InternalConstant => ".nvHRCI",
    }
}

/// Kinds of archives. None gets a symbol table: nvlink wants none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// `ar`: long names in a table.
    Gnu,
    /// `ar` of the BSDs: all names in front of the members' contents.
    Bsd,
    /// `lib.exe`: two symbol tables, empty here, and a table of long names that end with NUL.
    Coff,
    /// `ar --thin`: names of files, no contents.
    Thin,
}

/// An archive of `members`, names and contents.
pub fn archive(members: &[(&str, &[u8])], flavour: Flavour) -> Vec<u8> {
    let mut out = match flavour {
        Flavour::Thin => b"!<thin>\n".to_vec(),
        _ => b"!<arch>\n".to_vec(),
    };
    let (table, titles) = titles(members, flavour);
    if flavour == Flavour::Coff {
        member(&mut out, "/", 4, &[0; 4]);
        member(&mut out, "/", 8, &[0; 8]);
    }
    if !table.is_empty() {
        member(&mut out, "//", table.len(), &table);
    }
    for ((name, data), title) in members.iter().zip(&titles) {
        match flavour {
            Flavour::Gnu | Flavour::Coff => member(&mut out, title, data.len(), data),
            Flavour::Thin => member(&mut out, title, data.len(), &[]),
            Flavour::Bsd => {
                let data = [name.as_bytes(), data].concat();
                member(&mut out, title, data.len(), &data);
            }
        }
    }
    out
}

/// The table of long names, and what stands in the headers.
fn titles(members: &[(&str, &[u8])], flavour: Flavour) -> (Vec<u8>, Vec<String>) {
    let mut table = Vec::new();
    let mut titles = Vec::new();
    for (name, _) in members {
        if flavour == Flavour::Bsd {
            titles.push(format!("#1/{}", name.len()));
        } else if flavour != Flavour::Thin && name.len() < 16 {
            titles.push(format!("{name}/"));
        } else {
            titles.push(format!("/{}", table.len()));
            table.extend_from_slice(name.as_bytes());
            table.extend_from_slice(if flavour == Flavour::Coff { b"\0" } else { b"/\n" });
        }
    }
    (table, titles)
}

/// Appends a header, `data`, and the byte that makes its size even.
fn member(out: &mut Vec<u8>, title: &str, size: usize, data: &[u8]) {
    let header = format!("{title:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 644);
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(data);
    if data.len() % 2 == 1 {
        out.push(b'\n');
    }
}
