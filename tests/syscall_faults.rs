//! Every system call of a link fails, one at a time: broken and full disks, no memory, no threads,
//! interrupted and short reads and writes.
//!
//! In: the inputs of a recorded case and a fault. Out: no report, or the call and the result of the
//! link. Guaranteed: the calls are those that the kernel sees (ptrace), however the program makes
//! them. A sweep ends when a link ends before the turn of the call, and counts how often the fault
//! struck. docs/RELIABILITY.md has the table.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use culd_cubin::Cubin;
use culd_testkit::fixtures::case;
use culd_tests::world::ignored_signals;
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");
const CASE: &str = "headers-and-order/every-section-90";
const OLD: &[u8] = b"the output of an earlier link";
/// The first input is mapped, the second one read (16 KiB).
const MAPPED: usize = 64 << 10;
/// The time limit of a link.
const LIMIT: Duration = Duration::from_secs(60);
/// More calls than any of these links make.
const MOST: u64 = 5000;

/// The fault of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InjectedFault {
    /// It is not made and fails.
    Fails(Errno),
    /// It fails without being made, and so do all later ones.
    FailFromNowOn(Errno),
    /// It transfers only one byte, or one piece.
    Short,
    /// The process stops after the call, and tracing ends.
    Stops,
}

/// Which calls it happens to.
#[derive(Clone, Copy, Debug)]
enum FaultyCalls {
    /// All calls except those that end a process or return from a signal, and those that cannot
    /// fail with their arguments.
    All,
    These(&'static [libc::c_long]),
}

impl FaultyCalls {
    fn has(self, number: libc::c_long) -> bool {
        const NEVER: &[libc::c_long] = &[
            libc::SYS_exit,
            libc::SYS_exit_group,
            libc::SYS_rt_sigreturn,
            libc::SYS_rt_sigaction,
            libc::SYS_sigaltstack,
            libc::SYS_getrandom,
        ];
        match self {
            FaultyCalls::All => !NEVER.contains(&number),
            FaultyCalls::These(list) => list.contains(&number),
        }
    }
}

const MEMORY: FaultyCalls = FaultyCalls::These(&[libc::SYS_brk, libc::SYS_mmap, libc::SYS_mremap]);
const PROCESSES: FaultyCalls =
    FaultyCalls::These(&[libc::SYS_clone, libc::SYS_clone3, libc::SYS_fork, libc::SYS_vfork]);
const TRANSFERS: FaultyCalls = FaultyCalls::These(&[
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
]);

const RENAMES: FaultyCalls =
    FaultyCalls::These(&[libc::SYS_rename, libc::SYS_renameat, libc::SYS_renameat2]);

/// The result of a link.
struct FaultTrial {
    child: Child,
    /// `StillAlive` when it was stopped.
    end: WaitStatus,
    /// The number of the first call that was struck, and its first argument.
    struck: Option<(libc::c_long, u64)>,
    said: String,
}

struct TracedFolder {
    dir: tempfile::TempDir,
    words: Vec<String>,
    /// The output without a fault.
    new: Vec<u8>,
}

/// Two inputs, the first one mapped.
fn two() -> Vec<(String, Vec<u8>)> {
    let mut inputs = case::named(CASE).and_then(|case| case.inputs()).expect("inputs");
    inputs[0].1.resize(MAPPED, 0);
    inputs
}

/// A chain of modules that does not fit the heap at the start.
fn many() -> Vec<(String, Vec<u8>)> {
    const COUNT: usize = 60;
    let mut module =
        case::named("threads/module-90").and_then(|case| case.inputs()).expect("inputs");
    let (last, one) = (module.pop().expect("the end"), module.pop().expect("a module").1);
    let label = |level: usize| format!("M{level:06}");
    let module = |level: usize| {
        let mut bytes = one.clone();
        let next = if level + 1 < COUNT { label(level + 1) } else { "QNEXTxx".to_owned() };
        for (from, to) in [("QSELFxx", &label(level)), ("QNEXTxx", &next)] {
            for at in 0..bytes.len() - from.len() {
                if bytes[at..].starts_with(from.as_bytes()) {
                    bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
                }
            }
        }
        (format!("{level}.cubin"), bytes)
    };
    (0..COUNT).map(module).chain([last]).collect()
}

impl TracedFolder {
    fn new(words: &[&str], inputs: Vec<(String, Vec<u8>)>) -> Self {
        Self::with_threads(1, words, inputs)
    }

