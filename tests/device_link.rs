//! `culd device-link`, and culd in place of nvcc: their outputs, the files they leave after errors,
//! and the lines that reach the real nvcc.
//!
//! `cargo xtask compare device-link`, which needs the tools, compares images, fat binaries and
//! registration with nvcc's.

#![allow(clippy::unwrap_used)]

use culd_fatbin::container::containers;
use culd_fatbin::host::{HostObject, ModuleIds};
use culd_fatbin::writer::{ImageTarget, InputImage};
use culd_testkit::fixtures::pack::{self, HostParts};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");

/// A folder with objects of two modules for sm_90; the first needs the second.
fn world() -> tempfile::TempDir {
    let world = tempfile::tempdir().unwrap();
    for (name, id) in [("saxpy", "_1_saxpy_cu"), ("smooth", "_2_smooth_cu")] {
        let path = format!("{}/../testdata/quickstart/{name}.cubin", env!("CARGO_MANIFEST_DIR"));
        let image = InputImage::cubin(fs::read(path).unwrap(), ImageTarget::sm(90)).unwrap();
        let object = pack::host_object(&HostParts {
            fatbins: vec![pack::fatbin(&[image]).unwrap()],
            module_ids: vec![id.to_owned()],
            ..HostParts::default()
        });
        fs::write(world.path().join(format!("{name}.o")), object.unwrap()).unwrap();
    }
    world
}

fn run(program: impl AsRef<OsStr>, name: &str, words: &[&str], dir: &Path) -> Output {
    let mut command = Command::new(program);
    command.arg0(name).args(words).current_dir(dir);
    for name in ["CUDA_HOME", "CUDA_PATH", "NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", "NVCC_CCBIN"]
    {
        command.env_remove(name);
    }
    command.output().unwrap()
}

fn device_link(words: &[&str], dir: &Path) -> Output {
    run(CULD, "culd", &[&["device-link"], words].concat(), dir)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The images of the fat binary at the end of an object.
fn images(object: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let host = HostObject::parse(object).unwrap().unwrap();
    let data = host.whole_programs.iter().chain(&host.fatbins).next().unwrap().data;
    let entries = containers(data).flat_map(|container| container.unwrap().entries());
    let entry = |entry: Result<culd_fatbin::container::FatbinEntry<'_>, _>| {
        let entry = entry.unwrap();
        (entry.sm(), entry.data(1 << 24).unwrap().into_owned())
    };
    entries.map(entry).collect()
}

#[test]
fn the_object_has_the_image_and_the_modules() {
    let world = world();
    let dir = world.path();
    let done = device_link(&["-arch=sm_90", "saxpy.o", "smooth.o", "-o", "d.o"], dir);
    assert!(done.status.success(), "{}", said(&done));
    let object = fs::read(dir.join("d.o")).unwrap();
    let ids = HostObject::parse(&object).unwrap().unwrap().module_ids;
    let expected: Vec<&[u8]> = vec![b"_1_saxpy_cu", b"_2_smooth_cu"];
    assert_eq!(ids, Some(ModuleIds::Linked(Ok(expected))));
    let done = device_link(&["-arch=sm_90", "-cubin", "saxpy.o", "smooth.o", "-o", "d.cubin"], dir);
    assert!(done.status.success(), "{}", said(&done));
    assert_eq!(images(&object), [(90, fs::read(dir.join("d.cubin")).unwrap())]);
    // Modules that a device link has linked are not linked again.
    let done = device_link(&["-arch=sm_90", "saxpy.o", "smooth.o", "d.o", "-o", "e.o"], dir);
    assert!(done.status.success(), "{}", said(&done));
    let again = fs::read(dir.join("e.o")).unwrap();
    let ids = HostObject::parse(&again).unwrap().unwrap().module_ids;
    assert!(ids.is_none_or(|ids| ids.here().iter().all(|id| id.is_empty())));
    // With -r, the output is a module, and is linked.
    let done = device_link(&["-arch=sm_90", "-r", "saxpy.o", "smooth.o", "-o", "r.o"], dir);
    assert!(done.status.success(), "{}", said(&done));
    let done = device_link(&["-arch=sm_90", "r.o", "-o", "f.o"], dir);
    assert!(done.status.success(), "{}", said(&done));
    assert_eq!(images(&fs::read(dir.join("f.o")).unwrap()).len(), 1);
}

