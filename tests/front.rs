//! A large link has two processes: one links, the one in front, which was started, waits for the output only.
//!
//! In: recorded inputs, and so many empty archives that the link is large. Out: no report. Guaranteed: whoever started a
//! link cannot tell it from one with `--no-fork` but by how long it takes.

use culd_testkit::case;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{iter, thread};

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");
const CASE: &str = "headers-and-order/every-section-90";
const OLD: &[u8] = b"the output of an earlier link";
const LIMIT: Duration = Duration::from_secs(60);
/// A link of so many inputs is large.
const MANY: usize = 100;

fn world() -> tempfile::TempDir {
    let world = tempfile::tempdir().expect("a folder");
    for (name, bytes) in case::named(CASE).and_then(|case| case.inputs()).expect("inputs") {
        fs::write(world.path().join(name), bytes).expect("written");
    }
    fs::write(world.path().join("empty.a"), b"!<arch>\n").expect("written");
    fs::write(world.path().join("out"), OLD).expect("written");
    mkfifo(&world.path().join("pipe.cubin"), Mode::S_IRWXU).expect("a pipe");
    world
}

/// A link of these and [`MANY`] archives.
fn culd(world: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(CULD);
    command.arg0("culd").arg("-arch=sm_90").args(iter::repeat_n("empty.a", MANY)).args(words);
    command.args(["-o", "out"]).current_dir(world).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn processes(of: u32) -> Vec<Pid> {
    let children = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    children.split_whitespace().map(|pid| Pid::from_raw(pid.parse().expect("a number"))).collect()
}

/// A link that waits for its last input, the other end of that, and the process that links.
fn waiting(world: &Path) -> (Child, File, Pid) {
    started(world, culd(world, &["a.cubin", "pipe.cubin"]))
}

fn started(world: &Path, mut command: Command) -> (Child, File, Pid) {
    let child = command.spawn().expect("starts");
    let pipe = OpenOptions::new().write(true).open(world.join("pipe.cubin")).expect("a pipe");
    let linking = processes(child.id());
    assert_eq!(linking.len(), 1, "{linking:?}");
    (child, pipe, linking[0])
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LIMIT, "not {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn is_gone(pid: Pid) -> bool {
    // Nobody may have waited for it.
    let state = fs::read_to_string(format!("/proc/{pid}/stat"));
    state.map_or(true, |state| state.contains(") Z "))
}

/// Nothing that is temporary, and the old output.
fn assert_untouched(world: &Path) {
    assert_eq!(fs::read(world.join("out")).expect("an output"), OLD);
    let names =
        fs::read_dir(world).expect("listed").map(|entry| entry.expect("an entry").file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().starts_with('.')));
}

#[test]
fn the_process_in_front_says_what_the_other_does() {
    for (words, status) in [(["a.cubin", "b.cubin", "-v"], 0), (["a.cubin", "none.cubin", "-v"], 1)]
    {
        let both = [&[][..], &["--no-fork"]].map(|more: &[&str]| {
            let world = world();
            let output = culd(world.path(), &[&words[..], more].concat()).output().expect("starts");
            let Output { status, stdout, stderr } = output;
            (status.code(), stdout, stderr, fs::read(world.path().join("out")).expect("an output"))
        });
        assert!(both[0] == both[1], "{words:?}");
        assert_eq!((both[0].0, both[0].3 == OLD), (Some(status), status != 0), "{words:?}");
        assert!(!both[0].2.is_empty(), "-v and errors say something");
    }
}

#[test]
fn only_a_large_link_has_two_processes() {
    let world = world();
    let (child, mut pipe, _) = waiting(world.path());
    pipe.write_all(&fs::read(world.path().join("b.cubin")).expect("an input")).expect("written");
    drop(pipe);
    assert!(child.wait_with_output().expect("an end").status.success());
    let mut small = Command::new(CULD);
    small.args(["-arch=sm_90", "a.cubin", "pipe.cubin", "-o", "out"]);
    for mut command in [small, culd(world.path(), &["--no-fork", "a.cubin", "pipe.cubin"])] {
        let mut child = command.current_dir(world.path()).spawn().expect("starts");
        let path = world.path().join("pipe.cubin");
        let pipe = OpenOptions::new().write(true).open(path).expect("a pipe");
        assert_eq!(processes(child.id()), []);
        child.kill().expect("still there");
        child.wait().expect("an end");
        drop(pipe);
    }
}

#[test]
fn who_wants_one_of_them_to_end_ends_both() {
    for front in [true, false] {
        let world = world();
        let (mut child, _pipe, linking) = waiting(world.path());
        let pid = if front { Pid::from_raw(child.id() as i32) } else { linking };
        kill(pid, Signal::SIGTERM).expect("still there");
        let status = child.wait().expect("an end");
        assert_eq!(status.signal(), Some(Signal::SIGTERM as i32), "{front}");
        assert!(is_gone(linking), "{front}");
        assert_untouched(world.path());
    }
}

/// Kills first the process in front of a link that `start` starts, then the one that links.
fn kill_each(start: impl Fn(&Path) -> (Child, File, Pid)) {
    let world = world();
    let (mut child, pipe, linking) = start(world.path());
    child.kill().expect("still there");
    child.wait().expect("an end");
    until("the end of the process that links", || is_gone(linking));
    assert_untouched(world.path());
    drop(pipe);
    let (mut child, _pipe, linking) = start(world.path());
    kill(linking, Signal::SIGKILL).expect("still there");
    assert_eq!(child.wait().expect("an end").signal(), Some(Signal::SIGKILL as i32));
    assert_untouched(world.path());
}

#[test]
fn a_process_that_is_killed_takes_the_other_with_it() {
    kill_each(waiting);
}

#[test]
fn what_the_parent_ignores_does_not_part_them() {
    kill_each(|world| {
        let link = culd(world, &["a.cubin", "pipe.cubin"]);
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' TERM CHLD; exec \"$0\" \"$@\""]);
        command.arg(link.get_program()).args(link.get_args()).current_dir(world);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        started(world, command)
    });
}
