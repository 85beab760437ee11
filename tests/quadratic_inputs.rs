//! Inputs that provoke quadratic time: a hundred thousand of one thing in small files.
//!
//! In: files made here. Out: no report, or a link above the limit of processor time. Guaranteed:
//! each input is so large that a quadratic walk takes much longer than the limit. The limit is of
//! processor time, so a busy machine does not matter. docs/RELIABILITY.md has the table.

use culd_cubin::elf::{stb, sto, stt};
use culd_cubin::raw::{SectionHeader, SymbolEntry, Tables};
use culd_fatbin::host::HostReference;
use culd_testkit::fixtures::pack::{self, ArchiveFlavour, HostParts};
use culd_tests::crafted::{CODE, CraftedObject, assemble};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");
/// Seconds of processor time: a good link of these takes a few, without optimisation.
const SECONDS: u32 = 30;
/// A folder in which links run.
struct InputFolder(tempfile::TempDir);

impl InputFolder {
    fn new() -> Self {
        InputFolder(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn add(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path().join(name), bytes).expect("written");
    }

    /// Links within the limit of processor time and `mib` of memory; returns the status and the
    /// lines.
    #[track_caller]
    fn link(&self, words: &[&str], mib: usize) -> (i32, String) {
        let mut command = Command::new("sh");
        let script = format!("ulimit -t {SECONDS}; ulimit -v {}; exec \"$0\" \"$@\"", mib << 10);
        command.args(["-c", &script, CULD, "-arch=sm_80", "--threads=1", "-o", "out", "--verify"]);
        let output = command.args(words).current_dir(self.path()).output().expect("sh starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let head: String = said.chars().take(2000).collect();
        let status = output.status;
        assert!(status.code().is_some(), "signal {:?}: {head}", status.signal());
        assert!(!head.contains("panicked"), "{head}");
        (status.code().unwrap_or(-1), said)
    }

    #[track_caller]
    fn links(&self, words: &[&str]) {
        let (status, said) = self.link(words, 4096);
        let head: String = said.chars().take(2000).collect();
        assert_eq!(status, 0, "{head}");
        assert!(self.path().join("out").is_file());
    }

    /// The lines of a link that does not succeed.
    #[track_caller]
    fn fails(&self, words: &[&str], status: i32) -> Vec<String> {
        let (found, said) = self.link(words, 4096);
        let head: String = said.chars().take(2000).collect();
        assert_eq!(found, status, "{head}");
        said.lines().map(str::to_owned).collect()
    }
}

fn starting<'l>(lines: &'l [String], start: &str) -> Vec<&'l String> {
    lines.iter().filter(|line| line.contains(start)).collect()
}

/// 200,000 variables whose names differ only in a few letters, at the front, in the middle or at
/// the end.
#[test]
fn names_that_are_alike() {
    let mut object = CraftedObject::default();
    let pad = "a".repeat(40);
    for n in 0..200_000 {
        let name = match n % 3 {
            0 => format!("{n:06}{pad}{pad}"),
            1 => format!("{pad}{n:06}{pad}"),
            _ => format!("{pad}{pad}{n:06}"),
        };
        object.variable("global", &format!("v{name}"), 4 * n);
    }
    object.data(4 * 200_000);
    let world = InputFolder::new();
    world.add("a.cubin", &object.bytes());
    world.links(&["a.cubin"]);
    world.links(&["-r", "a.cubin"]);
}

/// Keys with equal values of some well-known hash functions: their sums and xors of letters are
/// equal. (Such sets exist for FNV, djb2 and others; against the linker's seeded hash, no file can
/// have one.)
#[test]
fn names_made_of_blocks_that_hash_alike() {
    // djb2: "Ez" and "FY" and "G8" collide, and so do all words of 17 of them. For ELF's hash and
    // sums of letters, swapped letters collide.
    let mut object = CraftedObject::default();
    let blocks = ["Ez", "FY"];
    for n in 0..131_072usize {
        let name: String = (0..17).map(|bit| blocks[n >> bit & 1]).collect();
        object.variable("global", &name, 4 * n);
    }
    object.data(4 * 131_072);
    let world = InputFolder::new();
    world.add("a.cubin", &object.bytes());
    world.links(&["a.cubin"]);
}

