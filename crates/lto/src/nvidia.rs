//! Calls of NVIDIA's library.
//!
//! In: slices. Out: bytes. Guaranteed: every handle is destroyed; every length is that of what is
//! passed.
#![allow(unsafe_code, reason = "the library is C's")]

use std::ffi::{CStr, CString, NulError, c_char, c_int, c_uint, c_void};
use std::fmt::Display;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use libloading::Library;

use crate::other_code;
use crate::{CompileInput, CompileInputKind, CompileOutput, CompileTask, LtoError, LtoTarget};

type NvJitLinkHandle = *mut c_void;
type CreateFn = unsafe extern "C" fn(*mut NvJitLinkHandle, u32, *const *const c_char) -> c_int;
type DestroyFn = unsafe extern "C" fn(*mut NvJitLinkHandle) -> c_int;
type AddData =
    unsafe extern "C" fn(NvJitLinkHandle, c_int, *const c_void, usize, *const c_char) -> c_int;
type CompleteFn = unsafe extern "C" fn(NvJitLinkHandle) -> c_int;
type SizeFn = unsafe extern "C" fn(NvJitLinkHandle, *mut usize) -> c_int;
type VersionFn = unsafe extern "C" fn(*mut c_uint, *mut c_uint) -> c_int;
type CopyFn = unsafe extern "C" fn(NvJitLinkHandle, *mut c_char) -> c_int;

/// The functions for one result: for its size, and for a copy of it.
#[derive(Debug, Clone, Copy)]
struct ResultFns {
    size: SizeFn,
    copy: CopyFn,
}

/// The functions that are needed, under the names that every release of 13 has.
#[derive(Debug)]
struct NvJitLinkFunctions {
    create: CreateFn,
    destroy: DestroyFn,
    add_data: AddData,
    complete: CompleteFn,
    ptx: ResultFns,
    cubin: ResultFns,
    errors: ResultFns,
    infos: ResultFns,
    /// In releases from 13.3 on.
    lto_ir: Option<ResultFns>,
    version: VersionFn,
}

/// A handle, destroyed at its end.
struct HandleGuard<'f> {
    compiler: &'f NvJitLink,
    handle: NvJitLinkHandle,
}

impl Drop for HandleGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is the library's own, or null.
        unsafe { (self.compiler.functions.destroy)(&mut self.handle) };
    }
}

/// NVIDIA's libnvJitLink, loaded.
#[derive(Debug)]
pub struct NvJitLink {
    path: PathBuf,
    functions: NvJitLinkFunctions,
    /// The library of the functions. It stays loaded: unloading it ended the process in 2 of 8 runs
    /// (13.5, sm_100, `-r`), perhaps because one of its threads still ran.
    _library: ManuallyDrop<Library>,
}

impl NvJitLink {
    /// Loads the library at `path`.
    ///
    /// # Errors
    /// It cannot be loaded or lacks a function.
    pub fn load(path: PathBuf) -> Result<Self, LtoError> {
        let unusable = |error: &dyn Display| LtoError::Unusable {
            path: path.clone(),
            error: error.to_string(),
        };
        // SAFETY: the user's own library is trusted as its ptxas is.
        let library = unsafe { Library::new(&path) }.map_err(|error| unusable(&error))?;
        let functions = NvJitLinkFunctions::of(&library).map_err(|error| unusable(&error))?;
        if functions.are_of_culd() {
            return Err(LtoError::OfCuld { path });
        }
        Ok(NvJitLink { path, functions, _library: ManuallyDrop::new(library) })
    }

    /// The file that the library was loaded from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The release, (13, 0) for 13.0; (0, 0) if the library does not say it.
    pub fn release(&self) -> (u32, u32) {
        self.functions.release()
    }

    /// True for a library that makes a complete object ([`LtoTarget::Object`]) only in a link with
    /// other code, and of LTO-IR that needs some. Releases from 13.3 on do it with `-r`.
    pub fn needs_other_code(&self) -> bool {
        self.release() < (13, 3)
    }

    /// False for libraries of CUDA 12. They make no objects, and destroying a handle that could not
    /// be created with `-lto` ends the process with a signal (12.4, 12.6).
    fn is_of_cuda_13(&self) -> bool {
        self.release() >= (13, 0)
    }

