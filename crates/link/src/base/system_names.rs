//! Names with a fixed meaning: symbols that the system, the driver or the linker provides.
//!
//! In: the name of a symbol. Out: whether it is a name of a certain kind. No program defines such a
//! symbol. The functions of the driver depend on the release
//! ([`crate::options::driver_functions`]).

/// True for the eight weak symbols of the unified tables. They reach only outputs whose unified
/// functions are resolved later.
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
    NAMES.contains(&name)
}

/// True for the variables by which a program names the system's part of shared memory, and for the
/// size of tensor memory. The checks that ptxas adds since CUDA 13.4 read the latter.
pub(crate) fn is_reserved_shared(name: &[u8]) -> bool {
    name.starts_with(b".nv.reservedSmem") || name == b"__tcgen05_tmem_max_col_size"
}

/// The symbol for the size of the system's part of shared memory.
pub(crate) const RESERVED_CAP: &[u8] = b".nv.reservedSmem.cap";

/// The symbol for the begin of that part.
pub(crate) const RESERVED_BEGIN: &[u8] = b".nv.reservedSmem.offset0";

/// The value of a variable in the system's part of shared memory, which has `size` bytes. The
/// object's own value does not count.
pub(crate) fn reserved_value(name: &[u8], size: u64) -> Option<u64> {
    match name {
        RESERVED_BEGIN => Some(0),
        RESERVED_CAP => Some(size),
        _ => None,
    }
}

/// True for a number that the driver provides: the size of a texture, surface or sampler
/// descriptor. Code that queries a descriptor finds its fields by it (case textures/queries).
pub(crate) fn is_descriptor_size(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 4] = [
        b".nv.unified.texrefDescSize",
        b".nv.independent.texrefDescSize",
        b".nv.independent.samplerrefDescSize",
        b".nv.surfrefDescSize",
    ];
    NAMES.contains(&name)
}