/// 300,000 local variables of one name, in one file and in two.
#[test]
fn locals_of_one_name() {
    let mut object = CraftedObject::default();
    for n in 0..300_000 {
        let name = if n == 0 { "v".to_owned() } else { format!("v@{}", n + 1) };
        object.variable("local", &name, 4 * n);
    }
    object.data(4 * 300_000);
    let world = InputFolder::new();
    world.add("a.cubin", &object.bytes());
    world.links(&["a.cubin"]);
    world.links(&["-r", "a.cubin"]);
}

/// 30,000 local functions of one name that the kernel calls.
#[test]
fn local_functions_of_one_name() {
    let mut object = CraftedObject { code: 16 * 30_001, ..CraftedObject::default() };
    for n in 0..30_000 {
        let name = if n == 0 { "f".to_owned() } else { format!("f@{}", n + 1) };
        object.function("local", &name);
        let _ = writeln!(object.calls, "  k {name}");
        let _ = writeln!(object.records, "  {:#x} R_CUDA_ABS32_LO_32 {name}", 16 * n);
    }
    let world = InputFolder::new();
    world.add("a.cubin", &object.bytes());
    world.links(&["a.cubin"]);
    world.links(&["-r", "a.cubin"]);
}

/// 50,000 members of one name in an archive, all with weak copies of the same function and kernel.
#[test]
fn members_of_one_name_and_weak_copies() {
    let mut object = CraftedObject::default();
    object.function("weak", "f");
    object.variable("weak", "v", 0);
    object.data(4);
    let mut bytes = object.bytes();
    // The kernel becomes weak too.
    let cubin = culd_cubin::Cubin::parse(&bytes).expect("sound");
    let kernel = cubin.symbols.iter().position(|symbol| symbol.name == b"k").expect("a kernel");
    let table = culd_cubin::raw::Tables::parse(&bytes).expect("tables").sections[3].offset as usize;
    bytes[table + 24 * kernel + 4] |= 0x20;
    bytes[table + 24 * kernel + 4] &= 0x2f;
    let members: Vec<(&str, &[u8])> = vec![("m.o", &bytes); 50_000];
    let world = InputFolder::new();
    world.add("all.a", &pack::archive(&members, ArchiveFlavour::Gnu));
    world.links(&["all.a"]);
    // The same file 50,000 times.
    world.add("m.o", &bytes);
    world.add("thin.a", &pack::archive(&members, ArchiveFlavour::Thin));
    world.links(&["thin.a"]);
}

/// 300,000 members without code, empty and not: a line for each took more memory than the archive.
#[test]
fn members_that_are_ignored() {
    let world = InputFolder::new();
    world.add("a.cubin", &CraftedObject::default().bytes());
    for (content, why) in [(&b""[..], "is empty"), (b"words", "it is no object")] {
        let members = vec![("m.txt", content); 300_000];
        world.add("all.a", &pack::archive(&members, ArchiveFlavour::Gnu));
        let (status, said) = world.link(&["a.cubin", "all.a"], 4096);
        assert_eq!(status, 0);
        let lines: Vec<&str> = said.lines().collect();
        let (last, first) = lines.split_last().expect("warnings");
        assert!(first.len() == 16 && first.iter().all(|line| line.contains(why)), "{first:?}");
        assert!(
            last.ends_with("Library 'all.a' has 299984 more members that were ignored"),
            "{last}"
        );
    }
}

/// A million records about one place, and about one variable.
#[test]
fn records_about_one_place() {
    let records = "  0x0 R_CUDA_ABS32_LO_32 v\n".repeat(1_000_000);
    let mut object = CraftedObject { records, ..CraftedObject::default() };
    object.variable("global", "v", 0);
    object.data(4);
    let world = InputFolder::new();
    world.add("a.cubin", &object.bytes());
    for words in [&["a.cubin"][..], &["-r", "a.cubin"], &["--preserve-relocs", "a.cubin"]] {
        world.links(words);
    }
}