/// The number of threads does not change the output, and neither does a path with blanks and
/// quotes.
#[test]
fn the_bytes_are_the_same_however_it_is_linked() {
    let world = world();
    let dir = world.path();
    let archs = ["-gencode", "arch=compute_90,code=[sm_90,sm_100]", "-w"];
    let mut made = Vec::new();
    for threads in ["1", "2", "8"] {
        let words = format!("-Xnvlink=-threads={threads}");
        let words = [&archs[..], &[&words, "saxpy.o", "smooth.o", "-o", "d.o"]].concat();
        let done = device_link(&words, dir);
        assert!(done.status.success(), "{}", said(&done));
        made.push(fs::read(dir.join("d.o")).unwrap());
    }
    assert!(made.windows(2).all(|pair| pair[0] == pair[1]));
    let odd = dir.join("a b'c\"d");
    fs::create_dir(&odd).unwrap();
    for name in ["saxpy.o", "smooth.o"] {
        fs::copy(dir.join(name), odd.join(name)).unwrap();
    }
    let paths = ["saxpy.o", "smooth.o", "d o.o"].map(|name| odd.join(name).display().to_string());
    let words = [&archs[..], &[&paths[0], &paths[1], "-o", &paths[2]]].concat();
    let done = device_link(&words, dir);
    assert!(done.status.success(), "{}", said(&done));
    assert!(fs::read(&paths[2]).unwrap() == made[0]);
}