    /// Has the library do `task`.
    ///
    /// # Errors
    /// It refuses, or libnvvm does.
    pub fn compile(&self, task: &CompileTask<'_>) -> Result<CompileOutput, LtoError> {
        let CompileTask { options, inputs, want, roots } = *task;
        if want == LtoTarget::Object && !self.is_of_cuda_13() {
            return Err(LtoError::NoObject { path: self.path.clone() });
        }
        let names = inputs.iter().map(|input| self.text(input.name));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let mut all: Vec<(Option<usize>, CompileInputKind, &[u8], &CStr)> = inputs
            .iter()
            .zip(&names)
            .enumerate()
            .map(|(place, (input, name))| (Some(place), input.kind, input.bytes, name.as_c_str()))
            .collect();
        if let Some(roots) = roots {
            // Those of other outputs define nothing: in front, they would only count as a piece,
            // and local names would have other numbers than nvlink's.
            let first = want == LtoTarget::Ptx && roots_come_first(self.release(), options);
            let place = if first { 0 } else { all.len() };
            all.insert(place, (None, CompileInputKind::LtoIr, roots, c"roots"));
        }
        // With other code every release makes an object.
        let other = (want == LtoTarget::Object && self.needs_other_code())
            .then(|| other_code::other_code(options));
        if let Some((kind, bytes)) = &other {
            all.push((None, *kind, bytes, c"other"));
        }
        let link = self.link(options)?;
        for (place, kind, bytes, name) in all {
            link.add(kind, bytes, name).map_err(|error| error.at_input(place))?;
        }
        // SAFETY: a handle of the library's.
        let done = link.check(unsafe { (self.functions.complete)(link.handle) });
        // The roots of PTX are names.
        let open = want != LtoTarget::Ptx && roots.is_some();
        done.map_err(|error| if open { error.without_open_roots() } else { error })?;
        let parts = match want {
            LtoTarget::Ptx => self.functions.ptx,
            LtoTarget::Cubin | LtoTarget::Object => self.functions.cubin,
        };
        let bytes = link.get(parts).map_err(|code| link.refused(code))?;
        let (lto_ir, log, infos) = (link.lto_ir(), link.errors(), link.infos());
        Ok(CompileOutput { bytes, lto_ir, log, infos })
    }

    /// What the library says of `input` alone when it is added, and nothing of its contents.
    ///
    /// # Errors
    /// It does not take the options or the input.
    pub fn check(&self, options: &[String], input: &CompileInput<'_>) -> Result<(), LtoError> {
        let name = self.text(input.name)?;
        let added = self.link(options)?.add(input.kind, input.bytes, &name);
        added.map_err(|error| error.at_input(Some(0)))
    }

    /// A link with `options`.
    fn link(&self, options: &[String]) -> Result<HandleGuard<'_>, LtoError> {
        let words = options.iter().map(|word| self.text(word)).collect::<Result<Vec<_>, _>>()?;
        let pointers: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
        let mut link = HandleGuard { compiler: self, handle: null_mut() };
        let count = u32::try_from(pointers.len()).unwrap_or(u32::MAX);
        // SAFETY: the count is that of the words, which live until the end.
        let code = unsafe { (self.functions.create)(&mut link.handle, count, pointers.as_ptr()) };
        match link.check(code) {
            Ok(()) => Ok(link),
            Err(error) => {
                if !self.is_of_cuda_13() {
                    std::mem::forget(link);
                }
                Err(error)
            }
        }
    }

    fn text(&self, text: &str) -> Result<CString, LtoError> {
        let unusable = |error: NulError| LtoError::Unusable {
            path: self.path.clone(),
            error: error.to_string(),
        };
        CString::new(text).map_err(unusable)
    }
}

/// Whether the module of roots must come first, so that functions and variables have the order of
/// nvlink's PTX. The library has two compilers. From 13.2 on, the one for sm_100 and later, which
/// `-nvvm-latest` uses for all targets, orders names by first sight.
fn roots_come_first(release: (u32, u32), options: &[String]) -> bool {
    let number = options.first().and_then(|word| word.split_once('_')).map(|(_, number)| {
        number.trim_end_matches(|char: char| !char.is_ascii_digit()).parse::<u32>()
    });
    let newer = matches!(number, Some(Ok(100..)));
    release >= (13, 2) && (newer || options.iter().any(|word| word == "-nvvm-latest"))
}

type NvJitLinkProgram = *mut c_void;

