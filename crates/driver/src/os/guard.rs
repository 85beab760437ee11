//! The end of the command by the system: a mapped file becomes shorter (SIGBUS), there is no memory
//! (SIGABRT), a file may not become longer (SIGXFSZ), or any other signal that ends a process, from
//! a terminal, another process, a timer or a limit.
//!
//! In: the maps, the temporary file and the temporary folders of the one link of a process. Out: a
//! fatal line and exit status 1 for the first three; the end by the same signal for the others.
//! Guaranteed: temporary files are removed and the old output stays; signals that the parent
//! ignores stay ignored. Only the command sets this up. For a program that uses the library, files
//! are copied and signals are left alone.

use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// A list that the handler reads. It grows at its head; nothing in it is ever moved or freed.
struct MapList<T: 'static>(AtomicPtr<Node<T>>);

struct Node<T: 'static> {
    value: T,
    next: *const Node<T>,
}

impl<T: 'static> MapList<T> {
    const fn new() -> Self {
        MapList(AtomicPtr::new(null_mut()))
    }

    fn push(&self, value: T) -> &'static T {
        let new = Box::leak(Box::new(Node { value, next: null_mut() }));
        // Files are opened by several threads.
        let mut head = self.0.load(Ordering::Acquire);
        loop {
            new.next = head;
            match self.0.compare_exchange(head, new, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return &new.value,
                Err(other) => head = other,
            }
        }
    }

    #[allow(unsafe_code, reason = "a list that a handler may read has no locks")]
    fn iter(&self) -> impl Iterator<Item = &'static T> {
        let mut next = self.0.load(Ordering::Acquire).cast_const();
        std::iter::from_fn(move || {
            // SAFETY: the list is only ever extended at its head, by nodes that are complete and
            // never freed.
            let node: &'static Node<T> = unsafe { next.as_ref()? };
            next = node.next;
            Some(&node.value)
        })
    }
}

/// A mapped file.
struct Map {
    start: usize,
    end: usize,
    /// The line for the case that it becomes shorter.
    line: Vec<u8>,
}

/// A folder for a program that is started, with the files that may be in it.
struct Folder {
    files: Vec<CString>,
    name: CString,
    gone: AtomicBool,
}

static MAPS: MapList<Map> = MapList::new();
static FOLDERS: MapList<Folder> = MapList::new();
/// A C string, or null.
static TEMPORARY: AtomicPtr<c_char> = AtomicPtr::new(null_mut());
/// Signals are handled.
static SET_UP: AtomicBool = AtomicBool::new(false);
/// A thread prints a line about a fault and ends the process.
static ENDING: AtomicBool = AtomicBool::new(false);

/// This line follows that of the standard library.
const ABORTED: &[u8] =
    b"culd fatal   : Internal error: the line above says why this link was given up\n";

/// These do not end a process by default, or cannot be handled. (SIGXFSZ has another handler.)
const OTHERS: [c_int; 10] = [
    libc::SIGKILL,
    libc::SIGSTOP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGCHLD,
    libc::SIGCONT,
    libc::SIGURG,
    libc::SIGWINCH,
    libc::SIGXFSZ,
];

/// These are handled even if they have a handler: the standard library has one for two of them.
const FAULTS: [c_int; 3] = [libc::SIGBUS, libc::SIGABRT, libc::SIGSEGV];

/// An instruction that raises one of these raises it again when the handler returns.
const REPEATED: [c_int; 4] = [libc::SIGBUS, libc::SIGSEGV, libc::SIGILL, libc::SIGFPE];

/// The standard library's handler of SIGSEGV, which reports a stack overflow. Null before
/// [`set_up`].
static OVERFLOW: AtomicPtr<libc::sigaction> = AtomicPtr::new(null_mut());

/// Watches over `map`, which are the bytes of the file at `path`, after [`set_up`].
pub(crate) fn watch(map: &[u8], path: &Path) {
    let path = culd_text::name(path);
    let line = format!(
        "culd fatal   : Could not read file '{}'\n  >>> it became shorter while it was linked, or cannot be read\n",
        culd_text::escaped(&path)
    );
    let start = map.as_ptr() as usize;
    MAPS.push(Map { start, end: start + map.len(), line: line.into_bytes() });
}

/// Whether a file is mapped.
pub(crate) fn has_maps() -> bool {
    MAPS.iter().next().is_some()
}

/// Removes this file if the process is ended from now on; `None` ends that.
pub(crate) fn temporary(path: Option<&Path>) {
    let name = path.and_then(|path| CString::new(path.as_os_str().as_bytes()).ok());
    // The few bytes of an earlier name stay: the handler may be reading them.
    TEMPORARY.store(name.map_or(null_mut(), CString::into_raw), Ordering::Release);
}

