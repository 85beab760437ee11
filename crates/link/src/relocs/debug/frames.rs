//! `.debug_frame`, rebuilt for the functions in the output.
//!
//! A *frame* is a common entry (CIE) followed by the entry of a function (FDE); ptxas writes one
//! for each function. The Mercury half's section says which functions have one, and in what order;
//! the bytes come from the machine code. If the machine code has no unused frame for a function,
//! because the function has another name or occurred before, nvlink makes a frame without
//! operations from the Mercury half's (cases alias/*, attributes/order-of-replaced).

use culd_cubin::arch::Flavour;
use culd_cubin::{Malformed, SectionIndex, SymbolIndex};

use super::{DebugBuilder, DebugSection, InputSection, SlotPlace};
use crate::base::half::Half;
use crate::base::id::{IdMap, IdVec, ObjectId, SectionId, SymbolId};
use crate::base::session::Session;
use crate::diag::Message;
use crate::draft::jump_slots;
use crate::draft::offset_map::MovedRange;
use crate::objects::InputObjects;
use crate::objects::object::InputObject;
use crate::objects::roles::SectionRole;
use crate::options::LinkOptions;
use crate::symbols::SymbolSite;

/// The name of the section.
const NAME: &[u8] = b".debug_frame";
/// First word of an entry in 64-bit DWARF.
const WIDE: u32 = 0xffff_ffff;
/// Bytes before the contents: that word and the length.
const HEAD: usize = 12;
/// The value in a CIE where an FDE has the offset of its CIE.
const COMMON: [u8; 8] = [0xff; 8];
/// Bytes of an FDE before the address, and up to the end of the code length that follows it.
const ADDRESS: usize = HEAD + 8;
const BARE: usize = ADDRESS + 16;

/// The FDE of a function with its CIE.
#[derive(Debug, Clone, Copy)]
struct DebugFrame<'d> {
    common: &'d [u8],
    /// Offset of the CIE in its section.
    common_at: u64,
    entry: &'d [u8],
}

/// A frame in an input section.
struct PlacedFrame<'d> {
    /// Offset of the function's address, bytes.
    address_at: u64,
    function: SymbolIndex,
    frame: DebugFrame<'d>,
}

/// The frames of an input section in one half, by offset.
type PlacedFrames<'d> = Vec<PlacedFrame<'d>>;

/// The frame of a function.
struct FunctionFrame<'d> {
    function: SymbolIndex,
    frame: DebugFrame<'d>,
}

/// The frames of machine code in an input section.
#[derive(Default)]
struct SassFrames<'d> {
    /// One for each function, by function.
    by_function: Vec<FunctionFrame<'d>>,
    /// All, in section order, if functions have several.
    all: Vec<DebugFrame<'d>>,
}

/// An FDE of the Mercury half whose function is in the output.
struct FrameEntry<'d> {
    /// Its number in the section.
    number: u32,
    /// The function whose frame of machine code replaces it.
    definition: Option<(SymbolId, SymbolSite)>,
    /// That frame, if it is in the same section.
    own: Option<DebugFrame<'d>>,
    /// The code length to write then, bytes.
    length: Option<u64>,
    /// `own` is the frame with the same number: functions of the object have several.
    paired: bool,
}

/// The rebuilt section.
pub(super) struct FrameSection {
    pub(super) section: SectionId,
    pub(super) bytes: Vec<u8>,
    /// By input section of the Mercury half: the new places of addresses.
    pub(super) copied: Vec<(InputSection, Vec<MovedRange>)>,
}

/// An input section, parsed in both halves.
struct ParsedFrames<'d> {
    of: InputSection,
    sass: Result<SassFrames<'d>, Box<Message>>,
    mercury: Result<PlacedFrames<'d>, Box<Message>>,
}

/// All `.debug_frame` sections of the inputs, parsed; needs no other phase's result.
#[derive(Default)]
pub(crate) struct DebugFrames<'d> {
    parsed: Vec<ParsedFrames<'d>>,
}

