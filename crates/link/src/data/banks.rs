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
use crate::draft::merged::{BankKey, FunctionBank, MergeResult};
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
    let mut value = None;
    let mut tables: HashMap<SectionId, RelocId> =
        merged.draft.relocs.iter().map(|(id, reloc)| (reloc.target, id)).collect();
    // nvlink finds these banks by name: functions of several files that are not visible share one
    // (cases syscalls/local-definitions, syscalls/both-local-definitions).
    let name =
        |merged: &MergeResult<'_>, node| merged.draft.symbols[merged.function(graph, node)].name;
    let mut of_driver: HashMap<(NameId, u8), Vec<BankId>> = HashMap::new();
    for (id, bank) in merged.banks.iter().filter(|(_, bank)| bank.own.is_some()) {
        of_driver.entry((name(merged, bank.node), bank.number)).or_default().push(id);
    }
    let mut after_turn: HashMap<(NameId, u8), SectionId> = HashMap::new();
    let ids: Vec<BankId> = merged.banks.ids().collect();
    for id in ids.into_iter().rev() {
        let bank = merged.banks[id].clone();
        // What is behind it goes where it goes (case syscalls/definitions-with-literals).
        if let (Some(section), Some(code)) = (bank.own, merged.code(graph, bank.node)) {
            let key = (name(merged, bank.node), bank.number);
            if let Some(waiting) = of_driver.get_mut(&key) {
                waiting.retain(|&other| other != id);
            }
            // The last turn is that of the first section of the name.
            after_turn.insert(key, section);
            merged.entry_banks.insert(BankKey { code, number: bank.number }, section);
        }
        let bank_of = |merged: &MergeResult<'_>, entry| {
            let shared = after_turn.get(&(name(merged, entry), bank.number)).copied();
            shared.or_else(|| merged.entry_bank(graph, entry, bank.number))
        };
        // The first one whose turn has not come.
        let waiting = |merged: &MergeResult<'_>, entry| {
            of_driver.get(&(name(merged, entry), bank.number))?.first().copied()
        };
        let entries = &users[bank.node];
        let existing = || {
            entries.iter().filter_map(|&entry| {
                if let Some(own) = waiting(merged, entry) {
                    let own = &merged.banks[own];
                    return Some((own.size, own.align));
                }
                let section = bank_of(merged, entry)?;
                let section = &merged.draft.sections[section];
                Some((section.size, section.align))
            })
        };
        let end = existing().map(|(size, _)| size).max().unwrap_or(0);
        let align = existing().map(|(_, align)| align).max().unwrap_or(1).max(bank.align);
        let offset = end.next_multiple_of(align);
        merged.banks[id].offset = offset;
        // The last place of literals is the one that code names, though entries that do not reach
        // this function have them elsewhere (docs/DIFFERENCES.md, Defects that are kept).
        for &(bank, at) in bank.behind.iter().filter(|_| !entries.is_empty()) {
            merged.banks[bank].offset = offset + at;
        }
        // nvlink sets the value of symbol 0 to the place of the literals of a losing copy.
        if let Some(lost_at) = bank.lost_at.filter(|_| !entries.is_empty()) {
            value = Some(offset + lost_at);
        }
        // Those of copies in it have moved too (case syscalls/moved-losers).
        for &(behind, at) in bank.behind.iter().filter(|_| !entries.is_empty()) {
            value = merged.banks[behind].lost_at.map(|lost_at| offset + at + lost_at).or(value);
        }
        let (mut patched, records) = (Vec::new(), bank.records());
        let size = (offset + bank.size).next_multiple_of(align);
        for &entry in entries.iter().rev() {
            if let Some(own) = waiting(merged, entry) {
                let own = &mut merged.banks[own];
                (own.align, own.size) = (align, size);
                append(own, id, &bank, &records, offset);
                continue;
            }
            let section =
                bank_of(merged, entry).unwrap_or_else(|| create_bank(merged, graph, entry, &bank));
            if !records.is_empty() {
                patched.push(section);
            }
            let section = &mut merged.draft.sections[section];
            section.emptied |= bank.emptied;
            section.align = align;
            section.chunks.extend(bank.chunks.iter().map(|part| at(part, offset)));
            section.size = size;
        }
        for section in patched {
            let draft = &mut merged.draft;
            let made = add_records(draft, &mut tables, section, offset, &records);
            if made && options.preserve_relocs {
                // The `.nv.resolvedrela` section leaves its name only (case
                // literals/jump-tables-of-copies).
                let name = draft.names.prefixed(RESOLVED, draft.sections[section].name);
                draft.intern_section_name(name);
            }
        }
    }
    // A value that an earlier lookup of a constant gave symbol 0 wins (case
    // selection/lost-literals).
    merged.draft.null_value = merged.draft.null_value.or(value);
}

