//! The lists of attributes of all functions.
//!
//! In: the lists as they are read, one behind the other. Out: [`Lists`], by function. Most lists are short and never change,
//! so they share a few blocks of memory; those that change get their own. What is looked for in all lists is noted when
//! they are read ([`Has`]), so that no list is searched in vain.

use std::ops::{BitOr, BitOrAssign, Index};

use culd_cubin::attr::{Record, code};

use super::Attribute;
use super::propagate::{is_taken_once, travels};
use crate::Dialect;
use crate::id::{IdVec, NodeId};
use crate::merge;

/// Things that a list may have, as bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Has(u16);

impl Has {
    /// CRS_STACK_SIZE, and more than one.
    pub(super) const STACK: Has = Has(1);
    pub(super) const STACKS: Has = Has(1 << 1);
    pub(super) const SPARSE_MASK: Has = Has(1 << 2);
    /// Tensor memory for one block, and for a pair of blocks.
    pub(super) const ONE_BLOCK: Has = Has(1 << 3);
    pub(super) const TWO_BLOCKS: Has = Has(1 << 4);
    /// EXTERNS, and those without a function.
    pub(super) const EXTERNS: Has = Has(1 << 5);
    pub(super) const NO_EXTERNS: Has = Has(1 << 6);
    pub(super) const FRAGMENTS: Has = Has(1 << 7);
    /// What entries take over ([`travels`]), and such of which the same once more changes something.
    pub(super) const TRAVELS: Has = Has(1 << 8);
    pub(super) const TAKEN_AGAIN: Has = Has(1 << 9);
    /// Records that may be left out, or become something else.
    const SPECIAL: Has = Has(1 << 10);

    /// True when it has one of `things`.
    pub(super) fn any(self, things: Has) -> bool {
        self.0 & things.0 != 0
    }
}

impl BitOr for Has {
    type Output = Has;

    fn bitor(self, other: Has) -> Has {
        Has(self.0 | other.0)
    }
}

impl BitOrAssign for Has {
    fn bitor_assign(&mut self, other: Has) {
        *self = *self | other;
    }
}

/// What an attribute is of that, by its code.
pub(super) struct Codes([Has; 256]);

impl Codes {
    pub(super) fn new(dialect: &Dialect) -> Self {
        Codes(std::array::from_fn(|code| {
            let code = code as u8;
            let mut has = match code {
                code::CRS_STACK_SIZE => Has::STACK,
                code::SPARSE_MMA_MASK => Has::SPARSE_MASK,
                code::TCGEN05_1CTA_USED => Has::ONE_BLOCK,
                code::TCGEN05_2CTA_USED => Has::TWO_BLOCKS,
                code::EXTERNS => Has::EXTERNS,
                code::AT_ENTRY_FRAGMENTS => Has::FRAGMENTS,
                _ => Has::default(),
            };
            if matches!(code, 0 | code::PARAM_CBANK | code::EXTERNS)
                || merge::may_name_reference(code)
            {
                has |= Has::SPECIAL;
            }
            if travels(code, dialect) {
                has |= Has::TRAVELS;
                if !is_taken_once(code) {
                    has |= Has::TAKEN_AGAIN;
                }
            }
            has
        }))
    }

    fn of_code(&self, code: u8) -> Has {
        self.0[usize::from(code)]
    }

    #[inline]
    fn of(&self, attribute: &Attribute<'_>) -> Has {
        match attribute {
            // Most lists of externs are empty by now.
            Attribute::Externs(functions) if functions.is_empty() => Has::EXTERNS | Has::NO_EXTERNS,
            Attribute::Externs(_) => Has::EXTERNS | Has::TRAVELS | Has::TAKEN_AGAIN,
            _ => self.of_code(attribute.code()),
        }
    }

    /// True for what a function passes on, if it passes on anything.
    pub(super) fn passes(&self, attribute: &Attribute<'_>) -> bool {
        self.of(attribute).any(Has::TRAVELS | Has::NO_EXTERNS)
    }
}

/// Lists one behind the other.
#[derive(Default)]
pub(super) struct Piece<'d> {
    attributes: Vec<Attribute<'d>>,
    /// The length of each, and what it has.
    lists: Vec<(u32, Has)>,
}

impl<'d> Piece<'d> {
    /// With room for so many.
    pub(super) fn with_capacity(lists: usize, attributes: usize) -> Self {
        Piece { attributes: Vec::with_capacity(attributes), lists: Vec::with_capacity(lists) }
    }

