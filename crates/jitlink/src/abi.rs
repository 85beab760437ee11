//! The functions of the library, under all their names.
//!
//! In: arguments from C. Out: a code. Guaranteed: pointers are read once, here, and turned into
//! values; the size that a caller gives for a buffer is believed, as in every C interface. The rest
//! of the crate sees slices and numbers.
#![allow(unsafe_code, reason = "C gives pointers")]

use std::cell::Cell;
use std::ffi::{CStr, OsString, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStringExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::handles;
use crate::interface::INTERFACE;
use crate::link::JitLink;
use crate::result::ResultCode;

/// A handle, which C takes for a pointer.
pub type LinkHandle = usize;

/// Runs `work` on enough stack; a panic becomes a code. That of a defect: input never panics.
fn guarded(work: impl FnOnce() -> ResultCode) -> c_int {
    // Work for another thread: the calling thread waits until it has ended.
    struct Lent<T>(T);
    // SAFETY: pointers of the caller's are used by one thread at a time.
    unsafe impl<T> Send for Lent<T> {}

    if left_of_stack() >= ENOUGH_STACK {
        return caught(work);
    }
    let work = Mutex::new(Some(Lent(work)));
    let run = || {
        let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
        work.map_or(ResultCode::Internal as c_int, |Lent(work)| caught(work))
    };
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(STACK);
        match builder.spawn_scoped(scope, run) {
            Ok(thread) => thread.join().unwrap_or(ResultCode::Internal as c_int),
            // Little may be enough.
            Err(_) => run(),
        }
    })
}

/// Not a part of its caller, whose frame would be as large as that of all the work.
#[inline(never)]
fn caught(work: impl FnOnce() -> ResultCode) -> c_int {
    INTERFACE.number(catch_unwind(AssertUnwindSafe(work)).unwrap_or(ResultCode::Internal))
}

/// Bytes of stack on which everything is done that a program may ask for, NVIDIA's compiler of
/// LTO-IR included.
pub(crate) const STACK: usize = 8 << 20;
/// A thread that has as much left does the work itself.
const ENOUGH_STACK: usize = 1 << 20;

/// The bytes that the calling thread has left of its stack; if the system does not know, as many as
/// there could be.
fn left_of_stack() -> usize {
    thread_local! {
        static LOWEST: Cell<Option<usize>> = const { Cell::new(None) };
    }
    let here = 0u8;
    let lowest = LOWEST.get().unwrap_or_else(|| {
        let lowest = lowest_of_stack().unwrap_or(0);
        LOWEST.set(Some(lowest));
        lowest
    });
    (&raw const here as usize).saturating_sub(lowest)
}

