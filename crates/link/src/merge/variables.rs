//! Merging, second step of a file: every symbol that is no function, in symbol order.

use culd_cubin::elf::{stb, sto, stt};
use culd_cubin::{SectionIndex, Symbol, SymbolSection};

use super::{CommonVariable, Merge, Placed, SharedGroup, SharedNode, Target};
use crate::draft::{Kind, OutSymbol};
use crate::id::{ObjectId, OutSymbolId, SectionId, SymbolId};
use crate::objects::{Object, Role, is_internal};
use crate::symbols::{Fate, defined_role};
use crate::system_names::{is_descriptor_size, is_reserved_shared, is_unified_table};

impl<'d> Merge<'_, 'd> {
    pub(super) fn variables(&mut self, id: ObjectId, object: &Object<'d>) {
        for &index in &object.outline.variables {
            let symbol = object.symbol(index);
            let Some(program) = self.symbols.of(id, index) else { continue };
            if is_internal(symbol) && !self.merged.draft.relocatable {
                if let Some(section) = symbol.defined_in() {
                    let placed = self.place(id, object, section);
                    self.merged.targets[program] = self.internal(program, symbol, placed);
                }
                continue;
            }
            let fate = self.symbols.fate(id, index);
            let placed = match symbol.section {
                // A section is copied for the first definition in it that counts.
                SymbolSection::In(section) if fate.brings_section() => {
                    match self.place(id, object, section) {
                        Placed::No | Placed::Waiting => continue,
                        placed => placed,
                    }
                }
                _ => Placed::No,
            };
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
            if fate.brings_section() && placed != Placed::No {
                // The binding is that of the last definition that was accepted.
                let entry = &mut self.merged.draft.symbols[out];
                entry.info = info;
            }
            if let Placed::At { section, base } = placed
                && fate == Fate::Chosen
            {
                let entry = &mut self.merged.draft.symbols[out];
                entry.section = Some(section);
                // The value of a variable of the system's shared memory is its alignment until all are known.
                let reserved = defined_role(object, symbol) == Some(Role::ReservedShared);
                entry.value = if reserved { symbol.value } else { base + symbol.value };
                entry.size = symbol.size;
                if is_internal(symbol) {
                    self.literal_symbols.entry(section).or_default().push(out);
                }
            }
        }
    }

    /// A parameter that is a texture, sampler or surface reference belongs to the first kernel of that
    /// name's code (case textures/parameters-of-one-name).
    fn parameter(&mut self, id: ObjectId, out: OutSymbolId, code: SectionIndex) {
        if let Placed::At { section, .. } = self.placed(id, code) {
            self.merged.draft.symbols[out].section.get_or_insert(section);
        }
    }

    /// What relocations against a symbol of ptxas mean. Those in banks of entries stay visible when
    /// relocations are recorded.
    fn internal(&mut self, program: SymbolId, symbol: &Symbol<'d>, placed: Placed) -> Target {
        let value = symbol.value;
        let Placed::At { section, base } = placed else {
            return Target::Internal { placed, value };
        };
        if !self.preserve {
            return Target::Internal { placed, value };
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
        Target::Symbol(out)
    }

    /// The pool of shared variables exists as soon as a file names one.
    pub(super) fn shared_pool(&mut self) -> SectionId {
        let name = self.merged.draft.names.intern(b".nv_debug.shared");
        let flags = culd_cubin::elf::shf::WRITE | culd_cubin::elf::shf::ALLOC;
        self.find(name).unwrap_or_else(|| self.create(name, Kind::PoolShared, flags, 1))
    }

    /// The output symbol of a variable, created on first sight.
    fn variable_symbol(
        &mut self,
        object: &Object<'d>,
        program: SymbolId,
        symbol: &Symbol<'d>,
    ) -> OutSymbolId {
        if let Target::Symbol(out) = self.merged.targets[program] {
            return out;
        }
        let undefined = symbol.section == SymbolSection::Undefined;
        let unified = undefined && is_unified_table(symbol.name);
        // The system's own names become global whatever their binding was.
        let system = unified || is_reserved_shared(symbol.name) || is_descriptor_size(symbol.name);
        let name = self.symbols.all[program].name;
        let relocatable = self.merged.draft.relocatable;
        // Places of addresses in position-independent code are chosen by name, like variables, and forgotten
        // (case constant/addresses).
        let place = symbol.other & sto::INTERNAL != 0 && !relocatable && !self.preserve;
        let hidden = place
            || symbol.is_shared()
                && !relocatable
                && !self.is_never_defined(program, symbol)
                && !self.keeps_shared(object, program, symbol);
        let draft = &mut self.merged.draft;
        let out = draft.symbols.push(OutSymbol {
            name,
            info: if system { draft.system_info() } else { draft.variable_info(symbol) },
            other: match relocatable {
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
        let global = system || draft.is_global(symbol.binding());
        if global {
            draft.globals.push(out);
        } else {
            draft.locals.push(out);
        }
        // What is laid out and forgotten leaves not even its name.
        if !hidden && global {
            draft.global_strings.add(name);
        } else if !hidden {
            draft.local_strings.add(name);
        }
        self.merged.targets[program] = Target::Symbol(out);
        out
    }

    /// A weak variable with a size that no file defines is not laid out, and stays (case shared/weak-undefined-80).
    fn is_never_defined(&self, program: SymbolId, symbol: &Symbol<'d>) -> bool {
        let weak = symbol.binding() == stb::WEAK && symbol.size != 0;
        weak && self.symbols.all[program].definition.is_none()
    }

    /// Where shared variables keep their symbols: kernels' own ones, arrays without size, and all
    /// others that code names (cases debug/*, syscalls/reserved-shared).
    fn keeps_shared(&self, object: &Object<'d>, program: SymbolId, symbol: &Symbol<'d>) -> bool {
        let Some(named) = &self.named_shared else { return false };
        match symbol.defined_in() {
            Some(section) if object.role(section) == Role::OwnShared => true,
            None if symbol.binding() != stb::LOCAL && symbol.size == 0 => true,
            _ => named.contains(&program),
        }
    }

    /// A shared variable takes part in the layout once for every definition that was accepted
    /// (a strong one after a weak one is laid out besides it: case shared/weak), and
    /// once for an array without size.
    fn shared_variable(
        &mut self,
        id: ObjectId,
        object: &Object<'d>,
        symbol: &Symbol<'d>,
        out: OutSymbolId,
        fate: Fate,
    ) {
        let known = self.merged.draft.symbols[out].shared;
        let group = known.unwrap_or(self.merged.shared.groups.len() as u32);
        if known.is_none() {
            let new = SharedGroup { defined: false, size: symbol.size, unsized_node: None };
            self.merged.shared.groups.push(new);
            self.merged.draft.symbols[out].shared = Some(group);
        }
        let (size, align) = (symbol.size, symbol.value.max(1));
        let Some(section) = symbol.defined_in() else {
            // A name that had a size before is no array without size.
            if size == 0 && known.is_none() {
                self.shared_pool();
                let node = SharedNode { group, size, align, defined: false, own: None };
                let at = self.merged.shared.nodes.len();
                self.merged.shared.groups[group as usize].unsized_node = Some(at);
                self.merged.shared.nodes.push(node);
                self.merged.shared.any_extern = true;
            }
            return;
        };
        if !fate.accepted() {
            return;
        }
        // The entry whose shared memory it is; one of two local entries of a name has it all.
        let own = match (object.role(section), self.placed(id, section)) {
            (Role::OwnShared, Placed::At { section, .. }) => {
                self.merged.draft.sections[section].owner
            }
            _ => None,
        };
        let known = &mut self.merged.shared.groups[group as usize];
        (known.defined, known.size) = (true, size);
        let node = SharedNode { group, size, align, defined: true, own };
        // nvlink never lays out an array that a file before declared without size; here it takes
        // that place (docs/DIFFERENCES.md, shared-unsized-first).
        match known.unsized_node.take() {
            Some(at) => self.merged.shared.nodes[at] = node,
            None => self.merged.shared.nodes.push(node),
        }
    }

    /// A tentative definition: the largest size, the alignment of the first.
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
