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

/// A need: `null` if nothing is known, a number if it is the function's own and the total.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum NeedForm {
    Number(u32),
    Parts {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        own: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set_by: Option<usize>,
    },
    Unknown,
}

impl ReportNeed {
    /// No need: what is left out in the JSON form.
    pub(crate) fn zero() -> Self {
        ReportNeed { own: Some(0), total: Some(0), set_by: None }
    }

    pub(crate) fn is_zero(&self) -> bool {
        *self == ReportNeed::zero()
    }
}

impl Serialize for ReportNeed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            ReportNeed { own: Some(own), total: Some(total), set_by: None } if own == total => {
                NeedForm::Number(own)
            }
            ReportNeed { own: None, total: None, set_by: None } => NeedForm::Unknown,
            ReportNeed { own, total, set_by } => NeedForm::Parts { own, total, set_by },
        }
        .serialize(serializer)
    }
}

impl From<NeedForm> for ReportNeed {
    fn from(form: NeedForm) -> Self {
        match form {
            NeedForm::Number(own) => ReportNeed { own: Some(own), total: Some(own), set_by: None },
            NeedForm::Parts { own, total, set_by } => ReportNeed { own, total, set_by },
            NeedForm::Unknown => ReportNeed::default(),
        }
    }
}

/// A stack, in the same way.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum StackForm {
    Number(u32),
    Parts {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        own: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<usize>,
    },
    Unknown,
}

impl ReportStack {
    /// No stack: what is left out in the JSON form.
    pub(crate) fn zero() -> Self {
        ReportStack { own: Some(0), total: Some(0), next: None }
    }

    pub(crate) fn is_zero(&self) -> bool {
        *self == ReportStack::zero()
    }
}

impl Serialize for ReportStack {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            ReportStack { own: Some(own), total: Some(total), next: None } if own == total => {
                StackForm::Number(own)
            }
            ReportStack { own: None, total: None, next: None } => StackForm::Unknown,
            ReportStack { own, total, next } => StackForm::Parts { own, total, next },
        }
        .serialize(serializer)
    }
}

impl From<StackForm> for ReportStack {
    fn from(form: StackForm) -> Self {
        match form {
            StackForm::Number(own) => ReportStack { own: Some(own), total: Some(own), next: None },
            StackForm::Parts { own, total, next } => ReportStack { own, total, next },
            StackForm::Unknown => ReportStack::default(),
        }
    }
}
