//! The sections of the output: their functions and their parts.
//!
//! In: the image. Out: [`Sections`], in file order. Guaranteed: names, offsets and sizes are those
//! that are written.

use std::collections::BTreeMap;

use culd_cubin::text_of;
use culd_reloc::RelocType;

use super::super::{Image, ImageWriter};
use super::{Contribution, KeptRelocations, OutputSection};
use crate::base::half::Halves;
use crate::base::id::{DenseId, IdVec, NodeId, SectionId};
use crate::draft::kind::SectionKind;
use crate::draft::merged::SectionPlacement;
use crate::program::LinkedProgram;
use crate::relocs::relocated::ResolvedRelocs;

/// The sections of the output.
pub(super) struct Sections {
    pub(super) rows: Vec<OutputSection>,
    /// By section of the draft: its place in `rows`.
    places: IdVec<SectionId, Option<usize>>,
}

impl Sections {
    pub(super) fn of(image: &Image<'_, '_>) -> Self {
        let program = &image.program;
        let draft = &program.merged.draft;
        let mut places = IdVec::filled(None, draft.sections.len());
        let first = image.layout.numbers.first_index() as usize;
        for (place, &id) in image.layout.numbers.order.iter().enumerate() {
            // The null section is no row.
            places[id] = Some(first - 1 + place);
        }
        let mut sections = Sections { rows: headers(image), places };
        sections.name_owners(program);
        sections.name_owners_of_counterparts(image);
        sections.add_pieces(image);
        sections
    }

    /// The place of a section of the draft; `None` if the output does not have it.
    pub(super) fn of_draft(&self, section: SectionId) -> Option<usize> {
        self.places[section]
    }

    /// Notes the function to which each section belongs: code to its function, others to the
    /// function of the code that they name.
    fn name_owners(&mut self, program: &LinkedProgram<'_, '_>) {
        let draft = &program.merged.draft;
        let of_code = |code: SectionId| -> Option<NodeId> {
            let symbol = draft.sections[code].function?;
            program.graph.node(draft.symbols[symbol].program?)
        };
        for (id, section) in draft.sections.iter() {
            let Some(place) = self.places[id] else { continue };
            let code = match section.kind {
                SectionKind::Text => Some(id),
                SectionKind::Reloc | SectionKind::Resolved => {
                    section.owner.map(|target| draft.sections[target].owner.unwrap_or(target))
                }
                SectionKind::CuInfo => None,
                _ => section.owner,
            };
            self.rows[place].function = code.and_then(of_code).map(DenseId::index);
        }
    }

    /// Sections of the Mercury half belong to the function of their counterpart.
    fn name_owners_of_counterparts(&mut self, image: &Image<'_, '_>) {
        let Some(mercury) = &image.layout.mercury else { return };
        for &id in &mercury.order {
            // The null section is no row.
            let row = (mercury.index(id) as usize).checked_sub(1);
            let function = self.places[id].and_then(|place| self.rows[place].function);
            if let Some(row) = row.and_then(|row| self.rows.get_mut(row)) {
                row.function = function;
            }
        }
    }

    /// Notes the pieces of each object. Sections whose bytes the linker makes have none.
    fn add_pieces(&mut self, image: &Image<'_, '_>) {
        let (merged, contents) = (&image.program.merged, &image.contents.sass);
        for (object, file) in image.program.objects.iter() {
            for (index, section) in file.cubin.section_indices() {
                let SectionPlacement::At { section: out, base } = merged.placement(object, index)
                else {
                    continue;
                };
                let made = contents.size(out).is_some();
                let Some(place) = self.places[out].filter(|_| section.size != 0 && !made) else {
                    continue;
                };
                let piece =
                    Contribution { object: object.index(), offset: base, size: section.size };
                self.rows[place].pieces.push(piece);
            }
        }
        for row in &mut self.rows {
            row.pieces.sort_by_key(|piece| piece.offset);
        }
    }
}

/// The section headers that are written, without that of the null section.
fn headers(image: &Image<'_, '_>) -> Vec<OutputSection> {
    let writer = ImageWriter::new(image);
    let tables = writer.table_headers();
    let strings = &image.layout.section_strings;
    let mut names = vec![0; strings.len()];
    strings.write(&image.program.merged.draft.names, 0, &mut names);
    let row = |row: usize| {
        let header = writer.section_header(&tables, row);
        let name = names.get(header.name as usize..).unwrap_or_default();
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        OutputSection {
            name: text_of(name),
            sh_type: header.sh_type,
            flags: header.flags,
            offset: header.offset,
            size: header.size,
            align: header.align,
            function: None,
            pieces: Vec::new(),
        }
    };
    (1..image.layout.section_count()).map(row).collect()
}

/// How many relocation records of each type the output has.
pub(super) fn kept(image: &Image<'_, '_>) -> Vec<KeptRelocations> {
    let Halves { sass, mercury } = &image.relocated;
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    let mut count = |relocated: &ResolvedRelocs| {
        for id in relocated.sections.ids() {
            relocated.each_kept(&image.program.objects, id, |record| {
                *counts.entry(record.kind).or_default() += 1;
            });
        }
    };
    count(sass);
    mercury.iter().for_each(count);
    let row = |(kind, count)| KeptRelocations { kind, name: RelocType(kind).to_string(), count };
    counts.into_iter().map(row).collect()
}
