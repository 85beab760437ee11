//! Merging, second step of a file: all symbols that are not functions, in symbol order.

use culd_cubin::arch::Flavour;
use culd_cubin::elf::{stb, sto, stt};
use culd_cubin::{SectionIndex, Symbol, SymbolSection};

use super::Merger;
use crate::base::id::{ObjectId, OutSymbolId, SectionId, SymbolId};
use crate::base::system_names::{
    RESERVED_BEGIN, RESERVED_CAP, is_descriptor_size, is_reserved_shared, is_unified_table,
};
use crate::draft::kind::SectionKind;
use crate::draft::merged::{
    AllocationKind, CommonVariable, MergeResult, SectionPlacement, SharedAllocation,
    SharedVariable, SharedVariables, SymbolTarget,
};
use crate::draft::section::OutSymbol;
use crate::objects::linkers::NvidiaLinker;
use crate::objects::object::InputObject;
use crate::objects::roles::{SectionRole, is_internal};
use crate::objects::whole;
use crate::options::dialect::ReservedCap;
use crate::symbols::{Fate, defined_role};

/// A symbol of a file that is not a function.
#[derive(Clone, Copy)]
struct InputVariable<'o, 'd> {
    id: ObjectId,
    object: &'o InputObject<'d>,
    symbol: &'o Symbol<'d>,
    program: SymbolId,
}

