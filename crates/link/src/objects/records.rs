//! Phase 1: the records of an object, those of attributes, of the call graph and of `.nv.compat`.
//!
//! In: a cubin with the roles of its sections. Out: [`RecordTables`]. Guaranteed: symbols that records name exist,
//! and are functions where only those make sense; payloads are as long as their kind needs; strings are there.

use std::ops::Range;

use culd_cubin::attr::{self, Record, Records, Shape};
use culd_cubin::callgraph::{self, Edge};
use culd_cubin::elf::sht;
use culd_cubin::{Cubin, Malformed, Section, SectionIndex, SymbolIndex};

use super::Role;

/// The records of one object.
#[derive(Default)]
pub(crate) struct RecordTables<'d> {
    /// The records of all attribute sections.
    pub(super) attributes: Vec<Record<'d>>,
    /// Which of them belong to which attribute section, in section order.
    infos: Vec<(SectionIndex, Range<usize>)>,
    /// Call-graph records in file order.
    pub(crate) edges: Vec<Edge>,
    /// Prototype records in file order.
    pub(crate) prototypes: Vec<(SymbolIndex, u32)>,
    /// Attributes of `.nv.compat`, if the file has one.
    pub(crate) compat: Option<Vec<Record<'d>>>,
}

impl<'d> RecordTables<'d> {
    /// Reads the records of `cubin`, whose sections have `roles`.
    pub(super) fn read(cubin: &Cubin<'d>, roles: &[Role]) -> Result<Self, Malformed> {
        let mut reader = Reader { cubin, tables: RecordTables::default(), prototype_bytes: 0 };
        for ((index, section), role) in cubin.section_indices().zip(roles) {
            reader.section(index, section, *role)?;
        }
        Ok(reader.tables)
    }

    /// Attribute sections in section order, with their records in file order.
    pub(crate) fn infos(&self) -> impl Iterator<Item = (SectionIndex, &[Record<'d>])> {
        self.infos.iter().map(|(index, range)| (*index, &self.attributes[range.clone()]))
    }

    /// The records of attribute section `index`, in file order.
    pub(crate) fn info_records(&self, index: SectionIndex) -> &[Record<'d>] {
        match self.infos.binary_search_by_key(&index, |info| info.0) {
            Ok(at) => &self.attributes[self.infos[at].1.clone()],
            Err(_) => &[],
        }
    }
}

/// The tables on their way.
struct Reader<'a, 'd> {
    cubin: &'a Cubin<'d>,
    tables: RecordTables<'d>,
    /// Bytes of all strings that call-graph and prototype records name.
    prototype_bytes: usize,
}

impl<'d> Reader<'_, 'd> {
    fn section(
        &mut self,
        index: SectionIndex,
        section: &Section<'d>,
        role: Role,
    ) -> Result<(), Malformed> {
        match role {
            Role::FileInfo | Role::FunctionInfo | Role::TwinInfo => self.read_info(index, section),
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

    fn read_info(&mut self, index: SectionIndex, section: &Section<'d>) -> Result<(), Malformed> {
        let start = self.tables.attributes.len();
        let mut at = 0u64;
        for record in Records::new(section.name, section.data) {
            let record = record?;
            self.check_info_record(section, at, &record)?;
            at += 4 + record.payload.len() as u64;
            self.tables.attributes.push(record);
        }
        self.tables.infos.push((index, start..self.tables.attributes.len()));
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
            self.tables.edges.push(edge);
        }
        Ok(())
    }

    fn read_prototypes(&mut self, section: &Section<'d>) -> Result<(), Malformed> {
        let records = (0u64..).step_by(8).zip(callgraph::prototypes(section));
        for (at, (function, prototype)) in records {
            self.check_function(section, at, function)?;
            self.check_string(section, at, Some(prototype))?;
            self.tables.prototypes.push((function, prototype));
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
