//! From functions and variables to sections and symbols.
//!
//! In: a [`Builder`]. Out: an [`ObjectBuilder`], or an error. Guaranteed: sections stand in the
//! order in which ptxas writes them: debug information, notes, attributes, call graph, relocations,
//! constants, code, shared memory, banks of kernels, variables; then the same for Mercury.

use super::object::{
    Info, ObjectBuilder, ObjectSection, SectionContent, SectionLink, SectionRef, SymbolRef,
};
use super::{
    BuildError, Builder, BuilderSymbol, Code, DebugSection, Space, SymbolContent, Variable,
    VariableContents, check,
};
use crate::arch::{Arch, Flavour, Variant};
use crate::elf::{shf, sht};
use crate::note::{CuInfo, TYPE_TKINFO, write_record};

/// The release whose form these files have, for the driver's note.
const TOOLKIT: u16 = 130;
/// `.nv.compat` of code without special needs; the first value is 1 for an `a` target.
const COMPAT: [u8; 36] = [
    2, 9, 0, 0, 2, 2, 1, 0, 2, 5, 5, 0, 3, 7, 1, 1, 2, 3, 0, 0, 2, 6, 1, 0, 4, 0xb, 8, 0, 0, 0, 0,
    0, 0, 0, 0, 0,
];

/// Bytes of constant bank 0 in front of the parameters.
fn parameter_base(arch: &Arch) -> u32 {
    match arch.sm {
        0..90 => 0x160,
        90..100 => 0x210,
        _ => 0x380,
    }
}

pub(super) fn object(builder: &Builder) -> Result<ObjectBuilder, BuildError> {
    if let Some(error) = &builder.error {
        return Err(error.clone());
    }
    check::check(builder)?;
    let mut file = FileParts {
        base: parameter_base(builder.arch),
        builder,
        object: ObjectBuilder::new(builder.arch),
        places: vec![SymbolPlace::default(); builder.symbols.len()],
    };
    let mut fixed = file.sections();
    if builder.arch.flavour == Flavour::Mercury {
        file.mercury_sections(&mut fixed);
    }
    file.symbols(&fixed);
    file.attributes(&fixed);
    file.graph(&fixed);
    file.relocations(&fixed);
    Ok(file.object)
}

/// A section of machine code's half and its counterpart in Mercury.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HalfPair {
    pub(super) sass: Option<SectionRef>,
    pub(super) mercury: Option<SectionRef>,
}

impl HalfPair {
    /// A section without a counterpart.
    pub(super) fn without_mercury(sass: Option<SectionRef>) -> Self {
        HalfPair { sass, mercury: None }
    }
}

/// The sections of a symbol.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SymbolPlace {
    pub(super) symbol: Option<SymbolRef>,
    /// The section that defines it; none for a symbol that is defined elsewhere.
    pub(super) section: HalfPair,
    pub(super) value: u64,
    pub(super) size: u64,
    /// The relocations of that section.
    pub(super) relocations: HalfPair,
    /// A function's attributes, and its literals with their relocations; a kernel's bank, and the
    /// symbol of the bank.
    pub(super) attributes: HalfPair,
    pub(super) literals: HalfPair,
    pub(super) literal_relocations: HalfPair,
    pub(super) bank: Option<SectionRef>,
    pub(super) bank_symbol: Option<SymbolRef>,
}

/// Sections that occur once.
#[derive(Debug, Default)]
pub(super) struct SingleSections {
    pub(super) notes: [Option<SectionRef>; 2],
    pub(super) attributes: HalfPair,
    pub(super) graph: Option<SectionRef>,
    pub(super) prototypes: Option<SectionRef>,
    pub(super) init_relocations: HalfPair,
    pub(super) constant_relocations: HalfPair,
    pub(super) constants: HalfPair,
    pub(super) shared: Option<SectionRef>,
    pub(super) init: HalfPair,
    pub(super) global: Option<SectionRef>,
}

pub(super) struct FileParts<'b> {
    pub(super) builder: &'b Builder,
    pub(super) object: ObjectBuilder,
    pub(super) places: Vec<SymbolPlace>,
    /// Offset of the first parameter in bank 0.
    pub(super) base: u32,
}

