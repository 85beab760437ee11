//! The sections of the output: their functions and their parts.
//!
//! In: the image. Out: [`OutputSection`]s in file order. Guaranteed: names, offsets and sizes are
//! those that are written.

use std::collections::BTreeMap;

use culd_cubin::encode::SectionHeader;
use culd_cubin::text_of;
use culd_reloc::RelocType;
use hashbrown::HashMap;

use super::super::{Image, ImageWriter};
use super::{Contribution, KeptRelocations, OutputSection, OutputSectionKind};
use crate::base::half::Halves;
use crate::base::id::{DenseId, IdVec, NodeId, SectionId};
use crate::draft::kind::SectionKind;
use crate::draft::merged::SectionPlacement;
use crate::relocs::relocated::ResolvedRelocs;

/// By section of the draft: its place among the sections of the output, without the null section;
/// `None` if the output does not have it.
pub(super) type Places = IdVec<SectionId, Option<usize>>;

/// The places of the sections.
pub(super) fn places(image: &Image<'_, '_>) -> Places {
    let mut places = IdVec::filled(None, image.program.merged.draft.sections.len());
    let first = image.layout.numbers.first_index() as usize;
    for (place, &id) in image.layout.numbers.order.iter().enumerate() {
        // The null section is no row.
        places[id] = Some(first - 1 + place);
    }
    places
}

/// The sections of the output, and their kinds.
pub(super) fn rows(
    image: &Image<'_, '_>,
    places: &Places,
) -> (Vec<OutputSectionKind>, Vec<OutputSection>) {
    let (kinds, mut rows) = rows_without_pieces(image, &owners(image, places));
    add_pieces(image, places, &mut rows);
    (kinds, rows)
}

/// What sections have in common, with borrowed names.
#[derive(PartialEq, Eq, Hash, Clone, Copy)]
struct KindKey<'n> {
    name: &'n [u8],
    of_function: bool,
    sh_type: u32,
    flags: u64,
    align: u64,
}

/// By section of the output: the function to which it belongs. Code belongs to its function, other
/// sections to the function of the code that they name.
fn owners(image: &Image<'_, '_>, places: &Places) -> Vec<Option<NodeId>> {
    let program = &image.program;
    let draft = &program.merged.draft;
    let of_code = |code: SectionId| -> Option<NodeId> {
        let symbol = draft.sections[code].function?;
        program.graph.node(draft.symbols[symbol].program?)
    };
    let mut owners = vec![None; image.layout.section_count().saturating_sub(1)];
    for (id, section) in draft.sections.iter() {
        let Some(place) = places[id] else { continue };
        let code = match section.kind {
            SectionKind::Text => Some(id),
            SectionKind::Reloc | SectionKind::Resolved => {
                section.owner.map(|target| draft.sections[target].owner.unwrap_or(target))
            }
            SectionKind::CuInfo => None,
            _ => section.owner,
        };
        owners[place] = code.and_then(of_code);
    }
    // Sections of the Mercury half belong to the function of their counterpart.
    let Some(mercury) = &image.layout.mercury else { return owners };
    for &id in &mercury.order {
        // The null section is no row.
        let row = (mercury.index(id) as usize).checked_sub(1);
        let function = places[id].and_then(|place| owners[place]);
        if let Some(row) = row.and_then(|row| owners.get_mut(row)) {
            *row = function;
        }
    }
    owners
}

/// The sections by the headers that are written, without that of the null section.
fn rows_without_pieces(
    image: &Image<'_, '_>,
    owners: &[Option<NodeId>],
) -> (Vec<OutputSectionKind>, Vec<OutputSection>) {
    let program = &image.program;
    let names = &program.merged.draft.names;
    let strings = SectionNames::of(image);
    let writer = ImageWriter::new(image);
    let tables = writer.table_headers();
    let mut known: HashMap<KindKey<'_>, usize> = HashMap::new();
    let mut kinds: Vec<KindKey<'_>> = Vec::new();
    let mut last: Option<(KindKey<'_>, usize)> = None;
    let mut row = |(place, &owner): (usize, &Option<NodeId>)| {
        let header = writer.section_header(&tables, place + 1);
        let name = strings.get(place, &header);
        let function = owner.map(|node| {
            let function = program.merged.function(&program.graph, node);
            names.get(program.merged.draft.symbols[function].name)
        });
        let prefix = function.and_then(|function| name.strip_suffix(function));
        let key = KindKey {
            name: prefix.unwrap_or(name),
            of_function: prefix.is_some(),
            sh_type: header.sh_type,
            flags: header.flags,
            align: header.align,
        };
        // Sections of one kind mostly stand together.
        let kind = match last {
            Some((last_key, kind)) if last_key == key => kind,
            _ => *known.entry(key).or_insert_with(|| {
                kinds.push(key);
                kinds.len() - 1
            }),
        };
        last = Some((key, kind));
        OutputSection {
            kind,
            offset: header.offset,
            size: header.size,
            function: owner.map(DenseId::index),
            object: None,
            pieces: Vec::new(),
        }
    };
    let rows = owners.iter().enumerate().map(&mut row).collect();
    let kind = |key: KindKey<'_>| OutputSectionKind {
        name: text_of(key.name),
        of_function: key.of_function,
        sh_type: key.sh_type,
        flags: key.flags,
        align: key.align,
    };
    (kinds.into_iter().map(kind).collect(), rows)
}

