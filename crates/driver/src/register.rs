//! The file of `--register-link-binaries`, which nvcc compiles into the host program.

use crate::input::Module;

/// Its text: one line for each module, in link order.
pub(crate) fn text(modules: &[&Module<'_>]) -> Vec<u8> {
    let mut text = format!("#define NUM_PRELINKED_OBJECTS {}\n", modules.len()).into_bytes();
    for module in modules {
        text.extend_from_slice(b"DEFINE_REGISTER_FUNC(");
        text.extend_from_slice(&module.id);
        text.extend_from_slice(b")\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_has_a_line() {
        let module = |id: &'static [u8]| Module { id: id.into(), system: false };
        let (first, second) = (module(b"_72784db6_4_k_cu__Z1kPi"), module(b"x"));
        assert_eq!(
            text(&[&first, &second]),
            b"#define NUM_PRELINKED_OBJECTS 2\n\
              DEFINE_REGISTER_FUNC(_72784db6_4_k_cu__Z1kPi)\nDEFINE_REGISTER_FUNC(x)\n"
        );
        assert_eq!(text(&[]), b"#define NUM_PRELINKED_OBJECTS 0\n");
    }
}
