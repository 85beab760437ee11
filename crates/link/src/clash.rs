//! Beside phase `merge`, its errors: do all files mean the same thing by a name? What is merged meanwhile comes to nothing
//! where they do not.
//!
//! The state kept per name, the checks and the order of the lines are those of nvlink
//! (docs/rules/diagnostics.md, section 1).

mod tensor;

use culd_cubin::attr::Record;
use culd_cubin::callgraph::Edge;
use culd_cubin::compat::code::ISA_CLASS;
use culd_cubin::elf::{stb, sto, stt};
use culd_cubin::{SectionIndex, Symbol, SymbolIndex, SymbolSection};
use hashbrown::HashMap;
use std::collections::BTreeMap;

pub(crate) use self::tensor::TensorMemory;
use crate::diag::{Diagnostics, Failed, Message, Note};
use crate::explain::{self, SameObjects};
use crate::id::{IdVec, NameId, ObjectId, SymbolId};
use crate::objects::{Object, Objects, Role};
use crate::symbols::{Fate, Site, SymbolInfo, Symbols, defined_role, space};
use crate::system_names::is_system_call;
use crate::{Dialect, LinkOptions};

/// How firmly a name is defined so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Undefined,
    Common,
    Weak,
    Strong,
}

/// What is remembered about a global name.
#[derive(Debug, Clone)]
struct Known<'d> {
    standing: Standing,
    /// The definition is in `.nv.global.init`.
    initialised: bool,
    function: bool,
    entry: bool,
    space: u8,
    managed: bool,
    size: u64,
    /// Type and binding of a texture, sampler or surface reference.
    reference: Option<(u8, u8)>,
    /// The file that messages name; references have none.
    file: Option<ObjectId>,
    /// The symbol that says how large it is, or that defines it.
    site: Site,
    /// Size of `.nv.constant0.<entry>`, for weak entries.
    parameter_bank: u64,
    prototype: Option<(&'d [u8], ObjectId)>,
}

/// The state of all names, file by file.
struct Clashes<'d> {
    known: IdVec<SymbolId, Option<Known<'d>>>,
    /// Weak entries of the present file whose parameter bank differs from that of another file, by bank.
    bank_clashes: BTreeMap<SectionIndex, Vec<SymbolId>>,
    /// For notes about two definitions.
    same_objects: SameObjects,
    locals: Locals,
    /// The way that was seen first.
    tensor_memory: Option<TensorMemory>,
}

/// Local functions and variables by name, as far as a parameter of a kernel asked for them.
#[derive(Default)]
struct Locals {
    by_name: HashMap<NameId, Vec<SymbolId>>,
    /// As many symbols of the program were looked at.
    seen: usize,
}

/// One file being checked.
struct Check<'a, 'd> {
    clashes: &'a mut Clashes<'d>,
    dialect: &'a Dialect,
    symbols: &'a Symbols,
    objects: &'a Objects<'d>,
    object: &'a Object<'d>,
    id: ObjectId,
    lines: Vec<(Message, Vec<Note>)>,
}

/// Checks one file after the other; `Err` at the end of the first that clashes.
pub(crate) fn check(
    objects: &Objects<'_>,
    symbols: &Symbols,
    options: &LinkOptions,
    diags: &mut Diagnostics,
) -> Result<(), Failed> {
    let known = IdVec::filled(None, symbols.all.len());
    let mut clashes = Clashes {
        known,
        bank_clashes: BTreeMap::new(),
        same_objects: SameObjects::default(),
        locals: Locals::default(),
        tensor_memory: None,
    };
    objects.iter().try_for_each(|(id, _)| clashes.check(symbols, objects, id, options, diags))
}

