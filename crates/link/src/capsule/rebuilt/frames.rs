//! `.debug_frame`: the entries of functions that are left.
//!
//! A piece is a common entry (CIE) with the entry of a function (FDE) behind it, as ptxas writes one for each
//! function. Mercury's section says which functions have one, and in what order; the pieces are those of machine
//! code. Where that has none left for a function, because it has another name or was there before, nvlink makes one
//! without operations of Mercury's (cases alias/*, attributes/order-of-replaced).

use culd_cubin::{Malformed, SectionIndex, SymbolIndex};
use hashbrown::{HashMap, HashSet};

use super::{Builder, Piece, number};
use crate::Session;
use crate::capsule::{Half, slots};
use crate::diag::Message;
use crate::id::{ObjectId, SectionId};
use crate::objects::Object;

/// First bytes of an entry in 64-bit DWARF.
const WIDE: usize = 0xffff_ffff;
/// Bytes before the contents: the mark and the length.
const HEAD: usize = 12;
/// What a common entry has in the place where others name theirs.
const COMMON: [u8; 8] = [0xff; 8];
/// Bytes of a function's entry before its address, and up to the end of the length of code behind that.
const ADDRESS: usize = HEAD + 8;
const BARE: usize = ADDRESS + 16;

/// The entry of a function and its common one, in one section.
#[derive(Debug, Clone, Copy)]
struct Frame<'d> {
    data: &'d [u8],
    common: (usize, usize),
    entry: (usize, usize),
}

/// All entries of one section, by the place of their address.
type Frames<'d> = Vec<(u64, Frame<'d>)>;

/// What an input section has in one half: places of addresses in it, in order, functions that they are of, and entries.
type Placed<'d> = Vec<(u64, SymbolIndex, Frame<'d>)>;

/// The output section.
pub(super) struct Made {
    pub(super) section: SectionId,
    pub(super) bytes: Vec<u8>,
    /// By input section, its Mercury half: where addresses went.
    pub(super) pieces: Vec<((ObjectId, SectionIndex), Vec<Piece>)>,
}

/// Makes the section, if there is one.
pub(super) fn build(session: &Session, builder: &Builder<'_, '_>) -> Result<Option<Made>, Message> {
    let inputs = builder.inputs(b".debug_frame");
    let Some(&(.., section)) = inputs.first() else { return Ok(None) };
    let parse = |place: usize| {
        let (id, index, _) = inputs[place];
        let parsed = |half| placed(&builder.objects[id], index, half);
        (parsed(Half::Sass), parsed(Half::Mercury))
    };
    let sizes = inputs.iter().map(|&(id, index, _)| builder.objects[id].section(index).data.len());
    let size: usize = sizes.sum();
    let (own, mercury): (Vec<_>, Vec<_>) =
        session.map(inputs.len(), 8 * size, parse).into_iter().unzip();
    // Pieces of machine code by the function that they are of.
    let mut pieces: HashMap<(ObjectId, SymbolIndex), Frame<'_>> = HashMap::new();
    for (&(id, ..), own) in inputs.iter().zip(own) {
        let own = own?;
        pieces.reserve(own.len());
        for (_, function, frame) in own {
            // An object has more of a function of which it replaced copies, behind the one that counts (case
            // attributes/order-of-replaced in steps).
            pieces.entry((id, function)).or_insert(frame);
        }
    }
    let own = pieces;
    let mut made =
        Made { section, bytes: Vec::with_capacity(size), pieces: Vec::with_capacity(inputs.len()) };
    let mut taken = HashSet::new();
    for (&(id, index, _), frames) in inputs.iter().zip(mercury) {
        let frames = frames?;
        let mut pieces = Vec::with_capacity(frames.len());
        for (place, function, frame) in frames {
            if !builder.is_live(id, function) {
                continue;
            }
            let definition = builder.definition(id, function).filter(|site| taken.insert(*site));
            let found =
                definition.and_then(|site| Some((site, own.get(&(site.object, site.index))?)));
            let to = match found {
                Some((site, frame)) => {
                    let address = copy(&mut made.bytes, frame, frame.entry.1);
                    // In an object a function behind an alias has the length of Mercury (case alias/other-file in steps).
                    let length = match builder.slot(id, function) {
                        Some((_, table)) => {
                            Some(slots::first_length(table, builder.merged.draft.dialect))
                        }
                        None => builder.objects[site.object].code_size(site.index),
                    };
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

/// The entries of functions that one half of section `index` has.
fn placed<'d>(object: &Object<'d>, index: SectionIndex, half: Half) -> Result<Placed<'d>, Message> {
    let section = object.section(index);
    let data = match half {
        Half::Sass => section.data,
        Half::Mercury => object.twin_data(index),
    };
    let frames = frames(section.name, data)
        .map_err(|defect| Message::Malformed { file: object.name.to_owned(), defect })?;
    let entry = |(place, function)| {
        let at = frames.binary_search_by_key(&place, |frame| frame.0).ok()?;
        Some((place, function, frames[at].1))
    };
    Ok(super::functions(object, index, half).into_iter().filter_map(entry).collect())
}

/// All entries of functions.
fn frames<'d>(name: &[u8], data: &'d [u8]) -> Result<Frames<'d>, Malformed> {
    let mut frames = Vec::new();
    let (mut at, mut common) = (0, (0, 0));
    while at < data.len() {
        let wide = number::<4>(data, at) == Some(WIDE);
        let length = number::<8>(data, at + 4).filter(|_| wide);
        let end = length.and_then(|length| length.checked_add(at + HEAD));
        let Some(end) = end.filter(|&end| end <= data.len() && end >= at + ADDRESS) else {
            let what = "an entry is not in the 64-bit form, or runs past the end";
            return Err(Malformed::section(name, at as u64, what));
        };
        if data.get(at + HEAD..at + ADDRESS) == Some(&COMMON) {
            common = (at, end);
        } else if end >= at + BARE && common.1 != 0 {
            frames.push(((at + ADDRESS) as u64, Frame { data, common, entry: (at, end) }));
        }
        at = end;
    }
    Ok(frames)
}

/// Appends a piece, of the function's entry the bytes before `end`; returns the place of the address.
fn copy(out: &mut Vec<u8>, frame: &Frame<'_>, end: usize) -> u64 {
    let base = out.len();
    let part = |from: usize, end: usize| frame.data.get(from..end).unwrap_or_default();
    out.extend_from_slice(part(frame.common.0, frame.common.1));
    let entry = out.len();
    out.extend_from_slice(part(frame.entry.0, end));
    // The entry names its common one.
    if let Some(name) = out.get_mut(entry + HEAD..entry + ADDRESS) {
        name.copy_from_slice(&(base as u64).to_le_bytes());
    }
    (entry + ADDRESS) as u64
}

/// The same for a function that has no piece in machine code: no operations.
fn plain(out: &mut Vec<u8>, frame: &Frame<'_>) -> u64 {
    let address = copy(out, frame, frame.entry.0 + BARE);
    let entry = address as usize - ADDRESS;
    out.extend_from_slice(&[0; 4]);
    let length = (out.len() - entry - HEAD) as u64;
    if let Some(place) = out.get_mut(entry + 4..entry + HEAD) {
        place.copy_from_slice(&length.to_le_bytes());
    }
    address
}
