//! Phase `objects`: the records of an object, those of attributes, of the call graph and of `.nv.compat`.
//!
//! In: a cubin with the roles of its sections. Out: [`RecordTables`], and the records as methods of [`Object`], read from
//! the file each time: a copy of them would take more room than everything else that is known of a file. Guaranteed:
//! symbols that records name exist, and are functions where only those make sense; payloads are as long as their kind
//! needs; strings are there.

use culd_cubin::attr::{self, Record, Records, Shape};
use culd_cubin::callgraph::{self, Edge};
use culd_cubin::elf::{sht, stt};
use culd_cubin::{Cubin, Malformed, Section, SectionIndex, Symbol, SymbolIndex};

use super::{Object, Role};
use crate::clash::TensorMemory;

/// What is remembered of the records of one object.
#[derive(Default)]
pub(crate) struct RecordTables<'d> {
    /// (function, registers) of all REGCOUNT records, sorted by function.
    register_counts: Vec<(SymbolIndex, u32)>,
    /// Attributes of `.nv.compat`, if the file has one.
    pub(crate) compat: Option<Vec<Record<'d>>>,
    /// Lists of attributes of functions that tell how tensor memory is given out, once for each record that does.
    pub(crate) tensor_memory: Vec<(SectionIndex, TensorMemory)>,
    /// Which attributes there are, those of the file and both halves.
    pub(crate) codes: Codes,
}

/// Codes of attributes. Most that one looks for are in no file.
#[derive(Default)]
pub(crate) struct Codes([u64; 4]);

impl Codes {
    fn place(code: u8) -> (usize, u64) {
        (usize::from(code / 64), 1 << (code % 64))
    }

    fn add(&mut self, code: u8) {
        let (word, bit) = Codes::place(code);
        self.0[word] |= bit;
    }

    /// Whether there is one of this code.
    pub(crate) fn has(&self, code: u8) -> bool {
        let (word, bit) = Codes::place(code);
        self.0[word] & bit != 0
    }
}

impl<'d> RecordTables<'d> {
    /// Reads the records of `cubin`, whose sections have `roles`.
    pub(super) fn read(cubin: &Cubin<'d>, roles: &[Role]) -> Result<Self, Malformed> {
        // Each function with code has a record in either half.
        let functions = roles.iter().filter(|role| matches!(role, Role::Text)).count();
        let mut reader = Reader {
            cubin,
            tables: RecordTables {
                register_counts: Vec::with_capacity(2 * functions),
                ..RecordTables::default()
            },
            prototype_bytes: 0,
            most_prototype_bytes: 64 * cubin.strings.len() + (1 << 20),
            last_string: None,
        };
        for ((index, section), role) in cubin.section_indices().zip(roles) {
            reader.section(index, section, *role)?;
        }
        reader.tables.register_counts.sort_unstable();
        Ok(reader.tables)
    }
}

impl<'d> Object<'d> {
    /// The sections of a role, in section order.
    fn sections_of(&self, role: Role) -> impl Iterator<Item = (SectionIndex, &Section<'d>)> {
        let sections = self.cubin.section_indices().zip(&self.roles);
        sections.filter(move |(_, own)| **own == role).map(|(section, _)| section)
    }

    /// The records of all attributes of the file, in file order.
    pub(crate) fn file_records(&self) -> impl Iterator<Item = Record<'d>> {
        self.sections_of(Role::FileInfo).flat_map(|(_, section)| checked(section))
    }

    /// Sections of attributes of functions, in section order.
    pub(crate) fn function_infos(&self) -> impl Iterator<Item = SectionIndex> {
        self.sections_of(Role::FunctionInfo).map(|(index, _)| index)
    }

    /// The records of attribute section `index` of a function, in file order.
    pub(crate) fn info_records(
        &self,
        index: SectionIndex,
    ) -> impl Iterator<Item = Record<'d>> + Clone + use<'d> {
        checked(self.section(index))
    }

    /// Call-graph records in file order.
    pub(crate) fn edges(&self) -> impl Iterator<Item = Edge> {
        let records = self.sections_of(Role::CallGraph);
        let edges = records.flat_map(|(_, section)| callgraph::edges(section));
        edges.filter_map(|edge| Some(edge.ok()?.1))
    }

    /// Prototype records in file order.
    pub(crate) fn prototypes(&self) -> impl Iterator<Item = (SymbolIndex, u32)> {
        self.sections_of(Role::Prototype).flat_map(|(_, section)| callgraph::prototypes(section))
    }

    /// The REGCOUNT of a function of this file.
    pub(crate) fn register_count(&self, function: SymbolIndex) -> Option<u32> {
        let counts = &self.records.register_counts;
        let at = counts.binary_search_by_key(&function, |entry| entry.0).ok()?;
        Some(counts[at].1)
    }
}

