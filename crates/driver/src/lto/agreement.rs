//! Options with which LTO-IR was compiled.
//!
//! In: LTO-IR with the options that nvcc puts beside it (`fatbinary -cicc-cmdline`), and those of
//! the link. Out: what they ask of the compilation, and the first option that differs where all of
//! a link must agree. Guaranteed: the decision is nvlink's (docs/rules/lto.md, 8).

use culd_text::os::OsStrExt;
use std::ffi::OsString;

use culd_link::Dialect;

use super::INLINE_INFO;
use crate::messages::InputError;
use crate::options::{CommandOptions, OptionId};

/// Options that must be the same, as they stand beside LTO-IR and in nvlink's message, in the order
/// of its checks. In front of them is the limit of registers, behind them the number of threads.
const AGREED: [(&[u8], &str); 4] = [
    (b"-ftz=", "-ftz"),
    (b"-prec_div=", "-prec-div"),
    (b"-prec_sqrt=", SQUARE_ROOT),
    (b"-fmad=", "-fmad"),
];
const SQUARE_ROOT: &str = "-prec-sqrt";
const REGISTERS: (&[u8], &str) = (b"-maxreg ", "-maxrregcount");
const THREADS: (&[u8], &str) = (b"-split-compile ", "-split-compile");
/// It has no value.
const LINES: &[u8] = b"-generate-line-info";

/// LTO-IR as far as its options go.
#[derive(Debug, Clone, Copy)]
pub(super) struct PieceOptions<'p> {
    /// Its name in messages.
    pub(super) name: &'p str,
    /// It is in a fat binary, so that it could have options.
    pub(super) packed: bool,
    /// The options beside it.
    pub(super) text: &'p [u8],
}

/// What the link and the options beside LTO-IR ask of the compilation of all LTO-IR.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LtoCompilation {
    /// The largest number of registers of a function.
    pub(super) registers: Option<i32>,
    /// The number of threads of the compilers, as it stands in the value of `-split-compile`.
    pub(super) threads: Option<String>,
    /// The compiler says what it has inlined.
    pub(super) inline_info: bool,
    /// The options of [`AGREED`] that LTO-IR has beside it, by their names in messages.
    pub(super) arithmetic: Vec<(&'static str, i32)>,
}

impl LtoCompilation {
    /// The options about arithmetic that the compiler gets behind `words`, the link's own. LTO-IR
    /// has them in it, but not in its calls of mathematical functions, and nvlink hands them over
    /// only to a link with other options of the compiler (`compare lto`, *beside*).
    pub(super) fn arithmetic_behind(&self, words: &[OsString]) -> Vec<OsString> {
        if words.is_empty() {
            return Vec::new();
        }
        // nvlink's order.
        let options = [
            ("-ftz", "-ftz"),
            (SQUARE_ROOT, SQUARE_ROOT),
            ("-prec-div", "-prec-div"),
            ("-fmad", "-fma"),
        ];
        let is_given = |option: &str| {
            let value =
                |word: &OsString| word.as_bytes().strip_prefix(option.as_bytes())?.first().copied();
            words.iter().any(|word| value(word) == Some(b'='))
        };
        let behind = options.into_iter().filter_map(|(name, option)| {
            let beside = self.arithmetic.iter().find(|(beside, _)| *beside == name);
            let value = match (option, beside) {
                // It comes always, and a second one is an error of the compiler.
                (SQUARE_ROOT, value) => value.map_or(1, |(_, value)| *value),
                (_, Some((_, value))) if !is_given(option) => *value,
                _ => return None,
            };
            Some(format!("{option}={value}").into())
        });
        behind.collect()
    }
}

