//! Phase `symbols`: which definition of every name counts.
//!
//! In: [`InputObjects`]. Out: [`Symbols`]: one [`SymbolId`] per global name and per local symbol,
//! and the fate of every symbol of every file. [`crate::check::clash`] checks whether definitions
//! of a name agree.
//!
//! Files count in command order. A definition is *accepted* or *lost* when its file is merged. An
//! accepted definition may be replaced later: a weak one by a strong one, and a weak function by a
//! weak one that needs fewer registers (cases weak/*).

pub(crate) mod discarded;
pub(crate) mod shared_uses;

use culd_cubin::arch::Flavour;
use culd_cubin::elf::{stb, sto};
use culd_cubin::{Symbol, SymbolIndex, SymbolSection};
use hashbrown::HashSet;

use crate::base::id::{DenseId, IdVec, NameId, ObjectId, SymbolId};
use crate::base::names::Names;
use crate::objects::InputObjects;
use crate::objects::object::InputObject;
use crate::objects::roles::{SectionRole, is_internal, takes_part};
use crate::options::LinkOptions;

/// One symbol of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SymbolSite {
    pub(crate) object: ObjectId,
    pub(crate) index: SymbolIndex,
}

/// The fate of a symbol of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Not a definition, or a symbol that takes no part (section symbols).
    Reference,
    /// A tentative definition (SHN_COMMON).
    Common,
    /// The definition that counts.
    Chosen,
    /// Accepted when its file was merged, replaced by the definition of a later file.
    Replaced,
    /// Another definition counted when its file was merged.
    Lost,
    /// A strong definition without bytes that follows a tentative one. Its section is copied, but
    /// the symbol keeps its place among the tentative ones (cases common/*).
    Copied,
}

impl Fate {
    /// True if the definition was accepted when its file was merged.
    pub(crate) fn accepted(self) -> bool {
        matches!(self, Fate::Chosen | Fate::Replaced)
    }

    /// True when the definition's section is in the output.
    pub(crate) fn brings_section(self) -> bool {
        self.accepted() || self == Fate::Copied
    }
}

/// A symbol of the program.
#[derive(Debug, Clone)]
pub(crate) struct SymbolInfo {
    pub(crate) name: NameId,
    /// The symbol of this name that was seen first.
    pub(crate) first: SymbolSite,
    /// The definition that counts; `None` for undefined and common symbols.
    pub(crate) definition: Option<SymbolSite>,
    /// The file of the first definition.
    pub(crate) first_definition: Option<ObjectId>,
    /// A definition was accepted and then replaced. Also true if another file had a weak reference
    /// first, which nvlink takes for a definition (case constant/weak-reference-80).
    pub(crate) replaced: bool,
    /// The definition that counts is a kernel.
    pub(crate) is_kernel: bool,
}

/// All symbols of the program.
pub(crate) struct Symbols {
    pub(crate) all: IdVec<SymbolId, SymbolInfo>,
    /// Where the symbols of an object start in `ids` and `fates`.
    starts: IdVec<ObjectId, usize>,
    ids: Vec<Option<SymbolId>>,
    fates: Vec<Fate>,
    /// Weak definitions that lost to a weak definition.
    weak_losers: HashSet<SymbolSite>,
    /// The functions without name that releases before 13.0 create: one for each file that names a
    /// function before any file defines it, in front of the first such function. It counts as first
    /// seen where that function is.
    nameless: IdVec<ObjectId, Option<SymbolId>>,
}

impl Symbols {
    /// The program's symbol for a symbol of a file; `None` for section symbols and the like.
    pub(crate) fn of(&self, object: ObjectId, index: SymbolIndex) -> Option<SymbolId> {
        self.ids[self.place(object, index)]
    }

    /// The fate of a symbol of a file.
    pub(crate) fn fate(&self, object: ObjectId, index: SymbolIndex) -> Fate {
        self.fates[self.place(object, index)]
    }

