//! `.debug_frame`: the entries of functions that are left.
//!
//! A piece is a common entry (CIE) with the entry of a function (FDE) behind it, as ptxas writes one for each
//! function. Mercury's section says which functions have one, and in what order; the pieces are those of machine
//! code. Where that has none left for a function, because it has another name or was there before, nvlink makes one
//! without operations of Mercury's (cases alias/*, attributes/order-of-replaced).

use culd_cubin::arch::Flavour;
use culd_cubin::{Malformed, SectionIndex, SymbolIndex};

use super::{Builder, Piece};
use crate::capsule::{Half, slots};
use crate::diag::Message;
use crate::id::{IdMap, IdVec, ObjectId, SectionId, SymbolId};
use crate::objects::{Object, Objects, Role};
use crate::symbols::Site;
use crate::{LinkOptions, Session};

/// The name of the section.
const NAME: &[u8] = b".debug_frame";
/// First bytes of an entry in 64-bit DWARF.
const WIDE: u32 = 0xffff_ffff;
/// Bytes before the contents: the mark and the length.
const HEAD: usize = 12;
/// What a common entry has in the place where others name theirs.
const COMMON: [u8; 8] = [0xff; 8];
/// Bytes of a function's entry before its address, and up to the end of the length of code behind that.
const ADDRESS: usize = HEAD + 8;
const BARE: usize = ADDRESS + 16;

/// The entry of a function and its common one.
#[derive(Debug, Clone, Copy)]
struct Frame<'d> {
    common: &'d [u8],
    entry: &'d [u8],
}

/// What an input section has in one half: places of addresses in it, in order, functions that they are of, and entries.
type Placed<'d> = Vec<(u64, SymbolIndex, Frame<'d>)>;

/// The pieces of machine code in an input section, one for each function, by function.
type Own<'d> = Vec<(SymbolIndex, Frame<'d>)>;

/// The entry of a function that is left, in Mercury.
struct Entry<'d> {
    /// Its number among those of the section.
    number: u32,
    /// Whose piece of machine code takes its place.
    definition: Option<(SymbolId, Site)>,
    /// That piece, if it is in the same section.
    own: Option<Frame<'d>>,
    /// Bytes of code that it is told to have then.
    length: Option<u64>,
}

/// The output section.
pub(super) struct Made {
    pub(super) section: SectionId,
    pub(super) bytes: Vec<u8>,
    /// By input section, its Mercury half: where addresses went.
    pub(super) pieces: Vec<((ObjectId, SectionIndex), Vec<Piece>)>,
}

/// An input section in both halves.
struct Parsed<'d> {
    of: (ObjectId, SectionIndex),
    own: Result<Own<'d>, Box<Message>>,
    mercury: Result<Placed<'d>, Box<Message>>,
}

/// What is in all `.debug_frame` of the inputs, for which nothing but these is looked at.
#[derive(Default)]
pub(crate) struct Frames<'d> {
    parsed: Vec<Parsed<'d>>,
}

impl<'d> Frames<'d> {
    pub(crate) fn parse(objects: &Objects<'d>, options: &LinkOptions) -> Self {
        let mut parsed = Vec::new();
        if options.target.flavour != Flavour::Mercury {
            return Frames::default();
        }
        for (id, object) in objects.iter() {
            for ((index, section), role) in object.cubin.section_indices().zip(&object.roles) {
                if *role == Role::Debug && section.name == NAME {
                    let (own, mercury) = (own(object, index), placed(object, index, Half::Mercury));
                    parsed.push(Parsed { of: (id, index), own, mercury });
                }
            }
        }
        Frames { parsed }
    }

    /// What `inputs` have, which are some of the sections, in their order. What is wrong with machine code is told first.
    fn of(
        self,
        inputs: &[(ObjectId, SectionIndex, SectionId)],
    ) -> Result<(Vec<Own<'d>>, Vec<Placed<'d>>), Message> {
        let mut inputs = inputs.iter().map(|&(id, index, _)| (id, index)).peekable();
        let parsed = self.parsed.into_iter();
        let wanted = parsed.filter(|parsed| inputs.next_if_eq(&parsed.of).is_some());
        let (own, mercury): (Vec<_>, Vec<_>) =
            wanted.map(|parsed| (parsed.own, parsed.mercury)).unzip();
        let own: Result<_, Box<Message>> = own.into_iter().collect();
        let own = own.map_err(|message| *message)?;
        let mercury: Result<_, Box<Message>> = mercury.into_iter().collect();
        Ok((own, mercury.map_err(|message| *message)?))
    }
}

