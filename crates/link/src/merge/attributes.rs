//! Merging, fourth step of a file: its attributes.

use culd_cubin::Section;
use culd_cubin::attr::Record;
use culd_cubin::elf::{shf, sht};

use super::Merger;
use super::unlisted::UnlistedSection;
use crate::base::derived_names::Prefix;
use crate::base::id::{NameId, ObjectId, SectionId};
use crate::draft::kind::SectionKind;
use crate::draft::merged::{FileRecord, InfoSource, SectionPlacement};
use crate::objects::object::InputObject;
use crate::objects::outline::AttributeSectionRef;
use crate::objects::records::names_reference;
use crate::objects::roles::SectionRole;
use crate::options::form::FileForm;
use crate::symbols::Fate;

impl<'d> Merger<'_, 'd> {
    /// Merges `.nv.info` first, then the attributes of each function.
    pub(super) fn attributes(&mut self, id: ObjectId, object: &InputObject<'d>) {
        use culd_cubin::attr::code;
        // Attribute 0 is an error marker, see `attributes`.
        for record in object.file_records().filter(|record| record.code != 0) {
            let about = matches!(
                record.code,
                code::FRAME_SIZE
                    | code::MIN_STACK_SIZE
                    | code::REGCOUNT
                    | code::MAX_STACK_SIZE
                    | code::CRS_STACK_SIZE
                    | code::SAM_REGION_STACK_SIZE
            );
            if about {
                self.record_about_symbol(id, &record);
            } else if names_reference(&record) {
                self.record_about_reference(id, record);
            } else if record.code != code::LOAD_CACHE_REQUEST {
                // The output has this attribute for functions only (`tests/invalid_values.rs`).
                self.merged.file_records.push(FileRecord::Other(Box::new(record)));
            }
        }
        let infos = &object.outline.attribute_sections;
        let late = self.infos_before_compat(object);
        let (front, behind) = infos.split_at(late.unwrap_or(infos.len()));
        front.iter().for_each(|&info| self.function_info(id, object, info));
        if late.is_some() {
            self.merged.draft.add_late_compat(&mut self.merged.fixed);
        }
        behind.iter().for_each(|&info| self.function_info(id, object, info));
    }

    /// The number of functions whose attributes are in front of `.nv.compat` in the first file that
    /// has it, if the output gets its own with it. Attributes of Mercury have the order of those of
    /// machine code.
    fn infos_before_compat(&self, object: &InputObject<'d>) -> Option<usize> {
        if self.merged.draft.form != FileForm::Version || self.merged.fixed.compat.is_some() {
            return None;
        }
        let sections = &object.cubin.sections;
        let compat = sections.iter().position(|section| section.sh_type == sht::CUDA_COMPAT)?;
        let of_function = |section: &&Section<'_>| {
            section.sh_type == sht::CUDA_INFO && section.info_section().is_some()
        };
        let count = sections[..compat].iter().filter(of_function).count();
        Some(count.min(object.outline.attribute_sections.len()))
    }

    /// Keeps a record about a texture, sampler or surface reference: all of these count.
    fn record_about_reference(&mut self, id: ObjectId, record: Record<'d>) {
        let Some(index) = record.word(0) else { return };
        let program = self.symbols.of(id, culd_cubin::SymbolIndex(index));
        if let Some(symbol) = program.and_then(|program| self.merged.out_symbol(program)) {
            let record = Box::new(record);
            self.merged.file_records.push(FileRecord::Reference { symbol, record });
        }
    }

    /// Keeps a record about a function if this file's copy counts, or if this file only refers to
    /// the function.
    fn record_about_symbol(&mut self, id: ObjectId, record: &Record<'d>) {
        use culd_cubin::SymbolIndex;
        let (Some(index), Some(number)) = (record.word(0), record.word(1)) else { return };
        let index = SymbolIndex(index);
        let program = self.symbols.of(id, index);
        let Some(function) = program.and_then(|program| self.merged.out_symbol(program)) else {
            return;
        };
        // An object has no section of all slots.
        if self.merged.unified.slots_table.is_some() && self.merged.is_jump_slot(function) {
            return;
        }
        if matches!(self.symbols.fate(id, index), Fate::Chosen | Fate::Reference) {
            let code = record.code;
            self.merged.file_records.push(FileRecord::About { code, function, number });
        }
    }

    fn function_info(&mut self, id: ObjectId, object: &InputObject<'d>, info: AttributeSectionRef) {
        let input = object.section(info.section);
        let SectionPlacement::At { section: code, .. } = self.placement(id, info.code) else {
            self.count_of_dead(id, object, info.code, UnlistedSection::Attributes);
            return;
        };
        let node = self.node_of_text.get(code);
        let Some(node) = node.or_else(|| self.slot_node(id, object, input)) else { return };
        let section = self.info_of_code.get(code).unwrap_or_else(|| {
            if self.merged.unified.slots_table == Some(code) {
                return self.first_slots_info(code);
            }
            let program = self.graph.nodes[node];
            let own = info.function.and_then(|function| self.symbols.of(id, function));
            let names = &mut self.merged.draft.names;
            let function = self.symbols.all[program].name;
            let name = if own == Some(program) {
                names.derived_input(input.name, Prefix::Info, function)
            } else if object.role(info.code) == SectionRole::JumpSlot {
                // CUDA 12 names them after the section (case unified/slots-of-12-9).
                names.derived(Prefix::Info, function)
            } else {
                names.intern(input.name)
            };
            self.info_section(name, code)
        });
        let read = self.infos_read;
        self.infos_read += 1;
        let size = input.data.len();
        let source = InfoSource { section, object: id, input: info.section, size, read };
        self.merged.function_infos[node] = Some(source);
    }
}

impl Merger<'_, '_> {
    /// Creates the attribute section of the function whose code is `code`.
    pub(super) fn info_section(&mut self, name: NameId, code: SectionId) -> SectionId {
        let kind = SectionKind::FunctionInfo;
        let section = self.merged.draft.add_section(name, kind, shf::INFO_LINK, 4);
        self.merged.draft.sections[section].owner = Some(code);
        self.info_of_code.insert(code, section);
        section
    }
}
