//! Phase `merge`: the places of unified functions and variables.
//!
//! In: the merged draft, in which jump slots and variables are chained up, and the index file.
//! Out: both tables as the index file says ([`place`]), and what entries come to. Guaranteed after
//! it: every slot and every variable lies in its window, and no two overlap.
//! Rules: docs/LINKING.md, unified functions and variables; cases unified/*.

mod input;

use std::collections::{HashMap, HashSet};

use culd_cubin::SymbolIndex;
use culd_cubin::unified::{BadUidx, Entry, Id, Place, SLOT, Uidx, Window, flag};

use crate::LinkOptions;
use crate::capsule;
use crate::diag::Message;
use crate::draft::{Draft, Kind};
use crate::id::{ObjectId, OutSymbolId, SectionId};
use crate::merge::Merged;
use crate::moved::Move;
use crate::objects::Objects;

pub(crate) use self::input::{Entries, SLOT_PREFIX, STUB_PREFIX, read};

/// As many bytes of nothing in front of a variable's place are more than any alignment asks for.
const MOST_NOTHING: u64 = 1 << 16;

/// The index file of a link.
#[derive(Debug, Clone)]
pub struct IndexFile {
    /// The output repeats them.
    pub(crate) bytes: Vec<u8>,
    uidx: Uidx,
}

impl IndexFile {
    /// Reads an index file.
    ///
    /// # Errors
    /// When the bytes are none; nvlink says so before it looks at any input.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, Message> {
        match Uidx::parse(&bytes) {
            Ok(uidx) => Ok(IndexFile { bytes, uidx }),
            Err(BadUidx::Magic) => Err(Message::Internal { what: "not uidx input" }),
            Err(BadUidx::Size) => Err(Message::Internal { what: "malformed uidx input" }),
        }
    }
}

/// The jump slot of a unified function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JumpSlot {
    pub(crate) object: ObjectId,
    /// The function that it is, in the file and in the output.
    pub(crate) function: SymbolIndex,
    pub(crate) stub: OutSymbolId,
    /// Where it was appended to the section of all slots, bytes.
    pub(crate) base: u64,
    /// Bytes; more than those of a slot in a few objects with `-g`, of which no program can be made.
    pub(crate) size: u64,
}

/// An entry of the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableEntry {
    /// The file that has it.
    pub(crate) object: ObjectId,
    /// The function or variable.
    pub(crate) symbol: OutSymbolId,
    pub(crate) flags: u32,
    /// Offset of the slot or the variable, bytes.
    pub(crate) offset: u64,
    pub(crate) id: Id,
}

impl TableEntry {
    /// The record; `index` gives the output index of a symbol.
    pub(crate) fn record(&self, index: impl Fn(OutSymbolId) -> u32) -> Entry {
        let symbol = SymbolIndex(index(self.symbol));
        Entry { symbol, flags: self.flags | flag::LINKED, offset: self.offset, id: self.id }
    }
}

/// Unified functions and variables of all files, in reading order.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) slots: Vec<JumpSlot>,
    pub(crate) functions: Vec<TableEntry>,
    pub(crate) variables: Vec<TableEntry>,
    /// `.nv.uft`.
    pub(crate) slots_table: Option<SectionId>,
    /// `.nv.uft.entry`.
    pub(crate) function_ids: Option<SectionId>,
    /// `.nv.udt.entry`.
    pub(crate) variable_ids: Option<SectionId>,
    /// `.nv.info..nv.uft`.
    pub(crate) slots_info: Option<SectionId>,
}

impl Tables {
    fn is_empty(&self) -> bool {
        self.function_ids.is_none() && self.variable_ids.is_none() && self.slots.is_empty()
    }
}

/// Gives slots and variables the places that the index file says. What is wrong is told later, among
/// other things ([`crate::finish`]).
pub(crate) fn place<'d>(
    objects: &Objects<'d>,
    merged: &mut Merged<'d>,
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
            object.twins.odd_slots().map(|odd| odd.clone().told_of(object.name))
        };
        if let Some(odd) = tables.slots.iter().find_map(odd) {
            return Err(odd);
        }
        let mut placing = Placing { objects, merged };
        placing.functions(&mut tables, &index.uidx.functions)?;
        placing.variables(&mut tables.variables, &index.uidx.variables)
    });
    merged.unified = tables;
    placed
}

/// What nvlink checks before it moves anything, in its order and words. A table of which the files
/// define nothing is not looked at.
fn check(tables: &Tables, draft: &Draft<'_>, uidx: &Uidx) -> Result<(), Message> {
    let internal = |what| Err(Message::Internal { what });
    // nvlink counts slots by their bytes (`tests/unified.rs`).
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
        let end = |entry: &TableEntry| {
            places.get(&entry.id)?.checked_add(draft.symbols[entry.symbol].size)
        };
        if tables.variables.iter().filter_map(end).max().unwrap_or(0) != uidx.variables.size {
            return internal("size of uidx window != nv.udt");
        }
    }
    Ok(())
}

