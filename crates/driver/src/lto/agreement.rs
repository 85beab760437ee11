//! Options with which LTO-IR was compiled and that must be the same in all of a link.
//!
//! In: LTO-IR with the options that nvcc puts beside it (`fatbinary -cicc-cmdline`). Out: the first
//! option that differs. Guaranteed: the decision is nvlink's (docs/rules/lto.md, 8).

/// The options, as they stand beside LTO-IR and in nvlink's message, in the order of its checks.
const AGREED: [(&[u8], &str); 4] = [
    (b"-ftz=", "-ftz"),
    (b"-prec_div=", "-prec-div"),
    (b"-prec_sqrt=", "-prec-sqrt"),
    (b"-fmad=", "-fmad"),
];

/// An option that two pieces of LTO-IR were compiled with in different ways.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Disagreement<'p> {
    pub(super) option: &'static str,
    /// The name of either piece, and its value.
    pub(super) pieces: [(&'p str, i32); 2],
}

/// The first option that `pieces`, names and options, disagree about. A piece without an option
/// agrees with all.
pub(super) fn disagreement<'p>(
    pieces: impl Iterator<Item = (&'p str, &'p [u8])> + Clone,
) -> Option<Disagreement<'p>> {
    AGREED.iter().find_map(|&(word, option)| {
        let mut valued =
            pieces.clone().filter_map(|(name, options)| Some((name, value(options, word)?)));
        let first = valued.next()?;
        let other = valued.find(|(_, value)| *value != first.1)?;
        Some(Disagreement { option, pieces: [first, other] })
    })
}

/// The value behind the first `word` in `options`, which may be a part of another word; a value
/// that is no number is 0.
fn value(options: &[u8], word: &[u8]) -> Option<i32> {
    let at = options.windows(word.len()).position(|window| window == word)?;
    let text = &options[at + word.len()..];
    let text = &text[text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count()..];
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let number = digits.fold(0i64, |number, &digit| {
        let digit = i64::from(digit - b'0');
        let digit = if negative { -digit } else { digit };
        number.saturating_mul(10).saturating_add(digit)
    });
    // nvlink keeps the low 32 bits.
    Some(number as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(options: &[&str]) -> Option<&'static str> {
        disagreement(options.iter().map(|options| ("p", options.as_bytes())))
            .map(|found| found.option)
    }

    #[test]
    fn the_first_option_that_differs_is_found_with_the_pieces() {
        let all = "-ftz=0 -prec_div=1 -prec_sqrt=1 -fmad=1 ";
        assert_eq!(option(&[all, all, "", "-fmad=1 -prec_div=1 -other=3"]), None);
        assert_eq!(option(&[all, "-ftz=1 -prec_div=0"]), Some("-ftz"));
        assert_eq!(option(&[all, "-prec_sqrt=0 -prec_div=0"]), Some("-prec-div"));
        assert_eq!(option(&["", "-prec_sqrt=0", all]), Some("-prec-sqrt"));
        // Options come before pieces.
        assert_eq!(option(&["-ftz=1 -fmad=1", "-fmad=0", "-ftz=0"]), Some("-ftz"));
        let pieces = [("a", ""), ("b", "-fmad=1"), ("c", "-fmad=1"), ("d", "-fmad=0")];
        let found = disagreement(pieces.iter().map(|(name, options)| (*name, options.as_bytes())));
        let expected = Disagreement { option: "-fmad", pieces: [("b", 1), ("d", 0)] };
        assert_eq!(found, Some(expected));
    }

    /// Each of these was given to nvlink 13.0.
    #[test]
    fn values_are_read_as_nvlink_reads_them() {
        for (one, other, same) in [
            ("-ftz=1", "-ftz=01", true),
            ("-ftz=1", "-ftz=1x", true),
            ("-ftz=true", "-ftz=false", true),
            ("-ftz=true", "-ftz=1", false),
            ("-ftz=", "-ftz=0", true),
            ("-ftz= 1", "-ftz=1", true),
            ("-ftz=\u{b}1", "-ftz=1", true),
            ("-ftz=+1", "-ftz=1", true),
            ("-ftz=-1", "-ftz=1", false),
            ("-ftz=0x1", "-ftz=0", true),
            ("-ftz=4294967297", "-ftz=1", true),
            ("-ftz=99999999999999999999", "-ftz=-1", true),
            ("x-ftz=1", "-ftz=0", false),
            ("-xftz=1", "-ftz=0", true),
            ("-ftz=0 -ftz=1", "-ftz=0", true),
            ("-prec-div=0", "-prec_div=1", true),
        ] {
            assert_eq!(option(&[one, other]).is_none(), same, "{one} {other}");
            assert_eq!(option(&[other, one]).is_none(), same, "{other} {one}");
        }
    }
}
