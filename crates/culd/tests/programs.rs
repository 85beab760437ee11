//! The two programs on files that hold several images: fat binaries, objects and shared libraries
//! for Linux and Windows, archives.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use culd_fatbin::writer::{Compression, ImageTarget, InputImage, write};

mod common;

use common::{data, path};

const PTX: &str = ".version 9.0\n.target sm_90\n.address_size 64\n.global .b8 a31;\n";

fn run(program: &str, folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(words).current_dir(folder).output().unwrap()
}

fn dump(folder: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let run = run(env!("CARGO_BIN_EXE_culd-dump"), folder, words);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (run.status.code(), text(run.stdout), text(run.stderr))
}

fn diff(folder: &Path, words: &[&str]) -> (Option<i32>, String) {
    let run = run(env!("CARGO_BIN_EXE_culd-diff"), folder, words);
    assert_eq!(run.stderr, b"", "{words:?}");
    (run.status.code(), String::from_utf8(run.stdout).unwrap())
}

/// The name of the section for the code of whole programs. In a program for Windows, names have
/// eight bytes.
const SECTION: &[u8; 10] = b".nv_fatbin";

/// An object for Windows with this fat binary.
fn coff(fatbin: &[u8]) -> Vec<u8> {
    use object::{Architecture, BinaryFormat, Endianness, SectionKind};
    let mut coff =
        object::write::Object::new(BinaryFormat::Coff, Architecture::X86_64, Endianness::Little);
    let id = coff.add_section(Vec::new(), SECTION.to_vec(), SectionKind::ReadOnlyData);
    coff.append_section_data(id, fatbin, 8);
    coff.write().unwrap()
}

/// A library for Windows with this fat binary.
fn pe(fatbin: &[u8]) -> Vec<u8> {
    use object::pe;
    let (mut dll, length) = (Vec::new(), fatbin.len() as u32);
    let mut writer = object::write::pe::Writer::new(true, 0x1000, 0x200, &mut dll);
    writer.reserve_dos_header_and_stub();
    writer.reserve_nt_headers(16);
    writer.reserve_section_headers(2);
    let code = writer.reserve_text_section(1);
    let flags = pe::IMAGE_SCN_CNT_INITIALIZED_DATA | pe::IMAGE_SCN_MEM_READ;
    let name = *SECTION.first_chunk().unwrap();
    let data = writer.reserve_section(name, flags, length, length);
    writer.write_dos_header_and_stub().unwrap();
    writer.write_nt_headers(object::write::pe::NtHeaders {
        machine: pe::IMAGE_FILE_MACHINE_AMD64,
        time_date_stamp: 0,
        characteristics: pe::IMAGE_FILE_EXECUTABLE_IMAGE | pe::IMAGE_FILE_DLL,
        major_linker_version: 0,
        minor_linker_version: 0,
        address_of_entry_point: 0,
        image_base: 0x1_8000_0000,
        major_operating_system_version: 6,
        minor_operating_system_version: 0,
        major_image_version: 0,
        minor_image_version: 0,
        major_subsystem_version: 6,
        minor_subsystem_version: 0,
        subsystem: pe::IMAGE_SUBSYSTEM_WINDOWS_CUI,
        dll_characteristics: pe::IMAGE_DLLCHARACTERISTICS_NX_COMPAT,
        size_of_stack_reserve: 0,
        size_of_stack_commit: 0,
        size_of_heap_reserve: 0,
        size_of_heap_commit: 0,
    });
    writer.write_section_headers();
    writer.write_section(code.file_offset, &[0xc3]);
    writer.write_section(data.file_offset, fatbin);
    dll
}