/// LTO-IR of `text`, NVVM IR without a version of the language, made by the libnvvm at `path`.
/// `arch` is the option that names the target. It may run beside a [`NvJitLink`]: the libraries
/// have nothing in common.
///
/// # Errors
/// The library cannot be loaded, or refuses.
pub fn lto_ir(path: &Path, text: &str, arch: &str) -> Result<Vec<u8>, LtoError> {
    let unusable = |error: String| LtoError::Unusable { path: path.to_owned(), error };
    // SAFETY: as that of libnvJitLink.
    let library = unsafe { Library::new(path) }.map_err(|error| unusable(error.to_string()))?;
    // As the library of libnvJitLink.
    let library = ManuallyDrop::new(library);
    let functions = Nvvm::of(&library).map_err(|error| unusable(error.to_string()))?;
    // Each release takes the version of its own debug information only.
    let version = functions.version().map(|number| format!("i32 {number}")).join(", ");
    let text = format!("{text}!nvvmir.version = !{{!0}}\n!0 = !{{{version}}}\n");
    let name = arch.replace("sm_", "compute_");
    let options = [name.as_str(), "-gen-lto"].map(CString::new);
    let options = options.into_iter().collect::<Result<Vec<_>, _>>();
    let options = options.map_err(|error| unusable(error.to_string()))?;
    let pointers: Vec<*const c_char> = options.iter().map(|word| word.as_ptr()).collect();
    let count = c_int::try_from(pointers.len()).unwrap_or(c_int::MAX);
    let mut program = NvvmProgram { functions: &functions, program: null_mut() };
    // SAFETY: the program can be written; the lengths are those of the text and of the words, which
    // live until the end.
    let code = unsafe {
        match (functions.create)(&mut program.program) {
            0 => {
                let (text, size) = (text.as_ptr().cast(), text.len());
                let name = c"roots".as_ptr();
                match (functions.add)(program.program, text, size, name) {
                    0 => (functions.compile)(program.program, count, pointers.as_ptr()),
                    code => code,
                }
            }
            code => code,
        }
    };
    let refused = |code| LtoError::Refused {
        path: path.to_owned(),
        code,
        log: program.log(),
        infos: String::new(),
        lto_ir: None,
        input: None,
    };
    if code != 0 {
        return Err(refused(code));
    }
    program.get(functions.result).map_err(refused)
}

/// The functions of libnvvm that are needed.
struct Nvvm {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int, *mut c_int, *mut c_int) -> c_int,
    create: unsafe extern "C" fn(*mut NvJitLinkProgram) -> c_int,
    destroy: unsafe extern "C" fn(*mut NvJitLinkProgram) -> c_int,
    add: unsafe extern "C" fn(NvJitLinkProgram, *const c_char, usize, *const c_char) -> c_int,
    compile: unsafe extern "C" fn(NvJitLinkProgram, c_int, *const *const c_char) -> c_int,
    result: ResultFns,
    log: ResultFns,
}

impl Nvvm {
    fn of(library: &Library) -> Result<Self, libloading::Error> {
        // SAFETY: the types are those of NVIDIA's public header of release 13.
        unsafe {
            Ok(Nvvm {
                version: *library.get(b"nvvmIRVersion\0")?,
                create: *library.get(b"nvvmCreateProgram\0")?,
                destroy: *library.get(b"nvvmDestroyProgram\0")?,
                add: *library.get(b"nvvmAddModuleToProgram\0")?,
                compile: *library.get(b"nvvmCompileProgram\0")?,
                result: sized(library, b"nvvmGetCompiledResultSize\0", b"nvvmGetCompiledResult\0")?,
                log: sized(library, b"nvvmGetProgramLogSize\0", b"nvvmGetProgramLog\0")?,
            })
        }
    }

    /// The version of the language, and of its debug information.
    fn version(&self) -> [c_int; 4] {
        let [mut major, mut minor, mut debug_major, mut debug_minor] = [2, 0, 3, 2];
        // SAFETY: all can be written.
        unsafe { (self.version)(&mut major, &mut minor, &mut debug_major, &mut debug_minor) };
        [major, minor, debug_major, debug_minor]
    }
}

/// A program of libnvvm, destroyed at its end.
struct NvvmProgram<'f> {
    functions: &'f Nvvm,
    program: NvJitLinkProgram,
}

impl NvvmProgram<'_> {
    fn get(&self, parts: ResultFns) -> Result<Vec<u8>, c_int> {
        copied(self.program, parts)
    }

    fn log(&self) -> String {
        text(self.get(self.functions.log))
    }
}

impl Drop for NvvmProgram<'_> {
    fn drop(&mut self) {
        // SAFETY: the program is the library's own, or null, which it refuses.
        unsafe { (self.functions.destroy)(&mut self.program) };
    }
}

/// An option that culd's library has and NVIDIA's has not.
const OURS: &CStr = c"-dialect=auto";

impl NvJitLinkFunctions {
    /// True for functions of culd's own library: two copies would call each other forever.
    fn are_of_culd(&self) -> bool {
        let mut handle = null_mut();
        let words = [c"-arch=sm_90".as_ptr(), OURS.as_ptr()];
        // SAFETY: the count is that of the words, which live until the end; the handle is the
        // library's own, or null.
        unsafe {
            let code = (self.create)(&mut handle, words.len() as u32, words.as_ptr());
            (self.destroy)(&mut handle);
            code == 0
        }
    }

