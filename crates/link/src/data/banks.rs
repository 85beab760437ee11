//! Phase `data`: constant banks of functions that are not entries are appended to the entries'
//! banks.
//!
//! In: the merged draft. Out: the entries' bank sections, and
//! [`crate::draft::merged::FunctionBank::offset`] set. The code of a function holds one offset, so
//! a bank has the same offset in every entry that can reach its function (cases literals/*). Banks
//! are placed in the reverse of reading order, as nvlink does.

use culd_cubin::arch::Flavour;
use culd_cubin::elf::shf;
use hashbrown::{HashMap, HashSet};

use crate::base::id::{BankId, IdVec, NameId, NodeId, RelocId, SectionId};
use crate::callgraph::CallGraph;
use crate::draft::Draft;
use crate::draft::kind::SectionKind;
use crate::draft::merged::{AppendedBank, BankKey, FunctionBank, MergeResult};
use crate::draft::relocs::{RelocSection, RelocSource};
use crate::draft::section::InputChunk;
use crate::merge::relocs::RESOLVED;
use crate::objects::counterparts::OPTIMIZER;
use crate::options::LinkOptions;

/// Appends the banks of all functions that are not entries.
pub(crate) fn merge_banks<'d>(
    merged: &mut MergeResult<'d>,
    graph: &CallGraph,
    options: &LinkOptions,
) {
    if merged.banks.len() == 0 {
        return;
    }
    let users = users(merged, graph);
    let ids: Vec<BankId> = merged.banks.ids().collect();
    let mut placer = BankPlacer::new(merged, graph, options);
    for id in ids.into_iter().rev() {
        placer.place(id, &users);
    }
    let null_value = placer.null_value;
    // A value that an earlier lookup of a constant gave symbol 0 wins (case
    // selection/lost-literals).
    merged.draft.null_value = merged.draft.null_value.or(null_value);
}

/// The bank of an entry, to which the banks of functions are appended.
#[derive(Clone, Copy)]
enum EntryBank {
    Section(SectionId),
    /// The bank of a function of the driver, which is an entry and is reached by other entries. It
    /// is appended to theirs later, with all that it contains then.
    OfDriver(BankId),
}

/// Where a function's bank lies in the banks of entries.
#[derive(Clone, Copy)]
struct BankPlace {
    /// Bytes.
    offset: u64,
    /// Alignment of the entries' banks, bytes.
    align: u64,
    /// Size of the entries' banks with this one, bytes.
    end: u64,
}

/// The banks of functions of the driver with one name.
#[derive(Default)]
struct DriverBanks {
    /// Those that are not placed yet, in reading order.
    unplaced: Vec<BankId>,
    /// The section of the one that was placed last: in the end that of the first function.
    section: Option<SectionId>,
}

/// Places the banks of functions, from the last one read to the first.
struct BankPlacer<'a, 'd> {
    merged: &'a mut MergeResult<'d>,
    graph: &'a CallGraph,
    /// `--preserve-relocs`: applied relocations are recorded.
    preserve: bool,
    /// The relocation section of each section that has one.
    relocs_of: HashMap<SectionId, RelocId>,
    /// The banks of functions of the driver, by the function's name and the bank's number. nvlink
    /// finds these banks by name: functions of several files that are not visible share one (cases
    /// syscalls/local-definitions, both-local-definitions).
    of_driver: HashMap<(NameId, u8), DriverBanks>,
    /// The value that nvlink gives symbol 0: the place of the literals of a copy that lost.
    null_value: Option<u64>,
}

impl<'a, 'd> BankPlacer<'a, 'd> {
    fn new(merged: &'a mut MergeResult<'d>, graph: &'a CallGraph, options: &LinkOptions) -> Self {
        let relocs_of = merged.draft.relocs.iter().map(|(id, reloc)| (reloc.target, id)).collect();
        let mut placer = BankPlacer {
            merged,
            graph,
            preserve: options.preserve_relocs,
            relocs_of,
            of_driver: HashMap::new(),
            null_value: None,
        };
        for (id, bank) in placer.merged.banks.iter() {
            if bank.driver_section.is_some() {
                let key = (placer.function_name(bank.node), bank.number);
                placer.of_driver.entry(key).or_default().unplaced.push(id);
            }
        }
        placer
    }

