//! Phase 1: every input parsed and checked.
//!
//! In: the inputs' bytes. Out: [`Objects`]: tables of sections, symbols, attribute records and
//! call-graph records in which every index is valid. Guaranteed: later phases meet no malformed
//! record, so they cannot fail on one.

mod checks;

use std::ops::Range;

use culd_cubin::arch::Flavour;
use culd_cubin::attr::{self, Record, Records, Shape};
use culd_cubin::callgraph::{self, Edge};
use culd_cubin::compat;
use culd_cubin::elf::{self, shf, sht, sto, stt};
use culd_cubin::note::CuInfo;
use culd_cubin::{Cubin, Malformed, Section, SectionIndex, Symbol, SymbolIndex};

use hashbrown::HashSet;

use crate::capsule::twins::{self, Twins};
use crate::diag::{Diagnostics, Failed, Message, Note};
use crate::id::{IdVec, ObjectId};
use crate::unified::{self, Entries, SLOT_PREFIX, STUB_PREFIX};
use crate::{Input, LinkOptions, Session};

/// What a section of an input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Headers, string and symbol tables, notes: made anew or read elsewhere.
    Table,
    Text,
    /// A constant bank, with its number.
    Constant(u8),
    Global,
    GlobalInit,
    /// `.nv.shared.<entry>`.
    OwnShared,
    /// `.nv_debug.shared`.
    PoolShared,
    /// `.nv.shared.reserved.0`: shared memory that the system has taken (sm_110).
    ReservedShared,
    Debug,
    /// `.nv.constant0.<entry>` of an object with Mercury, where parameters take no part in the link.
    Parameters,
    /// `.nv.info`.
    FileInfo,
    /// `.nv.info.<function>`.
    FunctionInfo,
    CallGraph,
    Prototype,
    Reloc,
    /// `.nv.uft.rel.<function>`: the jump slot of a unified function.
    JumpSlot,
    /// `.nv.udt`: unified variables.
    UnifiedData,
    /// `.nv.uft.entry`.
    FunctionIds,
    /// `.nv.udt.entry`.
    VariableIds,
    /// `.nv.uidx`, in objects that were linked with an index file.
    Index,
    /// The half of a pair that is not shown, see [`crate::capsule::twins`].
    Twin,
    /// The same of `.nv.info.<function>`.
    TwinInfo,
}

/// One input file.
pub(crate) struct Object<'d> {
    pub(crate) name: &'d str,
    pub(crate) cubin: Cubin<'d>,
    /// Role by section index.
    pub(crate) roles: Vec<Role>,
    /// Pairs of sections; none in an object without Mercury.
    pub(crate) twins: Twins,
    /// The records of all attribute sections.
    records: Vec<Record<'d>>,
    /// Which records belong to which attribute section, in section order.
    infos: Vec<(SectionIndex, Range<usize>)>,
    /// Call-graph records in file order.
    pub(crate) edges: Vec<Edge>,
    /// Prototype records in file order.
    pub(crate) prototypes: Vec<(SymbolIndex, u32)>,
    /// Attributes of `.nv.compat`, if the file has one.
    pub(crate) compat: Option<Vec<Record<'d>>>,
    /// (function, registers) of all REGCOUNT records, sorted by function.
    register_counts: Vec<(SymbolIndex, u32)>,
    /// (code, bank) of all parameter banks (`.nv.constant0.<entry>`), sorted by code section.
    parameter_banks: Vec<(SectionIndex, SectionIndex)>,
    /// Ids of unified functions and variables.
    pub(crate) unified: Vec<Entries>,
    /// Bytes of all strings that call-graph and prototype records name.
    prototype_bytes: usize,
    /// Functions that relocations of descriptors name: their address is taken.
    pub(crate) described: Vec<(SectionIndex, SymbolIndex)>,
    /// By section: true for sections that relocations patch.
    patched: Vec<bool>,
    /// (code, function) of all code sections that are named after a function, sorted by section.
    code_functions: Vec<(SectionIndex, SymbolIndex)>,
    /// All functions in the order in which they are created: that of symbols, but code before its
    /// aliases (case alias/other-file in steps).
    pub(crate) functions: Vec<SymbolIndex>,
    /// (bank, start, end) of what internal symbols name, sorted: literals.
    literals: Vec<(SectionIndex, u64, u64)>,
    pub(crate) cuinfo: CuInfo,
    /// All tool records.
    pub(crate) tkinfo: &'d [u8],
}