/// Notes the pieces of each object. Sections whose bytes the linker makes have none.
fn add_pieces(image: &Image<'_, '_>, places: &Places, rows: &mut [OutputSection]) {
    let (merged, contents) = (&image.program.merged, &image.contents.sass);
    for (object, file) in image.program.objects.iter() {
        for (index, section) in file.cubin.section_indices() {
            let SectionPlacement::At { section: out, base } = merged.placement(object, index)
            else {
                continue;
            };
            let made = contents.size(out).is_some();
            let Some(place) = places[out].filter(|_| section.size != 0 && !made) else {
                continue;
            };
            let piece = Contribution { object: object.index(), offset: base, size: section.size };
            rows[place].add_piece(piece);
        }
    }
    for row in rows.iter_mut().filter(|row| row.pieces.len() > 1) {
        row.pieces.sort_by_key(|piece| piece.offset);
    }
}

impl OutputSection {
    /// Most sections come from one object as a whole: they need no list.
    fn add_piece(&mut self, piece: Contribution) {
        if let Some(object) = self.object.take() {
            self.pieces.push(Contribution { object, offset: 0, size: self.size });
        }
        match self.pieces[..] {
            [] if piece.offset == 0 && piece.size == self.size => self.object = Some(piece.object),
            _ => self.pieces.push(piece),
        }
    }
}

/// The names of the sections of the output.
struct SectionNames<'i> {
    image: &'i Image<'i, 'i>,
    /// The string table, if there are two halves: only it has the names of Mercury sections, and
    /// the names under which machine code is written.
    table: Option<Vec<u8>>,
}

/// The names of the tables, which come first.
const TABLES: [&[u8]; 4] = [b".shstrtab", b".strtab", b".symtab", b".symtab_shndx"];

impl<'i> SectionNames<'i> {
    fn of(image: &'i Image<'i, 'i>) -> Self {
        let table = image.layout.mercury.is_some().then(|| {
            let strings = &image.layout.section_strings;
            let mut table = vec![0; strings.len()];
            strings.write(&image.program.merged.draft.names, 0, &mut table);
            table
        });
        SectionNames { image, table }
    }

    /// The name of the section at a place among those of the output.
    fn get(&self, place: usize, header: &SectionHeader) -> &[u8] {
        if let Some(table) = &self.table {
            let name = table.get(header.name as usize..).unwrap_or_default();
            return name.split(|&byte| byte == 0).next().unwrap_or_default();
        }
        let numbers = &self.image.layout.numbers;
        let tables = numbers.first_index() as usize - 1;
        let draft = &self.image.program.merged.draft;
        let Some(place) = place.checked_sub(tables) else {
            return TABLES.get(place).copied().unwrap_or_default();
        };
        let section = numbers.order.get(place).map(|&id| draft.sections[id].name);
        section.map_or(&[], |name| draft.names.get(name))
    }
}

/// How many relocation records of each type the output has.
pub(super) fn kept(image: &Image<'_, '_>) -> Vec<KeptRelocations> {
    let Halves { sass, mercury } = &image.relocated;
    // Types are small numbers; a table is faster than a map.
    let mut counts = vec![0u64; FEW_TYPES as usize];
    let mut others: BTreeMap<u32, u64> = BTreeMap::new();
    let mut count = |relocated: &ResolvedRelocs| {
        for id in relocated.sections.ids() {
            relocated.each_kept(&image.program.objects, id, |record| {
                match counts.get_mut(record.kind as usize) {
                    Some(count) => *count += 1,
                    None => *others.entry(record.kind).or_default() += 1,
                }
            });
        }
    };
    count(sass);
    mercury.iter().for_each(count);
    let few = (0..FEW_TYPES).zip(counts).filter(|row| row.1 != 0);
    let row = |(kind, count)| KeptRelocations { kind, name: RelocType(kind).to_string(), count };
    few.chain(others).map(row).collect()
}

/// Types of relocations below this number have a place in a table.
const FEW_TYPES: u32 = 256;
