//! From the parts to the file.
//!
//! In: a [`Builder`]. Out: bytes, or what is wrong. Guaranteed: sections stand in the order in which ptxas writes them: notes,
//! attributes, call graph, relocations, constants, code, shared memory, banks of kernels, variables.

use std::collections::HashSet;

use super::sections::{STRINGS, SYMBOLS, Section, Sections, Strings};
use super::{
    AttributeValue, BuildError, Builder, Code, Contents, Linkage, Relocation, Space, Symbol,
    SymbolId, Variable, What,
};
use crate::attr::{Record, code, format};
use crate::cubin::{MAX_ALIGN, MAX_SIZE};
use crate::elf::{shf, sht, sto, stt};
use crate::encode::{SymbolEntry, write_rela};
use crate::note::{TYPE_CUINFO, TYPE_TKINFO, write_record};

/// The release whose files these are like, for the driver's note.
const TOOLKIT: u16 = 130;
/// `CUDA_API_VERSION` of that release.
const API_VERSION: u32 = 130;
/// Bytes of constant bank 0 in front of the parameters, before sm_90 and since.
const fn parameter_base(since_90: bool) -> u32 {
    if since_90 { 0x210 } else { 0x160 }
}
/// More bytes than a constant variable can have.
const MOST_CONSTANT: u64 = 1 << 20;
/// `.nv.compat` of code without special needs; the first value is 1 for `sm_90a`.
const COMPAT: [u8; 36] = [
    2, 9, 0, 0, 2, 2, 1, 0, 2, 5, 5, 0, 3, 7, 1, 1, 2, 3, 0, 0, 2, 6, 1, 0, 4, 0xb, 8, 0, 0, 0, 0,
    0, 0, 0, 0, 0,
];

pub(super) fn finish(builder: Builder) -> Result<Vec<u8>, BuildError> {
    if let Some(error) = builder.error {
        return Err(error);
    }
    check(&builder)?;
    let mut file = File {
        base: parameter_base(builder.arch.has_compat),
        builder: &builder,
        strings: Strings::new(),
        sections: Sections::new(),
        places: vec![Place::default(); builder.symbols.len()],
    };
    let fixed = file.lay_out();
    file.symbols(&fixed);
    file.attributes(&fixed)?;
    file.graph(&fixed);
    file.relocations(&fixed);
    let flags = builder.arch.sm << 8 | 4 | fixed.cuinfo << 24;
    let phentsize = if builder.arch.has_compat { 0 } else { 56 };
    file.sections.write(file.strings.into_bytes(), flags, phentsize)
}

/// What can be said of each part alone, and of their names.
fn check(builder: &Builder) -> Result<(), BuildError> {
    let mut names = HashSet::new();
    for symbol in &builder.symbols {
        let name = || symbol.name.clone();
        if symbol.name.is_empty() || symbol.name.contains('\0') {
            return Err(BuildError::Name(name()));
        }
        // Local functions name sections too.
        let is_function = matches!(symbol.what, What::Function { .. });
        if (symbol.linkage != Linkage::Local || is_function) && !names.insert(&symbol.name) {
            return Err(BuildError::Twice(name()));
        }
        match &symbol.what {
            What::Function { code: None, .. } if symbol.linkage == Linkage::Local => {
                return Err(BuildError::Undefined(name()));
            }
            What::Function { code: None, .. } => {}
            What::Function { code: Some(code), .. } => check_code(builder, symbol, code)?,
            What::Variable(variable) => check_variable(builder, symbol, variable)?,
        }
    }
    Ok(())
}

fn check_code(builder: &Builder, symbol: &Symbol, code: &Code) -> Result<(), BuildError> {
    let name = || symbol.name.clone();
    let size = code.bytes.len();
    if size == 0 || !size.is_multiple_of(16) {
        return Err(BuildError::Code { name: name(), size });
    }
    check_relocations(builder, symbol, &code.relocations, size as u64)?;
    let is_function = |id: &SymbolId| {
        matches!(builder.symbols.get(id.0), Some(Symbol { what: What::Function { .. }, .. }))
    };
    if !code.calls.iter().all(is_function) {
        return Err(BuildError::Symbol(name()));
    }
    for attribute in &code.attributes {
        if let AttributeValue::Words(words) = &attribute.value
            && words.len() * 4 > usize::from(u16::MAX)
        {
            return Err(BuildError::Attribute { name: name(), code: attribute.code });
        }
    }
    let Some(kernel) = &code.kernel else { return Ok(()) };
    for &(_, align) in &kernel.parameters {
        check_align(symbol, align.into())?;
    }
    let (_, size) = parameters(&kernel.parameters, 0);
    match u16::try_from(size) {
        Ok(_) if kernel.parameters.len() <= usize::from(u16::MAX) => Ok(()),
        _ => Err(BuildError::Parameters(name())),
    }
}

