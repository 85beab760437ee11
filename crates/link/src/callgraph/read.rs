//! Phase `callgraph`, first step: combines the call-graph records of all files.
//!
//! In: the records of every file, read by all threads. Out: [`GatheredRecords`], in file order.

use culd_cubin::SymbolIndex;
use culd_cubin::callgraph::Edge;

use super::records::{CallRecords, FunctionSignature, Roots};
use crate::base::id::{DenseId, IdVec, ObjectId, SymbolId};
use crate::base::name_list::NameList;
use crate::base::names::{LastInterned, Names};
use crate::base::session::Session;
use crate::objects::InputObjects;
use crate::objects::object::InputObject;
use crate::objects::outline::FunctionOutline;
use crate::options::LinkOptions;
use crate::options::selection::Matcher;
use crate::symbols::discarded::{PatchedSection, names_loser};
use crate::symbols::{Fate, Symbols};

/// Files that a thread reads as one share.
const SHARE: usize = 32;

/// Reads the records of all files and combines them.
pub(super) fn read<'d>(
    session: &Session,
    objects: &InputObjects<'d>,
    symbols: &Symbols,
    options: &LinkOptions,
    names: &mut Names<'d>,
) -> GatheredRecords {
    let selection = options.effective_selection();
    // An object keeps all kernels, but creates those that the selection leaves out as late as
    // functions (cases selection/* with -r).
    let late = options.relocatable && !options.debug;
    let known_by = if late { &options.selection } else { selection };
    let matchers = KernelMatchers { selected: selection.matcher(), known: known_by.matcher() };
    let share = |place: usize| {
        let mut seen = RecordBatch::default();
        for (id, object) in objects.iter().skip(SHARE * place).take(SHARE) {
            seen.ordered.push(OrderedRecord::File(id));
            let read = FileReader { symbols, object, id };
            read.roots(&mut seen, &matchers);
            read.edges(&mut seen);
        }
        seen
    };
    let shares = objects.all.len().div_ceil(SHARE);
    let shares = session.map(shares, objects.reloc_bytes(), share);
    let mut gathered = GatheredRecords {
        records: CallRecords::default(),
        roots: Roots::none(symbols),
        signatures: IdVec::filled(FunctionSignature::default(), symbols.all.len()),
        prototypes: NameList::default(),
    };
    for seen in shares {
        gathered.add_batch(objects, names, seen);
    }
    if options.relocatable {
        gathered.records.list_once();
    }
    gathered
}

/// The records of some files, each file read by itself.
#[derive(Default)]
struct RecordBatch {
    calls: Vec<(u32, u32)>,
    references: Vec<(u32, u32)>,
    /// Records that must be combined in file order.
    ordered: Vec<OrderedRecord>,
}

/// A record that must be combined in file order. A prototype is the offset of its string in the
/// file.
#[derive(Debug, Clone, Copy)]
enum OrderedRecord {
    /// The following records are of this file.
    File(ObjectId),
    /// An accepted definition of a kernel: whether it is selected, and whether its file is known to
    /// keep it.
    Kernel {
        kernel: SymbolId,
        selected: bool,
        known: bool,
    },
    /// An accepted definition of a function with the name of a function of the driver.
    DriverFunction(SymbolId),
    AddressTaken(SymbolId),
    /// The caller, if records about it count, and whether the string is in the output.
    IndirectCall {
        caller: Option<SymbolId>,
        prototype: u32,
        listed: bool,
    },
    /// The prototype of a function, and whether the record takes the function's address.
    Prototype {
        function: Option<SymbolId>,
        prototype: u32,
        taken: bool,
    },
}

/// The records of all files so far, combined.
pub(super) struct GatheredRecords {
    pub(super) records: CallRecords,
    pub(super) roots: Roots,
    pub(super) signatures: IdVec<SymbolId, FunctionSignature>,
    /// The strings of prototypes in the order of the output, where they come first in `.strtab`.
    /// Those of dead functions are included, those of copies that lost are not.
    pub(super) prototypes: NameList,
}

impl GatheredRecords {
    /// Adds the records of the next files.
    fn add_batch<'d>(
        &mut self,
        objects: &InputObjects<'d>,
        names: &mut Names<'d>,
        seen: RecordBatch,
    ) {
        self.records.calls.extend(seen.calls);
        self.records.references.extend(seen.references);
        let (mut object, mut strings) = (None, LastInterned::default());
        let mut intern =
            |object: Option<&InputObject<'d>>, strings: &mut LastInterned, prototype| {
                let string = |offset| object.map_or(&[][..], |object| object.prototype(offset));
                strings.intern(names, prototype, string)
            };
        for record in seen.ordered {
            match record {
                OrderedRecord::File(id) => {
                    (object, strings) = (Some(&objects[id]), LastInterned::default())
                }
                OrderedRecord::Kernel { kernel, selected, known } => {
                    self.roots.is_entry[kernel] |= selected;
                    let known = known || self.signatures[kernel].address_taken;
                    self.roots.known[kernel].get_or_insert(known);
                }
                OrderedRecord::DriverFunction(function) => {
                    self.roots.driver.insert(function);
                }
                OrderedRecord::AddressTaken(function) => {
                    self.signatures[function].address_taken = true
                }
                OrderedRecord::IndirectCall { caller, prototype, listed } => {
                    let name = intern(object, &mut strings, prototype);
                    if listed {
                        self.prototypes.add(name);
                    }
                    let caller = caller.map(|caller| (caller.index() as u32, name.index() as u32));
                    self.records.indirect.extend(caller);
                }
                OrderedRecord::Prototype { function, prototype, taken } => {
                    let name = intern(object, &mut strings, prototype);
                    self.prototypes.add(name);
                    let Some(function) = function else { continue };
                    let signature = &mut self.signatures[function];
                    signature.prototype = Some(name);
                    signature.address_taken |= taken;
                }
            }
        }
    }
}

