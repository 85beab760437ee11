//! Attributes of machine code, derived from those of the Mercury half.
//!
//! In: the final attributes of the Mercury half, and the objects' lists for the machine code. Out:
//! the lists of the SASS half. nvlink propagates attributes in the Mercury half only. The other
//! half takes the order, and inherited values, from there; records about instructions come from its
//! own input; codes that the Mercury half lacks follow at the end (cases attributes/* on sm_100).

use culd_cubin::SymbolIndex;
use culd_cubin::attr::{Record, code, format};
use hashbrown::HashMap;

use super::numbers::Numbers;
use super::strings::StringTable;
use crate::attributes::attribute::OutAttribute;
use crate::attributes::lists::AttributeLists;
use crate::attributes::section_symbol;
use crate::base::id::{IdVec, NodeId};
use crate::callgraph::CallGraph;
use crate::data::textures::TextureSlots;
use crate::draft::merged::{BankKey, InfoSource, MergeResult, SectionPlacement};
use crate::objects::InputObjects;
use crate::options::LinkOptions;

/// The kernels that inherit ATTRIBUTE_6D, the flag of `griddepcontrol.launch_dependents`: some
/// function that they call or refer to, directly or not, has it in machine code (case
/// dialects/launches-dependents).
fn flagged(
    objects: &InputObjects<'_>,
    merged: &MergeResult<'_>,
    graph: &CallGraph,
    numbers: &Numbers,
) -> IdVec<NodeId, bool> {
    let own = |node: NodeId| {
        let Some(source) = merged.function_infos[node] else { return false };
        let object = &objects[source.object];
        if !object.records.codes.has(code::ATTRIBUTE_6D) {
            return false;
        }
        let counterpart = object.counterparts.of(source.input);
        let mut records =
            counterpart.into_iter().flat_map(|counterpart| object.info_records(counterpart));
        records.any(|record| record.code == code::ATTRIBUTE_6D && record.value != 0)
    };
    let mut reached: IdVec<NodeId, bool> = graph.nodes.ids().map(own).collect();
    let mut flagged = IdVec::filled(false, graph.nodes.len());
    if !reached.values().any(|&reached| reached) {
        return flagged;
    }
    let taken_for_calls = taken_for_calls(merged, graph, numbers);
    let is_alias = |node: NodeId| merged.function_infos[node].is_none();
    if merged.draft.dialect.flag_through_aliases {
        graph.mark_users(&mut reached, &taken_for_calls, |_| true);
    } else {
        // A function has one list of attributes, under the name of it that was created first. The
        // flag does not pass through its other names (case attributes/launches-through-aliases).
        let mut has_list: IdVec<NodeId, bool> = graph.nodes.ids().map(|n| !is_alias(n)).collect();
        for alias in graph.nodes.ids().filter(|&node| is_alias(node)) {
            // An alias has one callee in its file's records: its function.
            for target in graph.calls(alias).filter(|&target| alias < target) {
                if std::mem::take(&mut has_list[target]) {
                    has_list[alias] = true;
                    reached[alias] = std::mem::take(&mut reached[target]);
                }
            }
        }
        graph.mark_users(&mut reached, &taken_for_calls, |node| has_list[node]);
    }
    // Kernels that only their address keeps, too (case attributes/launches-by-address).
    for &kernel in graph.kernels() {
        flagged[kernel] = reached[kernel];
    }
    flagged
}

