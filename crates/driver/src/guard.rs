//! What the command does when the system ends it: a file that it has mapped becomes shorter (SIGBUS), there is no
//! memory (SIGABRT), a file may not become longer (SIGXFSZ), or somebody wants it to end (SIGHUP, SIGINT, SIGTERM).
//!
//! In: the maps and the temporary file of the one link that a process of the command makes. Out: a fatal line, exit
//! status 1; the end by the same signal where somebody wanted it. Guaranteed: the temporary file is gone and the old output as it was. Only the command sets this up; a
//! program that uses the library has its files copied and its signals left alone.

use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A mapped file. The list of them grows at its head and is never shortened: maps live as long as the process.
struct Map {
    start: usize,
    end: usize,
    /// What is told when it becomes shorter.
    told: Vec<u8>,
    next: *const Map,
}

static MAPS: AtomicPtr<Map> = AtomicPtr::new(null_mut());
/// A C string, or null.
static TEMPORARY: AtomicPtr<c_char> = AtomicPtr::new(null_mut());

/// Behind what the standard library says before it gives up.
const ABORTED: &[u8] =
    b"culd fatal   : Internal error: the line above says why this link was given up\n";

/// The process cannot go on.
const FAULTS: [c_int; 2] = [libc::SIGBUS, libc::SIGABRT];
/// Somebody wants it to end.
const WISHES: [c_int; 3] = [libc::SIGHUP, libc::SIGINT, libc::SIGTERM];

/// Watches over `map`, which are the bytes of the file at `path`, after [`set_up`].
pub(crate) fn watch(map: &[u8], path: &str) {
    let told = format!(
        "culd fatal   : Could not read file '{path}'\n  >>> it became shorter while it was linked\n"
    );
    let start = map.as_ptr() as usize;
    let end = start + map.len();
    let new = Box::leak(Box::new(Map { start, end, told: told.into_bytes(), next: null_mut() }));
    // Files are opened by several threads.
    let mut head = MAPS.load(Ordering::Acquire);
    loop {
        new.next = head;
        match MAPS.compare_exchange(head, new, Ordering::Release, Ordering::Acquire) {
            Ok(_) => return,
            Err(other) => head = other,
        }
    }
}

/// Removes this file if the process is ended from now on; `None` ends that.
pub(crate) fn temporary(path: Option<&Path>) {
    let name = path.and_then(|path| CString::new(path.as_os_str().as_bytes()).ok());
    // The few bytes of an earlier name stay: the handler may be reading them.
    TEMPORARY.store(name.map_or(null_mut(), CString::into_raw), Ordering::Release);
}

/// Takes over the signals. Those of people that the parent has ignored, as nohup(1) does, stay so.
#[allow(unsafe_code, reason = "signals have a C interface only")]
pub(crate) fn set_up() {
    for signal in FAULTS.into_iter().chain(WISHES) {
        // SAFETY: the structures are plain data, for which zeros are a value; all pointers are valid; the handler
        // keeps to what a handler may do, see there.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let mut before: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = ended as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
            libc::sigaction(signal, &action, &mut before);
            if WISHES.contains(&signal) && before.sa_sigaction == libc::SIG_IGN {
                libc::sigaction(signal, &before, null_mut());
            }
        }
    }
    // With a handler the write fails, and the error is told; other programs that are started do not inherit one.
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGXFSZ, too_long as *const () as libc::sighandler_t) };
}

extern "C" fn too_long(_: c_int) {}

/// The handler: reads what was prepared, and calls only what may be called in one (signal-safety(7)).
#[allow(unsafe_code, reason = "signals have a C interface only")]
extern "C" fn ended(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    if WISHES.contains(&signal) {
        // The signal waits until the handler returns, and then does what it does by itself, which the parent may want to know.
        remove_temporary();
        // SAFETY: raise may be called in a handler.
        unsafe { libc::raise(signal) };
        return;
    }
    let told: &[u8] = if signal == libc::SIGBUS {
        // SAFETY: the system passes a valid structure, which has an address for this signal. The list is only ever
        // extended at its head, by nodes that are complete and never freed.
        let map = unsafe {
            let address = (*info).si_addr() as usize;
            let mut map = MAPS.load(Ordering::Acquire).cast_const();
            while let Some(node) = map.as_ref() {
                if (node.start..node.end).contains(&address) {
                    break;
                }
                map = node.next;
            }
            map.as_ref()
        };
        match map {
            Some(map) => &map.told,
            // Not ours: with the handler gone, the instruction fails again and ends the process.
            None => return,
        }
    } else {
        ABORTED
    };
    // SAFETY: write may be called in a handler; the bytes are valid and never freed.
    unsafe { libc::write(libc::STDERR_FILENO, told.as_ptr().cast(), told.len()) };
    remove_temporary();
    // SAFETY: _exit may be called in a handler.
    unsafe { libc::_exit(1) };
}

#[allow(unsafe_code, reason = "called in a handler")]
fn remove_temporary() {
    let name = TEMPORARY.load(Ordering::Acquire);
    if !name.is_null() {
        // SAFETY: unlink may be called in a handler; the name is valid and never freed.
        unsafe { libc::unlink(name) };
    }
}
