//! Outputs that cannot be written: one fatal line with the file and the reason, status 1, and an
//! untouched old output.
//!
//! In: a recorded case that links, and a place that refuses its output. Out: no report. Guaranteed:
//! the same link succeeds elsewhere, so the message is about the place.

use culd_testkit::reference::oracle::process::{self, Status};
use culd_tests::world::{self, names, set_mode};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");
const CASE: &str = "headers-and-order/every-section-90";
const OLD: &str = "the old output";

/// A user without rights.
const NOBODY: u32 = 65534;

/// A folder with the inputs of the case and a copy of culd, readable for everybody.
fn world() -> tempfile::TempDir {
    world::with_program(CULD, CASE, 0o755)
}

/// The link in `world` with this output, as a command to be changed.
fn link(world: &Path, output: &str) -> Command {
    let mut command = Command::new("sh");
    let script = format!("exec ./culd -arch=sm_90 a.cubin b.cubin -o {output}");
    command.args(["-c", &script]).current_dir(world);
    command
}

/// Runs a link and returns exit status and standard error.
fn run(command: &mut Command) -> (i32, String) {
    let run = process::run(command, Duration::from_secs(120)).expect("sh starts");
    let Status::Exit(status) = run.status else { panic!("{}: {}", run.status, run.stderr_text()) };
    (status, run.stderr_text())
}

#[track_caller]
fn refused(command: &mut Command, output: &str, reason: &str) {
    let (status, stderr) = run(command);
    assert_eq!(status, 1, "{stderr}");
    let (line, note) = stderr.split_once('\n').expect("a line and a note");
    let opening = format!("culd fatal   : Could not open output file '{output}'");
    let writing = "culd fatal   : Internal error: writing file";
    assert!(line == opening || (line == writing && note.contains(output)), "{stderr}");
    assert!(note.starts_with("  >>> ") && note.contains(reason), "{stderr}");
    assert_eq!(note.lines().count(), 1, "{stderr}");
}

#[test]
fn the_link_itself_succeeds() {
    let world = world();
    assert_eq!(run(&mut link(world.path(), "out.cubin")), (0, String::new()));
    assert!(world.path().join("out.cubin").is_file());
}

#[test]
fn places_where_no_file_can_be() {
    let world = world();
    fs::create_dir(world.path().join("folder")).expect("made");
    fs::write(world.path().join("file"), OLD).expect("written");
    let before = names(world.path());
    for (output, reason) in [
        ("folder", "Is a directory"),
        ("./folder/", "Is a directory"),
        (".", "Is a directory"),
        ("no/such/folder/out", "No such file or directory"),
        ("file/out", "Not a directory"),
        // Not even root may make files here.
        ("/proc/culd.cubin", ""),
    ] {
        refused(&mut link(world.path(), output), output, reason);
        assert_eq!(names(world.path()), before, "{output}");
    }
    assert_eq!(fs::read_to_string(world.path().join("file")).expect("read"), OLD);
}

#[test]
fn a_full_device() {
    refused(&mut link(world().path(), "/dev/full"), "/dev/full", "No space left on device");
}

/// A limit of one block for files simulates a disk with one free block. The signal of the limit is
/// ignored, because a full disk sends none.
#[test]
fn a_full_disk_keeps_the_old_output() {
    let world = world();
    let output = world.path().join("out.cubin");
    for old in [None, Some(OLD)] {
        if let Some(old) = old {
            fs::write(&output, old).expect("written");
        }
        let before = names(world.path());
        let mut command = link(world.path(), "out.cubin");
        let script =
            "trap '' XFSZ; ulimit -f 1; exec ./culd -arch=sm_90 a.cubin b.cubin -o out.cubin";
        let mut limited = Command::new("sh");
        limited.args(["-c", script]).current_dir(world.path());
        refused(&mut limited, "out.cubin", "File too large");
        assert_eq!(names(world.path()), before);
        assert_eq!(fs::read_to_string(&output).ok().as_deref(), old);
        // Without the limit it works.
        assert_eq!(run(&mut command), (0, String::new()));
        fs::remove_file(&output).expect("removed");
    }
}

#[test]
fn a_place_without_permission_keeps_the_old_output() {
    let world = world();
    let folder = world.path().join("locked");
    fs::create_dir(&folder).expect("made");
    fs::write(folder.join("out.cubin"), OLD).expect("written");
    let own = world.path().join("own");
    fs::create_dir(&own).expect("made");
    fs::write(own.join("out.cubin"), OLD).expect("written");
    symlink("../own/out.cubin", folder.join("link.cubin")).expect("made");
    // A folder in which no file can be made, and a read-only file in a folder where it could be
    // replaced.
    set_mode(&folder, 0o555);
    set_mode(&own, 0o777);
    set_mode(&own.join("out.cubin"), 0o444);
    let before = names(world.path());
    for output in ["locked/out.cubin", "locked/new.cubin", "own/out.cubin", "locked/link.cubin"] {
        let mut command = link(world.path(), output);
        if world.path().metadata().expect("its own").uid() == 0 {
            // Root may write anywhere.
            command.uid(NOBODY).gid(NOBODY);
        }
        refused(&mut command, output, "Permission denied (os error 13)");
        assert_eq!(names(world.path()), before, "{output}");
    }
    for file in [folder.join("out.cubin"), own.join("out.cubin")] {
        assert_eq!(fs::read_to_string(file).expect("read"), OLD);
    }
    set_mode(&folder, 0o755);
}

#[test]
fn phases_and_counts_are_printed_when_asked_for() {
    let world = world();
    let (status, stderr) = run(&mut link(world.path(), "out --stats --trace trace.json"));
    assert_eq!(status, 0, "{stderr}");
    let size = fs::metadata(world.path().join("out")).expect("an output").len();
    let printed = |count: String, what: &str| {
        let wanted = format!("{count:>12}  {what}");
        assert!(stderr.lines().any(|line| line == wanted), "no '{wanted}' in\n{stderr}");
    };
    printed(size.to_string(), "output bytes");
    assert!(stderr.contains(" input bytes in 2 cubins\n"), "{stderr}");
    let trace = fs::read_to_string(world.path().join("trace.json")).expect("a trace");
    for phase in ["inputs", "objects", "merge", "relocations", "layout", "write"] {
        assert!(stderr.lines().any(|line| line.ends_with(&format!("  ms {phase}"))), "{stderr}");
        assert_eq!(trace.matches(&format!("{{\"name\":\"{phase}\"")).count(), 1, "{trace}");
    }
    // The output is the same without these options.
    let asked = fs::read(world.path().join("out")).expect("an output");
    let (status, stderr) = run(&mut link(world.path(), "out"));
    assert_eq!((status, stderr.as_str()), (0, ""));
    assert_eq!(fs::read(world.path().join("out")).expect("an output"), asked);
}

#[test]
fn a_trace_that_cannot_be_written_is_an_error() {
    let world = world();
    refused(&mut link(world.path(), "out --trace no/such/trace"), "no/such/trace", "No such file");
}
