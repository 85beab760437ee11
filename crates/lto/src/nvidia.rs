//! Calls of NVIDIA's library.
//!
//! In: slices. Out: bytes. Guaranteed: every handle is destroyed; every length is that of what is passed.
#![allow(unsafe_code, reason = "the library is C's")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;

use libloading::Library;

use crate::{Input, LtoError, Made, Want};

type Handle = *mut c_void;
type Create = unsafe extern "C" fn(*mut Handle, u32, *const *const c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Handle) -> c_int;
type AddData = unsafe extern "C" fn(Handle, c_int, *const c_void, usize, *const c_char) -> c_int;
type Complete = unsafe extern "C" fn(Handle) -> c_int;
type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
type Copy = unsafe extern "C" fn(Handle, *mut c_char) -> c_int;

/// The functions that are needed, under the names that every release of 13 has.
struct Functions {
    create: Create,
    destroy: Destroy,
    add_data: AddData,
    complete: Complete,
    ptx: (Size, Copy),
    cubin: (Size, Copy),
    errors: (Size, Copy),
    /// Of 13.3 and later.
    lto_ir: Option<(Size, Copy)>,
}

/// A handle, destroyed at its end.
struct Link<'f> {
    functions: &'f Functions,
    handle: Handle,
}

impl Drop for Link<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is the library's own, or null.
        unsafe { (self.functions.destroy)(&mut self.handle) };
    }
}

pub(crate) fn compile(
    path: &Path,
    options: &[String],
    inputs: &[Input<'_>],
    want: Want,
) -> Result<Made, LtoError> {
    let unusable = |error: String| LtoError::Unusable { path: path.to_owned(), error };
    // SAFETY: the user's own library is trusted as its ptxas is; it stays loaded while it is used.
    let library = unsafe { Library::new(path) }.map_err(|error| unusable(error.to_string()))?;
    let functions = Functions::of(&library).map_err(|error| unusable(error.to_string()))?;
    if want == Want::Object && functions.lto_ir.is_none() {
        return Ok(Made { bytes: Vec::new(), lto_ir: None });
    }
    let text = |text: &str| CString::new(text).map_err(|error| unusable(error.to_string()));
    let words = options.iter().map(|word| text(word)).collect::<Result<Vec<_>, _>>()?;
    let names = inputs.iter().map(|input| text(input.name)).collect::<Result<Vec<_>, _>>()?;
    let pointers: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
    let mut link = Link { functions: &functions, handle: null_mut() };
    let count = u32::try_from(pointers.len()).unwrap_or(u32::MAX);
    // SAFETY: as many words as are told, which live until the end.
    let code = unsafe { (functions.create)(&mut link.handle, count, pointers.as_ptr()) };
    link.check(code, path)?;
    for (input, name) in inputs.iter().zip(&names) {
        let data = input.bytes.as_ptr().cast();
        let kind = input.kind as c_int;
        // SAFETY: as many bytes as are told; the name lives until the end, because the library keeps no copy.
        let code = unsafe {
            (functions.add_data)(link.handle, kind, data, input.bytes.len(), name.as_ptr())
        };
        link.check(code, path)?;
    }
    // SAFETY: a handle of the library's.
    let code = unsafe { (functions.complete)(link.handle) };
    link.check(code, path)?;
    let parts = match want {
        Want::Ptx => functions.ptx,
        Want::Cubin | Want::Object => functions.cubin,
    };
    let bytes = link.get(parts).map_err(|code| link.refused(code, path))?;
    let lto_ir = functions.lto_ir.and_then(|parts| link.get(parts).ok());
    Ok(Made { bytes, lto_ir })
}

impl Functions {
    fn of(library: &Library) -> Result<Self, libloading::Error> {
        // SAFETY: the types are those of NVIDIA's public header of release 13.
        unsafe {
            Ok(Functions {
                create: *library.get(b"nvJitLinkCreate\0")?,
                destroy: *library.get(b"nvJitLinkDestroy\0")?,
                add_data: *library.get(b"nvJitLinkAddData\0")?,
                complete: *library.get(b"nvJitLinkComplete\0")?,
                ptx: (
                    *library.get(b"nvJitLinkGetLinkedPtxSize\0")?,
                    *library.get(b"nvJitLinkGetLinkedPtx\0")?,
                ),
                cubin: (
                    *library.get(b"nvJitLinkGetLinkedCubinSize\0")?,
                    *library.get(b"nvJitLinkGetLinkedCubin\0")?,
                ),
                errors: (
                    *library.get(b"nvJitLinkGetErrorLogSize\0")?,
                    *library.get(b"nvJitLinkGetErrorLog\0")?,
                ),
                lto_ir: library
                    .get(b"nvJitLinkGetLinkedLTOIRSize\0")
                    .and_then(|size| Ok((*size, *library.get(b"nvJitLinkGetLinkedLTOIR\0")?)))
                    .ok(),
            })
        }
    }
}

impl Link<'_> {
    fn check(&self, code: c_int, path: &Path) -> Result<(), LtoError> {
        if code == 0 { Ok(()) } else { Err(self.refused(code, path)) }
    }

    fn refused(&self, code: c_int, path: &Path) -> LtoError {
        let log = self.get(self.functions.errors).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned();
        LtoError::Refused { path: path.to_owned(), code, log }
    }

    /// What a function for a size and one for a copy give.
    fn get(&self, (size_of, copy): (Size, Copy)) -> Result<Vec<u8>, c_int> {
        let mut size = 0;
        // SAFETY: the size can be written.
        match unsafe { size_of(self.handle, &mut size) } {
            0 => {}
            code => return Err(code),
        }
        let mut bytes = vec![0u8; size.saturating_add(1)];
        // SAFETY: room for as many bytes as were told, and one for the NUL of an empty log.
        match unsafe { copy(self.handle, bytes.as_mut_ptr().cast()) } {
            0 => {}
            code => return Err(code),
        }
        bytes.truncate(size);
        Ok(bytes)
    }
}
