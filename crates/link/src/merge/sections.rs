//! Merging: where the bytes of an input section go.

use culd_cubin::attr::Record;
use culd_cubin::elf::{shf, sht};
use culd_cubin::{Section, SectionIndex};

use super::jump_tables;
use super::{Bank, FileRecord, InfoSource, Merge, Merged, Placed, Target, Unlisted};
use crate::draft::{Content, Kind, Part};
use crate::id::{BankId, NameId, NodeId, ObjectId, OutSymbolId, SectionId};
use crate::names::Front;
use crate::objects::{Info, Object, Role, is_internal};
use crate::symbols::Fate;

impl<'d> Merge<'_, 'd> {
    /// Puts a data section into its output section, once; [`Placed::No`] when it belongs to a
    /// function that is not in the output.
    pub(super) fn place(
        &mut self,
        id: ObjectId,
        object: &Object<'d>,
        index: SectionIndex,
    ) -> Placed {
        let before = self.placed(id, index);
        if before != Placed::No {
            return before;
        }
        let input = object.section(index);
        let placed = match (object.role(index), input.info_section()) {
            (Role::Constant(bank), Some(text)) => self.owned_bank(id, object, index, bank, text),
            (Role::Constant(bank), None) => {
                let placed = self.append(Kind::Constant(bank), (input, &[]));
                if let Placed::At { base, .. } = placed
                    && self.selecting
                    && bank == 3
                    && self.merged.draft.dialect.looks_constants_up
                    && looked_up(input)
                {
                    self.merged.draft.null_value = Some(base);
                }
                placed
            }
            (Role::Global, _) => self.append(Kind::Global, (input, &[])),
            (Role::GlobalInit, _) => self.append(Kind::GlobalInit, (input, &[])),
            (Role::UnifiedData, _) => {
                self.append(Kind::UnifiedData, (input, object.twin_data(index)))
            }
            (Role::ReservedShared, _) => self.append(Kind::ReservedShared, (input, &[])),
            (Role::PoolShared, _) => Placed::At { section: self.shared_pool(), base: 0 },
            (Role::OwnShared, Some(text)) => self.own_shared(id, object, text, input),
            _ => Placed::No,
        };
        self.set_placed(id, index, placed);
        placed
    }

    /// Appends a section to the output section of the same name.
    fn append(&mut self, kind: Kind, (input, twin): (&Section<'d>, &'d [u8])) -> Placed {
        let name = self.merged.draft.names.intern(input.name);
        let section = self.find(name).unwrap_or_else(|| self.create(name, kind, input.flags, 1));
        let output = &mut self.merged.draft.sections[section];
        output.align = output.align.max(input.align());
        let base = output.append_halves((input.data, twin), input.size, input.align());
        Placed::At { section, base }
    }

    /// True for a function whose constant banks stay its own: an entry, or any in an object.
    fn keeps_banks(&self, function: OutSymbolId) -> bool {
        let draft = &self.merged.draft;
        draft.relocatable || draft.symbols[function].is_entry()
    }

    /// The shared memory section of an entry exists already; copies that lost share it.
    fn own_shared(
        &mut self,
        id: ObjectId,
        object: &Object<'d>,
        text: SectionIndex,
        input: &Section<'d>,
    ) -> Placed {
        let function = match self.placed(id, text) {
            Placed::At { section, .. } => self.merged.draft.sections[section].function,
            Placed::Lost(function) => Some(function),
            _ => None,
        };
        let Some(function) = function else {
            // That of a kernel which is left out leaves its name behind.
            let name = self.merged.draft.names.intern(input.name);
            self.merged.draft.intern_section_name(name);
            self.count_of_dead(id, object, text, Unlisted::Shared);
            return Placed::No;
        };
        let name = self.merged.draft.symbols[function].name;
        let name = self.merged.draft.names.derived(Front::Shared, name);
        let section = self.find(name).or_else(|| {
            // A kernel that was not selected gets it now.
            let code = self.merged.draft.symbols[function].section?;
            Some(self.shared_section(name, code))
        });
        section.map_or(Placed::No, |section| Placed::At { section, base: 0 })
    }

    /// A constant bank that belongs to a function.
    fn owned_bank(
        &mut self,
        id: ObjectId,
        object: &Object<'d>,
        index: SectionIndex,
        bank: u8,
        text: SectionIndex,
    ) -> Placed {
        let input = object.section(index);
        let literals = bank_content(object, index, bank);
        let unnamed = literals.is_none() && bank != 0;
        match self.placed(id, text) {
            Placed::At { section, .. } => {
                let Some(node) = self.node_of_text.get(section) else { return Placed::No };
                let function = self.merged.function(self.graph, node);
                self.note_tables(object, index, section, bank);
                let content =
                    literals.unwrap_or_else(|| Content::whole(input, object.twin_data(index)));
                if self.keeps_banks(function) {
                    let known = self.merged.entry_banks.contains_key(&(section, bank));
                    let placed = self.entry_bank(section, node, (bank, input), &content, true);
                    if let Placed::At { section, .. } = placed
                        && unnamed
                        && !known
                    {
                        // In an object, literals of a copy that lost (case literals/replaced-tables in steps).
                        self.merged.draft.sections[section].losers_only = true;
                    }
                    placed
                } else if unnamed {
                    Placed::Waiting
                } else {
                    let function = (node, section, bank);
                    Placed::Bank(self.function_bank(function, (id, index), &content))
                }
            }
            // A losing entry's parameters are kept beside the winner's: cases weak/entries-*.
            Placed::Lost(function) if bank == 0 => {
                let symbol = &self.merged.draft.symbols[function];
                match symbol.section {
                    Some(section) if symbol.is_entry() => match self.node_of_text.get(section) {
                        Some(node) => {
                            let content = Content::whole(input, object.twin_data(index));
                            self.entry_bank(section, node, (bank, input), &content, false)
                        }
                        None => Placed::No,
                    },
                    _ => Placed::No,
                }
            }
            Placed::Lost(_) => Placed::Waiting,
            _ => {
                self.count_dead_bank(id, object, text, bank);
                Placed::No
            }
        }
    }

    /// The bank of a function that is no entry; a replacing copy's takes the slot of the first, and is put over what is left of
    /// that (case literals/left-behind).
    fn function_bank(
        &mut self,
        (node, code, number): (NodeId, SectionId, u8),
        input: (ObjectId, SectionIndex),
        content: &Content<'d>,
    ) -> BankId {
        let left = self.left_parts(code, number);
        let Merged { banks, draft, .. } = &mut self.merged;
        let id = *self.bank_of.entry((node, number)).or_insert_with(|| {
            draft.add_unlisted();
            banks.push(Bank::new(node, number))
        });
        let bank = &mut banks[id];
        bank.emptied = false;
        bank.align = bank.align.max(content.align);
        bank.parts.extend(left);
        bank.parts.extend(content.parts_at(0));
        bank.size = bank.size.max(content.size);
        self.bank_parts.insert(input, (id, 0));
        id
    }

    /// Literals of a copy that lost are kept, behind those of the winner, or as a section of
    /// their own that nothing uses (cases weak/literal-banks, literals/replaced-*). So are those that
    /// no symbol names, as objects have them of copies that lost (case weak/literal-banks in steps).
    fn lost_literals(&mut self, id: ObjectId, object: &Object<'d>, index: SectionIndex) {
        let input = object.section(index);
        let (Role::Constant(number), Some(text)) = (object.role(index), input.info_section())
        else {
            return;
        };
        let function = match self.placed(id, text) {
            Placed::Lost(function) => Some(function),
            Placed::At { section, .. } => self.merged.draft.sections[section].function,
            _ => None,
        };
        let Some(function) = function else { return };
        let symbol = &self.merged.draft.symbols[function];
        let code = symbol.section;
        let Some(node) = code.and_then(|code| self.node_of_text.get(code)) else { return };
        let known = code.and_then(|code| self.loser_banks.get(&(code, number)));
        let content = match code {
            Some(code) => self.lost_content(object, index, code, number),
            None => Content::whole(input, object.twin_data(index)),
        };
        if let Some(&place) = self.bank_of.get(&(node, number)).filter(|_| known.is_none()) {
            let bank = &mut self.merged.banks[place];
            bank.emptied = false;
            let base = append_to_bank(bank, &content);
            bank.lost_at = Some(base);
            self.bank_parts.insert((id, index), (place, base));
            self.name_lost_literals(id, object, index, place);
            return;
        }
        let name = self.merged.draft.names.intern(input.name);
        let keeps_banks = self.keeps_banks(function);
        let own = code.and_then(|code| self.merged.entry_banks.get(&(code, number)).copied());
        let existing = own.or_else(|| self.find(name));
        let section = existing.unwrap_or_else(|| {
            self.create(name, Kind::Constant(number), input.flags, input.align())
        });
        let output = &mut self.merged.draft.sections[section];
        output.losers_only |= existing.is_none();
        output.owner = code;
        output.align = output.align.max(input.align());
        let base = output.append_content(&content);
        // A section symbol may stand for them, and they have relocations (cases relocations/unnamed-literals-90,
        // literals/of-losers-86, literals/jump-tables-of-copies).
        self.set_placed(id, index, Placed::At { section, base });
        let Some(code) = code else { return };
        if keeps_banks {
            self.merged.entry_banks.insert((code, number), section);
        } else {
            self.loser_banks.insert((code, number), section);
        }
    }

    /// In edited files code of other functions names literals of a copy that lost; nvlink takes the winner's at that place
    /// (case literals/of-losers-86).
    fn name_lost_literals(
        &mut self,
        id: ObjectId,
        object: &Object<'d>,
        section: SectionIndex,
        bank: BankId,
    ) {
        for (index, symbol) in object.cubin.symbol_indices() {
            let literal = symbol.defined_in() == Some(section) && is_internal(symbol);
            if let Some(program) = self.symbols.of(id, index).filter(|_| literal) {
                let (placed, value) = (Placed::Bank(bank), symbol.value);
                self.merged.targets[program] = Target::Internal { placed, value };
            }
        }
    }

    /// A copy that is replaced takes its literals with it; an entry's section goes, name and all,
    /// unless something fills it again. True when relocations went with them, which do so since 13.5 only.
    pub(super) fn discard_literals(&mut self, code: SectionId, node: NodeId) -> bool {
        let computes_tables = self.computes_tables();
        let forgets = self.merged.draft.dialect.emptied_banks_lose_records;
        let mut forgot = false;
        for number in 1..=17 {
            let key = (code, number);
            // By name the first section is found; a second one of that name stays as it is.
            let first = self.merged.entry_banks.get(&key).or(self.loser_banks.get(&key)).copied();
            let second = self.second_banks.get(&key).filter(|_| computes_tables).copied();
            let bank = self.bank_of.get(&(node, number)).copied();
            let stays = second.is_some() || computes_tables && first.is_some() && bank.is_some();
            self.replace_tables(code, number, stays);
            // Literals of the copy stay in a second bank or those of kernels then, but machine code's tables are those of the
            // code that counts (case literals/left-behind, with -r too).
            if let Some(second) = second {
                jump_tables::clear(&mut self.merged.draft.sections[second].parts);
            }
            if let Some(section) = first {
                let output = &mut self.merged.draft.sections[section];
                output.parts.clear();
                output.size = 0;
                output.emptied = true;
                // nvlink keeps symbols of what is gone (docs/DIFFERENCES.md, literals-of-replaced).
                for symbol in self.literal_symbols.remove(&section).unwrap_or_default() {
                    self.merged.draft.symbols[symbol].dropped = true;
                }
                if let Some(bank) = bank.filter(|_| stays) {
                    jump_tables::clear(&mut self.merged.banks[bank].parts);
                }
                forgot |= forgets && self.clear_relocs(section);
            } else if let Some(bank) = bank {
                let bank = &mut self.merged.banks[bank];
                if forgets {
                    forgot |= !bank.sources.is_empty();
                    bank.sources.clear();
                }
                bank.parts.clear();
                bank.starts.clear();
                bank.size = 0;
                bank.emptied = true;
                bank.lost_at = None;
            }
        }
        forgot
    }

    /// A bank of an entry. Weak copies share one parameter bank, a strong one is appended.
    fn entry_bank(
        &mut self,
        text: SectionId,
        node: NodeId,
        (bank, input): (u8, &Section<'d>),
        content: &Content<'d>,
        accepted: bool,
    ) -> Placed {
        let program = self.graph.nodes[node];
        let (names, function) = (&mut self.merged.draft.names, self.symbols.all[program].name);
        let name = names.intern_behind(input.name, Front::Parameters, function);
        // Banks of local functions of one name stay apart (local/kernels-with-tables), but kernels' parameters
        // are found by name (local/kernels).
        let by_name = bank == 0
            && self.merged.draft.symbols[self.merged.function(self.graph, node)].is_entry();
        let existing = if by_name {
            self.find(name)
        } else {
            self.merged.entry_banks.get(&(text, bank)).copied()
        };
        let emptied = |section: SectionId| {
            let output = &self.merged.draft.sections[section];
            output.emptied && output.losers_only && output.size == 0
        };
        if self.second_banks.contains_key(&(text, bank)) || existing.is_some_and(emptied) {
            return self.second_bank(text, (bank, input), content);
        }
        let relocatable = self.merged.draft.relocatable;
        let Some(section) = existing else {
            let draft = &mut self.merged.draft;
            let reloc = draft.names.derived(Front::Rel, name);
            if bank == 0 && !relocatable {
                // In .shstrtab the bank's name precedes that of its relocations, in .strtab it
                // follows it.
                draft.local_strings.add(reloc);
            }
            let section = self.create(name, Kind::Constant(bank), input.flags, input.align());
            let output = &mut self.merged.draft.sections[section];
            output.owner = Some(text);
            let base = output.append_content(content);
            self.merged.entry_banks.insert((text, bank), section);
            if bank == 0 && !relocatable {
                self.slot_relocations(reloc, section);
            }
            return Placed::At { section, base };
        };
        self.merged.entry_banks.entry((text, bank)).or_insert(section);
        let weak_only = bank == 0 && !self.strong_seen[program];
        let output = &mut self.merged.draft.sections[section];
        output.align = output.align.max(input.align());
        if weak_only {
            // The bytes stay those of the first copy (`tests/strange.rs`).
            if accepted && output.size != content.size {
                output.parts = content.parts_at(0).collect();
                output.size = content.size;
            }
            return Placed::At { section, base: 0 };
        }
        Placed::At { section, base: output.append_content(content) }
    }

    /// A section that only losing copies had filled stays where callees' literals go; a new copy's own come into another
    /// one of the same name (a defect of nvlink, kept: docs/DIFFERENCES.md, literals-of-replaced-kernels). The next copy's are
    /// put over them (case literals/replaced-twice).
    fn second_bank(
        &mut self,
        text: SectionId,
        (bank, input): (u8, &Section<'d>),
        content: &Content<'d>,
    ) -> Placed {
        let existing = self.second_banks.get(&(text, bank)).copied();
        let section = existing.unwrap_or_else(|| {
            let draft = &mut self.merged.draft;
            let name = draft.names.intern(input.name);
            draft.intern_section_name_again(name);
            let section = self.create(name, Kind::Constant(bank), input.flags, input.align());
            self.merged.draft.sections[section].owner = Some(text);
            self.second_banks.insert((text, bank), section);
            section
        });
        let left = self.left_parts(text, bank);
        let output = &mut self.merged.draft.sections[section];
        output.align = output.align.max(input.align());
        output.parts.extend(left);
        output.parts.extend(content.parts_at(0));
        output.size = output.size.max(content.size);
        Placed::At { section, base: 0 }
    }

    /// Whether `section` is the second one of its name.
    pub(super) fn is_second_bank(&self, section: SectionId) -> bool {
        let output = &self.merged.draft.sections[section];
        let (Kind::Constant(bank), Some(text)) = (output.kind, output.owner) else { return false };
        self.second_banks.get(&(text, bank)) == Some(&section)
    }

    /// Room for relocations of texture slots, which most programs leave empty.
    fn slot_relocations(&mut self, name: NameId, bank: SectionId) {
        let reloc = self.merged.draft.add_section(name, Kind::Reloc, 0, 8);
        let section = &mut self.merged.draft.sections[reloc];
        section.sh_type = sht::REL;
        section.owner = Some(bank);
        section.dropped = true;
        self.merged.slot_relocs.insert(bank, reloc);
    }

    /// Debug sections are chained up; banks and variables no symbol named follow.
    pub(super) fn remaining_sections(&mut self, id: ObjectId, object: &Object<'d>) {
        for &index in &object.outline.unnamed {
            let input = object.section(index);
            match object.role(index) {
                Role::Debug => {
                    let name = self.merged.draft.names.intern(input.name);
                    let section = self
                        .find(name)
                        .unwrap_or_else(|| self.create(name, Kind::Debug, 0, input.align()));
                    let output = &mut self.merged.draft.sections[section];
                    output.align = output.align.max(input.align());
                    let twin_base = output.twin_size;
                    let halves = (input.data, object.twin_data(index));
                    let base = output.append_halves(halves, input.size, 1);
                    self.set_twin_base(id, index, twin_base);
                    self.set_placed(id, index, Placed::At { section, base });
                }
                Role::Index => self.index_file(input),
                Role::FunctionIds | Role::VariableIds => self.entries(id, object, index),
                Role::Constant(_) | Role::GlobalInit | Role::UnifiedData
                    if self.place(id, object, index) == Placed::Waiting =>
                {
                    self.lost_literals(id, object, index);
                }
                _ => {}
            }
        }
    }

    /// `.nv.info` first, then the attributes of each function.
    pub(super) fn attributes(&mut self, id: ObjectId, object: &Object<'d>) {
        use culd_cubin::attr::code;
        // Attribute 0 is an error marker, see `attributes`.
        for record in object.file_records().filter(|record| record.code != 0) {
            let about = matches!(
                record.code,
                code::FRAME_SIZE
                    | code::MIN_STACK_SIZE
                    | code::REGCOUNT
                    | code::MAX_STACK_SIZE
                    | code::CRS_STACK_SIZE
                    | code::SAM_REGION_STACK_SIZE
            );
            if about {
                self.record_about_symbol(id, &record);
            } else if names_reference(&record) {
                self.record_about_reference(id, record);
            } else if record.code != code::LOAD_CACHE_REQUEST {
                // A program has that of its functions only (`tests/strange.rs`).
                self.merged.file_records.push(FileRecord::Other(Box::new(record)));
            }
        }
        for &info in &object.outline.infos {
            self.function_info(id, object, info);
        }
    }

    /// A record about a reference is always kept.
    fn record_about_reference(&mut self, id: ObjectId, record: Record<'d>) {
        let Some(index) = record.word(0) else { return };
        let program = self.symbols.of(id, culd_cubin::SymbolIndex(index));
        if let Some(symbol) = program.and_then(|program| self.merged.out_symbol(program)) {
            let record = Box::new(record);
            self.merged.file_records.push(FileRecord::Reference { symbol, record });
        }
    }

    /// Keeps a record about a function if this file's copy is the one that counts, or if it has none.
    fn record_about_symbol(&mut self, id: ObjectId, record: &Record<'d>) {
        use culd_cubin::SymbolIndex;
        let (Some(index), Some(number)) = (record.word(0), record.word(1)) else { return };
        let index = SymbolIndex(index);
        let program = self.symbols.of(id, index);
        let Some(function) = program.and_then(|program| self.merged.out_symbol(program)) else {
            return;
        };
        // Objects have no table of all slots.
        if self.merged.unified.slots_table.is_some() && self.merged.is_jump_slot(function) {
            return;
        }
        if matches!(self.symbols.fate(id, index), Fate::Chosen | Fate::Reference) {
            let code = record.code;
            self.merged.file_records.push(FileRecord::About { code, function, number });
        }
    }

    fn function_info(&mut self, id: ObjectId, object: &Object<'d>, info: Info) {
        let input = object.section(info.section);
        let Placed::At { section: code, .. } = self.placed(id, info.code) else {
            self.count_of_dead(id, object, info.code, Unlisted::Attributes);
            return;
        };
        let node = self.node_of_text.get(code);
        let Some(node) = node.or_else(|| self.slot_node(id, object, input)) else { return };
        let section = self.info_of_code.get(code).unwrap_or_else(|| {
            let program = self.graph.nodes[node];
            let own = info.function.and_then(|function| self.symbols.of(id, function));
            let names = &mut self.merged.draft.names;
            let name = match own == Some(program) {
                true => {
                    let function = self.symbols.all[program].name;
                    names.derived_input(input.name, Front::Info, function)
                }
                false => names.intern(input.name),
            };
            self.info_section(name, code)
        });
        let read = self.infos_read;
        self.infos_read += 1;
        let size = input.data.len();
        let source = InfoSource { section, object: id, input: info.section, size, read };
        self.merged.function_infos[node] = Some(source);
    }
}

impl Merge<'_, '_> {
    /// Creates the attribute section of the function whose code is `code`.
    pub(super) fn info_section(&mut self, name: NameId, code: SectionId) -> SectionId {
        let kind = Kind::FunctionInfo;
        let section = self.merged.draft.add_section(name, kind, shf::INFO_LINK, 4);
        self.merged.draft.sections[section].owner = Some(code);
        self.info_of_code.insert(code, section);
        section
    }
}

/// True for a record that begins with a texture, sampler or surface reference. Those about parameters have 0 there when
/// the parameter is something else.
pub(crate) fn names_reference(record: &Record<'_>) -> bool {
    use culd_cubin::attr::{code, format};
    if record.format != format::SIZED {
        return false;
    }
    let parameter = matches!(record.code, code::KPARAM_INFO | code::KPARAM_INFO_V2);
    if parameter {
        return record.word(0).is_some_and(|index| index != 0);
    }
    may_name_reference(record.code)
}

/// True for a code of which a record may begin with such a reference.
pub(crate) fn may_name_reference(code: u8) -> bool {
    use culd_cubin::attr::code;
    matches!(
        code,
        code::KPARAM_INFO
            | code::KPARAM_INFO_V2
            | code::IMAGE_SLOT
            | code::IMAGE_OFFSET
            | code::IMAGE_SIZE
            | code::TEXTURE_NORMALIZED
            | code::SAMPLER_INIT
            | code::SAMPLER_FORCE_UNNORMALIZED
            | code::BINDLESS_IMAGE_OFFSETS
    )
}

/// With a selection nvlink looks parts of these shapes up by their contents, and leaves the place
/// of the last one that was new in symbol 0 (case selection/constants). It also drops what it
/// finds and then uses the wrong addresses (docs/DIFFERENCES.md, equal-constants).
fn looked_up(input: &Section<'_>) -> bool {
    matches!((input.size, input.align()), (4, 4) | (8, 8) | (12 | 16 | 20 | 24 | 32 | 48 | 64, _))
}

/// What symbols name of a bank of literals; `None` where they name nothing, and for parameters. nvlink
/// copies literal by literal: what none of them names is zero (case weak/literal-banks in steps).
fn bank_content<'d>(object: &Object<'d>, index: SectionIndex, bank: u8) -> Option<Content<'d>> {
    let input = object.section(index);
    let twin = object.twin_data(index);
    let literals = if bank == 0 { Vec::new() } else { object.literals(index) };
    let size = literals.last()?.1;
    let part = |&(start, end): &(u64, u64)| {
        let range = start as usize..end as usize;
        let twin = twin.get(range.clone()).unwrap_or_default();
        Some(Part { offset: start, bytes: input.data.get(range)?, twin })
    };
    let parts = literals.iter().filter_map(part).collect();
    Some(Content { parts, size, align: input.align() })
}

/// Appends a bank; returns its offset, bytes.
fn append_to_bank<'d>(bank: &mut Bank<'d>, content: &Content<'d>) -> u64 {
    let offset = bank.size.next_multiple_of(content.align);
    bank.align = bank.align.max(content.align);
    bank.parts.extend(content.parts_at(offset));
    bank.size = offset + content.size;
    offset
}
