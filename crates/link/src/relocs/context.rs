//! One relocation record under resolution: its type, its place, and the messages about it.

use culd_cubin::elf::stt;
use culd_cubin::{RelocEntry, text_of};
use culd_reloc::Observed;
use culd_reloc::RelocDesc;
use culd_reloc::RelocValue;

use super::patch::PatchMode;
use super::place::{InputRecords, PlaceContext};
use super::resolution::{AppliedRecord, KeptRecord, RecordedAs, Resolution};
use crate::base::id::OutSymbolId;
use crate::base::system_names::{is_reserved_shared, is_unified_table};
use crate::diag::Message;

/// A record with what its resolution depends on.
pub(super) struct RelocContext<'q, 'd> {
    pub(super) place: &'q PlaceContext,
    pub(super) input: &'q InputRecords<'q, 'd>,
    pub(super) record: RelocEntry,
    pub(super) desc: Option<&'static RelocDesc>,
    pub(super) mode: PatchMode,
}

impl RelocContext<'_, '_> {
    /// The value for a symbol at `address`: S + A; S alone for a REL record, whose addend is in the
    /// place.
    pub(super) fn value(&self, address: u64, bank: u8) -> RelocValue {
        RelocValue { address: address.wrapping_add_signed(self.record.addend), bank }
    }

    /// Clears the place, because its target is not in the output.
    pub(super) fn cleared(&self) -> Resolution {
        let Some(desc) = self.desc else { return Resolution::Dropped };
        let (value, mode) = (RelocValue::default(), PatchMode::Clear);
        let recorded_as = RecordedAs::Nothing;
        Resolution::Applied(AppliedRecord { desc, value, mode, recorded_as, base: 0 })
    }

    /// Keeps the record against `symbol`; `base` is the offset of the file's part in what it names.
    pub(super) fn kept(&self, symbol: Option<OutSymbolId>, base: u64) -> Resolution {
        Resolution::Kept(KeptRecord { symbol, base, kind: self.kind(), placeholder: None })
    }

    /// True for records against names that the system defines.
    pub(super) fn names_system(&self) -> bool {
        let name = self.input.object.symbol(self.record.symbol).name;
        is_reserved_shared(name) || is_unified_table(name)
    }

    /// True for a type that numbers texture slots, against a variable. For a shared variable nvlink
    /// uses its alignment as the slot, for a constant 0.
    pub(super) fn names_wrong_slot(&self) -> bool {
        let symbol = self.input.object.symbol(self.record.symbol);
        let variable = matches!(symbol.kind(), stt::OBJECT | stt::CUDA_OBJECT);
        variable && self.desc.is_some_and(RelocDesc::has_slot)
    }

    /// True for types that nvlink keeps for a unified table even if there is none (`xtask probe
    /// --symbol udt`).
    pub(super) fn wants_unified(&self) -> bool {
        let desc = culd_reloc::lookup(self.record.kind);
        desc.is_some_and(|desc| matches!(desc.observed, Observed::NoEffect | Observed::Rewritten))
    }

    /// The type of the record if it is kept.
    pub(super) fn kind(&self) -> u32 {
        self.desc.map_or(self.record.kind, |desc| desc.code.0)
    }

    /// The name of the section that the record is in.
    pub(super) fn section(&self) -> &[u8] {
        self.input.object.section(self.input.source.section).name
    }

    /// The error that the record cannot be resolved.
    pub(super) fn bad(&self, what: &str) -> Box<Message> {
        Box::new(Message::BadRelocation {
            file: self.input.object.name.to_owned(),
            section: text_of(self.section()),
            offset: self.record.offset,
            what: format!("{}: {what}", culd_reloc::RelocType(self.record.kind)),
        })
    }

    /// The message if the value does not fit the fields, where nvlink truncates silently
    /// (docs/DIFFERENCES.md, relocation-overflow).
    pub(super) fn overflow(&self, applied: &AppliedRecord) -> Option<Message> {
        let &AppliedRecord { desc, value, mode, .. } = applied;
        let bytes = self.input.object.section(self.input.source.target).data;
        let fits = match mode {
            PatchMode::Add => {
                desc.fits_added(bytes, self.record.offset as usize, value).unwrap_or(true)
            }
            PatchMode::Set => desc.fits(value),
            PatchMode::Clear | PatchMode::Hint => true,
        };
        let bits = desc.address_bits().filter(|_| !fits)?;
        let symbol = self.input.object.symbol(self.record.symbol);
        let name = match symbol.defined_in().filter(|_| symbol.kind() == stt::SECTION) {
            Some(section) => self.input.object.section(section).name,
            None => symbol.name,
        };
        Some(Message::RelocationOverflow {
            file: self.input.object.name.to_owned(),
            section: text_of(self.section()),
            offset: self.record.offset,
            kind: desc.code,
            symbol: text_of(name),
            value: value.address,
            low: bits.start,
            high: bits.end - 1,
        })
    }
}