/// An option that two pieces of LTO-IR were compiled with in different ways.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Disagreement<'p> {
    pub(super) option: &'static str,
    /// The name of either piece, and its value.
    pub(super) pieces: [(&'p str, i32); 2],
}

/// What `pieces` and `options` ask for, by the rules of a release. `infos` takes what nvlink says
/// of options that some pieces lack, even if others disagree.
pub(super) fn agreement<'p>(
    pieces: &[PieceOptions<'p>],
    options: &CommandOptions,
    rules: &Dialect,
    infos: &mut Vec<InputError>,
) -> Result<LtoCompilation, Disagreement<'p>> {
    let has = |word: &[u8]| pieces.iter().any(|piece| position(piece.text, word).is_some());
    if has(LINES) && lacks(pieces, LINES) {
        let option = "-lineinfo";
        infos.push(InputError::LtoMixed { option, everything: option.to_owned() });
    }
    let mut compilation = LtoCompilation {
        registers: options.max_registers(),
        threads: options.text(OptionId::SplitCompile).map(str::to_owned),
        inline_info: has(INLINE_INFO.as_bytes()),
        arithmetic: Vec::new(),
    };
    // 0 is the default: it is as if the option were not there.
    let (word, option) = REGISTERS;
    if options.number(OptionId::MaxRegisters).is_none_or(|count| count == 0)
        && let Some(count) = agreed(pieces, REGISTERS, None)?
    {
        if lacks(pieces, word) {
            infos.push(InputError::LtoMixed { option, everything: format!("{option}={count}") });
        }
        compilation.registers = Some(count).filter(|&count| count > 0);
    }
    for checked in AGREED {
        let value = agreed(pieces, checked, None)?;
        compilation.arithmetic.extend(value.map(|value| (checked.1, value)));
    }
    let of_link = options.number(OptionId::SplitCompile).map(|count| ("the command line", count));
    let compared = of_link.filter(|_| rules.compares_threads);
    if let Some(count) = agreed(pieces, THREADS, compared)? {
        compilation.threads = Some(count.to_string());
    }
    // With `-emit-ptx` the check of the command line has reported which option is ignored.
    let several = |count: &str| count != "1";
    if !options.flag(OptionId::EmitPtx)
        && options.text(OptionId::SplitCompileExtended).is_some_and(several)
        && compilation.threads.as_deref().is_some_and(several)
    {
        infos.push(InputError::LtoThreads);
    }
    Ok(compilation)
}