    fn with_threads(threads: usize, words: &[&str], inputs: Vec<(String, Vec<u8>)>) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let words = words.iter().map(|word| (*word).to_owned());
        let mut words: Vec<String> =
            [format!("--threads={threads}")].into_iter().chain(words).collect();
        for (name, bytes) in inputs {
            fs::write(dir.path().join(&name), bytes).expect("written");
            words.push(name);
        }
        let mut world = TracedFolder { dir, words, new: Vec::new() };
        world.new = world.linked();
        assert_ne!(world.new, OLD);
        world
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn output(&self) -> Vec<u8> {
        fs::read(self.path().join("out")).expect("an output")
    }

    /// Links as always; the output.
    fn linked(&self) -> Vec<u8> {
        let whole = self.link(FaultyCalls::All, MOST, InjectedFault::Short);
        assert_eq!(whole.end, WaitStatus::Exited(pid_of(whole.end), 0), "{}", whole.said);
        assert_eq!(whole.struck, None, "more than {MOST} calls");
        self.output()
    }

    /// Links; `fault` strikes the call with the number `turn`, from 0, among `calls`.
    fn link(&self, calls: FaultyCalls, turn: u64, fault: InjectedFault) -> FaultTrial {
        fs::write(self.path().join("out"), OLD).expect("written");
        let said = File::create(self.path().join("said")).expect("made");
        let mut command = Command::new("sh");
        // It stops itself, so that it can be traced from its first call without code between fork
        // and exec.
        command.args(["-c", "kill -STOP $$; exec \"$0\" \"$@\"", CULD, "-arch=sm_90"]);
        command.args(&self.words).args(["-o", "out"]);
        command.current_dir(self.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        let child = command.spawn().expect("sh starts");
        let pid = Pid::from_raw(child.id() as i32);
        // It is dropped at the end of the link, which ends the watch.
        let (watched, watch) = mpsc::channel::<()>();
        thread::spawn(move || {
            if watch.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                // It may have ended by now.
                let _ = kill(pid, Signal::SIGKILL);
            }
        });
        let (end, struck) = trace(pid, calls, turn, fault);
        drop(watched);
        let said = fs::read(self.path().join("said")).expect("what it said");
        FaultTrial { child, end, struck, said: String::from_utf8_lossy(&said).into_owned() }
    }

    /// A link that has stopped with a part of the output in the temporary file.
    fn stopped(&self) -> FaultTrial {
        let trial = self.link(FaultyCalls::These(&[libc::SYS_pwrite64]), 0, InjectedFault::Stops);
        assert_eq!((trial.end, self.left().len()), (WaitStatus::StillAlive, 1), "{}", trial.said);
        let stat = format!("/proc/{}/stat", trial.child.id());
        while !fs::read_to_string(&stat).expect("it is there").contains(") T ") {
            thread::sleep(Duration::from_millis(1));
        }
        trial
    }

    /// Temporary files that are left.
    fn left(&self) -> Vec<String> {
        let names = fs::read_dir(self.path()).expect("listed");
        let names = names.map(|entry| entry.expect("an entry").file_name());
        let names = names.map(|name| name.to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(".culd-")).collect()
    }