fn check_variable(
    builder: &Builder,
    symbol: &Symbol,
    variable: &Variable,
) -> Result<(), BuildError> {
    check_align(symbol, variable.align)?;
    let most = if variable.space == Space::Constant { MOST_CONSTANT } else { MAX_SIZE };
    if variable.contents.size() > most {
        return Err(BuildError::TooLarge);
    }
    match (&variable.contents, variable.space) {
        (Contents::Bytes(_), Space::Shared) => Err(BuildError::Shared(symbol.name.clone())),
        (Contents::Bytes(bytes), _) => {
            check_relocations(builder, symbol, &variable.relocations, bytes.len() as u64)
        }
        (Contents::None(_), _) if symbol.linkage == Linkage::Local => {
            Err(BuildError::Undefined(symbol.name.clone()))
        }
        _ => check_relocations(builder, symbol, &variable.relocations, 0),
    }
}

fn check_align(symbol: &Symbol, align: u64) -> Result<(), BuildError> {
    match align.is_power_of_two() && align <= MAX_ALIGN {
        true => Ok(()),
        false => Err(BuildError::Align { name: symbol.name.clone(), align }),
    }
}

fn check_relocations(
    builder: &Builder,
    symbol: &Symbol,
    relocations: &[Relocation],
    size: u64,
) -> Result<(), BuildError> {
    for relocation in relocations {
        if relocation.symbol.is_some_and(|id| id.0 >= builder.symbols.len()) {
            return Err(BuildError::Symbol(symbol.name.clone()));
        }
        if relocation.offset >= size {
            let name = symbol.name.clone();
            return Err(BuildError::Relocation { name, offset: relocation.offset });
        }
    }
    Ok(())
}

/// Where a symbol is.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// Its index in the symbol table.
    symbol: u32,
    /// Its section; 0 for what is defined elsewhere.
    section: u32,
    value: u64,
    size: u64,
    /// Of a function: its attributes; of a kernel: its bank, and the symbol of that.
    attributes: u32,
    bank: u32,
    bank_symbol: u32,
    /// Its relocations.
    relocations: u32,
}

/// Indices of sections that are there once.
#[derive(Debug, Default)]
struct Fixed {
    cuinfo: u32,
    attributes: u32,
    graph: u32,
    prototypes: u32,
    global_init_relocations: u32,
    constant_relocations: u32,
    constants: u32,
    shared: u32,
    global_init: u32,
    global: u32,
}

struct File<'b> {
    builder: &'b Builder,
    strings: Strings,
    sections: Sections,
    places: Vec<Place>,
    /// Where parameters begin in bank 0.
    base: u32,
}

fn plain(name: impl Into<String>, sh_type: u32, flags: u64, align: u64) -> Section {
    Section { name: name.into(), sh_type, flags, align, ..Section::default() }
}

