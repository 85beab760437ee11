//! A compiled object taken apart and built again with `culd_cubin::build`.
//!
//! In: an object of ptxas. Out: one with the same sections and symbols ([`rebuild`]), or one with
//! the same functions, variables and relocations ([`assemble`]). Guaranteed: what the builder has
//! no part for is an error, but for notes and attributes it writes itself.

use anyhow::{Context, Result, bail, ensure};
use culd_cubin::arch::ARCHS;
use culd_cubin::attr::{Record, Records, code, format};
use culd_cubin::build::object::Object;
use culd_cubin::build::{
    AttributeValue, Builder, Code, Kernel, Linkage, Mercury, Reference, Relocation, Space,
    SymbolId, Variable,
};
use culd_cubin::callgraph::{Edge, edges, prototypes};
use culd_cubin::elf::{sht, stb, sto, stt};
use culd_cubin::parameter::KernelParameter;
use culd_cubin::{Cubin, Section, SectionIndex, Symbol, SymbolIndex, SymbolSection};
use std::collections::HashMap;

/// Attributes that a builder writes itself, or that only tools read.
const WRITTEN: &[u8] = &[
    code::CUDA_API_VERSION,
    code::KPARAM_INFO,
    code::KPARAM_INFO_V2,
    code::CBANK_PARAM_SIZE,
    code::PARAM_CBANK,
    code::MAXREG_COUNT,
    code::NUM_BARRIERS,
    code::EXTERNS,
];

/// Takes all sections and symbols of `data` and puts them together again.
///
/// # Errors
/// It is no object.
pub fn rebuild(data: &[u8]) -> Result<Vec<u8>> {
    Ok(Object::parse(data)?.finish()?)
}

/// Builds the functions and variables of `data` again, as an assembler would.
///
/// # Errors
/// It is no such object, or has something in it that the builder has no part for.
pub fn assemble(data: &[u8]) -> Result<Vec<u8>> {
    let cubin = Cubin::parse(data)?;
    let sm = cubin.header.sm();
    let arch = ARCHS.iter().find(|arch| arch.sm == sm).context("an unknown architecture")?;
    let mut parts = Parts { builder: Builder::new(arch), ids: HashMap::new(), cubin: &cubin };
    if let Some(compat) = cubin.section_by_name(b".nv.compat") {
        parts.builder.compat(compat.data.to_vec());
    }
    parts.symbols()?;
    parts.literals()?;
    parts.addresses()?;
    parts.prototypes()?;
    parts.code()?;
    Ok(parts.builder.finish()?)
}

struct Parts<'c, 'd> {
    builder: Builder,
    /// By symbol index.
    ids: HashMap<u32, SymbolId>,
    cubin: &'c Cubin<'d>,
}

fn text(bytes: &[u8]) -> Result<String> {
    Ok(String::from_utf8(bytes.to_vec())?)
}

