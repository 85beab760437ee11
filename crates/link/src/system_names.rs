//! Names that mean something by themselves: what the system, the driver or the linker provides.
//!
//! In: names of symbols. Out: whether they are of a kind. Nothing of these is defined by a program.

/// True for the eight weak symbols that stand for unified tables; they never reach the output.
pub(crate) fn is_unified_table(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 8] = [
        b"__UFT",
        b"__UFT_OFFSET",
        b"__UFT_CANONICAL",
        b"__UFT_END",
        b"__UDT",
        b"__UDT_OFFSET",
        b"__UDT_CANONICAL",
        b"__UDT_END",
    ];
    // Most names do not begin like these.
    name.starts_with(b"__U") && NAMES.contains(&name)
}

/// True for the variables by which a program names the system's part of shared memory, and for the size of tensor memory,
/// which checks ask for that ptxas makes since CUDA 13.4.
pub(crate) fn is_reserved_shared(name: &[u8]) -> bool {
    name.starts_with(b".nv.reservedSmem") || name == b"__tcgen05_tmem_max_col_size"
}

/// What a variable of the system's part of shared memory is worth where that has `size` bytes, whatever the object says.
pub(crate) fn reserved_value(name: &[u8], size: u64) -> Option<u64> {
    match name {
        b".nv.reservedSmem.offset0" => Some(0),
        b".nv.reservedSmem.cap" => Some(size),
        _ => None,
    }
}

/// True for a number that the driver knows: the size of a texture, surface or sampler descriptor, by
/// which code that queries one finds its fields (case textures/queries).
pub(crate) fn is_descriptor_size(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 4] = [
        b".nv.unified.texrefDescSize",
        b".nv.independent.texrefDescSize",
        b".nv.independent.samplerrefDescSize",
        b".nv.surfrefDescSize",
    ];
    NAMES.contains(&name)
}

/// Calls into the old runtime for launching kernels from kernels, by exact name.
const LAUNCH_CALLS: [&[u8]; 20] = [
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
    b"cnpFuncGetAttribute",
    b"cnpCtxSynchronize",
    b"cnpStreamCreate",
    b"cnpStreamDestroy",
    b"cnpStreamWaitEvent",
    b"cnpEventCreate",
    b"cnpEventDestroy",
    b"cnpEventRecord",
];

/// True for names of functions of the driver.
pub(crate) fn is_system_call(name: &[u8]) -> bool {
    matches!(name, b"malloc" | b"free" | b"vprintf" | b"vfprintf" | b"__assertfail")
        || name.starts_with(b"__cuda_syscall")
}

/// True for functions that a linked program may leave undefined.
pub(crate) fn may_stay_undefined(name: &[u8]) -> bool {
    is_system_call(name) || LAUNCH_CALLS.contains(&name)
}
