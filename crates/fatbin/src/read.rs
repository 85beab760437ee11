//! Checked little-endian reads. Everything that walks input bytes goes through here.

/// `len` bytes at `at`, if they are there.
pub(crate) fn bytes(data: &[u8], at: usize, len: usize) -> Option<&[u8]> {
    data.get(at..at.checked_add(len)?)
}

/// `N` bytes at `at`.
pub(crate) fn array<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    bytes(data, at, N)?.try_into().ok()
}

/// Two bytes at `at`.
pub(crate) fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    array(data, at).map(u16::from_le_bytes)
}

/// Four bytes at `at`.
pub(crate) fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    array(data, at).map(u32::from_le_bytes)
}

/// Eight bytes at `at`.
pub(crate) fn u64_at(data: &[u8], at: usize) -> Option<u64> {
    array(data, at).map(u64::from_le_bytes)
}
