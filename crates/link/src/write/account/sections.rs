//! The sections of the output: their functions and their parts.
//!
//! In: the image. Out: [`OutputSection`]s in file order. Guaranteed: names, offsets and sizes are
//! those that are written.

use culd_cubin::Section;
use culd_cubin::encode::SectionHeader;
use culd_cubin::text_of;
use culd_reloc::RelocType;
use hashbrown::HashMap;

use super::super::types::TypeCounts;
use super::super::{Image, ImageWriter};
use super::{Contribution, KeptRelocations, OutputSection, OutputSectionKind, SectionSource};
use crate::base::derived_names::DerivedPrefix;
use crate::base::half::{Half, Halves};
use crate::base::id::{DenseId, IdVec, NameId, NodeId, SectionId};
use crate::draft::kind::SectionKind;
use crate::draft::merged::SectionPlacement;
use crate::draft::section::OutSection;
use crate::layout::numbers::Numbers;
use crate::relocs::kept::OutRecord;

/// The place of a section among those of the output, without the null section; `None` if the output
/// does not have it.
pub(super) fn place(numbers: &Numbers, section: SectionId) -> Option<u32> {
    // The null section is no row.
    numbers.index(section).checked_sub(1)
}

/// The sections of the output, their kinds, and the pieces that they are put together of.
pub(super) struct Sections {
    pub(super) kinds: Vec<OutputSectionKind>,
    pub(super) rows: Vec<OutputSection>,
    pub(super) pieces: Vec<Contribution>,
}

impl Sections {
    pub(super) fn of(image: &Image<'_, '_>) -> Self {
        let (kinds, mut rows) = rows_without_sources(image);
        let pieces = add_sources(image, &mut rows);
        Sections { kinds, rows, pieces }
    }
}

/// What sections have in common.
#[derive(PartialEq, Eq, Hash, Clone, Copy)]
struct KindKey<N> {
    sh_type: u32,
    flags: u64,
    align: u64,
    name: N,
}

impl<N> KindKey<N> {
    fn of(header: &SectionHeader, name: N) -> Self {
        let SectionHeader { sh_type, flags, align, .. } = *header;
        KindKey { sh_type, flags, align, name }
    }
}

/// The kinds of sections, in the order in which they are met.
#[derive(Default)]
struct Kinds<'n> {
    /// By the name, or its part in front of the name of a function.
    known: HashMap<KindKey<(&'n [u8], bool)>, u32>,
    all: Vec<OutputSectionKind>,
    /// By the known prefix in front of the name of a function: no name is read for it, as it would
    /// have to be fetched from memory.
    prefixed: HashMap<KindKey<DerivedPrefix>, u32>,
    /// The last of these. Sections of one kind mostly stand together.
    last: Option<(KindKey<DerivedPrefix>, u32)>,
}

impl<'n> Kinds<'n> {
    /// The kind of a section with a function. `derived` is the prefix of its name, if that is
    /// known, `names` gives its name and that of its function.
    fn of_function(
        &mut self,
        header: &SectionHeader,
        derived: Option<DerivedPrefix>,
        names: impl FnOnce() -> (&'n [u8], &'n [u8]),
    ) -> u32 {
        let by_name = |kinds: &mut Self| {
            let (name, function) = names();
            let prefix = name.strip_suffix(function);
            kinds.named(header, prefix.unwrap_or(name), prefix.is_some())
        };
        let Some(prefix) = derived else { return by_name(self) };
        let key = KindKey::of(header, prefix);
        if let Some((last, kind)) = self.last
            && last == key
        {
            return kind;
        }
        let known = self.prefixed.get(&key).copied();
        let kind = known.unwrap_or_else(|| by_name(self));
        self.prefixed.insert(key, kind);
        self.last = Some((key, kind));
        kind
    }

    /// The kind of a section with this name, or with this part of the name in front of that of its
    /// function.
    fn named(&mut self, header: &SectionHeader, name: &'n [u8], of_function: bool) -> u32 {
        let all = &mut self.all;
        *self.known.entry(KindKey::of(header, (name, of_function))).or_insert_with(|| {
            let SectionHeader { sh_type, flags, align, .. } = *header;
            all.push(OutputSectionKind { name: text_of(name), of_function, sh_type, flags, align });
            all.len() as u32 - 1
        })
    }
}

