//! Machine code as tables: bytes, and what has to be put into them.

/// The target of a place in the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Referent {
    /// The runtime's handle of the fat binary.
    Handle,
    /// The number of modules so far.
    Count,
    /// Their fat binaries.
    Images,
    /// Their callbacks.
    Callbacks,
    /// The wrapper of the linked fat binary.
    Wrapper,
    /// `__cudaRegisterFatBinary`.
    RegisterFatBinary,
    /// `__cudaRegisterFatBinaryEnd`.
    RegisterFatBinaryEnd,
    /// `__cudaUnregisterFatBinary`.
    UnregisterFatBinary,
    /// `atexit`.
    AtExit,
    /// `__fatbinwrap<id>` of the module that the code is for.
    ModuleWrapper,
    /// The id of an object that is a module.
    OwnId,
    /// `__cudaRegisterLinkedBinary<id>` of that module.
    RegisterModule,
}

/// Something to be put into the code at an offset.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fix {
    pub(super) at: usize,
    pub(super) what: MachinePart,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum MachinePart {
    /// A relocation of this type, with an addend that is added to the place of the target.
    Reloc { kind: u32, target: Referent, addend: i64 },
    /// The number of modules, 32 bits.
    Count,
    /// The number of modules in `movz` and `movk`, 16 bits from bit 5 of each.
    CountWide,
    /// The distance of the start of the code, behind the field.
    Jump,
    /// The same in instructions, in the low 26 bits of one.
    Jump26,
}

pub(super) const fn reloc(at: usize, kind: u32, target: Referent, addend: i64) -> Fix {
    Fix { at, what: MachinePart::Reloc { kind, target, addend } }
}

pub(super) const fn count(at: usize) -> Fix {
    Fix { at, what: MachinePart::Count }
}

pub(super) const fn count_wide(at: usize) -> Fix {
    Fix { at, what: MachinePart::CountWide }
}

pub(super) const fn jump(at: usize) -> Fix {
    Fix { at, what: MachinePart::Jump }
}

pub(super) const fn jump26(at: usize) -> Fix {
    Fix { at, what: MachinePart::Jump26 }
}

/// Code for a machine.
pub(super) struct MachineCode {
    /// `e_machine`.
    pub(super) machine: u16,
    /// The code that all modules share.
    pub(super) common: &'static [u8],
    pub(super) fixes: &'static [Fix],
    /// The offset of the function for `atexit` in it.
    pub(super) unregister: usize,
    /// The code of each module.
    pub(super) module: &'static [u8; 16],
    pub(super) module_fixes: &'static [Fix],
    /// The constructor of an object that is a module, and a function that does nothing.
    pub(super) constructor: &'static [u8],
    pub(super) constructor_fixes: &'static [Fix],
    /// Type of the relocation for an address.
    pub(super) abs64: u32,
    /// Type of the relocation for a distance of 32 bits.
    pub(super) pcrel32: u32,
    /// The head of the unwind information.
    pub(super) cie: &'static [u8],
    /// The instructions of its only entry, for all code.
    pub(super) unwind: &'static [u8],
    /// Type and value of the property that says how calls are guarded.
    pub(super) property: (u32, u32),
}

/// Puts `value` into the field at `at`, whose other bits are kept.
pub(super) fn merge(code: &mut [u8], at: usize, value: u32) -> Option<()> {
    let field: &mut [u8; 4] = code.get_mut(at..at.checked_add(4)?)?.try_into().ok()?;
    *field = (u32::from_le_bytes(*field) | value).to_le_bytes();
    Some(())
}
