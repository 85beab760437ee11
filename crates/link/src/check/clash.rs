//! Checks that all files agree about a name. Runs in parallel with phase `merge`, whose result is
//! discarded on error.
//!
//! The state per name, the checks and the order of the messages are those of nvlink
//! (docs/rules/diagnostics.md, section 1).

use std::collections::BTreeMap;

use culd_cubin::attr::{self, Record};
use culd_cubin::callgraph::Edge;
use culd_cubin::compat::code::ISA_CLASS;
use culd_cubin::elf::{stb, sto, stt};
use culd_cubin::{SectionIndex, Symbol, SymbolIndex, SymbolSection, text_of};
use hashbrown::HashMap;

use super::explain::places::{self, SameObjects};
use super::explain::source::SourceLines;
use super::redefined_literals::RedefinedFunctions;
use crate::base::id::{IdVec, NameId, ObjectId, SymbolId};
use crate::diag::note::Note;
use crate::diag::{Diagnostics, Failed, Message};
use crate::objects::InputObjects;
use crate::objects::object::InputObject;
use crate::objects::roles::SectionRole;
use crate::objects::tensor_memory::TensorMemory;
use crate::options::LinkOptions;
use crate::options::dialect::Dialect;
use crate::options::driver_functions::is_driver_function;
use crate::symbols::{Fate, SymbolInfo, SymbolSite, Symbols, defined_role, space};

/// The strongest definition of a name so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DefinitionStrength {
    Undefined,
    Common,
    Weak,
    Strong,
}

/// The state of a global name.
#[derive(Debug, Clone)]
struct NameState<'d> {
    strength: DefinitionStrength,
    /// The definition is in `.nv.global.init`.
    initialised: bool,
    function: bool,
    entry: bool,
    space: u8,
    managed: bool,
    size: u64,
    /// Type and binding of a texture, sampler or surface reference.
    reference: Option<ReferenceSymbol>,
    /// The file for messages; references have none.
    file: Option<ObjectId>,
    /// The symbol that defines it or gives its size.
    site: SymbolSite,
    /// Size of `.nv.constant0.<entry>`, for weak entries.
    parameter_bank: u64,
    prototype: Option<(&'d [u8], ObjectId)>,
}

/// What is known after the files checked so far, beside the states of names.
struct ClashCheck {
    /// By parameter bank: weak entries of the present file for which another file has a bank of
    /// another size.
    bank_clashes: BTreeMap<SectionIndex, Vec<SymbolId>>,
    /// Objects already compared, for notes about two definitions.
    same_objects: SameObjects,
    source_lines: SourceLines,
    locals: LocalSymbols,
    /// How the first file allocates tensor memory.
    tensor_memory: Option<TensorMemory>,
    /// Some file is a whole program.
    has_extensible: bool,
}

/// Local functions and variables by name; filled on demand, for parameters of kernels.
#[derive(Default)]
struct LocalSymbols {
    by_name: HashMap<NameId, Vec<SymbolId>>,
    /// Number of program symbols that were looked at.
    seen: usize,
}

/// The states of all names. Not part of [`ClashCheck`], so that a state stays in its place while
/// messages are added. Taken out and put back: +1.0 % instructions on many100.
type NameStates<'d> = IdVec<SymbolId, Option<NameState<'d>>>;

/// The check of one file.
struct FileCheck<'a, 'd> {
    clashes: &'a mut ClashCheck,
    dialect: &'a Dialect,
    symbols: &'a Symbols,
    objects: &'a InputObjects<'d>,
    object: &'a InputObject<'d>,
    id: ObjectId,
    lines: Vec<(Message, Vec<Note>)>,
    redefined: RedefinedFunctions<'d>,
}

