//! The functions of the driver, which a linked program may leave undefined.
//!
//! In: the name of a function, and the release. Out: whether the driver provides it.

use super::dialect::{DIALECTS, Dialect};

/// The prefix of the names of the driver's own entry points, and of no others.
const SYSTEM_CALL: &[u8] = b"__cuda_syscall";

/// True for the name of a function of the driver that every release knows: printing, memory,
/// assertions and profiling, and the old runtime for kernel launches from kernels. `cargo xtask
/// compare names` looks for more (corpus errors-undefined/allowed-names). As a list of names:
/// +1.8 % instructions on many100.
fn every_release_has(name: &[u8]) -> bool {
    matches!(
        name,
        b"malloc"
            | b"free"
            | b"vprintf"
            | b"vfprintf"
            | b"__assertfail"
            | b"__profile"
            | b"cnpGetCacheConfig"
            | b"cnpGetLimit"
            | b"cnpGetSharedMemConfig"
            | b"cnpGetParameterBuffer"
            | b"cnpGetParameterBufferV2"
            | b"cnpLaunchDevice"
            | b"cnpLaunchDeviceV2"
            | b"cnpGetLastError"
            | b"cnpSetLastError"
            | b"cnpGetDevice"
            | b"cnpGetDeviceCount"
            | b"cnpDeviceGetAttribute"
            | b"cnpDeviceGetName"
            | b"cnpFuncGetAttribute"
            | b"cnpCtxSynchronize"
            | b"cnpStreamCreate"
            | b"cnpStreamDestroy"
            | b"cnpStreamWaitEvent"
            | b"cnpEventCreate"
            | b"cnpEventDestroy"
            | b"cnpEventRecord"
    )
}

/// The place of a function of the driver that came later, in the order of the releases:
/// [`Dialect::later_driver_functions`] is how many of them a release knows. Graphs that kernels
/// launch or change came in 12.0, 12.3 and 12.4, the others in 13.3 and 13.5.
fn later_place(name: &[u8]) -> Option<usize> {
    Some(match name {
        b"cudaGraphLaunch" => 0,
        b"cudaGraphSetConditional" => 1,
        b"cudaGraphKernelNodeSetEnabled" => 2,
        b"cudaGraphKernelNodeSetGridDim" => 3,
        b"cudaGraphKernelNodeSetParam" => 4,
        b"cudaGraphKernelNodeUpdatesApply" => 5,
        b"cudaFabricOpErrorStatusCount" => 6,
        b"cudaFabricOpErrorStatusGet" => 7,
        b"cudaDeviceMemcpyAsync" => 8,
        b"cudaDeviceMemcpyBatchAsync" => 9,
        _ => return None,
    })
}

/// True for names of functions of the driver, which a linked program may leave undefined.
pub(crate) fn is_driver_function(name: &[u8], dialect: &Dialect) -> bool {
    name.starts_with(SYSTEM_CALL)
        || every_release_has(name)
        || later_place(name).is_some_and(|place| place < dialect.later_driver_functions)
}

/// The first release whose linker knows that the driver has this function.
pub fn driver_function_since(name: &[u8]) -> Option<&'static Dialect> {
    DIALECTS.iter().find(|dialect| is_driver_function(name, dialect))
}
