//! The objects of a program.

use anyhow::{Context, Result};
use culd_cubin::capmerc::{Capsule, ImageLoad};
use culd_cubin::elf::{stb, sto};
use culd_cubin::note::CuInfo;
use culd_cubin::{Cubin, RelocEntry, SectionIndex, Symbol, SymbolIndex, SymbolSection};
use std::collections::HashSet;

/// The objects, parsed.
pub struct Objects<'d> {
    all: Vec<Cubin<'d>>,
}

/// A variable of the program: a global one by name, a local one by object and number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum VariableKey {
    Global(Vec<u8>),
    Local(usize, SymbolIndex),
}

/// A function of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct FunctionCode {
    pub(super) object: usize,
    pub(super) text: SectionIndex,
}

/// A field of a variable that may get an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct AddressField {
    /// Offset in the variable, bytes.
    pub(super) offset: u64,
    /// The type of its relocation.
    pub(super) kind: u32,
}

/// The size and the alignment of a variable, bytes. The alignment counts for shared variables only.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) size: u64,
    pub(super) align: u64,
}

impl<'d> Objects<'d> {
    /// Reads the objects.
    ///
    /// # Errors
    /// When one is malformed.
    pub fn parse(objects: &'d [Vec<u8>]) -> Result<Self> {
        let parse = |bytes: &'d Vec<u8>| Cubin::parse(bytes).context("an object");
        Ok(Objects { all: objects.iter().map(parse).collect::<Result<_>>()? })
    }

    /// True if some name has more than one definition.
    pub fn any_repeated(&self) -> bool {
        let mut seen = HashSet::new();
        let symbols = self.all.iter().flat_map(|cubin| &cubin.symbols);
        let defined = symbols.filter(|symbol| {
            symbol.binding() != stb::LOCAL && symbol.section != SymbolSection::Undefined
        });
        !defined.map(|symbol| symbol.name).all(|name| seen.insert(name))
    }

    /// True if all were made for one virtual architecture.
    pub fn one_target(&self) -> bool {
        let target = |cubin: &Cubin<'_>| {
            let note = cubin.section_by_name(b".note.nv.cuinfo")?;
            CuInfo::parse(note.name, note.data).ok().map(|info| info.virtual_sm)
        };
        self.all.windows(2).all(|pair| target(&pair[0]) == target(&pair[1]))
    }

    pub(super) fn object(&self, object: usize) -> &Cubin<'d> {
        &self.all[object]
    }

    /// All functions of that name with code of their own, local ones or others.
    pub(super) fn functions(&self, name: &[u8], local: bool) -> Vec<FunctionCode> {
        let mut found = Vec::new();
        for (object, cubin) in self.all.iter().enumerate() {
            for symbol in cubin.symbols.iter().filter(|symbol| symbol.is_function()) {
                let Some(text) = symbol.defined_in() else { continue };
                let is_local = symbol.binding() == stb::LOCAL;
                if symbol.name == name && is_local == local {
                    found.push(FunctionCode { object, text });
                }
            }
        }
        found
    }

    /// Fields in variables of that name that may get an address in constant or shared memory.
    pub(super) fn addresses(&self, name: &[u8]) -> Vec<AddressField> {
        let mut places = Vec::new();
        for cubin in &self.all {
            let variables = cubin.symbols.iter().filter(|s| s.name == name && !s.is_function());
            for (variable, section) in variables.filter_map(|s| Some((s, s.defined_in()?))) {
                let range = variable.value..variable.value + variable.size;
                let records = super::patches(cubin, section)
                    .flat_map(|section| section.relocations().iter().collect::<Vec<RelocEntry>>());
                let resolved = |record: &RelocEntry| {
                    let space = cubin.symbol(record.symbol).map(|s| s.other & sto::SPACE);
                    range.contains(&record.offset)
                        && matches!(space, Some(sto::SPACE_CONSTANT | sto::SPACE_SHARED))
                };
                let at = |record: RelocEntry| AddressField {
                    offset: record.offset - variable.value,
                    kind: record.kind,
                };
                places.extend(records.filter(resolved).map(at));
            }
        }
        places
    }

    /// The patched places of a function's code: those of its relocation records, and those that
    /// only Mercury's code has (case textures/in-registers).
    pub(super) fn records(&self, function: FunctionCode) -> Vec<RelocEntry> {
        let object = self.object(function.object);
        let sections = super::patches(object, function.text);
        let records = sections.flat_map(|section| section.relocations().iter().collect::<Vec<_>>());
        records.chain(image_loads(object, function.text)).collect()
    }

    pub(super) fn symbol(&self, object: usize, index: SymbolIndex) -> Option<&Symbol<'d>> {
        self.object(object).symbol(index)
    }

    /// The variable that a symbol of an object names.
    pub(super) fn variable(&self, object: usize, index: SymbolIndex) -> Option<VariableKey> {
        let symbol = self.symbol(object, index)?;
        Some(match symbol.binding() {
            stb::LOCAL => VariableKey::Local(object, index),
            _ => VariableKey::Global(symbol.name.to_vec()),
        })
    }

    /// The largest size and the smallest alignment in any object, because any of several weak
    /// definitions may count.
    pub(super) fn extent(&self, variable: &VariableKey) -> Extent {
        let extent = |symbol: &Symbol<'_>| Extent {
            size: symbol.size,
            align: symbol.defined_in().map_or(u64::MAX, |_| symbol.value.max(1)),
        };
        match variable {
            VariableKey::Local(object, index) => {
                self.symbol(*object, *index).map_or(Extent { size: 0, align: 1 }, extent)
            }
            VariableKey::Global(name) => {
                let symbols = self.all.iter().flat_map(|cubin| &cubin.symbols);
                let same = symbols.filter(|s| s.name == name && s.binding() != stb::LOCAL);
                same.map(extent).fold(Extent { size: 0, align: u64::MAX }, |a, b| Extent {
                    size: a.size.max(b.size),
                    align: a.align.min(b.align),
                })
            }
        }
    }
}

/// The loads from slots of textures, as records that patch their addresses.
fn image_loads(object: &Cubin<'_>, text: SectionIndex) -> Vec<RelocEntry> {
    let machine = object.section(text).and_then(|section| section.name.strip_prefix(b".text."));
    let name = machine.map(|name| [&b".nv.capmerc.text."[..], name].concat());
    let section = name.and_then(|name| object.section_by_name(&name));
    let capsule = section.and_then(|section| Capsule::parse(section.name, section.data).ok());
    let loads = capsule.and_then(|capsule| capsule.image_loads().ok()).unwrap_or_default();
    let record = |load: ImageLoad| RelocEntry {
        offset: load.code,
        kind: ImageLoad::ADDRESS,
        symbol: SymbolIndex(0),
        addend: 0,
    };
    loads.into_iter().map(record).collect()
}