/// Checks one file after the other, and stops after the first file with an error.
pub(crate) fn check(
    objects: &InputObjects<'_>,
    symbols: &Symbols,
    options: &LinkOptions,
    diags: &mut Diagnostics,
) -> Result<(), Failed> {
    let mut known = IdVec::filled(None, symbols.all.len());
    let mut clashes = ClashCheck {
        bank_clashes: BTreeMap::new(),
        same_objects: SameObjects::default(),
        source_lines: SourceLines::default(),
        locals: LocalSymbols::default(),
        tensor_memory: None,
        has_extensible: objects.has_extensible(),
    };
    objects
        .iter()
        .try_for_each(|(id, _)| clashes.check(&mut known, symbols, objects, id, options, diags))
}

impl ClashCheck {
    /// Checks file `id` against all earlier files.
    fn check<'d>(
        &mut self,
        known: &mut NameStates<'d>,
        symbols: &Symbols,
        objects: &InputObjects<'d>,
        id: ObjectId,
        options: &LinkOptions,
        diags: &mut Diagnostics,
    ) -> Result<(), Failed> {
        let object = &objects[id];
        let lines = Vec::new();
        let mut check = FileCheck {
            clashes: self,
            dialect: options.dialect,
            symbols,
            objects,
            object,
            id,
            lines,
            redefined: RedefinedFunctions::default(),
        };
        let literals = check.symbols(known);
        if literals.is_ok() {
            check.fragments();
            if let Some(limit) = options.api_version {
                check.api_versions(limit);
            }
        }
        let mut failed = false;
        if !options.disable_infos && check.clashes.has_extensible && !object.may_extend() {
            let file = object.name.to_owned();
            failed |= diags.warning(Message::BesideExtensible { file });
        }
        failed |= check.report(diags);
        if let Err(what) = literals {
            return Err(diags.fatal(Message::Internal { what }));
        }
        if options.target.has_compat && !options.disable_infos && lacks_isa_class(object) {
            // nvlink prints 90 for sm_90a too.
            let file = object.name.to_owned();
            failed |= diags.warning(Message::MissingIsaClass { file, sm: 90 });
        }
        check.prototypes(known);
        failed |= check.report(diags);
        if failed { Err(diags.fatal(Message::MergeFailed)) } else { Ok(()) }
    }
}

