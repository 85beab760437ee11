//! The symbols of the probed records.
//!
//! In: nothing. Out: [`SYMBOLS`]. Guaranteed: keys are unique, and a row has everything that it
//! needs besides `base.txt`.

/// A symbol.
#[derive(Debug, PartialEq, Eq)]
pub struct SymbolKind {
    /// Name in lists and on the command line.
    pub key: &'static str,
    /// Its word in the line of a record.
    pub word: &'static str,
    /// More lines of the symbol table.
    pub lines: &'static [&'static str],
}

/// All of them.
#[rustfmt::skip]
pub const SYMBOLS: &[SymbolKind] = &[
    // Functions.
    base("function", "live"),
    base("entry", "k"),
    base("other-entry", "k2"),
    base("local-function", "own"),
    base("weak-function", "weak"),
    base("dead-function", "dead"),
    base("dead-weak-function", "weakdead"),
    base("alias", "alias"),
    base("dead-alias", "deadalias"),
    base("dead-aliased-function", "aliased"),
    base("called-weak-function", "called"),
    with("undefined-weak-function", "x", &["weak func x"]),
    with("undefined-function", "x", &["global func x"]),
    with("absolute-function", "x", &["global func x in=*ABS* value=0x5678 size=0x10"]),
    // Variables.
    base("global", "global"),
    base("local-global", "ownglobal"),
    base("init", "init"),
    base("local-init", "owninit"),
    base("weak-init", "weakinit"),
    with("object-init", "x", &["global object x in=.nv.global.init value=0x28 size=0x8"]),
    base("common", "common"),
    base("const", "const"),
    base("local-const", "ownconst"),
    base("weak-const", "weakconst"),
    base("literal", "literal"),
    base("shared", "shared"),
    base("pool-shared", "pool"),
    base("entry-shared", "kshared"),
    base("dynamic-shared", "dynamic"),
    base("texture", "texture"),
    base("sampler", "sampler"),
    base("surface", "surface"),
    // Undefined and absolute ones.
    with("undefined-global", "x", &["global cuda_object x other=global"]),
    with("undefined-const", "x", &["global cuda_object x other=constant"]),
    with("undefined-object", "x", &["global object x size=0x4"]),
    with("undefined-weak-global", "x", &["weak cuda_object x size=0x4 other=global"]),
    with("undefined-weak-const", "x", &["weak cuda_object x size=0x4 other=constant"]),
    with("undefined-weak-object", "x", &["weak object x size=0x4"]),
    with("undefined-local-object", "x", &["local object x size=0x4"]),
    with("size-of-constants", ".nv.ptx.const0.size", &["local object .nv.ptx.const0.size size=0x4 other=internal"]),
    with("absolute-object", "x", &["global object x in=*ABS* value=0x5678 size=0x8"]),
    with("local-absolute-object", "x", &["local object x in=*ABS* value=0x5678 size=0x8"]),
    with("absolute-global", "x", &["global cuda_object x in=*ABS* value=0x5678 size=0x8 other=global"]),
    // Symbols without type.
    base("label", "label"),
    base("debug-label", "debuglabel"),
    with("global-label", "x", &["global notype x in=.text.k value=0x20"]),
    with("undefined-label", "x", &["local notype x"]),
    with("undefined-global-label", "x", &["global notype x"]),
    with("undefined-weak-label", "x", &["weak notype x"]),
    with("absolute-label", "x", &["global notype x in=*ABS* value=0x5678 size=0x8"]),
    with("file", "x", &["local 0x4 x in=*ABS*"]),
    with("thread-local", "x", &["global 0x6 x in=.nv.global.init value=0x28 size=0x8"]),
    // Section symbols.
    base("section-text", ".text.k"),
    base("section-callee", ".text.live"),
    base("section-dead", ".text.dead"),
    base("section-global", ".nv.global"),
    base("section-init", ".nv.global.init"),
    base("section-const", ".nv.constant3"),
    base("section-bank", ".nv.constant2.k"),
    base("section-callee-bank", ".nv.constant2.live"),
    base("section-params", ".nv.constant0.k"),
    base("section-pool", ".nv_debug.shared"),
    base("section-shared", ".nv.shared.k"),
    base("section-frame", ".debug_frame"),
    base("section-info", ".debug_info"),
    base("section-line", ".debug_line"),
    base("section-sass", ".nv_debug_line_sass"),
    base("section-note", ".note.nv.tkinfo"),
    base("section-callgraph", ".nv.callgraph"),
    base("section-prototype", ".nv.prototype"),
    with("section-attributes", ".nv.info", &["local section .nv.info"]),
    with("section-undefined", "x", &["local section x in=*UND*"]),
    // Names of unified tables.
    base("uft", "__UFT"),
    base("uft-end", "__UFT_END"),
    base("uft-offset", "__UFT_OFFSET"),
    base("uft-canonical", "__UFT_CANONICAL"),
    base("udt", "__UDT"),
    base("udt-end", "__UDT_END"),
    base("udt-offset", "__UDT_OFFSET"),
    base("udt-canonical", "__UDT_CANONICAL"),
    // Indices.
    base("null", "\"\""),
    base("index-behind", "#199"),
    base("index-far", "#0xffff"),
    base("index-last", "#0xffffffff"),
];

const fn base(key: &'static str, word: &'static str) -> SymbolKind {
    with(key, word, &[])
}

const fn with(key: &'static str, word: &'static str, lines: &'static [&'static str]) -> SymbolKind {
    SymbolKind { key, word, lines }
}

impl SymbolKind {
    /// The row with this key.
    pub fn named(key: &str) -> Option<&'static SymbolKind> {
        SYMBOLS.iter().find(|symbol| symbol.key == key)
    }
}
