//! The functions of the driver, which a linked program may leave undefined.
//!
//! In: the name of a function, and the release. Out: whether the driver provides it.

use super::dialect::{DIALECTS, Dialect};

/// The prefix of the names of the driver's own entry points, and of no others.
const SYSTEM_CALL: &[u8] = b"__cuda_syscall";

/// Functions of the driver by exact name, those that every release knows: printing, memory,
/// assertions and profiling, and the old runtime for kernel launches from kernels. `cargo xtask
/// compare names` looks for more (corpus errors-undefined/allowed-names).
const DRIVER_FUNCTIONS: &[&[u8]] = &[
    b"malloc",
    b"free",
    b"vprintf",
    b"vfprintf",
    b"__assertfail",
    b"__profile",
    b"cnpGetCacheConfig",
    b"cnpGetLimit",
    b"cnpGetSharedMemConfig",
    b"cnpGetParameterBuffer",
    b"cnpGetParameterBufferV2",
    b"cnpLaunchDevice",
    b"cnpLaunchDeviceV2",
    b"cnpGetLastError",
    b"cnpSetLastError",
    b"cnpGetDevice",
    b"cnpGetDeviceCount",
    b"cnpDeviceGetAttribute",
    b"cnpDeviceGetName",
    b"cnpFuncGetAttribute",
    b"cnpCtxSynchronize",
    b"cnpStreamCreate",
    b"cnpStreamDestroy",
    b"cnpStreamWaitEvent",
    b"cnpEventCreate",
    b"cnpEventDestroy",
    b"cnpEventRecord",
];

/// Functions of the driver that came later, in the order of the releases:
/// [`Dialect::later_driver_functions`] is how many of them a release knows. Graphs that kernels
/// launch or change came in 12.0, 12.3 and 12.4, the others in 13.3 and 13.5.
const LATER_DRIVER_FUNCTIONS: [&[u8]; 10] = [
    b"cudaGraphLaunch",
    b"cudaGraphSetConditional",
    b"cudaGraphKernelNodeSetEnabled",
    b"cudaGraphKernelNodeSetGridDim",
    b"cudaGraphKernelNodeSetParam",
    b"cudaGraphKernelNodeUpdatesApply",
    b"cudaFabricOpErrorStatusCount",
    b"cudaFabricOpErrorStatusGet",
    b"cudaDeviceMemcpyAsync",
    b"cudaDeviceMemcpyBatchAsync",
];

/// True for names of functions of the driver, which a linked program may leave undefined.
pub(crate) fn is_driver_function(name: &[u8], dialect: &Dialect) -> bool {
    name.starts_with(SYSTEM_CALL)
        || DRIVER_FUNCTIONS.contains(&name)
        || LATER_DRIVER_FUNCTIONS
            .iter()
            .take(dialect.later_driver_functions)
            .any(|late| *late == name)
}

/// The first release whose linker knows that the driver has this function.
pub fn driver_function_since(name: &[u8]) -> Option<&'static Dialect> {
    DIALECTS.iter().find(|dialect| is_driver_function(name, dialect))
}