#[test]
fn a_link_that_fails_leaves_what_was_there() {
    let world = world();
    let dir = world.path();
    let names = || {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    fs::write(dir.join("d.o"), "old").unwrap();
    let before = names();
    // There is no code for sm_80, and for sm_90 the function that saxpy needs is missing.
    let two = ["-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=sm_90"];
    for (words, text, status) in [
        (&["saxpy.o"][..], "Undefined reference to 'smooth' in 'saxpy.o' (target: sm_90)", 255),
        (&["saxpy.o", "none.o"], "Could not open input file 'none.o' (target: sm_80)", 1),
        (&["saxpy.o", "smooth.o", "-Xnvlink=-bogus"], "Unknown option 'bogus'", 1),
        (&["saxpy.o", "smooth.o", "-Xnvlink=--stats"], "none of a device link", 1),
        (&["saxpy.o", "smooth.o", "-c"], "'-c' asks for more than a device link", 1),
        (&["saxpy.o", "smooth.o", "-fPIC"], "Unknown option '-fPIC'", 1),
        (&["saxpy.o", "smooth.o", "-Xcompiler=-m32"], "another kind of host object", 1),
        (&["saxpy.o", "x.cu"], "nvcc has to compile it", 1),
        (&["saxpy.o", "noext"], "Don't know what to do with 'noext'", 1),
    ] {
        let done = device_link(&[&two[..], words, &["-o", "d.o"]].concat(), dir);
        assert_eq!(done.status.code(), Some(status), "{words:?}: {}", said(&done));
        assert!(said(&done).contains(text), "{words:?}: {}", said(&done));
        assert_eq!(fs::read(dir.join("d.o")).unwrap(), b"old");
        assert_eq!(names(), before, "{words:?}");
    }
    // Lines have the order of the links.
    let done = device_link(&[&two[..], &["saxpy.o", "smooth.o", "-o", "n.o"]].concat(), dir);
    assert!(done.status.success());
    assert!(said(&done).contains("not found in 'saxpy.o' (target: sm_80)"), "{}", said(&done));
    let done = device_link(&["-arch=sm_90", "saxpy.o", "smooth.o", "-o", "no/such/d.o"], dir);
    assert_eq!(done.status.code(), Some(1));
    assert!(said(&done).contains("Could not open output file 'no/such/d.o'"), "{}", said(&done));
    let full = ["-arch=sm_90", "saxpy.o", "smooth.o", "-o", "/dev/full"];
    let done = device_link(&full, dir);
    assert_eq!(done.status.code(), Some(1), "{}", said(&done));
}

/// A toolkit whose nvcc writes its words to a file, and its shadow.
fn shadow(dir: &Path) -> PathBuf {
    let bin = dir.join("toolkit/bin");
    fs::create_dir_all(&bin).unwrap();
    let script =
        "#!/bin/sh\nfor word; do echo \"$word\"; done > words\necho \"$MARK\" >> words\nexit 7\n";
    for tool in ["nvcc", "fatbinary", "nvlink"] {
        fs::write(bin.join(tool), script).unwrap();
        fs::set_permissions(bin.join(tool), fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(bin.join("nvcc.profile"), "TOP = $(_HERE_)/..\nLIBRARIES =+ -L$(TOP)/lib64\n")
        .unwrap();
    let done = run(CULD, "culd", &["install-shadow", "tk", "--cuda", "toolkit"], dir);
    assert!(done.status.success(), "{}", said(&done));
    dir.join("tk/bin")
}

#[test]
fn lines_of_nvcc_are_made_here_or_reach_it_unchanged() {
    let world = world();
    let dir = world.path();
    let bin = shadow(dir);
    let nvcc = bin.join("nvcc");
    let name = nvcc.to_str().unwrap();
    let passed = |words: &[&str]| {
        let _ = fs::remove_file(dir.join("words"));
        let done = run(&nvcc, name, words, dir);
        (done.status.code(), fs::read_to_string(dir.join("words")).ok(), said(&done))
    };
    let link = ["-arch=sm_90", "-dlink", "saxpy.o", "smooth.o", "-w", "-o", "d.o"];
    let (status, words, text) = passed(&link);
    assert_eq!((status, words), (Some(0), None), "{text}");
    assert!(dir.join("d.o").is_file());
    for words in [
        &["-c", "a b.cu", "-o", "x\"y'.o"][..],
        &["--version"],
        &[],
        &["-dlink", "-v", "saxpy.o"],
        &["-dlink", "-arch=sm_90", "-keep", "saxpy.o"],
        &["-dlink", "-arch=sm_90", "--unknown", "saxpy.o"],
        &["-dlink", "-arch=sm_90", "-ccbin", "no-such-compiler", "saxpy.o"],
        &["-dlink", "-arch=sm_90", "-arch=sm_80", "saxpy.o"],
        &["-arch=sm_90", "saxpy.cu", "-o", "prog"],
        &["-arch=sm_90", "-nodlink", "saxpy.o", "-o", "prog"],
    ] {
        let (status, passed, _) = passed(words);
        let expected: String = words.iter().map(|word| format!("{word}\n")).collect();
        assert_eq!((status, passed), (Some(7), Some(format!("{expected}\n"))), "{words:?}");
    }
    // A link of objects: the real nvcc gets the object of the device link.
    let (status, words, text) = passed(&["-arch=sm_90", "-w", "saxpy.o", "smooth.o", "-o", "prog"]);
    assert_eq!(status, Some(7), "{text}");
    let words = words.unwrap();
    let words: Vec<&str> = words.lines().collect();
    assert_eq!(words[0], "-nodlink");
    assert!(words[1].ends_with("/dlink.o") && !Path::new(words[1]).exists());
    assert_eq!(words[2..7], ["-arch=sm_90", "-w", "saxpy.o", "smooth.o", "-o"]);
    // If culd's link fails, nvcc does not link.
    let (status, words, text) = passed(&["-arch=sm_90", "saxpy.o", "-o", "prog"]);
    assert_eq!((status, words), (Some(255), None));
    assert!(text.contains("nvlink error   : Undefined reference to 'smooth'"), "{text}");
    // Switched off by an option, and by the variable.
    let (status, words, _) = passed(&[&link[..], &["--culd=off"]].concat());
    assert_eq!((status, words.map(|words| words.contains("culd"))), (Some(7), Some(false)));
    let mut command = Command::new(&nvcc);
    command.arg0(name).args(link).current_dir(dir).env("CULD_NVCC", "off").env("MARK", "mine");
    assert_eq!(command.output().unwrap().status.code(), Some(7));
    assert!(fs::read_to_string(dir.join("words")).unwrap().ends_with("d.o\nmine\n"));
    // Outside its shadow, it reports that.
    fs::remove_dir_all(dir.join("toolkit")).unwrap();
    let (status, words, text) = passed(&link);
    assert_eq!((status, words), (Some(1), None));
    assert!(text.contains("is not CUDA"), "{text}");
}

#[test]
fn fatbinary_makes_what_it_understands() {
    let world = world();
    let dir = world.path();
    let cubin = format!("{}/../testdata/quickstart/saxpy.cubin", env!("CARGO_MANIFEST_DIR"));
    let image = format!("--image3=kind=elf,sm=90,file={cubin}");
    let words = ["fatbinary", "-64", &image, "--create=a.fatbin", "--embedded-fatbin=a.c"];
    let done = run(CULD, "culd", &words, dir);
    assert!(done.status.success(), "{}", said(&done));
    let old = format!("--image=profile=sm_90,file={cubin}");
    let done = run(CULD, "fatbinary", &["--create", "b.fatbin", &old], dir);
    assert!(done.status.success(), "{}", said(&done));
    let read = |name: &str| fs::read(dir.join(name)).unwrap();
    assert!(read("a.fatbin") == read("b.fatbin") && !read("a.c").is_empty());
    for (image, text) in [
        ("kind=elf,sm=80,file=", "elf arch does not match"),
        ("kind=foo,sm=90,file=", "Missing or unknown kind"),
        ("kind=elf,sm=9000,file=", "invalid architecture"),
        ("kind=elf,sm=90,file=none", "Could not open input file"),
    ] {
        let image = format!("--image3={image}{cubin}");
        let done = run(CULD, "culd", &["fatbinary", &image, "--create=c.fatbin"], dir);
        assert_eq!(done.status.code(), Some(1));
        assert!(said(&done).contains(text), "{}", said(&done));
    }
    assert!(!dir.join("c.fatbin").exists());
}