/// The value of an option in all pieces and in the link; a piece without it agrees with all.
fn agreed<'p>(
    pieces: &[PieceOptions<'p>],
    (word, option): (&[u8], &'static str),
    of_link: Option<(&'p str, i32)>,
) -> Result<Option<i32>, Disagreement<'p>> {
    let valued = pieces.iter().filter_map(|piece| Some((piece.name, value(piece.text, word)?)));
    let mut valued = of_link.into_iter().chain(valued);
    let Some(first) = valued.next() else { return Ok(None) };
    match valued.find(|(_, value)| *value != first.1) {
        Some(other) => Err(Disagreement { option, pieces: [first, other] }),
        None => Ok(Some(first.1)),
    }
}

/// True if a fat binary has LTO-IR without `word`.
fn lacks(pieces: &[PieceOptions<'_>], word: &[u8]) -> bool {
    pieces.iter().any(|piece| piece.packed && position(piece.text, word).is_none())
}

fn position(options: &[u8], word: &[u8]) -> Option<usize> {
    options.windows(word.len()).position(|window| window == word)
}

/// The value behind the first `word` in `options`, which may be a part of another word; a value
/// that is no number is 0.
fn value(options: &[u8], word: &[u8]) -> Option<i32> {
    let at = position(options, word)?;
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

    /// What nvlink says of fat binaries with these options, linked with `words`, and what they ask
    /// for.
    fn linked(words: &str, options: &[&str]) -> (Vec<String>, Option<LtoCompilation>) {
        let names = ["a", "b", "c", "d"];
        let pieces: Vec<PieceOptions<'_>> = names
            .iter()
            .zip(options)
            .map(|(name, text)| PieceOptions { name, packed: true, text: text.as_bytes() })
            .collect();
        said_of(words, &pieces)
    }

    fn said_of(words: &str, pieces: &[PieceOptions<'_>]) -> (Vec<String>, Option<LtoCompilation>) {
        said_by(Dialect::newest(), words, pieces)
    }

    fn said_by(
        rules: &Dialect,
        words: &str,
        pieces: &[PieceOptions<'_>],
    ) -> (Vec<String>, Option<LtoCompilation>) {
        let words = format!("-arch=sm_90 -dlto -nvvmpath=nvvm a.o -o out {words}");
        let words = words.split_ascii_whitespace().map(Into::into);
        let words: Vec<std::ffi::OsString> = words.collect();
        let request = crate::options::parse(&words).request.unwrap();
        let crate::options::Request::Link(options) = request else { panic!("no link") };
        let mut infos = Vec::new();
        let made = agreement(pieces, &options, rules, &mut infos);
        let mut lines: Vec<String> = infos.iter().map(ToString::to_string).collect();
        let made = made.map_err(|Disagreement { option, pieces }| {
            let [(one, first), (other, second)] = pieces;
            lines.push(format!("{option}: {first} in {one}, {second} in {other}"));
        });
        (lines, made.ok())
    }

    fn option(options: &[&str]) -> Option<String> {
        let (mut lines, made) = linked("", options);
        made.is_none().then(|| lines.pop().unwrap().split(':').next().unwrap().to_owned())
    }

    #[test]
    fn the_first_option_that_differs_is_found_with_the_pieces() {
        let all = "-ftz=0 -prec_div=1 -prec_sqrt=1 -fmad=1 ";
        assert_eq!(option(&[all, all, "", "-fmad=1 -prec_div=1 -other=3"]), None);
        assert_eq!(option(&[all, "-ftz=1 -prec_div=0"]), Some("-ftz".into()));
        assert_eq!(option(&[all, "-prec_sqrt=0 -prec_div=0"]), Some("-prec-div".into()));
        assert_eq!(option(&["", "-prec_sqrt=0", all]), Some("-prec-sqrt".into()));
        // Options come before pieces.
        assert_eq!(option(&["-ftz=1 -fmad=1", "-fmad=0", "-ftz=0"]), Some("-ftz".into()));
        let (lines, _) = linked("", &["", "-fmad=1", "-fmad=1", "-fmad=0"]);
        assert_eq!(lines, ["-fmad: 1 in b, 0 in d"]);
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

    /// Each of these was given to nvlink 13.2, most to 12.4, 13.0 and 13.5 too.
    #[test]
    fn limits_beside_lto_ir_hold_for_all_of_it() {
        const REGISTERS: &str = "Some objects do not have '-maxrregcount' specified but others do; \
                                 will build everything with '-maxrregcount=";
        const LINES: &str = "Some objects do not have '-lineinfo' specified but others do; will \
                             build everything with '-lineinfo'";
        let info = |count: i32| vec![format!("{REGISTERS}{count}'")];
        let registers = |words: &str, options: &[&str]| {
            let (lines, made) = linked(words, options);
            (lines, made.and_then(|made| made.registers))
        };
        assert_eq!(registers("", &["-maxreg 24 -ftz=0", "-maxreg 24"]), (vec![], Some(24)));
        for text in ["-maxreg 24", "-maxreg  24", "x-maxreg 24x", "-maxreg 24 -maxreg 40"] {
            assert_eq!(registers("", &["-ftz=0", text]), (info(24), Some(24)), "{text}");
        }
        for text in ["-maxreg 0", "-maxreg abc"] {
            assert_eq!(registers("", &[text, ""]), (info(0), None), "{text}");
        }
        assert_eq!(registers("", &["", "-maxreg -1", ""]), (info(-1), None));
        for text in ["-maxreg=24", "-maxregx 24", "-maxreg24"] {
            assert_eq!(registers("", &[text, ""]), (vec![], None), "{text}");
        }
        let differ = vec!["-maxrregcount: 24 in a, 40 in b".to_owned()];
        assert_eq!(registers("", &["-maxreg 24 -ftz=1", "-maxreg 40 -ftz=0"]), (differ, None));
        let both = ["-maxreg 24", "-maxreg 40"];
        assert_eq!(registers("-maxrregcount=32", &both), (vec![], Some(32)));
        assert_eq!(registers("-maxrregcount=-1", &both), (vec![], None));
        assert_eq!(registers("-maxrregcount=0", &["-maxreg 24", ""]), (info(24), Some(24)));

        assert_eq!(linked("", &["-generate-line-info", "-ftz=0"]).0, [LINES]);
        assert_eq!(linked("", &["", "x-generate-line-infox"]).0, [LINES]);
        assert!(linked("", &["-generate-line-info", "-generate-line-info"]).0.is_empty());
        let all = linked("", &["-generate-line-info -maxreg 24 -ftz=0", "-ftz=1"]).0;
        assert_eq!(all, [LINES, &format!("{REGISTERS}24'"), "-ftz: 0 in a, 1 in b"]);

        // Bare LTO-IR lacks nothing.
        let piece = |packed, text| PieceOptions { name: "a", packed, text };
        let bare = [piece(true, b"-maxreg 24 -generate-line-info".as_slice()), piece(false, b"")];
        assert!(said_of("", &bare).0.is_empty());
    }

    /// As above.
    #[test]
    fn threads_of_the_compilers_are_those_of_link_and_lto_ir() {
        let threads = |words: &str, options: &[&str]| {
            let (lines, made) = linked(words, options);
            (lines, made.and_then(|made| made.threads))
        };
        assert_eq!(threads("", &["", "-split-compile 4x"]), (vec![], Some("4".into())));
        assert_eq!(threads("", &["", "-split-compile=4"]), (vec![], None));
        assert_eq!(threads("", &["-split-compile-extended 4", "-split-compile 2"]).1.unwrap(), "2");
        for (words, options, values) in [
            ("", ["-split-compile 1", "-split-compile 4"], "1 in a, 4 in b"),
            ("-split-compile=1", ["", "-split-compile 4"], "1 in the command line, 4 in b"),
            ("-split-compile=3", ["-split-compile abc", ""], "3 in the command line, 0 in a"),
        ] {
            let line = format!("-split-compile: {values}");
            assert_eq!(threads(words, &options), (vec![line], None));
        }
        assert_eq!(
            option(&["-split-compile 1 -ftz=0", "-split-compile 4 -ftz=1"]).unwrap(),
            "-ftz"
        );

        const EXTENDED: &str = "Incompatible options '-split-compile' and \
                                '-split-compile-extended', using '-split-compile-extended'";
        for words in [
            "-split-compile=4 -split-compile-extended=3",
            "-split-compile=0 -split-compile-extended=3",
            "-split-compile=3 -split-compile-extended=0",
        ] {
            assert_eq!(linked(words, &[""]).0, [EXTENDED], "{words}");
        }
        assert_eq!(linked("-split-compile-extended=3", &["-split-compile 4"]).0, [EXTENDED]);
        for words in [
            "-split-compile=4 -split-compile-extended=1",
            "-split-compile=1 -split-compile-extended=4",
            "-split-compile-extended=0",
            "-split-compile=3 -emit-ptx",
            "-emit-ptx -split-compile=3 -split-compile-extended=2",
        ] {
            assert!(linked(words, &[""]).0.is_empty(), "{words}");
        }
    }

    /// nvlink 13.0 and 13.5 had these options for the compiler, by what it said of wrong values and
    /// by the texts that it made.
    #[test]
    fn options_about_arithmetic_come_behind_those_of_the_link() {
        let behind = |beside: &str, words: &[&str]| -> Vec<String> {
            let (_, made) = linked("", &[beside]);
            let words: Vec<OsString> = words.iter().map(Into::into).collect();
            let behind = made.unwrap().arithmetic_behind(&words);
            behind.into_iter().map(|word| word.into_string().unwrap()).collect()
        };
        let fast = "-ftz=1 -prec_div=0 -prec_sqrt=0 -fmad=1 ";
        assert_eq!(behind(fast, &[]), [""; 0]);
        let all = ["-ftz=1", "-prec-sqrt=0", "-prec-div=0", "-fma=1"];
        assert_eq!(behind(fast, &["-opt=3"]), all);
        assert_eq!(behind(fast, &["-ftz=0", "-fma=0"]), ["-prec-sqrt=0", "-prec-div=0"]);
        assert_eq!(behind(fast, &["-ftz", "-prec-sqrt=1"]), all);
        assert_eq!(behind("", &["-opt=3"]), ["-prec-sqrt=1"]);
    }
}