pub(super) fn plain(
    name: impl Into<Vec<u8>>,
    sh_type: u32,
    flags: u64,
    align: u64,
    data: SectionContent,
) -> ObjectSection {
    ObjectSection::new(name, sh_type, data).flags(flags).align(align)
}

/// A section of records, empty so far.
pub(super) fn records(name: String, sh_type: u32) -> ObjectSection {
    let mercury = if sh_type == sht::MERCURY_RELA { shf::MERCURY } else { 0 };
    let section =
        plain(name, sh_type, shf::INFO_LINK | mercury, 8, SectionContent::Relocations(Vec::new()));
    section.link(SectionLink::Symbols)
}

impl<'b> FileParts<'b> {
    pub(super) fn functions(
        &self,
    ) -> impl Iterator<Item = (usize, &'b BuilderSymbol, &'b Code)> + use<'b> {
        let symbols = self.builder.symbols.iter().enumerate();
        symbols.filter_map(|(at, symbol)| match &symbol.what {
            SymbolContent::Function { code: Some(code), .. } => Some((at, symbol, &**code)),
            _ => None,
        })
    }

    /// Makes the sections of variables: of those without an owner, or of the literals of `owner`.
    pub(super) fn variables(
        &self,
        owner: Option<usize>,
    ) -> impl Iterator<Item = (usize, &'b Variable)> + use<'b> {
        let symbols = self.builder.symbols.iter().enumerate();
        symbols.filter_map(move |(at, symbol)| match &symbol.what {
            SymbolContent::Variable(variable) if variable.owner.map(|id| id.0) == owner => {
                Some((at, &**variable))
            }
            _ => None,
        })
    }

    pub(super) fn debug(
        &self,
    ) -> impl Iterator<Item = (usize, &'b BuilderSymbol, &'b DebugSection)> + use<'b> {
        let symbols = self.builder.symbols.iter().enumerate();
        symbols.filter_map(|(at, symbol)| match &symbol.what {
            SymbolContent::Debug(debug) => Some((at, symbol, &**debug)),
            _ => None,
        })
    }

    pub(super) fn place(&mut self, at: usize) -> &mut SymbolPlace {
        // Every symbol has its place.
        self.places.get_mut(at).unwrap_or_else(|| unreachable!("symbol {at} has no place"))
    }

    /// Makes all sections of machine code's half, the contents of code and variables included.
    fn sections(&mut self) -> SingleSections {
        let mut fixed = SingleSections::default();
        for (at, symbol, debug) in self.debug() {
            let bytes = SectionContent::Bytes(debug.bytes.clone());
            let section = plain(symbol.name.as_str(), sht::PROGBITS, 0, 1, bytes);
            self.place(at).section.sass = Some(self.object.section(section));
        }
        self.notes(&mut fixed);
        for (at, symbol, _) in self.functions() {
            let data = SectionContent::Attributes(Vec::new());
            let name = format!(".nv.info.{}", symbol.name);
            let section = plain(name, sht::CUDA_INFO, shf::INFO_LINK, 4, data);
            let section = self.object.section(section.link(SectionLink::Symbols));
            self.place(at).attributes.sass = Some(section);
        }
        let graph = SectionContent::CallGraph(Vec::new());
        let graph =
            plain(".nv.callgraph", sht::CUDA_CALLGRAPH, 0, 4, graph).link(SectionLink::Symbols);
        fixed.graph = Some(self.object.section(graph));
        let known = SectionContent::Prototypes(Vec::new());
        let known =
            plain(".nv.prototype", sht::CUDA_PROTOTYPE, 0, 4, known).link(SectionLink::Symbols);
        fixed.prototypes = Some(self.object.section(known));
        self.relocation_sections(&mut fixed);
        fixed.constants.sass = self.bank(Space::Constant, true, None);
        self.code();
        fixed.shared = self.shared();
        for (at, symbol, code) in self.functions() {
            let Some(kernel) = &code.kernel else { continue };
            let (_, size) = check::parameters(&kernel.parameters, self.base);
            let name = format!(".nv.constant0.{}", symbol.name);
            let data = SectionContent::Bytes(vec![0; (u64::from(self.base) + size) as usize]);
            let section = plain(name, sht::CUDA_CONSTANT0, shf::ALLOC | shf::INFO_LINK, 4, data);
            let section = section.info(about(self.place(at).section.sass));
            self.place(at).bank = Some(self.object.section(section));
        }
        fixed.init.sass = self.bank(Space::Global, true, None);
        fixed.global = self.bank(Space::Global, false, None);
        self.point(&fixed, |pair| pair.sass);
        fixed
    }

    fn code(&mut self) {
        for (at, symbol, code) in self.functions() {
            let literals = self.bank(Space::Constant, true, Some(at));
            self.place(at).literals.sass = literals;
            let name = format!(".text.{}", symbol.name);
            let flags = shf::ALLOC | shf::EXECINSTR;
            let data = SectionContent::Bytes(code.bytes.clone());
            let section = plain(name, sht::PROGBITS, flags, 128, data).link(SectionLink::Symbols);
            let section = self.object.section(section);
            let place = self.place(at);
            (place.section.sass, place.size) = (Some(section), code.bytes.len() as u64);
        }
    }

    fn notes(&mut self, fixed: &mut SingleSections) {
        let arch = self.builder.arch;
        let mut tools = Vec::new();
        write_record(&mut tools, TYPE_TKINFO, &self.builder.tool.descriptor(), 0);
        let tools =
            plain(".note.nv.tkinfo", sht::NOTE, shf::NOTE_TKINFO, 4, SectionContent::Bytes(tools));
        let tools = self.object.section(tools);
        let mut driver = Vec::new();
        let info = CuInfo { version: 2, virtual_sm: arch.sm as u16, toolkit: TOOLKIT };
        info.write(&mut driver);
        let driver =
            plain(".note.nv.cuinfo", sht::NOTE, shf::NOTE_CUINFO, 4, SectionContent::Bytes(driver));
        let driver = self.object.section(driver.link(SectionLink::Section(tools)));
        fixed.notes = [Some(tools), Some(driver)];
        let own = plain(".nv.info", sht::CUDA_INFO, 0, 4, SectionContent::Attributes(Vec::new()));
        fixed.attributes.sass = Some(self.object.section(own.link(SectionLink::Symbols)));
        if !arch.has_compat {
            return;
        }
        let compat = self.builder.compat.clone().unwrap_or_else(|| {
            let mut records = COMPAT;
            if arch.variant == Variant::Accelerated {
                records.iter_mut().skip(2).take(1).for_each(|value| *value = 1);
            }
            records.to_vec()
        });
        let compat = plain(".nv.compat", sht::CUDA_COMPAT, 0, 4, SectionContent::Bytes(compat));
        let compat = self.object.section(compat);
        if let Some(driver) = self.object.section_mut(driver) {
            driver.flags |= shf::INFO_LINK;
            driver.info = Info::Section(compat);
        }
    }

    fn relocation_sections(&mut self, fixed: &mut SingleSections) {
        for (at, symbol, code) in self.functions() {
            if !code.relocations.is_empty() {
                let section = records(format!(".rela.text.{}", symbol.name), sht::RELA);
                self.place(at).relocations.sass = Some(self.object.section(section));
            }
            if self.variables(Some(at)).any(|(_, one)| !one.relocations.is_empty()) {
                let section = records(format!(".rela.nv.constant2.{}", symbol.name), sht::RELA);
                self.place(at).literal_relocations.sass = Some(self.object.section(section));
            }
        }
        let has = |file: &Self, space| {
            let mut of = file.variables(None).filter(|(_, variable)| variable.space == space);
            of.any(|(_, variable)| !variable.relocations.is_empty())
        };
        if has(self, Space::Global) {
            let section = records(".rela.nv.global.init".to_owned(), sht::RELA);
            fixed.init_relocations.sass = Some(self.object.section(section));
        }
        if has(self, Space::Constant) {
            let section = records(".rela.nv.constant3".to_owned(), sht::RELA);
            fixed.constant_relocations.sass = Some(self.object.section(section));
        }
        for (at, symbol, debug) in self.debug() {
            if !debug.relocations.is_empty() {
                let section = records(format!(".rela{}", symbol.name), sht::RELA);
                self.place(at).relocations.sass = Some(self.object.section(section));
            }
        }
    }

    /// Sets `sh_info` of the relocation sections and attributes of one half.
    pub(super) fn point(
        &mut self,
        fixed: &SingleSections,
        half: fn(HalfPair) -> Option<SectionRef>,
    ) {
        let mut pairs = vec![
            (fixed.init_relocations, fixed.init),
            (fixed.constant_relocations, fixed.constants),
        ];
        for place in &self.places {
            pairs.push((place.relocations, place.section));
            pairs.push((place.attributes, place.section));
            pairs.push((place.literals, place.section));
            pairs.push((place.literal_relocations, place.literals));
        }
        for (section, target) in pairs {
            if let Some(section) = half(section).and_then(|one| self.object.section_mut(one)) {
                section.info = about(half(target));
            }
        }
    }

    /// The variables of a space in one section, or the literals of a function: those with bytes in
    /// the file or those without.
    fn bank(&mut self, space: Space, in_file: bool, owner: Option<usize>) -> Option<SectionRef> {
        let (mut data, mut end, mut align) = (Vec::new(), 0u64, 1);
        let mut members = Vec::new();
        for (at, variable) in self.variables(owner).filter(|(_, one)| one.space == space) {
            // Constants are always in the file.
            let bytes = match &variable.contents {
                VariableContents::Bytes(bytes) if in_file => bytes.clone(),
                VariableContents::Zero(size) if in_file && space == Space::Constant => {
                    vec![0; *size as usize]
                }
                VariableContents::Zero(_) if !in_file && space == Space::Global => Vec::new(),
                _ => continue,
            };
            let size = variable.contents.size();
            let value = end.next_multiple_of(variable.align);
            if in_file {
                data.resize(value as usize, 0);
                data.extend_from_slice(&bytes);
            }
            end = value + size;
            align = variable.align.max(align);
            members.push((at, value, size));
        }
        if members.is_empty() {
            return None;
        }
        let owned = owner.and_then(|at| self.builder.symbols.get(at));
        let (name, sh_type, flags) = match (space, in_file, owned) {
            (_, _, Some(owner)) => {
                let name = format!(".nv.constant2.{}", owner.name);
                (name, sht::CUDA_CONSTANT0 + 2, shf::ALLOC | shf::INFO_LINK)
            }
            (Space::Constant, ..) => {
                (".nv.constant3".to_owned(), sht::CUDA_CONSTANT0 + 3, shf::ALLOC)
            }
            (_, true, _) => {
                (".nv.global.init".to_owned(), sht::CUDA_GLOBAL_INIT, shf::WRITE | shf::ALLOC)
            }
            (_, false, _) => (".nv.global".to_owned(), sht::CUDA_GLOBAL, shf::WRITE | shf::ALLOC),
        };
        let data = if in_file { SectionContent::Bytes(data) } else { SectionContent::Nothing(end) };
        let section = self.object.section(plain(name, sh_type, flags, align, data));
        for (at, value, size) in members {
            let place = self.place(at);
            (place.section.sass, place.value, place.size) = (Some(section), value, size);
        }
        Some(section)
    }

    /// Shared variables: the linker places them, their value is their alignment.
    fn shared(&mut self) -> Option<SectionRef> {
        let (mut size, mut align) = (0u64, 1);
        let mut members = Vec::new();
        for (at, variable) in self.variables(None).filter(|(_, one)| one.space == Space::Shared) {
            if let VariableContents::Zero(own) = variable.contents {
                size = size.next_multiple_of(variable.align) + own;
                align = variable.align.max(align);
                members.push((at, variable.align, own));
            }
        }
        if members.is_empty() {
            return None;
        }
        let flags = shf::WRITE | shf::ALLOC;
        let section = plain(
            ".nv_debug.shared",
            sht::CUDA_SHARED,
            flags,
            align,
            SectionContent::Nothing(size),
        );
        let section = self.object.section(section);
        for (at, value, size) in members {
            let place = self.place(at);
            (place.section.sass, place.value, place.size) = (Some(section), value, size);
        }
        Some(section)
    }
}

pub(super) fn about(section: Option<SectionRef>) -> Info {
    section.map_or(Info::Number(0), Info::Section)
}
