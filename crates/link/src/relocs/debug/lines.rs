//! Rebuilds `.debug_line` and `.nv_debug_line_sass` with the line programs of live functions.
//!
//! Units keep their headers. After the header, each sequence (up to its end operation) belongs to
//! the function whose address it begins with. The sequences of live functions come in the order of
//! the output's symbols. nvlink treats all jump slots as one function (case unified/lineinfo): the
//! sequence of the slot at the start of the table ends with the table, and the sequence of every
//! other slot keeps only its first row.

use culd_cubin::Malformed;

use super::{DebugInput, DebugOutput, FunctionAddress, SlotPlace, number};
use crate::draft::offset_map::MovedRange;

/// Extended operations.
const END_SEQUENCE: u8 = 1;
const SET_ADDRESS: u8 = 2;
/// Standard operations: append a row, advance the address.
const COPY: u8 = 1;
const ADVANCE_PC: u8 = 2;
/// The next row ends the prologue. ptxas 13.5 writes this in front of the end of each sequence.
const PROLOGUE_END: u8 = 10;
/// Standard operation with a fixed operand of two bytes.
const FIXED_ADVANCE: u8 = 9;

/// A sequence of a line program.
struct LineSequence {
    /// Place of its function in the order of the symbol table.
    rank: u32,
    from: usize,
    end: usize,
    /// For the sequence of a jump slot.
    slot: Option<SlotSequence>,
}

/// How the sequence of a jump slot is shortened.
#[derive(Clone, Copy)]
struct SlotSequence {
    /// End of the bytes that are kept.
    cut: usize,
    /// Bytes of the table, for the sequence that advances to its end.
    advance: Option<u64>,
    /// Start of its last operation, or of the prologue mark in front of that.
    last: usize,
}

/// The fields of a unit's header that are used.
struct LineUnit<'u> {
    /// Where the operations start and where the unit ends.
    program: usize,
    end: usize,
    /// The first special opcode, and the numbers of operands of the standard opcodes below it.
    opcode_base: u8,
    operands: &'u [u8],
}

pub(super) fn append<'d>(
    input: &DebugInput<'_, 'd>,
    out: &mut DebugOutput<'d>,
) -> Result<(), Malformed> {
    let data = input.section.data;
    let mercury = input.object.counterpart_data(input.index);
    let (mut copied, mut headers) = (Vec::new(), Vec::new());
    let (mut at, mut mercury_at) = (0, 0);
    while at < data.len() {
        let unit = header(data, at).ok_or_else(|| input.defect(at, NO_HEADER))?;
        let counterpart = header(mercury, mercury_at).ok_or_else(|| input.defect(at, NO_HEADER))?;
        let start = out.bytes.len();
        let mut copy = |bytes: &mut Vec<u8>, from: usize, end: usize| {
            let to = bytes.len() as u64;
            copied.push(MovedRange {
                from: from as u64,
                to,
                size: end.saturating_sub(from) as u64,
            });
            bytes.extend_from_slice(data.get(from..end).unwrap_or_default());
        };
        copy(&mut out.bytes, at, unit.program);
        let header_end = out.bytes.len();
        let (mut sequences, rest) = sequences(input, &unit)?;
        sequences.sort_by_key(|sequence| (sequence.rank, sequence.from));
        for sequence in sequences {
            let Some(slot) = sequence.slot else {
                copy(&mut out.bytes, sequence.from, sequence.end);
                continue;
            };
            copy(&mut out.bytes, sequence.from, slot.cut);
            if let Some(table_size) = slot.advance {
                out.bytes.push(ADVANCE_PC);
                write_uleb(&mut out.bytes, table_size);
            }
            copy(&mut out.bytes, slot.last, sequence.end);
        }
        copy(&mut out.bytes, rest, unit.end);
        let ends = input.builder.merged.draft.dialect.empty_units_end;
        if ends && out.bytes.len() == header_end {
            out.bytes.extend_from_slice(&[0, 1, END_SEQUENCE]);
        }
        let (from, end) = (mercury_at as u64, counterpart.program as u64);
        headers.push(MovedRange { from, to: start as u64, size: end.saturating_sub(from) });
        let length = (out.bytes.len() - start - 4) as u32;
        if let Some(place) = out.bytes.get_mut(start..start + 4) {
            place.copy_from_slice(&length.to_le_bytes());
        }
        (at, mercury_at) = (unit.end, counterpart.end);
    }
    copied.sort_unstable_by_key(|range| range.from);
    out.copied.insert((input.id, input.index), copied);
    out.headers.insert((input.id, input.index), headers);
    Ok(())
}

const NO_HEADER: &str = "a unit of this section or its twin has no usable header";