impl<'d> DebugFrames<'d> {
    pub(crate) fn parse(objects: &InputObjects<'d>, options: &LinkOptions) -> Self {
        let mut parsed = Vec::new();
        if options.target.flavour != Flavour::Mercury {
            return DebugFrames::default();
        }
        for (id, object) in objects.iter() {
            for ((index, section), role) in object.cubin.section_indices().zip(&object.roles) {
                if *role == SectionRole::Debug && section.name == NAME {
                    let sass = sass_frames(object, index);
                    let mercury = placed(object, index, Half::Mercury);
                    parsed.push(ParsedFrames { of: (id, index), sass, mercury });
                }
            }
        }
        DebugFrames { parsed }
    }

    /// The parsed frames of `inputs`, which are some of the sections, in their order. Errors in
    /// machine code come first.
    fn of(self, inputs: &[DebugSection]) -> Result<InputFrames<'d>, Message> {
        let mut inputs = inputs.iter().map(|input| (input.object, input.index)).peekable();
        let parsed = self.parsed.into_iter();
        let wanted = parsed.filter(|parsed| inputs.next_if_eq(&parsed.of).is_some());
        let (sass, mercury): (Vec<_>, Vec<_>) =
            wanted.map(|parsed| (parsed.sass, parsed.mercury)).unzip();
        let sass: Result<_, Box<Message>> = sass.into_iter().collect();
        let sass = sass.map_err(|message| *message)?;
        let mercury: Result<_, Box<Message>> = mercury.into_iter().collect();
        let mercury = mercury.map_err(|message| *message)?;
        Ok(InputFrames { sass, mercury })
    }
}

/// The frames of the input sections that are in the output, by input section.
struct InputFrames<'d> {
    sass: Vec<SassFrames<'d>>,
    mercury: Vec<PlacedFrames<'d>>,
}

/// Rebuilds the section, if there is one.
pub(super) fn build<'d>(
    session: &Session,
    builder: &DebugBuilder<'_, 'd>,
    frames: DebugFrames<'d>,
) -> Result<Option<FrameSection>, Message> {
    let inputs = builder.inputs(NAME);
    let Some(&DebugSection { output: section, .. }) = inputs.first() else { return Ok(None) };
    let InputFrames { sass, mercury } = frames.of(&inputs)?;
    let entries = |place: usize| {
        let id = inputs[place].object;
        // An object may have several sections; the first frame of a function counts.
        let before = place.checked_sub(1).map(|before| inputs[before].object);
        let first: &[_] = if before == Some(id) { &[] } else { &sass[place].by_function };
        entries(builder, id, first, &sass[place].all, &mercury[place])
    };
    let data = |input: &DebugSection| builder.objects[input.object].section(input.index).data;
    let size: usize = inputs.iter().map(|input| data(input).len()).sum();
    let all_entries = session.map(inputs.len(), 4 * size, entries);
    let mut first_input = IdMap::default();
    for (place, input) in inputs.iter().enumerate().rev() {
        first_input.insert(input.object, place);
    }
    let find = |site: SymbolSite| {
        let inputs = inputs.iter().zip(&sass).skip(first_input.get(site.object)?);
        let mut of_object = inputs.take_while(|(input, _)| input.object == site.object);
        of_object.find_map(|(_, sass)| frame_of(&sass.by_function, site.index))
    };
    let mut output = FrameSection {
        section,
        bytes: Vec::with_capacity(size),
        copied: Vec::with_capacity(inputs.len()),
    };
    let mut taken = IdVec::filled(false, builder.symbols.all.len());
    for ((input, placed), entries) in inputs.iter().zip(&mercury).zip(all_entries) {
        let mut copied = Vec::with_capacity(entries.len());
        for FrameEntry { number, definition, own, length, paired } in entries {
            let PlacedFrame { address_at: from, frame, .. } = &placed[number as usize];
            if let Some(own) = own.filter(|_| paired) {
                // The CIE says where the function returns to, and has an address itself.
                let to = output.bytes.len() as u64;
                let size = frame.common.len() as u64;
                copied.push(MovedRange { from: frame.common_at, to, size });
                let to = copy(&mut output.bytes, &own, own.entry.len());
                copied.push(MovedRange { from: *from, to, size: 8 });
                continue;
            }
            let definition =
                definition.filter(|&(program, _)| !std::mem::replace(&mut taken[program], true));
            let found = definition.and_then(|(_, site)| own.or_else(|| find(site)));
            let to = match found {
                Some(frame) => copy_with_length(&mut output.bytes, &frame, length),
                None => plain(&mut output.bytes, frame),
            };
            copied.push(MovedRange { from: *from, to, size: 8 });
        }
        output.copied.push(((input.object, input.index), copied));
    }
    Ok(Some(output))
}