impl<'d> Parts<'_, 'd> {
    fn symbols(&mut self) -> Result<()> {
        for (index, symbol) in self.cubin.symbol_indices() {
            let linkage = match symbol.binding() {
                stb::LOCAL => Linkage::Local,
                stb::GLOBAL => Linkage::Global,
                _ => Linkage::Weak,
            };
            let name = || text(symbol.name);
            let id = match symbol.kind() {
                stt::FUNC => {
                    ensure!(symbol.value == 0, "'{}' is an alias", name()?);
                    self.builder.function(name()?, linkage)
                }
                stt::CUDA_OBJECT if symbol.other & sto::INTERNAL == 0 => {
                    let variable = self.variable(symbol)?.linkage(linkage);
                    self.builder.variable(variable)
                }
                stt::CUDA_TEXTURE => self.builder.reference(name()?, Reference::Texture),
                stt::CUDA_SAMPLER => self.builder.reference(name()?, Reference::Sampler),
                stt::CUDA_SURFACE => self.builder.reference(name()?, Reference::Surface),
                stt::SECTION => match self.debug(symbol)? {
                    Some(id) => id,
                    None => continue,
                },
                _ => continue,
            };
            self.ids.insert(index.0, id);
        }
        Ok(())
    }

    /// The debug section that a symbol stands for.
    fn debug(&mut self, symbol: &Symbol<'d>) -> Result<Option<SymbolId>> {
        let section = symbol.defined_in().and_then(|index| self.cubin.section(index));
        let Some(section) = section.filter(|section| is_debug(section.name)) else {
            return Ok(None);
        };
        let twin = [b".nv.merc", section.name].concat();
        let twin = self.cubin.section_by_name(&twin).map(|twin| twin.data.to_vec());
        Ok(Some(self.builder.debug(text(section.name)?, section.data, twin)))
    }

    /// Literals and jump tables.
    fn literals(&mut self) -> Result<()> {
        for (index, symbol) in self.cubin.symbol_indices() {
            let home = symbol.defined_in().and_then(|index| self.cubin.section(index));
            let Some(home) = home.filter(|home| home.name.starts_with(b".nv.constant2.")) else {
                continue;
            };
            if symbol.kind() != stt::CUDA_OBJECT {
                continue;
            }
            let owner = home.info_section().context("literals of no function")?;
            let owner = self.function_in(owner)?;
            let range = usize::try_from(symbol.value)?..;
            let size = usize::try_from(symbol.size)?;
            let bytes = home.data.get(range.clone()).and_then(|data| data.get(..size));
            let bytes = bytes.context("a literal outside of its section")?;
            let name = text(symbol.name)?;
            let mut literal = Variable::literal(name, owner, bytes).align(home.align());
            let function = home.name.get(b".nv.constant2.".len()..).unwrap_or_default();
            let twin = [b".nv.merc.nv.constant.optimizer.", function].concat();
            if let Some(twin) = self.cubin.section_by_name(&twin) {
                let bytes = twin.data.get(range).and_then(|data| data.get(..size));
                literal = literal.mercury(bytes.context("a literal outside of its twin")?);
            }
            let id = self.builder.variable(literal);
            self.ids.insert(index.0, id);
        }
        Ok(())
    }

    /// The first function in a section.
    fn function_in(&self, section: SectionIndex) -> Result<SymbolId> {
        let defined = |(_, symbol): &(_, &Symbol<'d>)| {
            symbol.kind() == stt::FUNC && symbol.defined_in() == Some(section)
        };
        let found = self.cubin.symbol_indices().find(defined).context("code of no function")?;
        self.ids.get(&found.0.0).copied().context("a function without an id")
    }

    /// What a relocation names; nothing where its symbol is the null symbol.
    fn named(&self, symbol: SymbolIndex) -> Result<Option<SymbolId>> {
        if symbol.0 == 0 {
            return Ok(None);
        }
        let id = self.ids.get(&symbol.0).copied();
        id.map(Some)
            .with_context(|| format!("a relocation against {:?}", self.cubin.symbol(symbol)))
    }

    fn variable(&self, symbol: &Symbol<'d>) -> Result<Variable> {
        let variable = self.plain_variable(symbol)?;
        Ok(if symbol.other & sto::MANAGED == 0 { variable } else { variable.managed() })
    }

    fn plain_variable(&self, symbol: &Symbol<'d>) -> Result<Variable> {
        let name = text(symbol.name)?;
        let space = match symbol.other & sto::SPACE {
            sto::SPACE_GLOBAL => Space::Global,
            sto::SPACE_CONSTANT => Space::Constant,
            sto::SPACE_SHARED => Space::Shared,
            other => bail!("'{name}' is in space {other:#x}"),
        };
        if symbol.section == SymbolSection::Common {
            return Ok(Variable::common(name, symbol.size).align(symbol.value.max(1)));
        }
        let SymbolSection::In(index) = symbol.section else {
            ensure!(symbol.section == SymbolSection::Undefined, "'{name}' is in no section");
            return Ok(Variable::external(name, space, symbol.size));
        };
        let section = self.cubin.section(index).context("no section")?;
        if space == Space::Shared {
            return Ok(Variable::zero(name, space, symbol.size).align(symbol.value.max(1)));
        }
        if section.sh_type == sht::CUDA_GLOBAL {
            return Ok(Variable::zero(name, space, symbol.size).align(section.align().max(1)));
        }
        let start = usize::try_from(symbol.value)?;
        let bytes = section.data.get(start..start + usize::try_from(symbol.size)?);
        let bytes = bytes.context("a variable outside of its section")?;
        Ok(Variable::initialised(name, space, bytes).align(section.align().max(1)))
    }

    /// Addresses in the initial values of variables, in literals and in debug information, which
    /// are all known by now.
    fn addresses(&mut self) -> Result<()> {
        for section in &self.cubin.sections {
            let mercury = section.sh_type == sht::MERCURY_RELA;
            let Some(target) = section.info_section().filter(|_| section.is_reloc() || mercury)
            else {
                continue;
            };
            let is_code = self
                .cubin
                .section(target)
                .is_some_and(|target| target.is_code() || target.sh_type == sht::MERCURY_CODE);
            if is_code {
                continue;
            }
            for record in section.relocations().iter() {
                let (holder, start) = self.holder(target, record.offset, mercury)?;
                let symbol = self.named(record.symbol)?;
                let (kind, addend) = (record.kind, record.addend);
                let relocation = Relocation { offset: record.offset - start, kind, symbol, addend };
                match mercury {
                    true => self.builder.twin(holder, relocation),
                    false => self.builder.relocation(holder, relocation),
                };
            }
        }
        Ok(())
    }

    /// What lies at an offset of a section, and where it begins.
    fn holder(&self, section: SectionIndex, offset: u64, mercury: bool) -> Result<(SymbolId, u64)> {
        let table = match mercury {
            true => &self.cubin.mercury_symbols,
            false => &self.cubin.symbols,
        };
        let holds = |symbol: &Symbol<'d>| {
            let range = symbol.value..symbol.value.saturating_add(symbol.size);
            symbol.defined_in() == Some(section)
                && (symbol.kind() == stt::SECTION || range.contains(&offset))
        };
        let found = (0u32..).zip(table).filter(|(_, symbol)| holds(symbol));
        let known =
            |(index, symbol): (u32, &Symbol<'d>)| Some((*self.ids.get(&index)?, symbol.value));
        found.filter_map(known).last().context("an address in nothing known")
    }

    fn prototypes(&mut self) -> Result<()> {
        for section in &self.cubin.sections {
            let mut found = Vec::new();
            match section.sh_type {
                sht::CUDA_PROTOTYPE => {
                    found.extend(prototypes(section).map(|(id, string)| (id, string, false)));
                }
                sht::CUDA_CALLGRAPH => {
                    for edge in edges(section) {
                        if let (_, Edge::AddressTaken { function, prototype }) = edge? {
                            found.push((function, prototype, true));
                        }
                    }
                }
                _ => {}
            }
            for (function, string, taken) in found {
                let id = *self.ids.get(&function.0).context("a prototype of nothing")?;
                let prototype = text(self.cubin.string(string).context("no string")?)?;
                self.builder.prototype(id, prototype, taken);
            }
        }
        Ok(())
    }

    fn code(&mut self) -> Result<()> {
        for (index, section) in self.cubin.section_indices().filter(|(_, one)| one.is_code()) {
            let defined = |(_, symbol): &(_, &Symbol<'d>)| {
                symbol.kind() == stt::FUNC && symbol.defined_in() == Some(index)
            };
            let mut found = self.cubin.symbol_indices().filter(defined);
            let (symbol_index, symbol) = found.next().context("code without a function")?;
            ensure!(found.next().is_none(), "code with two functions");
            let id = *self.ids.get(&symbol_index.0).context("a function without an id")?;
            let mut code = self.function(index, section, symbol_index.0, symbol)?;
            if let Some(mercury) = self.mercury(index, symbol_index.0)? {
                code = code.mercury(mercury);
            }
            self.builder.define(id, code);
        }
        Ok(())
    }

    /// The Mercury form of a function.
    fn mercury(&self, code: SectionIndex, symbol: u32) -> Result<Option<Mercury>> {
        let is_twin = |(_, one): &(_, &Section<'d>)| {
            one.sh_type == sht::MERCURY_CODE
                && one.data.first_chunk() == Some(&code.0.to_le_bytes())
        };
        let Some((index, section)) = self.cubin.section_indices().find(is_twin) else {
            return Ok(None);
        };
        let symbol = self.cubin.mercury_symbols.get(symbol as usize);
        let mut mercury = Mercury::new(section.data, symbol.context("no symbol")?.size)?;
        for info in self.cubin.sections.iter().filter(|one| one.info_section() == Some(index)) {
            match info.sh_type {
                sht::MERCURY_RELA => {
                    for record in info.relocations().iter() {
                        let symbol = self.named(record.symbol)?;
                        let (offset, kind, addend) = (record.offset, record.kind, record.addend);
                        mercury = mercury.relocation(Relocation { offset, kind, symbol, addend });
                    }
                }
                sht::MERCURY_INFO => {
                    for record in Records::new(info.name, info.data) {
                        let record = record?;
                        if !WRITTEN.contains(&record.code) {
                            mercury = mercury.attribute(record.code, value(&record));
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(Some(mercury))
    }

    fn function(
        &self,
        index: SectionIndex,
        section: &Section<'d>,
        symbol_index: u32,
        symbol: &Symbol<'d>,
    ) -> Result<Code> {
        let mut code = Code::new(section.data);
        let about = |one: &&Section<'d>| one.info_section() == Some(index);
        let mut parameters = Vec::new();
        for info in self.cubin.sections.iter().filter(about) {
            if info.is_reloc() {
                for record in info.relocations().iter() {
                    let symbol = self.named(record.symbol)?;
                    let (offset, kind, addend) = (record.offset, record.kind, record.addend);
                    code = code.relocation(Relocation { offset, kind, symbol, addend });
                }
            }
            if info.sh_type != sht::CUDA_INFO {
                continue;
            }
            for record in Records::new(info.name, info.data) {
                let record = record?;
                parameters.extend(KernelParameter::of(&record));
                if record.code == code::NUM_BARRIERS {
                    code = code.barriers(record.value as u8);
                }
                if !WRITTEN.contains(&record.code) {
                    code = code.attribute(record.code, value(&record));
                }
            }
        }
        for info in self.cubin.sections.iter().filter(|one| one.name == b".nv.info") {
            for record in Records::new(info.name, info.data) {
                let record = record?;
                match (record.code, record.word(0), record.word(1)) {
                    (code::REGCOUNT, Some(of), Some(count)) if of == symbol_index => {
                        code = code.registers(count as u8);
                    }
                    (code::FRAME_SIZE, Some(of), Some(size)) if of == symbol_index => {
                        code = code.frame(size);
                    }
                    _ => {}
                }
            }
        }
        if symbol.is_entry() {
            parameters.sort_unstable();
            // The offsets are the alignments that are needed, as far as they show.
            code = code.kernel(Kernel::new(parameters.iter().map(|one| {
                let align = 1 << one.offset.trailing_zeros().min(one.size.trailing_zeros()).min(3);
                (one.size, align)
            })));
        }
        for edges in
            self.cubin.sections.iter().filter(|one| one.sh_type == sht::CUDA_CALLGRAPH).map(edges)
        {
            for edge in edges {
                match edge?.1 {
                    Edge::Call { caller, callee } if caller.0 == symbol_index => {
                        code = code.call(*self.ids.get(&callee.0).context("a call of nothing")?);
                    }
                    Edge::IndirectCall { function, prototype } if function.0 == symbol_index => {
                        let prototype = self.cubin.string(prototype).context("no string")?;
                        code = code.indirect_call(text(prototype)?);
                    }
                    _ => {}
                }
            }
        }
        Ok(code)
    }
}

fn value(record: &Record<'_>) -> AttributeValue {
    match record.format {
        format::NONE => AttributeValue::None,
        format::BYTE => AttributeValue::Byte(record.value as u8),
        format::HALF => AttributeValue::Half(record.value),
        _ => AttributeValue::Words(record.words().collect()),
    }
}

/// Debug information, by its name.
fn is_debug(name: &[u8]) -> bool {
    name.starts_with(b".debug_") || name.starts_with(b".nv_debug_")
}
