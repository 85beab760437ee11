//! Phase `objects`: the records of an object: attributes, the call graph and `.nv.compat`.
//!
//! In: a cubin with the roles of its sections. Out: [`RecordTables`], and methods of
//! [`InputObject`] that read the records from the file each time. A copy of the records would be
//! larger than all other tables of a file (docs/PERFORMANCE.md, memory). Guaranteed: symbols that
//! records name exist, and are functions where only functions make sense; payloads have the length
//! that their kind needs; strings exist.

use culd_cubin::attr::{self, Record, Records, Shape};
use culd_cubin::callgraph::{self, Edge};
use culd_cubin::elf::{sht, stt};
use culd_cubin::{Cubin, Malformed, Section, SectionIndex, Symbol, SymbolIndex, text_of};

use super::object::InputObject;
use super::roles::SectionRole;
use super::tensor_memory::TensorMemory;

/// Tables about the records of one object.
#[derive(Default)]
pub(crate) struct RecordTables<'d> {
    /// (function, registers) of all REGCOUNT records, sorted by function.
    register_counts: Vec<(SymbolIndex, u32)>,
    /// Attributes of `.nv.compat`, if the file has one.
    pub(crate) compat: Option<Vec<Record<'d>>>,
    /// Attribute lists of functions that show how tensor memory is allocated, one item per record.
    pub(crate) tensor_memory: Vec<(SectionIndex, TensorMemory)>,
    /// The codes of all attributes: of the file, and of functions in both halves.
    pub(crate) codes: AttributeCodes,
}

/// A set of attribute codes. Most codes that a phase looks for are in no file. Without it: +0.3 %
/// instructions on many1000 for sm_100; `check/skew.rs` needs it in any case.
#[derive(Default)]
pub(crate) struct AttributeCodes([u64; 4]);

impl AttributeCodes {
    fn place(code: u8) -> (usize, u64) {
        (usize::from(code / 64), 1 << (code % 64))
    }

    fn add(&mut self, code: u8) {
        let (word, bit) = AttributeCodes::place(code);
        self.0[word] |= bit;
    }

    /// True if the set has `code`.
    pub(crate) fn has(&self, code: u8) -> bool {
        let (word, bit) = AttributeCodes::place(code);
        self.0[word] & bit != 0
    }
}

impl<'d> RecordTables<'d> {
    /// Reads the records of `cubin`, whose sections have `roles`.
    pub(super) fn read(cubin: &Cubin<'d>, roles: &[SectionRole]) -> Result<Self, Malformed> {
        let mut reader = RecordReader {
            cubin,
            tables: RecordTables::default(),
            prototype_bytes: 0,
            most_prototype_bytes: 64 * cubin.strings.len() + (1 << 20),
        };
        for ((index, section), role) in cubin.section_indices().zip(roles) {
            reader.section(index, section, *role)?;
        }
        reader.tables.register_counts.sort_unstable();
        Ok(reader.tables)
    }
}

impl<'d> InputObject<'d> {
    /// The sections of role `role`, in section order.
    fn sections_of(&self, role: SectionRole) -> impl Iterator<Item = (SectionIndex, &Section<'d>)> {
        let sections = self.cubin.section_indices().zip(&self.roles);
        sections.filter(move |(_, own)| **own == role).map(|(section, _)| section)
    }

    /// The records of all attributes of the file, in file order.
    pub(crate) fn file_records(&self) -> impl Iterator<Item = Record<'d>> {
        self.sections_of(SectionRole::FileInfo).flat_map(|(_, section)| checked(section))
    }

    /// Sections of attributes of functions, in section order.
    pub(crate) fn function_infos(&self) -> impl Iterator<Item = SectionIndex> {
        self.sections_of(SectionRole::FunctionInfo).map(|(index, _)| index)
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
        let records = self.sections_of(SectionRole::CallGraph);
        let edges = records.flat_map(|(_, section)| callgraph::edges(section));
        edges.filter_map(|edge| Some(edge.ok()?.1))
    }

    /// Prototype records in file order.
    pub(crate) fn prototypes(&self) -> impl Iterator<Item = (SymbolIndex, u32)> {
        self.sections_of(SectionRole::Prototype)
            .flat_map(|(_, section)| callgraph::prototypes(section))
    }

    /// The REGCOUNT of a function of this file.
    pub(crate) fn register_count(&self, function: SymbolIndex) -> Option<u32> {
        let counts = &self.records.register_counts;
        let at = counts.binary_search_by_key(&function, |entry| entry.0).ok()?;
        Some(counts[at].1)
    }
}

/// The records of a section that phase `objects` has checked.
fn checked<'d>(section: &Section<'d>) -> impl Iterator<Item = Record<'d>> + Clone + use<'d> {
    let mut records = Records::new(section.name, section.data);
    std::iter::from_fn(move || records.next_whole())
}

