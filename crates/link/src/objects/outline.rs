//! Phase `objects`: the outline of an object, over which merging walks.
//!
//! Merging runs on one thread and mostly waits for memory. So all threads find here, in few bytes,
//! what can be known of each object before merging (docs/PERFORMANCE.md, threads). In: a checked
//! object. Out: [`ObjectOutline`].

use culd_cubin::elf::{sht, stt};
use culd_cubin::{Section, SectionIndex, SymbolIndex};
use hashbrown::HashSet;

use super::object::InputObject;
use super::roles::{SectionRole, takes_part};
use crate::options::dialect::Dialect;
use crate::options::driver_functions::is_driver_function;

/// The functions, variables and some sections of an object.
#[derive(Default)]
pub(crate) struct ObjectOutline<'d> {
    /// In the order of their creation.
    pub(crate) functions: Vec<FunctionOutline<'d>>,
    /// All other symbols that take part, in symbol order.
    pub(crate) variables: Vec<SymbolIndex>,
    /// Relocation sections, in section order.
    pub(crate) reloc_sections: Vec<RelocSectionRef>,
    /// Attributes of functions, in section order.
    pub(crate) attribute_sections: Vec<AttributeSectionRef>,
    /// Sections that are merged even if no symbol names them: debug information, tables, banks and
    /// variables.
    pub(crate) unnamed: Vec<SectionIndex>,
    /// Some function is a part of another one's code.
    pub(crate) has_inner_functions: bool,
    /// Shared sections of kernels in which ptxas has placed variables.
    pub(crate) laid_out: Vec<SectionIndex>,
    /// Bytes of all relocation records, a measure of work.
    pub(crate) reloc_bytes: usize,
}

/// A function of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FunctionOutline<'d> {
    pub(crate) index: SymbolIndex,
    /// The code section is named after it, so it is not an alias.
    pub(crate) names_code: bool,
    /// It is the definition of a kernel.
    pub(crate) is_kernel: bool,
    /// It has the name of a function of the driver.
    pub(crate) is_driver_function: bool,
    /// The bytes of the counterpart of its code section.
    pub(crate) mercury: &'d [u8],
}

/// A relocation section of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RelocSectionRef {
    pub(crate) section: SectionIndex,
    /// The section it patches.
    pub(crate) target: SectionIndex,
    pub(crate) missing_addend: MissingAddend,
}

/// The attributes of a function of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttributeSectionRef {
    pub(crate) section: SectionIndex,
    pub(crate) code: SectionIndex,
    /// The function that it is named after, if the code is named after it, too.
    pub(crate) function: Option<SymbolIndex>,
}

/// Whether a RELA section has a record without addend after its first record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingAddend {
    Never,
    /// Against section symbols only: in the output such a record may get an addend.
    SectionSymbolsOnly,
    Some,
}

impl<'d> ObjectOutline<'d> {
    pub(super) fn of(object: &InputObject<'d>, dialect: &Dialect) -> Self {
        let mut outline = ObjectOutline::default();
        outline.sections(object);
        outline.symbols(object, dialect);
        outline.laid_out(object);
        let mut functions = outline.functions.iter().filter(|function| !function.names_code);
        outline.has_inner_functions =
            functions.any(|function| object.outer_function(function.index).is_some());
        outline
    }

    fn sections(&mut self, object: &InputObject<'_>) {
        // About one of each per function. Without the room for these and in `symbols`: +0.8 %
        // instructions on many1000.
        let functions = object.code_count();
        self.reloc_sections.reserve_exact(functions + 2);
        self.attribute_sections.reserve_exact(functions);
        for ((index, section), role) in object.cubin.section_indices().zip(&object.roles) {
            use SectionRole::{Constant, Debug, FunctionIds, GlobalInit, UnifiedData, VariableIds};
            match role {
                SectionRole::Reloc => {
                    let missing_addend = missing_addend(object, section);
                    let patch = |target| RelocSectionRef { section: index, target, missing_addend };
                    self.reloc_sections.extend(section.info_section().map(patch));
                    self.reloc_bytes += section.data.len();
                }
                SectionRole::FunctionInfo => {
                    self.attribute_sections.extend(attribute_section(object, index, section))
                }
                Debug
                | SectionRole::Index
                | FunctionIds
                | VariableIds
                | Constant(_)
                | GlobalInit
                | UnifiedData => self.unnamed.push(index),
                _ => {}
            }
        }
    }