impl<'d> FileCheck<'_, 'd> {
    /// Reports the messages so far; true if there were any.
    fn report(&mut self, diags: &mut Diagnostics) -> bool {
        let lines = std::mem::take(&mut self.lines);
        let any = !lines.is_empty();
        lines.into_iter().for_each(|(line, notes)| diags.error(line, notes));
        any
    }

    /// Checks functions, then variables. Clashes of parameter banks are reported with a variable in
    /// the bank, the others at the end. Literals of functions with two definitions that disagree
    /// end the link; the error is nvlink's words.
    fn symbols(&mut self, states: &mut NameStates<'d>) -> Result<(), &'static str> {
        self.clashes.bank_clashes.clear();
        for (index, symbol) in self.object.cubin.symbol_indices() {
            if symbol.is_function() && symbol.binding() != stb::LOCAL {
                self.symbol(states, index, symbol);
            }
        }
        for (index, symbol) in self.object.cubin.symbol_indices() {
            if matches!(symbol.kind(), stt::FUNC | stt::SECTION | stt::NOTYPE) {
                continue;
            }
            if let Some(section) = symbol.defined_in() {
                self.report_bank_clash(Some(section));
            }
            self.redefined.symbol(self.object, symbol)?;
            if symbol.binding() != stb::LOCAL || symbol.is_reference() {
                self.symbol(states, index, symbol);
            }
        }
        self.report_bank_clash(None);
        Ok(())
    }

    /// Checks the tensor memory attributes of accepted functions, dead ones included, and of strong
    /// functions that clash.
    fn fragments(&mut self) {
        for &(list, way) in &self.object.records.tensor_memory {
            if !self.is_of_lost_copy(list) {
                self.tensor_memory(way);
            }
        }
    }

    /// Reports each function, of the same ones, that was compiled for a later version of CUDA's
    /// interface than `limit` (transcripts *cuda-api-version-...* of testdata/cli).
    fn api_versions(&mut self, limit: u32) {
        let object = self.object;
        let lists = object.function_infos().filter(|&list| !self.is_of_lost_copy(list));
        let mut lines = Vec::new();
        for list in lists {
            let records = object.info_records(list);
            for record in records.filter(|record| record.code == attr::code::CUDA_API_VERSION) {
                if let Some(version) = record.word(0).filter(|&version| version > limit) {
                    let file = object.name.to_owned();
                    let line = Message::LaterApiVersion { file, version, limit };
                    lines.push((line, Vec::new()));
                }
            }
        }
        self.lines.extend(lines);
    }

    /// True for the attributes of a weak function of which another copy counts.
    fn is_of_lost_copy(&self, list: SectionIndex) -> bool {
        let object = self.object;
        let function = object.section(list).info_section().and_then(|c| object.code_function(c));
        let weak = |index| object.symbol(index).binding() == stb::WEAK;
        function.is_some_and(|index| self.symbols.fate(self.id, index) == Fate::Lost && weak(index))
    }

    /// Checks that the whole program allocates tensor memory in the same way; reports each place
    /// that does not.
    fn tensor_memory(&mut self, way: TensorMemory) {
        if *self.clashes.tensor_memory.get_or_insert(way) != way {
            let file = self.object.name.to_owned();
            self.lines.push((Message::TensorMemoryMismatch { file }, Vec::new()));
        }
    }

    fn symbol(&mut self, states: &mut NameStates<'d>, index: SymbolIndex, symbol: &Symbol<'d>) {
        if defined_role(self.object, symbol) == Some(SectionRole::ReservedShared)
            && let Some(way) = TensorMemory::of_variable(symbol.name)
        {
            self.tensor_memory(way);
        }
        let Some(id) = self.symbols.of(self.id, index) else { return };
        let state = &mut states[id];
        if self.reference_clashes(state.as_ref(), id, index, symbol) {
            return;
        }
        match state {
            None => *state = Some(self.first_sight(index, symbol)),
            Some(known) => {
                let site = SymbolSite { object: self.id, index };
                self.compare(id, known, site, symbol);
                self.note_bank(id, known, symbol);
                self.update(known, site, symbol);
            }
        }
    }

    /// Reports a clash of `symbol` with the state of its name if one of them is a texture, sampler
    /// or surface reference; true if there is one. A reference agrees with references of its kind
    /// only; a parameter of a kernel agrees with parameters only. nvlink overlooks a variable or
    /// function with the name of an earlier parameter, and loses it (docs/DIFFERENCES.md,
    /// parameter-names).
    fn reference_clashes(
        &mut self,
        state: Option<&NameState<'d>>,
        id: SymbolId,
        index: SymbolIndex,
        symbol: &Symbol<'d>,
    ) -> bool {
        let new = ReferenceSymbol::of(symbol);
        let (earlier, file) = match state {
            Some(known) => {
                let overlooked = known.reference.is_some_and(ReferenceSymbol::is_parameter);
                if known.reference == new || new.is_none() && !overlooked {
                    return false;
                }
                (known.site, known.file)
            }
            None if new.is_some_and(ReferenceSymbol::is_parameter) => {
                match self.earlier_local(id) {
                    Some(earlier) => (earlier, Some(earlier.object)),
                    None => return false,
                }
            }
            None => return false,
        };
        let site = SymbolSite { object: self.id, index };
        let lines = &mut self.clashes.source_lines;
        let notes =
            [earlier, site].map(|site| places::definition(self.objects, site, lines)).to_vec();
        let first = file.map_or("<input>".to_owned(), |file| self.objects.file(file));
        let symbol = self.name(id);
        let file = self.object.name.to_owned();
        self.lines.push((Message::MultipleDefinition { symbol, file, first }, notes));
        true
    }

    /// The name of a symbol for a message.
    fn name(&self, id: SymbolId) -> String {
        let SymbolSite { object, index } = self.symbols.all[id].first;
        text_of(self.objects[object].symbol(index).name)
    }

    /// The local function or variable of an earlier file with the name of a parameter. nvlink looks
    /// up parameters by name and finds these too (case errors-merge/parameter-references).
    fn earlier_local(&mut self, id: SymbolId) -> Option<SymbolSite> {
        let all = &self.symbols.all;
        let first = |info: &SymbolInfo| self.objects[info.first.object].symbol(info.first.index);
        // Each symbol is read once, so many parameters cost linear time.
        let LocalSymbols { by_name, seen } = &mut self.clashes.locals;
        for (other, info) in
            all.iter().skip(*seen).filter(|(_, i)| first(i).binding() == stb::LOCAL)
        {
            by_name.entry(info.name).or_default().push(other);
        }
        *seen = all.len();
        let mut same = by_name.get(&all[id].name)?.iter().copied();
        let found = same.find(|&other| other != id && all[other].first.object < self.id);
        found.map(|other| all[other].first)
    }

    fn strength(&self, symbol: &Symbol<'d>) -> DefinitionStrength {
        match symbol.section {
            _ if symbol.is_reference() => DefinitionStrength::Undefined,
            SymbolSection::Undefined | SymbolSection::Absolute => DefinitionStrength::Undefined,
            SymbolSection::Common => DefinitionStrength::Common,
            SymbolSection::In(_) if symbol.binding() == stb::WEAK => DefinitionStrength::Weak,
            SymbolSection::In(_) => DefinitionStrength::Strong,
        }
    }

    fn initialised(&self, symbol: &Symbol<'d>) -> bool {
        defined_role(self.object, symbol) == Some(SectionRole::GlobalInit)
    }

    /// True for a definition that overrides tentative ones. In later releases every definition
    /// does, but only one with an initialiser may differ in size.
    fn defines(&self, initialised: bool) -> bool {
        initialised || self.dialect.zeroed_is_definition
    }

    /// True for a definition without initialiser, if such a definition is not tentative.
    fn is_zeroed_definition(&self, symbol: &Symbol<'d>) -> bool {
        self.dialect.zeroed_is_definition
            && defined_role(self.object, symbol) == Some(SectionRole::Global)
    }

    fn first_sight(&self, index: SymbolIndex, symbol: &Symbol<'d>) -> NameState<'d> {
        NameState {
            strength: self.strength(symbol),
            initialised: self.initialised(symbol),
            function: symbol.is_function(),
            entry: symbol.is_entry(),
            space: space(symbol),
            managed: symbol.other & sto::MANAGED != 0,
            size: symbol.size,
            reference: ReferenceSymbol::of(symbol),
            file: (!symbol.is_reference()).then_some(self.id),
            site: SymbolSite { object: self.id, index },
            parameter_bank: self.parameter_bank(symbol).map_or(0, |(_, size)| size),
            prototype: None,
        }
    }

    /// Adds a message for everything in which `symbol` contradicts the state of the name.
    fn compare(
        &mut self,
        id: SymbolId,
        known: &NameState<'d>,
        site: SymbolSite,
        symbol: &Symbol<'d>,
    ) {
        if symbol.is_function() && symbol.is_entry() != known.entry {
            let symbol = self.name(id);
            self.note(Message::NotGlobalEverywhere { symbol }, known, site);
        }
        if space(symbol) != known.space {
            let ClashNames { symbol, file, first } = self.names(id, known);
            self.note(Message::SpaceMismatch { symbol, file, first }, known, site);
        }
        let managed_differs =
            !symbol.is_function() && (symbol.other & sto::MANAGED != 0) != known.managed;
        if managed_differs {
            let ClashNames { symbol, file, first } = self.names(id, known);
            self.note(Message::ManagedMismatch { symbol, file, first }, known, site);
        }
        self.compare_sizes(id, known, site, symbol, managed_differs);
        if self.both_define(known, site, symbol) {
            let ClashNames { symbol, file, first } = self.names(id, known);
            let mut notes = self.both(known, site);
            let same = &mut self.clashes.same_objects;
            notes.extend(places::same_bytes(self.objects, site, known.site, same));
            self.lines.push((Message::MultipleDefinition { symbol, file, first }, notes));
            if self.objects[site.object].symbol(site.index).is_function() {
                self.redefined.add(self.objects, known.site, site);
            }
        }
    }

    /// As [`FileCheck::compare`] for sizes; a tentative definition must not be larger than the real
    /// one.
    fn compare_sizes(
        &mut self,
        id: SymbolId,
        known: &NameState<'d>,
        site: SymbolSite,
        symbol: &Symbol<'d>,
        managed_differs: bool,
    ) {
        let (strength, initialised) = (self.strength(symbol), self.initialised(symbol));
        if known.strength == DefinitionStrength::Common
            && self.is_zeroed_definition(symbol)
            && known.size > symbol.size
            && space(symbol) == known.space
            && !managed_differs
        {
            // The message about the sizes follows (case errors-common/zeroed-smaller by 13.3 and
            // later).
            let ClashNames { symbol, first: file, .. } = self.names(id, known);
            self.note(Message::CommonTooLarge { symbol, file }, known, site);
        }
        if !symbol.is_function() && self.sizes_differ(known, site, symbol) {
            let ClashNames { symbol, file, first } = self.names(id, known);
            self.note(Message::SizeMismatch { symbol, file, first }, known, site);
        }
        if strength == DefinitionStrength::Common && known.initialised && symbol.size > known.size {
            let ClashNames { symbol, file, .. } = self.names(id, known);
            self.note(Message::CommonTooLarge { symbol, file }, known, site);
        }
        let too_small = initialised && known.size > symbol.size;
        if known.strength == DefinitionStrength::Common && too_small && !managed_differs {
            let ClashNames { symbol, first: file, .. } = self.names(id, known);
            self.note(Message::CommonTooLarge { symbol, file }, known, site);
        }
    }

    fn names(&self, id: SymbolId, known: &NameState<'d>) -> ClashNames {
        let first = known.file.map_or("<input>".to_owned(), |file| self.objects.file(file));
        ClashNames { symbol: self.name(id), file: self.object.name.to_owned(), first }
    }

    /// Adds a message with notes about both definitions.
    fn note(&mut self, message: Message, known: &NameState<'d>, site: SymbolSite) {
        let notes = self.both(known, site);
        self.lines.push((message, notes));
    }

    fn both(&mut self, known: &NameState<'d>, site: SymbolSite) -> Vec<Note> {
        let lines = &mut self.clashes.source_lines;
        [known.site, site].map(|site| places::definition(self.objects, site, lines)).to_vec()
    }

    /// True for an `extern` array that nvlink defined.
    fn defines_array(&self, site: SymbolSite) -> bool {
        self.objects[site.object].array_definitions.binary_search(&site.index).is_ok()
    }

    fn sizes_differ(&self, known: &NameState<'d>, site: SymbolSite, symbol: &Symbol<'d>) -> bool {
        if self.defines_array(site) {
            return known.size != symbol.size;
        }
        let strength = self.strength(symbol);
        let own_rule = match (strength, known.strength) {
            (DefinitionStrength::Common, DefinitionStrength::Common) => true,
            (DefinitionStrength::Common, _) => known.initialised,
            (_, DefinitionStrength::Common) => self.initialised(symbol),
            _ => false,
        };
        if own_rule {
            return false;
        }
        if unsized_shared(known, symbol) {
            return strength == DefinitionStrength::Common;
        }
        // A declaration may have no size.
        let open = |strength, size| strength == DefinitionStrength::Undefined && size == 0;
        let open = open(strength, symbol.size) || open(known.strength, known.size);
        symbol.size != known.size && !open
    }

    fn both_define(&self, known: &NameState<'d>, site: SymbolSite, symbol: &Symbol<'d>) -> bool {
        if self.defines_array(site) && symbol.binding() == stb::GLOBAL {
            // A declaration without size counts as a definition here (case
            // shared/dynamic-in-steps).
            let declared = known.size == 0 && known.space == sto::SPACE_SHARED;
            return known.strength == DefinitionStrength::Strong || declared;
        }
        let second = match self.strength(symbol) {
            DefinitionStrength::Strong => true,
            DefinitionStrength::Common => {
                !self.defines(known.initialised) && symbol.binding() != stb::WEAK
            }
            _ => false,
        };
        let first = match known.strength {
            DefinitionStrength::Strong => true,
            // Of strong definitions, only a function cannot replace a tentative one.
            DefinitionStrength::Common => symbol.is_function(),
            _ => unsized_shared(known, symbol),
        };
        second && first
    }

    fn update(&self, known: &mut NameState<'d>, site: SymbolSite, symbol: &Symbol<'d>) {
        let strength = self.strength(symbol);
        let initialised = self.initialised(symbol);
        let file = Some(self.id);
        match (known.strength, strength) {
            (
                DefinitionStrength::Undefined,
                DefinitionStrength::Weak | DefinitionStrength::Strong,
            ) => {
                known.size = symbol.size;
                if symbol.is_function() {
                    known.file = file;
                }
            }
            (DefinitionStrength::Undefined, DefinitionStrength::Common) => {
                (known.size, known.file) = (symbol.size, file);
            }
            (DefinitionStrength::Common, DefinitionStrength::Common) => {
                if symbol.size > known.size {
                    (known.size, known.file, known.site) = (symbol.size, file, site);
                }
                return;
            }
            // A weak definition does not replace a tentative one (cases common/*).
            (DefinitionStrength::Common, DefinitionStrength::Weak) => {
                if initialised {
                    known.file = file;
                }
                return;
            }
            (DefinitionStrength::Common, DefinitionStrength::Strong)
                if self.defines(initialised) =>
            {
                (known.size, known.file) = (symbol.size, file);
            }
            (DefinitionStrength::Common, DefinitionStrength::Strong) => {}
            (DefinitionStrength::Weak, DefinitionStrength::Common)
                if !self.defines(known.initialised) && symbol.binding() != stb::WEAK =>
            {
                (known.size, known.file) = (symbol.size, file);
            }
            (DefinitionStrength::Weak, DefinitionStrength::Strong) => {}
            _ => return,
        }
        known.strength = strength;
        known.site = site;
        known.initialised = initialised;
        known.entry |= symbol.is_entry();
        if let Some((_, size)) = self.parameter_bank(symbol) {
            known.parameter_bank = size;
        }
    }

    /// The section and size of the parameter bank of an entry defined in this file.
    fn parameter_bank(&self, symbol: &Symbol<'d>) -> Option<(SectionIndex, u64)> {
        // Parameter banks take no part in the link of a Mercury half.
        if !symbol.is_entry() || self.object.has_mercury() {
            return None;
        }
        let text = symbol.defined_in()?;
        let bank = self.object.parameter_bank(text)?;
        Some((bank, self.object.section(bank).size))
    }

    fn note_bank(&mut self, id: SymbolId, known: &NameState<'d>, symbol: &Symbol<'d>) {
        let both_weak = known.strength == DefinitionStrength::Weak
            && self.strength(symbol) == DefinitionStrength::Weak;
        if let Some((section, size)) = self.parameter_bank(symbol)
            && both_weak
            && known.entry
            && known.parameter_bank != size
        {
            self.clashes.bank_clashes.entry(section).or_default().push(id);
        }
    }

    /// Adds messages about the clashes of bank `section`, or about all remaining banks in section
    /// order.
    fn report_bank_clash(&mut self, section: Option<SectionIndex>) {
        if self.clashes.bank_clashes.is_empty() {
            return;
        }
        let clashes = match section {
            Some(bank) => self.clashes.bank_clashes.remove(&bank).unwrap_or_default(),
            None => {
                std::mem::take(&mut self.clashes.bank_clashes).into_values().flatten().collect()
            }
        };
        for id in clashes {
            let symbol = self.name(id);
            self.lines.push((Message::WeakParameterBank { symbol }, Vec::new()));
        }
    }

    /// Checks prototype records against earlier ones; a record about a taken address overwrites the
    /// state.
    fn prototypes(&mut self, states: &mut NameStates<'d>) {
        let id = self.id;
        let object = self.object;
        object.edges().for_each(|edge| {
            if let Edge::AddressTaken { function, prototype } = edge {
                let prototype = object.prototype(prototype);
                if let Some(known) = self.known_function(states, function) {
                    known.prototype = Some((prototype, id));
                }
            }
        });
        for (function, prototype) in object.prototypes() {
            let prototype = object.prototype(prototype);
            let Some(known) = self.known_function(states, function) else { continue };
            let (before, by) = *known.prototype.get_or_insert((prototype, id));
            let first = known.file;
            let symbol = self.object.symbol(function).name;
            // After the bar are the registers that a function of the driver preserves; files may
            // disagree about them.
            let same = |a: &[u8], b: &[u8]| {
                let head =
                    |text: &[u8]| text.split(|&byte| byte == b'|').next().map(<[u8]>::to_vec);
                is_driver_function(symbol, self.dialect) && head(a) == head(b)
            };
            if before != prototype && !same(before, prototype) {
                let file = self.object.name.to_owned();
                let says = |file: String, prototype: &[u8]| Note::Prototype {
                    file,
                    prototype: text_of(prototype),
                };
                let notes =
                    vec![says(self.objects.file(by), before), says(file.clone(), prototype)];
                let message = Message::PrototypeMismatch {
                    symbol: text_of(symbol),
                    file,
                    first: first.map_or("<input>".to_owned(), |file| self.objects.file(file)),
                };
                self.lines.push((message, notes));
            }
        }
    }

    fn known_function<'s>(
        &self,
        states: &'s mut NameStates<'d>,
        index: SymbolIndex,
    ) -> Option<&'s mut NameState<'d>> {
        let id = self.symbols.of(self.id, index)?;
        states[id].as_mut().filter(|known| known.function)
    }
}

