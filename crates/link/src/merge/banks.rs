//! Merging: constant banks of functions, and the literals in them.
//!
//! In: a bank of an input, and the copy of the function that owns it. Out: where its bytes go. The
//! bank of an entry is a section. The bank of another function is kept apart until all entries that
//! reach it are known (`data/banks.rs`). Copies that lost or are replaced leave literals behind
//! (docs/LINKING.md, weak definitions).

use std::collections::HashMap;

use culd_cubin::elf::{shf, sht};
use culd_cubin::{Section, SectionIndex};

use super::Merger;
use super::jump_tables::{self, JumpTables};
use crate::base::derived_names::Prefix;
use crate::base::id::{BankId, NameId, NodeId, ObjectId, OutSymbolId, SectionId};
use crate::draft::kind::SectionKind;
use crate::draft::merged::{BankKey, FunctionBank, MergeResult, SectionPlacement, SymbolTarget};
use crate::draft::section::{InputChunk, InputContent};
use crate::objects::object::InputObject;
use crate::objects::roles::{SectionRole, is_internal};

/// True for constants of the shapes that nvlink looks up by contents when kernels are selected.
/// nvlink leaves the offset of the last new one in symbol 0 (case selection/constants). It also
/// drops those that it finds, and then uses wrong addresses (docs/DIFFERENCES.md, equal-constants).
pub(super) fn looked_up(input: &Section<'_>) -> bool {
    matches!((input.size, input.align()), (4, 4) | (8, 8) | (12 | 16 | 20 | 24 | 32 | 48 | 64, _))
}

/// The constant banks of functions while files are merged.
#[derive(Default)]
pub(super) struct Banks<'d> {
    /// Sections that only hold literals of copies that lost.
    losers: HashMap<BankKey, SectionId>,
    /// The second section of a name, where there are two.
    second: HashMap<BankKey, SectionId>,
    /// In an object, the symbols of literals of accepted copies, by their section.
    pub(super) literal_symbols: HashMap<SectionId, Vec<OutSymbolId>>,
    /// The bank of a function that is no entry, by its number.
    of_functions: HashMap<(NodeId, u8), BankId>,
    /// Where a file's literals are in the bank of a function.
    pub(super) offsets: HashMap<(ObjectId, SectionIndex), BankOffset>,
    /// Jump tables of accepted copies.
    pub(super) tables: JumpTables<'d>,
}

/// A place in the bank of a function that is no entry.
#[derive(Clone, Copy)]
pub(super) struct BankOffset {
    pub(super) bank: BankId,
    /// Bytes.
    pub(super) offset: u64,
}

/// Whether the function that owns a bank counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BankCopy {
    Accepted,
    /// Another copy of the function counts.
    Lost,
}

/// A constant bank of an input.
#[derive(Clone, Copy)]
pub(super) struct InputBank<'o, 'd> {
    pub(super) id: ObjectId,
    pub(super) object: &'o InputObject<'d>,
    pub(super) index: SectionIndex,
    pub(super) number: u8,
}

impl<'d> InputBank<'_, 'd> {
    /// All of its bytes.
    fn whole(&self) -> InputContent<'d> {
        let input = self.object.section(self.index);
        InputContent::whole(input, self.object.counterpart_data(self.index))
    }
}