/// A folder with a fat binary of three images, and files that hold it.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("culd-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let cubin = |name: &str, sm| InputImage::cubin(data(name), ImageTarget::sm(sm));
    let packed = |image: InputImage, how| image.compressed(how).unwrap();
    let images = [
        packed(cubin("linked.75.cubin", 75).unwrap(), Compression::Lz4),
        packed(cubin("linked.90.cubin", 90).unwrap(), Compression::Zstd),
        InputImage::ptx(PTX, ImageTarget::sm(90)).unwrap(),
    ];
    fs::write(folder.join("three.fatbin"), write(&images).unwrap()).unwrap();
    let fatbin = fs::read(folder.join("three.fatbin")).unwrap();
    fs::write(folder.join("three.obj"), coff(&fatbin)).unwrap();
    fs::write(folder.join("three.dll"), pe(&fatbin)).unwrap();
    let source = ".section .nv_fatbin, \"a\"\n.balign 8\n.incbin \"three.fatbin\"\n";
    fs::write(folder.join("three.s"), source).unwrap();
    for (program, words) in [
        ("gcc", &["-c", "three.s", "-o", "three.o"][..]),
        ("gcc", &["-shared", "-nostdlib", "three.o", "-o", "three.so"]),
        ("gcc", &["-pie", "-nostdlib", "-Wl,-e,0", "three.o", "-o", "three"]),
        ("ar", &["rc", "three.a", "three.o"]),
    ] {
        let status = Command::new(program).args(words).current_dir(&folder).status().unwrap();
        assert!(status.success(), "{program} {words:?}");
    }
    folder
}