    /// True if a definition of the file lost.
    pub(crate) fn any_lost(&self, id: ObjectId, object: &InputObject<'_>) -> bool {
        let fates = &self.fates[self.starts[id]..][..object.cubin.symbols.len()];
        fates.contains(&Fate::Lost)
    }

    /// The index of a file's symbol in `ids` and `fates`.
    fn place(&self, object: ObjectId, index: SymbolIndex) -> usize {
        self.starts[object] + index.0 as usize
    }

    /// Marks an accepted definition as replaced by a later one.
    fn replace(&mut self, site: SymbolSite) {
        let at = self.place(site.object, site.index);
        self.fates[at] = Fate::Replaced;
    }

    /// True for a weak definition that lost to a definition which was weak, too, at that time.
    pub(crate) fn lost_to_weak(&self, object: ObjectId, index: SymbolIndex) -> bool {
        self.weak_losers.contains(&SymbolSite { object, index })
    }

    /// Resolves the symbols of all files.
    pub(crate) fn resolve<'d>(
        objects: &InputObjects<'d>,
        options: &LinkOptions,
        names: &mut Names<'d>,
    ) -> Self {
        let mut resolver = SymbolResolver::new(objects, options);
        // About half of the symbols have a name that no other has, and most sections are called
        // after one of these. Without the room: +1.0 % instructions on many1000, +1.7 % on dead.
        let sections = objects.iter().map(|(_, object)| object.cubin.sections.len()).sum();
        names.reserve(resolver.symbols.ids.capacity() / 2, sections);
        for (id, object) in objects.iter() {
            resolver.object(id, object, names);
        }
        if options.dialect.has_nameless_function {
            resolver.nameless_functions(names);
        }
        resolver.symbols
    }

    /// All functions without name.
    pub(crate) fn nameless(&self) -> impl Iterator<Item = SymbolId> + '_ {
        self.nameless.values().copied().flatten()
    }

    /// The function without name of a file.
    pub(crate) fn nameless_of(&self, object: ObjectId) -> Option<SymbolId> {
        if self.nameless.len() == 0 { None } else { self.nameless[object] }
    }

    /// The function without name in front of `function`.
    pub(crate) fn nameless_before(&self, function: SymbolId) -> Option<SymbolId> {
        if self.nameless.len() == 0 {
            return None;
        }
        let first = self.all[function].first;
        self.nameless[first.object].filter(|&nameless| self.all[nameless].first == first)
    }
}

/// The number of registers that a definition needs, if it is known.
type RegisterCount = Option<u32>;

struct SymbolResolver<'o, 'd> {
    pub(crate) objects: &'o InputObjects<'d>,
    options: &'o LinkOptions,
    pub(crate) symbols: Symbols,
    /// The program symbol of each global name.
    global: IdVec<NameId, Option<SymbolId>>,
    /// Symbols with tentative definitions only, so far.
    tentative: HashSet<SymbolId>,
    /// Tentative symbols with a strong definition without bytes.
    copied: HashSet<SymbolId>,
}

impl<'o, 'd> SymbolResolver<'o, 'd> {
    fn new(objects: &'o InputObjects<'d>, options: &'o LinkOptions) -> Self {
        let total = objects.iter().map(|(_, object)| object.cubin.symbols.len()).sum();
        let mut symbols = Symbols {
            all: IdVec::new(),
            starts: IdVec::new(),
            ids: Vec::with_capacity(total),
            fates: Vec::with_capacity(total),
            weak_losers: HashSet::new(),
            nameless: IdVec::new(),
        };
        // Reserved memory that is not used costs nothing, and growing would copy the tables
        // (docs/PERFORMANCE.md, memory). Without the room: +0.7 % instructions on many1000, +1.9 %
        // on dead.
        symbols.all.reserve(total);
        let tentative = HashSet::new();
        let copied = HashSet::new();
        SymbolResolver { objects, options, symbols, global: IdVec::new(), tentative, copied }
    }