impl<'d> Merger<'_, 'd> {
    /// True for a function whose constant banks are kept for itself: an entry, or any function of
    /// an object.
    fn keeps_banks(&self, function: OutSymbolId) -> bool {
        let draft = &self.merged.draft;
        draft.relocatable || draft.symbols[function].is_entry()
    }

    /// Places a constant bank that belongs to the function with the code section `text`.
    pub(super) fn owned_bank(
        &mut self,
        bank: InputBank<'_, 'd>,
        text: SectionIndex,
    ) -> SectionPlacement {
        let InputBank { id, object, number, .. } = bank;
        match self.placement(id, text) {
            SectionPlacement::At { section: code, .. } => self.accepted_bank(bank, code),
            SectionPlacement::Lost(function) if number == 0 => {
                self.parameters_of_loser(bank, function)
            }
            SectionPlacement::Lost(_) => SectionPlacement::LosersLiterals,
            _ => {
                self.count_dead_bank(id, object, text, number);
                SectionPlacement::Dropped
            }
        }
    }

    /// Places a bank of an accepted copy, whose code is in `code`.
    fn accepted_bank(&mut self, bank: InputBank<'_, 'd>, code: SectionId) -> SectionPlacement {
        let InputBank { id, object, index, number } = bank;
        let Some(node) = self.node_of_text.get(code) else { return SectionPlacement::Dropped };
        let input = object.section(index);
        let literals = bank_content(object, index, number);
        let unnamed = literals.is_none() && number != 0;
        let key = BankKey { code, number };
        self.note_tables(object, index, key);
        let content = literals.unwrap_or_else(|| bank.whole());
        if self.keeps_banks(self.merged.function(self.graph, node)) {
            let known = self.merged.entry_banks.contains_key(&key);
            let placed = self.entry_bank(key, node, input, &content, BankCopy::Accepted);
            if let SectionPlacement::At { section, .. } = placed
                && unnamed
                && !known
            {
                // In an object: literals of a copy that lost (case literals/replaced-tables in
                // steps).
                self.merged.draft.sections[section].losers_only = true;
            }
            placed
        } else if unnamed {
            SectionPlacement::LosersLiterals
        } else {
            let bank = self.function_bank(key, node, input.name, &content);
            self.banks.offsets.insert((id, index), BankOffset { bank, offset: 0 });
            SectionPlacement::Bank(bank)
        }
    }

    /// Places the parameters of a copy of an entry that lost: they go into the winner's bank (cases
    /// weak/entries-*).
    fn parameters_of_loser(
        &mut self,
        bank: InputBank<'_, 'd>,
        winner: OutSymbolId,
    ) -> SectionPlacement {
        let symbol = &self.merged.draft.symbols[winner];
        let code = symbol.section.filter(|_| symbol.is_entry());
        let node = code.and_then(|code| self.node_of_text.get(code));
        let (Some(code), Some(node)) = (code, node) else { return SectionPlacement::Dropped };
        let key = BankKey { code, number: bank.number };
        let input = bank.object.section(bank.index);
        self.entry_bank(key, node, input, &bank.whole(), BankCopy::Lost)
    }

    /// Fills the bank of a function that is no entry. A replacing copy uses the slot of the first
    /// copy, and its bytes are put over what is left of that copy (case literals/left-behind).
    fn function_bank(
        &mut self,
        key: BankKey,
        node: NodeId,
        name: &'d [u8],
        content: &InputContent<'d>,
    ) -> BankId {
        let left = self.left_parts(key);
        let of_driver =
            self.graph.is_driver_function(node) && !self.banks.losers.contains_key(&key);
        let MergeResult { banks, draft, .. } = &mut self.merged;
        let id = *self.banks.of_functions.entry((node, key.number)).or_insert_with(|| {
            let mut bank = FunctionBank::new(node, key.number);
            if of_driver {
                // Its section may be filled again (case syscalls/definitions-with-literals).
                let (kind, flags) =
                    (SectionKind::Constant(key.number), shf::ALLOC | shf::INFO_LINK);
                let name = draft.names.intern(name);
                let section = draft.add_section(name, kind, flags, content.align);
                draft.sections[section].owner = Some(key.code);
                draft.sections[section].emptied = true;
                bank.driver_section = Some(section);
            } else {
                draft.unlisted += 1;
                // The bank becomes part of the entries' (case debug/dead-with-g by 12.3).
                draft.add_lost_section_name(name);
            }
            banks.push(bank)
        });
        let bank = &mut banks[id];
        bank.emptied = false;
        bank.align = bank.align.max(content.align);
        bank.chunks.extend(left);
        bank.chunks.extend(content.chunks_at(0));
        bank.size = bank.size.max(content.size);
        id
    }

    /// Keeps literals of a copy that lost: behind those of the winner, or in a section of their own
    /// that nothing uses (cases weak/literal-banks, literals/replaced-*). Literals that no symbol
    /// names are kept the same way: an object has such literals of copies that lost
    /// (case weak/literal-banks in steps).
    pub(super) fn lost_literals(
        &mut self,
        id: ObjectId,
        object: &InputObject<'d>,
        index: SectionIndex,
    ) {
        let input = object.section(index);
        let (SectionRole::Constant(number), Some(text)) =
            (object.role(index), input.info_section())
        else {
            return;
        };
        let function = match self.placement(id, text) {
            SectionPlacement::Lost(function) => Some(function),
            SectionPlacement::At { section, .. } => self.merged.draft.sections[section].function,
            _ => None,
        };
        let Some(function) = function else { return };
        let Some(code) = self.merged.draft.symbols[function].section else { return };
        let Some(node) = self.node_of_text.get(code) else { return };
        let key = BankKey { code, number };
        let content = self.lost_content(object, index, key);
        let bank = self.banks.of_functions.get(&(node, number)).copied();
        if let Some(bank) = bank.filter(|_| !self.banks.losers.contains_key(&key)) {
            let output = &mut self.merged.banks[bank];
            output.emptied = false;
            let offset = append_to_bank(output, &content);
            output.lost_at = Some(offset);
            self.banks.offsets.insert((id, index), BankOffset { bank, offset });
            self.name_lost_literals(id, object, index, SectionPlacement::Bank(bank));
            return;
        }
        let name = self.merged.draft.names.intern(input.name);
        let own = self.merged.entry_banks.get(&key).copied();
        let existing = own.or_else(|| self.find(name));
        let section = existing.unwrap_or_else(|| {
            self.create(name, SectionKind::Constant(number), input.flags, input.align())
        });
        let output = &mut self.merged.draft.sections[section];
        output.losers_only |= existing.is_none();
        output.owner = Some(code);
        output.align = output.align.max(input.align());
        let base = output.append_content(&content);
        // A section symbol may stand for them, and they may have relocations
        // (cases relocations/unnamed-literals-90, literals/of-losers-86,
        // literals/jump-tables-of-copies).
        self.set_placement(id, index, SectionPlacement::At { section, base });
        if !self.merged.draft.relocatable {
            self.name_lost_literals(id, object, index, SectionPlacement::At { section, base: 0 });
        }
        let keeps_banks = self.keeps_banks(function);
        // Functions of the driver have it as their bank (case syscalls/losers-with-literals).
        if keeps_banks || self.graph.is_driver_function(node) {
            self.merged.entry_banks.insert(key, section);
        }
        if !keeps_banks {
            self.banks.losers.insert(key, section);
        }
    }

    /// Resolves the symbols of literals that lost to the winner's bank: in edited files, code of
    /// other functions or a table names them, and nvlink takes the winner's literals at that offset
    /// (case literals/of-losers-86, of kernels `tests/invalid_values.rs`).
    fn name_lost_literals(
        &mut self,
        id: ObjectId,
        object: &InputObject<'d>,
        section: SectionIndex,
        placement: SectionPlacement,
    ) {
        for (index, symbol) in object.cubin.symbol_indices() {
            let literal = symbol.defined_in() == Some(section) && is_internal(symbol);
            if let Some(program) = self.symbols.of(id, index).filter(|_| literal) {
                let value = symbol.value;
                self.merged.targets[program] = SymbolTarget::Internal { placement, value };
            }
        }
    }

    /// Discards the literals of a copy that is replaced. An entry's section is removed with its
    /// name, unless something fills it again. Returns true if relocations were discarded, too,
    /// which happens since 13.5 only.
    pub(super) fn discard_literals(&mut self, code: SectionId, node: NodeId) -> bool {
        let computes_tables = self.computes_tables();
        let discards_relocs = self.merged.draft.dialect.emptied_banks_lose_records;
        let mut discarded_relocs = false;
        for number in 1..=17 {
            let key = BankKey { code, number };
            // nvlink finds the first section of the name; a second one does not change.
            let first = self.merged.entry_banks.get(&key).or(self.banks.losers.get(&key)).copied();
            let second = self.banks.second.get(&key).filter(|_| computes_tables).copied();
            let bank = self.banks.of_functions.get(&(node, number)).copied();
            let stays = second.is_some() || computes_tables && first.is_some() && bank.is_some();
            match stays {
                true => self.retire_tables(key),
                false => self.forget_tables(key),
            }
            // Then the copy's literals stay in a second bank, or in the banks of kernels. But
            // machine code's tables are those of the code that counts (case literals/left-behind,
            // with -r too).
            if let Some(second) = second {
                jump_tables::clear(&mut self.merged.draft.sections[second].chunks);
            }
            if let Some(section) = first {
                let output = &mut self.merged.draft.sections[section];
                output.chunks.clear();
                output.size = 0;
                output.emptied = true;
                // nvlink keeps symbols of removed literals (docs/DIFFERENCES.md,
                // literals-of-replaced).
                for symbol in self.banks.literal_symbols.remove(&section).unwrap_or_default() {
                    self.merged.draft.symbols[symbol].dropped = true;
                }
                if let Some(bank) = bank.filter(|_| stays) {
                    jump_tables::clear(&mut self.merged.banks[bank].chunks);
                }
                discarded_relocs |= discards_relocs && self.clear_relocs(section);
            } else if let Some(bank) = bank {
                let bank = &mut self.merged.banks[bank];
                if discards_relocs {
                    discarded_relocs |= !bank.sources.is_empty();
                    bank.sources.clear();
                }
                bank.chunks.clear();
                bank.literal_starts.clear();
                bank.size = 0;
                bank.emptied = true;
                bank.lost_at = None;
            }
        }
        discarded_relocs
    }

    /// Fills a bank of an entry. Weak copies share one parameter bank; the bank of a strong copy is
    /// appended.
    fn entry_bank(
        &mut self,
        key: BankKey,
        node: NodeId,
        input: &Section<'d>,
        content: &InputContent<'d>,
        copy: BankCopy,
    ) -> SectionPlacement {
        let BankKey { code, number } = key;
        let program = self.graph.nodes[node];
        let (names, function) = (&mut self.merged.draft.names, self.symbols.all[program].name);
        let name = names.intern_with_prefix(input.name, Prefix::Parameters, function);
        // Banks of local functions of one name are kept apart (local/kernels-with-tables), but
        // parameters of kernels are found by name (local/kernels).
        let by_name = number == 0
            && self.merged.draft.symbols[self.merged.function(self.graph, node)].is_entry();
        let existing =
            if by_name { self.find(name) } else { self.merged.entry_banks.get(&key).copied() };
        let emptied = |section: SectionId| {
            let output = &self.merged.draft.sections[section];
            output.emptied && output.losers_only && output.size == 0
        };
        if self.banks.second.contains_key(&key) || existing.is_some_and(emptied) {
            return self.second_bank(key, input, content);
        }
        let relocatable = self.merged.draft.relocatable;
        let Some(section) = existing else {
            let draft = &mut self.merged.draft;
            let reloc = draft.names.derived(Prefix::Rel, name);
            if number == 0 && !relocatable {
                // In .shstrtab the bank's name precedes that of its relocations, in .strtab it
                // follows it.
                draft.local_strings.add(reloc);
            }
            let flags = bank_flags(input, number);
            let section = self.create(name, SectionKind::Constant(number), flags, input.align());
            let output = &mut self.merged.draft.sections[section];
            output.owner = Some(code);
            let base = output.append_content(content);
            self.merged.entry_banks.insert(key, section);
            if number == 0 && !relocatable {
                self.slot_relocations(reloc, section);
            }
            return SectionPlacement::At { section, base };
        };
        self.merged.entry_banks.entry(key).or_insert(section);
        let weak_only = number == 0 && !self.strong_seen[program];
        let output = &mut self.merged.draft.sections[section];
        output.align = output.align.max(input.align());
        if weak_only {
            // The bytes of the first copy are kept (`tests/invalid_values.rs`).
            if copy == BankCopy::Accepted && output.size != content.size {
                output.chunks = content.chunks_at(0).collect();
                output.size = content.size;
            }
            return SectionPlacement::At { section, base: 0 };
        }
        SectionPlacement::At { section, base: output.append_content(content) }
    }

    /// Fills the second bank of a name. A section filled by losing copies only is kept, for the
    /// literals of callees. The literals of a new copy go into another section of the same name (a
    /// defect of nvlink, kept: docs/DIFFERENCES.md, literals-of-replaced-kernels). Those of the
    /// next copy are put over them (case literals/replaced-twice).
    fn second_bank(
        &mut self,
        key: BankKey,
        input: &Section<'d>,
        content: &InputContent<'d>,
    ) -> SectionPlacement {
        let BankKey { code, number } = key;
        let existing = self.banks.second.get(&key).copied();
        let section = existing.unwrap_or_else(|| {
            let draft = &mut self.merged.draft;
            let name = draft.names.intern(input.name);
            draft.intern_section_name_again(name);
            let flags = bank_flags(input, number);
            let section = self.create(name, SectionKind::Constant(number), flags, input.align());
            self.merged.draft.sections[section].owner = Some(code);
            self.banks.second.insert(key, section);
            section
        });
        let left = self.left_parts(key);
        let output = &mut self.merged.draft.sections[section];
        output.align = output.align.max(input.align());
        output.chunks.extend(left);
        output.chunks.extend(content.chunks_at(0));
        output.size = output.size.max(content.size);
        SectionPlacement::At { section, base: 0 }
    }

    /// True if `section` is the second one of its name.
    pub(super) fn is_second_bank(&self, section: SectionId) -> bool {
        let output = &self.merged.draft.sections[section];
        let (SectionKind::Constant(number), Some(code)) = (output.kind, output.owner) else {
            return false;
        };
        self.banks.second.get(&BankKey { code, number }) == Some(&section)
    }

    /// Creates the section for relocations of texture slots, which most programs leave empty.
    fn slot_relocations(&mut self, name: NameId, bank: SectionId) {
        let reloc = self.merged.draft.add_section(name, SectionKind::Reloc, 0, 8);
        let section = &mut self.merged.draft.sections[reloc];
        section.sh_type = sht::REL;
        section.owner = Some(bank);
        section.dropped = true;
        self.merged.slot_relocs.insert(bank, reloc);
    }
}