/// The functions to which sections belong. A function has several sections, far from each other:
/// what is known of it stands together, so that it is fetched from memory once.
struct Owners<'i> {
    image: &'i Image<'i, 'i>,
    /// By section of code that was met: its function.
    known: IdVec<SectionId, Option<NodeId>>,
    /// By function: its name.
    names: IdVec<NodeId, NameId>,
}

impl<'i> Owners<'i> {
    fn of(image: &'i Image<'i, 'i>) -> Self {
        let program = &image.program;
        let (graph, draft) = (&program.graph, &program.merged.draft);
        let name = |node| draft.symbols[program.merged.function(graph, node)].name;
        let known = IdVec::filled(None, draft.sections.len());
        Owners { image, known, names: graph.nodes.ids().map(name).collect() }
    }

    /// The function to which a section belongs. Code belongs to its function, other sections to the
    /// function of the code that they name.
    fn owner(&mut self, id: SectionId) -> Option<NodeId> {
        let draft = &self.image.program.merged.draft;
        let section = &draft.sections[id];
        let code = match section.kind {
            SectionKind::Text => id,
            SectionKind::Reloc | SectionKind::Resolved => {
                let target = section.owner?;
                draft.sections[target].owner.unwrap_or(target)
            }
            SectionKind::CuInfo => return None,
            _ => section.owner?,
        };
        if self.known[code].is_none() {
            self.known[code] = self.function(code);
        }
        self.known[code]
    }

    /// That function with its name.
    fn named_owner(&mut self, id: SectionId) -> Option<(NodeId, NameId)> {
        self.owner(id).map(|node| (node, self.names[node]))
    }

    /// The function of a section of code.
    fn function(&self, code: SectionId) -> Option<NodeId> {
        let program = &self.image.program;
        let draft = &program.merged.draft;
        let symbol = draft.sections[code].function?;
        program.graph.node(draft.symbols[symbol].program?)
    }
}

/// The sections by the headers that are written, without that of the null section.
fn rows_without_sources(image: &Image<'_, '_>) -> (Vec<OutputSectionKind>, Vec<OutputSection>) {
    let program = &image.program;
    let (numbers, draft) = (&image.layout.numbers, &program.merged.draft);
    let strings = SectionNames::of(image);
    let writer = ImageWriter::new(image);
    let tables = writer.table_headers();
    let mut kinds = Kinds::default();
    let mut owners = Owners::of(image);
    // `id` is the section, if its name in the draft is the one that is written.
    let mut row = |header: SectionHeader, place, id: Option<SectionId>, function| {
        let kind = match function {
            None => kinds.named(&header, strings.get(place, &header), false),
            Some((_, function)) => {
                let derived =
                    id.and_then(|id| draft.names.derived_prefix(draft.sections[id].name, function));
                let names = || (strings.get(place, &header), draft.names.get(function));
                kinds.of_function(&header, derived, names)
            }
        };
        OutputSection {
            kind,
            function: function.map(|(node, _): (NodeId, _)| node.index() as u32),
            offset: header.offset,
            size: header.size,
            source: SectionSource::Linker,
        }
    };
    let count = image.layout.section_count().saturating_sub(1);
    let mut rows = Vec::with_capacity(count);
    // The null section is no row.
    let first = numbers.first_index() as usize - 1;
    rows.extend(
        (0..first).map(|place| row(writer.section_header(&tables, place + 1), place, None, None)),
    );
    let own_names = strings.table.is_none();
    let own = numbers.order.iter().zip(first..);
    rows.extend(own.map(|(&id, place)| {
        let header = match own_names {
            true => writer.header_alone(id),
            false => writer.own_header(id),
        };
        row(header, place, own_names.then_some(id), owners.named_owner(id))
    }));
    // Sections of the Mercury half belong to the function of their counterpart.
    let mut counterparts = vec![None; count.saturating_sub(rows.len())];
    if let Some(mercury) = &image.layout.mercury {
        for &id in &mercury.order {
            let at = (mercury.index(id) as usize).checked_sub(1 + rows.len());
            if let Some(counterpart) = at.and_then(|at| counterparts.get_mut(at)) {
                *counterpart = place(numbers, id).map(|_| id);
            }
        }
    }
    let others = counterparts.into_iter().zip(rows.len()..);
    rows.extend(others.map(|(id, place)| {
        let function = id.and_then(|id| owners.named_owner(id));
        row(writer.section_header(&tables, place + 1), place, None, function)
    }));
    (kinds.all, rows)
}