    fn object(&mut self, id: ObjectId, object: &InputObject<'d>, names: &mut Names<'d>) {
        self.symbols.starts.push(self.symbols.ids.len());
        let mut literals = 0;
        let start = self.symbols.ids.len();
        let end = start + object.cubin.symbols.len();
        self.symbols.ids.resize(end, None);
        self.symbols.fates.resize(end, Fate::Reference);
        for (index, symbol) in object.cubin.symbol_indices().skip(1) {
            if !takes_part(symbol) {
                continue;
            }
            let site = SymbolSite { object: id, index };
            let literal = self.literal(object, symbol);
            literals += u32::from(literal.is_some());
            let name = match literal {
                Some(section) => names.join(&[section, b".", literals.to_string().as_bytes()]),
                None => names.intern(symbol.name),
            };
            let symbol_id = self.intern(site, symbol, name);
            let fate = self.define(symbol_id, site, symbol);
            let at = start + index.0 as usize;
            self.symbols.ids[at] = Some(symbol_id);
            self.symbols.fates[at] = fate;
        }
    }

    /// Adds the functions without name.
    fn nameless_functions(&mut self, names: &mut Names<'d>) {
        let name = names.intern(b"");
        for (object, file) in self.objects.iter() {
            let functions = file.outline.functions.iter().map(|function| function.index);
            let mut undefined = functions.filter(|&index| {
                let symbol = file.symbol(index);
                symbol.defined_in().is_none() && !symbol.is_entry()
            });
            let site = |index| SymbolSite { object, index };
            let first = undefined.find(|&index| {
                let function = self.symbols.of(object, index);
                function.is_some_and(|function| self.symbols.all[function].first == site(index))
            });
            let nameless = first.map(|index| SymbolInfo {
                name,
                first: site(index),
                definition: None,
                first_definition: None,
                replaced: false,
                is_kernel: false,
            });
            let nameless = nameless.map(|nameless| self.symbols.all.push(nameless));
            self.symbols.nameless.push(nameless);
        }
    }

