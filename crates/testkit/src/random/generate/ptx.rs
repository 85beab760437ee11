//! Prints a unit of a generated program as PTX.
//!
//! In: a [`GeneratedProgram`] and one of its units. Out: the text of a `.ptx` file. Guaranteed:
//! symbols that the unit uses but does not define are declared `.extern`, and every symbol is
//! declared before its use. So the PTX of any tree is valid but for mistakes in the tree itself.

use super::body::BodyPrinter;
use super::dwarf;
use super::model::{
    ArrayShape, DebugLevel, GeneratedFunction, GeneratedItem, GeneratedLinkage, GeneratedProgram,
    GeneratedSpace, GeneratedSymbol, GeneratedSymbolId, GeneratedType, GeneratedVariable, Init,
    ModelSymbolKind, PtxArch, Signature, Syscall, Unit,
};
use super::textures;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The text of one unit.
pub fn print(program: &GeneratedProgram, unit: &Unit) -> String {
    if let Some(cuda) = &unit.cuda {
        let headers: String =
            cuda.headers.iter().map(|header| format!("#include <{header}>\n")).collect();
        let mut parts = cuda.parts.join("\n");
        if unit.whole_program {
            // nvcc wants the definitions of a program of one file to be static.
            for space in ["__device__", "__constant__"] {
                parts = parts.replace(&format!("inline {space}"), &format!("static {space}"));
            }
        }
        return format!("#include <cassert>\n#include <cstdio>\n{headers}{parts}\n");
    }
    let mut printer = Printer { program, unit, out: String::new() };
    printer.header();
    printer.declarations();
    for item in &unit.items {
        printer.item(item);
    }
    if unit.debug == DebugLevel::Full {
        dwarf::print(program, unit, &mut printer.out);
    }
    printer.out
}

struct Printer<'p> {
    program: &'p GeneratedProgram,
    unit: &'p Unit,
    out: String,
}

/// Appends a formatted line to a `String`.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => {{
        let text = format!($($arg)*);
        $out.push_str(&text);
        $out.push('\n');
    }};
}
pub(super) use line;

