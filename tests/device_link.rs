//! `culd device-link`, and culd in place of nvcc: their outputs, the files they leave after errors,
//! and the lines that reach the real nvcc.
//!
//! `cargo xtask compare device-link`, which needs the tools, compares images, fat binaries and
//! registration with nvcc's.

#![allow(clippy::unwrap_used)]

use culd_fatbin::container::{Encoding, containers};
use culd_fatbin::header::flag;
use culd_fatbin::host::{HostObject, ModuleIds};
use culd_fatbin::writer::{ImageTarget, InputImage};
use culd_testkit::fixtures::case;
use culd_testkit::fixtures::pack::{self, HostParts};
use culd_tests::root;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

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
        (entry.sm(), entry.data(1 << 26).unwrap().into_owned())
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

/// The names of the files in a folder, sorted.
fn names(dir: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let names = fs::read_dir(dir).unwrap().map(name);
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// Bytes that a file may have where the disk is nearly full.
#[test]
fn a_full_disk_and_places_that_cannot_be_written_keep_the_old_output() {
    let world = world();
    let dir = world.path();
    fs::write(dir.join("d.o"), "old").unwrap();
    fs::create_dir(dir.join("folder")).unwrap();
    let before = names(dir);
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" device-link -arch=sm_90 saxpy.o \
                  smooth.o -o d.o";
    let mut limited = Command::new("sh");
    let done = limited.args(["-c", script, CULD]).current_dir(dir).output().unwrap();
    assert_eq!(done.status.code(), Some(1), "{}", said(&done));
    assert!(said(&done).contains("File too large"), "{}", said(&done));
    for output in ["saxpy.o/d.o", "folder", "none/d.o"] {
        let done = device_link(&["-arch=sm_90", "saxpy.o", "smooth.o", "-o", output], dir);
        assert_eq!(done.status.code(), Some(1), "{output}");
        assert!(said(&done).contains("Could not"), "{output}: {}", said(&done));
    }
    assert_eq!((fs::read(dir.join("d.o")).unwrap(), names(dir)), (b"old".to_vec(), before));
    // Without the limit it works, so it was the limit.
    let done = device_link(&["-arch=sm_90", "saxpy.o", "smooth.o", "-o", "d.o"], dir);
    assert!(done.status.success() && fs::read(dir.join("d.o")).unwrap().len() > 1024);
}

#[test]
fn a_library_that_is_missing_is_told() {
    let world = world();
    let dir = world.path();
    let words = ["-arch=sm_90", "saxpy.o", "-L.", "-lsmooth", "-o", "d.o"];
    let done = device_link(&words, dir);
    assert_eq!(done.status.code(), Some(255), "{}", said(&done));
    assert!(said(&done).contains("Undefined reference to 'smooth'"), "{}", said(&done));
    assert!(said(&done).contains("smooth") && !dir.join("d.o").exists());
    let object = fs::read(dir.join("smooth.o")).unwrap();
    let library = pack::archive(&[("smooth.o", &object)], pack::ArchiveFlavour::Gnu);
    fs::write(dir.join("libsmooth.a"), library).unwrap();
    assert!(device_link(&words, dir).status.success());
}

/// Killed by a signal that it cannot catch, and by one that it can, after delays across its length.
#[test]
fn a_killed_link_leaves_the_old_output_or_the_new_one() {
    let world = world();
    let dir = world.path();
    let words = ["device-link", "-gencode", "arch=compute_90,code=[sm_90,sm_100]", "-w"];
    let start = || {
        let mut command = Command::new(CULD);
        command.arg0("culd").args(words).args(["saxpy.o", "smooth.o", "-o", "d.o"]);
        command.current_dir(dir).stderr(Stdio::null()).spawn().unwrap()
    };
    let begun = Instant::now();
    assert!(start().wait().unwrap().success());
    let length = begun.elapsed();
    let whole = fs::read(dir.join("d.o")).unwrap();
    let before = names(dir);
    let mut killed = 0;
    for round in 0..100 {
        fs::write(dir.join("d.o"), "old").unwrap();
        let mut child = start();
        std::thread::sleep(length * round / 80);
        let signal = if round % 2 == 0 { Signal::SIGKILL } else { Signal::SIGTERM };
        // It is not waited for yet, so its number is its own.
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        let status = child.wait().unwrap();
        killed += u32::from(status.signal().is_some());
        let left = fs::read(dir.join("d.o")).unwrap();
        assert!(left == b"old" || left == whole, "round {round}: {} bytes", left.len());
        assert!(!status.success() || left == whole, "round {round}");
        let own = |name: &&String| !before.contains(name);
        let leftovers: Vec<String> = names(dir).iter().filter(own).cloned().collect();
        // A process that is killed at once can remove nothing.
        let allowed = |name: &String| signal == Signal::SIGKILL && name.starts_with(".culd-");
        assert!(leftovers.iter().all(allowed), "round {round}: {leftovers:?}");
        leftovers.iter().for_each(|name| fs::remove_file(dir.join(name)).unwrap());
    }
    assert!(killed > 10, "{killed} of 100 links were killed");
}

/// Copies of one module whose kernels have other names, as many as nvcc itself gives to nvlink in a
/// file.
#[test]
fn ten_thousand_inputs_are_linked() {
    const FILES: usize = 10_000;
    let world = world();
    let dir = world.path();
    let cubin = format!("{}/../testdata/quickstart/saxpy.cubin", env!("CARGO_MANIFEST_DIR"));
    let cubin = fs::read(cubin).unwrap();
    let mut list = String::from("saxpy.o\nsmooth.o\n");
    for number in 0..FILES - 2 {
        let name = format!("k{number:04}");
        let mut own = cubin.clone();
        // Both names that it defines: the kernel, and a constant.
        for (defined, new) in [("saxpy", name.clone()), ("scale", format!("c{number:04}"))] {
            for at in memchr_all(&cubin, defined.as_bytes()) {
                own[at..at + new.len()].copy_from_slice(new.as_bytes());
            }
        }
        let object = pack::host_object(&HostParts {
            fatbins: vec![
                pack::fatbin(&[InputImage::cubin(own, ImageTarget::sm(90)).unwrap()]).unwrap(),
            ],
            module_ids: vec![format!("_{number}_x_cu")],
            ..HostParts::default()
        });
        fs::write(dir.join(format!("{name}.o")), object.unwrap()).unwrap();
        list += &format!("{name}.o\n");
    }
    fs::write(dir.join("list"), list).unwrap();
    let done = device_link(&["-arch=sm_90", "-optf", "list", "-o", "d.o"], dir);
    assert!(done.status.success(), "{}", said(&done));
    let object = fs::read(dir.join("d.o")).unwrap();
    let Some(ModuleIds::Linked(Ok(ids))) = HostObject::parse(&object).unwrap().unwrap().module_ids
    else {
        panic!("no modules")
    };
    assert_eq!(ids.len(), FILES);
    let images = images(&object);
    let image = &images[0].1;
    for name in ["smooth", "saxpy", "k0000", "k9997"] {
        assert!(!memchr_all(image, name.as_bytes()).is_empty(), "{name}");
    }
}

/// The places of `pattern`.
fn memchr_all(data: &[u8], pattern: &[u8]) -> Vec<usize> {
    let here = |at: &usize| data[*at..].starts_with(pattern);
    (0..data.len()).filter(|at| data[*at] == pattern[0]).filter(here).collect()
}

/// nvcc makes objects of cubins and PTX and removes them, so nothing can register them.
#[test]
fn cubins_are_linked_where_nothing_registers_them() {
    let world = world();
    let dir = world.path();
    let cubin = format!("{}/../testdata/quickstart/smooth.cubin", env!("CARGO_MANIFEST_DIR"));
    fs::copy(cubin, dir.join("smooth.cubin")).unwrap();
    let done = device_link(&["-arch=sm_90", "-cubin", "saxpy.o", "smooth.o", "-o", "a"], dir);
    assert!(done.status.success(), "{}", said(&done));
    let done = device_link(&["-arch=sm_90", "-cubin", "saxpy.o", "smooth.cubin", "-o", "b"], dir);
    assert!(done.status.success(), "{}", said(&done));
    assert!(fs::read(dir.join("a")).unwrap() == fs::read(dir.join("b")).unwrap());
    for (words, text) in [
        (&["-arch=sm_90", "saxpy.o", "smooth.cubin"][..], "nvcc makes and removes"),
        (&["-arch=sm_80", "-fatbin", "saxpy.o", "smooth.cubin"], "a cubin for sm_90"),
        (&["-arch=sm_90", "-fatbin", "-lineinfo", "a.ptx"], "nvcc has to compile it"),
    ] {
        let done = device_link(&[words, &["-o", "c"]].concat(), dir);
        assert_eq!(done.status.code(), Some(1), "{words:?}");
        assert!(said(&done).contains(text), "{words:?}: {}", said(&done));
        assert!(!dir.join("c").exists());
    }
}

/// Their drivers may know LZ4 only.
#[test]
fn images_of_cuda_12_are_compressed_as_its_drivers_can_read() {
    let world = world();
    let dir = world.path();
    let old = case::assemble(&root().join("testdata/cuda12/11.8-sm_80/a.cubin.txt")).unwrap();
    fs::write(dir.join("a.cubin"), old).unwrap();
    let how = |words: &[&str]| {
        let line = [&["-fatbin", "-w", "-o", "f", "-Xfatbin", "-compress-all"], words].concat();
        let done = device_link(&line, dir);
        assert!(done.status.success(), "{}", said(&done));
        let bytes = fs::read(dir.join("f")).unwrap();
        let entry = containers(&bytes).next().unwrap().unwrap().entries().next().unwrap();
        entry.unwrap().encoding()
    };
    assert_eq!(how(&["-arch=sm_80", "a.cubin"]), Encoding::Lz4);
    assert_eq!(how(&["-arch=sm_80", "-compress-mode=size", "a.cubin"]), Encoding::Zstd);
    assert_eq!(how(&["-arch=sm_90", "saxpy.o", "smooth.o"]), Encoding::Zstd);
}

/// A program without device code has an image, too, which the driver of that release loads.
#[test]
fn the_release_of_a_named_toolkit_is_followed() {
    let world = world();
    let dir = world.path();
    let plain = pack::host_object(&HostParts::default()).unwrap();
    fs::write(dir.join("plain.o"), plain).unwrap();
    for (release, target, abi) in [("12.4", "sm_60", 0x33), ("13.0", "sm_90", 0x41)] {
        let toolkit = dir.join(release);
        fs::create_dir_all(toolkit.join("bin")).unwrap();
        let version = format!("{{\"cuda\" : {{\"version\" : \"{release}.1\"}}}}");
        fs::write(toolkit.join("version.json"), version).unwrap();
        let words = ["--cuda", release, "-w", "-arch", target, "plain.o", "-o", "d.o"];
        let done = device_link(&words, dir);
        assert!(done.status.success(), "{}", said(&done));
        let images = images(&fs::read(dir.join("d.o")).unwrap());
        assert_eq!((images.len(), images[0].1[7]), (1, abi), "{release}");
        // What the line says comes first.
        let own = ["--cuda", release, "-w", "-arch", "sm_90", "-Xnvlink", "--dialect=13.1"];
        let done = device_link(&[&own[..], &["plain.o", "-o", "d.o"]].concat(), dir);
        assert!(done.status.success(), "{}", said(&done));
    }
}

#[test]
fn images_of_other_architectures_are_pruned() {
    let world = world();
    let dir = world.path();
    let words = ["-gencode", "arch=compute_90,code=[sm_90,sm_100]", "-w", "-r"];
    let done = device_link(&[&words[..], &["saxpy.o", "smooth.o", "-o", "two.o"]].concat(), dir);
    assert!(done.status.success(), "{}", said(&done));
    let object = fs::read(dir.join("two.o")).unwrap();
    let archive = pack::archive(&[("two.o", &object), ("odd", b"abc")], pack::ArchiveFlavour::Gnu);
    fs::write(dir.join("lib.a"), archive).unwrap();
    let prune = |words: &[&str]| run(CULD, "culd", &[&["prune"], words].concat(), dir);
    let done = prune(&["-arch", "sm_90", "two.o", "-o", "one.o"]);
    assert!(done.status.success(), "{}", said(&done));
    let one = fs::read(dir.join("one.o")).unwrap();
    let sm = |object: &[u8]| images(object).iter().map(|image| image.0).collect::<Vec<u32>>();
    assert_eq!((sm(&object), sm(&one)), (vec![90, 100], vec![90]));
    assert_eq!(images(&object)[0], images(&one)[0]);
    // It links as before, and so does the one in an archive.
    let done = prune(&["-gencode", "arch=compute_90,code=[sm_90]", "lib.a", "-o", "less.a"]);
    assert!(done.status.success(), "{}", said(&done));
    let mut made = Vec::new();
    for input in ["two.o", "one.o", "lib.a", "less.a"] {
        let done = device_link(&["-arch=sm_90", "-cubin", input, "-o", "linked"], dir);
        assert!(done.status.success(), "{input}: {}", said(&done));
        made.push(fs::read(dir.join("linked")).unwrap());
    }
    assert!(made.windows(2).all(|pair| pair[0] == pair[1]));
    let done = prune(&["-arch", "sm_75", "two.o", "-o", "none.o"]);
    assert!(done.status.success() && said(&done).contains("stripped out all device code"));
    for words in [
        &["two.o", "-o", "x"][..],
        &["-arch", "sm_90", "two.o"],
        &["-arch", "what", "two.o", "-o", "x"],
        &["-arch", "sm_90", "missing.o", "-o", "x"],
        &["-arch", "sm_90", "odd", "-o", "x"],
    ] {
        assert_eq!(prune(words).status.code(), Some(1), "{words:?}");
        assert!(!dir.join("x").exists());
    }
}

/// A toolkit whose nvcc writes its words to a file, and its shadow.
fn shadow(dir: &Path) -> PathBuf {
    let bin = dir.join("toolkit/bin");
    fs::create_dir_all(&bin).unwrap();
    let script = "#!/bin/sh\nfor word; do echo \"$word\"; done > words\necho \"$MARK\" >> words\nenv > environment\nexit 7\n";
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

/// nvcc and fatbinary of these toolkits write other containers.
#[test]
fn before_cuda_13_all_lines_reach_nvcc_and_fatbinary() {
    let world = world();
    let dir = world.path();
    for (release, other) in [("12.9", true), ("11.8", true), ("13.0", false)] {
        fs::create_dir_all(dir.join("toolkit")).unwrap();
        let version = format!("{{\"cuda\" : {{\"version\" : \"{release}.1\"}}}}");
        fs::write(dir.join("toolkit/version.json"), version).unwrap();
        let bin = shadow(dir);
        fs::write(dir.join("i.ptx"), ".version 8.0\n.target sm_90\n.address_size 64\n").unwrap();
        let link = ["-arch=sm_90", "-dlink", "saxpy.o", "smooth.o", "-w", "-o", "d.o"];
        let pack = ["--create=a.fatbin", "-64", "--image3=kind=ptx,sm=90,file=i.ptx"];
        for (tool, words) in [("nvcc", &link[..]), ("fatbinary", &pack)] {
            let _ = fs::remove_file(dir.join("words"));
            let program = bin.join(tool);
            let done = run(&program, program.to_str().unwrap(), words, dir);
            let status = if other { 7 } else { 0 };
            assert_eq!(done.status.code(), Some(status), "{release} {tool} {}", said(&done));
            assert_eq!(dir.join("words").exists(), other, "{release} {tool}");
        }
        fs::remove_dir_all(dir.join("tk")).unwrap();
        fs::remove_dir_all(dir.join("toolkit")).unwrap();
    }
}

/// nvcc 11.8, 12.4 and 13.0 to 13.5 give nvlink and fatbinary no `-g` for optimized code.
#[test]
fn optimized_code_is_not_packed_as_code_for_a_debugger() {
    let world = world();
    let dir = world.path();
    let nvcc = shadow(dir).join("nvcc");
    for (options, for_debugger, has_names) in [
        (&["-G"][..], true, true),
        (&["-G", "-dopt=on"], false, true),
        (&["--dopt", "on", "-G", "-lineinfo"], false, true),
        (&["-lineinfo"], false, true),
        (&["-dopt=on"], false, false),
    ] {
        let link = ["-arch=sm_90", "-dlink", "-fatbin", "saxpy.o", "smooth.o", "-w", "-o", "d"];
        let words = [&link[..], options].concat();
        let done = run(&nvcc, nvcc.to_str().unwrap(), &words, dir);
        assert!(done.status.success(), "{}", said(&done));
        let file = fs::read(dir.join("d")).unwrap();
        let container = containers(&file).next().unwrap().unwrap();
        let entry = container.entries().next().unwrap().unwrap();
        let found = (entry.has(flag::DEBUG), !entry.ident().is_empty());
        assert_eq!(found, (for_debugger, has_names), "{options:?}");
    }
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
        &["-dlink", "-arch=sm_90", "-dlto", "-G", "saxpy.o"],
        &["-dlink", "-arch=sm_90", "-Ofc=min", "-G", "saxpy.o"],
        &["-dlink", "-arch=sm_90", "-lineinfo", "-G", "saxpy.o"],
        &["-dlink", "-arch=sm_90", "-G", "-split-compile=1", "saxpy.o"],
        &["-dlink", "-arch=sm_90", "-w", "-Werror", "all-warnings", "saxpy.o"],
        &["-dlink", "-arch=sm_90", "-rdc=false", "saxpy.o"],
        &["-dlink", "-arch=sm_90", "-ewp", "saxpy.o"],
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
    // Nothing is added to the environment, nothing taken away, odd values included.
    let mut command = Command::new(&nvcc);
    let odd = [("A", "a b"), ("MARK", "m'\"$x"), ("NVCC_APPEND_FLAGS", ""), ("PATH", "/bin")];
    command.arg0(name).args(["-c", "a.cu"]).current_dir(dir).env_clear().envs(odd);
    assert_eq!(command.output().unwrap().status.code(), Some(7));
    let text = fs::read_to_string(dir.join("environment")).unwrap();
    // The shell has some of its own.
    let mut lines: Vec<&str> = text.lines().collect();
    lines.retain(|line| {
        !["PWD=", "OLDPWD=", "SHLVL=", "_="].iter().any(|own| line.starts_with(own))
    });
    lines.sort_unstable();
    assert_eq!(lines, ["A=a b", "MARK=m'\"$x", "NVCC_APPEND_FLAGS=", "PATH=/bin"]);
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
