//! Phase `check`: references that nvlink resolved too early.
//!
//! In: the program, everything laid out. Out: an error for each object of nvlink's `-r` whose code
//! may hold an address that this link changes. With `-r`, nvlink writes addresses into code that
//! only the final link knows, and drops the records (docs/DIFFERENCES.md, early-relocations). Such
//! code cannot be repaired, and would run with overlapping variables. The references of the code
//! are lost, so the definitions of the object decide.

use culd_cubin::elf::sto;
use culd_cubin::{SectionIndex, Symbol, SymbolIndex, SymbolSection};

use super::explain;
use crate::base::id::{IdVec, NodeId, ObjectId};
use crate::data::constants::{NO_BANK, SIZE_SYMBOL};
use crate::diag::note::Note;
use crate::diag::{Diagnostics, Message};
use crate::draft::merged::SectionPlacement;
use crate::objects::object::InputObject;
use crate::objects::roles::{SectionRole, is_internal};
use crate::options::dialect::Dialect;
use crate::program::LinkedProgram;
use crate::symbols::Fate;

/// Reports each object that cannot be linked, if there is no other error.
pub(crate) fn report(program: &LinkedProgram<'_, '_>, diags: &mut Diagnostics) {
    if diags.check().is_err() {
        return;
    }
    for (id, object) in program.objects.iter() {
        // Data has no such addresses but in debug information.
        let Some(linker) = object.linker.filter(|_| object.has_code()) else { continue };
        if let Some(what) = (EarlyObject { program, id, object }).found() {
            let file = object.name.to_owned();
            let linker = linker.name();
            let message = Message::ResolvedEarly { file, linker, what };
            diags.error(message, vec![Note::MakeObjectAnew]);
        }
    }
}

/// One object of nvlink's.
struct EarlyObject<'a, 'd> {
    program: &'a LinkedProgram<'a, 'd>,
    id: ObjectId,
    object: &'a InputObject<'d>,
}

impl EarlyObject<'_, '_> {
    /// A symbol that references were resolved to and that has another place now.
    fn found(&self) -> Option<String> {
        let symbols = self.object.outline.variables.iter();
        let mut found =
            symbols.filter_map(|&index| self.variable(index, self.object.symbol(index)));
        found.next().or_else(|| self.arrays()).or_else(|| self.banks())
    }

    /// True if the output is linked again. The next link could not see which references are
    /// resolved already, so none may be.
    fn is_step(&self) -> bool {
        self.program.options.relocatable
    }

    /// True where the release that made the object leaves records against shared variables in it.
    fn keeps_shared(&self) -> bool {
        Dialect::for_toolkit(self.object.cuinfo.toolkit).keeps_shared_records
    }

    fn variable(&self, index: SymbolIndex, symbol: &Symbol<'_>) -> Option<String> {
        let kind = if symbol.is_reference() {
            "texture, sampler or surface"
        } else if symbol.is_shared() {
            let reserved = symbol.defined_in().map(|at| self.object.role(at));
            let early = symbol.size != 0 && !self.keeps_shared();
            if !early || reserved == Some(SectionRole::ReservedShared) {
                return None;
            }
            "shared variable"
        } else if symbol.name == SIZE_SYMBOL {
            let draft = &self.program.merged.draft;
            let size = draft.constant_variables().map_or(NO_BANK, |bank| draft.sections[bank].size);
            return (self.is_step() || size != symbol.value)
                .then(|| "the size of the constant variables".to_owned());
        } else {
            let constant = match symbol.section {
                SymbolSection::Undefined => symbol.other & sto::SPACE == sto::SPACE_CONSTANT,
                _ => self.is_constant(symbol),
            };
            if !constant || self.keeps_place(index, symbol) {
                return None;
            }
            "constant variable"
        };
        Some(format!("{kind} '{}'", explain::display_name(symbol.name)))
    }

    /// True for a variable in a bank that belongs to no function.
    fn is_constant(&self, symbol: &Symbol<'_>) -> bool {
        let Some(at) = symbol.defined_in() else { return false };
        let bank = matches!(self.object.role(at), SectionRole::Constant(1..));
        bank && self.object.section(at).info_section().is_none()
    }