impl<'d> Clashes<'d> {
    /// Checks file `id` against all before it.
    fn check(
        &mut self,
        symbols: &Symbols,
        objects: &Objects<'d>,
        id: ObjectId,
        options: &LinkOptions,
        diags: &mut Diagnostics,
    ) -> Result<(), Failed> {
        let object = &objects[id];
        let lines = Vec::new();
        let mut check =
            Check { clashes: self, dialect: options.dialect, symbols, objects, object, id, lines };
        check.symbols();
        check.fragments();
        let mut failed = check.tell(diags);
        if options.target.has_compat && !options.disable_infos && lacks_isa_class(object) {
            // nvlink says 90 for sm_90a too.
            let file = object.name.to_owned();
            failed |= diags.warning(Message::MissingIsaClass { file, sm: 90 });
        }
        check.prototypes();
        failed |= check.tell(diags);
        if failed { Err(diags.fatal(Message::MergeFailed)) } else { Ok(()) }
    }
}

impl<'d> Check<'_, 'd> {
    /// Tells the lines so far; returns whether there were any.
    fn tell(&mut self, diags: &mut Diagnostics) -> bool {
        let lines = std::mem::take(&mut self.lines);
        let any = !lines.is_empty();
        lines.into_iter().for_each(|(line, notes)| diags.error(line, notes));
        any
    }

    /// Functions, then variables, then banks no variable named.
    fn symbols(&mut self) {
        self.clashes.bank_clashes.clear();
        for (index, symbol) in self.object.cubin.symbol_indices() {
            if symbol.is_function() && symbol.binding() != stb::LOCAL {
                self.symbol(index, symbol);
            }
        }
        for (index, symbol) in self.object.cubin.symbol_indices() {
            if matches!(symbol.kind(), stt::FUNC | stt::SECTION | stt::NOTYPE) {
                continue;
            }
            if let Some(section) = symbol.defined_in() {
                self.report_bank_clash(Some(section));
            }
            if symbol.binding() != stb::LOCAL || symbol.is_reference() {
                self.symbol(index, symbol);
            }
        }
        self.report_bank_clash(None);
    }

    /// The attributes of functions that are accepted, dead ones too, and of strong ones that clash.
    fn fragments(&mut self) {
        let object = self.object;
        for &(list, way) in &object.records.tensor_memory {
            let function =
                object.section(list).info_section().and_then(|c| object.code_function(c));
            let weak = |index| object.symbol(index).binding() == stb::WEAK;
            let lost = |index| self.symbols.fate(self.id, index) == Fate::Lost && weak(index);
            if !function.is_some_and(lost) {
                self.tensor_memory(way);
            }
        }
    }

    /// All of a program have to give tensor memory out in the same way; each place that does not is told.
    fn tensor_memory(&mut self, way: TensorMemory) {
        if *self.clashes.tensor_memory.get_or_insert(way) != way {
            let file = self.object.name.to_owned();
            self.lines.push((Message::TensorMemoryMismatch { file }, Vec::new()));
        }
    }

    fn symbol(&mut self, index: SymbolIndex, symbol: &Symbol<'d>) {
        if defined_role(self.object, symbol) == Some(Role::ReservedShared)
            && let Some(way) = TensorMemory::of_variable(symbol.name)
        {
            self.tensor_memory(way);
        }
        let Some(id) = self.symbols.of(self.id, index) else { return };
        if self.reference_clashes(id, index, symbol) {
            return;
        }
        match self.clashes.known[id].take() {
            None => self.clashes.known[id] = Some(self.first_sight(index, symbol)),
            Some(mut known) => {
                let site = Site { object: self.id, index };
                self.compare(id, &known, site, symbol);
                self.note_bank(id, &known, symbol);
                self.update(&mut known, site, symbol);
                self.clashes.known[id] = Some(known);
            }
        }
    }

    /// A reference meets only those of its kind; a parameter of a kernel only parameters. nvlink overlooks a
    /// variable or function with the name of an earlier parameter, and loses it (DIFFERENCES.md, parameter-names).
    fn reference_clashes(&mut self, id: SymbolId, index: SymbolIndex, symbol: &Symbol<'d>) -> bool {
        let new = reference(symbol);
        let (earlier, file) = match &self.clashes.known[id] {
            Some(known) => {
                let overlooked = known.reference.is_some_and(is_parameter);
                if known.reference == new || new.is_none() && !overlooked {
                    return false;
                }
                (known.site, known.file)
            }
            None if new.is_some_and(is_parameter) => match self.earlier_local(id) {
                Some(earlier) => (earlier, Some(earlier.object)),
                None => return false,
            },
            None => return false,
        };
        let site = Site { object: self.id, index };
        let notes = [earlier, site].map(|site| explain::definition(self.objects, site)).to_vec();
        let first = file.map_or("<input>".to_owned(), |file| self.objects.file(file));
        let symbol = self.name(id);
        let file = self.object.name.to_owned();
        self.lines.push((Message::MultipleDefinition { symbol, file, first }, notes));
        true
    }

    /// The name of a symbol for a message.
    fn name(&self, id: SymbolId) -> String {
        let Site { object, index } = self.symbols.all[id].first;
        String::from_utf8_lossy(self.objects[object].symbol(index).name).into_owned()
    }

    /// A local function or variable of an earlier file with the name of a parameter. nvlink looks parameters up by
    /// name and then finds those, too (case errors-merge/parameter-references).
    fn earlier_local(&mut self, id: SymbolId) -> Option<Site> {
        let all = &self.symbols.all;
        let first = |info: &SymbolInfo| self.objects[info.first.object].symbol(info.first.index);
        // No symbol is looked at twice, however many parameters there are.
        let Locals { by_name, seen } = &mut self.clashes.locals;
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

    fn standing(&self, symbol: &Symbol<'d>) -> Standing {
        match symbol.section {
            _ if symbol.is_reference() => Standing::Undefined,
            SymbolSection::Undefined | SymbolSection::Absolute => Standing::Undefined,
            SymbolSection::Common => Standing::Common,
            SymbolSection::In(_) if symbol.binding() == stb::WEAK => Standing::Weak,
            SymbolSection::In(_) => Standing::Strong,
        }
    }

    fn initialised(&self, symbol: &Symbol<'d>) -> bool {
        defined_role(self.object, symbol) == Some(Role::GlobalInit)
    }

    /// True for a definition beside which a tentative one does not count: in later releases each is one, but only
    /// those with an initialiser may differ in size.
    fn defines(&self, initialised: bool) -> bool {
        initialised || self.dialect.zeroed_is_definition
    }

    fn first_sight(&self, index: SymbolIndex, symbol: &Symbol<'d>) -> Known<'d> {
        Known {
            standing: self.standing(symbol),
            initialised: self.initialised(symbol),
            function: symbol.is_function(),
            entry: symbol.is_entry(),
            space: space(symbol),
            managed: symbol.other & sto::MANAGED != 0,
            size: symbol.size,
            reference: reference(symbol),
            file: (!symbol.is_reference()).then_some(self.id),
            site: Site { object: self.id, index },
            parameter_bank: self.parameter_bank(symbol).map_or(0, |(_, size)| size),
            prototype: None,
        }
    }

    /// Prints a line for everything in which `symbol` contradicts what is known.
    fn compare(&mut self, id: SymbolId, known: &Known<'d>, site: Site, symbol: &Symbol<'d>) {
        if symbol.is_function() && symbol.is_entry() != known.entry {
            let symbol = self.name(id);
            self.note(Message::NotGlobalEverywhere { symbol }, known, site);
        }
        if space(symbol) != known.space {
            let (symbol, file, first) = self.place(id, known);
            self.note(Message::SpaceMismatch { symbol, file, first }, known, site);
        }
        let managed_differs =
            !symbol.is_function() && (symbol.other & sto::MANAGED != 0) != known.managed;
        if managed_differs {
            let (symbol, file, first) = self.place(id, known);
            self.note(Message::ManagedMismatch { symbol, file, first }, known, site);
        }
        if !symbol.is_function() && self.sizes_differ(known, symbol) {
            let (symbol, file, first) = self.place(id, known);
            self.note(Message::SizeMismatch { symbol, file, first }, known, site);
        }
        let (standing, initialised) = (self.standing(symbol), self.initialised(symbol));
        if standing == Standing::Common && known.initialised && symbol.size > known.size {
            let (symbol, file, _) = self.place(id, known);
            self.note(Message::CommonTooLarge { symbol, file }, known, site);
        }
        let too_small = initialised && known.size > symbol.size;
        if known.standing == Standing::Common && too_small && !managed_differs {
            let (symbol, _, file) = self.place(id, known);
            self.note(Message::CommonTooLarge { symbol, file }, known, site);
        }
        if self.both_define(known, symbol) {
            let (symbol, file, first) = self.place(id, known);
            let mut notes = self.both(known, site);
            let same = &mut self.clashes.same_objects;
            notes.extend(explain::same_bytes(self.objects, site, known.site, same));
            self.lines.push((Message::MultipleDefinition { symbol, file, first }, notes));
        }
    }

    /// The name, the file that is read, and the one that what is known comes from.
    fn place(&self, id: SymbolId, known: &Known<'d>) -> (String, String, String) {
        let first = known.file.map_or("<input>".to_owned(), |file| self.objects.file(file));
        (self.name(id), self.object.name.to_owned(), first)
    }

    /// A line, with the two definitions it is about.
    fn note(&mut self, message: Message, known: &Known<'d>, site: Site) {
        self.lines.push((message, self.both(known, site)));
    }

    fn both(&self, known: &Known<'d>, site: Site) -> Vec<Note> {
        [known.site, site].map(|site| explain::definition(self.objects, site)).to_vec()
    }

    fn sizes_differ(&self, known: &Known<'d>, symbol: &Symbol<'d>) -> bool {
        let standing = self.standing(symbol);
        let own_rule = match (standing, known.standing) {
            (Standing::Common, Standing::Common) => true,
            (Standing::Common, _) => known.initialised,
            (_, Standing::Common) => self.initialised(symbol),
            _ => false,
        };
        if own_rule {
            return false;
        }
        if unsized_shared(known, symbol) {
            return standing == Standing::Common;
        }
        // A declaration may leave the size open.
        let open = |standing, size| standing == Standing::Undefined && size == 0;
        let open = open(standing, symbol.size) || open(known.standing, known.size);
        symbol.size != known.size && !open
    }

    fn both_define(&self, known: &Known<'d>, symbol: &Symbol<'d>) -> bool {
        let second = match self.standing(symbol) {
            Standing::Strong => true,
            Standing::Common => !self.defines(known.initialised) && symbol.binding() != stb::WEAK,
            _ => false,
        };
        let first = match known.standing {
            Standing::Strong => true,
            // Only a function cannot take the place of a tentative definition.
            Standing::Common => symbol.is_function(),
            _ => unsized_shared(known, symbol),
        };
        second && first
    }

    fn update(&self, known: &mut Known<'d>, site: Site, symbol: &Symbol<'d>) {
        let standing = self.standing(symbol);
        let initialised = self.initialised(symbol);
        let file = Some(self.id);
        match (known.standing, standing) {
            (Standing::Undefined, Standing::Weak | Standing::Strong) => {
                known.size = symbol.size;
                if symbol.is_function() {
                    known.file = file;
                }
            }
            (Standing::Undefined, Standing::Common) => {
                (known.size, known.file) = (symbol.size, file);
            }
            (Standing::Common, Standing::Common) => {
                if symbol.size > known.size {
                    (known.size, known.file, known.site) = (symbol.size, file, site);
                }
                return;
            }
            // A weak definition leaves the name tentative (cases common/*).
            (Standing::Common, Standing::Weak) => {
                if initialised {
                    known.file = file;
                }
                return;
            }
            (Standing::Common, Standing::Strong) if self.defines(initialised) => {
                (known.size, known.file) = (symbol.size, file);
            }
            (Standing::Common, Standing::Strong) => {}
            (Standing::Weak, Standing::Common)
                if !self.defines(known.initialised) && symbol.binding() != stb::WEAK =>
            {
                (known.size, known.file) = (symbol.size, file);
            }
            (Standing::Weak, Standing::Strong) => {}
            _ => return,
        }
        known.standing = standing;
        known.site = site;
        known.initialised = initialised;
        known.entry |= symbol.is_entry();
        if let Some((_, size)) = self.parameter_bank(symbol) {
            known.parameter_bank = size;
        }
    }

    /// The section and size of the parameter bank of an entry defined in this file.
    fn parameter_bank(&self, symbol: &Symbol<'d>) -> Option<(SectionIndex, u64)> {
        // Parameters take no part in a link with Mercury.
        if !symbol.is_entry() || self.object.has_twins() {
            return None;
        }
        let text = symbol.defined_in()?;
        let bank = self.object.parameter_bank(text)?;
        Some((bank, self.object.section(bank).size))
    }

    fn note_bank(&mut self, id: SymbolId, known: &Known<'d>, symbol: &Symbol<'d>) {
        let both_weak = known.standing == Standing::Weak && self.standing(symbol) == Standing::Weak;
        if let Some((section, size)) = self.parameter_bank(symbol)
            && both_weak
            && known.entry
            && known.parameter_bank != size
        {
            self.clashes.bank_clashes.entry(section).or_default().push(id);
        }
    }

    /// Reports the clash of the bank `section`, or of all banks left in section order.
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

    /// A prototype record must agree with what is remembered; an address-taken record overwrites.
    fn prototypes(&mut self) {
        let id = self.id;
        let object = self.object;
        object.edges().for_each(|edge| {
            if let Edge::AddressTaken { function, prototype } = edge {
                let prototype = object.prototype(prototype);
                if let Some(known) = self.known_function(function) {
                    known.prototype = Some((prototype, id));
                }
            }
        });
        for (function, prototype) in object.prototypes() {
            let prototype = object.prototype(prototype);
            let Some(known) = self.known_function(function) else { continue };
            let (before, by) = *known.prototype.get_or_insert((prototype, id));
            let first = known.file;
            let symbol = self.object.symbol(function).name;
            // What follows a bar tells which registers a system call keeps: files may disagree.
            let same = |a: &[u8], b: &[u8]| {
                let head =
                    |text: &[u8]| text.split(|&byte| byte == b'|').next().map(<[u8]>::to_vec);
                is_system_call(symbol) && head(a) == head(b)
            };
            if before != prototype && !same(before, prototype) {
                let file = self.object.name.to_owned();
                let says = |file: String, prototype: &[u8]| Note::Prototype {
                    file,
                    prototype: String::from_utf8_lossy(prototype).into_owned(),
                };
                let notes =
                    vec![says(self.objects.file(by), before), says(file.clone(), prototype)];
                let message = Message::PrototypeMismatch {
                    symbol: String::from_utf8_lossy(symbol).into_owned(),
                    file,
                    first: first.map_or("<input>".to_owned(), |file| self.objects.file(file)),
                };
                self.lines.push((message, notes));
            }
        }
    }

    fn known_function(&mut self, index: SymbolIndex) -> Option<&mut Known<'d>> {
        let id = self.symbols.of(self.id, index)?;
        self.clashes.known[id].as_mut().filter(|known| known.function)
    }
}

/// True for a file whose `.nv.compat` does not say which instruction set it needs.
fn lacks_isa_class(object: &Object<'_>) -> bool {
    let class = |records: &Vec<_>| records.iter().any(|r: &Record<'_>| r.code == ISA_CLASS);
    object.records.compat.as_ref().is_some_and(|records| !class(records))
}

/// Type and binding of a texture, sampler or surface reference.
fn reference(symbol: &Symbol<'_>) -> Option<(u8, u8)> {
    symbol.is_reference().then(|| (symbol.kind(), symbol.binding()))
}

/// True for a reference that is a parameter of a kernel.
fn is_parameter((_, binding): (u8, u8)) -> bool {
    binding == stb::LOCAL
}

/// A shared array without size counts as a definition where the spaces differ.
fn unsized_shared(known: &Known<'_>, symbol: &Symbol<'_>) -> bool {
    known.standing == Standing::Undefined
        && known.space == sto::SPACE_SHARED
        && known.size == 0
        && space(symbol) != known.space
}
