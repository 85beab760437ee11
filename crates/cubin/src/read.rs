//! Checked little-endian reads. Everything that walks input bytes goes through here.

/// `len` bytes at `at`, if `data` has them.
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

/// Two 32-bit words.
// `#[inline]` in this crate brings functions of a few instructions into loops of other crates.
// Without all twelve: +2.5 % instructions on many1000.
#[inline]
pub(crate) fn pair(&[a, b, c, d, e, f, g, h]: &[u8; 8]) -> (u32, u32) {
    (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]))
}

/// All whole pairs of 32-bit words.
pub(crate) fn pairs(data: &[u8]) -> impl Iterator<Item = (u32, u32)> + use<'_> {
    let (pairs, _) = data.as_chunks::<8>();
    pairs.iter().map(pair)
}

/// Eight bytes at `at`, little endian.
pub(crate) fn u64_at(data: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes(data, at, 8)?.try_into().ok()?))
}

/// The NUL-terminated string at `at`, without its NUL; `None` when no NUL follows.
pub(crate) fn c_str(data: &[u8], at: usize) -> Option<&[u8]> {
    let tail = data.get(at..)?;
    tail.get(..first_nul(tail)?)
}

/// The index of the first NUL. A search for long texts (memchr) takes some time to start, and most
/// names are short, so their first words are looked at here.
fn first_nul(text: &[u8]) -> Option<usize> {
    const WORDS: usize = 6;
    const ONES: u64 = u64::MAX / 255;
    let (words, _) = text.as_chunks::<8>();
    let words = words.get(..WORDS).unwrap_or(words);
    for (place, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // Sets the high bit of each byte that is 0. Bits of bytes behind the first of these may be
        // set, too.
        let nuls = word.wrapping_sub(ONES) & !word & (ONES << 7);
        if nuls != 0 {
            return Some(8 * place + nuls.trailing_zeros() as usize / 8);
        }
    }
    let passed = 8 * words.len();
    Some(passed + memchr::memchr(0, text.get(passed..)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_end_at_their_first_nul() {
        for length in 0..100 {
            for behind in [&b""[..], b"\0", b"\x01\0\xff", &[0x80; 70]] {
                for byte in [1, 0x7f, 0x80, 0xff] {
                    let mut data = vec![0, 7];
                    data.resize(2 + length, byte);
                    let text = data.clone();
                    assert_eq!(c_str(&data, 2), None);
                    data.push(0);
                    data.extend(behind);
                    assert_eq!(c_str(&data, 2), text.get(2..));
                    assert_eq!(c_str(&data, 0), Some(&[][..]));
                }
            }
        }
        assert_eq!(c_str(b"a\0", 3), None);
        assert_eq!(c_str(b"a", 1), None);
    }
}
