//! Attributes of machine code, made of those of Mercury.
//!
//! In: the final attributes of the Mercury half and the objects' lists for the machine code. Out: the lists of
//! the SASS half. nvlink propagates attributes in the Mercury half only; the other takes the order and what
//! was changed from there, what describes instructions from its own input, and what Mercury does not have
//! behind all that (cases attributes/* on sm_100).

use culd_cubin::SymbolIndex;
use culd_cubin::attr::{Record, code, format};

use crate::attributes::{Attribute, section_symbol};
use crate::callgraph::CallGraph;
use crate::id::{IdVec, NodeId};
use crate::merge::{InfoSource, Merged};
use crate::objects::Objects;
use crate::textures::TextureSlots;

/// The lists of all functions.
pub(crate) fn sass<'d>(
    objects: &Objects<'d>,
    merged: &Merged<'d>,
    mercury: &IdVec<NodeId, Vec<Attribute<'d>>>,
    slots: &TextureSlots,
) -> IdVec<NodeId, Vec<Attribute<'d>>> {
    let list = |(node, list): (NodeId, &Vec<Attribute<'d>>)| match merged.function_infos[node] {
        Some(source) => one(objects, merged, source, list),
        None => Vec::new(),
    };
    let mut lists: IdVec<NodeId, Vec<Attribute<'d>>> = mercury.iter().map(list).collect();
    // Bank 0 has the slots. Who has only those of other kernels' parameters is not told of it (case
    // textures/deleted-later-parameter with -g).
    for user in slots.users.iter().filter(|user| slots.filled_for(user).next().is_some()) {
        for code in [code::BINDLESS_TEXTURE_BANK, code::BINDLESS_SURFACE_BANK] {
            lists[user.entry].push(Attribute::Number { format: format::BYTE, code, value: 0 });
        }
    }
    lists
}

/// The list of all jump slots: that of Mercury, and what only machine code has of the first slot.
pub(crate) fn jump_slots<'d>(
    objects: &Objects<'d>,
    graph: &CallGraph,
    merged: &Merged<'d>,
    mercury: &[Attribute<'d>],
) -> Vec<Attribute<'d>> {
    let first = merged.unified.slots.first().and_then(|slot| {
        let program = merged.draft.symbols[slot.stub].program?;
        merged.function_infos[graph.node(program)?]
    });
    first.map_or(Vec::new(), |source| one(objects, merged, source, mercury))
}

fn one<'d>(
    objects: &Objects<'d>,
    merged: &Merged<'d>,
    source: InfoSource,
    mercury: &[Attribute<'d>],
) -> Vec<Attribute<'d>> {
    let object = &objects[source.object];
    let twin = object.twins.of(source.input);
    let own: Vec<Record<'d>> =
        twin.into_iter().flat_map(|twin| object.info_records(twin)).collect();
    let mut matcher = Matcher { own: &own, next: [0; 256] };
    let mut list = Vec::with_capacity(mercury.len() + 4);
    // Lists are in reverse order of reading, so that the last is the first that was read.
    for attribute in mercury.iter().rev() {
        list.push(match attribute {
            Attribute::Record(record) if record.code == code::MERCURY_FINALIZER_OPTIONS => continue,
            Attribute::Record(record) => Attribute::Record(matcher.find(record)),
            Attribute::About { code, .. } => {
                matcher.take(*code);
                attribute.clone()
            }
            other => other.clone(),
        });
    }
    list.reverse();
    let mut known = [false; 256];
    for record in object.info_records(source.input) {
        known[usize::from(record.code)] = true;
    }
    let missing =
        |record: &&Record<'d>| !known[usize::from(record.code)] && !is_made(mercury, record);
    for record in own.iter().filter(missing) {
        list.extend(match record.code {
            0 => None,
            code::PARAM_CBANK if record.format == format::SIZED => {
                let symbol = record.word(0).map(SymbolIndex);
                symbol.and_then(|symbol| parameter_bank(objects, merged, source, symbol, record))
            }
            _ => Some(Attribute::Record(*record)),
        });
    }
    list
}

/// True for an attribute that the linker has given the function.
fn is_made(mercury: &[Attribute<'_>], record: &Record<'_>) -> bool {
    mercury.iter().any(|attribute| attribute.code() == record.code)
}

fn parameter_bank<'d>(
    objects: &Objects<'d>,
    merged: &Merged<'d>,
    source: InfoSource,
    symbol: SymbolIndex,
    record: &Record<'d>,
) -> Option<Attribute<'d>> {
    let object = &objects[source.object];
    let text = object.section(source.input).info_section()?;
    let bank = match merged.placed(source.object, text) {
        crate::merge::Placed::At { section, .. } => merged.entry_banks.get(&(section, 0)),
        _ => None,
    };
    let symbol = match bank {
        Some(&bank) => merged.draft.sections[bank].symbol,
        None => section_symbol(objects, merged, source.object, symbol),
    };
    Some(Attribute::About { code: record.code, symbol: symbol?, rest: record.payload.get(4..)? })
}

/// Finds records of the machine code for those of Mercury: the k-th of a code for the k-th.
struct Matcher<'l, 'd> {
    own: &'l [Record<'d>],
    /// By code: where the search goes on.
    next: [u32; 256],
}

impl<'d> Matcher<'_, 'd> {
    fn find(&mut self, record: &Record<'d>) -> Record<'d> {
        self.take(record.code).unwrap_or(*record)
    }

    /// The next record of a code.
    fn take(&mut self, code: u8) -> Option<Record<'d>> {
        let next = &mut self.next[usize::from(code)];
        let tail = self.own.get(*next as usize..)?;
        let at = tail.iter().position(|own| own.code == code)?;
        *next += at as u32 + 1;
        Some(tail[at])
    }
}
