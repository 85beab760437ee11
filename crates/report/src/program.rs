//! The report of a finished cubin, or of an object, from the file alone.
//!
//! In: the bytes of a cubin. Out: a [`ReportImage`]. Guaranteed: any bytes give an image; damage
//! in them is in [`ReportImage::defect`]. For a kernel, a linked cubin has only the numbers with
//! all callees: neither those of the kernel alone nor the callee that sets them.

use std::collections::BTreeMap;

use culd_abi::limits::Limits;
use culd_cubin::attr::{Record, Records, code};
use culd_cubin::callgraph::{self, Edge};
use culd_cubin::elf::{self, stb, sto, stt};
use culd_cubin::parameter::KernelParameter;
use culd_cubin::{Cubin, Malformed, SectionIndex, Symbol, SymbolIndex, text_of};
use culd_link::CubinLines;
use hashbrown::HashMap;

use crate::category::category;
use crate::data::{
    Category, File, Report, ReportFunction, ReportImage, ReportKernel, ReportLimits, ReportNeed,
    ReportSection, ReportSectionKind, ReportSpace, ReportStack, ReportVariable, SCHEMA,
};
use crate::link::{demangled, producer};
use crate::shown::{RowCounts, shown_functions};

/// Bytes of shared memory that the system keeps of each block, from this architecture on.
const SYSTEM_SHARED: (u32, u64) = (90, 0x400);

/// MAXREG_COUNT of a kernel without a limit.
const NO_REGISTER_LIMIT: u32 = 0xff;

/// The amount of detail in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// One row for each function and category, for a map.
    Functions,
    /// All sections, with their names.
    Sections,
}

impl Report {
    /// The report of a program.
    pub fn of_program(file: File, images: Vec<ReportImage>) -> Self {
        Report {
            schema: SCHEMA.to_owned(),
            producer: producer(),
            file: Some(file),
            images,
            ..Report::default()
        }
    }
}

impl File {
    /// A file of this kind.
    pub fn new(name: String, kind: impl Into<String>, bytes: u64, device_bytes: u64) -> Self {
        File { name, kind: kind.into(), bytes, device_bytes }
    }
}

impl ReportImage {
    /// An image that is not looked into.
    pub fn new(place: String, kind: impl Into<String>, target: String) -> Self {
        ReportImage { place, kind: kind.into(), target, ..ReportImage::default() }
    }

    /// Fills in everything that the cubin `bytes` has.
    pub fn read(&mut self, bytes: &[u8], detail: Detail) {
        self.bytes = bytes.len() as u64;
        let filled = Cubin::parse(bytes).and_then(|cubin| {
            CubinReader::of(&cubin, Some(detail))?.fill(self, detail);
            Ok(())
        });
        if let Err(defect) = filled {
            self.defect = defect.to_string();
        }
        if detail == Detail::Sections {
            // The null section is no row.
            (1..).zip(&mut self.sections).for_each(|(index, section)| {
                section.offset = section_offset(bytes, index).unwrap_or_default();
            });
        }
    }

    /// Fills in what the text form of a report shows of the cubin `bytes`: sums of sections, and
    /// the few functions that may stand in its lists. So a library with tens of thousands of
    /// kernels takes no memory for them. All its kernels are handed to `kernels` once, in the order
    /// of the file; their occupancy is not known there.
    pub fn read_shown(
        &mut self,
        bytes: &[u8],
        kernels: impl FnOnce(&[KernelRow<'_>]),
    ) -> RowCounts {
        self.bytes = bytes.len() as u64;
        let counts = Cubin::parse(bytes)
            .and_then(|cubin| Ok(CubinReader::of(&cubin, None)?.fill_shown(self, kernels)));
        counts.unwrap_or_else(|defect| {
            self.defect = defect.to_string();
            RowCounts::default()
        })
    }
}

/// A kernel of an image.
#[derive(Debug, Clone, Copy)]
pub struct KernelRow<'r> {
    /// Its name, as it stands in the image while that is read.
    pub name: &'r [u8],
    /// What it needs as a function. While its image is read, the name there is empty.
    pub function: &'r ReportFunction,
    /// What it needs as a kernel.
    pub kernel: &'r ReportKernel,
}

/// The place in the file of a section of a cubin that has been parsed.
fn section_offset(bytes: &[u8], index: usize) -> Option<u64> {
    // `e_shoff`, and `sh_offset` in a header of 64 bytes.
    let number = |at: usize| {
        bytes.get(at..)?.first_chunk().map(|bytes: &[u8; 8]| u64::from_le_bytes(*bytes))
    };
    let table = usize::try_from(number(0x28)?).ok()?;
    number(table.checked_add(64 * index + 24)?)
}

/// A cubin that is being read.
struct CubinReader<'c, 'd> {
    cubin: &'c Cubin<'d>,
    /// `None`: only what the text form of a report shows.
    detail: Option<Detail>,
    sm: u32,
    /// The functions by symbol index.
    places: Places,
    /// By section index, the function whose code a section is.
    of_code: Places,
    functions: Vec<ReportFunction>,
}

/// Places of functions by the index of something else.
struct Places(Vec<u32>);

impl Places {
    /// No place for any of `count` indices.
    fn none(count: usize) -> Self {
        Places(vec![u32::MAX; count])
    }