    fn function_name(&self, node: NodeId) -> NameId {
        self.merged.draft.symbols[self.merged.function(self.graph, node)].name
    }

    /// Places bank `id` at one offset in the banks of all entries that reach its function.
    fn place(&mut self, id: BankId, users: &IdVec<NodeId, Vec<NodeId>>) {
        let bank = self.merged.banks[id].clone();
        self.open_driver_section(id, &bank);
        let entries = &users[bank.node][..];
        let place = self.next_place(&bank, entries);
        self.set_offsets(id, &bank, place.offset, entries);
        let records = bank.records();
        let mut patched = Vec::new();
        for &entry in entries.iter().rev() {
            let section = match self.entry_bank(entry, bank.number) {
                Some(EntryBank::OfDriver(own)) => {
                    append(&mut self.merged.banks[own], id, &bank, &records, place);
                    continue;
                }
                Some(EntryBank::Section(section)) => section,
                None => create_bank(self.merged, self.graph, entry, &bank),
            };
            if !records.is_empty() {
                patched.push(section);
            }
            let section = &mut self.merged.draft.sections[section];
            section.emptied |= bank.emptied;
            section.align = place.align;
            section.chunks.extend(bank.chunks.iter().map(|chunk| moved_chunk(chunk, place.offset)));
            section.size = place.end;
        }
        for section in patched {
            self.add_records(section, place.offset, &records);
        }
    }

    /// Makes the section of a function of the driver its bank for all literals that are placed from
    /// here on. What has been appended to the bank so far goes where the bank goes (case
    /// syscalls/definitions-with-literals).
    fn open_driver_section(&mut self, id: BankId, bank: &FunctionBank<'d>) {
        let code = self.merged.code(self.graph, bank.node);
        if let (Some(section), Some(code)) = (bank.driver_section, code) {
            let key = (self.function_name(bank.node), bank.number);
            if let Some(banks) = self.of_driver.get_mut(&key) {
                banks.unplaced.retain(|&other| other != id);
                banks.section = Some(section);
            }
            self.merged.entry_banks.insert(BankKey { code, number: bank.number }, section);
        }
    }

    /// Bank `number` of an entry, if it has one so far.
    fn entry_bank(&self, entry: NodeId, number: u8) -> Option<EntryBank> {
        let own = || self.merged.entry_bank(self.graph, entry, number).map(EntryBank::Section);
        if self.of_driver.is_empty() {
            return own();
        }
        let Some(banks) = self.of_driver.get(&(self.function_name(entry), number)) else {
            return own();
        };
        let unplaced = banks.unplaced.first().copied().map(EntryBank::OfDriver);
        unplaced.or(banks.section.map(EntryBank::Section)).or_else(own)
    }

    /// The first place behind the contents of the banks of all `entries`.
    fn next_place(&self, bank: &FunctionBank<'d>, entries: &[NodeId]) -> BankPlace {
        let (mut end, mut align) = (0, bank.align);
        for &entry in entries {
            let (own_size, own_align) = match self.entry_bank(entry, bank.number) {
                Some(EntryBank::OfDriver(own)) => {
                    let own = &self.merged.banks[own];
                    (own.size, own.align)
                }
                Some(EntryBank::Section(section)) => {
                    let section = &self.merged.draft.sections[section];
                    (section.size, section.align)
                }
                None => continue,
            };
            (end, align) = (own_size.max(end), own_align.max(align));
        }
        let offset = end.next_multiple_of(align);
        BankPlace { offset, align, end: (offset + bank.size).next_multiple_of(align) }
    }

