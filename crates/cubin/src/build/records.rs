//! Parts that name symbols: the symbol table, attributes, call graph, relocations; and Mercury's
//! half of all sections.
//!
//! In: [`FileParts`] with the sections of the first half. Out: the complete file. Guaranteed:
//! symbols stand in the order in which ptxas writes them: those of sections, local ones, global
//! ones.

use super::finish::{FileParts, Fixed, HalfPair, SymbolPlace, plain, records};
use super::object::{
    Attribute, Contents as Data, Edge, Entry, Info, Link, Place as In, Relocation as Record,
    Section, SectionRef, SymbolRef, Value, Word,
};
use super::{
    AttributeValue, Code, Contents, Linkage, Reference, Relocation, Space, Symbol, SymbolId, What,
    check,
};
use crate::attr::code;
use crate::elf::{shf, sht, stb, sto, stt};

/// `CUDA_API_VERSION` of the release whose files these are like.
const API_VERSION: u32 = 130;
/// Bytes that Mercury code is aligned to.
const CODE_ALIGN: u64 = 16;

impl FileParts<'_> {
    /// Makes Mercury's half of the sections.
    pub(super) fn twins(&mut self, fixed: &mut Fixed) {
        self.twin_code();
        let info = plain(".nv.merc.nv.info", sht::MERCURY_INFO, shf::MERCURY, 4, no_attributes());
        fixed.attributes.1 = Some(self.object.section(info.link(Link::Symbols)));
        for (at, symbol, _) in self.functions() {
            let name = format!(".nv.merc.nv.info.{}", symbol.name);
            let flags = shf::MERCURY | shf::INFO_LINK;
            let info = plain(name, sht::MERCURY_INFO, flags, 4, no_attributes());
            self.place(at).attributes.1 = Some(self.object.section(info.link(Link::Symbols)));
        }
        self.twin_relocations(fixed);
        fixed.constants.1 = self.shared_bytes(
            fixed.constants.0,
            ".nv.merc.nv.constant.user",
            sht::MERCURY_CONSTANT_USER,
        );
        self.twin_literals();
        fixed.init.1 =
            self.shared_bytes(fixed.init.0, ".nv.merc.nv.global.init", sht::CUDA_GLOBAL_INIT);
        for (at, variable) in self.variables(None) {
            let twin = match (&variable.contents, variable.space) {
                (Contents::Bytes(_) | Contents::Zero(_), Space::Constant) => fixed.constants.1,
                (Contents::Bytes(_), _) => fixed.init.1,
                _ => None,
            };
            self.place(at).section.1 = twin;
        }
        self.point(fixed, |pair| pair.1);
    }

    /// Mercury code, and debug information behind it.
    fn twin_code(&mut self) {
        for (at, symbol, code) in self.functions() {
            let (Some(mercury), Some(own)) = (&code.mercury, self.place(at).section.0) else {
                continue;
            };
            let data = Data::Mercury { code: own, rest: mercury.rest.clone() };
            let name = format!(".nv.capmerc.text.{}", symbol.name);
            let section = plain(name, sht::MERCURY_CODE, shf::MERCURY, CODE_ALIGN, data);
            let section = self.object.section(section.link(Link::Symbols));
            self.place(at).section.1 = Some(section);
        }
        for (at, symbol, debug) in self.debug() {
            let Some(bytes) = &debug.mercury else { continue };
            let name = format!(".nv.merc{}", symbol.name);
            let data = Data::Bytes(bytes.clone());
            let section = plain(name, sht::PROGBITS, shf::MERCURY, 1, data);
            self.place(at).section.1 = Some(self.object.section(section));
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
        let Section { flags, align, .. } = *self.object.section_mut(own)?;
        let twin = plain(name, sh_type, flags | shf::MERCURY, align, Data::Same(own));
        Some(self.object.section(twin))
    }

    fn twin_relocations(&mut self, fixed: &mut Fixed) {
        let section = |name: &str| records(format!(".nv.merc.rela{name}"), sht::MERCURY_RELA);
        for (at, symbol, code) in self.functions() {
            if code.mercury.as_ref().is_some_and(|mercury| !mercury.relocations.is_empty()) {
                let section = section(&format!(".text.{}", symbol.name));
                self.place(at).relocations.1 = Some(self.object.section(section));
            }
            if self.variables(Some(at)).any(|(_, one)| !one.twins.is_empty()) {
                let section = section(&format!(".nv.constant.optimizer.{}", symbol.name));
                self.place(at).literal_relocations.1 = Some(self.object.section(section));
            }
        }
        let has = |file: &Self, space| {
            let mut of = file.variables(None).filter(|(_, variable)| variable.space == space);
            of.any(|(_, variable)| !variable.twins.is_empty())
        };
        if has(self, Space::Global) {
            fixed.init_relocations.1 = Some(self.object.section(section(".nv.global.init")));
        }
        if has(self, Space::Constant) {
            fixed.constant_relocations.1 = Some(self.object.section(section(".nv.constant.user")));
        }
        for (at, symbol, debug) in self.debug() {
            if !debug.twins.is_empty() {
                let section = section(&symbol.name);
                self.place(at).relocations.1 = Some(self.object.section(section));
            }
        }
    }

    fn twin_literals(&mut self) {
        for (at, symbol, _) in self.functions() {
            let Some(own) = self.place(at).literals.0 else { continue };
            let Some(Section { flags, align, contents: Data::Bytes(bytes), .. }) =
                self.object.section_mut(own)
            else {
                continue;
            };
            let (flags, align, mut bytes) = (*flags | shf::MERCURY, *align, bytes.clone());
            for (literal, variable) in self.variables(Some(at)) {
                let start = self.place(literal).value as usize;
                let twin = variable.mercury.iter().flatten();
                let room = bytes.iter_mut().skip(start);
                room.zip(twin).for_each(|(place, byte)| *place = *byte);
            }
            let name = format!(".nv.merc.nv.constant.optimizer.{}", symbol.name);
            let data = Data::Bytes(bytes);
            let twin = plain(name, sht::MERCURY_CONSTANT_OPTIMIZER, flags, align, data);
            let twin = self.object.section(twin);
            self.place(at).literals.1 = Some(twin);
            for (literal, _) in self.variables(Some(at)) {
                self.place(literal).section.1 = Some(twin);
            }
        }
    }

    /// The symbol tables: sections, local symbols, global symbols.
    pub(super) fn symbols(&mut self, fixed: &Fixed) {
        let code: Vec<usize> = self.functions().map(|(at, ..)| at).collect();
        let has_mercury = self.has_mercury();
        for &at in &code {
            let SymbolPlace { section, bank, literals, .. } = *self.place(at);
            self.section_symbol(section);
            self.section_symbol(literals);
            if !has_mercury {
                self.place(at).bank_symbol = self.section_symbol((bank, None));
            }
        }
        for pair in [fixed.constants, (fixed.shared, None), fixed.init, (fixed.global, None)] {
            self.section_symbol(pair);
        }
        for (at, ..) in self.debug() {
            let pair = self.place(at).section;
            self.place(at).symbol = self.section_symbol(pair);
        }
        for local in [true, false] {
            for (at, symbol) in self.builder.symbols.iter().enumerate() {
                let is_debug = matches!(symbol.what, What::Debug(_));
                if (symbol.linkage == Linkage::Local) == local && !is_debug {
                    self.add_symbol(at, symbol);
                }
            }
        }
        // Mercury knows nothing of parameters.
        for &at in code.iter().filter(|_| has_mercury) {
            let bank = self.place(at).bank;
            self.place(at).bank_symbol = self.section_symbol((bank, None));
        }
        self.name_code(&code);
    }

    fn has_mercury(&self) -> bool {
        self.object.arch().flavour == crate::arch::Flavour::Mercury
    }

    fn section_symbol(&mut self, (own, twin): HalfPair) -> Option<SymbolRef> {
        let own = own?;
        let name = |file: &mut Self, section| {
            file.object.section_mut(section).map(|section: &mut Section| section.name.clone())
        };
        let entry = |name, section| Entry::new(name, stb::LOCAL, stt::SECTION, In::In(section));
        let own_name = name(self, own)?;
        let is_bank = own_name.starts_with(b".nv.constant0.");
        let symbol = self.object.symbol(entry(own_name.clone(), own));
        let twin_entry = match twin {
            // Mercury's names of code and debug information are those of machine code here.
            Some(twin) => {
                let twin_name = name(self, twin)?;
                let constant = twin_name
                    .strip_prefix(b".nv.merc")
                    .filter(|rest| rest.starts_with(b".nv.constant."));
                entry(constant.map_or(own_name, <[u8]>::to_vec), twin)
            }
            None => entry(own_name, own),
        };
        if self.has_mercury() && !is_bank {
            self.object.twin(symbol, twin_entry);
        }
        Some(symbol)
    }

    fn add_symbol(&mut self, at: usize, symbol: &Symbol) {
        let place = *self.place(at);
        let own = entry(symbol, &place);
        let mut twin = own.clone();
        twin.place = place.section.1.map_or(own.place, In::In);
        if let What::Function { code: Some(code), .. } = &symbol.what
            && let Some(mercury) = &code.mercury
        {
            twin.size = mercury.size;
        }
        let added = self.object.symbol(own);
        if self.has_mercury() {
            self.object.twin(added, twin);
        }
        self.place(at).symbol = Some(added);
    }

    /// Code says whose it is.
    fn name_code(&mut self, code: &[usize]) {
        let in_text_info = self.object.arch().registers_in_text_info;
        for &at in code {
            let SymbolPlace { section, symbol: Some(symbol), .. } = *self.place(at) else {
                continue;
            };
            let registers = match self.builder.symbols.get(at).map(|symbol| &symbol.what) {
                Some(What::Function { code: Some(code), .. }) if in_text_info => code.registers,
                _ => 0,
            };
            for section in [section.0, section.1].into_iter().flatten() {
                if let Some(section) = self.object.section_mut(section) {
                    section.info = Info::Function { symbol, registers };
                }
            }
        }
    }

    /// `.nv.info` and those of the functions, and Mercury's.
    pub(super) fn attributes(&mut self, fixed: &Fixed) {
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
                all.push(words(attribute, [Word::Symbol(symbol), Word::Number(value)]));
            }
            let own = self.own_attributes(code, bank_symbol, &code.attributes);
            self.fill(attributes.0, Data::Attributes(own));
            if let Some(mercury) = &code.mercury {
                let twin = self.own_attributes(code, None, &mercury.attributes);
                self.fill(attributes.1, Data::Attributes(twin));
            }
        }
        self.fill(fixed.attributes.1, Data::Attributes(all.clone()));
        self.fill(fixed.attributes.0, Data::Attributes(all));
    }

    fn fill(&mut self, section: Option<SectionRef>, contents: Data) {
        if let Some(section) = section.and_then(|section| self.object.section_mut(section)) {
            section.contents = contents;
        }
    }

    /// The attributes of a function; without `bank` nothing is said of where its parameters lie.
    fn own_attributes(
        &self,
        code: &Code,
        bank: Option<SymbolRef>,
        more: &[super::Attribute],
    ) -> Vec<Attribute> {
        let mut own = vec![words(code::CUDA_API_VERSION, [Word::Number(API_VERSION)])];
        if let Some(kernel) = &code.kernel {
            self.parameters(&kernel.parameters, bank, &mut own);
            own.push(Attribute { code: code::MAXREG_COUNT, value: Value::Half(0xff) });
            let barriers = Value::Byte(code.barriers.into());
            own.push(Attribute { code: code::NUM_BARRIERS, value: barriers });
        }
        let foreign: Vec<Word> = code.calls.iter().filter_map(|id| self.foreign(*id)).collect();
        if !foreign.is_empty() {
            own.push(words(code::EXTERNS, foreign));
        }
        own.extend(more.iter().map(|attribute| {
            let value = match &attribute.value {
                AttributeValue::None => Value::None(0),
                AttributeValue::Byte(value) => Value::Byte((*value).into()),
                AttributeValue::Half(value) => Value::Half(*value),
                AttributeValue::Words(values) => Value::Words(
                    values.iter().map(|word| Word::Number(*word)).collect(),
                    Vec::new(),
                ),
            };
            Attribute { code: attribute.code, value }
        }));
        own
    }

    /// A function that another object defines.
    fn foreign(&self, id: SymbolId) -> Option<Word> {
        let place = self.places.get(id.0)?;
        place.symbol.filter(|_| place.section.0.is_none()).map(Word::Symbol)
    }

    fn parameters(&self, sizes: &[(u32, u32)], bank: Option<SymbolRef>, own: &mut Vec<Attribute>) {
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
            own.push(words(code, [0, place, size].map(Word::Number)));
        }
        if let Some(bank) = bank {
            own.push(Attribute { code: code::CBANK_PARAM_SIZE, value: Value::Half(size) });
            let place = u32::from(size) << 16 | self.base;
            own.push(words(code::PARAM_CBANK, [Word::Symbol(bank), Word::Number(place)]));
        }
    }

    /// `.nv.callgraph` and `.nv.prototype`.
    pub(super) fn graph(&mut self, fixed: &Fixed) {
        let (mut edges, mut known) = (Vec::new(), Vec::new());
        for (at, symbol) in self.builder.symbols.iter().enumerate() {
            let What::Function { code, prototype } = &symbol.what else { continue };
            let Some(own) = self.place(at).symbol else { continue };
            for callee in code.iter().flat_map(|code| &code.calls) {
                edges.extend(self.place(callee.0).symbol.map(|callee| Edge::Call(own, callee)));
            }
            let texts = code.iter().flat_map(|code| &code.indirect_calls);
            edges.extend(texts.map(|text| Edge::IndirectCall(own, text.clone().into_bytes())));
            if let Some((text, address_taken)) = prototype {
                let text = text.clone().into_bytes();
                match address_taken {
                    true => edges.push(Edge::AddressTaken(own, text)),
                    false => known.push((own, text)),
                }
            }
        }
        self.fill(fixed.graph, Data::CallGraph(edges));
        self.fill(fixed.prototypes, Data::Prototypes(known));
    }

    pub(super) fn relocations(&mut self, fixed: &Fixed) {
        for (at, _, code) in self.functions() {
            let (own, twin) = self.place(at).relocations;
            self.append(own, &code.relocations, 0);
            let records = code.mercury.as_ref().map(|mercury| &mercury.relocations[..]);
            self.append(twin, records.unwrap_or_default(), 0);
        }
        for (at, symbol) in self.builder.symbols.iter().enumerate() {
            let (pair, records, twins) = match &symbol.what {
                What::Variable(variable) => {
                    let pair = match (variable.owner, variable.space) {
                        (Some(owner), _) => self.place(owner.0).literal_relocations,
                        (None, Space::Constant) => fixed.constant_relocations,
                        (None, _) => fixed.init_relocations,
                    };
                    (pair, &variable.relocations, &variable.twins)
                }
                What::Debug(debug) => {
                    (self.place(at).relocations, &debug.relocations, &debug.twins)
                }
                _ => continue,
            };
            let base = self.place(at).value;
            self.append(pair.0, records, base);
            self.append(pair.1, twins, base);
        }
    }

    fn append(&mut self, section: Option<SectionRef>, relocations: &[Relocation], base: u64) {
        let record = |file: &mut Self, one: &Relocation| Record {
            offset: base + one.offset,
            kind: one.kind,
            symbol: one.symbol.and_then(|id| file.place(id.0).symbol),
            addend: one.addend,
        };
        let all: Vec<Record> = relocations.iter().map(|one| record(self, one)).collect();
        let section = section.and_then(|section| self.object.section_mut(section));
        if let Some(Section { contents: Data::Relocations(records), .. }) = section {
            records.extend(all);
        }
    }
}