/// Every id of the index file is that of an entry, and stands there once.
fn look_up(entries: &[TableEntry], places: &[Place]) -> Result<(), Message> {
    let ids: HashSet<Id> = entries.iter().map(|entry| entry.id).collect();
    // nvlink looks ids up by this key, and has another message for one that only has the same key.
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

/// Moves slots and variables, and refuses what nvlink makes wrong programs of
/// (docs/DIFFERENCES.md, unified-places).
struct Placing<'a, 'd> {
    objects: &'a Objects<'d>,
    merged: &'a mut Merged<'d>,
}

impl Placing<'_, '_> {
    fn functions(&mut self, tables: &mut Tables, window: &Window) -> Result<(), Message> {
        let Some(section) = self.section(Kind::JumpSlots) else { return Ok(()) };
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
                moves.push(Move { from: slot.base, to, size: SLOT });
                continue;
            };
            return Err(self.bad(entry, what));
        }
        self.rearrange(section, moves, window.size);
        let output = &mut self.merged.draft.sections[section];
        output.size += capsule::slots::tail(self.merged.draft.flavour, self.merged.draft.dialect);
        Ok(())
    }

    /// The slot of each function: that which is named after it.
    fn slots(&self, tables: &Tables) -> Result<Vec<JumpSlot>, Message> {
        let draft = &self.merged.draft;
        let names =
            tables.slots.iter().map(|slot| ((slot.object, draft.symbols[slot.stub].name), *slot));
        let mut slots: HashMap<_, JumpSlot> = names.collect();
        let slot = |entry: &TableEntry| {
            let name = draft.names.get(draft.symbols[entry.symbol].name);
            let stub = draft.names.lookup(&[STUB_PREFIX, name].concat());
            let slot = stub.and_then(|stub| slots.remove(&(entry.object, stub)));
            slot.ok_or_else(|| self.bad(entry, "it has no jump slot of its own".to_owned()))
        };
        tables.functions.iter().map(slot).collect()
    }

    fn variables(&mut self, entries: &mut [TableEntry], window: &Window) -> Result<(), Message> {
        let Some(section) = self.section(Kind::UnifiedData) else { return Ok(()) };
        let places = self.places(entries, window)?;
        let mut moves: Vec<Move> = Vec::with_capacity(entries.len());
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
            moves.push(Move { from, to, size });
        }
        self.check_order(entries, &moves)?;
        self.nothing_left(section, entries)?;
        if !entries.is_empty() {
            self.rearrange(section, moves, window.size);
        }
        Ok(())
    }

    /// Variables follow each other, and nothing but alignment leaves a gap.
    fn check_order(&self, entries: &[TableEntry], moves: &[Move]) -> Result<(), Message> {
        let mut order: Vec<usize> = (0..moves.len()).collect();
        order.sort_by_key(|&at| moves[at].to);
        let mut end = 0;
        for at in order {
            let Move { to, size, .. } = moves[at];
            let what = if to < end {
                format!("its place {to:#x} overlaps that of another variable")
            } else if to - end >= MOST_NOTHING {
                format!("there are {:#x} bytes of nothing in front of its place {to:#x}", to - end)
            } else {
                end = to + size;
                continue;
            };
            return Err(self.bad(&entries[at], what));
        }
        Ok(())
    }

    /// Every variable of the section has an entry.
    fn nothing_left(&self, section: SectionId, entries: &[TableEntry]) -> Result<(), Message> {
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

    /// The place of every entry: each has an id of its own, which the index file lists.
    fn places(&self, entries: &[TableEntry], window: &Window) -> Result<HashMap<Id, u64>, Message> {
        let places = window.offsets();
        let mut seen: HashMap<Id, &TableEntry> = HashMap::with_capacity(entries.len());
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

    fn section(&self, kind: Kind) -> Option<SectionId> {
        self.merged.draft.first_of(kind)
    }

    fn rearrange(&mut self, section: SectionId, moves: Vec<Move>, size: u64) {
        let output = &mut self.merged.draft.sections[section];
        self.merged.moved.rearrange(section, output, moves);
        output.size = size;
    }

    fn name(&self, symbol: OutSymbolId) -> String {
        self.merged.draft.names.text(self.merged.draft.symbols[symbol].name)
    }

    fn bad(&self, entry: &TableEntry, what: String) -> Message {
        let (symbol, file) = (self.name(entry.symbol), self.objects.file(entry.object));
        let id = format!("{:#x}, {:#x}", entry.id.0, entry.id.1);
        Message::BadUnified { id, symbol, file, what }
    }
}