    /// Notes that `bank`, which is `id`, lies at `offset` in the banks of `entries`.
    fn set_offsets(
        &mut self,
        id: BankId,
        bank: &FunctionBank<'d>,
        offset: u64,
        entries: &[NodeId],
    ) {
        self.merged.banks[id].offset = offset;
        if entries.is_empty() {
            return;
        }
        // The last place of literals is the one that code names, though entries that do not reach
        // this function have them elsewhere (docs/DIFFERENCES.md, Defects that are kept).
        for appended in &bank.appended {
            self.merged.banks[appended.bank].offset = offset + appended.offset;
        }
        if let Some(lost_at) = bank.lost_at {
            self.null_value = Some(offset + lost_at);
        }
        // The lost copies of what is appended have moved too (case syscalls/moved-losers).
        for appended in &bank.appended {
            let lost_at = self.merged.banks[appended.bank].lost_at;
            let moved = lost_at.map(|lost_at| offset + appended.offset + lost_at);
            self.null_value = moved.or(self.null_value);
        }
    }

    /// Adds the records of a function's bank, which lies at `offset` of the entry's bank `target`.
    /// Sources are resolved from last to first, so the new ones go in front: their records are
    /// listed after those of the entry (case literals/jump-tables).
    fn add_records(&mut self, target: SectionId, offset: u64, sources: &[RelocSource]) {
        let draft = &mut self.merged.draft;
        let reloc = match self.relocs_of.get(&target) {
            Some(&reloc) => reloc,
            None => {
                let reloc = create_reloc_section(draft, target);
                self.relocs_of.insert(target, reloc);
                if self.preserve {
                    // The `.nv.resolvedrela` section leaves its name only (case
                    // literals/jump-tables-of-copies).
                    let name = draft.names.prefixed(RESOLVED, draft.sections[target].name);
                    draft.intern_section_name(name);
                }
                reloc
            }
        };
        draft.relocs[reloc].sources.splice(0..0, moved_sources(sources, offset));
    }
}

fn create_reloc_section(draft: &mut Draft<'_>, target: SectionId) -> RelocId {
    let name = draft.names.prefixed(b".rela", draft.sections[target].name);
    let section = draft.add_section(name, SectionKind::Reloc, shf::INFO_LINK, 8);
    draft.sections[section].owner = Some(target);
    draft.relocs.push(RelocSection { section, target, previous: None, sources: Vec::new() })
}

/// Puts `bank`, which is `id` and has `records`, into `own`, the bank of a function of the driver.
fn append<'d>(
    own: &mut FunctionBank<'d>,
    id: BankId,
    bank: &FunctionBank<'d>,
    records: &[RelocSource],
    place: BankPlace,
) {
    let BankPlace { offset, align, end } = place;
    (own.align, own.size) = (align, end);
    own.emptied &= bank.chunks.is_empty();
    own.chunks.extend(bank.chunks.iter().map(|chunk| moved_chunk(chunk, offset)));
    own.appended.push(AppendedBank { bank: id, offset });
    own.appended.extend(
        bank.appended
            .iter()
            .map(|appended| AppendedBank { offset: offset + appended.offset, ..*appended }),
    );
    own.sources.extend(moved_sources(records, offset));
    own.literal_starts.extend(bank.literal_starts.iter().map(|start| offset + start));
}

/// A chunk of a bank that lies at `offset` of another one.
fn moved_chunk<'d>(chunk: &InputChunk<'d>, offset: u64) -> InputChunk<'d> {
    InputChunk { offset: offset + chunk.offset, ..*chunk }
}

/// The records of a bank that lies at `offset` of another one.
fn moved_sources(sources: &[RelocSource], offset: u64) -> impl Iterator<Item = RelocSource> {
    sources.iter().map(move |source| RelocSource {
        base: source.base + offset,
        mercury_base: source.mercury_base + offset,
        ..*source
    })
}