/// ```text
/// 0  u32 length of what follows    10  u8 x4              15  u8 numbers of operands
/// 4  u16 version                   14  u8 opcode base         directories, files
/// 6  u32 length of the rest of the header
/// ```
fn header(data: &[u8], at: usize) -> Option<LineUnit<'_>> {
    let end = number::<4>(data, at)?.checked_add(at + 4)?;
    let program = number::<4>(data, at + 6)?.checked_add(at + 10)?;
    let opcode_base = *data.get(at + 14)?;
    let operands = data.get(at + 15..at + 14 + usize::from(opcode_base.max(1)))?;
    let sound = program >= at + 15 && program <= end && end <= data.len();
    sound.then_some(LineUnit { program, end, opcode_base, operands })
}

/// The sequences of live functions, and the end of the last sequence.
fn sequences(
    input: &DebugInput<'_, '_>,
    unit: &LineUnit<'_>,
) -> Result<(Vec<LineSequence>, usize), Malformed> {
    let mut sequences = Vec::new();
    let (mut at, mut from) = (unit.program, unit.program);
    let (mut rank, mut live) = (0, true);
    // Offsets in the section: behind the first row, of the last advance, and of a mark that ends
    // the prologue and directly precedes the operation.
    let (mut slot_place, mut first_row, mut advance, mut mark) = (None, None, None, None);
    while at < unit.end {
        let operation = operation(input.section.data, unit, at)
            .ok_or_else(|| input.defect(at, "an operation of a line program runs past its end"))?;
        match operation.extended {
            Some(SET_ADDRESS) => {
                // The address follows the three bytes of the operation.
                let address = operation.end - operation.operands;
                let functions = input.functions_in(address, address + 1);
                if let Some(&FunctionAddress { function, .. }) = functions.first() {
                    live = input.is_live(function);
                    rank = input.builder.rank(input.id, function);
                    slot_place = input.builder.slot(input.id, function);
                }
            }
            Some(END_SEQUENCE) => {
                if live {
                    let last = mark.unwrap_or(at);
                    let slot = match slot_place {
                        Some(SlotPlace { offset: 0, table_size }) => {
                            advance.map(|cut| SlotSequence { cut, advance: Some(table_size), last })
                        }
                        Some(_) => first_row.map(|cut| SlotSequence { cut, advance: None, last }),
                        None => None,
                    };
                    sequences.push(LineSequence { rank, from, end: operation.end, slot });
                }
                (from, rank, live) = (operation.end, 0, true);
                (slot_place, first_row, advance) = (None, None, None);
            }
            None if input.section.data.get(at) == Some(&COPY) => {
                first_row = first_row.or(Some(operation.end));
            }
            None if input.section.data.get(at) == Some(&ADVANCE_PC) => advance = Some(at),
            _ => {}
        }
        let marks =
            operation.extended.is_none() && input.section.data.get(at) == Some(&PROLOGUE_END);
        mark = marks.then_some(at);
        at = operation.end;
    }
    Ok((sequences, from))
}

/// An operation of a line program.
struct LineOperation {
    /// Offset in the section of the byte behind it.
    end: usize,
    /// Its opcode, if it is an extended operation.
    extended: Option<u8>,
    /// Bytes of the operands of an extended operation.
    operands: usize,
}

fn operation(data: &[u8], unit: &LineUnit<'_>, at: usize) -> Option<LineOperation> {
    let data = data.get(..unit.end)?;
    let code = *data.get(at)?;
    let plain = |end| Some(LineOperation { end, extended: None, operands: 0 });
    if code == 0 {
        let (size, start) = uleb(data, at + 1)?;
        let end = start.checked_add(size)?;
        let extended = *data.get(start)?;
        let operands = size.checked_sub(1)?;
        return (end <= data.len()).then_some(LineOperation {
            end,
            extended: Some(extended),
            operands,
        });
    }
    if code >= unit.opcode_base {
        return plain(at + 1);
    }
    if code == FIXED_ADVANCE {
        return plain(at + 3).filter(|operation| operation.end <= data.len());
    }
    let mut end = at + 1;
    for _ in 0..*unit.operands.get(usize::from(code) - 1)? {
        end = uleb(data, end)?.1;
    }
    plain(end)
}

/// Appends a number in LEB128.
fn write_uleb(out: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The number at `at` in LEB128, and where it ends.
fn uleb(data: &[u8], at: usize) -> Option<(usize, usize)> {
    let (mut value, mut shift, mut at) = (0u64, 0u32, at);
    loop {
        let byte = *data.get(at)?;
        at += 1;
        value |= u64::from(byte & 127).checked_shl(shift).unwrap_or(0);
        shift += 7;
        if byte < 128 {
            return Some((usize::try_from(value).ok()?, at));
        }
    }
}