/// The least and the most bytes of the payload of attribute `code`, if the linker reads it or one
/// of its words.
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

/// Bytes of the attributes of a file for each function: registers, frame and stack, 12 each.
const FUNCTION_BYTES: usize = 36;

/// Reads the records of one object into its tables.
struct RecordReader<'a, 'd> {
    cubin: &'a Cubin<'d>,
    tables: RecordTables<'d>,
    /// Bytes of all strings that call-graph and prototype records name.
    prototype_bytes: usize,
    /// Limit of `prototype_bytes`, which no sound file exceeds.
    most_prototype_bytes: usize,
}

impl<'d> RecordReader<'_, 'd> {
    fn section(
        &mut self,
        index: SectionIndex,
        section: &Section<'d>,
        role: SectionRole,
    ) -> Result<(), Malformed> {
        match role {
            SectionRole::FunctionInfo => self.read_info(Some(index), section),
            SectionRole::FileInfo => {
                self.tables.register_counts.reserve(section.data.len() / FUNCTION_BYTES);
                self.read_info(None, section)
            }
            SectionRole::CounterpartInfo => self.read_info(None, section),
            SectionRole::CallGraph => self.read_call_graph(section),
            SectionRole::Prototype => self.read_prototypes(section),
            SectionRole::Table if section.sh_type == sht::CUDA_COMPAT => {
                let records = Records::new(section.name, section.data);
                self.tables.compat = Some(records.collect::<Result<_, _>>()?);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Reads the attributes of a section. `index` is given for the attributes of a function that
    /// are linked.
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

    /// Checks that the symbols of a record exist, and that it has the length that its kind needs.
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

    /// Checks that a record about the parameters of a kernel names their bank.
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
                let symbol = text_of(symbol.name);
                let what = format!("'{symbol}' is no bank of parameters");
                Err(Malformed::section(section.name, at, what))
            }
        }
    }

    /// True for the symbol of a parameter bank, which has the name of its section.
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

    /// Checks that the string of a record at `at` exists, and that the file's records do not read
    /// the same bytes over and over.
    fn check_string(
        &mut self,
        section: &Section<'_>,
        at: u64,
        offset: u32,
    ) -> Result<(), Malformed> {
        let Some(string) = self.cubin.string(offset) else {
            return Err(no_string(section, at, offset, false));
        };
        self.prototype_bytes += string.len();
        if self.prototype_bytes > self.most_prototype_bytes {
            return Err(no_string(section, at, offset, true));
        }
        Ok(())
    }
}

fn wrong_length(section: &Section<'_>, at: u64, record: &Record<'_>) -> Malformed {
    let (code, length) = (record.code, record.payload.len());
    let needed = match expected(code) {
        (least, most) if least == most => format!("expected {least}"),
        (least, _) => format!("at least {least} are needed"),
    };
    let what = format!("attribute {code:#04x} has {length} bytes, {needed}");
    Malformed::section(section.name, at, what)
}

fn no_symbol(section: &Section<'_>, at: u64, record: &Record<'_>, symbol: u32) -> Malformed {
    let code = record.code;
    let what = format!("attribute {code:#04x} names symbol {symbol}, which does not exist");
    Malformed::section(section.name, at, what)
}

fn no_function(section: &Section<'_>, at: u64, index: SymbolIndex, exists: bool) -> Malformed {
    let what = if exists { "is no function" } else { "does not exist" };
    Malformed::section(section.name, at, format!("symbol {} {what}", index.0))
}

fn no_string(section: &Section<'_>, at: u64, offset: u32, exists: bool) -> Malformed {
    let what = match exists {
        true => "the records' strings overlap too much".to_owned(),
        false => format!("string at {offset:#x} is not in the string table or not terminated"),
    };
    Malformed::section(section.name, at, what)
}

/// True for a record that begins with a texture, sampler or surface reference. A record about a
/// parameter of another kind has 0 there.
pub(crate) fn names_reference(record: &Record<'_>) -> bool {
    use culd_cubin::attr::{code, format};
    if record.format != format::SIZED {
        return false;
    }
    let parameter = matches!(record.code, code::KPARAM_INFO | code::KPARAM_INFO_V2);
    if parameter {
        return record.word(0).is_some_and(|index| index != 0);
    }
    may_name_reference(record.code)
}

/// True if a record with this code may begin with such a reference.
pub(crate) fn may_name_reference(code: u8) -> bool {
    use culd_cubin::attr::code;
    matches!(
        code,
        code::KPARAM_INFO
            | code::KPARAM_INFO_V2
            | code::IMAGE_SLOT
            | code::IMAGE_OFFSET
            | code::IMAGE_SIZE
            | code::TEXTURE_NORMALIZED
            | code::SAMPLER_INIT
            | code::SAMPLER_FORCE_UNNORMALIZED
            | code::BINDLESS_IMAGE_OFFSETS
    )
}
