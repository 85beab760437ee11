//! Sizes, alignments and offsets of aggregates, unions, vectors and bit-fields: the guide, 1.2 and
//! 1.3.
//!
//! In: a [`Type`] or [`Aggregate`]. Out: its [`Layout`]. Guaranteed: sizes are checked, so that no
//! description overflows; little-endian, as all GPUs are.
//!
//! The guide leaves one thing to the source language, and the rule here is that of C++ on nvcc and
//! gcc: a record takes a byte at least.

use thiserror::Error;

use crate::types::{AddressSize, Class, Fundamental};

/// A type of the source language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// A scalar.
    Fundamental(Fundamental),
    /// An address of generic, global or constant memory.
    Pointer(AddressSize),
    /// A native vector (`float4`); see [`vector`].
    Vector(Fundamental, u8),
    /// A vector with an alignment of the language's choice: element type, count, alignment in
    /// bytes. CUDA C++ has `double4` with 16.
    LanguageVector(Fundamental, u8, u64),
    /// An array of this many elements.
    Array(Box<Type>, u64),
    /// A structure or union.
    Record(Aggregate),
}

impl Type {
    /// `count` elements of type `element`.
    pub fn array(element: Type, count: u64) -> Type {
        Type::Array(Box::new(element), count)
    }

    /// Size and alignment.
    ///
    /// # Errors
    /// The type does not exist, or is too large.
    pub fn measure(&self) -> Result<Measure, LayoutError> {
        match self {
            Type::Fundamental(one) => Ok(Measure { size: one.size(), align: one.align() }),
            Type::Pointer(address) => Type::Fundamental(address.untyped()).measure(),
            Type::Vector(element, count) => vector(*element, *count),
            Type::LanguageVector(element, count, align) => {
                let align = power_of_two(*align)?;
                let size = padded(element.size() * u64::from(*count), align)?;
                Ok(Measure { size, align })
            }
            Type::Array(element, count) => {
                let Measure { size, align } = element.measure()?;
                let size = size.checked_mul(*count).ok_or(LayoutError::TooLarge)?;
                Ok(Measure { size, align })
            }
            Type::Record(record) => {
                let Layout { size, align, .. } = record.layout()?;
                Ok(Measure { size, align })
            }
        }
    }
}

/// Size and alignment in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// Bytes.
    pub size: u64,
    /// Bytes, a power of two.
    pub align: u64,
}

/// Size and alignment of a native vector. Elements of up to four bytes have vectors of 1 to 4,
/// others of 1 and 2. A vector with an odd number of elements is aligned like an element, one with
/// an even number like all of them.
///
/// # Errors
/// There is no such vector.
pub fn vector(element: Fundamental, count: u8) -> Result<Measure, LayoutError> {
    let most = if element.size() <= 4 { 4 } else { 2 };
    if !(1..=most).contains(&count) {
        return Err(LayoutError::NoVector { element, count });
    }
    let size = element.size() * u64::from(count);
    let align = if count % 2 == 1 { element.align() } else { element.align() * u64::from(count) };
    Ok(Measure { size, align })
}

/// A structure or a union.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aggregate {
    /// Which of the two.
    pub kind: AggregateKind,
    /// Members in order.
    pub fields: Vec<Field>,
    /// The alignment that the source asks for (`alignas`), bytes: the record is aligned to that or
    /// more.
    pub align: Option<u64>,
}

/// The placement of members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AggregateKind {
    /// One behind the other.
    Struct,
    /// All at the start.
    Union,
}

/// A member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Empty for an unnamed bit-field.
    pub name: String,
    /// Its type; of a bit-field the declared one.
    pub ty: Type,
    /// The width of a bit-field.
    pub bits: Option<u32>,
    /// The alignment that the source asks for, bytes.
    pub align: Option<u64>,
}

impl Field {
    /// A member that is not a bit-field.
    pub fn new(name: impl Into<String>, ty: Type) -> Self {
        Field { name: name.into(), ty, bits: None, align: None }
    }

    /// A bit-field with `bits` bits; without a name it only takes room.
    pub fn bits(name: impl Into<String>, ty: Fundamental, bits: u32) -> Self {
        Field { bits: Some(bits), ..Field::new(name, Type::Fundamental(ty)) }
    }
}