/// Adds the records of a function's bank, which lies at `offset` of an entry's bank. Sources are
/// resolved from last to first, so the new ones go in front: their records are listed after those
/// of the entry (case literals/jump-tables). `tables` maps a section to its relocation section.
/// Returns true if the entry's bank had no relocation section before.
fn add_records(
    draft: &mut Draft<'_>,
    tables: &mut HashMap<SectionId, RelocId>,
    bank: SectionId,
    offset: u64,
    sources: &[RelocSource],
) -> bool {
    let made = !tables.contains_key(&bank);
    let reloc = *tables.entry(bank).or_insert_with(|| {
        let name = draft.names.prefixed(b".rela", draft.sections[bank].name);
        let section = draft.add_section(name, SectionKind::Reloc, shf::INFO_LINK, 8);
        draft.sections[section].owner = Some(bank);
        draft.relocs.push(RelocSection {
            section,
            target: bank,
            previous: None,
            sources: Vec::new(),
        })
    });
    draft.relocs[reloc].sources.splice(0..0, moved(sources, offset));
    made
}

/// Puts `bank`, which is `id` and has `records`, at `offset` of that of a function of the driver.
fn append<'d>(
    own: &mut FunctionBank<'d>,
    id: BankId,
    bank: &FunctionBank<'d>,
    records: &[RelocSource],
    offset: u64,
) {
    own.emptied &= bank.chunks.is_empty();
    own.chunks.extend(bank.chunks.iter().map(|part| at(part, offset)));
    own.behind.push((id, offset));
    own.behind.extend(bank.behind.iter().map(|&(id, at)| (id, offset + at)));
    own.sources.extend(moved(records, offset));
    own.starts.extend(bank.starts.iter().map(|start| offset + start));
}

/// A part of a bank that lies at `offset` of another one.
fn at<'d>(part: &InputChunk<'d>, offset: u64) -> InputChunk<'d> {
    InputChunk { offset: offset + part.offset, ..*part }
}

/// The records of a bank that lies at `offset` of another one.
fn moved(sources: &[RelocSource], offset: u64) -> impl Iterator<Item = RelocSource> {
    sources.iter().map(move |source| RelocSource {
        base: source.base + offset,
        mercury_base: source.mercury_base + offset,
        ..*source
    })
}

/// Drops empty banks of functions. A bank that a replaced copy left empty loses its name too.
pub(crate) fn drop_empty(merged: &mut MergeResult<'_>) {
    let draft = &mut merged.draft;
    let takes_names_out = draft.dialect.has_three_lists;
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
                && takes_names_out
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
    let takes_names_out = draft.dialect.has_three_lists;
    for reloc in draft.relocs.values() {
        let target = &draft.sections[reloc.target];
        if target.dropped && target.emptied {
            let name = draft.sections[reloc.section].name;
            if takes_names_out {
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
    let takes_names_out = draft.dialect.has_three_lists;
    for symbol in draft.symbols.values_mut().filter(|symbol| symbol.program.is_some()) {
        let section = symbol.section.map(|section| &draft.sections[section]);
        let gone = section.is_some_and(|s| s.dropped && matches!(s.kind, SectionKind::Constant(_)));
        if gone {
            symbol.dropped = true;
            if takes_names_out {
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
