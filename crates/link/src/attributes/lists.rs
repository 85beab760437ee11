//! The attribute lists of all functions.
//!
//! In: the lists in reading order. Out: [`AttributeLists`], by function. Most lists are short and
//! never change, so many share one block of memory; a list that grows gets memory of its own. With
//! memory for each list: +0.9 % instructions and 0.6 % more memory on many1000. Each list's traits
//! are noted when it is read ([`ListTraits`]), so that no list is searched for an attribute it does
//! not have. Without the traits: +3.3 % instructions on many1000.

use std::ops::{BitOr, BitOrAssign, Index};

use culd_cubin::attr::{Record, code};

use super::attribute::OutAttribute;
use super::rules::{is_idempotent, is_inherited};
use crate::base::id::{IdVec, NodeId};
use crate::objects::records;
use crate::options::dialect::Dialect;

/// Properties of a list, as bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ListTraits(u16);

impl ListTraits {
    /// CRS_STACK_SIZE once (`STACK`) or several times (`STACKS`).
    pub(super) const STACK: ListTraits = ListTraits(1);
    pub(super) const STACKS: ListTraits = ListTraits(1 << 1);
    pub(super) const SPARSE_MASK: ListTraits = ListTraits(1 << 2);
    /// Tensor memory for one block, or for a pair of blocks.
    pub(super) const ONE_BLOCK: ListTraits = ListTraits(1 << 3);
    pub(super) const TWO_BLOCKS: ListTraits = ListTraits(1 << 4);
    /// EXTERNS, and EXTERNS without any function.
    pub(super) const EXTERNS: ListTraits = ListTraits(1 << 5);
    pub(super) const NO_EXTERNS: ListTraits = ListTraits(1 << 6);
    pub(super) const FRAGMENTS: ListTraits = ListTraits(1 << 7);
    /// Attributes that entries inherit ([`is_inherited`]); and those that change an entry again if
    /// it inherits them twice.
    pub(super) const INHERITED: ListTraits = ListTraits(1 << 8);
    pub(super) const ACCUMULATES: ListTraits = ListTraits(1 << 9);
    /// Records that [`ListBlock::push`] drops or converts.
    const SPECIAL: ListTraits = ListTraits(1 << 10);
    pub(super) const BARRIERS: ListTraits = ListTraits(1 << 11);

    /// True if it has one of `traits`.
    pub(super) fn any(self, traits: ListTraits) -> bool {
        self.0 & traits.0 != 0
    }
}

impl BitOr for ListTraits {
    type Output = ListTraits;

    fn bitor(self, other: ListTraits) -> ListTraits {
        ListTraits(self.0 | other.0)
    }
}

impl BitOrAssign for ListTraits {
    fn bitor_assign(&mut self, other: ListTraits) {
        *self = *self | other;
    }
}

/// The traits of an attribute by its code.
pub(super) struct TraitsByCode([ListTraits; 256]);

impl TraitsByCode {
    pub(super) fn new(dialect: &Dialect) -> Self {
        TraitsByCode(std::array::from_fn(|code| {
            let code = code as u8;
            let mut has = match code {
                code::CRS_STACK_SIZE => ListTraits::STACK,
                code::SPARSE_MMA_MASK => ListTraits::SPARSE_MASK,
                code::TCGEN05_1CTA_USED => ListTraits::ONE_BLOCK,
                code::TCGEN05_2CTA_USED => ListTraits::TWO_BLOCKS,
                code::EXTERNS => ListTraits::EXTERNS,
                code::AT_ENTRY_FRAGMENTS => ListTraits::FRAGMENTS,
                code::NUM_BARRIERS => ListTraits::BARRIERS,
                _ => ListTraits::default(),
            };
            if matches!(code, 0 | code::PARAM_CBANK | code::EXTERNS)
                || records::may_name_reference(code)
            {
                has |= ListTraits::SPECIAL;
            }
            if is_inherited(code, dialect) {
                has |= ListTraits::INHERITED;
                if !is_idempotent(code) {
                    has |= ListTraits::ACCUMULATES;
                }
            }
            has
        }))
    }

    fn of_code(&self, code: u8) -> ListTraits {
        self.0[usize::from(code)]
    }

    fn of(&self, attribute: &OutAttribute<'_>) -> ListTraits {
        match attribute {
            // Most EXTERNS are empty by now: their functions are defined.
            OutAttribute::Externs(functions) if functions.is_empty() => {
                ListTraits::EXTERNS | ListTraits::NO_EXTERNS
            }
            OutAttribute::Externs(_) => {
                ListTraits::EXTERNS | ListTraits::INHERITED | ListTraits::ACCUMULATES
            }
            _ => self.of_code(attribute.code()),
        }
    }

    /// True for an attribute that a function with inherited attributes passes on.
    pub(super) fn is_passed_on(&self, attribute: &OutAttribute<'_>) -> bool {
        self.of(attribute).any(ListTraits::INHERITED | ListTraits::NO_EXTERNS)
    }
}

/// Several lists in one block of memory.
#[derive(Default)]
pub(super) struct ListBlock<'d> {
    attributes: Vec<OutAttribute<'d>>,
    /// Length and traits of each list.
    lists: Vec<(u32, ListTraits)>,
}

impl<'d> ListBlock<'d> {
    /// An empty block with room for `lists` lists and `attributes` attributes.
    pub(super) fn with_capacity(lists: usize, attributes: usize) -> Self {
        ListBlock { attributes: Vec::with_capacity(attributes), lists: Vec::with_capacity(lists) }
    }