/// Which kernels are kept, and which of those exist before the functions that reach them.
struct KernelMatchers<'o> {
    selected: Matcher<'o>,
    known: Matcher<'o>,
}

struct FileReader<'a, 'd> {
    symbols: &'a Symbols,
    object: &'a InputObject<'d>,
    id: ObjectId,
}

impl<'d> FileReader<'_, 'd> {
    /// Collects the kernels of the file, and definitions with names of the driver's. A kernel that
    /// the command line leaves out is kept if an earlier file takes its address; the references of
    /// host code count after all files (cases selection/address-taken-*).
    fn roots(&self, seen: &mut RecordBatch, matchers: &KernelMatchers<'_>) {
        let functions = self.object.outline.functions.iter();
        let is_root =
            |function: &&FunctionOutline| function.is_kernel || function.is_driver_function;
        for &FunctionOutline { index, is_kernel, .. } in functions.filter(is_root) {
            let Some(function) = self.symbols.of(self.id, index) else { continue };
            if self.symbols.fate(self.id, index).accepted() {
                let symbol = self.object.symbol(index);
                if !is_kernel {
                    if symbol.defined_in().is_some() {
                        seen.ordered.push(OrderedRecord::DriverFunction(function));
                    }
                    continue;
                }
                let known = matchers.known.keeps(symbol) || matchers.known.comes_late();
                let selected = matchers.selected.keeps(symbol);
                seen.ordered.push(OrderedRecord::Kernel { kernel: function, selected, known });
            }
        }
    }

    /// Collects the call-graph records of the file. Records of a copy that lost do not count. Those
    /// of a copy that is replaced later do: its callees stay alive (cases weak/*).
    fn edges(&self, seen: &mut RecordBatch) {
        let lost = |function| self.symbols.fate(self.id, function) == Fate::Lost;
        let of = |function| self.symbols.of(self.id, function);
        let number = |id: SymbolId| id.index() as u32;
        self.object.edges().for_each(|edge| match edge {
            Edge::Call { caller, callee } => {
                if let (Some(from), Some(to)) = (self.counted(caller), of(callee)) {
                    seen.calls.push((number(from), number(to)));
                }
            }
            Edge::Reference { function, known } => {
                if let (Some(from), Some(to)) = (self.counted(function), of(known)) {
                    seen.references.push((number(from), number(to)));
                    // The address counts as taken even if only a copy that lost has the prototype
                    // (cases indirect/*).
                    seen.ordered.push(OrderedRecord::AddressTaken(to));
                }
            }
            Edge::IndirectCall { function, prototype } => {
                let (caller, listed) = (self.counted(function), !lost(function));
                seen.ordered.push(OrderedRecord::IndirectCall { caller, prototype, listed });
            }
            Edge::AddressTaken { function, .. } if lost(function) => {}
            Edge::AddressTaken { function, prototype } => {
                let function = of(function);
                seen.ordered.push(OrderedRecord::Prototype { function, prototype, taken: true });
            }
        });
        // A descriptor takes the address of its function in any place, even in dead code (case
        // relocations/descriptors-90). It does not count in a copy that lost (case
        // indirect/described-by-loser), nor if its record is discarded.
        for &(section, function) in &self.object.described {
            let code = self.object.code_function(section);
            let patched = PatchedSection { id: self.id, object: self.object, target: section };
            if code.is_some_and(lost) || names_loser(self.symbols, patched, function) {
                continue;
            }
            seen.ordered.extend(of(function).map(OrderedRecord::AddressTaken));
        }
        for (function, prototype) in self.object.prototypes() {
            seen.ordered.push(OrderedRecord::Prototype {
                function: of(function),
                prototype,
                taken: false,
            });
        }
    }

    /// The program symbol of a function, if this file's records about the function count.
    fn counted(&self, index: SymbolIndex) -> Option<SymbolId> {
        let id = self.symbols.of(self.id, index)?;
        let undefined = self.symbols.all[id].definition.is_none();
        let counts = undefined || self.symbols.fate(self.id, index).accepted();
        counts.then_some(id)
    }
}