    /// Adds a list, of which `records` are the last first; `special` makes attributes of those that do not stay as they are.
    pub(super) fn push(
        &mut self,
        codes: &Codes,
        records: impl Iterator<Item = Record<'d>>,
        special: impl Fn(Record<'d>) -> Option<Attribute<'d>>,
    ) {
        let start = self.attributes.len();
        let mut has = Has::default();
        records.for_each(|record| {
            let mut one = codes.of_code(record.code);
            let attribute = if one.any(Has::SPECIAL) {
                let Some(attribute) = special(record) else { return };
                one = codes.of(&attribute);
                attribute
            } else {
                Attribute::Record(record)
            };
            if has.any(Has::STACK) && one.any(Has::STACK) {
                has |= Has::STACKS;
            }
            has |= one;
            self.attributes.push(attribute);
        });
        self.attributes[start..].reverse();
        self.lists.push(((self.attributes.len() - start) as u32, has));
    }
}

/// Where a list is.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The piece, [`OWN`] for a list of its own.
    piece: u32,
    /// The first attribute in the piece; the place among lists of their own.
    start: u32,
    len: u32,
}

/// The number of no piece.
const OWN: u32 = u32::MAX;

/// All lists, by function.
pub(crate) struct Lists<'d> {
    pieces: Vec<Vec<Attribute<'d>>>,
    own: Vec<Vec<Attribute<'d>>>,
    places: IdVec<NodeId, Place>,
    has: IdVec<NodeId, Has>,
    pub(super) codes: Codes,
}

impl<'d> Lists<'d> {
    /// The lists of all functions in their order.
    pub(super) fn new(codes: Codes, functions: usize, pieces: Vec<Piece<'d>>) -> Self {
        let (mut places, mut has) = (IdVec::new(), IdVec::new());
        places.reserve(functions);
        has.reserve(functions);
        for (piece, number) in pieces.iter().zip(0..) {
            let mut start = 0;
            for &(len, own) in &piece.lists {
                places.push(Place { piece: number, start, len });
                has.push(own);
                start += len;
            }
        }
        let pieces = pieces.into_iter().map(|piece| piece.attributes).collect();
        Lists { pieces, own: Vec::new(), places, has, codes }
    }

    pub(super) fn nodes(&self) -> impl ExactSizeIterator<Item = NodeId> + use<'d> {
        self.places.ids()
    }

    /// What the list had when it was read, and what was added with [`Lists::push`]; not what came and went by [`Lists::change`],
    /// as with entries.
    pub(super) fn has(&self, node: NodeId) -> Has {
        self.has[node]
    }

    /// The same of all lists together.
    pub(super) fn any(&self, things: Has) -> bool {
        self.has.values().any(|has| has.any(things))
    }

    /// Adds an attribute at the end.
    pub(super) fn push(&mut self, node: NodeId, attribute: Attribute<'d>) {
        self.has[node] |= self.codes.of(&attribute);
        self.change(node).push(attribute);
    }

    /// The list, to be changed.
    pub(super) fn change(&mut self, node: NodeId) -> &mut Vec<Attribute<'d>> {
        let place = self.places[node];
        if place.piece != OWN {
            let gone = Attribute::Number { format: 0, code: 0, value: 0 };
            let taken = |attribute: &mut _| std::mem::replace(attribute, gone.clone());
            let list = self.get_mut(node);
            // Few attributes come to those of an entry.
            let mut own = Vec::with_capacity(list.len() + 2);
            own.extend(list.iter_mut().map(taken));
            self.places[node] = Place { piece: OWN, start: self.own.len() as u32, len: 0 };
            self.own.push(own);
        }
        &mut self.own[self.places[node].start as usize]
    }

    /// The attributes of the list, to be changed.
    pub(super) fn get_mut(&mut self, node: NodeId) -> &mut [Attribute<'d>] {
        let Place { piece, start, len } = self.places[node];
        match piece {
            OWN => &mut self.own[start as usize],
            piece => &mut self.pieces[piece as usize][start as usize..][..len as usize],
        }
    }

    /// Leaves out attributes of which `stays` is false.
    pub(super) fn retain(&mut self, node: NodeId, stays: impl Fn(&Attribute<'d>) -> bool) {
        if self.places[node].piece == OWN {
            return self.change(node).retain(stays);
        }
        let list = self.get_mut(node);
        let mut end = 0;
        for at in 0..list.len() {
            if stays(&list[at]) {
                list.swap(end, at);
                end += 1;
            }
        }
        self.places[node].len = end as u32;
    }
}

impl<'d> Index<NodeId> for Lists<'d> {
    type Output = [Attribute<'d>];

    #[inline]
    fn index(&self, node: NodeId) -> &[Attribute<'d>] {
        let Place { piece, start, len } = self.places[node];
        match piece {
            OWN => &self.own[start as usize],
            piece => &self.pieces[piece as usize][start as usize..][..len as usize],
        }
    }
}