/// The flags of a bank of a kernel. In objects of CUDA 12.3 and older they do not say that the bank
/// belongs to a function. Those of the parameter bank stay so; other banks are marked.
fn bank_flags(input: &Section<'_>, number: u8) -> u64 {
    if number == 0 { input.flags } else { input.flags | shf::INFO_LINK }
}

/// The symbols' bytes in a bank of literals; `None` for parameters, and if symbols name nothing.
/// nvlink copies literal by literal, so bytes that no symbol names are zero (case
/// weak/literal-banks in steps).
fn bank_content<'d>(
    object: &InputObject<'d>,
    index: SectionIndex,
    bank: u8,
) -> Option<InputContent<'d>> {
    let input = object.section(index);
    let mercury = object.counterpart_data(index);
    let literals = if bank == 0 { Vec::new() } else { object.literals(index) };
    let size = literals.last()?.1;
    let part = |&(start, end): &(u64, u64)| {
        let range = start as usize..end as usize;
        let mercury = mercury.get(range.clone()).unwrap_or_default();
        Some(InputChunk { offset: start, bytes: input.data.get(range)?, mercury })
    };
    let parts = literals.iter().filter_map(part).collect();
    Some(InputContent { chunks: parts, size, align: input.align() })
}

/// Appends `content` to a bank; returns its offset, bytes.
fn append_to_bank<'d>(bank: &mut FunctionBank<'d>, content: &InputContent<'d>) -> u64 {
    let offset = bank.size.next_multiple_of(content.align);
    bank.align = bank.align.max(content.align);
    bank.chunks.extend(content.chunks_at(offset));
    bank.size = offset + content.size;
    offset
}
