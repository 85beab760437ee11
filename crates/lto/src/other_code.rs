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

#[cfg(test)]
mod tests {
    use super::*;

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