/// Appends a frame of machine code for a function with `length` bytes of code, if that is known;
/// returns the offset of the address.
fn copy_with_length(out: &mut Vec<u8>, frame: &DebugFrame<'_>, length: Option<u64>) -> u64 {
    let address = copy(out, frame, frame.entry.len());
    let at = address as usize + 8;
    if let (Some(length), Some(place)) = (length, out.get_mut(at..at + 8)) {
        place.copy_from_slice(&length.to_le_bytes());
    }
    address
}

/// The frame of a function.
fn frame_of<'d>(
    by_function: &[FunctionFrame<'d>],
    function: SymbolIndex,
) -> Option<DebugFrame<'d>> {
    let at = by_function.binary_search_by_key(&function, |own| own.function).ok()?;
    Some(by_function[at].frame)
}

/// Parses the frames of machine code.
fn sass_frames<'d>(
    object: &InputObject<'d>,
    index: SectionIndex,
) -> Result<SassFrames<'d>, Box<Message>> {
    let placed = placed(object, index, Half::Sass)?.into_iter();
    let mut own: Vec<_> = placed
        .map(|PlacedFrame { function, frame, .. }| FunctionFrame { function, frame })
        .collect();
    let all = match object.outline.has_inner_functions {
        true => own.iter().map(|own| own.frame).collect(),
        false => Vec::new(),
    };
    // An object made with `-r` has several frames of a function if copies were replaced; the first
    // counts (case attributes/order-of-replaced in steps).
    own.sort_by_key(|own| own.function);
    own.dedup_by_key(|own| own.function);
    Ok(SassFrames { by_function: own, all })
}

/// The FDEs of the Mercury half of a section of file `id` whose functions are in the output. `own`
/// has the section's first frame of machine code of each function, and `all` has all of them.
fn entries<'d>(
    builder: &DebugBuilder<'_, 'd>,
    id: ObjectId,
    own: &[FunctionFrame<'d>],
    all: &[DebugFrame<'d>],
    placed: &[PlacedFrame<'d>],
) -> Vec<FrameEntry<'d>> {
    let functions = (0..).zip(placed).map(|(number, placed)| (number, placed.function));
    let live = functions.filter(|&(_, function)| builder.is_live(id, function));
    let paired = builder.objects[id].outline.has_inner_functions && all.len() == placed.len();
    let entry = |(number, function): (u32, SymbolIndex)| {
        if paired {
            let (definition, own) = (None, Some(all[number as usize]));
            return FrameEntry { number, definition, own, length: None, paired };
        }
        let definition = builder.definition(id, function);
        let site = definition.map(|(_, site)| site);
        let here = site.filter(|site| site.object == id);
        let own = here.and_then(|site| frame_of(own, site.index));
        // With `-r`, a function that follows an alias has the length of its Mercury code (case
        // alias/other-file in steps).
        let length = match builder.slot(id, function) {
            Some(SlotPlace { table_size, .. }) => {
                Some(jump_slots::first_length(table_size, builder.merged.draft.dialect))
            }
            None => site.and_then(|site| builder.objects[site.object].code_size(site.index)),
        };
        FrameEntry { number, definition, own, length, paired }
    };
    live.map(entry).collect()
}

/// Parses the FDEs that one half of section `index` has.
fn placed<'d>(
    object: &InputObject<'d>,
    index: SectionIndex,
    half: Half,
) -> Result<PlacedFrames<'d>, Box<Message>> {
    let section = object.section(index);
    let data = match half {
        Half::Sass => section.data,
        Half::Mercury => object.counterpart_data(index),
    };
    let functions = super::functions(object, index, half);
    let mut placed = Vec::with_capacity(functions.len());
    let mut functions = &functions[..];
    let malformed = |defect| Message::malformed(object.name, defect);
    each_frame(section.name, data, |address_at, frame| {
        // Both are sorted by offset.
        while let [address, rest @ ..] = functions
            && address.offset <= address_at
        {
            if address.offset == address_at {
                placed.push(PlacedFrame { address_at, function: address.function, frame });
            }
            functions = rest;
        }
    })
    .map_err(|defect| Box::new(malformed(defect)))?;
    Ok(placed)
}

