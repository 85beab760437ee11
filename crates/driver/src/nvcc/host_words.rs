//! Words for the host compiler, which a device link does not start.
//!
//! Nearly all of them change only how nvcc's stub is compiled, which a host linker does not see:
//! culd's object is always position independent and marked for CET and BTI.

use culd_text::os::OsStrExt;
use std::ffi::OsStr;

use culd_fatbin::registration::Visibility;

/// The meaning of a word of the host compiler for the host object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostWord {
    /// Nothing.
    Neutral,
    /// The visibility of the object's symbols.
    Visibility(Visibility),
    /// Another kind of object, or none.
    Other,
    /// A word that is in no list here.
    Unknown,
}

/// Words that ask for another kind of object: another word size or code model, another machine, a
/// step that ends earlier, another output.
const OTHER: &[&str] = &["-E", "-M", "-MM", "-S", "-c", "-fsyntax-only", "-o", "-x"];
const OTHER_BEGIN: &[&str] = &[
    "--target",
    "-fdump",
    "-flto-partition",
    "-m16",
    "-m31",
    "-m32",
    "-mabi",
    "-mbig",
    "-mcmodel",
    "-mx32",
    "-o",
    "-save-temps",
    "-specs",
    "-target",
    "-x",
    "@",
];

/// Words that change the code of the stub, warnings, or the preprocessor.
const NEUTRAL: &[&str] = &[
    "",
    "-ansi",
    "-g",
    "-no-pie",
    "-p",
    "-pedantic",
    "-pg",
    "-pie",
    "-pipe",
    "-pthread",
    "-rdynamic",
    "-shared",
    "-static",
    "-w",
];
const NEUTRAL_BEGIN: &[&str] = &[
    "-D",
    "-I",
    "-L",
    "-O",
    "-U",
    "-W",
    "-f",
    "-g",
    "-l",
    "-m",
    "-pedantic-",
    "-static-",
    "-std=",
];

const VISIBILITIES: &[(&str, Visibility)] = &[
    ("-fvisibility=default", Visibility::Default),
    ("-fvisibility=hidden", Visibility::Hidden),
    ("-fvisibility=internal", Visibility::Internal),
    ("-fvisibility=protected", Visibility::Protected),
];

/// The meaning of `word`.
pub(crate) fn host_word(word: &OsStr) -> HostWord {
    let bytes = word.as_bytes();
    let begins = |list: &[&str]| list.iter().any(|begin| bytes.starts_with(begin.as_bytes()));
    let is = |list: &[&str]| list.iter().any(|name| bytes == name.as_bytes());
    let visibility = VISIBILITIES.iter().find(|(name, _)| bytes == name.as_bytes());
    match visibility {
        Some((_, visibility)) => HostWord::Visibility(*visibility),
        None if is(OTHER) || begins(OTHER_BEGIN) => HostWord::Other,
        None if is(NEUTRAL) || begins(NEUTRAL_BEGIN) => HostWord::Neutral,
        None => HostWord::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_they_do_to_an_object() {
        let word = |word: &str| host_word(OsStr::new(word));
        for neutral in ["-fPIC", "-O2", "-Wall", "-g3", "-mavx2", "-DX=y", "-Wl,-z,now", ""] {
            assert_eq!(word(neutral), HostWord::Neutral, "{neutral}");
        }
        assert_eq!(word("-fvisibility=hidden"), HostWord::Visibility(Visibility::Hidden));
        for other in ["-m32", "-mx32", "-mcmodel=large", "-c", "-ofile", "-x", "-S", "@file"] {
            assert_eq!(word(other), HostWord::Other, "{other}");
        }
        for unknown in ["file.o", "-include", "-Xclang", "--sysroot=/x"] {
            assert_eq!(word(unknown), HostWord::Unknown, "{unknown}");
        }
    }
}