/// The address at which the stack of this thread ends.
fn lowest_of_stack() -> Option<usize> {
    let mut attributes = std::mem::MaybeUninit::uninit();
    let (mut lowest, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are made by the first call, asked by the second, which writes to two
    // values that live here, and given back by the third.
    unsafe {
        let thread = libc::pthread_self();
        if libc::pthread_getattr_np(thread, attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let status = libc::pthread_attr_getstack(attributes.as_ptr(), &mut lowest, &mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (status == 0).then_some(lowest as usize)
    }
}

/// `work` with the link of `handle`.
fn with(handle: LinkHandle, work: impl FnOnce(&mut JitLink) -> ResultCode) -> c_int {
    guarded(|| match handles::get(handle) {
        // A link that panicked can be used: its parts are replaced as a whole.
        Some(link) => work(&mut link.lock().unwrap_or_else(PoisonError::into_inner)),
        None => ResultCode::NullInput,
    })
}

/// A word of C's, of any bytes.
///
/// # Safety
/// `word` is null or ends with NUL.
unsafe fn word(word: *const c_char) -> Option<OsString> {
    if word.is_null() {
        return None;
    }
    // SAFETY: not null; else as the caller promises.
    let word = unsafe { CStr::from_ptr(word) };
    Some(OsString::from_vec(word.to_bytes().to_vec()))
}

/// Puts `value` where `place` points.
///
/// # Safety
/// `place` is null or can be written.
unsafe fn put<T>(place: *mut T, value: T) -> ResultCode {
    if place.is_null() {
        return ResultCode::NullInput;
    }
    // SAFETY: not null; else as the caller promises.
    unsafe { place.write(value) };
    ResultCode::Success
}

/// Copies `bytes`, if there are some, to where `place` points.
///
/// # Safety
/// `place` is null or has room for as many bytes as the function for sizes returned.
unsafe fn copy(place: *mut c_char, bytes: Result<&[u8], ResultCode>) -> ResultCode {
    match bytes {
        _ if place.is_null() => ResultCode::NullInput,
        Err(code) => code,
        Ok(bytes) => {
            // SAFETY: not null; else as the caller promises.
            unsafe { place.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            ResultCode::Success
        }
    }
}

/// A function under its own name and those of every release: of CUDA 13, and of CUDA 12.
macro_rules! export {
    ($(#[$doc:meta])* fn $name:ident $args:tt
     [$($alias:ident)*] [$($alias_12:ident)*] $body:block) => {
        export!(@own [$(#[$doc])*] $name $args $body);
        $(#[cfg(not(feature = "cuda12"))] export!(@alias $alias $name $args);)*
        $(#[cfg(feature = "cuda12")] export!(@alias $alias_12 $name $args);)*
    };
    (@own [$(#[$doc:meta])*] $name:ident ($($arg:ident: $type:ty),*) $body:block) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// Pointers are null or what the header says of them.
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe, reason = "not every function has pointers")]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
            // SAFETY: whatever is done with a pointer below is what the caller promises.
            unsafe { $body }
        }
    };
    (@alias $alias:ident $name:ident ($($arg:ident: $type:ty),*)) => {
        /// The function for programs that were compiled with the header of this release.
        ///
        /// # Safety
        /// As the function it calls.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $alias($($arg: $type),*) -> c_int {
            // SAFETY: as the caller promises.
            unsafe { $name($($arg),*) }
        }
    };
}

export! {
    /// Makes a handle. One that is refused for its options has a log, too.
    fn nvJitLinkCreate(handle: *mut LinkHandle, count: u32, options: *const *const c_char)
    [__nvJitLinkCreate_13_0 __nvJitLinkCreate_13_1 __nvJitLinkCreate_13_2 __nvJitLinkCreate_13_3
     __nvJitLinkCreate_13_4 __nvJitLinkCreate_13_5]
    [__nvJitLinkCreate_12_0 __nvJitLinkCreate_12_1 __nvJitLinkCreate_12_2 __nvJitLinkCreate_12_3
     __nvJitLinkCreate_12_4 __nvJitLinkCreate_12_5 __nvJitLinkCreate_12_6 __nvJitLinkCreate_12_7
     __nvJitLinkCreate_12_8 __nvJitLinkCreate_12_9] {
        guarded(|| {
            if handle.is_null() || (options.is_null() && count != 0) {
                return ResultCode::NullInput;
            }
            let mut words = Vec::new();
            for place in 0..count as usize {
                match word(*options.add(place)) {
                    Some(word) => words.push(word),
                    None => return ResultCode::NullInput,
                }
            }
            let link = JitLink::new(&words);
            let code = link.created();
            put(handle, handles::create(link).get());
            code
        })
    }
}

export! {
    /// Gives a handle back and sets it to null.
    fn nvJitLinkDestroy(handle: *mut LinkHandle)
    [__nvJitLinkDestroy_13_0 __nvJitLinkDestroy_13_1 __nvJitLinkDestroy_13_2
     __nvJitLinkDestroy_13_3 __nvJitLinkDestroy_13_4 __nvJitLinkDestroy_13_5]
    [__nvJitLinkDestroy_12_0 __nvJitLinkDestroy_12_1 __nvJitLinkDestroy_12_2
     __nvJitLinkDestroy_12_3 __nvJitLinkDestroy_12_4 __nvJitLinkDestroy_12_5
     __nvJitLinkDestroy_12_6 __nvJitLinkDestroy_12_7 __nvJitLinkDestroy_12_8
     __nvJitLinkDestroy_12_9] {
        guarded(|| {
            if handle.is_null() || handles::destroy(*handle).is_none() {
                return ResultCode::NullInput;
            }
            put(handle, 0)
        })
    }
}

export! {
    /// Adds an input in memory, which is copied.
    fn nvJitLinkAddData(
        handle: LinkHandle, kind: c_int, data: *const c_void, size: usize, name: *const c_char
    )
    [__nvJitLinkAddData_13_0 __nvJitLinkAddData_13_1 __nvJitLinkAddData_13_2
     __nvJitLinkAddData_13_3 __nvJitLinkAddData_13_4 __nvJitLinkAddData_13_5]
    [__nvJitLinkAddData_12_0 __nvJitLinkAddData_12_1 __nvJitLinkAddData_12_2
     __nvJitLinkAddData_12_3 __nvJitLinkAddData_12_4 __nvJitLinkAddData_12_5
     __nvJitLinkAddData_12_6 __nvJitLinkAddData_12_7 __nvJitLinkAddData_12_8
     __nvJitLinkAddData_12_9] {
        with(handle, |link| {
            if data.is_null() || isize::try_from(size).is_err() {
                return ResultCode::NullInput;
            }
            let bytes = std::slice::from_raw_parts(data.cast::<u8>(), size);
            link.add_data(kind, word(name).as_deref(), bytes)
        })
    }
}

export! {
    /// Adds the input at a path.
    fn nvJitLinkAddFile(handle: LinkHandle, kind: c_int, path: *const c_char)
    [__nvJitLinkAddFile_13_0 __nvJitLinkAddFile_13_1 __nvJitLinkAddFile_13_2
     __nvJitLinkAddFile_13_3 __nvJitLinkAddFile_13_4 __nvJitLinkAddFile_13_5]
    [__nvJitLinkAddFile_12_0 __nvJitLinkAddFile_12_1 __nvJitLinkAddFile_12_2
     __nvJitLinkAddFile_12_3 __nvJitLinkAddFile_12_4 __nvJitLinkAddFile_12_5
     __nvJitLinkAddFile_12_6 __nvJitLinkAddFile_12_7 __nvJitLinkAddFile_12_8
     __nvJitLinkAddFile_12_9] {
        with(handle, |link| match word(path) {
            Some(path) => link.add_file(kind, Path::new(&path)),
            None => ResultCode::NullInput,
        })
    }
}

export! {
    /// Links.
    fn nvJitLinkComplete(handle: LinkHandle)
    [__nvJitLinkComplete_13_0 __nvJitLinkComplete_13_1 __nvJitLinkComplete_13_2
     __nvJitLinkComplete_13_3 __nvJitLinkComplete_13_4 __nvJitLinkComplete_13_5]
    [__nvJitLinkComplete_12_0 __nvJitLinkComplete_12_1 __nvJitLinkComplete_12_2
     __nvJitLinkComplete_12_3 __nvJitLinkComplete_12_4 __nvJitLinkComplete_12_5
     __nvJitLinkComplete_12_6 __nvJitLinkComplete_12_7 __nvJitLinkComplete_12_8
     __nvJitLinkComplete_12_9] {
        with(handle, JitLink::complete)
    }
}

/// A function for the size of a result, and one that copies it.
macro_rules! result {
    ($what:ident
     $size:ident [$($size_alias:ident)*] [$($size_12:ident)*]
     $get:ident [$($get_alias:ident)*] [$($get_12:ident)*]) => {
        export! {
            /// Returns the number of bytes.
            fn $size(handle: LinkHandle, size: *mut usize) [$($size_alias)*] [$($size_12)*] {
                with(handle, |link| match link.$what() {
                    _ if size.is_null() => ResultCode::NullInput,
                    Ok(bytes) => put(size, bytes.len()),
                    Err(code) => code,
                })
            }
        }
        export! {
            /// Copies the bytes.
            fn $get(handle: LinkHandle, buffer: *mut c_char) [$($get_alias)*] [$($get_12)*] {
                with(handle, |link| copy(buffer, link.$what()))
            }
        }
    };
}

result! {
    cubin
    nvJitLinkGetLinkedCubinSize
    [__nvJitLinkGetLinkedCubinSize_13_0 __nvJitLinkGetLinkedCubinSize_13_1
     __nvJitLinkGetLinkedCubinSize_13_2 __nvJitLinkGetLinkedCubinSize_13_3
     __nvJitLinkGetLinkedCubinSize_13_4 __nvJitLinkGetLinkedCubinSize_13_5]
    [__nvJitLinkGetLinkedCubinSize_12_0 __nvJitLinkGetLinkedCubinSize_12_1
     __nvJitLinkGetLinkedCubinSize_12_2 __nvJitLinkGetLinkedCubinSize_12_3
     __nvJitLinkGetLinkedCubinSize_12_4 __nvJitLinkGetLinkedCubinSize_12_5
     __nvJitLinkGetLinkedCubinSize_12_6 __nvJitLinkGetLinkedCubinSize_12_7
     __nvJitLinkGetLinkedCubinSize_12_8 __nvJitLinkGetLinkedCubinSize_12_9]
    nvJitLinkGetLinkedCubin
    [__nvJitLinkGetLinkedCubin_13_0 __nvJitLinkGetLinkedCubin_13_1 __nvJitLinkGetLinkedCubin_13_2
     __nvJitLinkGetLinkedCubin_13_3 __nvJitLinkGetLinkedCubin_13_4 __nvJitLinkGetLinkedCubin_13_5]
    [__nvJitLinkGetLinkedCubin_12_0 __nvJitLinkGetLinkedCubin_12_1 __nvJitLinkGetLinkedCubin_12_2
     __nvJitLinkGetLinkedCubin_12_3 __nvJitLinkGetLinkedCubin_12_4 __nvJitLinkGetLinkedCubin_12_5
     __nvJitLinkGetLinkedCubin_12_6 __nvJitLinkGetLinkedCubin_12_7 __nvJitLinkGetLinkedCubin_12_8
     __nvJitLinkGetLinkedCubin_12_9]
}

result! {
    ptx
    nvJitLinkGetLinkedPtxSize
    [__nvJitLinkGetLinkedPtxSize_13_0 __nvJitLinkGetLinkedPtxSize_13_1
     __nvJitLinkGetLinkedPtxSize_13_2 __nvJitLinkGetLinkedPtxSize_13_3
     __nvJitLinkGetLinkedPtxSize_13_4 __nvJitLinkGetLinkedPtxSize_13_5]
    [__nvJitLinkGetLinkedPtxSize_12_0 __nvJitLinkGetLinkedPtxSize_12_1
     __nvJitLinkGetLinkedPtxSize_12_2 __nvJitLinkGetLinkedPtxSize_12_3
     __nvJitLinkGetLinkedPtxSize_12_4 __nvJitLinkGetLinkedPtxSize_12_5
     __nvJitLinkGetLinkedPtxSize_12_6 __nvJitLinkGetLinkedPtxSize_12_7
     __nvJitLinkGetLinkedPtxSize_12_8 __nvJitLinkGetLinkedPtxSize_12_9]
    nvJitLinkGetLinkedPtx
    [__nvJitLinkGetLinkedPtx_13_0 __nvJitLinkGetLinkedPtx_13_1 __nvJitLinkGetLinkedPtx_13_2
     __nvJitLinkGetLinkedPtx_13_3 __nvJitLinkGetLinkedPtx_13_4 __nvJitLinkGetLinkedPtx_13_5]
    [__nvJitLinkGetLinkedPtx_12_0 __nvJitLinkGetLinkedPtx_12_1 __nvJitLinkGetLinkedPtx_12_2
     __nvJitLinkGetLinkedPtx_12_3 __nvJitLinkGetLinkedPtx_12_4 __nvJitLinkGetLinkedPtx_12_5
     __nvJitLinkGetLinkedPtx_12_6 __nvJitLinkGetLinkedPtx_12_7 __nvJitLinkGetLinkedPtx_12_8
     __nvJitLinkGetLinkedPtx_12_9]
}

// No release of CUDA 12 has these.
#[cfg(not(feature = "cuda12"))]
result! {
    lto_ir
    nvJitLinkGetLinkedLTOIRSize
    [__nvJitLinkGetLinkedLTOIRSize_13_0 __nvJitLinkGetLinkedLTOIRSize_13_1
     __nvJitLinkGetLinkedLTOIRSize_13_2 __nvJitLinkGetLinkedLTOIRSize_13_3
     __nvJitLinkGetLinkedLTOIRSize_13_4 __nvJitLinkGetLinkedLTOIRSize_13_5]
    []
    nvJitLinkGetLinkedLTOIR
    [__nvJitLinkGetLinkedLTOIR_13_0 __nvJitLinkGetLinkedLTOIR_13_1 __nvJitLinkGetLinkedLTOIR_13_2
     __nvJitLinkGetLinkedLTOIR_13_3 __nvJitLinkGetLinkedLTOIR_13_4 __nvJitLinkGetLinkedLTOIR_13_5]
    []
}

/// A log: its size is 0 while there is nothing in it, and its text ends with NUL even then.
macro_rules! log {
    ($what:ident
     $size:ident [$($size_alias:ident)*] [$($size_12:ident)*]
     $get:ident [$($get_alias:ident)*] [$($get_12:ident)*]) => {
        export! {
            /// Returns the number of bytes of the log with its NUL; 0 if it is empty.
            fn $size(handle: LinkHandle, size: *mut usize) [$($size_alias)*] [$($size_12)*] {
                with(handle, |link| {
                    let text = link.$what().len();
                    put(size, if text == 0 { 0 } else { text + 1 })
                })
            }
        }
        export! {
            /// Copies the log and a NUL.
            fn $get(handle: LinkHandle, buffer: *mut c_char) [$($get_alias)*] [$($get_12)*] {
                with(handle, |link| {
                    let text: Vec<u8> = link.$what().bytes().chain([0]).collect();
                    copy(buffer, Ok(&text))
                })
            }
        }
    };
}

log! {
    error_log
    nvJitLinkGetErrorLogSize
    [__nvJitLinkGetErrorLogSize_13_0 __nvJitLinkGetErrorLogSize_13_1
     __nvJitLinkGetErrorLogSize_13_2 __nvJitLinkGetErrorLogSize_13_3
     __nvJitLinkGetErrorLogSize_13_4 __nvJitLinkGetErrorLogSize_13_5]
    [__nvJitLinkGetErrorLogSize_12_0 __nvJitLinkGetErrorLogSize_12_1
     __nvJitLinkGetErrorLogSize_12_2 __nvJitLinkGetErrorLogSize_12_3
     __nvJitLinkGetErrorLogSize_12_4 __nvJitLinkGetErrorLogSize_12_5
     __nvJitLinkGetErrorLogSize_12_6 __nvJitLinkGetErrorLogSize_12_7
     __nvJitLinkGetErrorLogSize_12_8 __nvJitLinkGetErrorLogSize_12_9]
    nvJitLinkGetErrorLog
    [__nvJitLinkGetErrorLog_13_0 __nvJitLinkGetErrorLog_13_1 __nvJitLinkGetErrorLog_13_2
     __nvJitLinkGetErrorLog_13_3 __nvJitLinkGetErrorLog_13_4 __nvJitLinkGetErrorLog_13_5]
    [__nvJitLinkGetErrorLog_12_0 __nvJitLinkGetErrorLog_12_1 __nvJitLinkGetErrorLog_12_2
     __nvJitLinkGetErrorLog_12_3 __nvJitLinkGetErrorLog_12_4 __nvJitLinkGetErrorLog_12_5
     __nvJitLinkGetErrorLog_12_6 __nvJitLinkGetErrorLog_12_7 __nvJitLinkGetErrorLog_12_8
     __nvJitLinkGetErrorLog_12_9]
}

log! {
    info_log
    nvJitLinkGetInfoLogSize
    [__nvJitLinkGetInfoLogSize_13_0 __nvJitLinkGetInfoLogSize_13_1
     __nvJitLinkGetInfoLogSize_13_2 __nvJitLinkGetInfoLogSize_13_3
     __nvJitLinkGetInfoLogSize_13_4 __nvJitLinkGetInfoLogSize_13_5]
    [__nvJitLinkGetInfoLogSize_12_0 __nvJitLinkGetInfoLogSize_12_1 __nvJitLinkGetInfoLogSize_12_2
     __nvJitLinkGetInfoLogSize_12_3 __nvJitLinkGetInfoLogSize_12_4 __nvJitLinkGetInfoLogSize_12_5
     __nvJitLinkGetInfoLogSize_12_6 __nvJitLinkGetInfoLogSize_12_7 __nvJitLinkGetInfoLogSize_12_8
     __nvJitLinkGetInfoLogSize_12_9]
    nvJitLinkGetInfoLog
    [__nvJitLinkGetInfoLog_13_0 __nvJitLinkGetInfoLog_13_1 __nvJitLinkGetInfoLog_13_2
     __nvJitLinkGetInfoLog_13_3 __nvJitLinkGetInfoLog_13_4 __nvJitLinkGetInfoLog_13_5]
    [__nvJitLinkGetInfoLog_12_0 __nvJitLinkGetInfoLog_12_1 __nvJitLinkGetInfoLog_12_2
     __nvJitLinkGetInfoLog_12_3 __nvJitLinkGetInfoLog_12_4 __nvJitLinkGetInfoLog_12_5
     __nvJitLinkGetInfoLog_12_6 __nvJitLinkGetInfoLog_12_7 __nvJitLinkGetInfoLog_12_8
     __nvJitLinkGetInfoLog_12_9]
}

export! {
    /// Returns the release of the interface.
    fn nvJitLinkVersion(major: *mut c_uint, minor: *mut c_uint) [] [] {
        guarded(|| {
            if major.is_null() || minor.is_null() {
                return ResultCode::NullInput;
            }
            put(major, INTERFACE.version.0.into());
            put(minor, INTERFACE.version.1.into())
        })
    }
}

/// NVIDIA's libraries ask each other through this function; its arguments are not published. It has
/// no result here.
#[unsafe(no_mangle)]
pub extern "C" fn __nvJitLinkAPI() -> *const c_void {
    std::ptr::null()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    /// The code and error log of a link that is given the file at `path`.
    fn add(path: &Path) -> (c_int, String) {
        let path = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
        let mut handle: LinkHandle = 0;
        let mut log = [0; 512];
        // SAFETY: the pointers are of values that live here, and texts end with NUL.
        let code = unsafe {
            assert_eq!(nvJitLinkCreate(&raw mut handle, 1, [c"-arch=sm_90".as_ptr()].as_ptr()), 0);
            let code = nvJitLinkAddFile(handle, 10, path.as_ptr());
            assert_eq!(nvJitLinkGetErrorLog(handle, log.as_mut_ptr()), 0);
            nvJitLinkDestroy(&raw mut handle);
            code
        };
        let log: Vec<u8> = log.iter().map_while(|&byte| u8::try_from(byte).ok()).collect();
        let log = String::from_utf8_lossy(&log);
        (code, log.trim_end_matches('\0').to_owned())
    }

    #[test]
    fn a_file_that_cannot_be_read_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("loop");
        std::os::unix::fs::symlink(&path, &path).unwrap();
        let (code, log) = add(&path);
        assert_eq!(code, ResultCode::InvalidInput as c_int);
        assert!(log.contains("  >>> Too many levels of symbolic links"), "{log}");
        let missing = folder.path().join("missing");
        assert_eq!(add(&missing).1, format!("no such file: {}\n", missing.display()));
    }

    #[test]
    fn a_path_of_any_bytes_is_read_and_shown_escaped() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &[u8]| folder.path().join(std::ffi::OsStr::from_bytes(name));
        std::fs::write(place("caf\u{fffd}".as_bytes()), "words of no known kind").unwrap();
        let (code, log) = add(&place(b"caf\xe9"));
        assert_eq!(code, ResultCode::InvalidInput as c_int);
        assert!(log.starts_with("no such file: ") && log.ends_with("/caf\\xe9\n"), "{log}");
        std::fs::write(place(b"caf\xe9\x1b"), "words of no known kind").unwrap();
        let (code, log) = add(&place(b"caf\xe9\x1b"));
        assert_eq!(code, ResultCode::UnrecognizedInput as c_int);
        assert!(log.ends_with("/caf\\xe9\\x1b\n"), "{log}");
    }
}
