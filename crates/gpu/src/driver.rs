//! Calls of the CUDA driver.
//!
//! In: values and slices. Out: values, or the name that the driver has for its error. Guaranteed:
//! functions are found at run time in the driver's library, with the types of its public header of
//! CUDA 12 and 13; every length is that of what is passed; modules and memory are given back.
#![allow(unsafe_code, reason = "the driver is C's")]

use anyhow::{Context, Result, bail};
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

/// Where the system has it.
pub const LIBRARY: &str = "libcuda.so.1";

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `_MINOR`.
const CAPABILITY: [c_int; 2] = [75, 76];

type CudaResult = c_int;
type CudaHandle = *mut c_void;
type Address = u64;

macro_rules! functions {
    ($($field:ident = $name:literal: fn($($argument:ty),*);)*) => {
        /// The functions that are needed.
        struct CudaFunctions { $($field: unsafe extern "C" fn($($argument),*) -> CudaResult,)* }

        impl CudaFunctions {
            fn of(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those of the public header, and the suffixes name their
                // versions.
                unsafe { Ok(CudaFunctions { $($field: *library.get(concat!($name, "\0").as_bytes())?,)* }) }
            }
        }
    };
}

functions! {
    init = "cuInit": fn(c_uint);
    version = "cuDriverGetVersion": fn(*mut c_int);
    count = "cuDeviceGetCount": fn(*mut c_int);
    device = "cuDeviceGet": fn(*mut c_int, c_int);
    name = "cuDeviceGetName": fn(*mut c_char, c_int, c_int);
    attribute = "cuDeviceGetAttribute": fn(*mut c_int, c_int, c_int);
    retain = "cuDevicePrimaryCtxRetain": fn(*mut CudaHandle, c_int);
    release = "cuDevicePrimaryCtxRelease_v2": fn(c_int);
    set_current = "cuCtxSetCurrent": fn(CudaHandle);
    synchronize = "cuCtxSynchronize": fn();
    load = "cuModuleLoadData": fn(*mut CudaHandle, *const c_void);
    unload = "cuModuleUnload": fn(CudaHandle);
    function = "cuModuleGetFunction": fn(*mut CudaHandle, CudaHandle, *const c_char);
    global = "cuModuleGetGlobal_v2": fn(*mut Address, *mut usize, CudaHandle, *const c_char);
    allocate = "cuMemAlloc_v2": fn(*mut Address, usize);
    free = "cuMemFree_v2": fn(Address);
    to_device = "cuMemcpyHtoD_v2": fn(Address, *const c_void, usize);
    to_host = "cuMemcpyDtoH_v2": fn(*mut c_void, Address, usize);
    launch = "cuLaunchKernel": fn(CudaHandle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CudaHandle, *mut *mut c_void, *mut *mut c_void);
    error_name = "cuGetErrorName": fn(CudaResult, *mut *const c_char);
}

/// A driver and the first GPU, with a context that is current on this thread.
pub struct Gpu {
    functions: CudaFunctions,
    device: c_int,
    /// Kept loaded as long as its functions may be called.
    _library: Library,
}

/// Why there is nothing to run on.
#[derive(Debug)]
pub struct NoGpu(pub String);

impl Gpu {
    /// The first GPU of the driver at `library`.
    ///
    /// # Errors
    /// When there is no driver or no GPU.
    pub fn open(library: &Path) -> Result<Self, NoGpu> {
        // SAFETY: the machine's own driver is trusted; its initialisers are what every CUDA program
        // runs.
        let library = unsafe { Library::new(library) }
            .map_err(|error| NoGpu(format!("there is no CUDA driver: {error}")))?;
        let functions = CudaFunctions::of(&library)
            .map_err(|error| NoGpu(format!("the CUDA driver is too old: {error}")))?;
        let mut gpu = Gpu { functions, device: 0, _library: library };
        gpu.start().map_err(|error| NoGpu(format!("the CUDA driver has no GPU: {error:#}")))?;
        Ok(gpu)
    }

