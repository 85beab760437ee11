//! Attributes of machine code, made of those of Mercury.
//!
//! In: the final attributes of the Mercury half and the objects' lists for the machine code. Out: the lists of
//! the SASS half. nvlink propagates attributes in the Mercury half only; the other takes the order and what
//! was changed from there, what describes instructions from its own input, and what Mercury does not have
//! behind all that (cases attributes/* on sm_100).

use culd_cubin::SymbolIndex;
use culd_cubin::attr::{Record, code, format};

use hashbrown::HashMap;

use crate::LinkOptions;
use crate::attributes::{Attribute, Lists, section_symbol};
use crate::callgraph::CallGraph;
use crate::id::{IdVec, NodeId};
use crate::layout::Order;
use crate::merge::{InfoSource, Merged};
use crate::objects::Objects;
use crate::strings::Strings;
use crate::textures::TextureSlots;

/// The entries that call or name, directly or not, a function whose machine code has the flag ATTRIBUTE_6D: that of `griddepcontrol.launch_dependents`
/// (case dialects/launches-dependents).
fn flagged(
    (objects, merged): (&Objects<'_>, &Merged<'_>),
    (graph, order): (&CallGraph, &Order),
) -> IdVec<NodeId, bool> {
    let own = |node: NodeId| {
        let Some(source) = merged.function_infos[node] else { return false };
        let object = &objects[source.object];
        if !object.records.codes.has(code::ATTRIBUTE_6D) {
            return false;
        }
        let twin = object.twins.of(source.input);
        let mut records = twin.into_iter().flat_map(|twin| object.info_records(twin));
        records.any(|record| record.code == code::ATTRIBUTE_6D && record.value != 0)
    };
    let mut reached: IdVec<NodeId, bool> = graph.nodes.ids().map(own).collect();
    let mut flagged = IdVec::filled(false, graph.nodes.len());
    if !reached.values().any(|&reached| reached) {
        return flagged;
    }
    let taken_for_calls = taken_for_calls(merged, graph, order);
    let is_alias = |node: NodeId| merged.function_infos[node].is_none();
    if merged.draft.dialect.flag_through_aliases {
        graph.mark_users(&mut reached, &taken_for_calls, |_| true);
    } else {
        // A function has one list of attributes, under the name of it that was created first; nothing goes through the other names
        // (case attributes/launches-through-aliases).
        let mut has_list: IdVec<NodeId, bool> = graph.nodes.ids().map(|n| !is_alias(n)).collect();
        for alias in graph.nodes.ids().filter(|&node| is_alias(node)) {
            // Its only callee, in the records of its file.
            for target in graph.calls(alias).filter(|&target| alias < target) {
                if std::mem::take(&mut has_list[target]) {
                    has_list[alias] = true;
                    reached[alias] = std::mem::take(&mut reached[target]);
                }
            }
        }
        graph.mark_users(&mut reached, &taken_for_calls, |node| has_list[node]);
    }
    for &entry in graph.entries() {
        flagged[entry] = reached[entry];
    }
    flagged
}

/// Calls that nvlink sees where there are none: in the records about addresses and indirect calls it takes the place of the prototype
/// in the table of names for the number of a symbol (case attributes/prototypes-as-symbols). The place is that of the writer
/// before 13.5, which puts prototypes first.
fn taken_for_calls(merged: &Merged<'_>, graph: &CallGraph, order: &Order) -> Vec<(NodeId, NodeId)> {
    let strings = Strings::new(&merged.draft, &[&merged.draft.prototype_strings]);
    let number = |node: NodeId| order.symbol_index(merged.function(graph, node));
    let functions: HashMap<u32, NodeId> =
        graph.nodes.ids().map(|node| (number(node), node)).collect();
    let mut pairs = Vec::new();
    for node in graph.nodes.ids() {
        let taken = graph.prototype(node).filter(|_| graph.is_address_taken(node));
        for prototype in taken.into_iter().chain(graph.indirect(node)) {
            let function = functions.get(&strings.offset(prototype));
            pairs.extend(function.map(|&function| (node, function)));
        }
    }
    pairs
}

/// What the lists of machine code are made of.
pub(crate) struct Sass<'a, 'd> {
    objects: &'a Objects<'d>,
    merged: &'a Merged<'d>,
    /// The final lists of the Mercury half.
    mercury: &'a Lists<'d>,
    /// Entries whose bank 0 has slots of textures, in order.
    bindless: Vec<NodeId>,
    /// Entries that reach a function with the flag ATTRIBUTE_6D, where they take it over.
    flagged: Option<IdVec<NodeId, bool>>,
    /// True where each list ends with ATTRIBUTE_67.
    has_67: bool,
}

/// The number of devices for which the finalizer adds ATTRIBUTE_67 (case dialects/sm-107).
const WITH_67: u32 = 107;

