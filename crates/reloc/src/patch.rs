//! The patcher: the only code that touches the bits of a place.
//!
//! In: a row of the tables, a section's bytes, the place's offset in it and the value. Out: the
//! fields of the row filled. Guaranteed: on an error the bytes are unchanged; only bytes that a
//! field touches are read or written, so a 32-bit field may be the last thing in a section; places
//! need no alignment.

use std::fmt;
use std::ops::Range;

use crate::desc::{Action, Observed, RelocDesc, RelocType, Source};

/// The resolved value of a relocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RelocValue {
    /// S + A, modulo 2^64.
    pub address: u64,
    /// N of the section `.nv.constantN` that holds the symbol; 0 where the row has no bank field.
    pub bank: u8,
}

/// Why a place was not patched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PatchError {
    /// The last field ends after the section does.
    OutOfBounds {
        /// Type of the relocation.
        code: RelocType,
        /// Offset of the place in the section.
        offset: usize,
        /// Bytes from the place to the end of the last field.
        span: usize,
        /// Size of the section.
        size: usize,
    },
    /// The type is not one that a linker applies: it is kept, rewritten or refused.
    NotApplicable {
        /// Type of the relocation.
        code: RelocType,
    },
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatchError::OutOfBounds { code, offset, span, size } => write!(
                f,
                "{code} at offset {offset:#x} needs {span} bytes, but the section has {size:#x}"
            ),
            PatchError::NotApplicable { code } => write!(f, "a linker does not apply {code}"),
        }
    }
}

impl std::error::Error for PatchError {}

impl RelocDesc {
    /// Overwrites the fields at `offset` with `value`, as a `SHT_RELA` record asks for. A value too
    /// large for a field loses its high bits without a word, as in nvlink: ask [`RelocDesc::fits`]
    /// first. Types that only mark a place (`*_YIELD_*`, `*_UNUSED_CLEAR*`, `R_CUDA_NONE`) write
    /// nothing.
    pub fn apply(
        &self,
        section: &mut [u8],
        offset: usize,
        value: RelocValue,
    ) -> Result<(), PatchError> {
        self.check_applicable()?;
        self.update(section, offset, |action, _| action.take(value))
    }

    /// Adds `value` to the fields at `offset`, each on its own and modulo its width, as a `SHT_REL`
    /// record asks for: the addend is what the fields hold, so `value.address` is S alone. A byte
    /// of a number is the exception: what it holds is added before the byte is taken (case
    /// relocations/rel-75).
    pub fn add(
        &self,
        section: &mut [u8],
        offset: usize,
        value: RelocValue,
    ) -> Result<(), PatchError> {
        self.check_applicable()?;
        self.update(section, offset, |action, old| {
            if action.is_byte() {
                let address = value.address.wrapping_add(old);
                return action.take(RelocValue { address, ..value });
            }
            Some(old.wrapping_add(action.take(value)?))
        })
    }

    /// Zeroes the fields of a type of the `UNUSED_CLEAR` kind, for records whose symbol was
    /// removed. For all other types nothing is written, since nvlink leaves the place of a dropped
    /// record alone.
    pub fn clear(&self, section: &mut [u8], offset: usize) -> Result<(), PatchError> {
        self.update(section, offset, |action, _| (action.source == Source::Clear).then_some(0))
    }

    /// Writes `value` to fields of types that mark an instruction which yields; for all other types
    /// nothing is written. nvlink does this where all files were compiled for virtual architectures
    /// before compute_70.
    pub fn apply_hint(
        &self,
        section: &mut [u8],
        offset: usize,
        value: RelocValue,
    ) -> Result<(), PatchError> {
        self.update(section, offset, |action, _| {
            (action.source == Source::Hint).then_some(value.address >> action.shift)
        })
    }

    /// Whether the type marks an instruction that yields.
    pub fn is_yield(&self) -> bool {
        self.actions.iter().any(|action| action.source == Source::Hint)
    }

    /// Reads the fields at `offset` back into a value; bits that no field holds are zero. Works for
    /// every type, also those that [`RelocDesc::apply`] refuses.
    pub fn extract(&self, section: &[u8], offset: usize) -> Result<RelocValue, PatchError> {
        let place = self.place(section.len(), offset)?;
        let mut value = RelocValue::default();
        for action in self.actions.iter().filter(|action| action.is_number()) {
            let bits = read(&section[place + action.first_byte()..][..action.byte_count()], action);
            match action.source {
                Source::Bank => value.bank |= (bits << action.shift) as u8,
                _ => value.address |= bits << action.shift,
            }
        }
        Ok(value)
    }