/// Notes what the objects bring to each section; returns the pieces of those that come from no
/// object as a whole. Sections whose bytes the linker makes have none.
fn add_sources(image: &Image<'_, '_>, rows: &mut [OutputSection]) -> Vec<Contribution> {
    let (merged, contents) = (&image.program.merged, &image.contents.sass);
    let pool = merged.draft.first_of(SectionKind::PoolShared);
    // With the section of each.
    let mut pieces: Vec<(u32, Contribution)> = Vec::new();
    for (object, file) in image.program.objects.iter() {
        for (index, section) in file.cubin.section_indices() {
            let SectionPlacement::At { section: out, base } = merged.placement(object, index)
            else {
                continue;
            };
            // Variables of the pool of shared memory are placed one by one.
            if contents.has(out) || Some(out) == pool {
                continue;
            }
            let Some(place) = place(&image.layout.numbers, out) else { continue };
            let row = &mut rows[place as usize];
            let object = object.index() as u32;
            // Shared memory is laid out anew, and may need less than it had.
            let size = section.size.min(row.size.saturating_sub(base));
            if size == 0 {
                continue;
            }
            let piece = Contribution { object, offset: base, size };
            let whole = piece.offset == 0 && piece.size == row.size;
            let output = &merged.draft.sections[out];
            // Most sections come from one object as a whole.
            match row.source {
                SectionSource::Linker if whole => {
                    row.source = SectionSource::Object(piece.object);
                    continue;
                }
                // A copy that was replaced, or whose parameters are not those that are written, has
                // the place of the copy that counts.
                _ if has_copies(output.kind) && !holds(output, section, base) => continue,
                SectionSource::Object(_) if has_copies(output.kind) && whole => {
                    row.source = SectionSource::Object(piece.object);
                    continue;
                }
                SectionSource::Object(object) => {
                    pieces.push((place, Contribution { object, offset: 0, size: row.size }));
                }
                SectionSource::Linker | SectionSource::Pieces(..) => {}
            }
            row.source = SectionSource::Pieces(0, 0);
            pieces.push((place, piece));
        }
    }
    pieces.sort_by_key(|(place, piece)| (*place, piece.offset));
    let mut first = 0;
    for own in pieces.chunk_by(|one, other| one.0 == other.0) {
        rows[own[0].0 as usize].source = SectionSource::Pieces(first, own.len() as u32);
        first += own.len() as u32;
    }
    pieces.into_iter().map(|(_, piece)| piece).collect()
}

/// True if several objects may have the same place in such a section: copies of a function.
fn has_copies(kind: SectionKind) -> bool {
    matches!(kind, SectionKind::Text | SectionKind::JumpSlots | SectionKind::Constant(_))
}

/// True if the bytes of `section`, which starts at `base`, are among those of `output`.
fn holds(output: &OutSection<'_>, section: &Section<'_>, base: u64) -> bool {
    let chunks = &output.chunks;
    let from = chunks.partition_point(|chunk| chunk.offset < base);
    let data = section.data.as_ptr_range();
    chunks.get(from).is_some_and(|chunk| data.contains(&chunk.bytes.as_ptr()))
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

/// How many relocation records of each type the output has: those that were counted when they were
/// written, or else those that will be written.
pub(super) fn kept(image: &Image<'_, '_>) -> Vec<KeptRelocations> {
    let row = |(kind, count)| KeptRelocations { kind, name: RelocType(kind).to_string(), count };
    let counted = image.types.as_ref().map(TypeCounts::all).unwrap_or_default();
    let counts = TypeCounts::default();
    let Halves { sass, mercury } = &image.relocated;
    if counted.is_empty() {
        for relocated in std::iter::once(sass).chain(mercury) {
            for id in relocated.sections.ids() {
                let count = |record: OutRecord| counts.add_many((record.kind, 1));
                relocated.each_kept(&image.program.objects, id, count);
            }
        }
    }
    counted.into_iter().for_each(|row| counts.add_many(row));
    // The driver fills the slots of textures, whose records no input has.
    let slots = &image.program.data.slots;
    let halves = std::iter::once(Half::Sass).chain(mercury.as_ref().map(|_| Half::Mercury));
    for half in halves {
        for slot in slots.users.iter().flat_map(|user| slots.filled_for(user)) {
            counts.add_many((slots.record(slot, half).relocation_type, 1));
        }
    }
    counts.all().into_iter().map(row).collect()
}
