//! The writer of the JSON form.
//!
//! In: what a report has: structs, lists, numbers, names, names of variants. Out: the bytes that
//! `serde_json` makes of the same (a test holds them against each other). Guaranteed: anything else
//! is an error.
//!
//! `serde_json` looks at each letter of each name of a field. With it, the JSON of a link of 100
//! files took 3.2 times the instructions.

use std::fmt::Error;

use serde::Serialize;
use serde::ser::{
    Impossible, SerializeSeq, SerializeStruct, SerializeTuple, SerializeTupleStruct, Serializer,
};

/// The byte that keeps the place of what is written elsewhere. JSON has no control characters.
pub(crate) const GAP: u8 = 1;

/// Appends the JSON form of `value`.
pub(crate) fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), Error> {
    value.serialize(JsonText(out))
}

/// The end of the text.
struct JsonText<'o>(&'o mut Vec<u8>);

/// A list or a struct that is being written.
struct JsonList<'o> {
    out: &'o mut Vec<u8>,
    empty: bool,
    /// The bracket at the end.
    end: u8,
}

impl<'o> JsonList<'o> {
    fn begin(out: &'o mut Vec<u8>, begin: u8, end: u8) -> Self {
        out.push(begin);
        JsonList { out, empty: true, end }
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        if !std::mem::replace(&mut self.empty, false) {
            self.out.push(b',');
        }
        write(self.out, value)
    }

    fn finish(self) {
        self.out.push(self.end);
    }
}

/// The two digits of each number below 100, the first in the lower byte. The room behind them saves
/// a division: an index of seven bits is one of the table.
const PAIRS: [u16; 128] = {
    let mut pairs = [0; 128];
    let mut number = 0;
    while number < 100 {
        let digits = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        pairs[number] = u16::from_le_bytes(digits);
        number += 1;
    }
    pairs
};

/// The most digits that [`digits`] returns.
pub(crate) const DIGITS: usize = 4;

/// The four digits of a number below 10,000, the first in the lowest byte.
#[inline(always)]
fn digits_word(number: u32) -> u32 {
    let pair = |number: u32| u32::from(PAIRS[number as usize & 127]);
    pair(number / 100) | pair(number % 100) << 16
}

/// The digits of a number below 10,000, zeros in front of it included.
pub(crate) fn four_digits(number: u32) -> [u8; DIGITS] {
    digits_word(number).to_le_bytes()
}

/// The digits of a number below 10,000, and how many there are.
#[inline(always)]
pub(crate) fn digits(number: u32) -> ([u8; DIGITS], usize) {
    let zeros = u32::from(number < 10) + u32::from(number < 100) + u32::from(number < 1000);
    ((digits_word(number) >> (8 * zeros)).to_le_bytes(), DIGITS - zeros as usize)
}

/// The number in decimal digits.
pub(crate) fn decimal(out: &mut Vec<u8>, number: u64) {
    const FEW: u64 = 10_000;
    if number >= FEW {
        decimal(out, number / FEW);
        return out.extend_from_slice(&four_digits((number % FEW) as u32));
    }
    let (digits, len) = digits(number as u32);
    out.extend_from_slice(&digits[..len]);
}

/// True if the text needs no escapes.
pub(crate) fn is_plain(text: &str) -> bool {
    // No early end: the compiler makes vector instructions of it.
    let special = |special, &byte: &u8| special | (byte < b' ') | (byte == b'"') | (byte == b'\\');
    !text.as_bytes().iter().fold(false, special)
}

/// The text in quotes.
pub(crate) fn text(out: &mut Vec<u8>, text: &str) -> Result<(), Error> {
    if !is_plain(text) {
        return serde_json::to_writer(out, text).map_err(|_| Error);
    }
    out.reserve(text.len() + 2);
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
    Ok(())
}

impl<'o> Serializer for JsonText<'o> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = JsonList<'o>;
    type SerializeTuple = JsonList<'o>;
    type SerializeTupleStruct = JsonList<'o>;
    type SerializeTupleVariant = Impossible<(), Error>;
    type SerializeMap = Impossible<(), Error>;
    type SerializeStruct = JsonList<'o>;
    type SerializeStructVariant = Impossible<(), Error>;

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.0.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_i8(self, _: i8) -> Result<(), Error> {
        Err(Error)
    }

    fn serialize_i16(self, _: i16) -> Result<(), Error> {
        Err(Error)
    }

    fn serialize_i32(self, _: i32) -> Result<(), Error> {
        Err(Error)
    }

    fn serialize_i64(self, _: i64) -> Result<(), Error> {
        Err(Error)
    }

    fn serialize_u8(self, value: u8) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<(), Error> {
        decimal(self.0, value);
        Ok(())
    }

    fn serialize_f32(self, _: f32) -> Result<(), Error> {
        Err(Error)
    }

    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        serde_json::to_writer(self.0, &value).map_err(|_| Error)
    }

    fn serialize_char(self, _: char) -> Result<(), Error> {
        Err(Error)
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        text(self.0, value)
    }

    /// A gap. A report has no bytes.
    fn serialize_bytes(self, _: &[u8]) -> Result<(), Error> {
        self.0.push(GAP);
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.0.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        Err(Error)
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), Error> {
        text(self.0, variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), Error> {
        Err(Error)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<JsonList<'o>, Error> {
        Ok(JsonList::begin(self.0, b'[', b']'))
    }

    fn serialize_tuple(self, _: usize) -> Result<JsonList<'o>, Error> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<JsonList<'o>, Error> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Error> {
        Err(Error)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Error> {
        Err(Error)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<JsonList<'o>, Error> {
        Ok(JsonList::begin(self.0, b'{', b'}'))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Error> {
        Err(Error)
    }
}

/// The traits for lists, whose elements have no names.
macro_rules! lists {
    ($($list:ident: $add:ident;)*) => {$(
        impl $list for JsonList<'_> {
            type Ok = ();
            type Error = Error;

            fn $add<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.element(value)
            }

            fn end(self) -> Result<(), Error> {
                self.finish();
                Ok(())
            }
        }
    )*};
}

lists! {
    SerializeSeq: serialize_element;
    SerializeTuple: serialize_element;
    SerializeTupleStruct: serialize_field;
}

impl SerializeStruct for JsonList<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        // Names of fields are letters: they need no escapes.
        self.out.reserve(key.len() + 4);
        if !std::mem::replace(&mut self.empty, false) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        write(self.out, value)
    }

    fn end(self) -> Result<(), Error> {
        self.finish();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_they_have_elsewhere() {
        let powers = (0..20).map(|power| 10u64.pow(power));
        let edges =
            powers.flat_map(|power| [power - 1, power, power + 1, power / 7, power / 3 * 2]);
        let numbers = (0..20_000)
            .chain(99_990_000..100_010_000)
            .chain(999_990..1_000_010)
            .chain(edges)
            .chain([u64::MAX]);
        let mut out = Vec::new();
        for number in numbers {
            out.clear();
            decimal(&mut out, number);
            assert_eq!(String::from_utf8_lossy(&out), number.to_string());
        }
    }
}