/// The records of a section in which phase `objects` has found no defect.
fn checked<'d>(section: &Section<'d>) -> impl Iterator<Item = Record<'d>> + Clone + use<'d> {
    let mut records = Records::new(section.name, section.data);
    std::iter::from_fn(move || records.next_whole())
}

/// How many bytes the payload of attribute `code` has at least and at most, where the linker reads it: all, or one of its words.
const fn expected(code: u8) -> (u16, u16) {
    match code {
        attr::code::FRAME_SIZE
        | attr::code::MIN_STACK_SIZE
        | attr::code::MAX_STACK_SIZE
        | attr::code::REGCOUNT
        | attr::code::SAM_REGION_STACK_SIZE
        | attr::code::SAMPLER_INIT
        | attr::code::PARAM_CBANK => (8, 8),
        attr::code::CRS_STACK_SIZE => (4, 4),
        attr::code::EXTERNS => (4, u16::MAX),
        _ => (0, u16::MAX),
    }
}

/// The tables on their way.
struct Reader<'a, 'd> {
    cubin: &'a Cubin<'d>,
    tables: RecordTables<'d>,
    /// Bytes of all strings that call-graph and prototype records name.
    prototype_bytes: usize,
    /// As many as the records of no sound file name.
    most_prototype_bytes: usize,
    /// The string that was named last, and its length: many records in a row name the same.
    last_string: Option<(u32, usize)>,
}