    fn remove_left(&self) {
        for name in self.left() {
            fs::remove_file(self.path().join(name)).expect("removed");
        }
    }
}

fn pid_of(status: WaitStatus) -> Pid {
    status.pid().expect("a process")
}

fn wait(pid: Pid) -> WaitStatus {
    waitpid(pid, Some(WaitPidFlag::__WALL | WaitPidFlag::WUNTRACED)).expect("an event")
}

/// Follows the process to its end.
fn trace(
    pid: Pid,
    calls: FaultyCalls,
    turn: u64,
    fault: InjectedFault,
) -> (WaitStatus, Option<(libc::c_long, u64)>) {
    assert_eq!(wait(pid), WaitStatus::Stopped(pid, Signal::SIGSTOP));
    ptrace::attach(pid).expect("this system lets a process be traced by its parent");
    wait(pid);
    let options =
        Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACEEXEC | Options::PTRACE_O_EXITKILL;
    ptrace::setoptions(pid, options).expect("options");
    kill(pid, Signal::SIGCONT).expect("it is there");
    // Calls of the shell, the loader and the standard library before `main` do not count. The
    // library's last step is the handler of stack overflows.
    let (mut executed, mut begun, mut entered) = (false, false, false);
    let (mut seen, mut struck, mut failing, mut arguments) = (0, None, None, None);
    let mut deliver = None;
    loop {
        ptrace::syscall(pid, deliver.take()).expect("it goes on");
        match wait(pid) {
            WaitStatus::PtraceSyscall(_) => {
                entered = !entered;
                let mut registers = ptrace::getregs(pid).expect("registers");
                let number = registers.orig_rax as libc::c_long;
                if !entered {
                    let handler = number == libc::SYS_rt_sigaction && registers.rsi != 0;
                    begun |= executed && handler && registers.rdi == Signal::SIGSEGV as u64;
                    // A call keeps its arguments, and the program may depend on that.
                    if let Some((rdi, rdx)) = arguments.take() {
                        (registers.rdi, registers.rdx) = (rdi, rdx);
                        if let Some(errno) = failing.take() {
                            registers.rax = (errno as i64).wrapping_neg() as u64;
                        }
                        ptrace::setregs(pid, registers).expect("registers");
                    }
                    continue;
                }
                if !begun || !calls.has(number) {
                    continue;
                }
                let now =
                    seen == turn || matches!(fault, InjectedFault::FailFromNowOn(_)) && seen > turn;
                seen += 1;
                if !now {
                    continue;
                }
                struck = struck.or(Some((number, registers.rdi)));
                if fault == InjectedFault::Stops {
                    ptrace::detach(pid, Signal::SIGSTOP).expect("it goes on");
                    return (WaitStatus::StillAlive, struck);
                }
                arguments = Some((registers.rdi, registers.rdx));
                match fault {
                    InjectedFault::Short => registers.rdx = registers.rdx.min(1),
                    InjectedFault::Stops => unreachable!("returned above"),
                    // `brk` has no errors: if it cannot grow, it returns the old end, as for 0.
                    _ if number == libc::SYS_brk => registers.rdi = 0,
                    InjectedFault::Fails(errno) | InjectedFault::FailFromNowOn(errno) => {
                        // A number of no call; its result is replaced when it returns.
                        registers.orig_rax = u64::MAX;
                        failing = Some(errno);
                    }
                }
                ptrace::setregs(pid, registers).expect("registers");
            }
            WaitStatus::PtraceEvent(_, _, event) => {
                executed |= event == libc::PTRACE_EVENT_EXEC;
            }
            WaitStatus::Stopped(_, signal) => {
                let own = matches!(signal, Signal::SIGSTOP | Signal::SIGCONT | Signal::SIGTRAP);
                deliver = Some(signal).filter(|_| !own);
            }
            end @ (WaitStatus::Exited(..) | WaitStatus::Signaled(..)) => return (end, struck),
            _ => {}
        }
    }
}

/// Strikes each call in turn; `judge` gets the links that were struck. Returns their number.
fn sweep(
    world: &TracedFolder,
    calls: FaultyCalls,
    fault: InjectedFault,
    judge: impl Fn(&TracedFolder, &FaultTrial, &str),
) -> u64 {
    for turn in 0..MOST {
        let trial = world.link(calls, turn, fault);
        let Some((number, argument)) = trial.struck else {
            assert_eq!(trial.end, WaitStatus::Exited(pid_of(trial.end), 0), "{}", trial.said);
            return turn;
        };
        let what =
            format!("{fault:?}, call {number} ({argument:#x}), the {turn}th: {:?}", trial.end);
        judge(world, &trial, &what);
        world.remove_left();
    }
    panic!("no end of calls");
}

/// Checks that there is the old output and a line about it, or the new output.
fn old_or_new(world: &TracedFolder, trial: &FaultTrial, what: &str) {
    let (number, argument) = trial.struck.expect("a call");
    let output = world.output();
    let said = &trial.said;
    match trial.end {
        WaitStatus::Exited(_, 0) => assert!(output == world.new, "{what}: status 0, {said}"),
        WaitStatus::Exited(_, 1) => {
            assert!(output == OLD, "{what}: an error, and another output: {said}");
            // If standard error fails, there is no line.
            let mute = number == libc::SYS_write && argument == 2;
            assert!(mute || said.contains(" fatal   : "), "{what}: {said}");
        }
        _ => panic!("{what}: {said}"),
    }
    let not_removed = matches!(number, libc::SYS_unlink | libc::SYS_unlinkat);
    assert!(not_removed || world.left().is_empty(), "{what}: {:?} is left", world.left());
}

fn good(world: &TracedFolder, trial: &FaultTrial, what: &str) {
    assert_eq!(trial.end, WaitStatus::Exited(pid_of(trial.end), 0), "{what}: {}", trial.said);
    assert!(world.output() == world.new, "{what}");
    assert!(world.left().is_empty(), "{what}: {:?} is left", world.left());
}

#[test]
fn every_call_fails_once_as_on_a_broken_disk() {
    let struck = sweep(
        &TracedFolder::new(&[], two()),
        FaultyCalls::All,
        InjectedFault::Fails(Errno::EIO),
        old_or_new,
    );
    assert!(struck > 20, "{struck} calls");
}

#[test]
fn every_call_fails_once_as_on_a_full_disk_while_the_output_is_verified() {
    let struck = sweep(
        &TracedFolder::new(&["--verify"], two()),
        FaultyCalls::All,
        InjectedFault::Fails(Errno::ENOSPC),
        old_or_new,
    );
    assert!(struck > 20, "{struck} calls");
}

/// A file that is a mount point, as in a container, or that another user owns in a sticky folder,
/// cannot be replaced, but it can be written.
#[test]
fn a_file_that_cannot_be_replaced_is_written() {
    let world = TracedFolder::new(&[], two());
    for errno in [Errno::EBUSY, Errno::EXDEV, Errno::EPERM, Errno::EACCES, Errno::EROFS] {
        let trial = world.link(RENAMES, 0, InjectedFault::Fails(errno));
        assert!(trial.struck.is_some(), "{errno}: nothing was renamed");
        good(&world, &trial, errno.desc());
    }
}

#[test]
fn memory_is_refused_once_or_from_any_point_on() {
    let world = TracedFolder::new(&[], many());
    for fault in [InjectedFault::Fails(Errno::ENOMEM), InjectedFault::FailFromNowOn(Errno::ENOMEM)]
    {
        let struck = sweep(&world, MEMORY, fault, old_or_new);
        assert!(struck > 5, "{struck} calls");
    }
}

#[test]
fn reads_and_writes_may_be_interrupted() {
    let struck = sweep(
        &TracedFolder::new(&["-v", "--trace=trace.json", "--verify"], two()),
        TRANSFERS,
        InjectedFault::Fails(Errno::EINTR),
        good,
    );
    assert!(struck > 4, "{struck} calls");
}

#[test]
fn reads_and_writes_may_be_short() {
    let struck = sweep(
        &TracedFolder::new(&["-v", "--trace=trace.json", "--verify"], two()),
        TRANSFERS,
        InjectedFault::Short,
        good,
    );
    assert!(struck > 4, "{struck} calls");
}

/// Modules, one of them long enough for the link to use threads.
fn worth_threads() -> Vec<(String, Vec<u8>)> {
    let mut inputs = many();
    inputs[0].1.resize(8 << 20, 0);
    inputs
}

#[test]
fn a_link_needs_no_further_thread() {
    let world = TracedFolder::with_threads(4, &[], worth_threads());
    for fault in [InjectedFault::Fails(Errno::EAGAIN), InjectedFault::FailFromNowOn(Errno::EAGAIN)]
    {
        let struck = sweep(&world, PROCESSES, fault, good);
        assert!(struck > 1, "{struck} calls");
    }
}

/// Signals that do not end a process, or that nobody uses for that; those that stop a process are
/// not sent.
const HARMLESS: [Signal; 6] = [
    Signal::SIGCHLD,
    Signal::SIGCONT,
    Signal::SIGURG,
    Signal::SIGWINCH,
    // The runtime of Rust has it ignored.
    Signal::SIGPIPE,
    // A write fails instead.
    Signal::SIGXFSZ,
];
const NOT_SENT: [Signal; 5] =
    [Signal::SIGKILL, Signal::SIGSTOP, Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU];
/// The C library uses two signals in between.
const SIGNALS: [std::ops::RangeInclusive<i32>; 2] = [1..=31, 34..=64];

/// Signals while a part of the output is in the temporary file.
#[test]
fn every_signal_that_ends_a_process_leaves_no_temporary_file() {
    let world = TracedFolder::new(&[], two());
    let (mut ended, ignored) = (0, ignored_signals());
    let sent = |signal: &i32| NOT_SENT.iter().all(|&other| other as i32 != *signal);
    for signal in SIGNALS.into_iter().flatten().filter(sent) {
        let mut trial = world.stopped();
        // Signals from 32 on have no names.
        let (pid, script) = (trial.child.id(), "kill -$0 $1 && kill -CONT $1");
        let kill = Command::new("sh")
            .args(["-c", script])
            .args([signal, pid as i32].map(|n| n.to_string()))
            .status();
        assert!(kill.expect("sh starts").success(), "{signal}");
        let status = trial.child.wait().expect("an end");
        assert_eq!(world.left(), [""; 0], "{signal}");
        let harmless = HARMLESS.iter().any(|&other| other as i32 == signal);
        if harmless || ignored & 1 << (signal - 1) != 0 {
            assert_eq!((status.code(), world.output() == world.new), (Some(0), true), "{signal}");
        } else {
            assert_eq!((status.signal(), world.output() == OLD), (Some(signal), true), "{status}");
            ended += 1;
        }
    }
    assert!(ended > 40, "{ended} signals ended a link");
}

/// The time of the last change of contents does not show the change, that of the last change of the
/// inode does.
#[test]
fn an_input_that_changes_under_its_old_time_is_linked_again() {
    let world = TracedFolder::new(&[], two());
    let path = world.path().join("a.cubin");
    let bytes = fs::read(&path).expect("an input");
    let mut other = bytes.clone();
    let cubin = Cubin::parse(&bytes).expect("a cubin");
    let code = cubin.sections.iter().find(|section| section.is_code()).expect("code");
    // An immediate operand of the first instruction, or the bits in its place.
    other[code.data.as_ptr().addr() - bytes.as_ptr().addr() + 4] ^= 1;
    fs::write(&path, &other).expect("written");
    let new = world.linked();
    assert_ne!(new, world.new);
    type ChangeFile = fn(&Path, &[u8]);
    let changes: [(ChangeFile, _); 2] = [
        (
            |path, other| {
                let mut file = File::options().write(true).open(path).expect("open");
                let time = file.metadata().and_then(|meta| meta.modified()).expect("a time");
                file.write_all(other).and_then(|()| file.set_modified(time)).expect("written");
            },
            new,
        ),
        (
            |path, _| fs::hard_link(path, path.with_file_name("second")).expect("made"),
            world.new.clone(),
        ),
    ];
    for (change, expected) in changes {
        fs::write(&path, &bytes).expect("written");
        // Longer than the times of any system are wide.
        thread::sleep(Duration::from_millis(20));
        let mut trial = world.stopped();
        change(&path, &other);
        kill(Pid::from_raw(trial.child.id() as i32), Signal::SIGCONT).expect("it is there");
        let status = trial.child.wait().expect("an end");
        assert!(status.success(), "{status}");
        assert!(world.output() == expected);
        assert_eq!(world.left(), [""; 0]);
    }
}