/// 100,000 records in debug information, every second one against a symbol of a section. In the
/// second file that symbol gets an addend, so the records are resolved in two passes.
#[test]
fn records_of_two_kinds_in_turn() {
    let pair = |at: usize| {
        let (first, second) = (16 * at, 16 * at + 8);
        format!("  {first:#x} R_CUDA_64 .debug_loc\n  {second:#x} R_CUDA_64 k\n")
    };
    let records: String = (0..50_000).map(pair).collect();
    let size = 16 * 50_000;
    let sections = format!(
        "section .debug_loc progbits\n  0x0 zero {size:#x}\nsection .rel.debug_loc rel flags=info align=8 info=.debug_loc\n{records}"
    );
    let locals = "  local section .debug_loc\n".to_owned();
    let object = CraftedObject { locals, sections, ..CraftedObject::default() };
    let text = object.text();
    let second = text.replace(".text.k", ".text.z").replace(" k ", " z ").replace(" k\n", " z\n");
    let second = second.replace("symbol=k", "symbol=z");
    let world = InputFolder::new();
    world.add("a.cubin", &assemble(&text));
    world.add("b.cubin", &assemble(&second));
    for words in [&["a.cubin", "b.cubin"][..], &["-g", "a.cubin", "b.cubin"]] {
        world.links(words);
    }
}

/// 100,000 aliases of one function, all of them called.
#[test]
fn aliases_of_one_function() {
    let mut object = CraftedObject::default();
    object.function("global", "f");
    for n in 0..100_000 {
        let _ = writeln!(object.globals, "  global func a{n} in=.text.f");
        let _ = writeln!(object.calls, "  k a{n}\n  a{n} f");
    }
    let world = InputFolder::new();
    world.add("a.cubin", &object.bytes());
    world.links(&["a.cubin"]);
    world.links(&["-r", "a.cubin"]);
}

/// 100,000 functions of one code that two equal files define.
#[test]
fn functions_that_two_files_define() {
    const COUNT: usize = 100_000;
    let mut object = CraftedObject::default();
    object.function("global", "f");
    for n in 0..COUNT {
        let _ = writeln!(object.globals, "  global func a{n} in=.text.f");
    }
    let world = InputFolder::new();
    world.add("a.cubin", &object.bytes());
    world.add("b.cubin", &object.bytes());
    let lines = world.fails(&["a.cubin", "b.cubin"], 1);
    assert_eq!(starting(&lines, "Multiple definition of 'a").len(), COUNT);
}

/// A million times the same call.
#[test]
fn calls_that_are_listed_again_and_again() {
    let mut object = CraftedObject::default();
    object.function("global", "f");
    object.calls = "  k f\n".repeat(1_000_000);
    let world = InputFolder::new();
    world.add("a.cubin", &object.bytes());
    world.links(&["a.cubin"]);
    world.links(&["-r", "a.cubin"]);
}

/// The header of a file for sm_80 by CUDA 12.0, which has no notes.
const HEADER_OF_12_0: &str =
    "file type=rel flags=0x500550 ident=7f454c46020101330700000000000000 version=120 phentsize=0";
const CUINFO: &str =
    "section .note.nv.cuinfo note align=4 flags=cuinfo\n  cuinfo version=2 sm=80 toolkit=130\n";

/// 20,000 functions of one prototype whose address is taken, 20,000 that call through it.
#[test]
fn everybody_may_call_everybody() {
    let mut object =
        CraftedObject { strings: "  string \"#ii\"\n".to_owned(), ..CraftedObject::default() };
    for n in 0..20_000 {
        for stem in ["t", "c"] {
            object.function("global", &format!("{stem}{n}"));
        }
        let _ = writeln!(object.taken, "  t{n} \"#ii\"");
        let _ = writeln!(object.indirect, "  c{n} \"#ii\"");
        let _ = writeln!(object.calls, "  k c{n}");
    }
    let world = InputFolder::new();
    world.add("a.cubin", &object.bytes());
    world.links(&["-v", "a.cubin"]);
    world.links(&["-r", "a.cubin"]);
    // CUDA 12.0 lists all 400,000,000 pairs.
    let old = object.text().replace("file type=rel sm=80", HEADER_OF_12_0).replace(CUINFO, "");
    world.add("old.cubin", &assemble(&old));
    let lines = world.fails(&["--dialect=12.0", "old.cubin"], 1);
    assert_eq!(starting(&lines, "Output too large: ").len(), 1, "{lines:?}");
}

