//! Bodies of the fuzz targets. `fuzz/` runs them for hours; `cargo test` runs them on the files of
//! `testdata/fuzz`.
//!
//! In: any bytes. Out: nothing. Guaranteed: a body panics only if the linker panicked or broke a
//! promise.

use culd::{Linker, Options};
use culd_cubin::arch::ARCHS;
use culd_cubin::attr::Records;
use culd_cubin::capmerc::{Capsule, Site};
use culd_cubin::encode::{Abi, FileHeader, SectionHeader, null_section};
use culd_cubin::note::{self, CuInfo, ToolRecord};
use culd_cubin::raw::Tables;
use culd_cubin::unified::{Uidx, entries};
use culd_cubin::{Cubin, Section, callgraph, elf::sht};
use culd_driver::InputKind;
use culd_inspect::{diff, text, view::View};
use culd_link::IndexFile;
use culd_testkit::random::generate::rng::Rng;
use culd_testkit::random::mutate::fields::{self, NumberForm};
use culd_testkit::random::mutate::program::{self, MutationSource};
use std::sync::OnceLock;

/// A function that runs on some bytes.
pub type FuzzBody = fn(&[u8]);

/// All targets by name.
pub const TARGETS: &[(&str, FuzzBody)] = &[
    ("archive", archive),
    ("callgraph", call_graph),
    ("capmerc", capsule),
    ("coff", coff),
    ("cubin", cubin),
    ("demangle", demangle),
    ("fatbin", fatbin),
    ("host", host),
    ("inspect", inspect),
    ("link_file", link_file),
    ("link_records", link_records),
    ("lz4", lz4),
    ("notes", notes),
    ("nv_info", attributes),
    ("options", options),
    ("ptx", ptx),
    ("uidx", index),
    ("zstd", zstd),
];

/// The size limit of images that are unpacked, in bytes.
const MAX_IMAGE: u64 = 4 << 20;
/// The most changes of a damaged cubin.
const MAX_CHANGES: usize = 8;

/// Reads the whole file and every record in it.
fn cubin(data: &[u8]) {
    let _ = Tables::parse(data);
    let _ = note::toolkit(data);
    let Ok(cubin) = Cubin::parse(data) else { return };
    let _ = (cubin.header.sm(), cubin.header.info_of_cuda_12());
    for (_, section) in cubin.section_indices() {
        let relocations = section.relocations();
        assert_eq!(relocations.iter().count(), relocations.len());
        for entry in relocations.iter() {
            let _ = cubin.symbol(entry.symbol);
        }
        section_records(section);
    }
    for (_, symbol) in cubin.symbol_indices() {
        let sound = symbol.defined_in().is_none_or(|index| cubin.section(index).is_some());
        assert!(sound, "a symbol in a section that does not exist");
    }
    let _ = cubin.string(data.len() as u32);
}

fn section_records(section: &Section<'_>) {
    let _ = Records::new(section.name, section.data).count();
    let _ = callgraph::edges(section).count();
    let _ = callgraph::prototypes(section).count();
    let _ = entries(section).count();
    let _ = note::records(section.name, section.data).count();
}

/// A file with one section of `data`, and one of names.
fn file_with(data: &[u8], sh_type: u32) -> Vec<u8> {
    let names = b"\0.section\0";
    let body = 64 + data.len() as u64;
    let header = FileHeader {
        abi: Abi::Current,
        e_type: 1,
        flags: 0x0600_5a04,
        program_headers: 0,
        program_header_count: 0,
        program_header_size: 0,
        section_headers: (body + names.len() as u64).next_multiple_of(8),
        section_count: 3,
        section_names: 2,
    };
    let mut out = header.bytes();
    out.extend_from_slice(data);
    out.extend_from_slice(names);
    out.resize(header.section_headers as usize, 0);
    let section = |sh_type, offset, size: usize| SectionHeader {
        name: 1,
        sh_type,
        offset,
        size: size as u64,
        align: 1,
        entsize: if sh_type == sht::CUDA_CALLGRAPH { 8 } else { 0 },
        ..SectionHeader::default()
    };
    null_section(3).write(&mut out);
    section(sh_type, 64, data.len()).write(&mut out);
    section(sht::STRTAB, body, names.len()).write(&mut out);
    out
}

fn attributes(data: &[u8]) {
    for record in Records::new(b".nv.info", data).flatten() {
        let mut out = Vec::new();
        record.write(&mut out);
        let again = Records::new(b".nv.info", &out).next().expect("a record").expect("sound");
        assert_eq!(again.payload, record.payload);
        let _ = (record.number(), record.words().count(), record.word(0));
    }
}

