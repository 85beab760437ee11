//! Parts that name symbols: the symbol table, attributes, call graph, relocations; and Mercury's
//! half of all sections.
//!
//! In: [`FileParts`] with the sections of machine code's half. Out: the complete file. Guaranteed:
//! symbols stand in the order in which ptxas writes them: those of sections, local ones, global
//! ones.

use super::finish::{FileParts, HalfPair, SingleSections, SymbolPlace, plain, records};
use super::object::{
    AttributePayload, AttributeWord, DefinitionPlace as In, Info, ObjectAttribute, ObjectEdge,
    ObjectRelocation, ObjectSection, ObjectSymbol, SectionContent, SectionLink, SectionRef,
    SymbolRef,
};
use super::{
    AttributeValue, BuilderSymbol, Code, LegacyReference, Linkage, Relocation, Space,
    SymbolContent, SymbolId, VariableContents, check,
};
use crate::attr::code;
use crate::elf::{shf, sht, stb, sto, stt};

/// `CUDA_API_VERSION` of the release whose form these files have.
const API_VERSION: u32 = 130;
/// Bytes that Mercury code is aligned to.
const CODE_ALIGN: u64 = 16;

impl FileParts<'_> {
    /// Makes Mercury's half of the sections.
    pub(super) fn mercury_sections(&mut self, fixed: &mut SingleSections) {
        self.mercury_code();
        let info = plain(".nv.merc.nv.info", sht::MERCURY_INFO, shf::MERCURY, 4, no_attributes());
        fixed.attributes.mercury = Some(self.object.section(info.link(SectionLink::Symbols)));
        for (at, symbol, _) in self.functions() {
            let name = format!(".nv.merc.nv.info.{}", symbol.name);
            let flags = shf::MERCURY | shf::INFO_LINK;
            let info = plain(name, sht::MERCURY_INFO, flags, 4, no_attributes());
            self.place(at).attributes.mercury =
                Some(self.object.section(info.link(SectionLink::Symbols)));
        }
        self.mercury_relocations(fixed);
        fixed.constants.mercury = self.shared_bytes(
            fixed.constants.sass,
            ".nv.merc.nv.constant.user",
            sht::MERCURY_CONSTANT_USER,
        );
        self.mercury_literals();
        fixed.init.mercury =
            self.shared_bytes(fixed.init.sass, ".nv.merc.nv.global.init", sht::CUDA_GLOBAL_INIT);
        for (at, variable) in self.variables(None) {
            let mercury = match (&variable.contents, variable.space) {
                (VariableContents::Bytes(_) | VariableContents::Zero(_), Space::Constant) => {
                    fixed.constants.mercury
                }
                (VariableContents::Bytes(_), _) => fixed.init.mercury,
                _ => None,
            };
            self.place(at).section.mercury = mercury;
        }
        self.point(fixed, |pair| pair.mercury);
    }

    /// Mercury code, and debug information behind it.
    fn mercury_code(&mut self) {
        for (at, symbol, code) in self.functions() {
            let (Some(mercury), Some(own)) = (&code.mercury, self.place(at).section.sass) else {
                continue;
            };
            let data = SectionContent::Mercury { code: own, rest: mercury.rest.clone() };
            let name = format!(".nv.capmerc.text.{}", symbol.name);
            let section = plain(name, sht::MERCURY_CODE, shf::MERCURY, CODE_ALIGN, data);
            let section = self.object.section(section.link(SectionLink::Symbols));
            self.place(at).section.mercury = Some(section);
        }
        for (at, symbol, debug) in self.debug() {
            let Some(bytes) = &debug.mercury else { continue };
            let name = format!(".nv.merc{}", symbol.name);
            let data = SectionContent::Bytes(bytes.clone());
            let section = plain(name, sht::PROGBITS, shf::MERCURY, 1, data);
            self.place(at).section.mercury = Some(self.object.section(section));
        }
    }

    /// A counterpart with the same bytes.
    fn shared_bytes(
        &mut self,
        own: Option<SectionRef>,
        name: &str,
        sh_type: u32,
    ) -> Option<SectionRef> {
        let own = own?;
        let ObjectSection { flags, align, .. } = *self.object.section_mut(own)?;
        let same = SectionContent::Same(own);
        let counterpart = plain(name, sh_type, flags | shf::MERCURY, align, same);
        Some(self.object.section(counterpart))
    }

    fn mercury_relocations(&mut self, fixed: &mut SingleSections) {
        let section = |name: &str| records(format!(".nv.merc.rela{name}"), sht::MERCURY_RELA);
        for (at, symbol, code) in self.functions() {
            if code.mercury.as_ref().is_some_and(|mercury| !mercury.relocations.is_empty()) {
                let section = section(&format!(".text.{}", symbol.name));
                self.place(at).relocations.mercury = Some(self.object.section(section));
            }
            if self.variables(Some(at)).any(|(_, one)| !one.mercury_relocations.is_empty()) {
                let section = section(&format!(".nv.constant.optimizer.{}", symbol.name));
                self.place(at).literal_relocations.mercury = Some(self.object.section(section));
            }
        }
        let has = |file: &Self, space| {
            let mut of = file.variables(None).filter(|(_, variable)| variable.space == space);
            of.any(|(_, variable)| !variable.mercury_relocations.is_empty())
        };
        if has(self, Space::Global) {
            fixed.init_relocations.mercury = Some(self.object.section(section(".nv.global.init")));
        }
        if has(self, Space::Constant) {
            fixed.constant_relocations.mercury =
                Some(self.object.section(section(".nv.constant.user")));
        }
        for (at, symbol, debug) in self.debug() {
            if !debug.mercury_relocations.is_empty() {
                let section = section(&symbol.name);
                self.place(at).relocations.mercury = Some(self.object.section(section));
            }
        }
    }

    fn mercury_literals(&mut self) {
        for (at, symbol, _) in self.functions() {
            let Some(own) = self.place(at).literals.sass else { continue };
            let Some(ObjectSection {
                flags, align, contents: SectionContent::Bytes(bytes), ..
            }) = self.object.section_mut(own)
            else {
                continue;
            };
            let (flags, align, mut bytes) = (*flags | shf::MERCURY, *align, bytes.clone());
            for (literal, variable) in self.variables(Some(at)) {
                let start = self.place(literal).value as usize;
                let mercury = variable.mercury.iter().flatten();
                let room = bytes.iter_mut().skip(start);
                room.zip(mercury).for_each(|(place, byte)| *place = *byte);
            }
            let name = format!(".nv.merc.nv.constant.optimizer.{}", symbol.name);
            let data = SectionContent::Bytes(bytes);
            let section = plain(name, sht::MERCURY_CONSTANT_OPTIMIZER, flags, align, data);
            let section = self.object.section(section);
            self.place(at).literals.mercury = Some(section);
            for (literal, _) in self.variables(Some(at)) {
                self.place(literal).section.mercury = Some(section);
            }
        }
    }

    /// The symbol tables: sections, local symbols, global symbols.
    pub(super) fn symbols(&mut self, fixed: &SingleSections) {
        let code: Vec<usize> = self.functions().map(|(at, ..)| at).collect();
        let has_mercury = self.has_mercury();
        for &at in &code {
            let SymbolPlace { section, bank, literals, .. } = *self.place(at);
            self.section_symbol(section);
            self.section_symbol(literals);
            if !has_mercury {
                self.place(at).bank_symbol = self.section_symbol(HalfPair::without_mercury(bank));
            }
        }
        let (shared, global) = (fixed.shared, fixed.global);
        let [shared, global] = [shared, global].map(HalfPair::without_mercury);
        for pair in [fixed.constants, shared, fixed.init, global] {
            self.section_symbol(pair);
        }
        for (at, ..) in self.debug() {
            let pair = self.place(at).section;
            self.place(at).symbol = self.section_symbol(pair);
        }
        for local in [true, false] {
            for (at, symbol) in self.builder.symbols.iter().enumerate() {
                let is_debug = matches!(symbol.what, SymbolContent::Debug(_));
                if (symbol.linkage == Linkage::Local) == local && !is_debug {
                    self.add_symbol(at, symbol);
                }
            }
        }
        // Mercury's table has no parameters.
        for &at in code.iter().filter(|_| has_mercury) {
            let bank = self.place(at).bank;
            self.place(at).bank_symbol = self.section_symbol(HalfPair::without_mercury(bank));
        }
        self.name_code(&code);
    }

    fn has_mercury(&self) -> bool {
        self.object.arch().flavour == crate::arch::Flavour::Mercury
    }

    fn section_symbol(&mut self, HalfPair { sass, mercury }: HalfPair) -> Option<SymbolRef> {
        let own = sass?;
        let name = |file: &mut Self, section| {
            file.object.section_mut(section).map(|section: &mut ObjectSection| section.name.clone())
        };
        let entry =
            |name, section| ObjectSymbol::new(name, stb::LOCAL, stt::SECTION, In::In(section));
        let own_name = name(self, own)?;
        let is_bank = own_name.starts_with(b".nv.constant0.");
        let symbol = self.object.symbol(entry(own_name.clone(), own));
        let mercury_entry = match mercury {
            // Mercury's names of code and debug information are those of machine code here.
            Some(mercury) => {
                let mercury_name = name(self, mercury)?;
                let constant = mercury_name
                    .strip_prefix(b".nv.merc")
                    .filter(|rest| rest.starts_with(b".nv.constant."));
                entry(constant.map_or(own_name, <[u8]>::to_vec), mercury)
            }
            None => entry(own_name, own),
        };
        if self.has_mercury() && !is_bank {
            self.object.counterpart(symbol, mercury_entry);
        }
        Some(symbol)
    }

    fn add_symbol(&mut self, at: usize, symbol: &BuilderSymbol) {
        let place = *self.place(at);
        let own = entry(symbol, &place);
        let mut counterpart = own.clone();
        counterpart.place = place.section.mercury.map_or(own.place, In::In);
        if let SymbolContent::Function { code: Some(code), .. } = &symbol.what
            && let Some(mercury) = &code.mercury
        {
            counterpart.size = mercury.size;
        }
        let added = self.object.symbol(own);
        if self.has_mercury() {
            self.object.counterpart(added, counterpart);
        }
        self.place(at).symbol = Some(added);
    }

    /// Gives code the symbol of its function.
    fn name_code(&mut self, code: &[usize]) {
        let in_text_info = self.object.arch().registers_in_text_info;
        for &at in code {
            let SymbolPlace { section, symbol: Some(symbol), .. } = *self.place(at) else {
                continue;
            };
            let registers = match self.builder.symbols.get(at).map(|symbol| &symbol.what) {
                Some(SymbolContent::Function { code: Some(code), .. }) if in_text_info => {
                    code.registers
                }
                _ => 0,
            };
            for section in [section.sass, section.mercury].into_iter().flatten() {
                if let Some(section) = self.object.section_mut(section) {
                    section.info = Info::Function { symbol, registers };
                }
            }
        }
    }

    /// `.nv.info` and those of the functions, and Mercury's.
    pub(super) fn attributes(&mut self, fixed: &SingleSections) {
        let mut all = Vec::new();
        for (at, _, code) in self.functions() {
            let SymbolPlace { symbol: Some(symbol), attributes, bank_symbol, .. } = *self.place(at)
            else {
                continue;
            };
            for (attribute, value) in [
                (code::REGCOUNT, code.registers.into()),
                (code::MAX_STACK_SIZE, 0),
                (code::FRAME_SIZE, code.frame),
            ] {
                all.push(words(
                    attribute,
                    [AttributeWord::Symbol(symbol), AttributeWord::Number(value)],
                ));
            }
            let own = self.own_attributes(code, bank_symbol, &code.attributes);
            self.fill(attributes.sass, SectionContent::Attributes(own));
            if let Some(mercury) = &code.mercury {
                let own = self.own_attributes(code, None, &mercury.attributes);
                self.fill(attributes.mercury, SectionContent::Attributes(own));
            }
        }
        self.fill(fixed.attributes.mercury, SectionContent::Attributes(all.clone()));
        self.fill(fixed.attributes.sass, SectionContent::Attributes(all));
    }

    fn fill(&mut self, section: Option<SectionRef>, contents: SectionContent) {
        if let Some(section) = section.and_then(|section| self.object.section_mut(section)) {
            section.contents = contents;
        }
    }

    /// The attributes of a function. Without `bank` none of them says where its parameters are.
    fn own_attributes(
        &self,
        code: &Code,
        bank: Option<SymbolRef>,
        more: &[super::Attribute],
    ) -> Vec<ObjectAttribute> {
        let mut own = vec![words(code::CUDA_API_VERSION, [AttributeWord::Number(API_VERSION)])];
        if let Some(kernel) = &code.kernel {
            self.parameters(&kernel.parameters, bank, &mut own);
            own.push(ObjectAttribute {
                code: code::MAXREG_COUNT,
                value: AttributePayload::Half(0xff),
            });
            let barriers = AttributePayload::Byte(code.barriers.into());
            own.push(ObjectAttribute { code: code::NUM_BARRIERS, value: barriers });
        }
        let foreign: Vec<AttributeWord> =
            code.calls.iter().filter_map(|id| self.foreign(*id)).collect();
        if !foreign.is_empty() {
            own.push(words(code::EXTERNS, foreign));
        }
        own.extend(more.iter().map(|attribute| {
            let value = match &attribute.value {
                AttributeValue::None => AttributePayload::None(0),
                AttributeValue::Byte(value) => AttributePayload::Byte((*value).into()),
                AttributeValue::Half(value) => AttributePayload::Half(*value),
                AttributeValue::Words(values) => AttributePayload::Words(
                    values.iter().map(|word| AttributeWord::Number(*word)).collect(),
                    Vec::new(),
                ),
            };
            ObjectAttribute { code: attribute.code, value }
        }));
        own
    }

    /// A function that another object defines.
    fn foreign(&self, id: SymbolId) -> Option<AttributeWord> {
        let place = self.places.get(id.0)?;
        place.symbol.filter(|_| place.section.sass.is_none()).map(AttributeWord::Symbol)
    }

    fn parameters(
        &self,
        sizes: &[(u32, u32)],
        bank: Option<SymbolRef>,
        own: &mut Vec<ObjectAttribute>,
    ) {
        let (offsets, size) = check::parameters(sizes, self.base);
        // That it fits has been checked.
        let size = u16::try_from(size).unwrap_or(u16::MAX);
        // KPARAM_INFO has 14 bits for a size.
        let large = sizes.iter().any(|&(size, _)| size >= 1 << 14);
        for ((ordinal, offset), &(size, _)) in offsets.iter().enumerate().zip(sizes).rev() {
            let place = *offset << 16 | ordinal as u32 & 0xffff;
            let (code, size) = match large {
                true => (code::KPARAM_INFO_V2, size),
                false => (code::KPARAM_INFO, size << 18 | 0x1f000),
            };
            own.push(words(code, [0, place, size].map(AttributeWord::Number)));
        }
        if let Some(bank) = bank {
            own.push(ObjectAttribute {
                code: code::CBANK_PARAM_SIZE,
                value: AttributePayload::Half(size),
            });
            let place = u32::from(size) << 16 | self.base;
            own.push(words(
                code::PARAM_CBANK,
                [AttributeWord::Symbol(bank), AttributeWord::Number(place)],
            ));
        }
    }

    /// `.nv.callgraph` and `.nv.prototype`.
    pub(super) fn graph(&mut self, fixed: &SingleSections) {
        let (mut edges, mut known) = (Vec::new(), Vec::new());
        for (at, symbol) in self.builder.symbols.iter().enumerate() {
            let SymbolContent::Function { code, prototype } = &symbol.what else { continue };
            let Some(own) = self.place(at).symbol else { continue };
            for callee in code.iter().flat_map(|code| &code.calls) {
                edges.extend(
                    self.place(callee.0).symbol.map(|callee| ObjectEdge::Call(own, callee)),
                );
            }
            let texts = code.iter().flat_map(|code| &code.indirect_calls);
            edges
                .extend(texts.map(|text| ObjectEdge::IndirectCall(own, text.clone().into_bytes())));
            if let Some((text, address_taken)) = prototype {
                let text = text.clone().into_bytes();
                match address_taken {
                    true => edges.push(ObjectEdge::AddressTaken(own, text)),
                    false => known.push((own, text)),
                }
            }
        }
        self.fill(fixed.graph, SectionContent::CallGraph(edges));
        self.fill(fixed.prototypes, SectionContent::Prototypes(known));
    }

    pub(super) fn relocations(&mut self, fixed: &SingleSections) {
        for (at, _, code) in self.functions() {
            let HalfPair { sass, mercury } = self.place(at).relocations;
            self.append(sass, &code.relocations, 0);
            let records = code.mercury.as_ref().map(|mercury| &mercury.relocations[..]);
            self.append(mercury, records.unwrap_or_default(), 0);
        }
        for (at, symbol) in self.builder.symbols.iter().enumerate() {
            let (pair, records, mercury_records) = match &symbol.what {
                SymbolContent::Variable(variable) => {
                    let pair = match (variable.owner, variable.space) {
                        (Some(owner), _) => self.place(owner.0).literal_relocations,
                        (None, Space::Constant) => fixed.constant_relocations,
                        (None, _) => fixed.init_relocations,
                    };
                    (pair, &variable.relocations, &variable.mercury_relocations)
                }
                SymbolContent::Debug(debug) => {
                    (self.place(at).relocations, &debug.relocations, &debug.mercury_relocations)
                }
                _ => continue,
            };
            let base = self.place(at).value;
            self.append(pair.sass, records, base);
            self.append(pair.mercury, mercury_records, base);
        }
    }

    fn append(&mut self, section: Option<SectionRef>, relocations: &[Relocation], base: u64) {
        let record = |file: &mut Self, one: &Relocation| ObjectRelocation {
            offset: base + one.offset,
            kind: one.kind,
            symbol: one.symbol.and_then(|id| file.place(id.0).symbol),
            addend: one.addend,
        };
        let all: Vec<ObjectRelocation> = relocations.iter().map(|one| record(self, one)).collect();
        let section = section.and_then(|section| self.object.section_mut(section));
        if let Some(ObjectSection { contents: SectionContent::Relocations(records), .. }) = section
        {
            records.extend(all);
        }
    }
}