impl<'d> Merger<'_, 'd> {
    pub(super) fn variables(&mut self, id: ObjectId, object: &InputObject<'d>) {
        for &index in &object.outline.variables {
            let symbol = object.symbol(index);
            let Some(program) = self.symbols.of(id, index) else { continue };
            let input = InputVariable { id, object, symbol, program };
            let internal = is_internal(symbol) && !whole::is_placed(object, symbol);
            if internal && !self.merged.draft.relocatable {
                self.internal_symbol(input);
            } else {
                self.variable(input, self.symbols.fate(id, index));
            }
        }
        if self.counts_unnamed(object) {
            self.allocate_unnamed_shared(id, object);
        }
    }

    /// Places a symbol that ptxas made for its own use. Its name stays in the string table.
    fn internal_symbol(&mut self, input: InputVariable<'_, 'd>) {
        let InputVariable { id, object, symbol, program } = input;
        let name = self.symbols.all[program].name;
        let was_listed = self.merged.draft.local_strings.contains(name);
        if let Some(section) = symbol.defined_in() {
            let placed = self.place(id, object, section);
            self.merged.targets[program] = self.internal_target(program, symbol, placed);
            let names_lost = !self.merged.draft.dialect.has_three_lists;
            if names_lost && self.are_nameless(id, object, section, placed) {
                return;
            }
        }
        self.merged.draft.add_lost_name(name);
        let strings = &mut self.merged.draft.local_strings;
        if was_listed || !strings.contains(name) {
            strings.count(name);
        }
    }

    /// Adds a variable, a reference or a symbol of the system, and the section that defines it.
    fn variable(&mut self, input: InputVariable<'_, 'd>, fate: Fate) {
        let InputVariable { id, object, symbol, program } = input;
        let placed = match symbol.section {
            // The first definition in a section that counts brings the section.
            SymbolSection::In(section) if fate.brings_section() => {
                match self.place(id, object, section) {
                    SectionPlacement::Dropped | SectionPlacement::LosersLiterals => {
                        if symbol.is_shared() {
                            let name = self.symbols.all[program].name;
                            self.merged.draft.add_lost_name(name);
                        }
                        return;
                    }
                    placed => placed,
                }
            }
            _ => SectionPlacement::Dropped,
        };
        let array = symbol.is_shared() && symbol.size == 0 && symbol.defined_in().is_none();
        if array && !matches!(self.merged.targets[program], SymbolTarget::Symbol(_)) {
            // As if it were defined there: before the name (case shared/dynamic-in-steps with
            // -r).
            self.shared_pool();
        }
        let out = self.variable_symbol(object, program, symbol);
        let info = self.merged.draft.variable_info(symbol);
        if let Some(code) = symbol.defined_in()
            && symbol.is_reference()
        {
            self.parameter(id, out, code);
        } else if symbol.is_shared() {
            self.shared_variable(id, object, symbol, out, fate);
        } else if symbol.section == SymbolSection::Common {
            self.common(program, out, symbol);
        }
        if fate.brings_section() && placed != SectionPlacement::Dropped {
            // The binding is that of the last accepted definition.
            self.merged.draft.symbols[out].info = info;
        }
        if let SectionPlacement::At { section, base } = placed
            && fate == Fate::Chosen
        {
            let entry = &mut self.merged.draft.symbols[out];
            entry.section = Some(section);
            // A variable in the system's part of shared memory has its alignment as value until
            // all are known.
            let reserved = defined_role(object, symbol) == Some(SectionRole::ReservedShared);
            entry.value = if reserved { symbol.value } else { base + symbol.value };
            entry.size = symbol.size;
            if is_internal(symbol) {
                self.banks.literal_symbols.entry(section).or_default().push(out);
            }
        }
    }

    /// True for an object whose shared sections without a variable count like variables.
    pub(super) fn counts_unnamed(&self, object: &InputObject<'d>) -> bool {
        self.counts_unnamed_shared && object.linker == Some(NvidiaLinker::Nvlink)
    }

    /// Adds kernels' shared memory without a variable to the layout, like a variable, also that of
    /// copies that lost. nvlink leaves such memory for a kernel that uses `extern` arrays (case
    /// shared/dynamic-in-steps by 13.5). When nvlink links an object of LTO-IR that it makes, no
    /// such step came before.
    fn allocate_unnamed_shared(&mut self, id: ObjectId, object: &InputObject<'d>) {
        let has_variable = |section| {
            let mut variables = object.outline.variables.iter();
            variables.any(|&index| object.symbol(index).defined_in() == Some(section))
        };
        for (index, section) in object.cubin.section_indices() {
            let shared = object.role(index) == SectionRole::OwnShared && section.size != 0;
            let Some(code) = section.info_section().filter(|_| shared) else { continue };
            let own = match self.placement(id, code) {
                SectionPlacement::At { section, .. } => Some(section),
                SectionPlacement::Lost(kernel) => self.merged.draft.symbols[kernel].section,
                _ => None,
            };
            if own.is_none() || has_variable(index) {
                continue;
            }
            self.merged.shared.allocate_unnamed(
                AllocationKind::Unnamed,
                own,
                section.size,
                section.align(),
            );
        }
    }

    /// Puts a parameter that is a texture, sampler or surface reference into the code of the first
    /// kernel with a parameter of this name (case textures/parameters-of-one-name).
    fn parameter(&mut self, id: ObjectId, out: OutSymbolId, code: SectionIndex) {
        if let SectionPlacement::At { section, .. } = self.placement(id, code) {
            self.merged.draft.symbols[out].section.get_or_insert(section);
        }
    }

    /// The meaning of relocations against an internal symbol of ptxas. A symbol in a bank of an
    /// entry gets an output symbol if applied relocations are recorded.
    fn internal_target(
        &mut self,
        program: SymbolId,
        symbol: &Symbol<'d>,
        placed: SectionPlacement,
    ) -> SymbolTarget {
        let value = symbol.value;
        let SectionPlacement::At { section, base } = placed else {
            return SymbolTarget::Internal { placement: placed, value };
        };
        if !self.preserve {
            return SymbolTarget::Internal { placement: placed, value };
        }
        let draft = &mut self.merged.draft;
        let name = self.symbols.all[program].name;
        let out = draft.symbols.push(OutSymbol {
            name,
            info: stb::LOCAL << 4 | stt::OBJECT,
            other: sto::INTERNAL,
            section: Some(section),
            value: base + value,
            size: symbol.size,
            program: Some(program),
            shared: None,
            dropped: false,
        });
        draft.locals.push(out);
        draft.local_strings.add(name);
        SymbolTarget::Symbol(out)
    }

    /// The pool of shared variables, created when a file first names one.
    pub(super) fn shared_pool(&mut self) -> SectionId {
        let name = self.merged.draft.names.intern(b".nv_debug.shared");
        let flags = culd_cubin::elf::shf::WRITE | culd_cubin::elf::shf::ALLOC;
        self.find(name).unwrap_or_else(|| self.create(name, SectionKind::PoolShared, flags, 1))
    }

    /// The output symbol of a variable, created on first sight.
    fn variable_symbol(
        &mut self,
        object: &InputObject<'d>,
        program: SymbolId,
        symbol: &Symbol<'d>,
    ) -> OutSymbolId {
        if let SymbolTarget::Symbol(out) = self.merged.targets[program] {
            return out;
        }
        let unified = symbol.section == SymbolSection::Undefined && is_unified_table(symbol.name);
        let system = self.is_of_system(symbol);
        let name = self.symbols.all[program].name;
        let hidden = self.is_hidden(object, program, symbol);
        let draft = &mut self.merged.draft;
        let out = draft.symbols.push(OutSymbol {
            name,
            info: if system { draft.system_info() } else { draft.variable_info(symbol) },
            other: match draft.relocatable {
                true => symbol.other,
                false if symbol.is_reference() => 0,
                false => symbol.other & !sto::SPACE,
            },
            section: None,
            value: draft.first_value(symbol),
            size: symbol.size,
            program: Some(program),
            shared: None,
            dropped: unified && !self.keeps_table_names || hidden,
        });
        if symbol.name == RESERVED_CAP {
            self.note_cap_in_null();
        }
        let draft = &mut self.merged.draft;
        let global = system || draft.is_global(symbol.binding());
        if global {
            draft.globals.push(out);
        } else {
            draft.locals.push(out);
        }
        // A symbol that is only laid out does not even leave its name.
        if !hidden && global {
            draft.add_global_name(name);
        } else if !hidden {
            draft.local_strings.add(name);
        } else {
            draft.add_lost_name(name);
        }
        self.merged.targets[program] = SymbolTarget::Symbol(out);
        out
    }

    /// True for a symbol of the system, which becomes global with any binding.
    fn is_of_system(&self, symbol: &Symbol<'d>) -> bool {
        let later = is_descriptor_size(symbol.name) || symbol.name == RESERVED_CAP;
        match later {
            true => self.merged.draft.dialect.knows_later_variables,
            false
                if symbol.section == SymbolSection::Undefined && is_unified_table(symbol.name) =>
            {
                true
            }
            false => is_reserved_shared(symbol.name),
        }
    }

    /// True for a symbol that is only laid out, and dropped then: of shared memory, and slots of
    /// addresses in position-independent code, which are resolved by name like variables (case
    /// constant/addresses).
    fn is_hidden(&self, object: &InputObject<'d>, program: SymbolId, symbol: &Symbol<'d>) -> bool {
        if self.merged.draft.relocatable {
            return false;
        }
        let is_address_slot = symbol.other & sto::INTERNAL != 0 && !self.preserve;
        is_address_slot
            || symbol.is_shared()
                && !self.is_never_defined(program, symbol)
                && !self.keeps_shared(object, program, symbol)
    }

    /// Some releases mean the symbol of the begin by [`RESERVED_CAP`]. That is symbol 0 where no
    /// file names it (case dialects/reserved-shared-12-6; `tests/late_compat.rs`).
    fn note_cap_in_null(&mut self) {
        let draft = &mut self.merged.draft;
        let in_null = draft.dialect.reserved_cap == ReservedCap::InNull;
        if !in_null || draft.flavour != Flavour::Classic {
            return;
        }
        let mut all = self.symbols.all.iter();
        if !all.any(|(_, symbol)| draft.names.get(symbol.name) == RESERVED_BEGIN) {
            draft.null_value = Some(draft.reserved_shared);
        }
    }

    /// True for a weak variable with a size that no file defines: it is not laid out, and its
    /// symbol is kept (case shared/weak-undefined-80).
    fn is_never_defined(&self, program: SymbolId, symbol: &Symbol<'d>) -> bool {
        let weak = symbol.binding() == stb::WEAK && symbol.size != 0;
        weak && self.symbols.all[program].definition.is_none()
    }

    /// True for a shared variable whose symbol is kept, in a link that keeps such symbols: a
    /// kernel's own variable, an array without size, or any other that code names (cases debug/*,
    /// syscalls/reserved-shared).
    fn keeps_shared(
        &self,
        object: &InputObject<'d>,
        program: SymbolId,
        symbol: &Symbol<'d>,
    ) -> bool {
        let Some(named) = &self.named_shared else { return false };
        match symbol.defined_in() {
            Some(section) if object.role(section) == SectionRole::OwnShared => true,
            None if symbol.binding() != stb::LOCAL && symbol.size == 0 => true,
            _ => named.contains(&program),
        }
    }

    /// Adds a shared variable to the layout, once for every accepted definition, and once for an
    /// array without size. A strong definition after a weak one is laid out in addition to it
    /// (case shared/weak).
    fn shared_variable(
        &mut self,
        id: ObjectId,
        object: &InputObject<'d>,
        symbol: &Symbol<'d>,
        out: OutSymbolId,
        fate: Fate,
    ) {
        let MergeResult { draft, shared, .. } = &mut self.merged;
        let known = draft.symbols[out].shared;
        let variable = known.unwrap_or_else(|| {
            shared.variables.push(SharedVariable {
                defined: false,
                size: symbol.size,
                unsized_allocation: None,
            })
        });
        draft.symbols[out].shared = Some(variable);
        let allocation = SharedAllocation {
            kind: AllocationKind::Variable,
            variable,
            size: symbol.size,
            align: symbol.value.max(1),
            defined: false,
            kernel_code: None,
            fixed_offset: None,
        };
        let Some(section) = symbol.defined_in() else {
            // A name that had a size before is not an array without size.
            if symbol.size == 0 && known.is_none() {
                let id = shared.allocations.push(allocation);
                shared.variables[variable].unsized_allocation = Some(id);
                shared.any_extern = true;
            }
            return;
        };
        if !fate.accepted() {
            return;
        }
        // The entry that owns the shared memory; one of several local entries of a name owns it
        // all.
        let kernel_code = match (object.role(section), self.placement(id, section)) {
            (SectionRole::OwnShared, SectionPlacement::At { section, .. }) => {
                self.merged.draft.sections[section].owner
            }
            _ => None,
        };
        let fixed_offset = whole::is_placed(object, symbol).then_some(symbol.value);
        let align = if fixed_offset.is_some() { 1 } else { allocation.align };
        let definition =
            SharedAllocation { defined: true, align, kernel_code, fixed_offset, ..allocation };
        let SharedVariables { variables, allocations, .. } = &mut self.merged.shared;
        let known = &mut variables[variable];
        (known.defined, known.size) = (true, symbol.size);
        // nvlink never lays out an array that an earlier file declared without size. culd lays it
        // out in that place (docs/DIFFERENCES.md, shared-unsized-first).
        match known.unsized_allocation.take() {
            Some(id) => allocations[id] = definition,
            None => {
                allocations.push(definition);
            }
        }
    }

    /// Bytes up to the end of variables with symbols in the shared memory of the kernel with that
    /// code. With `-g` nvlink 12.8 and later count only these, so kernels without symbols lack the
    /// room that they need (docs/DIFFERENCES.md, whole-program-debug).
    fn named_size(&self, code: Option<SectionId>) -> u64 {
        let allocations = self.merged.shared.allocations.values();
        let named = allocations.filter(|allocation| {
            allocation.kernel_code == code && allocation.kind != AllocationKind::WholeProgram
        });
        named.fold(0, |end, allocation| match allocation.fixed_offset {
            Some(offset) => end.max(offset + allocation.size),
            None => end + allocation.size,
        })
    }

    /// Adds the shared memory of a kernel as ptxas laid it out: one variable without name. nvlink
    /// treats it as symbol 0.
    pub(super) fn laid_out_shared(
        &mut self,
        id: ObjectId,
        object: &InputObject<'d>,
        index: SectionIndex,
    ) {
        let SectionPlacement::At { section, .. } = self.place(id, object, index) else { return };
        let input = object.section(index);
        let (size, align) = (input.size, input.align().max(1));
        let own = self.merged.draft.sections[section].owner;
        let counts = !self.for_debugger || self.merged.draft.dialect.counts_memory_with_g;
        if !counts && size <= self.named_size(own) {
            return;
        }
        self.merged.shared.allocate_unnamed(AllocationKind::WholeProgram, own, size, align);
        if self.merged.draft.relocatable {
            self.merged.draft.null_value.get_or_insert(align);
        }
    }

    /// Notes a tentative definition. The largest size counts, and the alignment of the first.
    fn common(&mut self, program: SymbolId, out: OutSymbolId, symbol: &Symbol<'d>) {
        if self.common_seen.insert(program) {
            let align = symbol.value.max(1);
            self.merged.commons.push(CommonVariable { out, align });
        }
        let entry = &mut self.merged.draft.symbols[out];
        if entry.section.is_none() {
            entry.size = entry.size.max(symbol.size);
        }
    }
}
