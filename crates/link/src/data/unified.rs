//! Phase `data`: the places of unified functions and variables.
//!
//! In: the merged draft, in which jump slots and variables are concatenated, and the index file.
//! Out: both tables laid out as the index file says ([`place`]), and the offsets of their entries.
//! Guaranteed: every slot and every variable lies in its window, and no two overlap. Rules:
//! docs/LINKING.md, unified functions and variables; cases unified/*.

use std::collections::{HashMap, HashSet};

use culd_cubin::unified::{SLOT, Uidx, UnifiedId, UnifiedPlace, Window};

use crate::base::id::{OutSymbolId, SectionId};
use crate::diag::Message;
use crate::draft::kind::SectionKind;
use crate::draft::merged::MergeResult;
use crate::draft::offset_map::MovedRange;
use crate::draft::unified::{JumpSlot, UnifiedEntry, UnifiedTables};
use crate::draft::{Draft, jump_slots};
use crate::objects::InputObjects;
use crate::objects::roles::STUB_PREFIX;
use crate::options::LinkOptions;

/// Padding of this many bytes in front of a variable means a wrong index file: no alignment needs
/// that much.
const MAX_PADDING: u64 = 1 << 16;

/// Moves slots and variables to the places that the index file gives. The caller keeps the error:
/// [`mod@crate::check`] reports it after other messages.
pub(crate) fn place<'d>(
    objects: &InputObjects<'d>,
    merged: &mut MergeResult<'d>,
    options: &LinkOptions,
) -> Result<(), Message> {
    if options.relocatable || merged.unified.is_empty() {
        return Ok(());
    }
    let Some(index) = &options.index else { return Err(Message::NoIndexFile) };
    let mut tables = std::mem::take(&mut merged.unified);
    let placed = check(&tables, &merged.draft, &index.uidx).and_then(|()| {
        let odd = |slot: &JumpSlot| {
            let object = &objects[slot.object];
            object.odd_slots.as_deref().cloned()
        };
        if let Some(odd) = tables.slots.iter().find_map(odd) {
            return Err(odd);
        }
        let mut placing = UnifiedPlacer { objects, merged };
        placing.functions(&mut tables, &index.uidx.functions)?;
        placing.variables(&mut tables.variables, &index.uidx.variables)
    });
    merged.unified = tables;
    placed
}

/// nvlink's checks before it moves anything, in its order and words. A table of which the files
/// define nothing is not checked.
fn check(tables: &UnifiedTables, draft: &Draft<'_>, uidx: &Uidx) -> Result<(), Message> {
    let internal = |what| Err(Message::Internal { what });
    // nvlink computes the number of slots from their bytes (`tests/unified.rs`).
    let slots = tables.slots.iter().map(|slot| slot.size / SLOT).sum::<u64>();
    if slots != tables.functions.len() as u64 {
        return internal("Number of .nv.uft jump slots != Number of entries in .nv.uft.entry");
    }
    if !tables.functions.is_empty() {
        if uidx.functions.size != SLOT * tables.slots.len() as u64 {
            return internal("size of uidx window != nv.uft");
        }
        look_up(&tables.functions, &uidx.functions.places)?;
    }
    if !tables.variables.is_empty() {
        look_up(&tables.variables, &uidx.variables.places)?;
        let places = uidx.variables.offsets();
        let end = |entry: &UnifiedEntry| {
            places.get(&entry.id)?.checked_add(draft.symbols[entry.symbol].size)
        };
        if tables.variables.iter().filter_map(end).max().unwrap_or(0) != uidx.variables.size {
            return internal("size of uidx window != nv.udt");
        }
    }
    Ok(())
}

/// Checks that every id of the index file belongs to an entry and occurs once.
fn look_up(entries: &[UnifiedEntry], places: &[UnifiedPlace]) -> Result<(), Message> {
    let ids: HashSet<UnifiedId> = entries.iter().map(|entry| entry.id).collect();
    // nvlink looks up ids by this key. An id with the key of an entry, but not its value, has a
    // message of its own.
    let keys: HashSet<u64> = ids.iter().map(|id| id.0 ^ id.1).collect();
    let mut seen = HashSet::with_capacity(places.len());
    for place in places {
        let what = if !keys.contains(&(place.id.0 ^ place.id.1)) {
            "uuid not found"
        } else if !ids.contains(&place.id) {
            "matching uuid not found"
        } else if !seen.insert(place.id) {
            "entry was already found?"
        } else {
            continue;
        };
        return Err(Message::Internal { what });
    }
    Ok(())
}

/// Moves slots and variables. Refuses index files with which nvlink makes wrong programs
/// (docs/DIFFERENCES.md, unified-places).
struct UnifiedPlacer<'a, 'd> {
    objects: &'a InputObjects<'d>,
    merged: &'a mut MergeResult<'d>,
}

impl UnifiedPlacer<'_, '_> {
    fn functions(&mut self, tables: &mut UnifiedTables, window: &Window) -> Result<(), Message> {
        let Some(section) = self.section(SectionKind::JumpSlots) else { return Ok(()) };
        let places = self.places(&tables.functions, window)?;
        let slots = self.slots(tables)?;
        let mut moves = Vec::with_capacity(slots.len());
        let mut taken = HashSet::with_capacity(slots.len());
        for (entry, slot) in tables.functions.iter_mut().zip(slots) {
            let to = places[&entry.id];
            let what = if to % SLOT != 0 {
                format!("its slot {to:#x} is not at a multiple of {SLOT:#x}")
            } else if to >= window.size {
                format!("its slot {to:#x} is outside the table of {:#x} bytes", window.size)
            } else if !taken.insert(to) {
                format!("its slot {to:#x} is that of another function")
            } else {
                entry.offset = to;
                self.merged.draft.symbols[slot.stub].value = to;
                moves.push(MovedRange { from: slot.base, to, size: SLOT });
                continue;
            };
            return Err(self.bad(entry, what));
        }
        self.rearrange(section, moves, window.size);
        let output = &mut self.merged.draft.sections[section];
        output.size += jump_slots::tail(self.merged.draft.flavour, self.merged.draft.dialect);
        Ok(())
    }