#[test]
fn images_of_all_kinds_of_files_are_listed_chosen_and_extracted() {
    let folder = folder("images");
    let expected = data("linked.90.txt");
    for (file, kind) in [
        ("three.fatbin", "fat binary"),
        ("three.o", "object"),
        ("three.so", "shared library"),
        ("three", "executable"),
        ("three.a", "archive"),
        ("three.obj", "object for Windows"),
        ("three.dll", "program for Windows"),
    ] {
        let (status, list, _) = dump(&folder, &[file]);
        assert_eq!(status, Some(0), "{file}");
        let lines: Vec<&str> = list.lines().collect();
        assert!(lines[0].starts_with(kind), "{list}");
        assert!(lines[1].starts_with("0 cubin sm_75 lz4 stored="), "{list}");
        assert!(lines[2].starts_with("1 cubin sm_90 zstd stored="), "{list}");
        assert!(lines[3].starts_with("2 ptx compute_90 - stored="), "{list}");
        assert_eq!(lines.len(), 4);

        for which in ["1", "sm_90"] {
            let (status, text, _) = dump(&folder, &["--image", which, file]);
            assert_eq!(status, Some(0), "{file}");
            let (head, text) = text.split_once('\n').unwrap();
            assert!(head.starts_with("image 1 cubin sm_90"), "{head}");
            assert_eq!(text.as_bytes(), expected);
        }
        let (_, text, _) = dump(&folder, &["--image", "ptx", file]);
        assert!(text.contains(".target sm_90") && text.contains("a31"), "{text}");
        let (_, text, _) = dump(&folder, &["--all", "--summary", file]);
        assert_eq!(text.lines().filter(|line| line.starts_with("image ")).count(), 3);

        let (status, said, _) = dump(&folder, &["--extract", "out", file]);
        assert_eq!((status, said.lines().count()), (Some(0), 3));
        for (name, bytes) in
            [("0.sm_75.cubin", data("linked.75.cubin")), ("1.sm_90.cubin", data("linked.90.cubin"))]
        {
            assert_eq!(fs::read(folder.join("out").join(name)).unwrap(), bytes, "{file} {name}");
        }
        // A fat binary has PTX without blanks that mean nothing.
        let ptx = fs::read_to_string(folder.join("out/2.compute_90.ptx")).unwrap();
        assert!(ptx.contains(".target sm_90") && ptx.contains("a31"), "{file}");
        fs::remove_dir_all(folder.join("out")).unwrap();
    }
    // A section is that of the images that have it; PTX has none.
    let (status, text, said) = dump(&folder, &["--all", "--only", ".symtab", "three.so"]);
    assert_eq!((status, said.as_str()), (Some(0), ""));
    let heads: Vec<&str> = text.lines().filter(|line| line.starts_with("image ")).collect();
    assert!(matches!(heads[..], [one, two] if one.contains("sm_75") && two.contains("sm_90")));
    for words in [&["--all"][..], &["--image", "ptx"]] {
        let (status, text, said) = dump(&folder, &[words, &["--only", ".x", "three.so"]].concat());
        assert_eq!((status, text.as_str()), (Some(2), ""));
        assert_eq!(said, "culd-dump: three.so: no section '.x'\n");
    }
    let (status, _, said) = dump(&folder, &["--image", "sm_80", "three.so"]);
    assert_eq!(status, Some(2));
    assert_eq!(said, "culd-dump: three.so: no image 'sm_80': --list shows all\n");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn images_are_compared_with_their_counterparts() {
    let folder = folder("pairs");
    assert_eq!(diff(&folder, &["three.so", "three.fatbin"]), (Some(0), String::new()));
    let images = [
        InputImage::cubin(data("reversed.90.cubin"), ImageTarget::sm(90)).unwrap(),
        InputImage::ptx(PTX.replace("31", "32"), ImageTarget::sm(90)).unwrap(),
        InputImage::ptx(PTX, ImageTarget::sm(100)).unwrap(),
    ];
    fs::write(folder.join("other.fatbin"), write(&images).unwrap()).unwrap();
    let (status, text) = diff(&folder, &["three.so", "other.fatbin"]);
    assert_eq!(status, Some(1));
    for line in [
        "image.missing  cubin sm_75 0  .nv_fatbin[0.0]",
        "image  cubin sm_90 0  .nv_fatbin[0.1]",
        "image  ptx compute_90 0  .nv_fatbin[0.2]",
        "image.extra  ptx compute_100 0  [0.2]",
    ] {
        assert!(text.lines().any(|own| own == line), "{line}\n{text}");
    }
    assert!(text.contains("\nthe first difference is in line "), "{text}");
    // One image only.
    let (_, text) = diff(&folder, &["--image", "ptx", "three.so", "other.fatbin"]);
    assert!(!text.contains("cubin"), "{text}");
    // A cubin is a file of one image.
    let cubin = path("linked.90.cubin").display().to_string();
    let words = ["--image", "sm_90", "three.a", &cubin];
    assert_eq!(diff(&folder, &[&words[..1], &["cubin"], &words[2..]].concat()).0, Some(1));
    // So is PTX.
    fs::write(folder.join("31.ptx"), PTX).unwrap();
    fs::write(folder.join("32.ptx"), PTX.replace("31", "32")).unwrap();
    assert_eq!(diff(&folder, &["31.ptx", "31.ptx"]), (Some(0), String::new()));
    let (status, text) = diff(&folder, &["31.ptx", "32.ptx"]);
    assert_eq!(status, Some(1));
    assert!(text.ends_with("\nthe first difference is in line 4\n"), "{text}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_damaged_image_is_named_and_hides_no_other() {
    let folder = folder("damage");
    let mut bytes = fs::read(folder.join("three.so")).unwrap();
    // The zstd frame.
    let frame = [0x28, 0xb5, 0x2f, 0xfd];
    let at = bytes.windows(4).position(|window| window == frame).unwrap();
    bytes[at + 12..at + 40].fill(0xff);
    fs::write(folder.join("bad.so"), &bytes).unwrap();
    let (status, list, _) = dump(&folder, &["bad.so"]);
    assert_eq!((status, list.lines().count()), (Some(0), 4));
    let (status, _, said) = dump(&folder, &["--image", "sm_90", "bad.so"]);
    assert_eq!((status, said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.starts_with("culd-dump: bad.so: .nv_fatbin[0.1]: "), "{said}");
    assert_eq!(dump(&folder, &["--image", "sm_75", "bad.so"]).0, Some(0));
    // Cut anywhere, it is a line and no panic.
    for length in (0..bytes.len()).step_by(509) {
        fs::write(folder.join("cut.so"), &bytes[..length]).unwrap();
        let (status, _, said) = dump(&folder, &["--all", "--summary", "cut.so"]);
        assert!(matches!(status, Some(0 | 2)), "{length}: {said}");
        assert!(said.lines().count() <= 1, "{length}: {said}");
    }
    fs::remove_dir_all(folder).unwrap();
}