impl<'d> Reader<'_, 'd> {
    fn section(
        &mut self,
        index: SectionIndex,
        section: &Section<'d>,
        role: Role,
    ) -> Result<(), Malformed> {
        match role {
            Role::FunctionInfo => self.read_info(Some(index), section),
            Role::FileInfo | Role::TwinInfo => self.read_info(None, section),
            Role::CallGraph => self.read_call_graph(section),
            Role::Prototype => self.read_prototypes(section),
            Role::Table if section.sh_type == sht::CUDA_COMPAT => {
                let records = Records::new(section.name, section.data);
                self.tables.compat = Some(records.collect::<Result<_, _>>()?);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Attributes, those of a function that are linked if the section's `index` is given.
    fn read_info(
        &mut self,
        index: Option<SectionIndex>,
        section: &Section<'d>,
    ) -> Result<(), Malformed> {
        let mut at = 0u64;
        let mut records = Records::new(section.name, section.data);
        while let Some(record) = records.next_whole() {
            self.check_info_record(section, at, &record)?;
            at += 4 + record.payload.len() as u64;
            self.tables.codes.add(record.code);
            match record.code {
                attr::code::REGCOUNT => {
                    if let (Some(function), Some(count)) = (record.word(0), record.word(1)) {
                        self.tables.register_counts.push((SymbolIndex(function), count));
                    }
                }
                attr::code::AT_ENTRY_FRAGMENTS => {
                    if let (Some(index), Some(way)) = (index, TensorMemory::of_attribute(&record)) {
                        self.tables.tensor_memory.push((index, way));
                    }
                }
                _ => {}
            }
        }
        records.next().map_or(Ok(()), |defect| defect.map(|_| ()))
    }

    /// The symbols that a record names exist, and it is as long as its kind needs.
    #[inline]
    fn check_info_record(
        &self,
        section: &Section<'_>,
        at: u64,
        record: &Record<'_>,
    ) -> Result<(), Malformed> {
        let (least, most) = expected(record.code);
        let sized = record.format == attr::format::SIZED;
        if sized && !(usize::from(least)..=usize::from(most)).contains(&record.payload.len()) {
            return Err(wrong_length(section, at, record));
        }
        if record.code == attr::code::PARAM_CBANK {
            self.check_parameter_bank(section, at, record)?;
        }
        let symbols = match attr::shape(record.code) {
            Shape::Plain => return Ok(()),
            Shape::Symbol | Shape::Parameter => 1,
            Shape::Symbols => usize::MAX,
        };
        let count = self.cubin.symbols.len();
        match record.words().take(symbols).find(|&word| word as usize >= count) {
            None => Ok(()),
            Some(word) => Err(no_symbol(section, at, record, word)),
        }
    }

    /// A record about the parameters of a kernel names their bank.
    fn check_parameter_bank(
        &self,
        section: &Section<'_>,
        at: u64,
        record: &Record<'_>,
    ) -> Result<(), Malformed> {
        let symbol = record.word(0).and_then(|word| self.cubin.symbol(SymbolIndex(word)));
        match symbol.filter(|symbol| !self.is_parameter_bank(symbol)) {
            None => Ok(()),
            Some(symbol) => {
                let symbol = String::from_utf8_lossy(symbol.name);
                let what = format!("'{symbol}' is no bank of parameters");
                Err(Malformed::section(section.name, at, what))
            }
        }
    }

    /// True for the symbol of a bank of parameters, which has the name of the section.
    fn is_parameter_bank(&self, symbol: &Symbol<'_>) -> bool {
        let section = symbol.defined_in().and_then(|index| self.cubin.section(index));
        let same = section.is_some_and(|section| {
            section.name == symbol.name && section.constant_bank() == Some(0)
        });
        same && symbol.kind() == stt::SECTION
    }

    fn read_call_graph(&mut self, section: &Section<'d>) -> Result<(), Malformed> {
        for edge in callgraph::edges(section) {
            let (at, edge) = edge?;
            match edge {
                Edge::Call { caller: first, callee: second }
                | Edge::Reference { function: first, known: second } => {
                    self.check_function(section, at, first)?;
                    self.check_function(section, at, second)?;
                }
                Edge::AddressTaken { function, prototype }
                | Edge::IndirectCall { function, prototype } => {
                    self.check_function(section, at, function)?;
                    self.check_string(section, at, prototype)?;
                }
            }
        }
        Ok(())
    }

    fn read_prototypes(&mut self, section: &Section<'d>) -> Result<(), Malformed> {
        let records = (0u64..).step_by(8).zip(callgraph::prototypes(section));
        for (at, (function, prototype)) in records {
            self.check_function(section, at, function)?;
            self.check_string(section, at, prototype)?;
        }
        Ok(())
    }

    #[inline]
    fn check_function(
        &self,
        section: &Section<'_>,
        at: u64,
        index: SymbolIndex,
    ) -> Result<(), Malformed> {
        match self.cubin.symbol(index) {
            Some(symbol) if symbol.is_function() => Ok(()),
            symbol => Err(no_function(section, at, index, symbol.is_some())),
        }
    }

    /// The string of a record at `at` is there, and the file's records do not read the same bytes
    /// over and over.
    #[inline]
    fn check_string(
        &mut self,
        section: &Section<'_>,
        at: u64,
        offset: u32,
    ) -> Result<(), Malformed> {
        let length = match self.last_string {
            Some((last, length)) if last == offset => length,
            _ => match self.cubin.string(offset) {
                Some(string) => string.len(),
                None => return Err(no_string(section, at, offset, false)),
            },
        };
        self.last_string = Some((offset, length));
        self.prototype_bytes += length;
        if self.prototype_bytes > self.most_prototype_bytes {
            return Err(no_string(section, at, offset, true));
        }
        Ok(())
    }
}

#[cold]
fn wrong_length(section: &Section<'_>, at: u64, record: &Record<'_>) -> Malformed {
    let (code, length) = (record.code, record.payload.len());
    let needed = match expected(code) {
        (least, most) if least == most => format!("expected {least}"),
        (least, _) => format!("at least {least} are needed"),
    };
    let what = format!("attribute {code:#04x} has {length} bytes, {needed}");
    Malformed::section(section.name, at, what)
}

#[cold]
fn no_symbol(section: &Section<'_>, at: u64, record: &Record<'_>, symbol: u32) -> Malformed {
    let code = record.code;
    let what = format!("attribute {code:#04x} names symbol {symbol}, which does not exist");
    Malformed::section(section.name, at, what)
}

#[cold]
fn no_function(section: &Section<'_>, at: u64, index: SymbolIndex, exists: bool) -> Malformed {
    let what = if exists { "is no function" } else { "does not exist" };
    Malformed::section(section.name, at, format!("symbol {} {what}", index.0))
}

#[cold]
fn no_string(section: &Section<'_>, at: u64, offset: u32, exists: bool) -> Malformed {
    let what = match exists {
        true => "the records' strings overlap too much".to_owned(),
        false => format!("string at {offset:#x} is not in the string table or not terminated"),
    };
    Malformed::section(section.name, at, what)
}