fn call_graph(data: &[u8]) {
    let whole = &data[..data.len() / 8 * 8];
    let file = file_with(whole, sht::CUDA_CALLGRAPH);
    let cubin = Cubin::parse(&file).expect("a good file");
    cubin.sections.iter().for_each(section_records);
}

fn notes(data: &[u8]) {
    let _ = note::first_record_len(data);
    for record in note::records(b".note", data).flatten() {
        if let Some(tool) = ToolRecord::parse(record.descriptor) {
            let _ = tool.descriptor();
        }
    }
    let _ = ToolRecord::parse(data);
    let _ = CuInfo::parse(b".note", data);
}

fn capsule(data: &[u8]) {
    let Ok(capsule) = Capsule::parse(b".nv.capmerc", data) else { return };
    let mut instructions = 0;
    for record in capsule.records() {
        assert!(record.instructions.end >= instructions, "records go back");
        instructions = record.instructions.end;
        for width in [1, 4, 8] {
            let _ = record.field(record.bytes.start as u64, width);
        }
    }
    let _ = capsule.image_loads();
    let sites: Vec<Site> =
        (0..8).map(|n| Site { code: 16 * n, mercury: 4 + 20 * n, width: 4 }).collect();
    let _ = capsule.fields(&sites);
}

fn index(data: &[u8]) {
    if let Ok(index) = Uidx::parse(data) {
        let _ = (index.functions.offsets(), index.variables.offsets(), index.bytes());
    }
    let _ = IndexFile::parse(data.to_vec());
}

fn fatbin(data: &[u8]) {
    for container in culd_fatbin::container::containers(data).flatten() {
        for entry in container.entries().flatten() {
            let _ = (entry.ident(), entry.options(), entry.payload(), entry.stored(), entry.kind());
            if let Ok(image) = entry.data(MAX_IMAGE) {
                assert!(image.len() as u64 <= MAX_IMAGE);
            }
        }
    }
    let _ = culd_fatbin::sniff(data);
}

fn compressed(data: &[u8], flag: u64) {
    let Some((size, payload)) = data.split_first_chunk::<4>() else { return };
    fatbin(&packed(payload, u32::from_le_bytes(*size).into(), flag));
}

/// A fat binary with a cubin for sm_90 whose declared size is `size` bytes.
pub fn packed(payload: &[u8], size: u64, flag: u64) -> Vec<u8> {
    use culd_fatbin::header::{ContainerHeader, ENTRY_HEADER, EntryHeader, kind};
    let entry = EntryHeader {
        kind: kind::ELF,
        version: culd_fatbin::header::ENTRY_VERSION,
        header_size: ENTRY_HEADER as u32,
        payload_size: payload.len() as u64,
        compressed_size: payload.len() as u32,
        uncompressed_size: size,
        sm: 90,
        flags: flag | culd_fatbin::header::flag::BITS_64,
        ..EntryHeader::default()
    };
    let mut body = Vec::new();
    entry.write(&mut body);
    body.extend_from_slice(payload);
    let mut file = Vec::new();
    let header = ContainerHeader {
        magic: culd_fatbin::header::MAGIC,
        version: 1,
        header_size: culd_fatbin::header::CONTAINER_HEADER as u16,
        body_size: body.len() as u64,
    };
    header.write(&mut file);
    file.extend_from_slice(&body);
    file
}

fn lz4(data: &[u8]) {
    compressed(data, culd_fatbin::header::flag::LZ4);
}

fn zstd(data: &[u8]) {
    compressed(data, culd_fatbin::header::flag::ZSTD);
}

fn archive(data: &[u8]) {
    let Ok(members) = culd_fatbin::archive::members(data) else { return };
    for member in members.flatten() {
        let _ = format!("{member:?}");
    }
}

fn host(data: &[u8]) {
    let Ok(Some(object)) = culd_fatbin::host::HostObject::parse(data) else { return };
    let _ = format!("{object:?}").len();
}

/// With the machine number of x86-64 at the start: without it, nothing counts as COFF.
fn coff(data: &[u8]) {
    host(data);
    let mut bytes = vec![0x64, 0x86];
    bytes.extend_from_slice(data);
    host(&bytes);
}

fn demangle(data: &[u8]) {
    let Ok(name) = str::from_utf8(data) else { return };
    for name in [name.to_owned(), format!("_Z{name}")] {
        let text = culd_link::demangle(&name);
        assert!(text.is_none_or(|text| text.len() <= 1 << 20), "a text of any size");
    }
}

fn options(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    // Options that name files are skipped: a fuzzer would find devices.
    if text.contains("opt") || text.contains('@') {
        return;
    }
    let words: Vec<String> = text.split('\0').map(str::to_owned).collect();
    if let Ok(culd_driver::Request::Link(options)) = culd_driver::parse(&words).request {
        let _ = options.normalised();
    }
}

