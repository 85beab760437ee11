//! How a link finds the programs and libraries that it starts or loads: never in the working folder
//! by name alone.
//!
//! In: a working folder that has one of each name, and a PATH that is missing, empty, or names that
//! folder. Out: no report. Guaranteed: each of them is found if something names its place, so the
//! test fails if nothing is ever started.
#![allow(clippy::unwrap_used)]

use culd_tests::world::{ProgramFolder, copy_quickstart};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output};

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");
/// The names of programs and libraries that are started or loaded.
const NAMES: &[&str] = &["ptxas", "culd-lto", "gcc", "nvcc", "culd", "libnvJitLink.so.13"];
/// Values of PATH without a named folder; `None`: it is not set.
const PATHS: &[Option<&str>] =
    &[None, Some(""), Some(":"), Some("."), Some("./"), Some("bin"), Some("/nowhere::./bin:.")];

/// A folder with culd, and a working folder with a program of each name.
struct SearchFolders {
    folder: ProgramFolder,
}

impl SearchFolders {
    fn new() -> Self {
        let world = SearchFolders { folder: ProgramFolder::new() };
        for folder in ["own", "here/bin", "here/lib", "named/bin"] {
            fs::create_dir_all(world.path(folder)).unwrap();
        }
        fs::copy(CULD, world.path("own/culd")).unwrap();
        fs::write(world.path("here/a.ltoir"), [b'L'; 64]).unwrap();
        let ptx = ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry e() { ret; }\n";
        fs::write(world.path("here/a.ptx"), ptx).unwrap();
        copy_quickstart(&world.path("here"));
        for name in NAMES {
            for folder in ["here", "here/bin", "here/lib"] {
                world.script(&format!("{folder}/{name}"));
            }
        }
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a program that leaves a file when it is started.
    fn script(&self, name: &str) {
        let (path, started) = (self.path(name), self.path("started"));
        let text = format!(
            "#!/bin/sh\necho \"$0\" >> '{}'\n/bin/cp '{}' elf.o\n",
            started.display(),
            self.path("here/smooth.cubin").display()
        );
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn run(&self, path: Option<&str>, words: &[&str]) -> Output {
        let mut command = Command::new(self.path("own/culd"));
        command.arg0("culd").args(words).current_dir(self.path("here")).env_clear();
        command.envs(path.map(|path| ("PATH", path))).output().unwrap()
    }

    /// The programs that were started since the last call.
    fn started(&self) -> Vec<String> {
        let started = fs::read_to_string(self.path("started")).unwrap_or_default();
        let _ = fs::remove_file(self.path("started"));
        started.lines().map(str::to_owned).collect()
    }
}

/// Links that need ptxas, culd-lto, or the host's compiler. `-nvvmpath` has to be a folder; this
/// one is in no toolkit.
const LINKS: &[&[&str]] = &[
    &["-arch=sm_90", "saxpy.cubin", "a.ptx", "-o", "out"],
    &["-arch=sm_90", "saxpy.cubin", "a.ptx", "-o", "out", "--ptxas-path=ptxas"],
    &["-arch=sm_90", "-lto", "-nvvmpath=/proc/self", "a.ltoir", "-o", "out"],
    &["-ghls=lcs-abs", "-o", "out"],
    &["-ghls=lcs-abs", "--host-ccbin=gcc", "-o", "out"],
];

#[test]
fn nothing_of_the_working_folder_runs_by_its_name() {
    let world = SearchFolders::new();
    for &path in PATHS {
        for &words in LINKS {
            let output = world.run(path, words);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(world.started(), [""; 0], "{path:?} {words:?} {said}");
            // A script for the host is written without a compiler, too.
            let is_script = words[0].starts_with("-ghls");
            assert_eq!(output.status.success(), is_script, "{path:?} {words:?} {said}");
        }
    }
    let said = String::from_utf8(world.run(None, LINKS[1]).stderr).unwrap();
    assert!(said.contains("there is no 'ptxas' in PATH"), "{said}");
}

#[test]
fn what_is_named_runs() {
    let world = SearchFolders::new();
    for name in NAMES {
        world.script(&format!("named/bin/{name}"));
    }
    let named = world.path("named/bin").display().to_string();
    let here = world.path("here").display().to_string();
    // In a folder of PATH.
    let programs = ["ptxas", "ptxas", "culd-lto", "gcc", "gcc"];
    for (&words, name) in LINKS.iter().zip(programs) {
        world.run(Some(&format!("::.:{named}")), words);
        assert_eq!(world.started(), [format!("{named}/{name}")], "{words:?}");
    }
    // By a path, for any PATH.
    for (option, file) in [("--ptxas-path", "./ptxas"), ("--ptxas-path", "bin/ptxas")] {
        let link = ["-arch=sm_90", "saxpy.cubin", "a.ptx", "-o", "out", option, file];
        let output = world.run(None, &link);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(world.started(), [format!("{here}/{}", file.trim_start_matches("./"))]);
    }
    world.run(None, &["-ghls=lcs-abs", "-o", "out", "--host-ccbin", "./gcc"]);
    assert_eq!(world.started(), [format!("{here}/gcc")]);
    // By the environment.
    let mut command = Command::new(world.path("own/culd"));
    command.args(LINKS[0]).current_dir(world.path("here")).env_clear().env("CUDA_HOME", ".");
    assert!(command.status().unwrap().success());
    let started = world.started();
    assert_eq!(started.len(), 1);
    assert!(started[0].ends_with("here/./bin/ptxas") || started[0].ends_with("here/bin/ptxas"));
    // In the folder of a culd that was started by a path.
    fs::copy(world.path("own/culd"), world.path("here/culd")).unwrap();
    let mut command = Command::new(OsStr::new("./culd"));
    command.args(LINKS[0]).current_dir(world.path("here")).env_clear();
    assert!(command.status().unwrap().success());
    assert_eq!(world.started(), [format!("{here}/ptxas")]);
}

/// nvlink asks for the script of the link that the host's linker will make: `-shared` counts before
/// `-r` (11.8, 12.4, 13.0 and 13.5).
#[test]
fn the_hosts_script_is_that_of_its_link() {
    let world = SearchFolders::new();
    let path = world.path("here/cc");
    fs::write(&path, "#!/bin/sh\necho ==========\necho \"$*\"\necho ==========\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    for (options, expected) in [
        (&[][..], "-Wl,--verbose"),
        (&["-r"], "-r -Wl,--verbose"),
        (&["-shared"], "-shared -Wl,--verbose"),
        (&["-r", "-shared"], "-shared -Wl,--verbose"),
        (&["--dialect=12.4", "--host-relocatable-link"], "-r -Wl,--verbose"),
    ] {
        let words = [&["-ghls=lcs-abs", "--host-ccbin=./cc"], options].concat();
        let script = String::from_utf8(world.run(None, &words).stdout).unwrap();
        assert_eq!(script.lines().next(), Some(expected), "{options:?} {script}");
    }
}