    /// The kernels' shared sections in which variables have their places: all of a whole program,
    /// and those without symbols in an object that was made of one (docs/LINKING.md, whole
    /// programs).
    fn laid_out(&mut self, object: &InputObject<'d>) {
        if !object.is_extensible() && !object.is_made_of_extensible() {
            return;
        }
        let roles = object.cubin.section_indices().zip(&object.roles);
        let shared = roles.filter(|(_, role)| **role == SectionRole::OwnShared);
        self.laid_out = shared.map(|((index, _), _)| index).collect();
        if object.is_made_of_extensible() {
            let variables = self.variables.iter();
            let named: HashSet<SectionIndex> =
                variables.filter_map(|&index| object.symbol(index).defined_in()).collect();
            self.laid_out.retain(|index| !named.contains(index));
        }
    }

    /// Functions are in symbol order, but code comes before its aliases (case alias/other-file in
    /// steps).
    fn symbols(&mut self, object: &InputObject<'d>, dialect: &Dialect) {
        let symbols = &object.cubin.symbols;
        let functions = symbols.iter().filter(|symbol| symbol.is_function()).count();
        let variables = symbols.iter().filter(|s| takes_part(s) && !s.is_function()).count();
        self.functions.reserve_exact(functions);
        self.variables.reserve_exact(variables);
        // Functions that were listed early, in front of an alias.
        let mut early = HashSet::new();
        for (index, symbol) in object.cubin.symbol_indices() {
            if !symbol.is_function() {
                self.variables.extend((index.0 != 0 && takes_part(symbol)).then_some(index));
                continue;
            }
            let text = symbol.defined_in();
            let main = text.and_then(|text| object.code_function(text));
            if let Some(main) = main.filter(|&main| main > index && early.insert(main)) {
                self.functions.push(function(object, main, true, dialect));
            }
            if early.is_empty() || !early.contains(&index) {
                let names_code =
                    main == Some(index) || text.is_some_and(|text| object.names_code(text, symbol));
                self.functions.push(function(object, index, names_code, dialect));
            }
        }
    }
}

fn attribute_section(
    object: &InputObject<'_>,
    section: SectionIndex,
    input: &Section<'_>,
) -> Option<AttributeSectionRef> {
    let code = input.info_section()?;
    let name = input.name.strip_prefix(b".nv.info.");
    let is_named = |&function: &SymbolIndex| name == Some(object.symbol(function).name);
    let function = object.code_function(code).filter(is_named);
    Some(AttributeSectionRef { section, code, function })
}

fn function<'d>(
    object: &InputObject<'d>,
    index: SymbolIndex,
    names_code: bool,
    dialect: &Dialect,
) -> FunctionOutline<'d> {
    let symbol = object.symbol(index);
    let is_kernel = symbol.is_entry() && symbol.defined_in().is_some();
    let is_driver_function = is_driver_function(symbol.name, dialect);
    let counterpart = symbol.defined_in().map_or(&[][..], |code| object.counterpart_data(code));
    FunctionOutline { index, names_code, is_kernel, is_driver_function, mercury: counterpart }
}

fn missing_addend(object: &InputObject<'_>, section: &Section<'_>) -> MissingAddend {
    if section.sh_type != sht::RELA {
        return MissingAddend::Never;
    }
    let records = section.relocations();
    let rest = records.iter().skip(1).filter(|record| record.addend == 0);
    let mut missing = MissingAddend::Never;
    for record in rest {
        if object.symbol(record.symbol).kind() != stt::SECTION {
            return MissingAddend::Some;
        }
        missing = MissingAddend::SectionSymbolsOnly;
    }
    missing
}