impl<'d> Object<'d> {
    pub(crate) fn symbol(&self, index: SymbolIndex) -> &Symbol<'d> {
        &self.cubin.symbols[index.0 as usize]
    }

    /// The same symbol in Mercury's table.
    pub(crate) fn mercury_symbol(&self, index: SymbolIndex) -> Option<&Symbol<'d>> {
        self.cubin.mercury_symbols.get(index.0 as usize)
    }

    pub(crate) fn section(&self, index: SectionIndex) -> &Section<'d> {
        &self.cubin.sections[index.0 as usize]
    }

    /// The bytes of a section's twin; none where there is no other half.
    pub(crate) fn twin_data(&self, index: SectionIndex) -> &'d [u8] {
        self.twins.of(index).map_or(&[][..], |twin| self.section(twin).data)
    }

    /// True for an object of an `a` variant, as far as it tells.
    fn is_accelerated(&self) -> bool {
        let records = self.compat.as_deref().unwrap_or_default();
        let record = records.iter().find(|record| record.code == compat::code::ACCELERATED);
        record.is_some_and(|record| record.value == 1)
    }

    /// What the object says of the devices that its machine code is good for.
    pub(crate) fn fast_targets(&self) -> Option<u64> {
        let records = self.compat.as_deref().unwrap_or_default();
        let record = records.iter().find(|record| record.code == compat::code::FINALIZER)?;
        record.payload.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// False where nvlink would make the code anew for SM number `target`: for another one of the family that it
    /// does not suit as it is.
    fn suits(&self, target: u32) -> bool {
        let needed = match (self.cubin.header.sm(), target) {
            (100, 103) => compat::SUITS_103,
            (120, 121) => compat::SUITS_121,
            _ => return true,
        };
        !self.has_code() || self.fast_targets().is_some_and(|word| word & needed == needed)
    }

    /// True for an object that has a Mercury half.
    pub(crate) fn has_twins(&self) -> bool {
        !self.cubin.mercury_symbols.is_empty()
    }

    /// True when the file has any code.
    pub(crate) fn has_code(&self) -> bool {
        self.roles.contains(&Role::Text)
    }

    pub(crate) fn role(&self, index: SectionIndex) -> Role {
        self.roles[index.0 as usize]
    }

    /// The string of a call-graph or prototype record; phase 1 has checked it.
    pub(crate) fn prototype(&self, offset: u32) -> &'d [u8] {
        self.cubin.string(offset).unwrap_or_default()
    }

    /// Attribute sections in section order, with their records in file order.
    pub(crate) fn infos(&self) -> impl Iterator<Item = (SectionIndex, &[Record<'d>])> {
        self.infos.iter().map(|(index, range)| (*index, &self.records[range.clone()]))
    }

    /// The records of attribute section `index`, in file order.
    pub(crate) fn info_records(&self, index: SectionIndex) -> &[Record<'d>] {
        match self.infos.binary_search_by_key(&index, |info| info.0) {
            Ok(at) => &self.records[self.infos[at].1.clone()],
            Err(_) => &[],
        }
    }

    /// The REGCOUNT of a function of this file.
    pub(crate) fn register_count(&self, function: SymbolIndex) -> Option<u32> {
        let at = self.register_counts.binary_search_by_key(&function, |entry| entry.0).ok()?;
        Some(self.register_counts[at].1)
    }

    /// True when code section `text` is named after `function`, which then is no alias.
    pub(crate) fn names_code(&self, text: SectionIndex, function: &Symbol<'_>) -> bool {
        let name = self.section(text).name;
        match self.role(text) {
            Role::JumpSlot => {
                let stub = function.name.strip_prefix(STUB_PREFIX);
                stub.is_some() && stub == name.strip_prefix(SLOT_PREFIX)
            }
            _ => name.strip_prefix(b".text.") == Some(function.name),
        }
    }

    /// The function that code section `text` is named after.
    pub(crate) fn code_function(&self, text: SectionIndex) -> Option<SymbolIndex> {
        let at = self.code_functions.binary_search_by_key(&text, |entry| entry.0).ok()?;
        Some(self.code_functions[at].1)
    }

    /// What symbols name of bank `index`, as (start, end) in bytes; overlapping ones are one.
    pub(crate) fn literals(&self, index: SectionIndex) -> Vec<(u64, u64)> {
        let first = self.literals.partition_point(|literal| literal.0 < index);
        let own = self.literals[first..].iter().take_while(|literal| literal.0 == index);
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for &(_, start, end) in own {
            match ranges.last_mut().filter(|last| start <= last.1) {
                Some(last) => last.1 = last.1.max(end),
                None => ranges.push((start, end)),
            }
        }
        ranges
    }

    /// Where the literals of bank `index` start, ascending, bytes.
    pub(crate) fn literal_starts(&self, index: SectionIndex) -> impl Iterator<Item = u64> + '_ {
        let first = self.literals.partition_point(|literal| literal.0 < index);
        self.literals[first..].iter().take_while(move |literal| literal.0 == index).map(|l| l.1)
    }

    /// True when some relocation patches section `index`.
    pub(crate) fn is_patched(&self, index: SectionIndex) -> bool {
        self.patched[index.0 as usize]
    }

    /// True when the file defines unified functions.
    pub(crate) fn has_unified_functions(&self) -> bool {
        self.roles.contains(&Role::FunctionIds)
    }

    /// The sections of jump slots.
    pub(crate) fn jump_slots(&self) -> impl Iterator<Item = SectionIndex> {
        let sections = self.cubin.section_indices().map(|(index, _)| index);
        sections.filter(|&index| self.role(index) == Role::JumpSlot)
    }

    /// The parameter bank of the entry whose code is `text`.
    pub(crate) fn parameter_bank(&self, text: SectionIndex) -> Option<SectionIndex> {
        let at = self.parameter_banks.binary_search_by_key(&text, |entry| entry.0).ok()?;
        Some(self.parameter_banks[at].1)
    }

    /// Bytes of all relocation records, a measure of work.
    pub(crate) fn reloc_bytes(&self) -> usize {
        self.reloc_sections().map(|(_, section, _)| section.data.len()).sum()
    }

    /// Relocation sections of code that is named after a function, with the function.
    pub(crate) fn code_relocations(&self) -> impl Iterator<Item = (SymbolIndex, &Section<'d>)> {
        self.reloc_sections()
            .filter_map(|(_, section, text)| Some((self.code_function(text)?, section)))
    }

    /// Relocation sections in section order, with the section they patch.
    pub(crate) fn reloc_sections(
        &self,
    ) -> impl Iterator<Item = (SectionIndex, &Section<'d>, SectionIndex)> {
        self.cubin
            .section_indices()
            .filter_map(|(index, section)| Some((index, section, section.info_section()?)))
            .filter(|(index, ..)| self.role(*index) == Role::Reloc)
    }
}