    /// The slot of each function; the slot's symbol has the function's name behind a prefix.
    fn slots(&self, tables: &UnifiedTables) -> Result<Vec<JumpSlot>, Message> {
        let draft = &self.merged.draft;
        let names =
            tables.slots.iter().map(|slot| ((slot.object, draft.symbols[slot.stub].name), *slot));
        let mut slots: HashMap<_, JumpSlot> = names.collect();
        let slot = |entry: &UnifiedEntry| {
            let name = draft.names.get(draft.symbols[entry.symbol].name);
            let stub = draft.names.lookup(&[STUB_PREFIX, name].concat());
            let slot = stub.and_then(|stub| slots.remove(&(entry.object, stub)));
            slot.ok_or_else(|| self.bad(entry, "it has no jump slot of its own".to_owned()))
        };
        tables.functions.iter().map(slot).collect()
    }

    fn variables(&mut self, entries: &mut [UnifiedEntry], window: &Window) -> Result<(), Message> {
        let Some(section) = self.section(SectionKind::UnifiedData) else { return Ok(()) };
        let places = self.places(entries, window)?;
        let mut moves: Vec<MovedRange> = Vec::with_capacity(entries.len());
        for entry in entries.iter_mut() {
            let to = places[&entry.id];
            let symbol = &mut self.merged.draft.symbols[entry.symbol];
            let (from, size) = (symbol.value, symbol.size);
            if to > window.size || size > window.size - to {
                let what =
                    format!("its place {to:#x} is outside the table of {:#x} bytes", window.size);
                return Err(self.bad(entry, what));
            }
            (symbol.value, entry.offset) = (to, to);
            moves.push(MovedRange { from, to, size });
        }
        self.check_order(entries, &moves)?;
        self.check_entries(section, entries)?;
        if !entries.is_empty() {
            self.rearrange(section, moves, window.size);
        }
        Ok(())
    }

    /// Checks that variables do not overlap and that gaps are no larger than an alignment.
    fn check_order(&self, entries: &[UnifiedEntry], moves: &[MovedRange]) -> Result<(), Message> {
        let mut order: Vec<usize> = (0..moves.len()).collect();
        order.sort_by_key(|&at| moves[at].to);
        let mut end = 0;
        for at in order {
            let MovedRange { to, size, .. } = moves[at];
            let what = if to < end {
                format!("its place {to:#x} overlaps that of another variable")
            } else if to - end >= MAX_PADDING {
                format!("there are {:#x} bytes of nothing in front of its place {to:#x}", to - end)
            } else {
                end = to + size;
                continue;
            };
            return Err(self.bad(&entries[at], what));
        }
        Ok(())
    }

    /// Checks that every variable of the section has an entry.
    fn check_entries(&self, section: SectionId, entries: &[UnifiedEntry]) -> Result<(), Message> {
        let named: HashSet<OutSymbolId> = entries.iter().map(|entry| entry.symbol).collect();
        let draft = &self.merged.draft;
        let left = draft.symbols.iter().find(|(id, symbol)| {
            symbol.section == Some(section) && symbol.program.is_some() && !named.contains(id)
        });
        match left {
            None => Ok(()),
            Some((_, symbol)) => {
                Err(Message::NoUnifiedId { symbol: draft.names.text(symbol.name) })
            }
        }
    }

    /// The place of every entry. Each entry must have its own id, and the index file must list it.
    fn places(
        &self,
        entries: &[UnifiedEntry],
        window: &Window,
    ) -> Result<HashMap<UnifiedId, u64>, Message> {
        let places = window.offsets();
        let mut seen: HashMap<UnifiedId, &UnifiedEntry> = HashMap::with_capacity(entries.len());
        for entry in entries {
            if !places.contains_key(&entry.id) {
                return Err(self.bad(entry, "the index file does not list it".to_owned()));
            }
            if let Some(other) = seen.insert(entry.id, entry) {
                let name = self.name(other.symbol);
                let file = self.objects.file(other.object);
                return Err(self.bad(entry, format!("it is that of '{name}' in '{file}' too")));
            }
        }
        Ok(places)
    }

    fn section(&self, kind: SectionKind) -> Option<SectionId> {
        self.merged.draft.first_of(kind)
    }

    fn rearrange(&mut self, section: SectionId, moves: Vec<MovedRange>, size: u64) {
        let output = &mut self.merged.draft.sections[section];
        self.merged.constant_offsets.rearrange(section, output, moves);
        output.size = size;
    }

    fn name(&self, symbol: OutSymbolId) -> String {
        self.merged.draft.names.text(self.merged.draft.symbols[symbol].name)
    }

    fn bad(&self, entry: &UnifiedEntry, what: String) -> Message {
        let (symbol, file) = (self.name(entry.symbol), self.objects.file(entry.object));
        let id = format!("{:#x}, {:#x}", entry.id.0, entry.id.1);
        Message::BadUnified { id, symbol, file, what }
    }
}
