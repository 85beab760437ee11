//! The JSON form of what a report has thousands of: sections as rows, needs as numbers.
//!
//! In: the data. Out: its serialized form, and back. Guaranteed: what is read is what was written.

use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Serialize, Serializer};

use crate::data::{ReportNeed, ReportSection, ReportStack};

/// A section is a row: kind, offset, bytes, function, input, pieces. Fields at the end that are
/// absent are left out; in front of others they are `null`.
impl Serialize for ReportSection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let length = match self {
            ReportSection { pieces, .. } if !pieces.is_empty() => 6,
            ReportSection { input: Some(_), .. } => 5,
            ReportSection { function: Some(_), .. } => 4,
            _ => 3,
        };
        let mut row = serializer.serialize_seq(Some(length))?;
        row.serialize_element(&self.kind)?;
        row.serialize_element(&self.offset)?;
        row.serialize_element(&self.bytes)?;
        if length > 3 {
            row.serialize_element(&self.function)?;
        }
        if length > 4 {
            row.serialize_element(&self.input)?;
        }
        if length > 5 {
            row.serialize_element(&self.pieces)?;
        }
        row.end()
    }
}

impl<'de> Deserialize<'de> for ReportSection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RowVisitor;

        impl<'de> Visitor<'de> for RowVisitor {
            type Value = ReportSection;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a row: kind, offset, bytes, function, input, pieces")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut row: A) -> Result<ReportSection, A::Error> {
                let section = ReportSection {
                    kind: row.next_element()?.unwrap_or(usize::MAX),
                    offset: row.next_element()?.unwrap_or_default(),
                    bytes: row.next_element()?.unwrap_or_default(),
                    function: row.next_element()?.unwrap_or_default(),
                    input: row.next_element()?.unwrap_or_default(),
                    pieces: row.next_element()?.unwrap_or_default(),
                };
                // Later versions may add fields.
                while row.next_element::<IgnoredAny>()?.is_some() {}
                Ok(section)
            }
        }

        deserializer.deserialize_seq(RowVisitor)
    }
}

/// The form of a need of a function: `null` if nothing is known, a number if it is the function's
/// own and the total. `$cause` is the field that says where the total comes from.
macro_rules! need_form {
    ($form:ident, $need:ident, $cause:ident) => {
        #[derive(Serialize, Deserialize)]
        #[serde(untagged)]
        pub(crate) enum $form {
            Number(u32),
            Parts {
                #[serde(default, skip_serializing_if = "Option::is_none")]
                own: Option<u32>,
                #[serde(default, skip_serializing_if = "Option::is_none")]
                total: Option<u32>,
                #[serde(default, skip_serializing_if = "Option::is_none")]
                $cause: Option<usize>,
            },
            Unknown,
        }

        impl $need {
            /// No need: what is left out in the JSON form.
            pub(crate) fn zero() -> Self {
                $need { own: Some(0), total: Some(0), $cause: None }
            }

            pub(crate) fn is_zero(&self) -> bool {
                *self == $need::zero()
            }
        }

        impl Serialize for $need {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match *self {
                    $need { own: Some(own), total: Some(total), $cause: None } if own == total => {
                        $form::Number(own)
                    }
                    $need { own: None, total: None, $cause: None } => $form::Unknown,
                    $need { own, total, $cause } => $form::Parts { own, total, $cause },
                }
                .serialize(serializer)
            }
        }

        impl From<$form> for $need {
            fn from(form: $form) -> Self {
                match form {
                    $form::Number(own) => $need { own: Some(own), total: Some(own), $cause: None },
                    $form::Parts { own, total, $cause } => $need { own, total, $cause },
                    $form::Unknown => $need::default(),
                }
            }
        }
    };
}

need_form!(NeedForm, ReportNeed, set_by);
need_form!(StackForm, ReportStack, next);