impl Contents {
    pub(super) fn size(&self) -> u64 {
        match self {
            Contents::Bytes(bytes) => bytes.len() as u64,
            Contents::Zero(size) | Contents::Common(size) | Contents::None(size) => *size,
        }
    }
}

fn no_attributes() -> Data {
    Data::Attributes(Vec::new())
}

fn words(code: u8, words: impl Into<Vec<Word>>) -> Attribute {
    Attribute { code, value: Value::Words(words.into(), Vec::new()) }
}

fn entry(symbol: &Symbol, place: &SymbolPlace) -> Entry {
    let binding = match symbol.linkage {
        Linkage::Local => stb::LOCAL,
        Linkage::Global => stb::GLOBAL,
        Linkage::Weak => stb::WEAK,
    };
    let (kind, other) = match &symbol.what {
        What::Function { code, .. } => {
            let entry = code.as_ref().is_some_and(|code| code.kernel.is_some());
            (stt::FUNC, if entry { sto::ENTRY } else { 0 })
        }
        What::Variable(variable) => {
            let space = match variable.space {
                Space::Global => sto::SPACE_GLOBAL,
                Space::Constant => sto::SPACE_CONSTANT,
                Space::Shared => sto::SPACE_SHARED,
            };
            let managed = if variable.managed { sto::MANAGED } else { 0 };
            let internal = if variable.owner.is_some() { sto::INTERNAL } else { 0 };
            (stt::CUDA_OBJECT, space | managed | internal)
        }
        What::Reference(to) => match to {
            Reference::Texture => (stt::CUDA_TEXTURE, 0),
            Reference::Sampler => (stt::CUDA_SAMPLER, 0),
            Reference::Surface => (stt::CUDA_SURFACE, 0),
        },
        What::Debug(_) => (stt::SECTION, 0),
    };
    let (size, common) = match &symbol.what {
        What::Variable(variable) => {
            let common = matches!(variable.contents, Contents::Common(_));
            (variable.contents.size(), common.then_some(variable.align))
        }
        _ => (place.size, None),
    };
    let (value, place) = match (common, place.section.0) {
        (Some(align), _) => (align, In::Common),
        (None, Some(section)) => (place.value, In::In(section)),
        (None, None) => (0, In::Undefined),
    };
    Entry { other, value, size, ..Entry::new(symbol.name.as_str(), binding, kind, place) }
}