/// The layout of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Bytes.
    pub size: u64,
    /// Bytes, a power of two.
    pub align: u64,
    /// One for each field of the record, in order.
    pub fields: Vec<MemberPlace>,
}

/// The place of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberPlace {
    /// Bytes from the start; of a bit-field the byte that has its lowest bit.
    pub offset: u64,
    /// The lowest bit of a bit-field in that byte; 0 for others.
    pub bit: u32,
    /// Bits; a whole member's are its bytes'.
    pub width: u64,
}

/// Why a type has no layout.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// PTX has no such vector.
    #[error("there is no native vector of {count} elements of {element}")]
    #[allow(missing_docs, reason = "the text says what the fields are")]
    NoVector { element: Fundamental, count: u8 },
    /// Only integers are bit-fields.
    #[error("bit-field '{0}' is no integer")]
    NoInteger(String),
    /// A bit-field has more bits than its type, or a name and none.
    #[error("bit-field '{name}' cannot have {bits} bits of {ty}")]
    #[allow(missing_docs, reason = "the text says what the fields are")]
    Width { name: String, bits: u32, ty: Fundamental },
    /// An alignment is not a power of two.
    #[error("alignment {0} is no power of two")]
    Alignment(u64),
    /// The size has no 64 bits.
    #[error("the type is too large")]
    TooLarge,
}

/// The integer types of bit-fields and their widths: the guide, 1.3.
pub const BIT_FIELD_TYPES: [(&str, Fundamental); 8] = [
    ("signed char", Fundamental::S8),
    ("unsigned char", Fundamental::U8),
    ("signed short", Fundamental::S16),
    ("unsigned short", Fundamental::U16),
    ("signed int", Fundamental::S32),
    ("unsigned int", Fundamental::U32),
    ("signed long long", Fundamental::S64),
    ("unsigned long long", Fundamental::U64),
];

/// The least and the greatest value of a bit-field of `bits` bits of type `ty`; `None` when there
/// is no such field.
pub fn bit_field_range(ty: Fundamental, bits: u32) -> Option<(i128, i128)> {
    if bits == 0 || u64::from(bits) > ty.size() * 8 {
        return None;
    }
    match ty.class() {
        Class::Signed => Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1)),
        Class::Unsigned => Some((0, (1 << bits) - 1)),
        Class::Untyped | Class::Float => None,
    }
}

impl Aggregate {
    /// A structure of these members.
    pub fn structure(fields: impl IntoIterator<Item = Field>) -> Self {
        Aggregate::new(AggregateKind::Struct, fields)
    }

    /// A union of these members.
    pub fn union(fields: impl IntoIterator<Item = Field>) -> Self {
        Aggregate::new(AggregateKind::Union, fields)
    }

    fn new(kind: AggregateKind, fields: impl IntoIterator<Item = Field>) -> Self {
        Aggregate { kind, fields: fields.into_iter().collect(), align: None }
    }

    /// Size, alignment and the places of all members.
    ///
    /// # Errors
    /// A member cannot be, or the record is too large.
    pub fn layout(&self) -> Result<Layout, LayoutError> {
        let mut packer = Packer { kind: self.kind, bits: 0, end: 0, align: 1 };
        let mut fields = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            fields.push(packer.place(field)?);
        }
        let asked = self.align.map(power_of_two).transpose()?.unwrap_or(1);
        let align = packer.align.max(asked);
        let size = padded(bytes_of(packer.end).max(1), align)?;
        Ok(Layout { size, align, fields })
    }
}

/// Places members one after the other. Positions are in bits.
struct Packer {
    kind: AggregateKind,
    /// The first bit of the next member.
    bits: u64,
    /// Behind all members.
    end: u64,
    align: u64,
}

impl Packer {
    fn place(&mut self, field: &Field) -> Result<MemberPlace, LayoutError> {
        let asked = field.align.map(power_of_two).transpose()?.unwrap_or(1);
        let start = match self.kind {
            AggregateKind::Struct => self.bits,
            AggregateKind::Union => 0,
        };
        let (start, width) = match field.bits {
            Some(bits) => self.bit_field(field, bits, asked, start)?,
            None => {
                let Measure { size, align } = field.ty.measure()?;
                let align = align.max(asked);
                self.align = self.align.max(align);
                let width = size.checked_mul(8).ok_or(LayoutError::TooLarge)?;
                (padded(start, align * 8)?, width)
            }
        };
        self.bits = start.checked_add(width).ok_or(LayoutError::TooLarge)?;
        // A field of no width ends nothing in a structure, and is nothing in a union.
        if width != 0 || self.kind == AggregateKind::Struct {
            self.end = self.end.max(self.bits);
        }
        Ok(MemberPlace { offset: start / 8, bit: (start % 8) as u32, width })
    }