    fn start(&mut self) -> Result<()> {
        let (mut count, mut device, mut context) = (0, 0, null_mut());
        // SAFETY: the places can be written.
        unsafe {
            self.check((self.functions.init)(0), "cuInit")?;
            self.check((self.functions.count)(&mut count), "cuDeviceGetCount")?;
            if count == 0 {
                bail!("it counts none");
            }
            self.check((self.functions.device)(&mut device, 0), "cuDeviceGet")?;
            self.device = device;
            self.check((self.functions.retain)(&mut context, device), "cuDevicePrimaryCtxRetain")?;
            self.check((self.functions.set_current)(context), "cuCtxSetCurrent")
        }
    }

    /// The name of the GPU, its capability (9 and 0), and the driver's version.
    ///
    /// # Errors
    /// The driver's.
    pub fn describe(&self) -> Result<(String, (u32, u32), i32)> {
        let mut name: [c_char; 256] = [0; 256];
        let (mut capability, mut version) = ([0; 2], 0);
        // SAFETY: the places can be written; the name is given one byte less than there is, so it
        // ends.
        let name = unsafe {
            self.check(
                (self.functions.name)(name.as_mut_ptr(), 255, self.device),
                "cuDeviceGetName",
            )?;
            for (value, which) in capability.iter_mut().zip(CAPABILITY) {
                let code = (self.functions.attribute)(value, which, self.device);
                self.check(code, "cuDeviceGetAttribute")?;
            }
            self.check((self.functions.version)(&mut version), "cuDriverGetVersion")?;
            CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
        };
        let [major, minor] = capability.map(|value| u32::try_from(value).unwrap_or(0));
        Ok((name, (major, minor), version))
    }

    /// Loads a linked cubin.
    ///
    /// # Errors
    /// The driver's.
    pub fn load(&self, image: &[u8]) -> Result<LoadedModule<'_>> {
        let mut handle = null_mut();
        // The driver reads tables at their alignment, and finds the end of an image by its headers.
        let mut aligned = vec![0u64; image.len().div_ceil(8) + 1];
        for (word, bytes) in aligned.iter_mut().zip(image.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
        // SAFETY: the image is whole, which the caller's linker promises; the place can be written.
        let code = unsafe { (self.functions.load)(&mut handle, aligned.as_ptr().cast()) };
        self.check(code, "cuModuleLoadData")?;
        Ok(LoadedModule { gpu: self, handle })
    }

    /// Memory of the GPU with these words.
    ///
    /// # Errors
    /// The driver's.
    pub fn memory(&self, words: &[u32]) -> Result<GpuMemory<'_>> {
        let mut address = 0;
        // SAFETY: the place can be written.
        let code = unsafe { (self.functions.allocate)(&mut address, size_of_val(words).max(4)) };
        self.check(code, "cuMemAlloc")?;
        let memory = GpuMemory { gpu: self, address };
        self.write(address, words)?;
        Ok(memory)
    }

    fn write(&self, address: Address, words: &[u32]) -> Result<()> {
        // SAFETY: as many bytes as the slice has.
        let code = unsafe {
            (self.functions.to_device)(address, words.as_ptr().cast(), size_of_val(words))
        };
        self.check(code, "cuMemcpyHtoD")
    }

    fn read(&self, address: Address, count: usize) -> Result<Vec<u32>> {
        let mut words = vec![0u32; count];
        let size = size_of_val(words.as_slice());
        // SAFETY: as many bytes as the slice has.
        let code = unsafe { (self.functions.to_host)(words.as_mut_ptr().cast(), address, size) };
        self.check(code, "cuMemcpyDtoH")?;
        Ok(words)
    }

    /// An error of the driver's by its name.
    fn check(&self, code: CudaResult, what: &str) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let mut name = null();
        // SAFETY: the place can be written; a name is the driver's own and never freed.
        let name = unsafe {
            match (self.functions.error_name)(code, &mut name) {
                0 if !name.is_null() => CStr::from_ptr(name).to_string_lossy().into_owned(),
                _ => format!("error {code}"),
            }
        };
        bail!("{what}: {name}")
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: it was retained, or the driver says that it was not.
        unsafe { (self.functions.release)(self.device) };
    }
}

