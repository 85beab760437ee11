//! Faults around a link: the process is killed, files change, descriptors or memory are exhausted,
//! pipes are closed.
//!
//! In: recorded inputs and a fault. Out: no report, or the state of the output. Guaranteed: each
//! fault really occurs: its test fails without the fault, or counts how often it occurred.
//! docs/RELIABILITY.md has the table.

use culd_link::Severity;
use culd_testkit::fixtures::case;
use culd_testkit::reference::oracle::process::{self, Status};
use culd_tests::fuzz::packed;
use culd_tests::world::{ended, ignored_signals};
use culd_tests::{link, link_options};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, mkfifo};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");
const CASE: &str = "headers-and-order/every-section-90";
const OLD: &[u8] = b"the output of an earlier link";
/// Bytes from which on inputs are mapped.
const MAPPED: usize = 16 << 10;
const LIMIT: Duration = Duration::from_secs(120);

/// A folder with the inputs of the case, the first of them long enough to be mapped, and an old
/// output.
fn world() -> tempfile::TempDir {
    let world = tempfile::tempdir().expect("a folder");
    for (name, mut bytes) in case::named(CASE).and_then(|case| case.inputs()).expect("inputs") {
        bytes.resize(bytes.len().max(2 * MAPPED), 0);
        fs::write(world.path().join(name), bytes).expect("written");
    }
    fs::write(world.path().join("out"), OLD).expect("written");
    world
}

fn culd(world: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(CULD);
    command.arg0("culd").arg("-arch=sm_90").args(words).args(["-o", "out"]).current_dir(world);
    command
}

