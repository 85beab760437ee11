//! Every place that names a path, and every kind of file at that path.
//!
//! In: a place, and a file of a kind. Out: no report. Guaranteed: files that inputs name, and files
//! that are read to their end, are regular files, or are refused before the link waits or takes
//! memory. A link that takes longer than the limit fails the test. Files that the command line
//! names may be pipes. docs/RELIABILITY.md has the table.
#![allow(clippy::unwrap_used)]

use culd_testkit::fixtures::pack::{self, ArchiveFlavour};
use culd_testkit::reference::oracle::process::{self, Status};
use culd_tests::world::copy_quickstart;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");
const QUICKSTART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/quickstart/");
const LIMIT: Duration = Duration::from_secs(60);
/// The limit of the process's addresses in KiB. A pipe or device of the command line may be a
/// gigabyte long.
const ADDRESSES: u64 = 512 << 10;

/// The kind of file at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileKind {
    /// A regular file with the right contents.
    Regular,
    /// The same behind a symbolic link.
    Linked,
    Nothing,
    Dangling,
    Circle,
    Folder,
    /// A pipe that nobody writes to.
    Silent,
    /// A pipe with the right contents.
    Pipe,
    Socket,
    /// `/dev/zero`, which has no end.
    Zero,
    /// `/dev/null`.
    Null,
    /// A regular file without a size, whose contents are made while it is read.
    Made,
}

const KINDS: &[FileKind] = &[
    FileKind::Regular,
    FileKind::Linked,
    FileKind::Nothing,
    FileKind::Dangling,
    FileKind::Circle,
    FileKind::Folder,
    FileKind::Silent,
    FileKind::Pipe,
    FileKind::Socket,
    FileKind::Zero,
    FileKind::Null,
    FileKind::Made,
];