fn ptx(data: &[u8]) {
    use culd_fatbin::writer::{ImageTarget, InputImage, write};
    let _ = culd_fatbin::sniff(data);
    if let Ok(image) = InputImage::ptx(data, ImageTarget::sm(90)) {
        let file = write(&[image]).expect("a small image");
        fatbin(&file);
    }
}

/// The tools for people.
fn inspect(data: &[u8]) {
    let Ok(view) = View::parse(data) else { return };
    let _ = text::dump(&view, &text::DumpOptions::default());
    let _ = text::dump(&view, &text::DumpOptions { summary: true, ..text::DumpOptions::default() });
    let difference = diff::compare(&view, &view, diff::DiffOptions { tool: true });
    assert!(difference.is_empty(), "a file differs from itself");
}

/// Links a file of any kind: the first byte chooses the target, the second the options.
fn link_file(data: &[u8]) {
    let Some(([arch, bits], file)) = data.split_first_chunk::<2>() else { return };
    let arch = ARCHS[usize::from(*arch) % ARCHS.len()].name;
    link(arch, &words(*bits), vec![("m.o", file.to_vec())]);
}

/// Options as the bits say.
fn words(bits: u8) -> Vec<String> {
    const WORDS: [&str; 8] = [
        "-r",
        "-g",
        "-v",
        "--preserve-relocs",
        "--dump-callgraph",
        "--kernels-used=k",
        "--dialect=13.5",
        "--allow-undefined-globals",
    ];
    let chosen = WORDS.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
    chosen.map(|(_, word)| (*word).to_owned()).collect()
}

fn link(arch: &str, words: &[String], files: Vec<(&str, Vec<u8>)>) {
    let words: Vec<String> = [format!("-arch={arch}"), "--verify".to_owned()]
        .into_iter()
        .chain(words.iter().cloned())
        .collect();
    let Ok(options) = Options::parse(&words) else { return };
    let mut linker = Linker::new(options);
    for (name, bytes) in files {
        linker.add_bytes(name, InputKind::Any, bytes);
    }
    match linker.link() {
        Ok(linked) => {
            linked.cubin();
            assert_eq!(linked.report().images.len(), 1);
        }
        Err(error) => {
            assert!(!error.diagnostics.is_empty(), "no output and no error");
            let unsound = error.diagnostics.iter().map(ToString::to_string);
            // A name in the file may have these words.
            let refusal = |line: &String| line.starts_with("fatal: --verify: ");
            let unsound = unsound.filter(refusal).collect::<Vec<_>>();
            assert!(unsound.is_empty(), "{unsound:?}");
        }
    }
}

/// Changes single fields of a recorded program. The bytes choose program and options, then for each
/// change the field and its new value.
fn link_records(data: &[u8]) {
    let Some(([low, high, bits], changes)) = data.split_first_chunk::<3>() else { return };
    let programs = programs();
    let program = &programs[usize::from(u16::from_le_bytes([*low, *high])) % programs.len()];
    let mut inputs = program.inputs.clone();
    for change in changes.chunks_exact(6).take(MAX_CHANGES) {
        let [input, first, second, how, a, b] = change else { continue };
        let input = usize::from(*input) % inputs.len();
        let fields = fields::of(&program.inputs[input].1);
        let at = usize::from(u16::from_le_bytes([*first, *second])) % fields.len().max(1);
        let Some(field) = fields.get(at).filter(|field| field.form == NumberForm::Little) else {
            continue;
        };
        let Some(place) = inputs[input].1.get_mut(field.at..field.at + field.size) else {
            continue;
        };
        let value = match how % 4 {
            // A small number, a difference, a bit, or a value that is likely to cause errors.
            0 => u64::from(u16::from_le_bytes([*a, *b])),
            1 => little(place).wrapping_add_signed(i64::from(i16::from_le_bytes([*a, *b]))),
            2 => little(place) ^ 1 << (a % 64),
            _ => culd_testkit::random::mutate::value(
                little(place),
                field.size,
                &mut Rng::new(u64::from(u16::from_le_bytes([*a, *b]))),
            ),
        };
        let size = place.len();
        place.copy_from_slice(&value.to_le_bytes()[..size]);
    }
    let mut words = words(*bits);
    words.extend(program.options.iter().cloned());
    let files = inputs.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    link(&program.arch, &words, files);
}

fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn programs() -> &'static [MutationSource] {
    static PROGRAMS: OnceLock<Vec<MutationSource>> = OnceLock::new();
    PROGRAMS.get_or_init(|| program::recorded().expect("the recorded cases"))
}
