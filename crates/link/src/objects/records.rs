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
        let mut reader = Reader {
            cubin,
            tables: RecordTables::default(),
            prototype_bytes: 0,
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
    Records::new(section.name, section.data).map_while(Result::ok)
}

/// How many bytes the payload of attribute `code` has, where the linker reads it: all, or those of one of its words.
fn expected(code: u8) -> Expected {
    match code {
        attr::code::FRAME_SIZE
        | attr::code::MIN_STACK_SIZE
        | attr::code::MAX_STACK_SIZE
        | attr::code::REGCOUNT
        | attr::code::SAM_REGION_STACK_SIZE
        | attr::code::SAMPLER_INIT
        | attr::code::PARAM_CBANK => Expected::Exactly(8),
        attr::code::CRS_STACK_SIZE => Expected::Exactly(4),
        attr::code::EXTERNS => Expected::Least(4),
        _ => Expected::Least(0),
    }
}

enum Expected {
    Exactly(usize),
    Least(usize),
}

/// The tables on their way.
struct Reader<'a, 'd> {
    cubin: &'a Cubin<'d>,
    tables: RecordTables<'d>,
    /// Bytes of all strings that call-graph and prototype records name.
    prototype_bytes: usize,
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
        for record in Records::new(section.name, section.data) {
            let record = record?;
            self.check_info_record(section, at, &record)?;
            at += 4 + record.payload.len() as u64;
            self.tables.codes.add(record.code);
            if let Some(index) = index
                && let Some(way) = TensorMemory::of_attribute(&record)
            {
                self.tables.tensor_memory.push((index, way));
            }
            if record.code == attr::code::REGCOUNT
                && let (Some(function), Some(count)) = (record.word(0), record.word(1))
            {
                self.tables.register_counts.push((SymbolIndex(function), count));
            }
        }
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
        if record.format == attr::format::SIZED {
            let (code, length) = (record.code, record.payload.len());
            match expected(code) {
                Expected::Exactly(size) if length != size => {
                    return defect(format!(
                        "attribute {code:#04x} has {length} bytes, expected {size}"
                    ));
                }
                Expected::Least(least) if length < least => {
                    return defect(format!(
                        "attribute {code:#04x} has {length} bytes, at least {least} are needed"
                    ));
                }
                _ => {}
            }
        }
        if record.code == attr::code::PARAM_CBANK
            && let Some(symbol) =
                record.word(0).and_then(|word| self.cubin.symbol(SymbolIndex(word)))
            && !self.is_parameter_bank(symbol)
        {
            let symbol = String::from_utf8_lossy(symbol.name);
            return defect(format!("'{symbol}' is no bank of parameters"));
        }
        let symbols = match attr::shape(record.code) {
            Shape::Plain => return Ok(()),
            Shape::Symbol | Shape::Parameter => 1,
            Shape::Symbols => usize::MAX,
        };
        let count = self.cubin.symbols.len();
        match record.words().take(symbols).find(|&word| word as usize >= count) {
            None => Ok(()),
            Some(word) => {
                let code = record.code;
                defect(format!("attribute {code:#04x} names symbol {word}, which does not exist"))
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
        }
        Ok(())
    }

    fn read_prototypes(&mut self, section: &Section<'d>) -> Result<(), Malformed> {
        let records = (0u64..).step_by(8).zip(callgraph::prototypes(section));
        for (at, (function, prototype)) in records {
            self.check_function(section, at, function)?;
            self.check_string(section, at, Some(prototype))?;
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
        let known = self.last_string.filter(|last| last.0 == offset).map(|last| last.1);
        let what = match known.or_else(|| self.cubin.string(offset).map(<[u8]>::len)) {
            None => format!("string at {offset:#x} is not in the string table or not terminated"),
            Some(length) => {
                self.last_string = Some((offset, length));
                self.prototype_bytes += length;
                if self.prototype_bytes <= 64 * self.cubin.strings.len() + (1 << 20) {
                    return Ok(());
                }
                "the records' strings overlap too much".to_owned()
            }
        };
        Err(Malformed::section(section.name, at, what))
    }
}