    fn of(&self, index: u32) -> Option<usize> {
        let place = self.0.get(index as usize).filter(|&&place| place != u32::MAX)?;
        Some(*place as usize)
    }

    fn set(&mut self, index: u32, place: usize) {
        if let Some(slot) = self.0.get_mut(index as usize) {
            *slot = u32::try_from(place).unwrap_or(u32::MAX);
        }
    }
}

impl ReportImage {
    /// Sets the limits of the architecture, and with them the occupancy of all kernels.
    fn fill_limits(&mut self, limits: Option<&Limits>) {
        self.limits = limits.map(ReportLimits::of);
        if let Some(limits) = limits {
            self.fill_occupancies(limits);
        }
    }
}

impl<'c, 'd> CubinReader<'c, 'd> {
    fn of(cubin: &'c Cubin<'d>, detail: Option<Detail>) -> Result<Self, Malformed> {
        let mut reader = CubinReader {
            cubin,
            detail,
            sm: cubin.header.sm(),
            places: Places::none(cubin.symbols.len()),
            of_code: Places::none(cubin.sections.len()),
            functions: Vec::new(),
        };
        let count = cubin.symbols.iter().filter(|symbol| symbol.is_function()).count();
        reader.functions.reserve_exact(count);
        for (index, symbol) in cubin.symbol_indices().filter(|(_, symbol)| symbol.is_function()) {
            let place = reader.functions.len();
            reader.places.set(index.0, place);
            let code = symbol.defined_in();
            let names = |code: SectionIndex| {
                let section = cubin.section(code);
                section.is_some_and(|section| {
                    section.name.strip_prefix(b".text.") == Some(symbol.name)
                })
            };
            if let Some(code) = code.filter(|&code| names(code)) {
                reader.of_code.set(code.0, place);
            }
            reader.functions.push(function(symbol));
            if let (Some(_), Some(function)) = (detail, reader.functions.last_mut()) {
                function.name = text_of(symbol.name);
            }
        }
        reader.file_attributes()?;
        reader.sections()?;
        reader.calls()?;
        Ok(reader)
    }

    /// True for a program, which has what linkers add.
    fn is_linked(&self) -> bool {
        let objects = [elf::TYPE_RELOCATABLE, elf::TYPE_EXTENSIBLE];
        !objects.contains(&self.cubin.header.e_type)
    }

