//! A compiled object taken apart and built again with `culd_cubin::build`.
//!
//! In: an object of ptxas for sm_75 to sm_90a. Out: one with the same functions, variables and relocations. Guaranteed: what
//! the builder has no part for is an error, but for debug information, notes and attributes it writes itself.

use anyhow::{Context, Result, bail, ensure};
use culd_cubin::arch::{ARCHS, Flavour};
use culd_cubin::attr::{Record, Records, code, format};
use culd_cubin::build::{
    AttributeValue, Builder, Code, Kernel, Linkage, Relocation, Space, SymbolId, Variable,
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

/// Builds `data` again.
///
/// # Errors
/// It is no such object, or has something in it that the builder has no part for.
pub fn rebuild(data: &[u8]) -> Result<Vec<u8>> {
    let cubin = Cubin::parse(data)?;
    let arch = ARCHS
        .iter()
        .find(|arch| arch.sm == cubin.header.sm() && arch.flavour == Flavour::Classic)
        .context("no architecture without Mercury code")?;
    let mut parts = Parts { builder: Builder::new(arch)?, ids: HashMap::new(), cubin: &cubin };
    parts.symbols()?;
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
            let id = match symbol.kind() {
                stt::FUNC => self.builder.function(text(symbol.name)?, linkage),
                stt::CUDA_OBJECT if symbol.other & sto::INTERNAL == 0 => {
                    let variable = self.variable(symbol)?.linkage(linkage);
                    self.builder.variable(variable)
                }
                _ => continue,
            };
            self.ids.insert(index.0, id);
        }
        Ok(())
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
        let name = text(symbol.name)?;
        let space = match symbol.other & sto::SPACE {
            sto::SPACE_GLOBAL => Space::Global,
            sto::SPACE_CONSTANT => Space::Constant,
            sto::SPACE_SHARED => Space::Shared,
            other => bail!("'{name}' is in space {other:#x}"),
        };
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

    /// Addresses in the initial values of variables, which are all known by now.
    fn addresses(&mut self) -> Result<()> {
        for section in self.cubin.sections.iter().filter(|section| section.is_reloc()) {
            let Some(target) = section.info_section() else { continue };
            for record in section.relocations().iter() {
                let holds = |symbol: &Symbol<'d>| {
                    let range = symbol.value..symbol.value.saturating_add(symbol.size);
                    symbol.defined_in() == Some(target) && range.contains(&record.offset)
                };
                let variable = |(_, symbol): &(_, &Symbol<'d>)| {
                    symbol.kind() == stt::CUDA_OBJECT && holds(symbol)
                };
                let Some((index, symbol)) = self.cubin.symbol_indices().find(variable) else {
                    continue;
                };
                let named = self.named(record.symbol)?;
                let variable = *self.ids.get(&index.0).context("a variable without an id")?;
                let (kind, addend) = (record.kind, record.addend);
                let offset = record.offset - symbol.value;
                let relocation = Relocation { offset, kind, symbol: named, addend };
                self.builder.relocation(variable, relocation);
            }
        }
        Ok(())
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
            let (symbol_index, symbol) =
                self.cubin.symbol_indices().find(defined).context("code without a function")?;
            let id = *self.ids.get(&symbol_index.0).context("a function without an id")?;
            let code = self.function(index, section, symbol_index.0, symbol)?;
            self.builder.define(id, code);
        }
        Ok(())
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