impl Printer<'_> {
    fn header(&mut self) {
        let PtxArch(target) = self.unit.target;
        let debug = if self.unit.debug == DebugLevel::Full { ", debug" } else { "" };
        let mode = if self.unit.independent_textures { ", texmode_independent" } else { "" };
        line!(
            self.out,
            ".version {}\n.target {target}{mode}{debug}\n.address_size 64",
            self.unit.ptx_version
        );
        if self.unit.debug != DebugLevel::Off {
            line!(self.out, ".file 1 \"{}.cu\"", self.unit.name);
        }
    }

    /// Forward declarations of the file's functions, and `.extern` declarations of its variables
    /// and of other files' symbols.
    fn declarations(&mut self) {
        let own: BTreeSet<GeneratedSymbolId> =
            self.unit.items.iter().map(GeneratedItem::symbol).collect();
        let used: BTreeSet<GeneratedSymbolId> =
            self.unit.items.iter().flat_map(GeneratedItem::references).collect();
        for syscall in Syscall::ALL {
            if self.unit.items.iter().any(|item| item.calls(syscall)) {
                line!(self.out, ".extern {};", syscall_declaration(syscall));
            }
        }
        for &id in used.difference(&own) {
            line!(
                self.out,
                ".extern {};",
                declaration(self.program.symbol(id), believed_kind(self.program, self.unit, id))
            );
        }
        let mut named_so_far = BTreeSet::new();
        for item in &self.unit.items {
            // A function may call itself without a declaration; an initialiser must not name its
            // own variable.
            let early = named_so_far.contains(&item.symbol());
            named_so_far.extend(item.references());
            self.own_declaration(item, early);
        }
    }

    /// Declares a symbol of the file ahead if an earlier item names it. Local variables and opaque
    /// references cannot be declared ahead; the generator defines them before their use.
    fn own_declaration(&mut self, item: &GeneratedItem, early: bool) {
        let symbol = self.program.symbol(item.symbol());
        match item {
            GeneratedItem::Function(function) if early => {
                line!(
                    self.out,
                    "{}{};",
                    scope(function.linkage),
                    declaration(symbol, &symbol.kind)
                );
            }
            GeneratedItem::Alias { weak, .. } => {
                let scope =
                    scope(if *weak { GeneratedLinkage::Weak } else { GeneratedLinkage::Visible });
                line!(self.out, "{scope}{};", declaration(symbol, &symbol.kind));
            }
            GeneratedItem::Variable(variable)
                if early && matches!(variable.kind, ModelSymbolKind::Variable(..)) =>
            {
                if matches!(variable.linkage, GeneratedLinkage::Visible | GeneratedLinkage::Weak) {
                    line!(self.out, ".extern {};", declaration(symbol, &variable.kind));
                }
            }
            _ => {}
        }
    }

    fn item(&mut self, item: &GeneratedItem) {
        match item {
            GeneratedItem::Variable(variable) => self.variable(variable),
            GeneratedItem::Function(function) => self.function(function),
            GeneratedItem::Alias { symbol, target, .. } => {
                let name = &self.program.symbol(*symbol).name;
                line!(self.out, ".alias {name}, {};", self.program.symbol(*target).name);
            }
        }
    }

    fn variable(&mut self, variable: &GeneratedVariable) {
        let text = declaration(self.program.symbol(variable.symbol), &variable.kind);
        let scope = match variable.kind {
            ModelSymbolKind::DynamicShared(_) => ".extern ",
            _ => scope(variable.linkage),
        };
        let _ = write!(self.out, "{scope}{text}");
        if let ModelSymbolKind::Reference(_) = variable.kind {
            let init = textures::sampler(&variable.init);
            let init = init.map_or(String::new(), |text| format!(" = {{ {text} }}"));
            line!(self.out, "{init};");
            return;
        }
        if !variable.init.is_empty() {
            let elements: Vec<String> =
                variable.init.iter().map(|init| self.element(init)).collect();
            let _ = write!(self.out, " = {{{}}}", elements.join(", "));
        }
        self.out.push_str(";\n");
    }

    fn element(&self, init: &Init) -> String {
        match *init {
            Init::Value(value) => value.to_string(),
            Init::Address { symbol, addend, generic, byte } => {
                let name = &self.program.symbol(symbol).name;
                let base = if generic { format!("generic({name})") } else { name.clone() };
                match byte {
                    // PTX allows no addend inside or after a mask.
                    Some(byte) => format!("{:#x}({base})", 0xff_u64 << (8 * u32::from(byte))),
                    None if addend > 0 => format!("{base}+{addend}"),
                    None => base,
                }
            }
        }
    }

    fn function(&mut self, function: &GeneratedFunction) {
        let symbol = self.program.symbol(function.symbol);
        let mut head = declaration(symbol, &symbol.kind);
        for &parameter in &function.references {
            let name = textures::parameter_name(parameter);
            head.truncate(head.len() - 1);
            let _ = write!(head, ", .param {} {name})", textures::type_name(parameter.kind));
        }
        line!(self.out, "{}{head} {}\n{{", scope(function.linkage), function.directives.join(" "));
        BodyPrinter::new(self.program, self.unit, &mut self.out).function(function, &symbol.kind);
        line!(self.out, "}}");
    }
}

/// The kind of a symbol in a unit.
pub(super) fn believed_kind<'p>(
    program: &'p GeneratedProgram,
    unit: &'p Unit,
    id: GeneratedSymbolId,
) -> &'p ModelSymbolKind {
    let belief = unit.beliefs.iter().find(|(symbol, _)| *symbol == id);
    let own = unit.items.iter().find_map(|item| match item {
        GeneratedItem::Variable(variable) if variable.symbol == id => Some(&variable.kind),
        _ => None,
    });
    belief.map(|(_, kind)| kind).or(own).unwrap_or(&program.symbol(id).kind)
}

