//! Inputs that stand for the rest of a program.
//!
//! In: the target. Out: inputs that have libnvJitLink keep what other code can see. Guaranteed:
//! they define nothing.

use std::borrow::Cow;

use culd_cubin::arch::Arch;
use culd_cubin::build::Builder;

use crate::CompileInputKind;

/// NVVM IR that needs a function which nothing defines, `culd_other_code`; without the version of
/// the language, for [`lto_ir`](crate::lto_ir). Without it, libnvJitLink before 13.3 takes LTO-IR
/// for the whole program although the link has other code.
pub const OPEN_ROOTS_TEXT: &str = include_str!("open_roots.ll");

/// LTO-IR of [`OPEN_ROOTS_TEXT`], made by libnvvm 13.0.88 for `sm_75`. Releases from 13.0 on take
/// it for all targets. `cargo xtask compare lto` makes it again.
pub const OPEN_ROOTS: &[u8] = include_bytes!("open_roots.ltoir");

/// Empty code for any target, which the library has to compile first.
const TEXT: &[u8] = b".version 7.0\n.target sm_75\n.address_size 64\n\0";

/// Empty code in a link with these options of libnvJitLink, the first of which names the target:
/// a cubin, or PTX for a virtual target.
pub(crate) fn other_code(options: &[String]) -> (CompileInputKind, Cow<'static, [u8]>) {
    let cubin = || {
        let arch: &Arch = options.first()?.strip_prefix("-arch=")?.parse().ok()?;
        Builder::new(arch).finish().ok()
    };
    match cubin() {
        Some(cubin) => (CompileInputKind::Cubin, cubin.into()),
        None => (CompileInputKind::Ptx, TEXT.into()),
    }
}

/// The lines of a text that declare the function of [`OPEN_ROOTS`], in front of all code.
const DECLARATION_LINES: u64 = 3;

/// What ptxas says in `log` of lines of a text, as it would say it of the text without the
/// declaration: `ptxas application ptx input, line 32; error   : ...`
pub(crate) fn without_declaration(log: &str) -> String {
    let moved = |line: &str| {
        let (start, rest) = line.split_once(", line ").filter(|_| line.starts_with("ptxas "))?;
        let (number, said) = rest.split_once(';')?;
        let number = number.parse::<u64>().ok()?.checked_sub(DECLARATION_LINES)?;
        Some(format!("{start}, line {number};{said}"))
    };
    log.split_inclusive('\n').map(|line| moved(line).unwrap_or_else(|| line.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_text_are_counted_without_the_declaration() {
        let log = "ptxas application ptx input, line 32; error   : Unknown modifier '.bad'\n\
                   ptxas fatal   : Ptx assembly aborted due to errors\nERROR, line 5; of others";
        let without = without_declaration(log);
        assert_eq!(without, log.replace("line 32", "line 29"));
    }

    #[test]
    fn real_targets_have_a_cubin() {
        for (word, kind) in [
            ("-arch=sm_75", CompileInputKind::Cubin),
            ("-arch=sm_100f", CompileInputKind::Cubin),
            ("-arch=compute_90", CompileInputKind::Ptx),
            ("-lto", CompileInputKind::Ptx),
        ] {
            assert_eq!(other_code(&[word.to_owned()]).0, kind, "{word}");
        }
        assert_eq!(other_code(&[]).0, CompileInputKind::Ptx);
    }
}