impl<'a, 'd> Sass<'a, 'd> {
    pub(crate) fn new(
        objects: &'a Objects<'d>,
        merged: &'a Merged<'d>,
        mercury: &'a Lists<'d>,
        slots: &TextureSlots,
        (graph, order): (&CallGraph, &Order),
        options: &LinkOptions,
    ) -> Self {
        // Who has only those of other kernels' parameters is not told of it (case textures/deleted-later-parameter
        // with -g).
        let users = slots.users.iter().filter(|user| slots.filled_for(user).next().is_some());
        let mut bindless: Vec<NodeId> = users.map(|user| user.entry).collect();
        bindless.sort_unstable();
        let is_program = !options.relocatable;
        let dialect = options.dialect;
        let takes_flag = is_program && dialect.entries_take_flag;
        let flagged = takes_flag.then(|| flagged((objects, merged), (graph, order)));
        let has_67 = is_program && options.target.sm == WITH_67;
        Sass { objects, merged, mercury, bindless, flagged, has_67 }
    }

    /// Makes the list of a function in `maker`.
    pub(crate) fn list<'m>(
        &self,
        node: NodeId,
        source: InfoSource,
        maker: &'m mut ListMaker<'d>,
    ) -> &'m [Attribute<'d>] {
        maker.make(self.objects, self.merged, source, &self.mercury[node]);
        if self.bindless.binary_search(&node).is_ok() {
            for code in [code::BINDLESS_TEXTURE_BANK, code::BINDLESS_SURFACE_BANK] {
                maker.list.push(Attribute::Number { format: format::BYTE, code, value: 0 });
            }
        }
        if self.flagged.as_ref().is_some_and(|flagged| flagged[node]) {
            let flag = |attribute: &&mut Attribute<'_>| attribute.code() == code::ATTRIBUTE_6D;
            if let Some(attribute) = maker.list.iter_mut().find(flag) {
                *attribute = attribute.with_number(1);
            }
        }
        if self.has_67 {
            let code = code::ATTRIBUTE_67;
            maker.list.push(Attribute::Number { format: format::BYTE, code, value: 0 });
        }
        &maker.list
    }

    /// The list of all jump slots: `mercury`, and what only machine code has of the first slot.
    pub(crate) fn jump_slots(
        &self,
        graph: &CallGraph,
        mercury: &[Attribute<'d>],
    ) -> Vec<Attribute<'d>> {
        let first = self.merged.unified.slots.first().and_then(|slot| {
            let program = self.merged.draft.symbols[slot.stub].program?;
            self.merged.function_infos[graph.node(program)?]
        });
        let mut maker = ListMaker::default();
        if let Some(source) = first {
            maker.make(self.objects, self.merged, source, mercury);
        }
        maker.list
    }
}

/// Makes one list after the other.
pub(crate) struct ListMaker<'d> {
    list: Vec<Attribute<'d>>,
    /// The records of the machine code.
    own: Vec<Record<'d>>,
    /// By code: where in `own` the search for the next record goes on; 0 between two lists.
    next: [usize; 256],
    /// By code: the last list with such a record in the Mercury half's input.
    known: [u32; 256],
    /// How many lists were made.
    lists: u32,
}

impl Default for ListMaker<'_> {
    fn default() -> Self {
        let (list, own) = (Vec::new(), Vec::new());
        ListMaker { list, own, next: [0; 256], known: [0; 256], lists: 0 }
    }
}

impl<'d> ListMaker<'d> {
    fn make(
        &mut self,
        objects: &Objects<'d>,
        merged: &Merged<'d>,
        source: InfoSource,
        mercury: &[Attribute<'d>],
    ) {
        let object = &objects[source.object];
        let twin = object.twins.of(source.input);
        self.list.clear();
        self.own.clear();
        self.own.extend(twin.into_iter().flat_map(|twin| object.info_records(twin)));
        // Lists are in reverse order of reading, so that the last is the first that was read.
        for attribute in mercury.iter().rev() {
            let own = match attribute {
                Attribute::Record(record) if record.code == code::MERCURY_FINALIZER_OPTIONS => {
                    continue;
                }
                Attribute::Record(record) => {
                    Attribute::Record(self.take(record.code).unwrap_or(*record))
                }
                Attribute::About { code, .. } => {
                    self.take(*code);
                    attribute.clone()
                }
                other => other.clone(),
            };
            self.list.push(own);
        }
        self.list.reverse();
        self.own.iter().for_each(|record| self.next[usize::from(record.code)] = 0);
        self.add_missing(objects, merged, source, mercury);
    }

    /// The next record of the machine code that has a code: the k-th of a code for the k-th of Mercury.
    fn take(&mut self, code: u8) -> Option<Record<'d>> {
        let next = &mut self.next[usize::from(code)];
        let tail = self.own.get(*next..)?;
        let at = tail.iter().position(|own| own.code == code)?;
        *next += at + 1;
        Some(tail[at])
    }

    /// Adds the records of codes that Mercury does not have.
    fn add_missing(
        &mut self,
        objects: &Objects<'d>,
        merged: &Merged<'d>,
        source: InfoSource,
        mercury: &[Attribute<'d>],
    ) {
        self.lists += 1;
        for record in objects[source.object].info_records(source.input) {
            self.known[usize::from(record.code)] = self.lists;
        }
        for record in &self.own {
            let known = self.known[usize::from(record.code)] == self.lists;
            if known || is_made(mercury, record) {
                continue;
            }
            self.list.extend(match record.code {
                0 => None,
                code::PARAM_CBANK if record.format == format::SIZED => {
                    let symbol = record.word(0).map(SymbolIndex);
                    symbol
                        .and_then(|symbol| parameter_bank(objects, merged, source, symbol, record))
                }
                _ => Some(Attribute::Record(*record)),
            });
        }
    }
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