    /// Numbers of `.nv.info`, each about a function.
    fn file_attributes(&mut self) -> Result<(), Malformed> {
        let Some(section) = self.cubin.section_by_name(b".nv.info") else { return Ok(()) };
        let linked = self.is_linked();
        for record in Records::new(section.name, section.data) {
            let record = record?;
            let place = record.word(0).and_then(|symbol| self.places.of(symbol));
            let Some(function) = place.and_then(|place| self.functions.get_mut(place)) else {
                continue;
            };
            let number = record.word(1);
            let is_kernel = function.kernel.is_some();
            match record.code {
                // A linked kernel has the number of all that it calls.
                code::REGCOUNT if linked && is_kernel => function.registers.total = number,
                code::REGCOUNT => function.registers = both(number),
                code::FRAME_SIZE => function.stack.own = number,
                code::MIN_STACK_SIZE => {
                    function.stack.total = number.filter(|&number| number != u32::MAX);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads the sections that belong to kernels.
    fn sections(&mut self) -> Result<(), Malformed> {
        for section in &self.cubin.sections {
            if section.is_mercury() || !section.name.starts_with(b".nv.") {
                continue;
            }
            let owner = owner(&self.of_code, section);
            let Some(function) = owner.and_then(|place| self.functions.get_mut(place)) else {
                continue;
            };
            if section.name.starts_with(b".nv.info.") {
                attributes(function, section, self.detail.is_some())?;
                continue;
            }
            let Some(kernel) = function.kernel.as_deref_mut() else { continue };
            if section.name.starts_with(b".nv.shared.") {
                kernel.shared = section.size;
            } else if let Some(bank) = section.constant_bank() {
                // Of two sections for one bank the last one counts, as for cuobjdump (case
                // literals/replaced-kernel-86).
                kernel.constants.retain(|constant| constant.0 != bank);
                kernel.constants.push((bank, section.size));
            } else if section.name.starts_with(b".nv.local.") {
                kernel.local = section.size;
            }
        }
        // Before CUDA 13 the number of barriers is in the flags of the code. Kernels of cuBLASLt
        // that were assembled (`nvasm`) have no attribute with their registers.
        for (code, section) in self.cubin.section_indices() {
            let (barriers, registers) =
                (section.barriers_of_cuda_12(), section.registers_of_code());
            let place = self.of_code.of(code.0).filter(|_| barriers != 0 || registers != 0);
            let Some(function) = place.and_then(|place| self.functions.get_mut(place)) else {
                continue;
            };
            if barriers != 0 && function.barriers == ReportNeed::default() {
                function.barriers = both(Some(barriers));
            }
            if registers != 0 && function.registers == ReportNeed::default() {
                function.registers = both(Some(u32::from(registers)));
            }
        }
        Ok(())
    }

    fn calls(&mut self) -> Result<(), Malformed> {
        let Some(section) = self.cubin.section_by_name(b".nv.callgraph") else { return Ok(()) };
        for edge in callgraph::edges(section) {
            let (_, edge) = edge?;
            let place = |symbol: SymbolIndex| self.places.of(symbol.0);
            match edge {
                // The text form shows no calls.
                Edge::Call { .. } if self.detail.is_none() => {}
                Edge::Call { caller, callee } => {
                    if let Some((caller, callee)) = place(caller).zip(place(callee))
                        && let Some(function) = self.functions.get_mut(caller)
                    {
                        function.calls.push(callee);
                    }
                }
                Edge::AddressTaken { function, .. } => {
                    let function = place(function).and_then(|at| self.functions.get_mut(at));
                    function.into_iter().for_each(|function| function.address_taken = true);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Brings lists of functions into order, and sets what depends on all sections.
    fn complete(&mut self) {
        let has_system = self.is_linked() && self.sm >= SYSTEM_SHARED.0;
        let system = if has_system { SYSTEM_SHARED.1 } else { 0 };
        for function in &mut self.functions {
            function.calls.sort_unstable();
            function.calls.dedup();
            let Some(kernel) = function.kernel.as_deref_mut() else { continue };
            kernel.system_shared = system.min(kernel.shared);
            kernel.constants.sort_unstable();
        }
    }

    fn fill(mut self, image: &mut ReportImage, detail: Detail) {
        self.complete();
        (image.section_kinds, image.sections) = match detail {
            Detail::Functions => self.sums(),
            Detail::Sections => self.all_sections(),
        };
        image.variables = self.variables(detail);
        let lines = CubinLines::of(self.cubin);
        for (index, symbol) in self.cubin.symbol_indices() {
            let place = self.places.of(index.0);
            if let Some(function) = place.and_then(|place| self.functions.get_mut(place)) {
                function.source = lines.of_function(symbol).unwrap_or_default();
            }
        }
        for function in &mut self.functions {
            function.demangled = demangled(&function.name);
        }
        for variable in &mut image.variables {
            variable.demangled = demangled(&variable.name);
        }
        image.functions = self.functions;
        image.fill_limits(Limits::of(self.sm));
    }

    fn fill_shown(
        mut self,
        image: &mut ReportImage,
        kernels: impl FnOnce(&[KernelRow<'_>]),
    ) -> RowCounts {
        self.complete();
        (image.section_kinds, image.sections) = self.totals();
        let names = || {
            let functions = self.cubin.symbols.iter().filter(|symbol| symbol.is_function());
            functions.map(|symbol| symbol.name)
        };
        let functions = self.functions.iter().zip(names());
        let rows = functions.filter_map(|(function, name)| {
            let kernel = function.kernel.as_deref()?;
            Some(KernelRow { name, function, kernel })
        });
        let rows: Vec<KernelRow<'_>> = rows.collect();
        kernels(&rows);
        let counts = RowCounts {
            kernels: rows.len(),
            functions: self.functions.len() - rows.len(),
            variables: self.variable_symbols().count(),
        };
        let mut shown = shown_functions(&self.functions).into_iter().peekable();
        for (place, (mut function, name)) in self.functions.into_iter().zip(names()).enumerate() {
            if shown.next_if_eq(&place).is_some() {
                function.name = text_of(name);
                image.functions.push(function);
            }
        }
        image.fill_limits(Limits::of(self.sm));
        counts
    }

    /// Bytes of sections, summed up for each category.
    fn totals(&self) -> (Vec<ReportSectionKind>, Vec<ReportSection>) {
        let mut sums: Vec<((Option<usize>, Category), u64)> = Vec::new();
        for section in &self.cubin.sections {
            let category = category(section.name, section.sh_type, section.flags);
            match sums.iter_mut().find(|sum| sum.0.1 == category) {
                Some(sum) => sum.1 = sum.1.saturating_add(section.size),
                None => sums.push(((None, category), section.size)),
            }
        }
        sums.sort_unstable();
        Self::sum_rows(sums)
    }

    /// The same for each function and category.
    fn sums(&self) -> (Vec<ReportSectionKind>, Vec<ReportSection>) {
        let mut sums: BTreeMap<(Option<usize>, Category), u64> = BTreeMap::new();
        for (index, section) in self.cubin.section_indices() {
            let function = self.function_of(index, section);
            let category = category(section.name, section.sh_type, section.flags);
            let sum = sums.entry((function, category)).or_default();
            *sum = sum.saturating_add(section.size);
        }
        Self::sum_rows(sums)
    }

    /// Rows of sums; their kinds have nothing but a category.
    fn sum_rows(
        sums: impl IntoIterator<Item = ((Option<usize>, Category), u64)>,
    ) -> (Vec<ReportSectionKind>, Vec<ReportSection>) {
        let mut kinds: Vec<ReportSectionKind> = Vec::new();
        let row = |((function, category), bytes)| {
            let known = kinds.iter().position(|kind| kind.category == category);
            let kind = known.unwrap_or_else(|| {
                kinds.push(ReportSectionKind { category, ..ReportSectionKind::default() });
                kinds.len() - 1
            });
            ReportSection { kind, bytes, function, ..ReportSection::default() }
        };
        let rows = sums.into_iter().filter(|sum| sum.1 != 0).map(row).collect();
        (kinds, rows)
    }

    /// All sections, without the null section.
    fn all_sections(&mut self) -> (Vec<ReportSectionKind>, Vec<ReportSection>) {
        for (index, symbol) in self.cubin.symbol_indices() {
            let function = self.places.of(index.0).and_then(|at| self.functions.get_mut(at));
            if let Some((function, code)) = function.zip(symbol.defined_in()) {
                function.section = (code.0 as usize).checked_sub(1);
            }
        }
        let mut kinds: Vec<ReportSectionKind> = Vec::new();
        let mut known: HashMap<ReportSectionKind, usize> = HashMap::new();
        let row = |(index, section): (SectionIndex, &culd_cubin::Section<'_>)| {
            let function = self.function_of(index, section);
            let name = text_of(section.name);
            let own_name =
                function.and_then(|place| name.strip_suffix(&self.functions[place].name));
            let kind = ReportSectionKind {
                name: own_name.unwrap_or(&name).to_owned(),
                of_function: own_name.is_some(),
                category: category(section.name, section.sh_type, section.flags),
                sh_type: section.sh_type,
                flags: section.flags,
                align: section.align(),
            };
            let kind = *known.entry(kind).or_insert_with_key(|kind| {
                kinds.push(kind.clone());
                kinds.len() - 1
            });
            let bytes = section.size;
            ReportSection { kind, bytes, function, ..ReportSection::default() }
        };
        let rows = self.cubin.section_indices().skip(1).map(row).collect();
        (kinds, rows)
    }

    /// The function that a section belongs to.
    fn function_of(&self, index: SectionIndex, section: &culd_cubin::Section<'_>) -> Option<usize> {
        let own = self.of_code.of(index.0);
        own.or_else(|| owner(&self.of_code, section))
    }

    fn variables(&self, detail: Detail) -> Vec<ReportVariable> {
        let sections = detail == Detail::Sections;
        let variable = |(symbol, index, space): (&Symbol<'_>, SectionIndex, _)| ReportVariable {
            name: text_of(symbol.name),
            space,
            section: (index.0 as usize).checked_sub(1).filter(|_| sections),
            offset: symbol.value,
            bytes: symbol.size,
            ..ReportVariable::default()
        };
        self.variable_symbols().map(variable).collect()
    }

    /// The symbols of variables, each with its section.
    fn variable_symbols(&self) -> impl Iterator<Item = (&Symbol<'d>, SectionIndex, ReportSpace)> {
        let variables = self.cubin.symbols.iter().filter(|symbol| {
            let kind = matches!(symbol.kind(), stt::OBJECT | stt::CUDA_OBJECT);
            let internal = symbol.binding() == stb::LOCAL && symbol.other & sto::INTERNAL != 0;
            kind && !internal && symbol.size != 0
        });
        variables.filter_map(|symbol| {
            let index = symbol.defined_in()?;
            let section = self.cubin.section(index)?;
            let space = match category(section.name, section.sh_type, section.flags) {
                Category::Constants => ReportSpace::Constant,
                Category::Shared => ReportSpace::Shared,
                Category::Data | Category::Zeroed if symbol.other & sto::MANAGED != 0 => {
                    ReportSpace::Managed
                }
                Category::Data | Category::Zeroed => ReportSpace::Global,
                _ => return None,
            };
            Some((symbol, index, space))
        })
    }
}

/// The starts of names of sections that belong to a function.
const OWNED: [&[u8]; 3] = [b".nv.shared.", b".nv.local.", b".nv.info."];

/// The function that a section belongs to. Sections of whole programs of CUDA 12.3 and older name
/// their code without a flag or a type that says so.
fn owner(of_code: &Places, section: &culd_cubin::Section<'_>) -> Option<usize> {
    let is_owned = || {
        section.constant_bank().is_some()
            || OWNED.iter().any(|start| section.name.starts_with(start))
    };
    let unmarked = || is_owned().then_some(SectionIndex(section.info));
    of_code.of(section.info_section().or_else(unmarked)?.0)
}

/// A number that is the function's own and all that is known.
fn both(number: Option<u32>) -> ReportNeed {
    ReportNeed { own: number, total: number, set_by: None }
}

/// A function, without its name.
fn function(symbol: &Symbol<'_>) -> ReportFunction {
    ReportFunction {
        offset: symbol.value,
        code: symbol.size,
        stack: ReportStack::default(),
        kernel: symbol.is_entry().then(Box::default),
        ..ReportFunction::default()
    }
}

/// The attributes of a function.
fn attributes(
    function: &mut ReportFunction,
    section: &culd_cubin::Section<'_>,
    with_parameters: bool,
) -> Result<(), Malformed> {
    let mut parameters: Vec<KernelParameter> = Vec::new();
    for record in Records::new(section.name, section.data) {
        let record = record?;
        if record.code == code::NUM_BARRIERS {
            function.barriers = both(Some(record.number()));
        }
        if let Some(kernel) = function.kernel.as_deref_mut() {
            match KernelParameter::of(&record) {
                Some(parameter) if with_parameters => parameters.push(parameter),
                Some(_) => {}
                None => kernel.take(&record),
            }
        }
    }
    if let Some(kernel) = function.kernel.as_deref_mut() {
        parameters.sort_by_key(|parameter| parameter.ordinal);
        kernel.parameters.extend(parameters.iter().map(|one| (one.offset, one.size)));
    }
    Ok(())
}

impl ReportKernel {
    fn take(&mut self, record: &Record<'_>) {
        let words = || Some([record.word(0)?, record.word(1)?, record.word(2)?]);
        match record.code {
            code::PARAM_CBANK => {
                let place = record.word(1).unwrap_or(0);
                (self.parameter_offset, self.parameter_bytes) = (place & 0xffff, place >> 16);
            }
            code::MAX_THREADS => self.bounds.most_threads = words(),
            code::REQNTID => self.bounds.threads = words(),
            code::MAXREG_COUNT => {
                let limit = Some(record.number());
                self.bounds.registers = limit.filter(|&limit| limit != NO_REGISTER_LIMIT);
            }
            code::CTA_PER_CLUSTER => self.bounds.cluster = words(),
            code::MAX_CLUSTER_RANK => self.bounds.most_cluster = Some(record.number()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_give_an_image() {
        for bytes in [&b""[..], b"\x7fELF", &[0; 100]] {
            let mut image = ReportImage::new(String::new(), "cubin", "sm_90".to_owned());
            image.read(bytes, Detail::Functions);
            assert!(!image.defect.is_empty() && image.functions.is_empty());
            assert_eq!(image.bytes, bytes.len() as u64);
        }
    }
}
