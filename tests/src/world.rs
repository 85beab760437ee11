//! Folders in which a command runs, and the files left in them.
//!
//! In: the name of a recorded case, or nothing. Out: a folder with inputs. Guaranteed: a program in
//! it can be started at once.

use culd_testkit::fixtures::case;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

const QUICKSTART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/quickstart/");

/// The two objects of the quickstart.
const OBJECTS: [&str; 2] = ["saxpy.cubin", "smooth.cubin"];

/// A folder with the inputs of the recorded case `case` and a copy of `program` as `culd`, with the
/// permissions `mode`.
///
/// # Panics
/// When one of them cannot be made.
#[must_use]
pub fn with_program(program: &str, case: &str, mode: u32) -> tempfile::TempDir {
    let world = tempfile::tempdir().expect("a folder");
    set_mode(world.path(), mode);
    for (name, bytes) in case::named(case).and_then(|case| case.inputs()).expect("inputs") {
        fs::write(world.path().join(name), bytes).expect("written");
    }
    // By another process: a program that is open for writing cannot be started, and a child of this
    // process might inherit the descriptor.
    let copied = Command::new("cp").arg(program).arg(world.path().join("culd")).status();
    assert!(copied.expect("cp starts").success());
    world
}

/// A folder in which programs are written and started, one at a time: a process that another thread
/// starts meanwhile would keep them open for writing.
pub struct ProgramFolder {
    folder: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

impl ProgramFolder {
    /// An empty one, as soon as there is no other.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it waits")]
    pub fn new() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        ProgramFolder { folder: tempfile::tempdir().expect("a folder"), _alone: alone }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Copies the objects of the quickstart, `saxpy.cubin` and `smooth.cubin`, into `folder`.
///
/// # Panics
/// When they cannot be copied.
pub fn copy_quickstart(folder: &Path) {
    for name in OBJECTS {
        fs::copy(format!("{QUICKSTART}{name}"), folder.join(name)).expect("copied");
    }
}

/// Sets the permissions of a file or folder.
///
/// # Panics
/// When they cannot be set.
pub fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("changed");
}

/// The paths of everything in `folder` and below it, sorted.
///
/// # Panics
/// When a folder cannot be read.
#[must_use]
pub fn names(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).expect("listed") {
        let path = entry.expect("an entry").path();
        names.push(path.display().to_string());
        if path.is_dir() && !path.is_symlink() {
            names.extend(self::names(&path));
        }
    }
    names.sort();
    names
}

/// The output of a process, which has to end within `limit`.
///
/// # Panics
/// When it does not.
#[must_use]
pub fn ended(child: Child, limit: Duration) -> Output {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    receiver.recv_timeout(limit).expect("it ends").expect("its output")
}

/// The signals that this process and its children ignore: bit `n` for signal `n + 1`. Background
/// processes of a shell ignore SIGINT, those of nohup(1) ignore SIGHUP.
///
/// # Panics
/// If Linux does not report it.
#[must_use]
pub fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a file of Linux");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a mask");
    u64::from_str_radix(mask.trim(), 16).expect("a number")
}