/// The expected result of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ExpectedLink {
    /// It links without a line.
    To,
    /// It links, and says this.
    ToWith(&'static str),
    /// It fails, and says this.
    Not(&'static str),
}

/// Makes a file of `kind` at `path`; `bytes` are the right contents.
fn make(kind: FileKind, path: &Path, bytes: &[u8]) {
    match kind {
        FileKind::Regular => fs::write(path, bytes).unwrap(),
        FileKind::Linked => {
            fs::write(path.with_extension("real"), bytes).unwrap();
            symlink(path.with_extension("real"), path).unwrap();
        }
        FileKind::Nothing => {}
        FileKind::Dangling => symlink("nowhere", path).unwrap(),
        FileKind::Circle => symlink(path.file_name().unwrap(), path).unwrap(),
        FileKind::Folder => fs::create_dir(path).unwrap(),
        FileKind::Silent => mkfifo(path, Mode::S_IRWXU).unwrap(),
        FileKind::Pipe => {
            mkfifo(path, Mode::S_IRWXU).unwrap();
            let (path, bytes) = (path.to_owned(), bytes.to_vec());
            // If nobody opens it, the thread stays until the tests end.
            thread::spawn(move || File::options().write(true).open(path)?.write_all(&bytes));
        }
        FileKind::Socket => drop(UnixListener::bind(path).unwrap()),
        FileKind::Zero => symlink("/dev/zero", path).unwrap(),
        FileKind::Null => symlink("/dev/null", path).unwrap(),
        FileKind::Made => symlink("/proc/self/cmdline", path).unwrap(),
    }
}

struct KindFolder(tempfile::TempDir);

impl KindFolder {
    fn new() -> Self {
        let world = KindFolder(tempfile::tempdir().unwrap());
        copy_quickstart(world.0.path());
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Links, and compares the result with `expected`.
    fn check(&self, line: &str, what: &dyn std::fmt::Debug, expected: &ExpectedLink) {
        let mut command = Command::new("sh");
        let script = format!("ulimit -v {ADDRESSES}; exec \"$0\" \"$@\"");
        command.args(["-c", &script, CULD, "-arch=sm_90", "-o", "out"]).args(line.split(' '));
        let run = process::run(command.current_dir(self.0.path()), LIMIT).unwrap();
        let said = run.stderr_text();
        let links = run.status == Status::Exit(0);
        match expected {
            ExpectedLink::To => assert!(links && said.is_empty(), "{what:?}: {said}"),
            ExpectedLink::ToWith(message) => {
                assert!(links && said.contains(message), "{what:?}: {said}")
            }
            ExpectedLink::Not(message) => {
                assert!(
                    run.status == Status::Exit(1) && said.contains(message),
                    "{what:?}: {said}"
                );
                assert!(!self.path("out").exists(), "{what:?}");
            }
        }
    }
}

/// Links `line` with a file of each kind at `path`, whose right contents are `bytes`. Kinds without
/// an expectation are skipped.
fn every_kind(
    world: impl Fn() -> KindFolder,
    line: &str,
    (path, bytes): (&str, &[u8]),
    comes: impl Fn(FileKind) -> Option<ExpectedLink>,
) {
    for &kind in KINDS {
        let Some(expected) = comes(kind) else { continue };
        let world = world();
        make(kind, &world.path(path), bytes);
        world.check(line, &kind, &expected);
    }
}

/// A path that is no file has the same message everywhere.
fn no_file(kind: FileKind) -> Option<ExpectedLink> {
    match kind {
        FileKind::Nothing | FileKind::Dangling => {
            Some(ExpectedLink::Not("No such file or directory"))
        }
        FileKind::Circle => Some(ExpectedLink::Not("Too many levels of symbolic links")),
        FileKind::Folder => Some(ExpectedLink::Not("irectory")),
        _ => None,
    }
}

fn saxpy() -> Vec<u8> {
    fs::read(format!("{QUICKSTART}saxpy.cubin")).unwrap()
}

#[test]
fn inputs_of_the_command_line() {
    every_kind(KindFolder::new, "smooth.cubin x.cubin", ("x.cubin", &saxpy()), |kind| match kind {
        FileKind::Regular | FileKind::Linked | FileKind::Pipe => Some(ExpectedLink::To),
        FileKind::Null => Some(ExpectedLink::ToWith("is empty and was ignored")),
        FileKind::Socket => Some(ExpectedLink::Not("No such device or address")),
        FileKind::Zero | FileKind::Made => Some(ExpectedLink::Not("x.cubin'")),
        // A process may still write to it.
        FileKind::Silent => None,
        _ => no_file(kind),
    });
}

#[test]
fn members_of_thin_archives() {
    let comes = |kind| match kind {
        FileKind::Regular | FileKind::Linked => Some(ExpectedLink::To),
        FileKind::Made => Some(ExpectedLink::ToWith("is empty and was ignored")),
        FileKind::Silent | FileKind::Pipe => {
            Some(ExpectedLink::Not("it is a pipe, no regular file"))
        }
        FileKind::Socket => Some(ExpectedLink::Not("it is a socket, no regular file")),
        FileKind::Zero | FileKind::Null => {
            Some(ExpectedLink::Not("it is a device, no regular file"))
        }
        _ => no_file(kind),
    };
    let archive =
        |member: &str, bytes: &[u8]| pack::archive(&[(member, bytes)], ArchiveFlavour::Thin);
    let world = || {
        let world = KindFolder::new();
        fs::write(world.path("lib.a"), archive("x", &saxpy())).unwrap();
        world
    };
    every_kind(world, "smooth.cubin lib.a", ("x", &saxpy()), comes);
    let inner = archive("saxpy.cubin", &saxpy());
    every_kind(world, "smooth.cubin lib.a", ("x", &inner), comes);
    every_kind(world, "smooth.cubin -L . -l b", ("x", &saxpy()), |kind| {
        matches!(kind, FileKind::Silent | FileKind::Zero)
            .then_some(ExpectedLink::ToWith("Library 'b' was"))
    });
}

#[test]
fn libraries() {
    // A library has an object for the host.
    let host = pack::host_object(&pack::HostParts::default()).unwrap();
    let members = [("saxpy.cubin", &saxpy()[..]), ("host.o", &host)];
    let archive = pack::archive(&members, ArchiveFlavour::Gnu);
    every_kind(
        KindFolder::new,
        "smooth.cubin -L . -l x",
        ("libx.a", &archive),
        |kind| match kind {
            FileKind::Regular | FileKind::Linked => Some(ExpectedLink::To),
            FileKind::Made => Some(ExpectedLink::ToWith("Skipping incompatible './libx.a'")),
            _ => Some(ExpectedLink::ToWith("Library 'x' was ignored")),
        },
    );
}

#[test]
fn options_files_of_the_command_line() {
    for line in ["saxpy.cubin smooth.cubin @x", "saxpy.cubin smooth.cubin -optf x"] {
        every_kind(KindFolder::new, line, ("x", b"--no-notes"), |kind| match kind {
            FileKind::Regular | FileKind::Linked | FileKind::Pipe | FileKind::Null => {
                Some(ExpectedLink::To)
            }
            FileKind::Socket => Some(ExpectedLink::Not("it is a socket, no regular file")),
            FileKind::Zero => Some(ExpectedLink::Not("it is a device, no regular file")),
            FileKind::Silent | FileKind::Made => None,
            _ => no_file(kind),
        });
    }
}

#[test]
fn options_files_of_options_files() {
    let world = || {
        let world = KindFolder::new();
        fs::write(world.path("f"), "-optf x").unwrap();
        world
    };
    every_kind(world, "saxpy.cubin smooth.cubin @f", ("x", b"--no-notes"), |kind| match kind {
        FileKind::Regular | FileKind::Linked => Some(ExpectedLink::To),
        FileKind::Silent | FileKind::Pipe => {
            Some(ExpectedLink::Not("it is a pipe, no regular file"))
        }
        FileKind::Socket => Some(ExpectedLink::Not("it is a socket, no regular file")),
        FileKind::Zero | FileKind::Null => {
            Some(ExpectedLink::Not("it is a device, no regular file"))
        }
        FileKind::Made => None,
        _ => no_file(kind),
    });
}

#[test]
fn index_files() {
    every_kind(KindFolder::new, "saxpy.cubin smooth.cubin -uidx x", ("x", b"words"), |kind| {
        match kind {
            FileKind::Regular | FileKind::Linked | FileKind::Pipe | FileKind::Made => {
                Some(ExpectedLink::Not("uidx input"))
            }
            FileKind::Socket => Some(ExpectedLink::Not("No such device or address")),
            FileKind::Null => Some(ExpectedLink::Not("it is empty")),
            FileKind::Zero => Some(ExpectedLink::Not("input file 'x'")),
            FileKind::Silent => None,
            _ => no_file(kind),
        }
    });
}