/// 20,000 kernels in front of one chain of 20,000 functions that ends in a cycle.
#[test]
fn kernels_that_all_reach_the_same_cycle() {
    let mut object = CraftedObject::default();
    for n in 0..20_000 {
        object.function("global", &format!("f{n}"));
        let next = if n + 1 < 20_000 { n + 1 } else { 10_000 };
        let _ = writeln!(object.calls, "  f{n} f{next}");
        let _ = writeln!(object.globals, "  global func k{n} in=.text.k{n} size=0x10 other=entry");
        let _ = writeln!(object.attributes, "  REGCOUNT words k{n} 24\n  FRAME_SIZE words k{n} 0");
        let _ = writeln!(
            object.sections,
            "section .text.k{n} progbits flags=alloc+exec align=16 symbol=k{n} registers=24\n  0x0000 {CODE}"
        );
        let _ = writeln!(object.calls, "  k{n} f{}", n / 2);
    }
    let world = InputFolder::new();
    world.add("a.cubin", &object.bytes());
    let (status, said) = world.link(&["-v", "a.cubin"], 4096);
    assert_eq!(status, 0);
    // Notes about one cycle are printed once.
    assert!(said.len() < 30 << 20, "{} bytes of messages", said.len());
}

/// 50,000 undefined names, each used in a file with 50,000 variables, with 50,000 similar names.
#[test]
fn names_that_nobody_defines() {
    const COUNT: usize = 50_000;
    let mut object = CraftedObject::default();
    let _ = writeln!(
        object.sections,
        "section .rela.nv.global.init rela flags=info align=8 info=.nv.global.init"
    );
    for n in 0..COUNT {
        let _ = writeln!(
            object.globals,
            "  global cuda_object _ZN5n{n:04x}1vE size=0x8 other=global",
            n = n & 0xffff
        );
        let _ =
            writeln!(object.sections, "  {:#x} R_CUDA_64 _ZN5n{n:04x}1vE", 8 * n, n = n & 0xffff);
    }
    for n in 0..COUNT {
        let _ = writeln!(
            object.globals,
            "  global cuda_object _ZN5m{n:04x}1vE in=.nv.global.init value={:#x} size=0x8 other=global",
            8 * n,
            n = n & 0xffff
        );
    }
    let _ = writeln!(
        object.sections,
        "section .nv.global.init nv_global_init flags=write+alloc align=8\n  0x0000 zero {:#x}",
        8 * COUNT
    );
    let world = InputFolder::new();
    world.add("a.cubin", &object.bytes());
    let lines = world.fails(&["a.cubin"], 255);
    assert_eq!(starting(&lines, "Undefined reference to").len(), COUNT);
}

/// 200,000 variables that two files define.
#[test]
fn names_that_two_files_define() {
    const COUNT: usize = 200_000;
    let files = ["k", "l"].map(|_| {
        let mut object = CraftedObject::default();
        for n in 0..COUNT {
            object.variable("global", &format!("v{n}"), 4 * n);
        }
        object.data(4 * COUNT);
        object.bytes()
    });
    let world = InputFolder::new();
    world.add("a.cubin", &files[0]);
    world.add("b.cubin", &files[1]);
    let lines = world.fails(&["a.cubin", "b.cubin"], 1);
    assert!(starting(&lines, "Multiple definition of").len() > COUNT, "{}", lines.len());
}

/// 30,000 kernels, and 100,000 names of kernels that host code uses.
#[test]
fn kernels_that_host_code_names() {
    let mut object = CraftedObject::default();
    for n in 0..20_000 {
        let _ = writeln!(object.globals, "  global func k{n} in=.text.k{n} size=0x10 other=entry");
        let _ = writeln!(object.attributes, "  REGCOUNT words k{n} 24\n  FRAME_SIZE words k{n} 0");
        let _ = writeln!(
            object.sections,
            "section .text.k{n} progbits flags=alloc+exec align=16 symbol=k{n} registers=24\n  0x0000 {CODE}"
        );
    }
    let target = culd_fatbin::writer::ImageTarget::sm(80);
    let fatbin = pack::cubin_fatbin(&object.bytes(), target).expect("a fat binary");
    let names = (0..400_000).rev().map(|n| format!("k{n}")).collect();
    let references = vec![(HostReference::Kernel, names), (HostReference::Variable, Vec::new())];
    let parts = HostParts { fatbins: vec![fatbin], references, ..HostParts::default() };
    let world = InputFolder::new();
    world.add("a.o", &pack::host_object(&parts).expect("an object"));
    world.links(&["a.o"]);
}

