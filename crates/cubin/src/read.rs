//! Checked little-endian reads. Everything that walks input bytes goes through here.

/// `len` bytes at `at`, if they are there.
pub(crate) fn bytes(data: &[u8], at: usize, len: usize) -> Option<&[u8]> {
    data.get(at..at.checked_add(len)?)
}

/// The byte at `at`.
pub(crate) fn u8_at(data: &[u8], at: usize) -> Option<u8> {
    data.get(at).copied()
}

/// Two bytes at `at`, little endian.
pub(crate) fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes(data, at, 2)?.try_into().ok()?))
}

/// Four bytes at `at`, little endian.
pub(crate) fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes(data, at, 4)?.try_into().ok()?))
}

/// All whole pairs of 32-bit words.
pub(crate) fn pairs(data: &[u8]) -> impl Iterator<Item = (u32, u32)> + use<'_> {
    let word = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
    let (pairs, _) = data.as_chunks::<8>();
    pairs.iter().filter_map(move |pair| Some((word(pair.first_chunk()?), word(pair.last_chunk()?))))
}

/// Eight bytes at `at`, little endian.
pub(crate) fn u64_at(data: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes(data, at, 8)?.try_into().ok()?))
}

/// The NUL-terminated string at `at`, without its NUL; `None` when no NUL follows.
pub(crate) fn c_str(data: &[u8], at: usize) -> Option<&[u8]> {
    let tail = data.get(at..)?;
    tail.get(..memchr::memchr(0, tail)?)
}