    /// The place of a bit-field: the next bit, or the next storage unit of its type if it would
    /// cross the end of one.
    fn bit_field(
        &mut self,
        field: &Field,
        bits: u32,
        asked: u64,
        start: u64,
    ) -> Result<(u64, u64), LayoutError> {
        let Type::Fundamental(ty) = field.ty else {
            return Err(LayoutError::NoInteger(field.name.clone()));
        };
        if !matches!(ty.class(), Class::Signed | Class::Unsigned) {
            return Err(LayoutError::NoInteger(field.name.clone()));
        }
        let unit = ty.size() * 8;
        let named = !field.name.is_empty();
        let width = u64::from(bits);
        if width > unit || (named && width == 0) {
            return Err(LayoutError::Width { name: field.name.clone(), bits, ty });
        }
        // Unnamed fields do not align the record.
        if named {
            self.align = self.align.max(ty.align()).max(asked);
        }
        let start = if asked > 1 { padded(start, asked * 8)? } else { start };
        let room = unit - start % unit;
        let start = if width == 0 || width > room { padded(start, unit)? } else { start };
        Ok((start, width))
    }
}

fn bytes_of(bits: u64) -> u64 {
    bits.div_ceil(8)
}

fn power_of_two(align: u64) -> Result<u64, LayoutError> {
    // More than this would not fit when it is counted in bits.
    const LARGEST: u64 = 1 << 32;
    match align.is_power_of_two() && align <= LARGEST {
        true => Ok(align),
        false => Err(LayoutError::Alignment(align)),
    }
}