/// 100,000 records with ends of one string of a megabyte as names: 10^11 bytes if each were read.
#[test]
fn records_that_name_ends_of_one_string() {
    const LENGTH: usize = 1 << 20;
    let prototype = format!("#{}", "i".repeat(LENGTH));
    let records = |count: usize| {
        let words = (0..count).flat_map(|n| [1u32, 1 + n as u32]);
        words.map(|word| format!("{:08x}", word.swap_bytes())).collect::<Vec<_>>()
    };
    let body = |words: &[String]| {
        let mut text = String::new();
        for (line, words) in words.chunks(4).enumerate() {
            let _ = writeln!(text, "  {:#06x} {}", 16 * line, words.join(" "));
        }
        text
    };
    let mut object = CraftedObject {
        strings: format!("  string \"{prototype}\"\n"),
        ..CraftedObject::default()
    };
    let _ = write!(
        object.sections,
        "section .nv.prototype nv_prototype raw align=4\n{}",
        body(&records(100_000))
    );
    let world = InputFolder::new();
    world.add("a.cubin", &object.bytes());
    let (status, said) = world.link(&["a.cubin"], 4096);
    // They are refused before they are read: the strings of all records have a limit, like names.
    assert!(status == 1 && said.contains("overlap too much"), "{status}: {said}");
}

/// One kernel uses 100,000 shared variables. Two files declare the same 100,000 common variables.
#[test]
fn shared_and_common_variables() {
    const COUNT: usize = 100_000;
    let world = InputFolder::new();
    for file in ["a", "b"] {
        let mut object = CraftedObject { code: 16 * (COUNT + 1), ..CraftedObject::default() };
        for n in 0..COUNT {
            let _ = writeln!(
                object.globals,
                "  global cuda_object c{n} in=*COMMON* value=0x4 size={:#x} other=global",
                4 + n % 3
            );
            if file == "a" {
                let _ = writeln!(
                    object.globals,
                    "  global cuda_object s{n} in=.nv_debug.shared value=0x4 size=0x4 other=shared"
                );
                let _ = writeln!(object.records, "  {:#x} R_CUDA_ABS32_LO_32 s{n}", 16 * n);
            }
        }
        if file == "a" {
            object.sections.push_str(
                "section .nv_debug.shared nv_shared flags=write+alloc align=4 size=0x4\n",
            );
        }
        let mut bytes = object.bytes();
        if file == "b" {
            // Another kernel.
            let at = bytes.windows(3).position(|three| three == b"\0k\0").expect("its name");
            bytes[at + 1] = b'l';
        }
        world.add(&format!("{file}.cubin"), &bytes);
    }
    world.links(&["a.cubin", "b.cubin"]);
}

/// A fat binary of 100,000 images, and one of 100,000 containers.
#[test]
fn images_without_end() {
    use culd_fatbin::writer::{ImageTarget, InputImage};
    let cubin = CraftedObject::default().bytes();
    let world = InputFolder::new();
    let ptx =
        InputImage::ptx(b".version 9.0\n.target sm_90\n.address_size 64\n", ImageTarget::sm(90))
            .expect("an image");
    let mut images = vec![ptx.clone(); 100_000];
    images.push(InputImage::cubin(cubin, ImageTarget::sm(80)).expect("an image"));
    world.add("a.fatbin", &pack::fatbin(&images).expect("a fat binary"));
    world.links(&["a.fatbin"]);
    let one = pack::fatbin(&[ptx]).expect("a fat binary");
    let last = pack::fatbin(&images[images.len() - 1..]).expect("a fat binary");
    world.add("b.fatbin", &[one.repeat(100_000), last].concat());
    world.links(&["b.fatbin"]);
}

/// Symbolic links that lead through 40 others or to themselves, and files of options that name each
/// other.
#[test]
fn links_and_option_files_that_lead_nowhere() {
    let world = InputFolder::new();
    world.add("a.cubin", &CraftedObject::default().bytes());
    symlink("a.cubin", world.path().join("0.cubin")).expect("made");
    for n in 0..60 {
        symlink(format!("{n}.cubin"), world.path().join(format!("{}.cubin", n + 1))).expect("made");
    }
    symlink("self.cubin", world.path().join("self.cubin")).expect("made");
    world.links(&["30.cubin"]);
    for name in ["60.cubin", "self.cubin"] {
        let lines = world.fails(&[name], 1);
        assert!(lines.iter().any(|line| line.contains("(os error 40)")), "{lines:?}");
    }
    world.add("one.opt", b"@two.opt");
    world.add("two.opt", b"-optf one.opt");
    let lines = world.fails(&["@one.opt", "a.cubin"], 1);
    assert!(lines[0].contains("fatal"), "{lines:?}");
}