/// Memory of the GPU.
pub struct GpuMemory<'g> {
    gpu: &'g Gpu,
    address: Address,
}

impl GpuMemory<'_> {
    /// Its first words.
    ///
    /// # Errors
    /// The driver's.
    pub fn read(&self, count: usize) -> Result<Vec<u32>> {
        self.gpu.read(self.address, count)
    }
}

impl Drop for GpuMemory<'_> {
    fn drop(&mut self) {
        // SAFETY: it was allocated, and nobody else has the address.
        unsafe { (self.gpu.functions.free)(self.address) };
    }
}

/// A parameter of a kernel.
pub enum LaunchParameter<'p> {
    /// 32 bits.
    Word(u32),
    /// An address.
    Memory(&'p GpuMemory<'p>),
}

/// How many threads run a kernel.
#[derive(Clone, Copy, Debug)]
pub struct LaunchShape {
    /// Blocks.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
}

/// A loaded program.
pub struct LoadedModule<'g> {
    gpu: &'g Gpu,
    handle: CudaHandle,
}

impl LoadedModule<'_> {
    /// Runs a kernel to its end.
    ///
    /// # Errors
    /// The driver's.
    pub fn launch(
        &self,
        kernel: &str,
        shape: LaunchShape,
        parameters: &[LaunchParameter<'_>],
    ) -> Result<()> {
        let functions = &self.gpu.functions;
        let name = CString::new(kernel).context("the name of a kernel")?;
        let mut function = null_mut();
        // SAFETY: a module and a C string; the place can be written.
        let code = unsafe { (functions.function)(&mut function, self.handle, name.as_ptr()) };
        self.gpu.check(code, "cuModuleGetFunction")?;
        // The driver reads as many bytes of each as the kernel has for it: four or eight, in the
        // same order of bytes.
        let mut values: Vec<u64> = parameters
            .iter()
            .map(|parameter| match parameter {
                LaunchParameter::Word(word) => u64::from(*word),
                LaunchParameter::Memory(memory) => memory.address,
            })
            .collect();
        let mut pointers: Vec<*mut c_void> =
            values.iter_mut().map(|value| std::ptr::from_mut(value).cast()).collect();
        let LaunchShape { blocks, threads, shared } = shape;
        // SAFETY: a function of a loaded module; the plan lists as many parameters as the kernel
        // has, and each has room for eight bytes, which no parameter of these kernels exceeds.
        let code = unsafe {
            let pointers = pointers.as_mut_ptr();
            (functions.launch)(
                function,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                shared,
                null_mut(),
                pointers,
                null_mut(),
            )
        };
        self.gpu.check(code, "cuLaunchKernel")?;
        // SAFETY: it has no arguments.
        let code = unsafe { (functions.synchronize)() };
        self.gpu.check(code, "cuCtxSynchronize")
    }

    /// Gives a variable its first words.
    ///
    /// # Errors
    /// The driver's, and a variable that is shorter.
    pub fn set(&self, name: &str, words: &[u32]) -> Result<()> {
        self.gpu.write(self.variable(name, size_of_val(words))?, words)
    }

    /// The first words of a variable.
    ///
    /// # Errors
    /// The driver's, and a variable that is shorter.
    pub fn get(&self, name: &str, count: usize) -> Result<Vec<u32>> {
        self.gpu.read(self.variable(name, 4 * count)?, count)
    }

    fn variable(&self, name: &str, least: usize) -> Result<Address> {
        let text = CString::new(name).context("the name of a variable")?;
        let (mut address, mut size) = (0, 0);
        // SAFETY: a module and a C string; the places can be written.
        let code = unsafe {
            (self.gpu.functions.global)(&mut address, &mut size, self.handle, text.as_ptr())
        };
        self.gpu.check(code, &format!("cuModuleGetGlobal '{name}'"))?;
        if size < least {
            bail!("'{name}' has {size} bytes");
        }
        Ok(address)
    }
}

impl Drop for LoadedModule<'_> {
    fn drop(&mut self) {
        // SAFETY: it was loaded, and nobody else has the handle.
        unsafe { (self.gpu.functions.unload)(self.handle) };
    }
}
