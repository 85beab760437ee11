//! One attribute of a function on its way to the output.

use culd_cubin::attr::{Record, code, format};

use crate::base::id::OutSymbolId;

/// One attribute of a function on its way to the output.
#[derive(Debug, Clone)]
pub(crate) enum OutAttribute<'d> {
    /// A record copied from the input.
    Record(Record<'d>),
    /// A record that begins with a symbol, and the rest of its payload.
    About { code: u8, symbol: OutSymbolId, rest: &'d [u8] },
    /// EXTERNS: functions that the program leaves undefined, and entries.
    Externs(Vec<OutSymbolId>),
    /// A number in one of the formats.
    Number { format: u8, code: u8, value: u32 },
    /// Bytes collected from several functions.
    Bytes { code: u8, bytes: Vec<u8> },
}

impl OutAttribute<'_> {
    pub(crate) fn code(&self) -> u8 {
        match self {
            OutAttribute::Record(record) => record.code,
            OutAttribute::Externs(_) => code::EXTERNS,
            OutAttribute::Number { code, .. }
            | OutAttribute::Bytes { code, .. }
            | OutAttribute::About { code, .. } => *code,
        }
    }

    pub(super) fn number(&self) -> u32 {
        match self {
            OutAttribute::Record(record) => record.number(),
            OutAttribute::Number { value, .. } => *value,
            _ => 0,
        }
    }

    /// This attribute with another value, in its present format.
    pub(crate) fn with_number(&self, value: u32) -> Self {
        let format = match self {
            OutAttribute::Record(record) => record.format,
            OutAttribute::Number { format, .. } => *format,
            _ => format::SIZED,
        };
        OutAttribute::Number { format, code: self.code(), value }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            OutAttribute::Record(record) => record.payload,
            OutAttribute::Bytes { bytes, .. } => bytes,
            _ => &[],
        }
    }

    /// Appends the record; `index` gives the output index of a symbol.
    pub(crate) fn write(&self, out: &mut Vec<u8>, index: &impl Fn(OutSymbolId) -> u32) {
        let mut sized = |code: u8, len: usize| {
            out.extend_from_slice(&[format::SIZED, code]);
            out.extend_from_slice(&(len as u16).to_le_bytes());
        };
        match self {
            OutAttribute::Record(record) => record.write(out),
            OutAttribute::About { code, symbol, rest } => {
                sized(*code, 4 + rest.len());
                out.extend_from_slice(&index(*symbol).to_le_bytes());
                out.extend_from_slice(rest);
            }
            OutAttribute::Externs(functions) => {
                sized(code::EXTERNS, 4 * functions.len());
                for &function in functions {
                    out.extend_from_slice(&index(function).to_le_bytes());
                }
            }
            OutAttribute::Number { format: format::SIZED, code, value } => {
                sized(*code, 4);
                out.extend_from_slice(&value.to_le_bytes());
            }
            OutAttribute::Number { format, code, value } => {
                out.extend_from_slice(&[*format, *code]);
                out.extend_from_slice(&(*value as u16).to_le_bytes());
            }
            OutAttribute::Bytes { code, bytes } => {
                sized(*code, bytes.len());
                out.extend_from_slice(bytes);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, OutAttribute::Externs(functions) if functions.is_empty())
    }
}