/// Calls `visit` with every FDE and the offset of its address, in ascending order.
fn each_frame<'d>(
    name: &[u8],
    data: &'d [u8],
    mut visit: impl FnMut(u64, DebugFrame<'d>),
) -> Result<(), Malformed> {
    let (mut at, mut common, mut common_at): (_, &[u8], _) = (0, &[], 0);
    while let Some(rest) = data.get(at..).filter(|rest| !rest.is_empty()) {
        let entry = length(rest).and_then(|length| rest.get(..length.checked_add(HEAD)?));
        let Some(entry) = entry.filter(|entry| entry.len() >= ADDRESS) else {
            let what = "an entry is not in the 64-bit form, or runs past the end";
            return Err(Malformed::section(name, at as u64, what));
        };
        if entry.get(HEAD..ADDRESS) == Some(&COMMON) {
            (common, common_at) = (entry, at as u64);
        } else if entry.len() >= BARE && !common.is_empty() {
            visit((at + ADDRESS) as u64, DebugFrame { common, common_at, entry });
        }
        at += entry.len();
    }
    Ok(())
}

/// Bytes after the head of the entry at the start of `data`, if it is in the 64-bit form.
fn length(data: &[u8]) -> Option<usize> {
    let (mark, rest) = data.split_first_chunk()?;
    let length = u64::from_le_bytes(*rest.first_chunk()?);
    usize::try_from(length).ok().filter(|_| u32::from_le_bytes(*mark) == WIDE)
}

/// Appends a frame, with the first `size` bytes of its FDE; returns the offset of the address.
fn copy(out: &mut Vec<u8>, frame: &DebugFrame<'_>, size: usize) -> u64 {
    let base = out.len();
    out.extend_from_slice(frame.common);
    let entry = out.len();
    out.extend_from_slice(frame.entry.get(..size).unwrap_or_default());
    // The FDE refers to its CIE.
    if let Some(name) = out.get_mut(entry + HEAD..entry + ADDRESS) {
        name.copy_from_slice(&(base as u64).to_le_bytes());
    }
    (entry + ADDRESS) as u64
}

/// Appends a frame without operations, for a function without one in machine code.
fn plain(out: &mut Vec<u8>, frame: &DebugFrame<'_>) -> u64 {
    let address = copy(out, frame, BARE);
    let entry = address as usize - ADDRESS;
    out.extend_from_slice(&[0; 4]);
    let length = (out.len() - entry - HEAD) as u64;
    if let Some(place) = out.get_mut(entry + 4..entry + HEAD) {
        place.copy_from_slice(&length.to_le_bytes());
    }
    address
}