/// The names in a message about a clash.
struct ClashNames {
    symbol: String,
    /// The present file.
    file: String,
    /// The file that the known state comes from.
    first: String,
}

/// True for a file with a `.nv.compat` that does not name an instruction set class.
fn lacks_isa_class(object: &InputObject<'_>) -> bool {
    let class = |records: &Vec<_>| records.iter().any(|r: &Record<'_>| r.code == ISA_CLASS);
    object.records.compat.as_ref().is_some_and(|records| !class(records))
}

/// Type and binding of a texture, sampler or surface reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ReferenceSymbol {
    kind: u8,
    binding: u8,
}

impl ReferenceSymbol {
    fn of(symbol: &Symbol<'_>) -> Option<Self> {
        let (kind, binding) = (symbol.kind(), symbol.binding());
        symbol.is_reference().then_some(ReferenceSymbol { kind, binding })
    }

    /// True for a parameter of a kernel.
    fn is_parameter(self) -> bool {
        self.binding == stb::LOCAL
    }
}

/// A shared array without size counts as a definition if the memory spaces differ.
fn unsized_shared(known: &NameState<'_>, symbol: &Symbol<'_>) -> bool {
    known.strength == DefinitionStrength::Undefined
        && known.space == sto::SPACE_SHARED
        && known.size == 0
        && space(symbol) != known.space
}