    /// The section of a literal, on targets with Mercury: nvlink renames the literal to the
    /// section's name and the literal's number in the file, except in 13.5
    /// (case literals/jump-tables with -r).
    fn literal(&self, object: &InputObject<'d>, symbol: &Symbol<'d>) -> Option<&'d [u8]> {
        let mercury = self.options.target.flavour == Flavour::Mercury;
        let renames = mercury && self.options.dialect.renames_literals;
        let section = symbol.defined_in().filter(|_| renames && is_internal(symbol))?;
        let literal = object.role(section) == SectionRole::Constant(2);
        literal.then(|| object.section(section).name)
    }

    fn intern(&mut self, site: SymbolSite, symbol: &Symbol<'d>, name: NameId) -> SymbolId {
        // Kernel parameters that are references are resolved by name, too
        // (textures/parameters-of-one-name).
        let local = symbol.binding() == stb::LOCAL && !symbol.is_reference();
        let new = SymbolInfo {
            name,
            first: site,
            definition: None,
            first_definition: None,
            replaced: false,
            is_kernel: false,
        };
        if local {
            return self.symbols.all.push(new);
        }
        if self.global.len() <= name.index() {
            self.global.resize(name.index() + 1, None);
        }
        *self.global[name].get_or_insert_with(|| self.symbols.all.push(new))
    }

    /// Lets a definition compete with the one that counts so far.
    fn define(&mut self, id: SymbolId, site: SymbolSite, symbol: &Symbol<'d>) -> Fate {
        if symbol.is_reference() {
            return Fate::Reference;
        }
        match symbol.section {
            SymbolSection::Undefined | SymbolSection::Absolute => return Fate::Reference,
            SymbolSection::Common => {
                self.tentative_definition(id, symbol);
                return Fate::Common;
            }
            SymbolSection::In(section) if self.tentative.contains(&id) => {
                let role = self.objects[site.object].role(section);
                let zeroed =
                    role == SectionRole::Global && !self.options.dialect.zeroed_is_definition;
                let strong = symbol.binding() == stb::GLOBAL;
                if !strong && (zeroed || self.copied.contains(&id)) {
                    return Fate::Lost;
                }
                if zeroed {
                    self.copied.insert(id);
                    return Fate::Copied;
                }
                self.tentative.remove(&id);
            }
            SymbolSection::In(_) => {}
        }
        let current = self.symbols.all[id].definition;
        if let Some(current) = current {
            if !self.replaces(id, current, site) {
                let winner = self.objects[current.object].symbol(current.index);
                if winner.binding() == stb::WEAK {
                    self.symbols.weak_losers.insert(site);
                }
                return Fate::Lost;
            }
            self.symbols.replace(current);
            self.symbols.all[id].replaced = true;
        }
        let info = &mut self.symbols.all[id];
        let first = info.first;
        if info.definition.is_none() && first.object != site.object {
            info.replaced |= self.objects[first.object].symbol(first.index).binding() == stb::WEAK;
        }
        info.definition = Some(site);
        info.is_kernel = symbol.is_entry();
        info.first_definition.get_or_insert(site.object);
        Fate::Chosen
    }

    /// A tentative definition replaces only a weak definition without bytes, and a weak tentative
    /// one replaces nothing.
    fn tentative_definition(&mut self, id: SymbolId, common: &Symbol<'_>) {
        let Some(current) = self.symbols.all[id].definition else {
            self.tentative.insert(id);
            return;
        };
        let object = &self.objects[current.object];
        let symbol = object.symbol(current.index);
        let no_bytes = defined_role(object, symbol) == Some(SectionRole::Global)
            && !self.options.dialect.zeroed_is_definition;
        if symbol.binding() == stb::WEAK && no_bytes && common.binding() != stb::WEAK {
            self.symbols.replace(current);
            let info = &mut self.symbols.all[id];
            (info.definition, info.is_kernel) = (None, false);
            self.tentative.insert(id);
        }
    }

    fn replaces(&self, id: SymbolId, current: SymbolSite, new: SymbolSite) -> bool {
        let symbol = |site: SymbolSite| self.objects[site.object].symbol(site.index);
        let (old, candidate) = (symbol(current), symbol(new));
        if old.binding() != stb::WEAK {
            return false;
        }
        if candidate.binding() == stb::GLOBAL {
            return true;
        }
        if !candidate.is_function() {
            return false;
        }
        // Fewer registers win. If they are equal, a later virtual architecture wins than that of
        // the file which defined the function first (cases weak/fewest-registers,
        // weak/latest-target).
        let (old, new_count) = (self.registers(current), self.registers(new));
        let made_for = |object: ObjectId| self.objects[object].cuinfo.virtual_sm;
        let first = self.symbols.all[id].first_definition.unwrap_or(current.object);
        new_count < old || (new_count == old && made_for(new.object) > made_for(first))
    }

    /// Register count of a function: on sm_75..89 that in `sh_info` of its code, if it has one;
    /// else REGCOUNT (`tests/invalid_values.rs`).
    fn registers(&self, site: SymbolSite) -> RegisterCount {
        let object = &self.objects[site.object];
        let only_in_code = self.options.dialect.counts_registers_of_code;
        if self.options.target.registers_in_text_info || only_in_code {
            let text = object.section(object.symbol(site.index).defined_in()?);
            let count = text.registers_of_code();
            if count != 0 || only_in_code {
                return Some(count.into());
            }
        }
        object.register_count(site.index)
    }
}

/// The role of the section that a symbol is defined in.
pub(crate) fn defined_role(object: &InputObject<'_>, symbol: &Symbol<'_>) -> Option<SectionRole> {
    symbol.defined_in().map(|section| object.role(section))
}

/// The memory space bits of a symbol.
pub(crate) fn space(symbol: &Symbol<'_>) -> u8 {
    symbol.other & sto::SPACE
}