impl VariableContents {
    pub(super) fn size(&self) -> u64 {
        match self {
            VariableContents::Bytes(bytes) => bytes.len() as u64,
            VariableContents::Zero(size)
            | VariableContents::Common(size)
            | VariableContents::None(size) => *size,
        }
    }
}

fn no_attributes() -> SectionContent {
    SectionContent::Attributes(Vec::new())
}

fn words(code: u8, words: impl Into<Vec<AttributeWord>>) -> ObjectAttribute {
    ObjectAttribute { code, value: AttributePayload::Words(words.into(), Vec::new()) }
}

fn entry(symbol: &BuilderSymbol, place: &SymbolPlace) -> ObjectSymbol {
    let binding = match symbol.linkage {
        Linkage::Local => stb::LOCAL,
        Linkage::Global => stb::GLOBAL,
        Linkage::Weak => stb::WEAK,
    };
    let (kind, other) = match &symbol.what {
        SymbolContent::Function { code, .. } => {
            let entry = code.as_ref().is_some_and(|code| code.kernel.is_some());
            (stt::FUNC, if entry { sto::ENTRY } else { 0 })
        }
        SymbolContent::Variable(variable) => {
            let space = match variable.space {
                Space::Global => sto::SPACE_GLOBAL,
                Space::Constant => sto::SPACE_CONSTANT,
                Space::Shared => sto::SPACE_SHARED,
            };
            let managed = if variable.managed { sto::MANAGED } else { 0 };
            let internal = if variable.owner.is_some() { sto::INTERNAL } else { 0 };
            (stt::CUDA_OBJECT, space | managed | internal)
        }
        SymbolContent::Reference(to) => match to {
            LegacyReference::Texture => (stt::CUDA_TEXTURE, 0),
            LegacyReference::Sampler => (stt::CUDA_SAMPLER, 0),
            LegacyReference::Surface => (stt::CUDA_SURFACE, 0),
        },
        SymbolContent::Debug(_) => (stt::SECTION, 0),
    };
    let (size, common) = match &symbol.what {
        SymbolContent::Variable(variable) => {
            let common = matches!(variable.contents, VariableContents::Common(_));
            (variable.contents.size(), common.then_some(variable.align))
        }
        _ => (place.size, None),
    };
    let (value, place) = match (common, place.section.sass) {
        (Some(align), _) => (align, In::Common),
        (None, Some(section)) => (place.value, In::In(section)),
        (None, None) => (0, In::Undefined),
    };
    ObjectSymbol {
        other,
        value,
        size,
        ..ObjectSymbol::new(symbol.name.as_str(), binding, kind, place)
    }
}
