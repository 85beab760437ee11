//! What a linked image holds, and what it does not.
//!
//! In: the image and what the linker said of it. Out: a [`Report`]. Guaranteed: names and sizes are
//! those of the image.

use std::collections::HashMap;

use culd_cubin::attr::{Record, Records, code};
use culd_cubin::elf::{stb, stt};
use culd_cubin::parameter::KernelParameter;
use culd_cubin::{Cubin, Malformed, SymbolSection};
use culd_link::{Account, Function, Removed};

/// What is in an image, and what is not. Sizes are bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Global variables.
    pub global: u64,
    /// Constant variables, where there are some.
    pub constant: Option<u64>,
    /// Kernels, the one whose code was created last first, as `-v` tells them.
    pub kernels: Vec<Kernel>,
    /// Sections in file order, without the null section.
    pub sections: Vec<Section>,
    /// Symbols in file order, without the null symbol and those of sections.
    pub symbols: Vec<Symbol>,
    /// The call graph.
    pub functions: Vec<Function>,
    /// Definitions of the inputs that are not in the image, and why.
    pub removed: Vec<Removed>,
}

/// A kernel. Sizes are bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kernel {
    /// Mangled name.
    pub name: String,
    /// Registers per thread of the whole call tree.
    pub registers: u32,
    /// Barriers per block.
    pub barriers: u32,
    /// Stack per thread; the kernel's own when recursion makes the rest unknown.
    pub stack: u32,
    /// Shared memory per block, with the part that the system keeps (sm_90 and later).
    pub shared: u64,
    /// Constant bank 0: what the driver passes, and parameters.
    pub constant0: Option<u64>,
    /// Constant bank 2, literals, where there are some.
    pub constant2: Option<u64>,
    /// Legacy textures that it can use.
    pub textures: usize,
    /// Legacy surfaces that it can use.
    pub surfaces: usize,
    /// Legacy samplers that it can use.
    pub samplers: usize,
    /// All parameters together.
    pub parameter_size: u32,
    /// Where they begin in constant bank 0.
    pub parameter_offset: u32,
    /// Parameters in order.
    pub parameters: Vec<Parameter>,
}

/// A parameter of a kernel. Sizes are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parameter {
    /// Its number, from 0.
    pub ordinal: u16,
    /// From the first parameter's begin.
    pub offset: u32,
    /// Its size.
    pub size: u32,
}

/// A section.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Section {
    /// Its name.
    pub name: String,
    /// `sh_type`.
    pub sh_type: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// Bytes, in the file or not.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u64,
}

/// A function or variable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Symbol {
    /// Mangled name.
    pub name: String,
    /// The section that holds it; `None` for what is undefined.
    pub section: Option<String>,
    /// Offset in the section.
    pub value: u64,
    /// Bytes.
    pub size: u64,
    /// It is a function.
    pub function: bool,
    /// It is local to its file.
    pub local: bool,
}

impl Report {
    pub(crate) fn build(
        cubin: &Cubin<'_>,
        report: &culd_link::Report,
        account: &Account,
    ) -> Result<Self, Malformed> {
        let mut layouts = layouts(cubin)?;
        let sizes = Sizes::of(cubin);
        let kernels = report.entries.iter().map(|entry| {
            let layout = layouts.remove(&entry.name).unwrap_or_default();
            let size = |kind| sizes.one(kind, &entry.name);
            Kernel {
                name: entry.name.clone(),
                registers: entry.registers,
                barriers: entry.barriers,
                stack: entry.stack,
                // `-v` tells less on sm_100 and later.
                shared: size(".nv.shared").unwrap_or(entry.shared),
                constant0: entry.constant0.or_else(|| size(".nv.constant0")),
                constant2: entry.constant2.or_else(|| size(".nv.constant2")),
                textures: entry.textures,
                surfaces: entry.surfaces,
                samplers: entry.samplers,
                parameter_size: layout.size,
                parameter_offset: layout.offset,
                parameters: layout.parameters,
            }
        });
        Ok(Report {
            global: report.global,
            constant: report.constant3.or_else(|| sizes.one(CONSTANTS, "")),
            kernels: kernels.collect(),
            sections: sections(cubin),
            symbols: symbols(cubin),
            functions: account.functions.clone(),
            removed: account.removed.clone(),
        })
    }
}