fn padded(size: u64, align: u64) -> Result<u64, LayoutError> {
    size.checked_next_multiple_of(align).ok_or(LayoutError::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Fundamental as F;
    use proptest::prelude::*;

    fn scalar(name: &str, ty: F) -> Field {
        Field::new(name, Type::Fundamental(ty))
    }

    fn places(record: &Aggregate) -> (u64, u64, Vec<(u64, u32)>) {
        let layout = record.layout().unwrap();
        let places = layout.fields.iter().map(|place| (place.offset, place.bit)).collect();
        (layout.size, layout.align, places)
    }

    #[test]
    fn native_vectors_are_those_of_the_guide() {
        for &element in F::ALL {
            let most = if element.size() <= 4 { 4 } else { 2 };
            for count in 0..=5 {
                let measured = vector(element, count);
                assert_eq!(measured.is_ok(), (1..=most).contains(&count), "{element} {count}");
            }
        }
        let three = vector(F::F32, 3).unwrap();
        assert_eq!((three.size, three.align), (12, 4));
        let four = vector(F::S8, 4).unwrap();
        assert_eq!((four.size, four.align), (4, 4));
        let two = vector(F::F64, 2).unwrap();
        assert_eq!((two.size, two.align), (16, 16));
        let double4 = Type::LanguageVector(F::F64, 4, 16).measure().unwrap();
        assert_eq!((double4.size, double4.align), (32, 16));
    }

    #[test]
    fn members_and_ends_are_padded() {
        let record =
            Aggregate::structure([scalar("c", F::S8), scalar("d", F::F64), scalar("s", F::S16)]);
        assert_eq!(places(&record), (24, 8, vec![(0, 0), (8, 0), (16, 0)]));
        let nested =
            Aggregate::structure([scalar("c", F::S8), Field::new("r", Type::Record(record))]);
        assert_eq!(places(&nested), (32, 8, vec![(0, 0), (8, 0)]));
        let aligned = Aggregate { align: Some(16), ..nested };
        assert_eq!(aligned.layout().unwrap().align, 16);
    }

    #[test]
    fn a_union_is_as_large_as_its_largest_member() {
        // Figure 5 of the guide: union { char c; short s:8; }
        let record = Aggregate::union([scalar("c", F::S8), Field::bits("s", F::S16, 8)]);
        assert_eq!(places(&record), (2, 2, vec![(0, 0), (0, 0)]));
    }

    #[test]
    fn bit_fields_share_units_and_never_cross_one() {
        let record = Aggregate::structure([
            Field::bits("a", F::S32, 5),
            Field::bits("b", F::S32, 27),
            Field::bits("c", F::S32, 1),
            scalar("d", F::S8),
            Field::bits("e", F::S16, 9),
        ]);
        // c is at bit 32, d shares its unit; e would cross the halfword at bit 48.
        assert_eq!(places(&record), (8, 4, vec![(0, 0), (0, 5), (4, 0), (5, 0), (6, 0)]));
    }

    #[test]
    fn unnamed_bit_fields_take_room_and_align_nothing() {
        let record = Aggregate::structure([
            scalar("c", F::S8),
            Field::bits("", F::S32, 0),
            scalar("d", F::S8),
            Field::bits("", F::S16, 9),
            scalar("e", F::S8),
            Field::bits("", F::S8, 0),
        ]);
        assert_eq!(places(&record), (9, 1, vec![(0, 0), (4, 0), (4, 0), (6, 0), (8, 0), (9, 0)]));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let float = Aggregate::structure([Field::bits("f", F::F32, 3)]);
        assert_eq!(float.layout(), Err(LayoutError::NoInteger("f".to_owned())));
        let wide = Aggregate::structure([Field::bits("w", F::S8, 9)]);
        assert!(matches!(wide.layout(), Err(LayoutError::Width { bits: 9, .. })));
        let none = Aggregate::structure([Field::bits("n", F::S8, 0)]);
        assert!(matches!(none.layout(), Err(LayoutError::Width { bits: 0, .. })));
        let odd = Aggregate { align: Some(3), ..Aggregate::structure([]) };
        assert_eq!(odd.layout(), Err(LayoutError::Alignment(3)));
        let huge = Type::array(Type::array(Type::Fundamental(F::F64), u64::MAX / 8), 2);
        assert_eq!(huge.measure(), Err(LayoutError::TooLarge));
        assert_eq!(Aggregate::structure([]).layout().unwrap().size, 1);
    }

    #[test]
    fn ranges_are_those_of_the_guide() {
        for (name, ty) in BIT_FIELD_TYPES {
            let most = (ty.size() * 8) as u32;
            assert_eq!(bit_field_range(ty, 0), None);
            assert_eq!(bit_field_range(ty, most + 1), None);
            for bits in 1..=most {
                let (low, high) = bit_field_range(ty, bits).unwrap();
                assert_eq!(high - low, (1i128 << bits) - 1, "{name} : {bits}");
                assert_eq!(low < 0, name.starts_with("signed"));
            }
        }
        assert_eq!(bit_field_range(F::F32, 3), None);
    }

    fn any_field() -> impl Strategy<Value = Field> {
        let ty = prop::sample::select(F::ALL.to_vec());
        (ty, prop::option::of(0..65u32), 0..3u8).prop_map(|(ty, bits, array)| {
            let element = Type::Fundamental(ty);
            match (bits, array) {
                (Some(bits), _) => Field::bits(if bits % 3 == 0 { "" } else { "b" }, ty, bits),
                (None, 0) => Field::new("s", element),
                (None, count) => Field::new("a", Type::array(element, count.into())),
            }
        })
    }

    proptest! {
        /// No two members of a structure have a bit in common, and all are inside.
        #[test]
        fn members_do_not_overlap(fields in prop::collection::vec(any_field(), 0..12)) {
            let record = Aggregate::structure(fields);
            if let Ok(layout) = record.layout() {
                prop_assert_eq!(layout.size % layout.align, 0);
                let mut end = 0;
                for (place, field) in layout.fields.iter().zip(&record.fields) {
                    let start = place.offset * 8 + u64::from(place.bit);
                    prop_assert!(start >= end);
                    end = start + place.width;
                    if field.bits.is_none() {
                        prop_assert_eq!(place.offset % field.ty.measure().unwrap().align, 0);
                    }
                }
                prop_assert!(end <= layout.size * 8);
                let union = Aggregate::union(record.fields.clone()).layout().unwrap();
                prop_assert!(union.size <= layout.size);
                prop_assert_eq!(union.align, layout.align);
            }
        }
    }
}