fn scope(linkage: GeneratedLinkage) -> &'static str {
    match linkage {
        GeneratedLinkage::Local => "",
        GeneratedLinkage::Visible => ".visible ",
        GeneratedLinkage::Weak => ".weak ",
        GeneratedLinkage::Common => ".common ",
    }
}

/// A declaration without scope and semicolon.
fn declaration(symbol: &GeneratedSymbol, kind: &ModelSymbolKind) -> String {
    let name = &symbol.name;
    let unified = match symbol.unified {
        Some((first, second)) => format!(" .attribute(.unified({first}, {second}))"),
        None => String::new(),
    };
    match kind {
        ModelSymbolKind::Function(signature) => function_head(name, signature, &unified),
        ModelSymbolKind::Entry(params) => {
            let mut list = vec![format!(".param .u64 {name}_out")];
            list.extend(parameters(params, &format!("{name}_")));
            format!(".entry {name}({})", list.join(", "))
        }
        ModelSymbolKind::Variable(space, ArrayShape { width, count, align }) => {
            let managed =
                if *space == GeneratedSpace::Managed { " .attribute(.managed)" } else { "" };
            let count = if *count == 0 { String::new() } else { count.to_string() };
            format!(
                ".{}{managed}{unified} .align {align} .u{} {name}[{count}]",
                space.name(),
                8 * width
            )
        }
        ModelSymbolKind::DynamicShared(ArrayShape { width, align, .. }) => {
            format!(".{} .align {align} .b{} {name}[]", GeneratedSpace::Shared.name(), 8 * width)
        }
        ModelSymbolKind::Reference(kind) => {
            format!(".global {} {name}", textures::type_name(*kind))
        }
    }
}

fn function_head(name: &str, signature: &Signature, unified: &str) -> String {
    let result = match signature.result {
        Some(result) => format!("({}) ", parameter(result, "result")),
        None => String::new(),
    };
    let noreturn = if signature.noreturn { " .noreturn" } else { "" };
    format!(
        ".func{unified} {result}{name}({}){noreturn}",
        parameters(&signature.params, "p").join(", ")
    )
}

/// A `.callprototype` with the label `label`.
pub(super) fn prototype(label: &str, signature: &Signature) -> String {
    let result = match signature.result {
        Some(result) => format!("({}) ", parameter(result, "_")),
        None => String::new(),
    };
    let params: Vec<String> = signature.params.iter().map(|&p| parameter(p, "_")).collect();
    let noreturn = if signature.noreturn { " .noreturn" } else { "" };
    format!("{label}: .callprototype {result}_ ({}){noreturn};", params.join(", "))
}

fn parameters(types: &[GeneratedType], prefix: &str) -> Vec<String> {
    types.iter().enumerate().map(|(i, &ty)| parameter(ty, &format!("{prefix}{i}"))).collect()
}

/// One parameter, for the head of a function or, with a semicolon, for the scope of a call.
pub(super) fn parameter(ty: GeneratedType, name: &str) -> String {
    match ty {
        GeneratedType::B32 => format!(".param .b32 {name}"),
        GeneratedType::B64 => format!(".param .b64 {name}"),
        GeneratedType::F32 => format!(".param .f32 {name}"),
        GeneratedType::F64 => format!(".param .f64 {name}"),
        GeneratedType::Bytes { size, align } => format!(".param .align {align} .b8 {name}[{size}]"),
    }
}

fn syscall_declaration(syscall: Syscall) -> &'static str {
    match syscall {
        Syscall::Vprintf => ".func (.param .b32 result) vprintf(.param .b64 p0, .param .b64 p1)",
        Syscall::Malloc => ".func (.param .b64 result) malloc(.param .b64 p0)",
        Syscall::Free => ".func free(.param .b64 p0)",
        Syscall::Other => ".func (.param .b32 result) __cuda_syscall_generated(.param .b32 p0)",
        Syscall::AssertFail => {
            ".func __assertfail(.param .b64 p0, .param .b64 p1, .param .b32 p2, .param .b64 p3, .param .b64 p4)"
        }
    }
}