/// Drops empty banks of functions. A bank that a replaced copy left empty loses its name too.
pub(crate) fn drop_empty(merged: &mut MergeResult<'_>) {
    let draft = &mut merged.draft;
    // Releases with one list of names never remove a name.
    let removes_names = draft.dialect.has_three_lists;
    let (mut kept, mut any_dropped) = (HashSet::new(), false);
    for id in draft.category_of(SectionKind::Constant(0)).to_vec() {
        let section = &mut draft.sections[id];
        if section.owner.is_some() && section.size == 0 {
            section.dropped = true;
            // With `-r` the name is kept (case literals/replaced-kernel with -r). Of two sections
            // with one name, the first one places the name in the string table.
            if section.emptied
                && !draft.relocatable
                && !kept.contains(&section.name)
                && removes_names
            {
                draft.section_strings.remove(section.name);
                draft.local_strings.remove(section.name);
            }
        } else if section.emptied {
            kept.insert(section.name);
        }
        any_dropped |= section.dropped;
    }
    if any_dropped {
        drop_relocations(draft);
        drop_symbols(draft);
    }
}

/// Removes the names of the relocation sections of banks that lost their names.
fn drop_relocations(draft: &mut Draft<'_>) {
    if draft.relocatable {
        return;
    }
    let removes_names = draft.dialect.has_three_lists;
    for reloc in draft.relocs.values() {
        let target = &draft.sections[reloc.target];
        if target.dropped && target.emptied {
            let name = draft.sections[reloc.section].name;
            if removes_names {
                draft.section_strings.remove(name);
                draft.local_strings.remove(name);
            }
        }
    }
}

/// Drops the symbols of literals in a dropped section, and their names (case weak/entry-literals
/// with `--preserve-relocs`). nvlink cannot make an object then (docs/DIFFERENCES.md,
/// literals-of-replaced).
fn drop_symbols(draft: &mut Draft<'_>) {
    let removes_names = draft.dialect.has_three_lists;
    for symbol in draft.symbols.values_mut().filter(|symbol| symbol.program.is_some()) {
        let section = symbol.section.map(|section| &draft.sections[section]);
        let gone = section.is_some_and(|s| s.dropped && matches!(s.kind, SectionKind::Constant(_)));
        if gone {
            symbol.dropped = true;
            if removes_names {
                draft.local_strings.remove(symbol.name);
            }
        }
    }
}

/// For every function with a bank: the entries that reach it, in node order.
fn users(merged: &MergeResult<'_>, graph: &CallGraph) -> IdVec<NodeId, Vec<NodeId>> {
    let mut wanted = IdVec::filled(false, graph.nodes.len());
    merged.banks.values().for_each(|bank| wanted[bank.node] = true);
    let mut users = IdVec::filled(Vec::new(), graph.nodes.len());
    for (&entry, reached) in graph.entries().iter().zip(graph.reached_by_entries(&wanted)) {
        reached.into_iter().for_each(|node| users[node].push(entry));
    }
    users
}

fn create_bank(
    merged: &mut MergeResult<'_>,
    graph: &CallGraph,
    entry: NodeId,
    bank: &FunctionBank<'_>,
) -> SectionId {
    let code = merged.code(graph, entry);
    let name = merged.draft.symbols[merged.function(graph, entry)].name;
    let name = match merged.draft.flavour {
        Flavour::Classic => {
            let prefix = format!(".nv.constant{}.", bank.number);
            merged.draft.names.prefixed(prefix.as_bytes(), name)
        }
        Flavour::Mercury => merged.draft.names.prefixed(OPTIMIZER, name),
    };
    let flags = shf::ALLOC | shf::INFO_LINK;
    let section =
        merged.draft.add_section(name, SectionKind::Constant(bank.number), flags, bank.align);
    merged.draft.sections[section].owner = code;
    if let Some(code) = code {
        merged.entry_banks.insert(BankKey { code, number: bank.number }, section);
    }
    section
}