/// 100,000 options: missing folders, and libraries that are in none of them.
#[test]
fn options_without_end() {
    let world = InputFolder::new();
    world.add("a.cubin", &CraftedObject::default().bytes());
    let mut words = String::from("a.cubin\n");
    for n in 0..2_000 {
        let _ = writeln!(words, "-Lfolder{n}");
    }
    for n in 0..50 {
        let _ = writeln!(words, "-lnone{n}");
    }
    for _ in 0..100_000 {
        words.push_str("-w\n-v\n");
    }
    world.add("all.opt", words.as_bytes());
    world.links(&["@all.opt"]);
}

/// 32,000 inputs, each a file.
#[test]
fn inputs_without_end() {
    let world = InputFolder::new();
    let object = CraftedObject::default().bytes();
    let mut words = String::new();
    for n in 0..32_000 {
        let mut bytes = object.clone();
        // Names of one length; every kernel has another one.
        let name = format!("m{n}.cubin");
        if n == 0 {
            world.add(&name, &bytes);
        } else {
            // Without the kernel: an object with only a name.
            bytes = empty_object();
            world.add(&name, &bytes);
        }
        let _ = writeln!(words, "{name}");
    }
    world.add("all.opt", words.as_bytes());
    world.links(&["@all.opt"]);
}

fn empty_object() -> Vec<u8> {
    let text = "cubin 1\nfile type=rel sm=80\nsection .shstrtab strtab\n  rest\nsection .strtab strtab\n  rest\n\
                section .symtab symtab align=8\n  globals\n\
                section .note.nv.cuinfo note align=4 flags=cuinfo\n  cuinfo version=2 sm=80 toolkit=130\n";
    culd_testkit::fixtures::asm::assemble(text).expect("sound")
}

/// An object with `count` more variables in `.nv.global`, with names of 9 letters.
fn with_symbols(count: usize) -> Vec<u8> {
    let mut object = CraftedObject::default();
    object.variable("global", "v", 0);
    object.data(4 * (count + 1));
    let mut bytes = object.bytes();
    let tables = Tables::parse(&bytes).expect("tables");
    let part = |section: usize| {
        let header = &tables.sections[section];
        bytes[header.offset as usize..][..header.size as usize].to_vec()
    };
    let (mut strings, mut symbols) = (part(2), part(3));
    let section = tables.sections.len() as u16 - 1;
    for n in 0..count {
        let name = strings.len() as u32;
        strings.extend_from_slice(format!("s{n:08}\0").as_bytes());
        let (info, other) = (stb::GLOBAL << 4 | stt::CUDA_OBJECT, sto::SPACE_GLOBAL);
        let value = 4 * (n as u64 + 1);
        SymbolEntry { name, info, other, section, value, size: 4 }.write(&mut symbols);
    }
    for (at, part) in [(2, strings), (3, symbols)] {
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let header = tables.header.shoff as usize + at * SectionHeader::SIZE;
        let (offset, size) = (bytes.len() as u64, part.len() as u64);
        bytes[header + 24..header + 32].copy_from_slice(&offset.to_le_bytes());
        bytes[header + 32..header + 40].copy_from_slice(&size.to_le_bytes());
        bytes.extend(part);
    }
    bytes
}

/// Ten million symbols link; more than the limit of an output are refused. Not in every run: it
/// takes half a minute and 5 GiB.
#[test]
#[ignore = "half a minute of processor time and 5 GiB of memory: cargo test -p culd-tests --test quadratic_inputs -- --ignored"]
fn ten_million_symbols() {
    let world = InputFolder::new();
    world.add("a.cubin", &with_symbols(10_000_000));
    let (status, said) = world.link(&["a.cubin"], 16 << 10);
    assert_eq!(status, 0, "{said}");
    world.add("a.cubin", &with_symbols((1 << 24) + 1));
    let (status, said) = world.link(&["a.cubin"], 16 << 10);
    assert_eq!(status, 1, "{said}");
}
