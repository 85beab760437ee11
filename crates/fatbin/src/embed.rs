//! A fat binary as C text, `fatbinary -embedded-fatbin`, for nvcc's stubs to include.
//!
//! In: the bytes of a fat binary. Out: text. Guaranteed: the bytes of `fatbinary` 13.0.

use std::io::Write;

/// What the text is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbedUse {
    /// A whole program.
    Program,
    /// `-link`: a device link, whose stub declares the list of images.
    DeviceLink,
    /// `-c`: a module that is linked later; `__NV_MODULE_ID` is its id.
    Module,
    /// `-c -link`: the same with a list of images.
    LinkedModule,
}

/// Numbers in a line.
const LINE: usize = 4;

const HEAD: &str = "\
#ifndef __SKIP_INTERNAL_FATBINARY_HEADERS
#include \"fatbinary_section.h\"
#endif
#define __CUDAFATBINSECTION  \".nvFatBinSegment\"
#define __CUDAFATBINDATASECTION  \"";
const OPEN: &str = "#ifdef __cplusplus\nextern \"C\" {\n#endif\n";
const CLOSE: &str = "#ifdef __cplusplus\n}\n#endif\n";
const PLACE: &str =
    "__attribute__ ((aligned (8))) __attribute__ ((section (__CUDAFATBINSECTION)))= \n\t";

/// The text of `fatbin`, whose size is a multiple of 8; with `asm` as an assembler's numbers,
/// else as an array.
#[must_use]
pub fn c_text(fatbin: &[u8], purpose: EmbedUse, asm: bool) -> Vec<u8> {
    let section = if matches!(purpose, EmbedUse::Module | EmbedUse::LinkedModule) {
        "__nv_relfatbin"
    } else {
        ".nv_fatbin"
    };
    let mut text = format!("{HEAD}{section}\"\n").into_bytes();
    text.reserve(fatbin.len() * 3);
    let (words, _) = fatbin.as_chunks::<8>();
    if asm {
        numbers(&mut text, words, section);
    } else {
        array(&mut text, words);
    }
    text.extend_from_slice(OPEN.as_bytes());
    let wrapper = match purpose {
        EmbedUse::Program => format!(
            "static const __fatBinC_Wrapper_t __fatDeviceText {PLACE}\
             {{ 0x466243b1, 1, fatbinData, 0 }};\n"
        ),
        EmbedUse::DeviceLink => format!(
            "static const __fatBinC_Wrapper_t __fatDeviceText {PLACE}\
             {{ 0x466243b1, 2, fatbinData, (void**)__cudaPrelinkedFatbins }};\n"
        ),
        EmbedUse::Module | EmbedUse::LinkedModule => format!(
            "#undef __FATIDNAME_CORE\n#undef __FATIDNAME\n\
             #define __FATIDNAME_CORE(x) __fatbinwrap##x\n\
             #define __FATIDNAME(x) __FATIDNAME_CORE(x)\n\
             extern const __fatBinC_Wrapper_t __FATIDNAME(__NV_MODULE_ID) {PLACE}\
             {{ 0x466243b1, {} }};\n",
            match purpose {
                EmbedUse::LinkedModule => "2, fatbinData, (void**)__cudaPrelinkedFatbins",
                _ => "1, fatbinData, 0",
            }
        ),
    };
    text.extend_from_slice(wrapper.as_bytes());
    text.extend_from_slice(CLOSE.as_bytes());
    text
}

fn numbers(text: &mut Vec<u8>, words: &[[u8; 8]], section: &str) {
    let head = format!(
        "asm(\n\".section {section}, \\\"a\\\"\\n\"\n\".align 8\\n\"\n\"fatbinData:\\n\"\n"
    );
    text.extend_from_slice(head.as_bytes());
    for line in words.chunks(LINE) {
        // A short line, the last, has blanks.
        let between = if line.len() == LINE { "," } else { ", " };
        text.extend_from_slice(b"\".quad ");
        for (place, word) in line.iter().enumerate() {
            let between = if place == 0 { "" } else { between };
            // Writing to a vector cannot fail.
            let _ = write!(text, "{between}0x{:016x}", u64::from_le_bytes(*word));
        }
        text.extend_from_slice(b"\\n\"\n");
    }
    let count = words.len();
    let tail = format!(
        "\".text\\n\");\n{OPEN}extern const unsigned long long fatbinData[{count}];\n{CLOSE}"
    );
    text.extend_from_slice(tail.as_bytes());
}

fn array(text: &mut Vec<u8>, words: &[[u8; 8]]) {
    let head = format!(
        "{OPEN}\nstatic const unsigned long long fatbinData[] \
         __attribute__ ((section (__CUDAFATBINDATASECTION)))= {{"
    );
    text.extend_from_slice(head.as_bytes());
    for line in words.chunks(LINE) {
        for (place, word) in line.iter().enumerate() {
            let between = if place == 0 { "" } else { "," };
            let _ = write!(text, "{between}0x{:016x}ull", u64::from_le_bytes(*word));
        }
        if line.len() == LINE {
            text.extend_from_slice(b",\n");
        }
    }
    text.extend_from_slice(format!("\n}};\n\n{CLOSE}\n").as_bytes());
}
