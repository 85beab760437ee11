//! Makes objects with a hundred thousand of one thing, as text that is assembled.
//!
//! In: lines for the tables. Out: a cubin for sm_80. Guaranteed: it always has a kernel `k`; the
//! added parts are sound.

use culd_cubin::elf;
use culd_testkit::fixtures::asm;
use std::fmt::Write as _;

/// `object` with the header of CUDA 12: ABI, release (121 is 12.1), and target.
pub fn with_older_header(mut object: Vec<u8>, release: u32, flags: u32) -> Vec<u8> {
    (object[7], object[8]) = (elf::OSABI_CUDA_12, elf::ABI_VERSION_12);
    object[20..24].copy_from_slice(&release.to_le_bytes());
    object[48..52].copy_from_slice(&flags.to_le_bytes());
    object
}

/// EXIT.
pub const CODE: &str = "4d790000 00000000 00008003 00ea0f00";

/// An object for sm_80 as text: a kernel `k`, and the added parts.
#[derive(Debug, Default)]
pub struct CraftedObject {
    /// Lines of the string table before the names of symbols.
    pub strings: String,
    /// Lines for local symbols.
    pub locals: String,
    /// Lines for other symbols.
    pub globals: String,
    /// Lines of `.nv.info`.
    pub attributes: String,
    /// Lines of the call graph: calls.
    pub calls: String,
    /// Functions whose address is taken.
    pub taken: String,
    /// Indirect calls.
    pub indirect: String,
    /// Whole sections.
    pub sections: String,
    /// Records about the kernel's code.
    pub records: String,
    /// Size of the kernel's code, bytes; 16 if it is 0.
    pub code: usize,
}

impl CraftedObject {
    /// A function with code of its own.
    pub fn function(&mut self, binding: &str, name: &str) {
        let symbols = if binding == "local" { &mut self.locals } else { &mut self.globals };
        let _ = writeln!(symbols, "  {binding} func {name} in=.text.{name} size=0x10");
        let _ =
            writeln!(self.attributes, "  REGCOUNT words {name} 24\n  FRAME_SIZE words {name} 0");
        let _ = writeln!(
            self.sections,
            "section .text.{name} progbits flags=alloc+exec align=16 symbol={name} registers=24\n  0x0000 {CODE}"
        );
    }

    /// A variable of 4 bytes at `offset` of [`CraftedObject::data`].
    pub fn variable(&mut self, binding: &str, name: &str, offset: usize) {
        let symbols = if binding == "local" { &mut self.locals } else { &mut self.globals };
        let _ = writeln!(
            symbols,
            "  {binding} cuda_object {name} in=.nv.global value={offset:#x} size=0x4 other=global"
        );
    }

    /// The section of the variables.
    pub fn data(&mut self, size: usize) {
        let _ = writeln!(
            self.sections,
            "section .nv.global nv_global flags=write+alloc align=4 size={size:#x}"
        );
    }

    /// The object.
    pub fn bytes(&self) -> Vec<u8> {
        assemble(&self.text())
    }

    /// Its text form.
    pub fn text(&self) -> String {
        let CraftedObject {
            strings,
            locals,
            globals,
            attributes,
            calls,
            taken,
            indirect,
            sections,
            records,
            ..
        } = self;
        let size = self.code.max(16);
        let mut text =
            "cubin 1\nfile type=rel sm=80\nsection .shstrtab strtab\n  rest\n".to_owned();
        let _ = write!(
            text,
            "section .strtab strtab\n{strings}  rest\nsection .symtab symtab align=8\n{locals}"
        );
        let _ = write!(
            text,
            "  globals\n  global func k in=.text.k size={size:#x} other=entry\n{globals}"
        );
        text.push_str("section .note.nv.cuinfo note align=4 flags=cuinfo\n  cuinfo version=2 sm=80 toolkit=130\n");
        let _ = write!(
            text,
            "section .nv.info nv_info align=4\n  REGCOUNT words k 24\n  FRAME_SIZE words k 0\n{attributes}"
        );
        let _ = write!(
            text,
            "section .nv.callgraph nv_callgraph align=4\n  list calls\n{calls}  list taken\n{taken}"
        );
        let _ = write!(text, "  list indirect\n{indirect}  list references\n");
        if !records.is_empty() {
            let _ = write!(
                text,
                "section .rela.text.k rela flags=info align=8 info=.text.k\n{records}"
            );
        }
        let _ = write!(
            text,
            "section .text.k progbits flags=alloc+exec align=16 symbol=k registers=24\n  0x0000 {CODE}\n"
        );
        if size > 16 {
            let _ = writeln!(text, "  0x0010 zero {:#x}", size - 16);
        }
        text.push_str(sections);
        text
    }
}

/// The object with the text form `text`.
pub fn assemble(text: &str) -> Vec<u8> {
    asm::assemble(text).unwrap_or_else(|error| panic!("{error}"))
}