/// A folder that is removed when the process is ended, until it is gone.
#[derive(Clone, Copy)]
pub(crate) struct ListedFolder(&'static Folder);

impl ListedFolder {
    /// Lists the folder at `path`, which may have these files, if signals are handled. Called
    /// before the folder exists, so that it is not left behind whenever the process is ended.
    pub(crate) fn new(path: &Path, files: &[&str]) -> Option<Self> {
        if !SET_UP.load(Ordering::Acquire) {
            return None;
        }
        let name = |path: &Path| CString::new(path.as_os_str().as_bytes()).ok();
        let files = files.iter().filter_map(|file| name(&path.join(file))).collect();
        let folder = Folder { files, name: name(path)?, gone: AtomicBool::new(false) };
        Some(ListedFolder(FOLDERS.push(folder)))
    }

    /// Notes that the folder does not exist any more.
    pub(crate) fn gone(self) {
        self.0.gone.store(true, Ordering::Release);
    }
}

/// Handles every signal that ends a process. Signals that the parent ignores, as nohup(1) does,
/// stay ignored, and handlers of other parts of the process, such as a profiler, stay.
#[allow(unsafe_code, reason = "signals have a C interface only")]
pub(crate) fn set_up() {
    // SAFETY: the structures are plain data, for which zeros are valid.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    action.sa_sigaction = ended as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    for signal in (1..=last_signal()).filter(|signal| !OTHERS.contains(signal)) {
        // SAFETY: all pointers are valid; the handler does only what a handler may do, see there.
        let refused = unsafe { libc::sigaction(signal, &action, &mut before) } != 0;
        // The C library keeps two signals for itself.
        if refused {
            continue;
        }
        if signal == libc::SIGSEGV && OVERFLOW.load(Ordering::Acquire).is_null() {
            OVERFLOW.store(Box::into_raw(Box::new(before)), Ordering::Release);
        }
        if before.sa_sigaction != libc::SIG_DFL && !FAULTS.contains(&signal) {
            // SAFETY: as above.
            unsafe { libc::sigaction(signal, &before, null_mut()) };
        }
    }
    // With a handler the write fails with an error, and the error is reported; started programs do
    // not inherit a handler. SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGXFSZ, too_long as *const () as libc::sighandler_t) };
    SET_UP.store(true, Ordering::Release);
}

/// Makes panics print nothing while `held`, once a file is mapped: the panic may come from a change
/// of the file, and the link is made again with copies. A defect of culd panics in that link, too,
/// which prints it.
pub(crate) fn hold_panics(held: bool) {
    static HELD: AtomicBool = AtomicBool::new(false);
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !HELD.load(Ordering::Acquire) || !has_maps() {
                print(panic);
            }
        }));
    });
    HELD.store(held, Ordering::Release);
}

/// The greatest number of a signal.
#[cfg(target_os = "linux")]
fn last_signal() -> c_int {
    libc::SIGRTMAX()
}

/// Systems without signals of real time have as many as fit one word.
#[cfg(not(target_os = "linux"))]
fn last_signal() -> c_int {
    31
}

/// Whether a thread of this process has sent itself a signal with this code, as abort(3) does.
#[cfg(target_os = "linux")]
fn is_own(code: c_int) -> bool {
    code == libc::SI_TKILL
}

/// Other systems have no code for that.
#[cfg(not(target_os = "linux"))]
fn is_own(code: c_int) -> bool {
    code <= 0
}

extern "C" fn too_long(_: c_int) {}

/// The handler: reads prepared data, and calls only functions that a handler may call
/// (signal-safety(7)). Several threads may be in it at once: a map that has become shorter is read
/// by all of them.
#[allow(unsafe_code, reason = "signals have a C interface only")]
extern "C" fn ended(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the system passes a valid structure; it has an address for a fault.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // Else a process has sent it.
    let is_fault = code > 0;
    let map = MAPS.iter().find(|map| (map.start..map.end).contains(&address));
    let line: &[u8] = match (signal, map) {
        (libc::SIGBUS, Some(map)) if is_fault => &map.line,
        // Raised by abort(3).
        (libc::SIGABRT, _) if is_own(code) => ABORTED,
        _ => return end_by(signal, is_fault),
    };
    if ENDING.swap(true, Ordering::AcqRel) {
        // Another thread ends the process. To return would be to fail again.
        loop {
            // SAFETY: pause may be called in a handler.
            unsafe { libc::pause() };
        }
    }
    // SAFETY: write may be called in a handler; the bytes are valid and never freed.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
    remove_temporaries();
    // SAFETY: _exit may be called in a handler.
    unsafe { libc::_exit(1) };
}

/// Removes temporary files and lets `signal` have its default effect, which the parent may look at.
#[allow(unsafe_code, reason = "called in a handler")]
fn end_by(signal: c_int, is_fault: bool) {
    remove_temporaries();
    let overflow = OVERFLOW.load(Ordering::Acquire);
    // SAFETY: all three may be called in a handler; the structure is valid and never freed.
    unsafe {
        if is_fault && signal == libc::SIGSEGV && !overflow.is_null() {
            libc::sigaction(signal, overflow, null_mut());
            return;
        }
        libc::signal(signal, libc::SIG_DFL);
        if !(is_fault && REPEATED.contains(&signal)) {
            // It waits until the handler returns.
            libc::raise(signal);
        }
    }
}

#[allow(unsafe_code, reason = "called in a handler")]
fn remove_temporaries() {
    let name = TEMPORARY.load(Ordering::Acquire);
    if !name.is_null() {
        // SAFETY: unlink may be called in a handler; the name is valid and never freed.
        unsafe { libc::unlink(name) };
    }
    for folder in FOLDERS.iter().filter(|folder| !folder.gone.load(Ordering::Acquire)) {
        for file in &folder.files {
            // SAFETY: the same.
            unsafe { libc::unlink(file.as_ptr()) };
        }
        // SAFETY: the same for rmdir.
        unsafe { libc::rmdir(folder.name.as_ptr()) };
    }
}