    fn of(library: &Library) -> Result<Self, libloading::Error> {
        // SAFETY: the types are those of NVIDIA's public header of release 13.
        unsafe {
            Ok(NvJitLinkFunctions {
                create: *library.get(b"nvJitLinkCreate\0")?,
                destroy: *library.get(b"nvJitLinkDestroy\0")?,
                add_data: *library.get(b"nvJitLinkAddData\0")?,
                complete: *library.get(b"nvJitLinkComplete\0")?,
                ptx: sized(library, b"nvJitLinkGetLinkedPtxSize\0", b"nvJitLinkGetLinkedPtx\0")?,
                cubin: sized(
                    library,
                    b"nvJitLinkGetLinkedCubinSize\0",
                    b"nvJitLinkGetLinkedCubin\0",
                )?,
                errors: sized(library, b"nvJitLinkGetErrorLogSize\0", b"nvJitLinkGetErrorLog\0")?,
                infos: sized(library, b"nvJitLinkGetInfoLogSize\0", b"nvJitLinkGetInfoLog\0")?,
                version: *library.get(b"nvJitLinkVersion\0")?,
                lto_ir: sized(
                    library,
                    b"nvJitLinkGetLinkedLTOIRSize\0",
                    b"nvJitLinkGetLinkedLTOIR\0",
                )
                .ok(),
            })
        }
    }
}

impl NvJitLinkFunctions {
    /// The library's release, 13 and 0 for 13.0.
    fn release(&self) -> (u32, u32) {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both can be written.
        match unsafe { (self.version)(&mut major, &mut minor) } {
            0 => (major, minor),
            _ => (0, 0),
        }
    }
}

impl HandleGuard<'_> {
    /// Adds an input. The library keeps no copy of its name.
    fn add(&self, kind: CompileInputKind, bytes: &[u8], name: &CStr) -> Result<(), LtoError> {
        let (data, size) = (bytes.as_ptr().cast(), bytes.len());
        let add = self.compiler.functions.add_data;
        // SAFETY: the length is that of the bytes; the caller's name lives longer than the link.
        let code = unsafe { add(self.handle, kind as c_int, data, size, name.as_ptr()) };
        self.check(code)
    }

    fn check(&self, code: c_int) -> Result<(), LtoError> {
        if code == 0 { Ok(()) } else { Err(self.refused(code)) }
    }

    fn refused(&self, code: c_int) -> LtoError {
        let path = self.compiler.path.clone();
        let (log, infos, lto_ir) = (self.errors(), self.infos(), self.lto_ir());
        LtoError::Refused { path, code, log, infos, lto_ir, input: None }
    }

    fn lto_ir(&self) -> Option<Vec<u8>> {
        self.get(self.compiler.functions.lto_ir?).ok()
    }

    fn errors(&self) -> String {
        text(self.get(self.compiler.functions.errors))
    }

    fn infos(&self) -> String {
        text(self.get(self.compiler.functions.infos))
    }

    fn get(&self, parts: ResultFns) -> Result<Vec<u8>, c_int> {
        copied(self.handle, parts)
    }
}

/// A log up to its NUL; what cannot be had is empty.
fn text(log: Result<Vec<u8>, c_int>) -> String {
    let log = log.unwrap_or_default();
    let log = CStr::from_bytes_until_nul(&log).map_or(log.as_slice(), CStr::to_bytes);
    String::from_utf8_lossy(log).into_owned()
}

/// The functions of these names for a size and for a copy.
///
/// # Safety
/// The library has them with these types.
unsafe fn sized(
    library: &Library,
    size: &[u8],
    copy: &[u8],
) -> Result<ResultFns, libloading::Error> {
    // SAFETY: as the caller promises.
    unsafe { Ok(ResultFns { size: *library.get(size)?, copy: *library.get(copy)? }) }
}

/// The result of a function for a size and of one for a copy.
fn copied(
    handle: *mut c_void,
    ResultFns { size: size_of, copy }: ResultFns,
) -> Result<Vec<u8>, c_int> {
    let mut size = 0;
    // SAFETY: the size can be written.
    match unsafe { size_of(handle, &mut size) } {
        0 => {}
        code => return Err(code),
    }
    let mut bytes = vec![0u8; size.saturating_add(1)];
    // SAFETY: the buffer has the size that the library returned, and one byte for the NUL of an
    // empty log.
    match unsafe { copy(handle, bytes.as_mut_ptr().cast()) } {
        0 => {}
        code => return Err(code),
    }
    bytes.truncate(size);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_stand_where_they_change_no_order() {
        for (release, words, first) in [
            ((13, 5), &["-arch=sm_90a", "-lto"][..], false),
            ((13, 5), &["-arch=sm_75"], false),
            ((13, 2), &["-arch=sm_100f"], true),
            ((13, 1), &["-arch=sm_100f"], false),
            ((13, 4), &["-arch=compute_120"], true),
            ((13, 5), &["-arch=sm_90", "-lto", "-nvvm-latest"], true),
            ((13, 5), &[], false),
        ] {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            assert_eq!(roots_come_first(release, &words), first, "{words:?}");
        }
    }
}