    /// Whether the fields can hold `value`: an address as an unsigned or as a two's complement
    /// number, with no low bits lost, and the whole bank number. Always true for fields that are
    /// meant to take only a part.
    pub fn fits(&self, value: RelocValue) -> bool {
        let bank_fits = self.bank.is_none_or(|bits| u64::from(value.bank) <= mask(bits));
        let address = value.address;
        let address_fits = self.address_bits().is_none_or(|Range { start, end }| {
            let unsigned = end == 64 || address >> end == 0;
            address & mask(start) == 0 && (unsigned || address as i64 >> (end - 1) == -1)
        });
        address_fits && bank_fits
    }

    /// The bits of the first field at `offset`, wherever they belong in a value; 0 for a type
    /// without one.
    pub fn first_field(&self, section: &[u8], offset: usize) -> Result<u64, PatchError> {
        let place = self.place(section.len(), offset)?;
        let first = self.actions.iter().find(|action| action.is_number());
        Ok(first.map_or(0, |action| {
            read(&section[place + action.first_byte()..][..action.byte_count()], action)
        }))
    }

    /// Whether the fields can hold the result of [`RelocDesc::add`]. Whether their present contents
    /// are negative is not known: one of the two sums has to fit.
    pub fn fits_added(
        &self,
        section: &[u8],
        offset: usize,
        value: RelocValue,
    ) -> Result<bool, PatchError> {
        let held = self.extract(section, offset)?;
        let Some(Range { end, .. }) = self.address_bits() else { return Ok(true) };
        let negative = (held.address << (64 - end)) as i64 >> (64 - end);
        let sum =
            |held: u64| RelocValue { address: value.address.wrapping_add(held), bank: value.bank };
        Ok(self.fits(sum(held.address)) || self.fits(sum(negative as u64)))
    }

    /// The bits of the address that the fields are meant to hold, if they are meant to hold all of
    /// it.
    pub fn address_bits(&self) -> Option<Range<u8>> {
        self.address.map(|(start, end)| start..end)
    }

    /// Whether [`RelocDesc::apply`] and [`RelocDesc::add`] accept the type: a linker resolves it,
    /// or it changes nothing.
    pub const fn is_applicable(&self) -> bool {
        use Observed::{Bits, Clears, Ignored, NoEffect};
        matches!(self.observed, NoEffect | Bits | Ignored | Clears)
    }

    fn check_applicable(&self) -> Result<(), PatchError> {
        if self.is_applicable() {
            Ok(())
        } else {
            Err(PatchError::NotApplicable { code: self.code })
        }
    }

    /// `offset`, once it is known that all fields end inside a section of `size` bytes.
    fn place(&self, size: usize, offset: usize) -> Result<usize, PatchError> {
        let span = self.span_bytes();
        match offset.checked_add(span) {
            Some(end) if end <= size => Ok(offset),
            _ => Err(PatchError::OutOfBounds { code: self.code, offset, span, size }),
        }
    }

    /// Calls `new` with each field's old bits and writes the result, if there is one.
    fn update(
        &self,
        section: &mut [u8],
        offset: usize,
        new: impl Fn(&Action, u64) -> Option<u64>,
    ) -> Result<(), PatchError> {
        let place = self.place(section.len(), offset)?;
        for action in self.actions.iter().filter(|action| action.width <= 64) {
            let bytes = &mut section[place + action.first_byte()..][..action.byte_count()];
            if let Some(bits) = new(action, read(bytes, action)) {
                write(bytes, action, bits);
            }
        }
        Ok(())
    }
}

impl Action {
    /// First byte of the word that the field touches.
    const fn first_byte(&self) -> usize {
        self.bit as usize / 8
    }

    /// Number of bytes that the field touches: at most nine for a field of a number.
    const fn byte_count(&self) -> usize {
        (self.end() as usize).div_ceil(8) - self.first_byte()
    }

    /// Whether the field holds one byte of a number whose others are in other places.
    const fn is_byte(&self) -> bool {
        matches!(self.source, Source::Part) && self.width == 8
    }

    /// The bits that go into the field (with more above them), or none when the field takes no
    /// number.
    const fn take(&self, value: RelocValue) -> Option<u64> {
        if !self.is_number() {
            return None;
        }
        let number = match self.source {
            Source::Bank => value.bank as u64,
            _ => value.address,
        };
        Some(number >> self.shift)
    }
}

/// The lowest `width` bits set.
const fn mask(width: u8) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// The field in the bytes that it touches.
fn read(bytes: &[u8], action: &Action) -> u64 {
    (load(bytes) >> (action.bit % 8)) as u64 & mask(action.width)
}

/// Replaces the field in the bytes that it touches by the low bits of `bits`.
fn write(bytes: &mut [u8], action: &Action, bits: u64) {
    let (low, mask) = (action.bit % 8, mask(action.width));
    let word = load(bytes) & !(u128::from(mask) << low) | u128::from(bits & mask) << low;
    bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
}

fn load(bytes: &[u8]) -> u128 {
    let mut word = [0; 16];
    word[..bytes.len()].copy_from_slice(bytes);
    u128::from_le_bytes(word)
}

#[cfg(test)]
mod tests;