impl<'b> File<'b> {
    fn functions(&self) -> impl Iterator<Item = (usize, &'b Symbol, &'b Code)> + use<'b> {
        let symbols = self.builder.symbols.iter().enumerate();
        symbols.filter_map(|(at, symbol)| match &symbol.what {
            What::Function { code: Some(code), .. } => Some((at, symbol, &**code)),
            _ => None,
        })
    }

    fn variables(&self) -> impl Iterator<Item = (usize, &'b Variable)> + use<'b> {
        let symbols = self.builder.symbols.iter().enumerate();
        symbols.filter_map(|(at, symbol)| match &symbol.what {
            What::Variable(variable) => Some((at, &**variable)),
            What::Function { .. } => None,
        })
    }

    fn place(&mut self, at: usize) -> &mut Place {
        // Every symbol has its place.
        self.places.get_mut(at).unwrap_or_else(|| unreachable!("symbol {at} has no place"))
    }

    /// Makes all sections, the contents of code and variables included.
    fn lay_out(&mut self) -> Fixed {
        let mut fixed = Fixed::default();
        self.notes(&mut fixed);
        for (at, symbol, _) in self.functions() {
            let mut section =
                plain(format!(".nv.info.{}", symbol.name), sht::CUDA_INFO, shf::INFO_LINK, 4);
            section.link = SYMBOLS;
            self.place(at).attributes = self.sections.add(section);
        }
        let graph = plain(".nv.callgraph", sht::CUDA_CALLGRAPH, 0, 4);
        fixed.graph = self.sections.add(Section { link: SYMBOLS, entsize: 8, ..graph });
        let prototypes = plain(".nv.prototype", sht::CUDA_PROTOTYPE, 0, 4);
        fixed.prototypes = self.sections.add(Section { link: SYMBOLS, entsize: 8, ..prototypes });
        self.relocation_sections(&mut fixed);
        fixed.constants = self.bank_of_variables(Space::Constant, true);
        for (at, symbol, code) in self.functions() {
            let mut section = plain(
                format!(".text.{}", symbol.name),
                sht::PROGBITS,
                shf::ALLOC | shf::EXECINSTR,
                128,
            );
            section.link = SYMBOLS;
            section.data.clone_from(&code.bytes);
            let (index, size) = (self.sections.add(section), code.bytes.len() as u64);
            let place = self.place(at);
            (place.section, place.size) = (index, size);
        }
        fixed.shared = self.shared();
        for (at, symbol, code) in self.functions() {
            let Some(kernel) = &code.kernel else { continue };
            let (_, size) = parameters(&kernel.parameters, self.base);
            let name = format!(".nv.constant0.{}", symbol.name);
            let mut section = plain(name, sht::CUDA_CONSTANT0, shf::ALLOC | shf::INFO_LINK, 4);
            section.info = self.place(at).section;
            section.data = vec![0; (u64::from(self.base) + size) as usize];
            self.place(at).bank = self.sections.add(section);
        }
        fixed.global_init = self.bank_of_variables(Space::Global, true);
        fixed.global = self.bank_of_variables(Space::Global, false);
        self.point_relocations(&fixed);
        fixed
    }

    fn notes(&mut self, fixed: &mut Fixed) {
        let arch = self.builder.arch;
        let mut tools = plain(".note.nv.tkinfo", sht::NOTE, shf::NOTE_TKINFO, 4);
        write_record(&mut tools.data, TYPE_TKINFO, &self.builder.tool.descriptor(), 0);
        let tools = self.sections.add(tools);
        let mut driver = plain(".note.nv.cuinfo", sht::NOTE, shf::NOTE_CUINFO, 4);
        let halves = [2, arch.sm as u16, TOOLKIT];
        let descriptor: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        write_record(&mut driver.data, TYPE_CUINFO, &descriptor, 0);
        driver.link = tools;
        fixed.cuinfo = self.sections.add(driver);
        let attributes = plain(".nv.info", sht::CUDA_INFO, 0, 4);
        fixed.attributes = self.sections.add(Section { link: SYMBOLS, ..attributes });
        if !arch.has_compat {
            return;
        }
        let mut compat = plain(".nv.compat", sht::CUDA_COMPAT, 0, 4);
        compat.data = self.builder.compat.clone().unwrap_or_else(|| {
            let mut records = COMPAT;
            if arch.variant == crate::arch::Variant::Accelerated {
                records.iter_mut().skip(2).take(1).for_each(|value| *value = 1);
            }
            records.to_vec()
        });
        let compat = self.sections.add(compat);
        if let Some(driver) = self.sections.get(fixed.cuinfo) {
            driver.flags |= shf::INFO_LINK;
            driver.info = compat;
        }
    }

    fn relocation_sections(&mut self, fixed: &mut Fixed) {
        let section = |name: String| Section {
            link: SYMBOLS,
            entsize: 24,
            ..plain(name, sht::RELA, shf::INFO_LINK, 8)
        };
        for (at, symbol, code) in self.functions() {
            if !code.relocations.is_empty() {
                let index = self.sections.add(section(format!(".rela.text.{}", symbol.name)));
                self.place(at).relocations = index;
            }
        }
        let has = |file: &Self, space| {
            let mut of = file.variables().filter(|(_, variable)| variable.space == space);
            of.any(|(_, variable)| !variable.relocations.is_empty())
        };
        if has(self, Space::Global) {
            fixed.global_init_relocations =
                self.sections.add(section(".rela.nv.global.init".to_owned()));
        }
        if has(self, Space::Constant) {
            fixed.constant_relocations =
                self.sections.add(section(".rela.nv.constant3".to_owned()));
        }
    }

    /// Relocation sections and attributes say what they are for.
    fn point_relocations(&mut self, fixed: &Fixed) {
        let mut pairs = vec![
            (fixed.global_init_relocations, fixed.global_init),
            (fixed.constant_relocations, fixed.constants),
        ];
        for place in &self.places {
            pairs.push((place.relocations, place.section));
            pairs.push((place.attributes, place.section));
        }
        for (section, target) in pairs.into_iter().filter(|(section, _)| *section != 0) {
            if let Some(section) = self.sections.get(section) {
                section.info = target;
            }
        }
    }

    /// The variables of a space in one section: those with bytes in the file or those without. 0 if there are none.
    fn bank_of_variables(&mut self, space: Space, in_file: bool) -> u32 {
        let (mut data, mut end, mut align) = (Vec::new(), 0u64, 1);
        let mut members = Vec::new();
        for (at, variable) in self.variables().filter(|(_, variable)| variable.space == space) {
            // Constants are always in the file.
            let bytes = match &variable.contents {
                Contents::Bytes(bytes) if in_file => bytes.clone(),
                Contents::Zero(size) if in_file && space == Space::Constant => {
                    vec![0; *size as usize]
                }
                Contents::Zero(_) if !in_file && space == Space::Global => Vec::new(),
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
            return 0;
        }
        let (name, sh_type, flags) = match (space, in_file) {
            (Space::Constant, _) => (".nv.constant3", sht::CUDA_CONSTANT0 + 3, shf::ALLOC),
            (_, true) => (".nv.global.init", sht::CUDA_GLOBAL_INIT, shf::WRITE | shf::ALLOC),
            (_, false) => (".nv.global", sht::CUDA_GLOBAL, shf::WRITE | shf::ALLOC),
        };
        let index =
            self.sections.add(Section { data, size: end, ..plain(name, sh_type, flags, align) });
        for (at, value, size) in members {
            let place = self.place(at);
            (place.section, place.value, place.size) = (index, value, size);
        }
        index
    }

    /// Shared variables: the linker places them, their value is their alignment.
    fn shared(&mut self) -> u32 {
        let (mut size, mut align) = (0u64, 1);
        let mut members = Vec::new();
        for (at, variable) in self.variables().filter(|(_, one)| one.space == Space::Shared) {
            if let Contents::Zero(own) = variable.contents {
                size = size.next_multiple_of(variable.align) + own;
                align = variable.align.max(align);
                members.push((at, variable.align, own));
            }
        }
        if members.is_empty() {
            return 0;
        }
        let flags = shf::WRITE | shf::ALLOC;
        let section = plain(".nv_debug.shared", sht::CUDA_SHARED, flags, align);
        let index = self.sections.add(Section { size, ..section });
        for (at, value, size) in members {
            let place = self.place(at);
            (place.section, place.value, place.size) = (index, value, size);
        }
        index
    }

    /// The symbol table: the sections, what is local, what others see.
    fn symbols(&mut self, fixed: &Fixed) {
        let mut entries = vec![SymbolEntry::default()];
        let section_symbol = |file: &mut Self, entries: &mut Vec<SymbolEntry>, index: u32| {
            let name = file.sections.get(index).map(|section| section.name.clone());
            let name = file.strings.add(&name.unwrap_or_default());
            let section = index as u16;
            entries.push(SymbolEntry {
                name,
                info: stt::SECTION,
                section,
                ..SymbolEntry::default()
            });
            (entries.len() - 1) as u32
        };
        let shared = [fixed.constants, fixed.shared, fixed.global_init, fixed.global];
        let code = self.functions().map(|(at, ..)| at).collect::<Vec<_>>();
        for at in code {
            let (section, bank) = (self.place(at).section, self.place(at).bank);
            section_symbol(self, &mut entries, section);
            if bank != 0 {
                self.place(at).bank_symbol = section_symbol(self, &mut entries, bank);
            }
        }
        for index in shared.into_iter().filter(|&index| index != 0) {
            section_symbol(self, &mut entries, index);
        }
        let mut first_global = 0;
        for local in [true, false] {
            if !local {
                first_global = entries.len() as u32;
            }
            for (at, symbol) in self.builder.symbols.iter().enumerate() {
                if (symbol.linkage == Linkage::Local) == local {
                    let name = self.strings.add(&symbol.name);
                    let place = self.place(at);
                    place.symbol = entries.len() as u32;
                    entries.push(entry(symbol, name, place));
                }
            }
        }
        if let Some(table) = self.sections.get(SYMBOLS) {
            table.link = STRINGS;
            table.info = first_global;
            table.data = entries.iter().flat_map(SymbolEntry::bytes).collect();
        }
    }

    /// `.nv.info` and those of the functions.
    fn attributes(&mut self, fixed: &Fixed) -> Result<(), BuildError> {
        let mut all = Vec::new();
        for (at, symbol, code) in self.functions() {
            let Place { symbol: index, attributes, section, bank_symbol, .. } = *self.place(at);
            for (attribute, value) in [
                (code::REGCOUNT, code.registers.into()),
                (code::MAX_STACK_SIZE, 0),
                (code::FRAME_SIZE, code.frame),
            ] {
                words(&mut all, attribute, &[index, value]);
            }
            if self.builder.arch.registers_in_text_info {
                self.code_info(section, index | u32::from(code.registers) << 24);
            } else {
                self.code_info(section, index);
            }
            let mut own = Vec::new();
            words(&mut own, code::CUDA_API_VERSION, &[API_VERSION]);
            if let Some(kernel) = &code.kernel {
                self.kernel_attributes(symbol, &kernel.parameters, bank_symbol, &mut own)?;
                half(&mut own, code::MAXREG_COUNT, 0xff);
                write(&mut own, format::BYTE, code::NUM_BARRIERS, code.barriers.into(), &[]);
            }
            let foreign: Vec<u32> = code.calls.iter().filter_map(|id| self.foreign(*id)).collect();
            if !foreign.is_empty() {
                words(&mut own, code::EXTERNS, &foreign);
            }
            for attribute in &code.attributes {
                match &attribute.value {
                    AttributeValue::None => write(&mut own, format::NONE, attribute.code, 0, &[]),
                    AttributeValue::Byte(value) => {
                        write(&mut own, format::BYTE, attribute.code, (*value).into(), &[]);
                    }
                    AttributeValue::Half(value) => half(&mut own, attribute.code, *value),
                    AttributeValue::Words(values) => words(&mut own, attribute.code, values),
                }
            }
            if let Some(section) = self.sections.get(attributes) {
                section.data = own;
            }
        }
        if let Some(section) = self.sections.get(fixed.attributes) {
            section.data = all;
        }
        Ok(())
    }

    fn code_info(&mut self, section: u32, info: u32) {
        if let Some(section) = self.sections.get(section) {
            section.info = info;
        }
    }

    /// The symbol index of a function that another object defines.
    fn foreign(&self, id: SymbolId) -> Option<u32> {
        let place = self.places.get(id.0)?;
        (place.section == 0).then_some(place.symbol)
    }

    fn kernel_attributes(
        &self,
        symbol: &Symbol,
        sizes: &[(u32, u32)],
        bank_symbol: u32,
        own: &mut Vec<u8>,
    ) -> Result<(), BuildError> {
        let too_large = || BuildError::Parameters(symbol.name.clone());
        let (offsets, size) = parameters(sizes, self.base);
        let size = u16::try_from(size).map_err(|_| too_large())?;
        // KPARAM_INFO has 14 bits for a size.
        let large = sizes.iter().any(|&(size, _)| size >= 1 << 14);
        for ((ordinal, offset), &(size, _)) in offsets.iter().enumerate().zip(sizes).rev() {
            let ordinal = u16::try_from(ordinal).map_err(|_| too_large())?;
            let place = *offset << 16 | u32::from(ordinal);
            match large {
                true => words(own, code::KPARAM_INFO_V2, &[0, place, size]),
                false => words(own, code::KPARAM_INFO, &[0, place, size << 18 | 0x1f000]),
            }
        }
        half(own, code::CBANK_PARAM_SIZE, size);
        words(own, code::PARAM_CBANK, &[bank_symbol, u32::from(size) << 16 | self.base]);
        Ok(())
    }

    /// `.nv.callgraph` and `.nv.prototype`.
    fn graph(&mut self, fixed: &Fixed) {
        let (mut calls, mut taken, mut indirect, mut known) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (at, symbol) in self.builder.symbols.iter().enumerate() {
            let own = self.place(at).symbol;
            let What::Function { code, prototype } = &symbol.what else { continue };
            for callee in code.iter().flat_map(|code| &code.calls) {
                calls.push((own, self.place(callee.0).symbol));
            }
            for prototype in code.iter().flat_map(|code| &code.indirect_calls) {
                indirect.push((own, self.strings.add(prototype)));
            }
            if let Some((text, address_taken)) = prototype {
                let list = if *address_taken { &mut taken } else { &mut known };
                list.push((own, self.strings.add(text)));
            }
        }
        let mut graph = Vec::new();
        for (list, number) in [(calls, 1u32), (taken, 2), (indirect, 3), (Vec::new(), 4)] {
            graph.push((0, number.wrapping_neg()));
            graph.extend(list);
        }
        let bytes = |pairs: Vec<(u32, u32)>| -> Vec<u8> {
            pairs
                .into_iter()
                .flat_map(|(a, b)| [a.to_le_bytes(), b.to_le_bytes()].concat())
                .collect()
        };
        for (index, pairs) in [(fixed.graph, graph), (fixed.prototypes, known)] {
            if let Some(section) = self.sections.get(index) {
                section.data = bytes(pairs);
            }
        }
    }

    fn relocations(&mut self, fixed: &Fixed) {
        for (at, _, code) in self.functions() {
            let index = self.place(at).relocations;
            self.write_relocations(index, &code.relocations, 0);
        }
        for (at, variable) in self.variables() {
            let base = self.place(at).value;
            let index = match variable.space {
                Space::Constant => fixed.constant_relocations,
                Space::Global | Space::Shared => fixed.global_init_relocations,
            };
            self.write_relocations(index, &variable.relocations, base);
        }
    }

    fn write_relocations(&mut self, index: u32, relocations: &[Relocation], base: u64) {
        let mut data = Vec::new();
        for one in relocations {
            let symbol = one.symbol.map_or(0, |id| self.place(id.0).symbol);
            write_rela(&mut data, base + one.offset, symbol, one.kind, one.addend);
        }
        if let Some(section) = self.sections.get(index).filter(|_| index != 0) {
            section.data.extend(data);
        }
    }
}

impl Contents {
    fn size(&self) -> u64 {
        match self {
            Contents::Bytes(bytes) => bytes.len() as u64,
            Contents::Zero(size) | Contents::None(size) => *size,
        }
    }
}

fn entry(symbol: &Symbol, name: u32, place: &Place) -> SymbolEntry {
    let binding = match symbol.linkage {
        Linkage::Local => crate::elf::stb::LOCAL,
        Linkage::Global => crate::elf::stb::GLOBAL,
        Linkage::Weak => crate::elf::stb::WEAK,
    };
    let (kind, other) = match &symbol.what {
        What::Function { code, .. } => {
            let entry = code.as_ref().is_some_and(|code| code.kernel.is_some());
            (stt::FUNC, if entry { sto::ENTRY } else { 0 })
        }
        What::Variable(variable) => match variable.space {
            Space::Global => (stt::CUDA_OBJECT, sto::SPACE_GLOBAL),
            Space::Constant => (stt::CUDA_OBJECT, sto::SPACE_CONSTANT),
            Space::Shared => (stt::CUDA_OBJECT, sto::SPACE_SHARED),
        },
    };
    let size = match &symbol.what {
        What::Variable(variable) => variable.contents.size(),
        What::Function { .. } => place.size,
    };
    let (section, value) = (place.section as u16, place.value);
    SymbolEntry { name, info: binding << 4 | kind, other, section, value, size }
}

/// Where the parameters of a kernel lie and how long they are: aligned by their addresses in bank 0.
fn parameters(sizes: &[(u32, u32)], base: u32) -> (Vec<u32>, u64) {
    let mut end = u64::from(base);
    let mut offsets = Vec::with_capacity(sizes.len());
    for &(size, align) in sizes {
        let address = end.next_multiple_of(align.max(1).into());
        offsets.push((address - u64::from(base)) as u32);
        end = address + u64::from(size);
    }
    (offsets, end - u64::from(base))
}

fn write(out: &mut Vec<u8>, format: u8, code: u8, value: u16, payload: &[u8]) {
    Record { format, code, value, payload }.write(out);
}

fn half(out: &mut Vec<u8>, code: u8, value: u16) {
    write(out, format::HALF, code, value, &[]);
}

fn words(out: &mut Vec<u8>, code: u8, words: &[u32]) {
    let payload: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    write(out, format::SIZED, code, payload.len() as u16, &payload);
}