/// Makes the section, if there is one.
pub(super) fn build<'d>(
    session: &Session,
    builder: &Builder<'_, 'd>,
    frames: Frames<'d>,
) -> Result<Option<Made>, Message> {
    let inputs = builder.inputs(NAME);
    let Some(&(.., section)) = inputs.first() else { return Ok(None) };
    let (own, mercury) = frames.of(&inputs)?;
    let entries = |place: usize| {
        let (id, ..) = inputs[place];
        // An object may have several sections, and the first piece of a function counts.
        let before = place.checked_sub(1).map(|before| inputs[before].0);
        let first: &[_] = if before == Some(id) { &[] } else { &own[place] };
        entries(builder, id, first, &mercury[place])
    };
    let sizes = inputs.iter().map(|&(id, index, _)| builder.objects[id].section(index).data.len());
    let size: usize = sizes.sum();
    let all_entries = session.map(inputs.len(), 4 * size, entries);
    let mut first_input = IdMap::default();
    for (place, &(id, ..)) in inputs.iter().enumerate().rev() {
        first_input.insert(id, place);
    }
    let find = |site: Site| {
        let inputs = inputs.iter().zip(&own).skip(first_input.get(site.object)?);
        let mut of_object = inputs.take_while(|(input, _)| input.0 == site.object);
        of_object.find_map(|(_, own)| frame_of(own, site.index))
    };
    let mut made =
        Made { section, bytes: Vec::with_capacity(size), pieces: Vec::with_capacity(inputs.len()) };
    let mut taken = IdVec::filled(false, builder.symbols.all.len());
    for ((&(id, index, _), placed), entries) in inputs.iter().zip(&mercury).zip(all_entries) {
        let mut pieces = Vec::with_capacity(entries.len());
        for Entry { number, definition, own, length } in entries {
            let (place, _, frame) = placed[number as usize];
            let definition =
                definition.filter(|&(program, _)| !std::mem::replace(&mut taken[program], true));
            let found = definition.and_then(|(_, site)| own.or_else(|| find(site)));
            let to = match found {
                Some(frame) => {
                    let address = copy(&mut made.bytes, &frame, frame.entry.len());
                    let at = address as usize + 8;
                    if let (Some(length), Some(place)) = (length, made.bytes.get_mut(at..at + 8)) {
                        place.copy_from_slice(&length.to_le_bytes());
                    }
                    address
                }
                None => plain(&mut made.bytes, &frame),
            };
            pieces.push(Piece { from: place, end: place + 8, to });
        }
        made.pieces.push(((id, index), pieces));
    }
    Ok(Some(made))
}

/// The piece of a function.
fn frame_of<'d>(own: &[(SymbolIndex, Frame<'d>)], function: SymbolIndex) -> Option<Frame<'d>> {
    let at = own.binary_search_by_key(&function, |piece| piece.0).ok()?;
    Some(own[at].1)
}

/// The pieces of machine code.
fn own<'d>(object: &Object<'d>, index: SectionIndex) -> Result<Own<'d>, Box<Message>> {
    let placed = placed(object, index, Half::Sass)?.into_iter();
    let mut own: Own<'d> = placed.map(|(_, function, frame)| (function, frame)).collect();
    // An object has more of a function of which it replaced copies, behind the one that counts (case
    // attributes/order-of-replaced in steps).
    own.sort_by_key(|piece| piece.0);
    own.dedup_by_key(|piece| piece.0);
    Ok(own)
}