/// All inputs, in command order.
pub(crate) struct Objects<'d> {
    pub(crate) all: IdVec<ObjectId, Object<'d>>,
}

impl<'d> std::ops::Index<ObjectId> for Objects<'d> {
    type Output = Object<'d>;

    fn index(&self, id: ObjectId) -> &Object<'d> {
        &self.all[id]
    }
}

impl<'d> Objects<'d> {
    /// Parses all inputs; reports the first that cannot be linked, in command order.
    pub(crate) fn parse(
        session: &Session,
        inputs: &[Input<'d>],
        options: &LinkOptions,
        diags: &mut Diagnostics,
    ) -> Result<Self, Failed> {
        let total: usize = inputs.iter().map(|input| input.bytes.len()).sum();
        let parsed: Vec<_> = session.map(inputs.len(), total, |i| Object::parse(inputs[i]));
        let mut all = IdVec::new();
        for (input, parsed) in inputs.iter().zip(parsed) {
            let object = parsed.map_err(|message| diags.fatal(message))?;
            check_target(input.name, &object, options, diags)?;
            all.push(object);
        }
        Ok(Objects { all })
    }

    /// Removes the files at `places`, which ascend.
    pub(crate) fn remove(&mut self, places: &[usize]) {
        let all = std::mem::take(&mut self.all);
        let stays = |(place, _): &(usize, Object<'d>)| places.binary_search(place).is_err();
        let rest = all.into_values().enumerate().filter(stays);
        self.all = rest.map(|(_, object)| object).collect();
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (ObjectId, &Object<'d>)> {
        self.all.iter()
    }

    pub(crate) fn file(&self, id: ObjectId) -> String {
        self.all[id].name.to_owned()
    }
}

/// May this object go into the target, and do we know its dialect?
fn check_target(
    name: &str,
    object: &Object<'_>,
    options: &LinkOptions,
    diags: &mut Diagnostics,
) -> Result<(), Failed> {
    let own = options.dialect.toolkit;
    let made_by = object.cuinfo.toolkit;
    let sm = object.cubin.header.sm();
    if !options.target.takes(sm) || (sm != options.target.sm && object.is_accelerated()) {
        let (file, target) = (name.to_owned(), options.target.name.to_owned());
        // Nothing can be finalized of what has no Mercury code.
        if options.target.flavour != Flavour::of_sm(sm)
            && options.target.flavour == Flavour::Mercury
        {
            diags.warning(Message::ForOneArch { file: file.clone(), sm: options.target.sm });
        }
        let note = Note::MadeFor { file: file.clone(), sm: object.cubin.header.sm() };
        let message = Message::ArchMismatch { file, target };
        return Err(diags.explained_fatal(message, vec![note]));
    }
    if !object.suits(options.target.sm) {
        let target = options.target.name;
        let reason =
            format!("its code for sm_{sm} has to be made anew for '{target}'; compile it for that");
        return Err(diags.fatal(Message::Unsupported { file: name.to_owned(), reason }));
    }
    // nvlink 13.0 refuses these; the format has not changed in a way that needs it.
    if made_by > own {
        diags.warning(Message::NewerToolkit {
            file: name.to_owned(),
            major: made_by / 10,
            minor: made_by % 10,
            own_major: own / 10,
            own_minor: own % 10,
        });
    }
    Ok(())
}

impl<'d> Object<'d> {
    fn parse(input: Input<'d>) -> Result<Self, Message> {
        let file = || input.name.to_owned();
        let malformed = |defect| Message::Malformed { file: file(), defect };
        let unsupported =
            |reason: &str| Message::Unsupported { file: file(), reason: reason.to_owned() };
        let cubin = Cubin::parse(input.bytes).map_err(malformed)?;
        if cubin.header.e_type != 1 {
            return Err(unsupported("it is no relocatable object (ELF type 1)"));
        }
        if cubin.header.os_abi == elf::OSABI_CUDA_12 {
            return Err(unsupported("it was made by CUDA 12 or older (ELF ABI 0x33)"));
        }
        if cubin.header.os_abi != elf::OSABI_CUDA || cubin.header.abi_version != elf::ABI_VERSION {
            return Err(unsupported("its ELF ABI is unknown"));
        }
        let mut object = Object::unread(input.name, cubin).map_err(|failure| match failure {
            Failure::Malformed(defect) => malformed(defect),
            Failure::Unsupported(reason) => unsupported(&reason),
        })?;
        object.read_records().map_err(malformed)?;
        object.index();
        object.unified = unified::read(&object).map_err(malformed)?;
        object.check_symbols().map_err(malformed)?;
        object.check_relocations().map_err(malformed)?;
        Ok(object)
    }

    /// The object with its roles and notes, without records.
    fn unread(name: &'d str, mut cubin: Cubin<'d>) -> Result<Self, Failure> {
        let mut roles = Vec::with_capacity(cubin.sections.len());
        let flavour = Flavour::of_sm(cubin.header.sm());
        for section in &cubin.sections {
            let role = role(section, flavour).ok_or_else(|| {
                let section_name = String::from_utf8_lossy(section.name);
                let kind = section.sh_type;
                Failure::Unsupported(format!(
                    "section '{section_name}' of type {kind:#x} is of an unknown kind"
                ))
            })?;
            roles.push(role);
        }
        let twins = match flavour {
            Flavour::Classic => Twins::default(),
            Flavour::Mercury => twins::pair(&mut cubin, &mut roles)?,
        };
        check_reloc_names(&cubin, &roles).map_err(Failure::Malformed)?;
        let cuinfo = cubin.section_by_name(b".note.nv.cuinfo").ok_or_else(|| {
            Failure::Unsupported("it has no section '.note.nv.cuinfo'".to_owned())
        })?;
        let cuinfo = CuInfo::parse(cuinfo.name, cuinfo.data).map_err(Failure::Malformed)?;
        let tkinfo = cubin.section_by_name(b".note.nv.tkinfo").map_or(&[][..], |note| note.data);
        Ok(Object {
            name,
            roles,
            twins,
            records: Vec::new(),
            infos: Vec::new(),
            edges: Vec::new(),
            prototypes: Vec::new(),
            compat: None,
            register_counts: Vec::new(),
            parameter_banks: Vec::new(),
            unified: Vec::new(),
            prototype_bytes: 0,
            described: Vec::new(),
            patched: Vec::new(),
            code_functions: Vec::new(),
            functions: Vec::new(),
            literals: Vec::new(),
            cuinfo,
            tkinfo,
            cubin,
        })
    }

    /// Sorted lookups for what is asked by function.
    fn index(&mut self) {
        self.register_counts = self
            .records
            .iter()
            .filter(|record| record.code == attr::code::REGCOUNT)
            .filter_map(|record| Some((SymbolIndex(record.word(0)?), record.word(1)?)))
            .collect();
        self.register_counts.sort();
        let sections = self.cubin.section_indices();
        let is_bank = |role| matches!(role, Role::Constant(0) | Role::Parameters);
        let banks = sections.filter(|(index, _)| is_bank(self.role(*index)));
        self.parameter_banks =
            banks.filter_map(|(index, bank)| Some((bank.info_section()?, index))).collect();
        self.parameter_banks.sort();
        let mut patched = vec![false; self.cubin.sections.len()];
        for (_, section, target) in self.reloc_sections() {
            patched[target.0 as usize] |= !section.data.is_empty();
        }
        self.patched = patched;
        let functions = self.cubin.symbol_indices().filter(|(_, symbol)| symbol.is_function());
        let code = functions.filter_map(|(index, symbol)| {
            let text = symbol.defined_in()?;
            self.names_code(text, symbol).then_some((text, index))
        });
        self.code_functions = code.collect();
        self.code_functions.sort();
        self.functions = self.ordered_functions();
        let internal = self.cubin.symbols.iter().filter(|symbol| is_internal(symbol));
        let literals = internal.filter_map(|symbol| {
            Some((symbol.defined_in()?, symbol.value, symbol.value.saturating_add(symbol.size)))
        });
        self.literals = literals.collect();
        self.literals.sort_unstable();
    }

    fn ordered_functions(&self) -> Vec<SymbolIndex> {
        let mut early = HashSet::new();
        let mut order = Vec::new();
        for (index, symbol) in self.cubin.symbol_indices().filter(|(_, s)| s.is_function()) {
            let main = symbol.defined_in().and_then(|text| self.code_function(text));
            if let Some(main) = main.filter(|&main| main > index && early.insert(main)) {
                order.push(main);
            }
            if !early.contains(&index) {
                order.push(index);
            }
        }
        order
    }

    fn read_records(&mut self) -> Result<(), Malformed> {
        let sections = std::mem::take(&mut self.cubin.sections);
        let result =
            sections.iter().enumerate().try_for_each(|(index, section)| match self.roles[index] {
                Role::FileInfo | Role::FunctionInfo | Role::TwinInfo => {
                    self.read_info(index, section)
                }
                Role::CallGraph => self.read_call_graph(section),
                Role::Prototype => self.read_prototypes(section),
                Role::Table if section.sh_type == sht::CUDA_COMPAT => {
                    let records = Records::new(section.name, section.data);
                    self.compat = Some(records.collect::<Result<_, _>>()?);
                    Ok(())
                }
                _ => Ok(()),
            });
        self.cubin.sections = sections;
        result
    }

    fn read_info(&mut self, index: usize, section: &Section<'d>) -> Result<(), Malformed> {
        let start = self.records.len();
        let mut at = 0u64;
        for record in Records::new(section.name, section.data) {
            let record = record?;
            self.check_info_record(section, at, &record)?;
            at += 4 + record.payload.len() as u64;
            self.records.push(record);
        }
        self.infos.push((SectionIndex(index as u32), start..self.records.len()));
        Ok(())
    }

    /// The symbols that a record names exist, and it is as long as its kind needs.
    fn check_info_record(
        &self,
        section: &Section<'_>,
        at: u64,
        record: &Record<'_>,
    ) -> Result<(), Malformed> {
        let defect = |what: String| Err(Malformed::section(section.name, at, what));
        let symbols = match attr::known(record.code) {
            Some((_, Shape::Symbol | Shape::Parameter)) => 1,
            Some((_, Shape::Symbols)) => usize::MAX,
            _ => 0,
        };
        let minimum = match record.code {
            _ if record.format != attr::format::SIZED => 0,
            attr::code::FRAME_SIZE
            | attr::code::MIN_STACK_SIZE
            | attr::code::MAX_STACK_SIZE
            | attr::code::REGCOUNT
            | attr::code::SAM_REGION_STACK_SIZE
            | attr::code::SAMPLER_INIT
            | attr::code::PARAM_CBANK => 8,
            attr::code::EXTERNS | attr::code::CRS_STACK_SIZE => 4,
            _ => 0,
        };
        if record.payload.len() < minimum {
            let what = format!(
                "attribute {:#04x} has {} bytes, at least {minimum} are needed",
                record.code,
                record.payload.len()
            );
            return defect(what);
        }
        for word in record.words().take(symbols) {
            if word as usize >= self.cubin.symbols.len() {
                let what = format!(
                    "attribute {:#04x} names symbol {word}, which does not exist",
                    record.code
                );
                return defect(what);
            }
        }
        Ok(())
    }

    fn read_call_graph(&mut self, section: &Section<'d>) -> Result<(), Malformed> {
        for edge in callgraph::edges(section) {
            let (at, edge) = edge?;
            let (first, second, string) = match edge {
                Edge::Call { caller, callee } => (caller, Some(callee), None),
                Edge::Reference { function, known } => (function, Some(known), None),
                Edge::AddressTaken { function, prototype }
                | Edge::IndirectCall { function, prototype } => (function, None, Some(prototype)),
            };
            for symbol in [Some(first), second].into_iter().flatten() {
                self.check_function(section, at, symbol)?;
            }
            self.check_string(section, at, string)?;
            self.edges.push(edge);
        }
        Ok(())
    }

    fn read_prototypes(&mut self, section: &Section<'d>) -> Result<(), Malformed> {
        let records = (0u64..).step_by(8).zip(callgraph::prototypes(section));
        for (at, (function, prototype)) in records {
            self.check_function(section, at, function)?;
            self.check_string(section, at, Some(prototype))?;
            self.prototypes.push((function, prototype));
        }
        Ok(())
    }

    fn check_function(
        &self,
        section: &Section<'_>,
        at: u64,
        index: SymbolIndex,
    ) -> Result<(), Malformed> {
        let what = match self.cubin.symbol(index) {
            Some(symbol) if symbol.is_function() => return Ok(()),
            Some(_) => format!("symbol {} is no function", index.0),
            None => format!("symbol {} does not exist", index.0),
        };
        Err(Malformed::section(section.name, at, what))
    }

    /// The string of a record at `at` is there, and the file's records do not read the same bytes
    /// over and over.
    fn check_string(
        &mut self,
        section: &Section<'_>,
        at: u64,
        string: Option<u32>,
    ) -> Result<(), Malformed> {
        let Some(offset) = string else { return Ok(()) };
        let what = match self.cubin.string(offset) {
            None => format!("string at {offset:#x} is not in the string table or not terminated"),
            Some(string) => {
                self.prototype_bytes += string.len();
                if self.prototype_bytes <= 64 * self.cubin.strings.len() + (1 << 20) {
                    return Ok(());
                }
                "the records' strings overlap too much".to_owned()
            }
        };
        Err(Malformed::section(section.name, at, what))
    }
}

pub(crate) enum Failure {
    Malformed(Malformed),
    Unsupported(String),
}

/// What `section` is; `None` for kinds that nothing here knows how to link. Sections are merged by
/// name, so a role belongs to names of one form.
fn role(section: &Section<'_>, flavour: Flavour) -> Option<Role> {
    let name = section.name;
    if flavour == Flavour::Mercury && section.flags & shf::MERCURY != 0 {
        return Some(Role::Twin);
    }
    let owned = section.flags & shf::INFO_LINK != 0;
    Some(match section.sh_type {
        sht::NULL
        | sht::STRTAB
        | sht::SYMTAB
        | sht::SYMTAB_SHNDX
        | sht::NOTE
        | sht::CUDA_COMPAT
        | sht::CUDA_REL_ACTION => Role::Table,
        // What was applied when an object was made is of no use to the next link, nor does nvlink
        // read it (docs/LINKING.md, --preserve-relocs).
        sht::CUDA_RESOLVED_RELA if name.starts_with(b".nv.resolvedrela.") => Role::Table,
        sht::REL | sht::RELA if name.starts_with(b".rel") => Role::Reloc,
        sht::CUDA_INFO if name == b".nv.info" => Role::FileInfo,
        sht::CUDA_INFO if name.starts_with(b".nv.info.") && owned => Role::FunctionInfo,
        sht::CUDA_CALLGRAPH if name == b".nv.callgraph" => Role::CallGraph,
        sht::CUDA_PROTOTYPE if name == b".nv.prototype" => Role::Prototype,
        sht::CUDA_GLOBAL if name == b".nv.global" => Role::Global,
        sht::CUDA_GLOBAL_INIT if name == b".nv.global.init" => Role::GlobalInit,
        sht::CUDA_SHARED_RESERVED if name == b".nv.shared.reserved.0" => Role::ReservedShared,
        sht::CUDA_SHARED if name == b".nv_debug.shared" => Role::PoolShared,
        sht::CUDA_SHARED if name.starts_with(b".nv.shared.") => Role::OwnShared,
        sht::CUDA_CONSTANT0..=sht::CUDA_CONSTANT_LAST => {
            let bank = section.constant_bank()?;
            let of_type = u32::from(bank) == section.sh_type - sht::CUDA_CONSTANT0;
            let role = match (flavour, bank) {
                (Flavour::Classic, _) => Role::Constant(bank),
                (Flavour::Mercury, 0) if owned => Role::Parameters,
                (Flavour::Mercury, 2 | 3) => Role::Constant(bank),
                (Flavour::Mercury, _) => return None,
            };
            return of_type.then_some(role);
        }
        sht::CUDA_UFT if section.is_code() && name.starts_with(SLOT_PREFIX) => Role::JumpSlot,
        sht::CUDA_UDT if name == b".nv.udt" => Role::UnifiedData,
        sht::CUDA_UIDX if name == b".nv.uidx" => Role::Index,
        sht::CUDA_UFT_ENTRY if name == b".nv.uft.entry" => Role::FunctionIds,
        sht::CUDA_UDT_ENTRY if name == b".nv.udt.entry" => Role::VariableIds,
        sht::PROGBITS if section.is_code() && name.starts_with(b".text.") => Role::Text,
        sht::PROGBITS if is_debug(name) => Role::Debug,
        _ => return None,
    })
}

/// Relocation sections are named after what they patch: they are merged by name.
fn check_reloc_names(cubin: &Cubin<'_>, roles: &[Role]) -> Result<(), Malformed> {
    for (section, _) in cubin.sections.iter().zip(roles).filter(|(_, r)| **r == Role::Reloc) {
        let target = section.info_section().and_then(|index| cubin.section(index));
        let prefix: &[u8] = if section.sh_type == sht::RELA { b".rela" } else { b".rel" };
        let tail = section.name.strip_prefix(prefix);
        if tail.is_none() || tail != target.map(|target| target.name) {
            let what = "a relocation section is not named after the section it patches";
            return Err(Malformed::section(section.name, 0, what));
        }
    }
    Ok(())
}

fn is_debug(name: &[u8]) -> bool {
    name.starts_with(b".debug_") || name.starts_with(b".nv_debug_")
}

/// True for the eight weak symbols that stand for unified tables; they never reach the output.
pub(crate) fn is_unified_table(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 8] = [
        b"__UFT",
        b"__UFT_OFFSET",
        b"__UFT_CANONICAL",
        b"__UFT_END",
        b"__UDT",
        b"__UDT_OFFSET",
        b"__UDT_CANONICAL",
        b"__UDT_END",
    ];
    NAMES.contains(&name)
}

/// True for the variables by which a program names the system's part of shared memory.
pub(crate) fn is_reserved_shared(name: &[u8]) -> bool {
    name.starts_with(b".nv.reservedSmem")
}

/// True for a number that the driver knows: the size of a texture, surface or sampler descriptor, by
/// which code that queries one finds its fields (case textures/queries).
pub(crate) fn is_descriptor_size(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 4] = [
        b".nv.unified.texrefDescSize",
        b".nv.independent.texrefDescSize",
        b".nv.independent.samplerrefDescSize",
        b".nv.surfrefDescSize",
    ];
    NAMES.contains(&name)
}

/// True for functions, variables and references to textures and the like; to nvlink symbols of other types, sections
/// aside, are as good as the null symbol.
pub(crate) fn takes_part(symbol: &Symbol<'_>) -> bool {
    const KINDS: [u8; 6] = [
        stt::FUNC,
        stt::OBJECT,
        stt::CUDA_OBJECT,
        stt::CUDA_TEXTURE,
        stt::CUDA_SAMPLER,
        stt::CUDA_SURFACE,
    ];
    KINDS.contains(&symbol.kind())
}

/// True for a symbol that ptxas made for itself: parameters and literals.
pub(crate) fn is_internal(symbol: &Symbol<'_>) -> bool {
    symbol.binding() == elf::stb::LOCAL && symbol.other & sto::INTERNAL != 0
}

/// Calls into the old runtime for launching kernels from kernels, by exact name.
const LAUNCH_CALLS: [&[u8]; 20] = [
    b"cnpGetCacheConfig",
    b"cnpGetLimit",
    b"cnpGetSharedMemConfig",
    b"cnpGetParameterBuffer",
    b"cnpGetParameterBufferV2",
    b"cnpLaunchDevice",
    b"cnpLaunchDeviceV2",
    b"cnpGetLastError",
    b"cnpSetLastError",
    b"cnpGetDevice",
    b"cnpGetDeviceCount",
    b"cnpDeviceGetAttribute",
    b"cnpFuncGetAttribute",
    b"cnpCtxSynchronize",
    b"cnpStreamCreate",
    b"cnpStreamDestroy",
    b"cnpStreamWaitEvent",
    b"cnpEventCreate",
    b"cnpEventDestroy",
    b"cnpEventRecord",
];

/// True for names of functions of the driver.
pub(crate) fn is_system_call(name: &[u8]) -> bool {
    matches!(name, b"malloc" | b"free" | b"vprintf" | b"vfprintf" | b"__assertfail")
        || name.starts_with(b"__cuda_syscall")
}

/// True for functions that a linked program may leave undefined.
pub(crate) fn may_stay_undefined(name: &[u8]) -> bool {
    is_system_call(name) || LAUNCH_CALLS.contains(&name)
}