/// Calls that do not exist, but that nvlink follows. In records about taken addresses and indirect
/// calls it reads the prototype's offset in the string table as a symbol index (case
/// attributes/prototypes-as-symbols). That offset is the one that releases before 13.5 write, with
/// prototypes first.
fn taken_for_calls(
    merged: &MergeResult<'_>,
    graph: &CallGraph,
    numbers: &Numbers,
) -> Vec<(NodeId, NodeId)> {
    let strings = StringTable::new(&merged.draft, &[&merged.draft.prototype_strings]);
    let number = |node: NodeId| numbers.symbol_index(merged.function(graph, node));
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

/// The sources of machine code's lists.
pub(crate) struct SassAttributes<'a, 'd> {
    objects: &'a InputObjects<'d>,
    merged: &'a MergeResult<'d>,
    /// The final lists of the Mercury half.
    mercury: &'a AttributeLists<'d>,
    /// Entries with texture slots in bank 0, sorted.
    bindless: Vec<NodeId>,
    /// Entries that inherit ATTRIBUTE_6D; `None` with `-r`, and if the release does not propagate
    /// it.
    flagged: Option<IdVec<NodeId, bool>>,
    /// Each list ends with ATTRIBUTE_67.
    has_67: bool,
}

/// The target (`sm`) for which the finalizer adds ATTRIBUTE_67 (case dialects/sm-107).
const WITH_67: u32 = 107;

impl<'a, 'd> SassAttributes<'a, 'd> {
    pub(crate) fn new(
        objects: &'a InputObjects<'d>,
        merged: &'a MergeResult<'d>,
        mercury: &'a AttributeLists<'d>,
        slots: &TextureSlots,
        graph: &CallGraph,
        numbers: &Numbers,
        options: &LinkOptions,
    ) -> Self {
        // An entry with slots for parameters of other kernels only does not get the attributes
        // (case textures/deleted-later-parameter with -g).
        let users = slots.users.iter().filter(|user| slots.filled_for(user).next().is_some());
        let mut bindless: Vec<NodeId> = users.map(|user| user.entry).collect();
        bindless.sort_unstable();
        let is_program = !options.relocatable;
        let dialect = options.dialect;
        let takes_flag = is_program && dialect.entries_take_flag;
        let flagged = takes_flag.then(|| flagged(objects, merged, graph, numbers));
        let has_67 = is_program && options.target.sm == WITH_67;
        SassAttributes { objects, merged, mercury, bindless, flagged, has_67 }
    }

    /// Makes the list of a function in `maker`.
    pub(crate) fn list<'m>(
        &self,
        node: NodeId,
        source: InfoSource,
        maker: &'m mut ListMaker<'d>,
    ) -> &'m [OutAttribute<'d>] {
        maker.make(self.objects, self.merged, source, &self.mercury[node]);
        if self.bindless.binary_search(&node).is_ok() {
            for code in [code::BINDLESS_TEXTURE_BANK, code::BINDLESS_SURFACE_BANK] {
                maker.list.push(OutAttribute::Number { format: format::BYTE, code, value: 0 });
            }
        }
        if self.flagged.as_ref().is_some_and(|flagged| flagged[node]) {
            let flag = |attribute: &&mut OutAttribute<'_>| attribute.code() == code::ATTRIBUTE_6D;
            if let Some(attribute) = maker.list.iter_mut().find(flag) {
                *attribute = attribute.with_number(1);
            }
        }
        if self.has_67 {
            let code = code::ATTRIBUTE_67;
            maker.list.push(OutAttribute::Number { format: format::BYTE, code, value: 0 });
        }
        &maker.list
    }

    /// The list of all jump slots: `mercury`, and the records that only the machine code of the
    /// first slot has.
    pub(crate) fn jump_slots(
        &self,
        graph: &CallGraph,
        mercury: &[OutAttribute<'d>],
    ) -> Vec<OutAttribute<'d>> {
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

/// A workspace that makes one list after the other.
pub(crate) struct ListMaker<'d> {
    list: Vec<OutAttribute<'d>>,
    /// The records of the function in machine code.
    own: Vec<Record<'d>>,
    /// By code: where in `own` the search for the next record continues; 0 between two lists.
    next: [usize; 256],
    /// By code: the number of the last list whose Mercury input has such a record.
    known: [u32; 256],
    /// Number of lists made.
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
        objects: &InputObjects<'d>,
        merged: &MergeResult<'d>,
        source: InfoSource,
        mercury: &[OutAttribute<'d>],
    ) {
        let object = &objects[source.object];
        let counterpart = object.counterparts.of(source.input);
        self.list.clear();
        self.own.clear();
        self.own.extend(
            counterpart.into_iter().flat_map(|counterpart| object.info_records(counterpart)),
        );
        // Lists are in reverse reading order, so this starts with the record that was read first.
        for attribute in mercury.iter().rev() {
            let own = match attribute {
                OutAttribute::Record(record) if record.code == code::MERCURY_FINALIZER_OPTIONS => {
                    continue;
                }
                OutAttribute::Record(record) => {
                    OutAttribute::Record(self.take(record.code).unwrap_or(*record))
                }
                OutAttribute::About { code, .. } => {
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

    /// The next record of machine code with a code: the k-th for the k-th record of the Mercury
    /// half with that code.
    fn take(&mut self, code: u8) -> Option<Record<'d>> {
        let next = &mut self.next[usize::from(code)];
        let tail = self.own.get(*next..)?;
        let at = tail.iter().position(|own| own.code == code)?;
        *next += at + 1;
        Some(tail[at])
    }

    /// Adds the records with codes that the Mercury half does not have.
    fn add_missing(
        &mut self,
        objects: &InputObjects<'d>,
        merged: &MergeResult<'d>,
        source: InfoSource,
        mercury: &[OutAttribute<'d>],
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
                _ => Some(OutAttribute::Record(*record)),
            });
        }
    }
}

/// True for an attribute that the linker already gave the function.
fn is_made(mercury: &[OutAttribute<'_>], record: &Record<'_>) -> bool {
    mercury.iter().any(|attribute| attribute.code() == record.code)
}

fn parameter_bank<'d>(
    objects: &InputObjects<'d>,
    merged: &MergeResult<'d>,
    source: InfoSource,
    symbol: SymbolIndex,
    record: &Record<'d>,
) -> Option<OutAttribute<'d>> {
    let object = &objects[source.object];
    let text = object.section(source.input).info_section()?;
    let bank = match merged.placement(source.object, text) {
        SectionPlacement::At { section, .. } => {
            merged.entry_banks.get(&BankKey { code: section, number: 0 })
        }
        _ => None,
    };
    let symbol = match bank {
        Some(&bank) => merged.draft.sections[bank].symbol,
        None => section_symbol(objects, merged, source.object, symbol),
    };
    Some(OutAttribute::About { code: record.code, symbol: symbol?, rest: record.payload.get(4..)? })
}
