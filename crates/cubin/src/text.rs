//! Bytes of inputs as text.
//!
//! In: any bytes. Out: text. Guaranteed: the text is a copy, and the copy was checked. Inputs may
//! be mapped files that another process writes into: a `str` that borrowed from one could cease to
//! be UTF-8, which a `str` must not.

/// `bytes` as text: UTF-8 as it is, any other byte as `\xe9`. For messages and the like: links need
/// no text.
pub fn text_of(bytes: &[u8]) -> String {
    culd_text::bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_utf8_is_shown() {
        assert_eq!(text_of(b""), "");
        assert_eq!(text_of("na\u{ef}ve".as_bytes()), "na\u{ef}ve");
        assert_eq!(text_of(b"a\xffb\xc3"), "a\\xffb\\xc3");
    }
}