/// Those entries in the Mercury half of a section of file `id` whose functions are left; `own` are pieces of machine code that
/// count.
fn entries<'d>(
    builder: &Builder<'_, 'd>,
    id: ObjectId,
    own: &[(SymbolIndex, Frame<'d>)],
    placed: &Placed<'d>,
) -> Vec<Entry<'d>> {
    let functions = (0..).zip(placed).map(|(number, placed)| (number, placed.1));
    let live = functions.filter(|&(_, function)| builder.is_live(id, function));
    let entry = |(number, function)| {
        let definition = builder.definition(id, function);
        let site = definition.map(|(_, site)| site);
        let here = site.filter(|site| site.object == id);
        let own = here.and_then(|site| frame_of(own, site.index));
        // In an object a function behind an alias has the length of Mercury (case alias/other-file in steps).
        let length = match builder.slot(id, function) {
            Some((_, table)) => Some(slots::first_length(table, builder.merged.draft.dialect)),
            None => site.and_then(|site| builder.objects[site.object].code_size(site.index)),
        };
        Entry { number, definition, own, length }
    };
    live.map(entry).collect()
}

/// The entries of functions that one half of section `index` has.
fn placed<'d>(
    object: &Object<'d>,
    index: SectionIndex,
    half: Half,
) -> Result<Placed<'d>, Box<Message>> {
    let section = object.section(index);
    let data = match half {
        Half::Sass => section.data,
        Half::Mercury => object.twin_data(index),
    };
    let functions = super::functions(object, index, half);
    let mut placed = Vec::with_capacity(functions.len());
    let mut functions = &functions[..];
    let malformed = |defect| Message::Malformed { file: object.name.to_owned(), defect };
    each_frame(section.name, data, |place, frame| {
        // Both are in the order of places.
        while let [(at, function), rest @ ..] = functions
            && *at <= place
        {
            if *at == place {
                placed.push((place, *function, frame));
            }
            functions = rest;
        }
    })
    .map_err(|defect| Box::new(malformed(defect)))?;
    Ok(placed)
}

/// Calls `visit` with all entries of functions, and the places of their addresses, which ascend.
fn each_frame<'d>(
    name: &[u8],
    data: &'d [u8],
    mut visit: impl FnMut(u64, Frame<'d>),
) -> Result<(), Malformed> {
    let (mut at, mut common): (_, &[u8]) = (0, &[]);
    while let Some(rest) = data.get(at..).filter(|rest| !rest.is_empty()) {
        let entry = length(rest).and_then(|length| rest.get(..length.checked_add(HEAD)?));
        let Some(entry) = entry.filter(|entry| entry.len() >= ADDRESS) else {
            let what = "an entry is not in the 64-bit form, or runs past the end";
            return Err(Malformed::section(name, at as u64, what));
        };
        if entry.get(HEAD..ADDRESS) == Some(&COMMON) {
            common = entry;
        } else if entry.len() >= BARE && !common.is_empty() {
            visit((at + ADDRESS) as u64, Frame { common, entry });
        }
        at += entry.len();
    }
    Ok(())
}

/// Bytes behind the head of the entry that `data` begins with, if it is in the 64-bit form.
fn length(data: &[u8]) -> Option<usize> {
    let (mark, rest) = data.split_first_chunk()?;
    let length = u64::from_le_bytes(*rest.first_chunk()?);
    usize::try_from(length).ok().filter(|_| u32::from_le_bytes(*mark) == WIDE)
}

/// Appends a piece, of the function's entry the first `size` bytes; returns the place of the address.
fn copy(out: &mut Vec<u8>, frame: &Frame<'_>, size: usize) -> u64 {
    let base = out.len();
    out.extend_from_slice(frame.common);
    let entry = out.len();
    out.extend_from_slice(frame.entry.get(..size).unwrap_or_default());
    // The entry names its common one.
    if let Some(name) = out.get_mut(entry + HEAD..entry + ADDRESS) {
        name.copy_from_slice(&(base as u64).to_le_bytes());
    }
    (entry + ADDRESS) as u64
}

/// The same for a function that has no piece in machine code: no operations.
fn plain(out: &mut Vec<u8>, frame: &Frame<'_>) -> u64 {
    let address = copy(out, frame, BARE);
    let entry = address as usize - ADDRESS;
    out.extend_from_slice(&[0; 4]);
    let length = (out.len() - entry - HEAD) as u64;
    if let Some(place) = out.get_mut(entry + 4..entry + HEAD) {
        place.copy_from_slice(&length.to_le_bytes());
    }
    address
}
