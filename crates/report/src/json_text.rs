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

/// Appends the JSON forms of rows, with commas between them.
pub(crate) fn rows<T: Serialize>(
    out: &mut Vec<u8>,
    rows: impl IntoIterator<Item = T>,
) -> Result<(), Error> {
    for (place, row) in rows.into_iter().enumerate() {
        if place != 0 {
            out.push(b',');
        }
        write(out, &row)?;
    }
    Ok(())
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

/// The number in decimal digits: by lists of known lengths, which need no call of `memcpy`.
fn decimal(out: &mut Vec<u8>, number: u64) {
    let digit = |place: u64| b'0' + (number / place % 10) as u8;
    match number {
        0..10 => out.push(digit(1)),
        10..100 => out.extend_from_slice(&[digit(10), digit(1)]),
        100..1000 => out.extend_from_slice(&[digit(100), digit(10), digit(1)]),
        _ => {
            if number >= 10_000 {
                decimal(out, number / 10_000);
            }
            let four = [digit(1000), digit(100), digit(10), digit(1)];
            out.extend_from_slice(&four);
        }
    }
}

/// The text in quotes.
fn text(out: &mut Vec<u8>, text: &str) -> Result<(), Error> {
    // No early end: the compiler makes vector instructions of it.
    let special = |special, &byte: &u8| special | (byte < b' ') | (byte == b'"') | (byte == b'\\');
    if text.as_bytes().iter().fold(false, special) {
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