    /// Adds a list; `records` gives its records in reverse order. `special` converts those that
    /// cannot be passed on as they are, or drops them.
    pub(super) fn push(
        &mut self,
        codes: &TraitsByCode,
        records: impl Iterator<Item = Record<'d>>,
        special: impl Fn(Record<'d>) -> Option<OutAttribute<'d>>,
    ) {
        let start = self.attributes.len();
        let mut has = ListTraits::default();
        records.for_each(|record| {
            let mut one = codes.of_code(record.code);
            let attribute = if one.any(ListTraits::SPECIAL) {
                let Some(attribute) = special(record) else { return };
                one = codes.of(&attribute);
                attribute
            } else {
                OutAttribute::Record(record)
            };
            if has.any(ListTraits::STACK) && one.any(ListTraits::STACK) {
                has |= ListTraits::STACKS;
            }
            has |= one;
            self.attributes.push(attribute);
        });
        self.attributes[start..].reverse();
        self.lists.push(((self.attributes.len() - start) as u32, has));
    }
}

/// The place of a list.
#[derive(Debug, Clone, Copy)]
struct ListPlace {
    /// The block; [`OWN`] if the list has memory of its own.
    block: u32,
    /// The first attribute in the block; for [`OWN`], the place in [`AttributeLists::own`].
    start: u32,
    len: u32,
}

/// Stands for memory of a list's own; no block has this number.
const OWN: u32 = u32::MAX;

/// All lists, by function.
pub(crate) struct AttributeLists<'d> {
    blocks: Vec<Vec<OutAttribute<'d>>>,
    own: Vec<Vec<OutAttribute<'d>>>,
    places: IdVec<NodeId, ListPlace>,
    has: IdVec<NodeId, ListTraits>,
    pub(super) codes: TraitsByCode,
}

impl<'d> AttributeLists<'d> {
    /// The lists of `functions` functions, which `pieces` hold in their order.
    pub(super) fn new(codes: TraitsByCode, functions: usize, pieces: Vec<ListBlock<'d>>) -> Self {
        let (mut places, mut has) = (IdVec::new(), IdVec::new());
        places.reserve(functions);
        has.reserve(functions);
        for (piece, number) in pieces.iter().zip(0..) {
            let mut start = 0;
            for &(len, own) in &piece.lists {
                places.push(ListPlace { block: number, start, len });
                has.push(own);
                start += len;
            }
        }
        let pieces = pieces.into_iter().map(|piece| piece.attributes).collect();
        AttributeLists { blocks: pieces, own: Vec::new(), places, has, codes }
    }

    pub(super) fn nodes(&self) -> impl ExactSizeIterator<Item = NodeId> + use<'d> {
        self.places.ids()
    }

    /// The traits of the list when it was read, and of attributes added with
    /// [`AttributeLists::push`]. Changes by [`AttributeLists::change`], such as those of
    /// inheritance, do not count.
    pub(super) fn has(&self, node: NodeId) -> ListTraits {
        self.has[node]
    }

    /// True if any list has one of `traits`.
    pub(super) fn any(&self, traits: ListTraits) -> bool {
        self.has.values().any(|has| has.any(traits))
    }

    /// Appends an attribute.
    pub(super) fn push(&mut self, node: NodeId, attribute: OutAttribute<'d>) {
        self.has[node] |= self.codes.of(&attribute);
        self.change(node).push(attribute);
    }

    /// The list with memory of its own, so that it can grow.
    pub(super) fn change(&mut self, node: NodeId) -> &mut Vec<OutAttribute<'d>> {
        let place = self.places[node];
        if place.block != OWN {
            let gone = OutAttribute::Number { format: 0, code: 0, value: 0 };
            let taken = |attribute: &mut _| std::mem::replace(attribute, gone.clone());
            let own = self.get_mut(node).iter_mut().map(taken).collect();
            self.places[node] = ListPlace { block: OWN, start: self.own.len() as u32, len: 0 };
            self.own.push(own);
        }
        &mut self.own[self.places[node].start as usize]
    }

    /// The attributes of the list; they can be changed in place.
    pub(super) fn get_mut(&mut self, node: NodeId) -> &mut [OutAttribute<'d>] {
        let ListPlace { block: piece, start, len } = self.places[node];
        match piece {
            OWN => &mut self.own[start as usize],
            piece => &mut self.blocks[piece as usize][start as usize..][..len as usize],
        }
    }

    /// Keeps only the attributes for which `keep` is true.
    pub(super) fn retain(&mut self, node: NodeId, keep: impl Fn(&OutAttribute<'d>) -> bool) {
        if self.places[node].block == OWN {
            return self.change(node).retain(keep);
        }
        let list = self.get_mut(node);
        let mut end = 0;
        for at in 0..list.len() {
            if keep(&list[at]) {
                list.swap(end, at);
                end += 1;
            }
        }
        self.places[node].len = end as u32;
    }
}

impl<'d> Index<NodeId> for AttributeLists<'d> {
    type Output = [OutAttribute<'d>];

    fn index(&self, node: NodeId) -> &[OutAttribute<'d>] {
        let ListPlace { block: piece, start, len } = self.places[node];
        match piece {
            OWN => &self.own[start as usize],
            piece => &self.blocks[piece as usize][start as usize..][..len as usize],
        }
    }
}