    /// True for a constant variable that is where the object has it.
    fn keeps_place(&self, index: SymbolIndex, symbol: &Symbol<'_>) -> bool {
        let LinkedProgram { symbols, merged, .. } = self.program;
        if self.is_step() || symbols.fate(self.id, index) != Fate::Chosen {
            return false;
        }
        if is_internal(symbol) {
            return symbol.defined_in().is_some_and(|bank| !self.moves(bank));
        }
        let out = symbols.of(self.id, index).and_then(|program| merged.out_symbol(program));
        out.is_some_and(|out| {
            let out = &merged.draft.symbols[out];
            // Places of addresses are never in the output.
            let gone = out.dropped && symbol.other & sto::INTERNAL == 0;
            out.section.is_some() && out.value == symbol.value && !gone
        })
    }

    /// An `extern` array whose references were resolved. `extern` arrays are behind all other
    /// variables of a kernel. In objects of releases that keep no records against shared variables,
    /// kernels keep a record about that place, and functions have the address 0.
    fn arrays(&self) -> Option<String> {
        let LinkedProgram { symbols, .. } = self.program;
        let arrays = &self.object.array_definitions;
        let sized = |&&index: &&SymbolIndex| {
            let program = symbols.of(self.id, index);
            program.is_some_and(|program| symbols.all[program].definition.is_some())
        };
        let array = match arrays.iter().find(sized) {
            Some(sized) => sized,
            None => {
                arrays.first().filter(|_| !self.keeps_shared() && self.functions_miss_arrays())?
            }
        };
        let name = explain::display_name(self.object.symbol(*array).name);
        Some(format!("array '{name}' in shared memory"))
    }

    /// True if a kernel that reaches a function of the object has variables in front of its arrays.
    fn functions_miss_arrays(&self) -> bool {
        let LinkedProgram { graph, data, .. } = self.program;
        let mut wanted = IdVec::filled(false, graph.nodes.len());
        let mut any = false;
        for node in self.functions() {
            wanted[node] = true;
            any = true;
        }
        if !any || self.is_step() {
            return any;
        }
        let reached = graph.reached_by_kernels(&wanted);
        reached.iter().zip(&data.shared.sizes).any(|(nodes, &size)| size != 0 && !nodes.is_empty())
    }

    /// The live functions of the object that are not kernels.
    fn functions(&self) -> impl Iterator<Item = NodeId> {
        let functions = self.object.outline.functions.iter().filter(|function| {
            let symbol = self.object.symbol(function.index);
            let chosen = self.program.symbols.fate(self.id, function.index) == Fate::Chosen;
            chosen && !symbol.is_entry()
        });
        functions.filter_map(|function| {
            let program = self.program.symbols.of(self.id, function.index)?;
            self.program.graph.node(program)
        })
    }

    /// A bank that has another place now: literals of a function, or constants that no symbol
    /// names.
    fn banks(&self) -> Option<String> {
        for (index, section) in self.object.cubin.section_indices() {
            let SectionRole::Constant(number @ 1..) = self.object.role(index) else { continue };
            if section.size == 0 {
                continue;
            }
            match section.info_section() {
                Some(code) if self.literals_move(code, index, number) => {
                    let function = self.object.code_function(code);
                    let name =
                        function.map_or(&b""[..], |function| self.object.symbol(function).name);
                    return Some(format!("literals of '{}'", explain::display_name(name)));
                }
                None if self.is_step() || self.moves(index) => {
                    return Some("constant variables".to_owned());
                }
                _ => {}
            }
        }
        None
    }

    /// True for a section that is not at the start of its section in the output.
    fn moves(&self, index: SectionIndex) -> bool {
        let placement = self.program.merged.placement(self.id, index);
        matches!(placement, SectionPlacement::At { base, .. } if base != 0)
    }

    /// True for literals of live code that are not at the start of a bank.
    fn literals_move(&self, code: SectionIndex, index: SectionIndex, number: u8) -> bool {
        let Some(function) = self.object.code_function(code) else { return false };
        let LinkedProgram { symbols, graph, merged, .. } = self.program;
        let is_entry = self.object.symbol(function).is_entry();
        let node = symbols.of(self.id, function).and_then(|program| graph.node(program));
        let chosen = symbols.fate(self.id, function) == Fate::Chosen;
        let Some(node) = node.filter(|_| chosen) else { return false };
        if self.is_step() {
            return !is_entry;
        }
        if is_entry {
            return self.moves(index);
        }
        let mut banks = merged.banks.values();
        banks.any(|bank| bank.node == node && bank.number == number && bank.offset != 0)
    }
}