/// Sizes of sections by what they are and whose, as their own links tell; nothing where there are
/// several.
struct Sizes<'d>(HashMap<(&'static str, &'d [u8]), Option<u64>>);

/// Names of sections that belong to a kernel, up to its own.
const OF_KERNELS: &[&str] = &[".nv.shared", ".nv.constant0", ".nv.constant2"];
/// Constant variables.
const CONSTANTS: &str = ".nv.constant3";

impl<'d> Sizes<'d> {
    fn of(cubin: &Cubin<'d>) -> Self {
        let mut sizes = HashMap::with_capacity(cubin.sections.len());
        for section in &cubin.sections {
            let is = |kind: &&&'static str| {
                let rest = section.name.strip_prefix(kind.as_bytes());
                rest.is_some_and(|rest| rest.starts_with(b"."))
            };
            let code = section.info_section().and_then(|index| cubin.section(index));
            let owner = code.and_then(|code| code.name.strip_prefix(b".text."));
            let key = match (OF_KERNELS.iter().find(is), owner) {
                (Some(&kind), Some(owner)) => (kind, owner),
                _ if section.name == CONSTANTS.as_bytes() => (CONSTANTS, &b""[..]),
                _ => continue,
            };
            if sizes.insert(key, Some(section.size)).is_some() {
                sizes.insert(key, None);
            }
        }
        Sizes(sizes)
    }

    fn one(&self, kind: &'static str, owner: &str) -> Option<u64> {
        self.0.get(&(kind, owner.as_bytes())).copied().flatten()
    }
}

/// Where the parameters of a kernel are.
#[derive(Debug, Default)]
struct Layout {
    size: u32,
    offset: u32,
    parameters: Vec<Parameter>,
}

/// The parameters of all kernels by name.
fn layouts(cubin: &Cubin<'_>) -> Result<HashMap<String, Layout>, Malformed> {
    const PREFIX: &[u8] = b".nv.info.";
    let mut all = HashMap::new();
    for section in &cubin.sections {
        let Some(name) = section.name.strip_prefix(PREFIX) else { continue };
        let mut layout = Layout::default();
        for record in Records::new(section.name, section.data) {
            layout.take(&record?);
        }
        layout.parameters.sort_by_key(|parameter| parameter.ordinal);
        all.insert(text(name), layout);
    }
    Ok(all)
}

impl Layout {
    fn take(&mut self, record: &Record<'_>) {
        let word = |place| record.word(place).unwrap_or_default();
        match record.code {
            code::PARAM_CBANK => (self.offset, self.size) = (word(1) & 0xffff, word(1) >> 16),
            _ => self.parameters.extend(KernelParameter::of(record).map(
                |KernelParameter { ordinal, offset, size, .. }| Parameter { ordinal, offset, size },
            )),
        }
    }
}

fn sections(cubin: &Cubin<'_>) -> Vec<Section> {
    let real = cubin.sections.iter().skip(1);
    let section = |section: &culd_cubin::Section<'_>| Section {
        name: text(section.name),
        sh_type: section.sh_type,
        flags: section.flags,
        size: section.size,
        align: section.align(),
    };
    real.map(section).collect()
}

fn symbols(cubin: &Cubin<'_>) -> Vec<Symbol> {
    let real = cubin.symbols.iter().skip(1).filter(|symbol| symbol.kind() != stt::SECTION);
    let symbol = |symbol: &culd_cubin::Symbol<'_>| {
        let section = match symbol.section {
            SymbolSection::In(index) => cubin.section(index).map(|section| text(section.name)),
            _ => None,
        };
        Symbol {
            name: text(symbol.name),
            section,
            value: symbol.value,
            size: symbol.size,
            function: symbol.is_function(),
            local: symbol.binding() == stb::LOCAL,
        }
    };
    real.map(symbol).collect()
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
