//! Merging, second step of a file: every symbol that is no function, in symbol order.

use culd_cubin::elf::{stb, sto, stt};
use culd_cubin::{Symbol, SymbolSection};

use super::{CommonVariable, Merge, Placed, SharedVariable, Target};
use crate::draft::{Kind, OutSymbol};
use crate::id::{ObjectId, OutSymbolId, SectionId, SymbolId};
use crate::objects::{Object, Role, is_internal, is_reserved_shared, is_unified_table};
use crate::symbols::Fate;

impl<'d> Merge<'_, 'd> {
    pub(super) fn variables(&mut self, id: ObjectId, object: &Object<'d>) {
        for (index, symbol) in object.cubin.symbol_indices() {
            if symbol.is_function() {
                continue;
            }
            let Some(program) = self.symbols.of(id, index) else { continue };
            if is_internal(symbol) {
                if let Some(section) = symbol.defined_in() {
                    let placed = self.place(id, object, section);
                    let value = symbol.value;
                    self.merged.targets[program] = Target::Internal { placed, value };
                }
                continue;
            }
            let placed = match symbol.section {
                SymbolSection::In(section) => match self.place(id, object, section) {
                    Placed::No => continue,
                    placed => placed,
                },
                _ => Placed::No,
            };
            if symbol.is_shared() && symbol.binding() != stb::LOCAL && placed == Placed::No {
                self.shared_pool();
            }
            let (out, new) = self.variable_symbol(program, symbol);
            if symbol.is_shared() {
                self.shared_variable(id, object, symbol, program, out, new);
            } else if symbol.section == SymbolSection::Common {
                self.common(program, out, symbol);
            }
            let chosen = self.symbols.fate(id, index) == Fate::Chosen;
            if let Placed::At { section, base } = placed
                && chosen
            {
                let entry = &mut self.merged.draft.symbols[out];
                entry.section = Some(section);
                entry.value = base + symbol.value;
                entry.size = symbol.size;
                entry.info = symbol.info & 0xf0 | stt::OBJECT;
            }
        }
    }

    /// The pool of shared variables exists as soon as a file names one.
    pub(super) fn shared_pool(&mut self) -> SectionId {
        let name = self.merged.draft.names.intern(b".nv_debug.shared");
        let flags = culd_cubin::elf::shf::WRITE | culd_cubin::elf::shf::ALLOC;
        self.find(name).unwrap_or_else(|| self.create(name, Kind::PoolShared, flags, 1))
    }

    /// The output symbol of a variable, and whether it is new.
    fn variable_symbol(&mut self, program: SymbolId, symbol: &Symbol<'d>) -> (OutSymbolId, bool) {
        if let Target::Symbol(out) = self.merged.targets[program] {
            return (out, false);
        }
        let undefined = symbol.section == SymbolSection::Undefined;
        let unified = undefined && is_unified_table(symbol.name);
        // The system's own names become global whatever their binding was.
        let system = unified || is_reserved_shared(symbol.name);
        let kind = if symbol.kind() == stt::CUDA_OBJECT { stt::OBJECT } else { symbol.kind() };
        let name = self.symbols.all[program].name;
        let shared = symbol.is_shared();
        let draft = &mut self.merged.draft;
        let out = draft.symbols.push(OutSymbol {
            name,
            info: if system { stb::GLOBAL << 4 | stt::OBJECT } else { symbol.info & 0xf0 | kind },
            other: symbol.other & !sto::SPACE,
            section: None,
            value: 0,
            size: symbol.size,
            program: Some(program),
            shared: None,
            dropped: unified || shared,
        });
        let global = system || symbol.binding() == stb::GLOBAL;
        if global {
            draft.globals.push(out);
        } else {
            draft.locals.push(out);
        }
        // Shared variables are laid out and forgotten: not even their names stay.
        if !shared && global {
            draft.intern_global_name(name);
        } else if !shared {
            draft.intern_local_name(name);
        }
        self.merged.targets[program] = Target::Symbol(out);
        (out, true)
    }

    fn shared_variable(
        &mut self,
        id: ObjectId,
        object: &Object<'d>,
        symbol: &Symbol<'d>,
        program: SymbolId,
        out: OutSymbolId,
        new: bool,
    ) {
        if new {
            self.merged.draft.symbols[out].shared = Some(self.merged.shared.len() as u32);
            self.merged.shared.push(SharedVariable {
                size: symbol.size,
                align: symbol.value.max(1),
                defined: false,
                own: None,
            });
        }
        let definition = self.symbols.all[program].definition;
        let here = definition.is_some_and(|site| {
            site.object == id && std::ptr::eq(object.symbol(site.index), symbol)
        });
        let Some(section) = symbol.defined_in().filter(|_| here) else { return };
        let own = match object.role(section) {
            Role::OwnShared => object.section(section).info_section(),
            _ => None,
        };
        let own = own.and_then(|text| match self.placed(id, text) {
            Placed::At { section, .. } => Some(section),
            Placed::Lost(function) => self.merged.draft.symbols[function].section,
            _ => None,
        });
        let Some(at) = self.merged.draft.symbols[out].shared else { return };
        let variable = &mut self.merged.shared[at as usize];
        variable.size = symbol.size;
        variable.align = symbol.value.max(1);
        variable.defined = true;
        variable.own = own;
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