fn shell(world: &Path, script: &str) -> Output {
    let mut command = Command::new("sh");
    let output = command.args(["-c", script, CULD]).current_dir(world).output();
    output.expect("sh starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// No file but these and the inputs.
fn names(world: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let names = fs::read_dir(world).expect("listed").map(name);
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Starts a link whose last input is a pipe, waits until the pipe is opened (the other inputs are
/// open by then), calls `fault`, and writes the bytes to the pipe.
fn while_linked(world: &Path, fault: impl FnOnce()) -> Output {
    mkfifo(&world.join("pipe.cubin"), Mode::S_IRWXU).expect("a pipe");
    let mut command = culd(world, &["a.cubin", "pipe.cubin"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    // Opened when the linker opens the other end.
    let mut pipe = OpenOptions::new().write(true).open(world.join("pipe.cubin")).expect("a pipe");
    fault();
    let bytes = fs::read(world.join("b.cubin")).expect("an input");
    // It may be gone.
    let _ = pipe.write_all(&bytes);
    drop(pipe);
    ended(child, LIMIT)
}

#[test]
fn without_a_fault_the_files_link() {
    let world = world();
    let output = while_linked(world.path(), || {});
    assert_eq!((output.status.code(), said(&output)), (Some(0), String::new()));
    assert_ne!(fs::read(world.path().join("out")).expect("an output"), OLD);
}

#[test]
fn an_input_that_becomes_shorter_is_reported() {
    for length in [0, 100, MAPPED as u64] {
        let world = world();
        let output = while_linked(world.path(), || {
            let file = OpenOptions::new().write(true).open(world.path().join("a.cubin"));
            file.and_then(|file| file.set_len(length)).expect("shortened");
        });
        let message = "culd fatal   : Could not read file 'a.cubin'\n  >>> it ";
        assert_eq!(output.status.code(), Some(1), "{length}: {}", said(&output));
        assert!(said(&output).contains(message), "{length}: {}", said(&output));
        assert_eq!(fs::read(world.path().join("out")).expect("an output"), OLD, "{length}");
        assert_eq!(names(world.path()), ["a.cubin", "b.cubin", "out", "pipe.cubin"], "{length}");
    }
}

/// Several threads read bytes that are gone, and the first cannot report it yet: its pipe is full
/// and nobody reads from it.
#[test]
fn inputs_that_become_shorter_for_several_threads_are_reported_once() {
    const FILES: usize = 64;
    const PIPE: usize = 64 << 10;
    // The bytes that are read before threads start: the ELF header, unless the newest input has to
    // be found.
    const PAGE: u64 = 4 << 10;
    let world = world();
    let path = |number: usize| world.path().join(format!("{number}.cubin"));
    let mut bytes = fs::read(world.path().join("a.cubin")).expect("an input");
    // Enough work for threads.
    bytes.resize(128 << 10, 0);
    (0..FILES).for_each(|number| fs::write(path(number), &bytes).expect("written"));
    mkfifo(&world.path().join("pipe.cubin"), Mode::S_IRWXU).expect("a pipe");
    let inputs: Vec<String> = (0..FILES).map(|number| format!("{number}.cubin")).collect();
    let words =
        inputs.iter().map(String::as_str).chain(["pipe.cubin", "--threads=8", "--dialect=13.0"]);
    let words: Vec<&str> = words.collect();
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(&[b'.'; PIPE]).expect("room in a pipe");
    let mut command = culd(world.path(), &words);
    let mut child = command.stdout(Stdio::null()).stderr(writer).spawn().expect("starts");
    drop(command);
    let pipe = OpenOptions::new().write(true).open(world.path().join("pipe.cubin"));
    for number in 0..FILES {
        let file = OpenOptions::new().write(true).open(path(number));
        file.and_then(|file| file.set_len(PAGE)).expect("shortened");
    }
    drop(pipe.expect("a pipe"));
    thread::sleep(Duration::from_millis(500));
    assert_eq!(
        child.try_wait().expect("a child"),
        None,
        "it has printed what nobody can have read"
    );
    let mut said = String::new();
    reader.read_to_string(&mut said).expect("lines");
    let status = child.wait().expect("an end");
    assert_eq!(status.code(), Some(1), "{status}: {}", said.trim_start_matches('.'));
    assert_eq!(said.matches("culd fatal   : Could not read file").count(), 1, "{said}");
    assert_eq!(fs::read(world.path().join("out")).expect("an output"), OLD);
    assert!(names(world.path()).iter().all(|name| !name.starts_with('.')));
}

#[test]
fn an_input_that_changes_is_reported() {
    let world = world();
    let path = world.path().join("a.cubin");
    let mut bytes = fs::read(&path).expect("an input");
    let last = bytes.len() - 1;
    bytes[last] = 1;
    let output = while_linked(world.path(), || {
        let file = OpenOptions::new().write(true).open(&path);
        file.and_then(|mut file| file.write_all(&bytes)).expect("written");
    });
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let message =
        "culd fatal   : Could not read file 'a.cubin'\n  >>> it changed while it was linked\n";
    assert_eq!(said(&output), message);
    assert_eq!(fs::read(world.path().join("out")).expect("an output"), OLD);
    assert_eq!(names(world.path()), ["a.cubin", "b.cubin", "out", "pipe.cubin"]);
}

/// A reader must not take it for complete before that.
#[test]
fn a_pipe_stays_open_while_the_inputs_are_linked_again() {
    let world = world();
    let usual = culd(world.path(), &["a.cubin", "b.cubin"]).output().expect("starts");
    assert!(usual.status.success(), "{}", said(&usual));
    let pipe = world.path().join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).expect("a pipe");
    let mut command = Command::new(CULD);
    command.args(["-arch=sm_90", "a.cubin", "b.cubin", "-o", "pipe"]).current_dir(world.path());
    let mut child = command.spawn().expect("starts");
    // It waits for a reader after reading the inputs and before checking them again.
    let (maps, begin) = (format!("/proc/{}/maps", child.id()), Instant::now());
    while !fs::read_to_string(&maps).expect("a file of Linux").contains("a.cubin") {
        assert!(begin.elapsed() < LIMIT, "no input is mapped");
        thread::sleep(Duration::from_millis(1));
    }
    // Longer than the resolution of file times of any system.
    thread::sleep(Duration::from_millis(20));
    fs::hard_link(world.path().join("a.cubin"), world.path().join("second")).expect("made");
    assert!(
        fs::read(pipe).expect("read") == fs::read(world.path().join("out")).expect("an output")
    );
    assert!(child.wait().expect("an end").success());
}

/// The waiting process gets its time and memory, and no part of it is left afterwards.
#[test]
fn a_large_link_is_made_by_the_process_that_was_started() {
    let world = world();
    mkfifo(&world.path().join("pipe.cubin"), Mode::S_IRWXU).expect("a pipe");
    let empty: Vec<String> = (0..200).map(|number| format!("{number}.a")).collect();
    for name in &empty {
        fs::write(world.path().join(name), b"!<arch>\n").expect("written");
    }
    for more in [&[][..], &["--no-fork"]] {
        let words: Vec<&str> =
            empty.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let words = [&words[..], &["a.cubin", "pipe.cubin"]].concat();
        let mut child = culd(world.path(), &words).spawn().expect("starts");
        let pipe = OpenOptions::new().write(true).open(world.path().join("pipe.cubin"));
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        assert_eq!(fs::read_to_string(children).expect("a file of Linux"), "");
        let bytes = fs::read(world.path().join("b.cubin")).expect("an input");
        pipe.and_then(|mut pipe| pipe.write_all(&bytes)).expect("written");
        assert!(child.wait().expect("an end").success());
    }
}

#[test]
fn an_input_that_another_file_replaces_is_linked_as_it_was() {
    let world = world();
    let output = while_linked(world.path(), || {
        fs::write(world.path().join("new"), b"no cubin").expect("written");
        fs::rename(world.path().join("new"), world.path().join("a.cubin")).expect("replaced");
    });
    assert_eq!((output.status.code(), said(&output)), (Some(0), String::new()));
}

/// Moments spread over the time of a link, which is adapted: on a busy machine, one link may take
/// many times as long as another.
struct Moments {
    /// From the start of a link to the last moment.
    span: Duration,
    /// The number of the next moment.
    turn: u32,
    /// Links of this round that were still running at their moment.
    at_work: u32,
    /// The same for all rounds, and the number of those that had ended.
    all: (u32, u32),
    begin: Instant,
}

impl Moments {
    /// Moments of a round.
    const ROUND: u32 = 25;

    fn new() -> Self {
        let span = Duration::from_millis(20);
        Moments { span, turn: 0, at_work: 0, all: (0, 0), begin: Instant::now() }
    }

    /// Waits for the next moment of a link that has just been started.
    fn wait(&self) {
        thread::sleep(self.span * (self.turn % Self::ROUND) / Self::ROUND);
    }

    /// The result of a moment: true for a link that was still running.
    fn came(&mut self, at_work: bool) {
        self.turn += 1;
        self.at_work += u32::from(at_work);
        *(if at_work { &mut self.all.0 } else { &mut self.all.1 }) += 1;
        if self.turn.is_multiple_of(Self::ROUND) {
            match self.at_work {
                Self::ROUND => self.span *= 2,
                few if few < Self::ROUND / 2 => self.span = self.span * 2 / 3,
                _ => {}
            }
            self.at_work = 0;
        }
    }

    /// True until `wanted` links were interrupted, and some had ended.
    fn go_on(&self, wanted: u32) -> bool {
        let (at_work, ended) = self.all;
        let enough = at_work >= wanted && ended > 0;
        assert!(enough || self.begin.elapsed() < LIMIT, "{at_work} at work, {ended} ended");
        !enough
    }
}

#[test]
fn a_killed_link_leaves_the_old_output_or_the_new_one() {
    let world = world();
    let whole = culd(world.path(), &["a.cubin", "b.cubin"]).output().expect("starts");
    assert_eq!(whole.status.code(), Some(0), "{}", said(&whole));
    let new = fs::read(world.path().join("out")).expect("an output");
    let mut moments = Moments::new();
    while moments.go_on(150) {
        fs::write(world.path().join("out"), OLD).expect("written");
        let mut child = culd(world.path(), &["a.cubin", "b.cubin"]).spawn().expect("starts");
        moments.wait();
        child.kill().expect("killed or gone");
        let status = child.wait().expect("an end");
        let out = fs::read(world.path().join("out")).expect("an output");
        assert!(out == OLD || out == new, "{} bytes", out.len());
        assert!(status.success() || status.signal() == Some(9), "{status}");
        moments.came(status.signal() == Some(9));
    }
    // A file that a killed process cannot remove has a name that nobody takes for an output.
    for name in names(world.path()) {
        assert!(
            ["a.cubin", "b.cubin", "out"].contains(&&*name) || name.starts_with(".culd-"),
            "{name}"
        );
    }
}

#[test]
fn a_link_that_is_stopped_for_a_while_goes_on() {
    let world = world();
    culd(world.path(), &["a.cubin", "b.cubin"]).output().expect("starts");
    let new = fs::read(world.path().join("out")).expect("an output");
    let mut moments = Moments::new();
    while moments.go_on(40) {
        fs::write(world.path().join("out"), OLD).expect("written");
        let mut child = culd(world.path(), &["a.cubin", "b.cubin"]).spawn().expect("starts");
        let pid = Pid::from_raw(child.id() as i32);
        moments.wait();
        kill(pid, Signal::SIGSTOP).expect("still there, or not waited for");
        let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        let state = waitid(Id::Pid(pid), flags).expect("a child");
        let stopped = matches!(state, WaitStatus::Stopped(..));
        moments.came(stopped);
        if stopped {
            let out = fs::read(world.path().join("out")).expect("an output");
            assert!(out == OLD || out == new, "{} bytes", out.len());
            kill(pid, Signal::SIGCONT).expect("it is stopped");
        }
        assert!(child.wait().expect("an end").success());
        assert_eq!(fs::read(world.path().join("out")).expect("an output"), new);
        assert_eq!(names(world.path()), ["a.cubin", "b.cubin", "out"]);
    }
}

/// Those of `signals` that are not ignored.
fn heeded(signals: &[Signal]) -> Vec<Signal> {
    let mask = ignored_signals();
    let heeded = |signal: &Signal| mask & 1 << (*signal as u32 - 1) == 0;
    signals.iter().copied().filter(heeded).collect()
}

#[test]
fn a_link_that_somebody_ends_leaves_nothing_behind() {
    let world = world();
    for signal in heeded(&[Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM]) {
        let mut moments = Moments::new();
        while moments.go_on(75) {
            let mut child = culd(world.path(), &["a.cubin", "b.cubin"]).spawn().expect("starts");
            moments.wait();
            kill(Pid::from_raw(child.id() as i32), signal).expect("still there, or not waited for");
            let status = child.wait().expect("an end");
            let ended = status.signal() == Some(signal as i32);
            assert!(status.success() || ended, "{status}");
            moments.came(ended);
            let mut left = names(world.path());
            // If the first links end before they write.
            left.retain(|name| name != "out");
            assert_eq!(left, ["a.cubin", "b.cubin"], "{signal}");
        }
    }
}

/// A ptxas that takes its time.
#[test]
fn a_link_that_is_ended_while_ptxas_runs_leaves_no_folder() {
    let world = world();
    let (ptxas, places) = (world.path().join("ptxas"), world.path().join("places"));
    fs::write(&ptxas, "#!/bin/sh\npwd > ../../place\nexec sleep 3\n").expect("a script");
    fs::set_permissions(&ptxas, fs::Permissions::from_mode(0o755)).expect("a script");
    fs::create_dir(&places).expect("a folder");
    fs::write(
        world.path().join("x.ptx"),
        ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry e() { ret; }\n",
    )
    .expect("written");
    let place_file = world.path().join("place");
    for signal in heeded(&[Signal::SIGHUP, Signal::SIGTERM]) {
        let mut command = culd(world.path(), &["x.ptx", "--ptxas-path=./ptxas"]);
        let mut child = command.env("TMPDIR", &places).spawn().expect("starts");
        let begin = Instant::now();
        while fs::read_to_string(&place_file).map_or(true, |text| text.is_empty()) {
            assert!(begin.elapsed() < LIMIT, "ptxas has not been started");
            thread::sleep(Duration::from_millis(1));
        }
        kill(Pid::from_raw(child.id() as i32), signal).expect("still there");
        let status = child.wait().expect("an end");
        assert_eq!(status.signal(), Some(signal as i32), "{status}");
        let place = fs::read_to_string(&place_file).expect("what ptxas wrote");
        assert!(place.contains("/places/culd-ptx-"), "{place}");
        assert_eq!(names(&places), [""; 0], "{signal}");
        fs::remove_file(&place_file).expect("removed");
    }
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let world = world();
    let script = "trap '' TERM; mkfifo pipe.cubin; $0 -arch=sm_90 a.cubin pipe.cubin -o out & exec 3>pipe.cubin; \
                  kill -TERM $!; cat b.cubin >&3; exec 3>&-; wait $!";
    let output = shell(world.path(), script);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn two_links_to_one_output_leave_one_of_them_whole() {
    let world = world();
    let both: [&[&str]; 2] = [&["a.cubin", "b.cubin"], &["a.cubin", "b.cubin", "-g"]];
    let images = both.map(|words| {
        assert_eq!(culd(world.path(), words).status().expect("starts").code(), Some(0));
        fs::read(world.path().join("out")).expect("an output")
    });
    assert_ne!(images[0], images[1]);
    for attempt in 0..50 {
        let children = both.map(|words| culd(world.path(), words).spawn().expect("starts"));
        for mut child in children {
            assert!(child.wait().expect("an end").success());
        }
        let out = fs::read(world.path().join("out")).expect("an output");
        assert!(images.contains(&out), "{attempt}: {} bytes", out.len());
    }
    assert_eq!(names(world.path()), ["a.cubin", "b.cubin", "out"]);
}

#[test]
fn nobody_needs_to_listen() {
    let world = world();
    let good = culd(world.path(), &["a.cubin", "b.cubin", "-v"]).output().expect("starts");
    assert!(good.status.success());
    let image = fs::read(world.path().join("out")).expect("an output");
    for closed in [">&- 2>&-", "<&- >&- 2>&-", ">/dev/full 2>/dev/full", "2>&1 | true"] {
        for (words, status) in [("a.cubin b.cubin -v", 0), ("a.cubin none.cubin", 1)] {
            fs::write(world.path().join("out"), OLD).expect("written");
            let script = format!("\"$0\" -arch=sm_90 {words} -o out {closed}");
            let output = shell(world.path(), &script);
            let out = fs::read(world.path().join("out")).expect("an output");
            assert!(out == if status == 0 { image.as_slice() } else { OLD }, "{script}");
            if !closed.contains('|') {
                assert_eq!(output.status.code(), Some(status), "{script}");
            }
        }
    }
}

/// The text of a command is what it was started for. Only a reader that has gone does not count.
#[test]
fn a_command_needs_room_for_its_text() {
    let world = world();
    let reported = culd(world.path(), &["a.cubin", "b.cubin", "--report=r.json"]).status();
    assert!(reported.expect("starts").success());
    for words in ["size a.cubin", "report diff r.json r.json", "cmake", "man", "completions bash"] {
        for (place, status) in [("/dev/null", 0), ("/dev/full", 1)] {
            let output = shell(world.path(), &format!("\"$0\" {words} >{place}"));
            let said = said(&output);
            assert_eq!(output.status.code(), Some(status), "{words} >{place}: {said}");
            assert_eq!(status == 1, said.contains("No space left on device"), "{words}: {said}");
        }
        let output = shell(world.path(), &format!("{{ \"$0\" {words}; echo $? >&2; }} | true"));
        assert_eq!(said(&output), "0\n", "{words}");
    }
}

#[test]
fn what_cannot_be_read_is_reported() {
    let world = world();
    fs::create_dir(world.path().join("folder.cubin")).expect("made");
    // It can be opened, but reading fails.
    std::os::unix::fs::symlink("/proc/self/mem", world.path().join("bad.cubin")).expect("made");
    fs::write(world.path().join("thin.a"), {
        let mut thin =
            b"!<thin>\n//                                              14        `\n".to_vec();
        thin.extend_from_slice(b"folder.cubin/\n");
        thin.extend_from_slice(b"/0              0           0     0     644     4096      `\n");
        thin
    })
    .expect("written");
    for (name, reason) in [
        ("bad.cubin", "(os error 5)"),
        ("folder.cubin", "(os error 21)"),
        ("none.cubin", "(os error 2)"),
        ("thin.a", "folder.cubin"),
    ] {
        let output = culd(world.path(), &[name]).output().expect("starts");
        assert_eq!(output.status.code(), Some(1), "{name}: {}", said(&output));
        assert!(said(&output).starts_with("culd fatal   : "), "{name}: {}", said(&output));
        assert!(said(&output).contains(reason), "{name}: {}", said(&output));
        assert_eq!(fs::read(world.path().join("out")).expect("an output"), OLD, "{name}");
    }
    let long = format!("{}.cubin", "n".repeat(5000));
    let output = culd(world.path(), &[&long]).output().expect("starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("(os error 36)"), "{}", said(&output));
}

#[test]
fn a_stack_of_sixteen_kib_is_enough() {
    let world = world();
    let script = "ulimit -s 16; exec \"$0\" -arch=sm_90 a.cubin b.cubin -o out";
    // The environment is on the stack, too, and that of a test may take half of it.
    let mut command = Command::new("sh");
    command.args(["-c", script, CULD]).current_dir(world.path()).env_clear();
    let output = command.env("PATH", "/usr/bin:/bin").output().expect("sh starts");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_ne!(fs::read(world.path().join("out")).expect("an output"), OLD);
    let little = shell(world.path(), "ulimit -s 16; ulimit -s");
    assert_eq!(String::from_utf8_lossy(&little.stdout).trim(), "16");
}

#[test]
fn sixteen_descriptors_are_enough_for_hundreds_of_inputs() {
    let world = world();
    let module = case::named("threads/module-90").and_then(|case| case.inputs()).expect("inputs");
    let (name, last) = module.last().expect("a module");
    for copy in 0..400 {
        fs::write(world.path().join(format!("{copy}.o")), b"").expect("written");
    }
    fs::write(world.path().join(name), last).expect("written");
    let script = format!("ulimit -n 16; exec \"$0\" -arch=sm_90 *.o {name} -o out");
    let output = shell(world.path(), &script);
    let few = shell(world.path(), "ulimit -n 16; ulimit -n");
    assert_eq!(String::from_utf8_lossy(&few.stdout).trim(), "16");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_ne!(fs::read(world.path().join("out")).expect("an output"), OLD);
}

#[test]
fn without_memory_the_old_output_stays() {
    let world = world();
    let mut refused = 0;
    for kib in (2_000..40_000).step_by(1_500) {
        fs::write(world.path().join("out"), OLD).expect("written");
        let script =
            format!("ulimit -v {kib}; exec \"$0\" -arch=sm_90 --threads=1 a.cubin b.cubin -o out");
        let output = shell(world.path(), &script);
        let out = fs::read(world.path().join("out")).expect("an output");
        match output.status.code() {
            Some(0) => assert_ne!(out, OLD),
            // The loader or the shell may end in other ways before the linker starts.
            code => {
                refused += 1;
                assert_eq!(out, OLD, "{kib}: {code:?} {}", said(&output));
                assert!(!said(&output).is_empty() || code.is_none(), "{kib}: {code:?}");
            }
        }
        assert_eq!(names(world.path()), ["a.cubin", "b.cubin", "out"], "{kib}");
    }
    assert!(refused > 0, "there was always enough memory");
}

#[test]
fn a_file_larger_than_memory_is_refused() {
    let world = world();
    let huge = File::create(world.path().join("huge.cubin")).expect("made");
    huge.set_len(1 << 40).expect("a sparse file");
    refused_with_any_memory(world.path(), "huge.cubin", 4_000_000);
}

/// Checks that the link of `input` is refused, with all memory and with only `limit` KiB.
fn refused_with_any_memory(world: &Path, input: &str, limit: u32) {
    for limit in [String::new(), format!("ulimit -v {limit}; ")] {
        let script = format!("{limit}exec \"$0\" -arch=sm_90 {input} -o out");
        let output = shell(world, &script);
        assert_eq!(output.status.code(), Some(1), "{input}: {}", said(&output));
        assert!(said(&output).contains("culd-under-test fatal   : "), "{}", said(&output));
        assert_eq!(fs::read(world.join("out")).expect("an output"), OLD);
    }
}

/// The declared size of an image takes no memory before it is confirmed.
#[test]
fn images_that_claim_gigabytes_are_refused_without_taking_them() {
    use culd_fatbin::header::flag::{LZ4, ZSTD};
    let world = world();
    let payload = [0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for (flag, size) in [(LZ4, 1 << 32), (ZSTD, 1 << 32), (ZSTD, 7 << 30), (ZSTD, u64::MAX)] {
        fs::write(world.path().join("bomb.fatbin"), packed(&payload, size, flag)).expect("written");
        refused_with_any_memory(world.path(), "bomb.fatbin", 1_000_000);
    }
}

/// On a stack that is too small for a recursive walk of so many levels.
#[test]
fn a_call_graph_of_100000_levels_needs_no_stack() {
    const LEVELS: usize = 100_000;
    let mut module =
        case::named("threads/module-90").and_then(|case| case.inputs()).expect("inputs");
    let (last, one) = (module.pop().expect("the end"), module.pop().expect("a module").1);
    let label = |level: usize| format!("M{level:06}").into_bytes();
    let mut inputs: Vec<(String, Vec<u8>)> = (0..LEVELS)
        .map(|level| {
            let mut bytes = one.clone();
            renamed(&mut bytes, b"QSELFxx", &label(level));
            if level + 1 < LEVELS {
                renamed(&mut bytes, b"QNEXTxx", &label(level + 1));
            }
            (format!("m{level}.cubin"), bytes)
        })
        .collect();
    inputs.push(last);
    let small = thread::Builder::new().stack_size(256 << 10);
    let linked = small.spawn(move || {
        let options = link_options(&["-arch=sm_90".to_owned()]).expect("options");
        let outcome = link(&options, &inputs, 1).expect("sound");
        let worst = outcome.diagnostics.iter().map(|line| line.severity).max();
        (outcome.image.map(|image| image.len()), worst)
    });
    let (size, worst) = linked.expect("a thread").join().expect("no overflow");
    assert!(worst < Some(Severity::Error));
    assert!(size.expect("an output") > LEVELS * 128, "{size:?}");
}

fn renamed(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    let mut at = 0;
    while at + from.len() <= bytes.len() {
        if &bytes[at..at + from.len()] == from {
            bytes[at..at + from.len()].copy_from_slice(to);
        }
        at += 1;
    }
}

#[test]
fn a_folder_that_becomes_read_only_keeps_the_old_output() {
    let world = world();
    let output = while_linked(world.path(), || {
        fs::rename(world.path().join("out"), world.path().join("kept")).expect("renamed");
        fs::create_dir(world.path().join("out")).expect("made");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(world.path().join("out"), mode).expect("changed");
    });
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("Is a directory"), "{}", said(&output));
    assert_eq!(fs::read(world.path().join("kept")).expect("kept"), OLD);
}

#[test]
fn a_link_ends_soon_when_the_disk_is_full() {
    let world = world();
    let mut command = Command::new("sh");
    let script = "ulimit -f 1; exec \"$0\" -arch=sm_90 a.cubin b.cubin -o out";
    command.args(["-c", script, CULD]).current_dir(world.path());
    let run = process::run(&mut command, LIMIT).expect("sh starts");
    assert_eq!(run.status, Status::Exit(1), "{}", run.stderr_text());
    assert_eq!(fs::read(world.path().join("out")).expect("an output"), OLD);
    assert_eq!(names(world.path()), ["a.cubin", "b.cubin", "out"]);
}
