//! Phase `objects`: what merging walks over.
//!
//! Merging is one thread's work, and takes most of its time to wait for memory. What of an object it can be told
//! beforehand is found here, by all threads, and in few bytes. In: an object that is checked. Out: [`Outline`].

use culd_cubin::elf::{sht, stt};
use culd_cubin::{Section, SectionIndex, SymbolIndex};
use hashbrown::HashSet;

use super::{Object, Role, takes_part};
use crate::names::{Hasher, NameHash};
use crate::system_names::is_system_call;

/// The functions, variables and some sections of an object.
#[derive(Default)]
pub(crate) struct Outline<'d> {
    /// By symbol: the hash of its name, if it takes part.
    pub(crate) hashes: Vec<Option<NameHash>>,
    /// In the order in which they are created.
    pub(crate) functions: Vec<Function<'d>>,
    /// All other symbols that take part, in the order of symbols.
    pub(crate) variables: Vec<SymbolIndex>,
    /// Relocation sections, in section order.
    pub(crate) patches: Vec<Patch>,
    /// Attributes of functions, in section order.
    pub(crate) infos: Vec<Info>,
    /// What is merged whether or not a symbol names it: debug information, tables, banks and variables.
    pub(crate) unnamed: Vec<SectionIndex>,
    /// Bytes of all relocation records, a measure of work.
    pub(crate) reloc_bytes: usize,
}

/// A function of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function<'d> {
    pub(crate) index: SymbolIndex,
    /// The code it is defined in is named after it: it is no alias.
    pub(crate) names_code: bool,
    /// The definition of a kernel.
    pub(crate) is_kernel: bool,
    /// It has the name of a function of the driver.
    pub(crate) is_system_call: bool,
    /// The bytes of the twin of the code that it is defined in.
    pub(crate) twin: &'d [u8],
}

/// A relocation section of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patch {
    pub(crate) section: SectionIndex,
    /// What it patches.
    pub(crate) target: SectionIndex,
    pub(crate) open: Open,
}

/// The attributes of a function of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Info {
    pub(crate) section: SectionIndex,
    pub(crate) code: SectionIndex,
    /// The function that it is named after, if the code is, too.
    pub(crate) function: Option<SymbolIndex>,
}

/// Whether a RELA section has a record without addend that is not its first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Open {
    No,
    /// Against the symbol of a section only: in the output it may have an addend.
    MayBe,
    Yes,
}

impl<'d> Outline<'d> {
    pub(super) fn of(object: &Object<'d>, hasher: &Hasher) -> Self {
        let mut outline = Outline::default();
        outline.sections(object);
        outline.symbols(object, hasher);
        outline
    }

    fn sections(&mut self, object: &Object<'_>) {
        // About one of each for a function.
        let functions = object.code_count();
        self.patches.reserve_exact(functions + 2);
        self.infos.reserve_exact(functions);
        for ((index, section), role) in object.cubin.section_indices().zip(&object.roles) {
            use Role::{Constant, Debug, FunctionIds, GlobalInit, UnifiedData, VariableIds};
            match role {
                Role::Reloc => {
                    let open = open(object, section);
                    let patch = |target| Patch { section: index, target, open };
                    self.patches.extend(section.info_section().map(patch));
                    self.reloc_bytes += section.data.len();
                }
                Role::FunctionInfo => self.infos.extend(info(object, index, section)),
                Debug
                | Role::Index
                | FunctionIds
                | VariableIds
                | Constant(_)
                | GlobalInit
                | UnifiedData => self.unnamed.push(index),
                _ => {}
            }
        }
    }

    /// Functions come in the order of symbols, but code before its aliases (case alias/other-file in steps).
    fn symbols(&mut self, object: &Object<'d>, hasher: &Hasher) {
        let symbols = &object.cubin.symbols;
        let functions = symbols.iter().filter(|symbol| symbol.is_function()).count();
        let variables = symbols.iter().filter(|s| takes_part(s) && !s.is_function()).count();
        self.hashes.reserve_exact(symbols.len());
        self.functions.reserve_exact(functions);
        self.variables.reserve_exact(variables);
        // Functions that are there already.
        let mut early = HashSet::new();
        for (index, symbol) in object.cubin.symbol_indices() {
            let takes_part = index.0 != 0 && takes_part(symbol);
            self.hashes.push(takes_part.then(|| hasher.name(symbol.name)));
            if !symbol.is_function() {
                self.variables.extend(takes_part.then_some(index));
                continue;
            }
            let text = symbol.defined_in();
            let main = text.and_then(|text| object.code_function(text));
            if let Some(main) = main.filter(|&main| main > index && early.insert(main)) {
                self.functions.push(function(object, main, true));
            }
            if early.is_empty() || !early.contains(&index) {
                let names_code =
                    main == Some(index) || text.is_some_and(|text| object.is_code_of(text, index));
                self.functions.push(function(object, index, names_code));
            }
        }
    }
}

fn info(object: &Object<'_>, section: SectionIndex, input: &Section<'_>) -> Option<Info> {
    let code = input.info_section()?;
    let name = input.name.strip_prefix(b".nv.info.");
    let is_named = |&function: &SymbolIndex| name == Some(object.symbol(function).name);
    let function = object.code_function(code).filter(is_named);
    Some(Info { section, code, function })
}

fn function<'d>(object: &Object<'d>, index: SymbolIndex, names_code: bool) -> Function<'d> {
    let symbol = object.symbol(index);
    let is_kernel = symbol.is_entry() && symbol.defined_in().is_some();
    let is_system_call = is_system_call(symbol.name);
    let twin = symbol.defined_in().map_or(&[][..], |code| object.twin_data(code));
    Function { index, names_code, is_kernel, is_system_call, twin }
}

fn open(object: &Object<'_>, section: &Section<'_>) -> Open {
    if section.sh_type != sht::RELA {
        return Open::No;
    }
    let records = section.relocations();
    let rest = records.iter().skip(1).filter(|record| record.addend == 0);
    let mut open = Open::No;
    for record in rest {
        if object.symbol(record.symbol).kind() != stt::SECTION {
            return Open::Yes;
        }
        open = Open::MayBe;
    }
    open
}
