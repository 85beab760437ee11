//! Makes DWARF for generated PTX.
//!
//! In: a unit whose functions carry the labels `$begin_<name>` and `$end_<name>`. Out: `.section`
//! blocks with one compile unit, and an entry for each global variable and function, as nvcc -G
//! writes them. Guaranteed: `ptxas -g` accepts them.

use super::model::{
    GeneratedFunction, GeneratedItem, GeneratedProgram, GeneratedSpace, ModelSymbolKind, Unit,
};
use super::ptx::line;

const ABBREVIATIONS: &str = ".section .debug_abbrev\n{
.b8 1,17,1,37,8,19,5,3,8,16,6,27,8,17,1,0,0
.b8 2,52,0,3,8,73,19,63,12,58,11,59,11,51,11,2,10,0,0
.b8 3,36,0,3,8,62,11,11,11,0,0
.b8 4,46,0,17,1,18,1,64,10,3,8,58,11,59,11,73,19,63,12,0,0
.b8 0\n}";

/// Appends the sections of `unit`.
pub(super) fn print(program: &GeneratedProgram, unit: &Unit, out: &mut String) {
    line!(out, "{ABBREVIATIONS}");
    let mut info = DebugInfo::default();
    info.bytes(&[2, 0]);
    info.word(".b32 .debug_abbrev", 4);
    info.bytes(&[8]);
    // The compile unit: producer, language, name, line table, directory, low pc.
    info.bytes(&[1]);
    info.string("generated");
    info.bytes(&[4, 0]);
    info.string(&format!("{}.cu", unit.name));
    info.word(".b32 .debug_line", 4);
    info.string("/src");
    info.word(".b64 0", 8);
    let base_type = info.size + 4;
    info.bytes(&[3]);
    info.string("int");
    info.bytes(&[5, 4]);
    for item in &unit.items {
        match item {
            GeneratedItem::Variable(variable) => {
                if let ModelSymbolKind::Variable(space, _) = variable.kind {
                    info.variable(&program.symbol(variable.symbol).name, space, base_type);
                }
            }
            GeneratedItem::Function(function) => info.function(program, function, base_type),
            GeneratedItem::Alias { .. } => {}
        }
    }
    info.bytes(&[0]);
    line!(out, ".section .debug_info\n{{\n.b32 {}\n{}}}", info.size, info.text);
    line!(out, ".section .debug_macinfo\n{{\n.b8 0\n}}");
}

/// The bytes of `.debug_info` after its length field.
#[derive(Default)]
struct DebugInfo {
    text: String,
    size: usize,
}

impl DebugInfo {
    fn bytes(&mut self, bytes: &[u8]) {
        let list: Vec<String> = bytes.iter().map(u8::to_string).collect();
        line!(self.text, ".b8 {}", list.join(","));
        self.size += bytes.len();
    }

    fn string(&mut self, text: &str) {
        self.bytes(text.as_bytes());
        self.bytes(&[0]);
    }

    fn word(&mut self, text: &str, size: usize) {
        line!(self.text, "{text}");
        self.size += size;
    }

    fn variable(&mut self, name: &str, space: GeneratedSpace, base_type: usize) {
        let class = match space {
            GeneratedSpace::Const => 4,
            GeneratedSpace::Global | GeneratedSpace::Managed => 5,
            GeneratedSpace::Shared => 8,
        };
        self.bytes(&[2]);
        self.string(name);
        self.word(&format!(".b32 {base_type}"), 4);
        self.bytes(&[1, 1, 7, class, 9, 3]);
        self.word(&format!(".b64 {name}"), 8);
    }

    fn function(
        &mut self,
        program: &GeneratedProgram,
        function: &GeneratedFunction,
        base_type: usize,
    ) {
        let name = &program.symbol(function.symbol).name;
        self.bytes(&[4]);
        self.word(&format!(".b64 $begin_{name}"), 8);
        self.word(&format!(".b64 $end_{name}"), 8);
        self.bytes(&[1, 156]);
        self.string(name);
        self.bytes(&[1, 9]);
        self.word(&format!(".b32 {base_type}"), 4);
        self.bytes(&[1]);
    }
}
