//! Memory of links whose inputs have a hundred thousand of one thing in the smallest form.
//!
//! In: files made here. Out: no report, or a link that took more memory than docs/RELIABILITY.md
//! promises. Guaranteed: each link ends as it should; memory is the most resident memory of the
//! process, from the kernel.
#![allow(clippy::unwrap_used)]

use culd_fatbin::host::HostReference;
use culd_testkit::fixtures::pack::{self, ArchiveFlavour, HostParts};
use culd_tests::crafted::CraftedObject;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");
/// Runs a program and prints its memory.
const MEASURE: &str = "import resource, subprocess, sys\n\
                       status = subprocess.run(sys.argv[1:], stderr=open('said', 'w')).returncode\n\
                       print(status, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";
/// The limit of a link's memory: a number of bytes, a number for each byte of an input, and a
/// number for each line.
const FIXED: u64 = 24 << 20;
const FACTOR: u64 = 12;
const LINE: u64 = 512;
/// The limit for options files, which are small.
const OPTIONS: u64 = 64 << 20;

/// A file, and its use.
struct MemoryCase {
    name: &'static str,
    files: Vec<(&'static str, Vec<u8>)>,
    words: Vec<&'static str>,
    status: i32,
}

fn family(name: &'static str, bytes: Vec<u8>) -> MemoryCase {
    MemoryCase { name, files: vec![("a.cubin", bytes)], words: vec!["a.cubin"], status: 0 }
}

/// Bytes of the inputs, number of lines, and peak memory in bytes.
fn measure(family: &MemoryCase, more: &[&str]) -> (u64, u64, u64) {
    let folder = tempfile::tempdir().unwrap();
    let mut input = 0;
    for (name, bytes) in &family.files {
        fs::write(folder.path().join(name), bytes).unwrap();
        input += bytes.len() as u64;
    }
    let mut python = Command::new("python3");
    python.args(["-c", MEASURE, CULD, "-arch=sm_80", "--threads=1", "--no-fork", "-o", "out"]);
    python.args(&family.words).args(more).current_dir(folder.path());
    let output = python.output().unwrap();
    let said = String::from_utf8(fs::read(folder.path().join("said")).unwrap()).unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let (status, kib) = printed.trim().split_once(' ').unwrap_or_else(|| panic!("{printed}"));
    let head: String = said.chars().take(1000).collect();
    assert_eq!(status, family.status.to_string(), "{} {more:?}: {head}", family.name);
    (input, said.lines().count() as u64, kib.parse::<u64>().unwrap() << 10)
}

fn functions_at_one_place() -> MemoryCase {
    let mut object = CraftedObject::default();
    for n in 0..300_000 {
        let _ = writeln!(object.globals, "  global func f{n} in=.text.k size=0x10");
    }
    family("functions at one place", object.bytes())
}

fn variables(binding: &'static str) -> MemoryCase {
    let mut object = CraftedObject::default();
    for n in 0..300_000 {
        object.variable(binding, &format!("v{n}"), 0);
    }
    object.data(4);
    family(if binding == "local" { "local variables" } else { "variables" }, object.bytes())
}

fn undefined_names() -> MemoryCase {
    let mut object = CraftedObject::default();
    for n in 0..300_000 {
        let _ = writeln!(object.globals, "  global notype u{n}");
    }
    family("undefined names that nothing uses", object.bytes())
}

fn used_undefined_names() -> MemoryCase {
    let mut object = CraftedObject { code: 16 * 100_001, ..CraftedObject::default() };
    for n in 0..100_000 {
        let _ = writeln!(object.globals, "  global cuda_object u{n}");
        let _ = writeln!(object.records, "  {:#x} R_CUDA_ABS32_LO_32 u{n}", 16 * n);
    }
    MemoryCase { status: 255, ..family("undefined names", object.bytes()) }
}

fn functions() -> MemoryCase {
    let mut object = CraftedObject::default();
    for n in 0..30_000 {
        object.function("global", &format!("f{n}"));
    }
    MemoryCase { words: vec!["-r", "a.cubin"], ..family("functions", object.bytes()) }
}

fn records() -> MemoryCase {
    let mut object = CraftedObject {
        records: "  0x0 R_CUDA_ABS32_LO_32 v\n".repeat(500_000),
        ..CraftedObject::default()
    };
    object.variable("global", "v", 0);
    object.data(4);
    family("records", object.bytes())
}

fn kept_records() -> MemoryCase {
    MemoryCase { words: vec!["-r", "a.cubin"], name: "kept records", ..records() }
}

fn calls() -> MemoryCase {
    let mut object = CraftedObject::default();
    object.function("global", "f");
    object.calls = "  k f\n".repeat(1_000_000);
    family("calls", object.bytes())
}

fn sections() -> MemoryCase {
    let mut object = CraftedObject::default();
    for n in 0..60_000 {
        let _ = writeln!(object.sections, "section .debug_{n} progbits");
    }
    family("empty sections", object.bytes())
}

fn attributes() -> MemoryCase {
    let attributes = "  REGCOUNT words k 24\n".repeat(500_000);
    let object = CraftedObject { attributes, ..CraftedObject::default() };
    family("attributes", object.bytes())
}

fn empty_members() -> MemoryCase {
    let members = vec![("m.o", &b""[..]); 300_000];
    let mut files = family("empty members", CraftedObject::default().bytes()).files;
    files.push(("all.a", pack::archive(&members, ArchiveFlavour::Gnu)));
    MemoryCase { name: "empty members", files, words: vec!["a.cubin", "all.a", "-w"], status: 0 }
}

fn host_names(kind: HostReference, name: &'static str) -> MemoryCase {
    let target = culd_fatbin::writer::ImageTarget::sm(80);
    let fatbin = pack::cubin_fatbin(&CraftedObject::default().bytes(), target).unwrap();
    let mut names = vec!["k".to_owned()];
    names.extend((0..3_000_000).map(|_| "a".to_owned()));
    let references = vec![(kind, names)];
    let parts = HostParts { fatbins: vec![fatbin], references, ..HostParts::default() };
    let files = vec![("a.o", pack::host_object(&parts).unwrap())];
    MemoryCase { name, files, words: vec!["a.o"], status: 0 }
}

fn module_ids() -> MemoryCase {
    let target = culd_fatbin::writer::ImageTarget::sm(80);
    let fatbin = pack::cubin_fatbin(&CraftedObject::default().bytes(), target).unwrap();
    let module_ids = vec!["a".to_owned(); 1_000_000];
    let parts = HostParts { fatbins: vec![fatbin], module_ids, ..HostParts::default() };
    let files = vec![("a.o", pack::host_object(&parts).unwrap())];
    let words = vec!["a.o", "--register-link-binaries=r"];
    MemoryCase { name: "module ids", files, words, status: 0 }
}

fn images_for_others() -> MemoryCase {
    let target = culd_fatbin::writer::ImageTarget::sm(90);
    let text = ".version 8.0\n.target sm_90\n.address_size 64\n";
    let image =
        pack::fatbin(&[culd_fatbin::writer::InputImage::ptx(text, target).unwrap()]).unwrap();
    let mut files = family("", CraftedObject::default().bytes()).files;
    files.push(("b.fatbin", image.repeat(100_000)));
    MemoryCase { name: "images for others", files, words: vec!["a.cubin", "b.fatbin"], status: 0 }
}

fn empty_containers() -> MemoryCase {
    let container = [0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut files = family("", CraftedObject::default().bytes()).files;
    files.push(("b.fatbin", container.repeat(300_000)));
    MemoryCase { name: "empty containers", files, words: vec!["a.cubin", "b.fatbin"], status: 0 }
}

fn ptx() -> MemoryCase {
    let mut text = ".version 8.0\n.target sm_80\n.address_size 64\n".to_owned();
    for n in 0..200_000 {
        let _ = writeln!(text, ".extern .func f{n}();");
    }
    let files = vec![("a.ptx", text.into_bytes())];
    MemoryCase {
        name: "declarations of PTX",
        files,
        words: vec!["a.ptx", "--ptxas-path=/x"],
        status: 1,
    }
}

fn parameters_of_ptx() -> MemoryCase {
    let mut text = ".version 8.0\n.target sm_80\n.address_size 64\n.extern .func f(".to_owned();
    for n in 0..500_000 {
        let _ = write!(text, "{}.param .b8 a", if n == 0 { "" } else { "," });
    }
    text.push_str(");\n");
    let files = vec![("a.ptx", text.into_bytes())];
    MemoryCase {
        name: "parameters of PTX",
        files,
        words: vec!["a.ptx", "--ptxas-path=/x"],
        status: 1,
    }
}

fn faults_of_ptx() -> MemoryCase {
    let mut text = ".version 8.0\n.target sm_80\n.address_size 64\n".to_owned();
    for n in 0..100_000 {
        let _ = writeln!(text, ".extern .func f{n}();\n.extern .func f{n}(.param .b8 a);");
    }
    let files = vec![("a.ptx", text.into_bytes())];
    MemoryCase { name: "faults of PTX", files, words: vec!["a.ptx", "--ptxas-path=/x"], status: 1 }
}

fn words_of_options_files() -> MemoryCase {
    let files = vec![("f", "a ".repeat(1 << 18).into_bytes())];
    MemoryCase { name: "words of an options file", files, words: vec!["@f"], status: 1 }
}

fn doubles() -> MemoryCase {
    let mut object = CraftedObject::default();
    for n in 0..100_000 {
        object.variable("global", &format!("v{n}"), 0);
    }
    object.data(4);
    let bytes = object.bytes();
    let files = vec![("a.cubin", bytes.clone()), ("b.cubin", bytes)];
    MemoryCase { name: "double definitions", files, words: vec!["a.cubin", "b.cubin"], status: 1 }
}

fn families() -> Vec<MemoryCase> {
    vec![
        functions_at_one_place(),
        variables("global"),
        variables("local"),
        undefined_names(),
        used_undefined_names(),
        functions(),
        records(),
        kept_records(),
        calls(),
        sections(),
        attributes(),
        empty_members(),
        host_names(HostReference::Kernel, "names of kernels"),
        host_names(HostReference::Variable, "names of variables"),
        module_ids(),
        images_for_others(),
        empty_containers(),
        faults_of_ptx(),
        ptx(),
        parameters_of_ptx(),
        words_of_options_files(),
        doubles(),
    ]
}

#[test]
fn memory_stays_in_proportion() {
    for family in families() {
        // Keeping everything takes most memory.
        let options: &[&[&str]] = match family.status {
            0 => &[&[], &["-g"], &["--preserve-relocs"]],
            _ => &[&[]],
        };
        for more in options {
            let (input, lines, memory) = measure(&family, more);
            let name = family.name;
            println!(
                "{name} {more:?}: {input} bytes of input, {lines} lines, {memory} bytes of memory, {:.1} for each of input",
                memory.saturating_sub(FIXED) as f64 / input as f64
            );
            let fixed = if family.words == ["@f"] { OPTIONS } else { FIXED };
            let most = fixed + FACTOR * input + LINE * lines;
            assert!(memory <= most, "{name} {more:?}: {memory} bytes, {most} allowed");
        }
    }
}
