//! The host object of a device link, which nvcc has the host compiler make from a stub.
//!
//! In: the machine of the host, the size of a linked fat binary, the ids of the modules in it. Out:
//! the head of a relocatable ELF file, which the fat binary ends. Its code makes the calls of the
//! CUDA runtime that nvcc's object makes. Guaranteed: position independent, its indirect targets
//! are marked (CET, BTI), the fat binary is not looked at; the same input gives the same bytes.
//!
//! Every module's own object calls `__cudaRegisterLinkedBinary<id>` from a constructor. Nothing is
//! registered until all have called. The code is in `x86_64.s` and `aarch64.s`; docs/FATBIN.md,
//! host objects of a device link, has the rest.

mod aarch64;
mod code;
mod elf;
mod module;
mod x86_64;

use std::collections::HashSet;

use self::code::{Fix, MachineCode, MachinePart, Referent, merge};
use self::elf::{HostObjectBuilder, HostRelocation, HostSection, HostSymbol};
pub use self::module::module_object;
use crate::error::Error;

/// The machine of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// `EM_X86_64`.
    X86_64,
    /// `EM_AARCH64`.
    AArch64,
}

impl Machine {
    /// The machine of this name, as Rust's `ARCH` has it.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "x86_64" => Some(Machine::X86_64),
            "aarch64" => Some(Machine::AArch64),
            _ => None,
        }
    }

    /// The machine of this `e_machine`.
    #[must_use]
    pub fn by_number(number: u16) -> Option<Self> {
        let all = [Machine::X86_64, Machine::AArch64];
        all.into_iter().find(|machine| machine.code().machine == number)
    }

    fn code(self) -> &'static MachineCode {
        match self {
            Machine::X86_64 => &x86_64::CODE,
            Machine::AArch64 => &aarch64::CODE,
        }
    }
}

/// How host linkers see the functions that a host object defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Visibility {
    /// `STV_DEFAULT`.
    #[default]
    Default,
    /// `STV_INTERNAL`.
    Internal,
    /// `STV_HIDDEN`, the choice of `-fvisibility=hidden`.
    Hidden,
    /// `STV_PROTECTED`.
    Protected,
}

/// The most modules whose code is within the reach of a jump on AArch64, 128 MiB.
const MAX_MODULES: usize = (1 << 27) / 16 - 0x100;

// The numbers of sections that symbols name, in the list that `host_object` makes.
const TEXT: u16 = 1;
const BSS: u16 = 2;
const SEGMENT: u16 = 3;
/// The number of the last section where no module is listed, one more where some are.
const FATBIN: u16 = 7;

// Symbols of sections come first, then two local names for debuggers; then all that is global.
const TEXT_SYMBOL: u32 = 1;
const BSS_SYMBOL: u32 = 2;
const SEGMENT_SYMBOL: u32 = 3;
const FATBIN_SYMBOL: u32 = 4;
const FIRST_GLOBAL: u32 = 7;
const RUNTIME: [&[u8]; 4] = [
    b"__cudaRegisterFatBinary",
    b"__cudaRegisterFatBinaryEnd",
    b"__cudaUnregisterFatBinary",
    b"atexit",
];

/// The magic number of a wrapper. Version 2 has a list of images.
const WRAPPER: u32 = 0x4662_43b1;

/// Offsets in `.bss`.
const HANDLE: u64 = 0;
const COUNT: u64 = 8;
const IMAGES: u64 = 16;

/// The head of the host object that registers a fat binary of `fatbin_size` bytes and the modules
/// `ids`, in their order. The fat binary follows it in the file, at the end.
///
/// # Errors
/// An id that is empty, has a NUL, or stands there twice, which no host compiler would take either;
/// more modules than a jump reaches over. The offset is the place in the list.
pub fn host_object(
    machine: Machine,
    visibility: Visibility,
    fatbin_size: u64,
    ids: &[&[u8]],
) -> Result<Vec<u8>, Error> {
    check(ids)?;
    let code = machine.code();
    let count = ids.len();
    let (text, relocations) = text(code, ids).ok_or_else(too_large)?;
    let mut listed = Vec::new();
    for id in ids {
        listed.extend_from_slice(b"def ");
        listed.extend_from_slice(id);
        listed.push(0);
    }
    let list = 8 * (count as u64 + 1);
    let text_size = u32::try_from(text.len()).map_err(|_| too_large())?;
    let (unwind, unwind_relocation) = unwind(code, text_size, code.unwind);
    let mut sections = vec![
        HostSection::code(b".text", 16, text).relocated(relocations),
        HostSection::zeros(b".bss", 8, IMAGES + 2 * list),
        HostSection::data(b".nvFatBinSegment", 8, wrapper_of(2)).writable().relocated(vec![
            HostRelocation { at: 8, kind: code.abs64, symbol: FATBIN_SYMBOL, addend: 0 },
            HostRelocation {
                at: 16,
                kind: code.abs64,
                symbol: BSS_SYMBOL,
                addend: IMAGES.cast_signed(),
            },
        ]),
        HostSection::data(b".eh_frame", 8, unwind).relocated(unwind_relocation),
        HostSection::note(b".note.gnu.property", 8, property(code.property)),
        HostSection::mark(b".note.GNU-stack"),
    ];
    // An empty list would be a module without an id.
    if !ids.is_empty() {
        sections.push(HostSection::data(b"__nv_module_id", 1, listed));
    }
    sections.push(HostSection::last(b".nv_fatbin", 8, fatbin_size));
    let symbols = symbols(code, visibility, ids, text_size.into());
    let object =
        HostObjectBuilder { machine: code.machine, sections, symbols, first_global: FIRST_GLOBAL };
    object.write().ok_or_else(too_large)
}

fn too_large() -> Error {
    Error::new(0, "too many modules for one object")
}

fn check(ids: &[&[u8]]) -> Result<(), Error> {
    if ids.len() > MAX_MODULES {
        return Err(too_large());
    }
    let mut seen = HashSet::new();
    for (place, id) in ids.iter().enumerate() {
        let what = match id {
            [] => "a module without an id",
            id if id.contains(&0) => "the id of a module has a NUL",
            id if !seen.insert(id) => "is there twice",
            _ => continue,
        };
        return Err(Error::new(place, format!("module '{}': {what}", id.escape_ascii())));
    }
    Ok(())
}

/// The code of all modules, and its relocations in the order of their places.
fn text(code: &MachineCode, ids: &[&[u8]]) -> Option<(Vec<u8>, Vec<HostRelocation>)> {
    let (mut text, mut relocations) = (Vec::new(), Vec::new());
    if ids.is_empty() {
        return Some((text, relocations));
    }
    let count = u32::try_from(ids.len()).ok()?;
    let mut piece = |bytes: &[u8], fixes: &[Fix], module: u32| {
        let start = text.len();
        text.extend_from_slice(bytes);
        for &Fix { at, what } in fixes {
            let at = start + at;
            let distance = u32::try_from(at).ok()?;
            match what {
                MachinePart::Reloc { kind, target, addend } => {
                    let (symbol, offset) = place(target, module, count);
                    let addend = addend + offset;
                    relocations.push(HostRelocation { at: at as u64, kind, symbol, addend });
                }
                MachinePart::Count => merge(&mut text, at, count)?,
                MachinePart::CountWide => {
                    merge(&mut text, at, (count & 0xffff) << 5)?;
                    merge(&mut text, at + 4, (count >> 16) << 5)?;
                }
                MachinePart::Jump => merge(&mut text, at, (distance + 4).wrapping_neg())?,
                MachinePart::Jump26 => {
                    merge(&mut text, at, (distance / 4).wrapping_neg() & 0x3ff_ffff)?
                }
            }
        }
        Some(())
    };
    piece(code.common, code.fixes, 0)?;
    for module in 0..count {
        piece(code.module, code.module_fixes, module)?;
    }
    Some((text, relocations))
}

/// The symbol that stands for a target, and the target's distance from it.
fn place(target: Referent, module: u32, count: u32) -> (u32, i64) {
    let runtime = |number| (FIRST_GLOBAL + number, 0);
    match target {
        Referent::Handle => (BSS_SYMBOL, HANDLE.cast_signed()),
        Referent::Count => (BSS_SYMBOL, COUNT.cast_signed()),
        Referent::Images => (BSS_SYMBOL, IMAGES.cast_signed()),
        Referent::Callbacks => (BSS_SYMBOL, IMAGES.cast_signed() + 8 * (i64::from(count) + 1)),
        Referent::Wrapper => (SEGMENT_SYMBOL, 0),
        Referent::RegisterFatBinary => runtime(0),
        Referent::RegisterFatBinaryEnd => runtime(1),
        Referent::UnregisterFatBinary => runtime(2),
        Referent::AtExit => runtime(3),
        Referent::ModuleWrapper => runtime(4 + 2 * module + 1),
        // Of objects that are modules.
        Referent::OwnId => (SEGMENT_SYMBOL, 0),
        Referent::RegisterModule => runtime(4 + 2 * module),
    }
}

fn symbols(
    code: &MachineCode,
    visibility: Visibility,
    ids: &[&[u8]],
    text_size: u64,
) -> Vec<HostSymbol> {
    let fatbin = FATBIN + u16::from(!ids.is_empty());
    let mut symbols: Vec<HostSymbol> = [TEXT, BSS, SEGMENT, fatbin].map(HostSymbol::section).into();
    let (common, unregister) = match ids {
        [] => (0, 0),
        _ => (code.unregister as u64, code.unregister as u64),
    };
    let padded = (code.common.len() as u64).min(text_size);
    symbols.push(HostSymbol::function(b"culd_register".to_vec(), TEXT, 0, common).local());
    let size = padded - unregister;
    symbols.push(HostSymbol::function(b"culd_unregister".to_vec(), TEXT, unregister, size).local());
    if ids.is_empty() {
        return symbols;
    }
    symbols.extend(RUNTIME.iter().map(|name| HostSymbol::undefined(name.to_vec())));
    let mut at = code.common.len() as u64;
    for id in ids {
        let size = code.module.len() as u64;
        let name = [b"__cudaRegisterLinkedBinary", *id].concat();
        symbols.push(HostSymbol::function(name, TEXT, at, size).seen(visibility));
        symbols.push(HostSymbol::undefined([b"__fatbinwrap", *id].concat()));
        at += size;
    }
    symbols
}

/// The wrapper of the fat binary; its two pointers are relocated.
fn wrapper_of(version: u32) -> Vec<u8> {
    let [magic, version] = [WRAPPER, version].map(u32::to_le_bytes);
    [&magic[..], &version, &[0; 16]].concat()
}

/// One entry for all code: where nothing is pushed the frame is that of the caller.
fn unwind(
    code: &MachineCode,
    text_size: u32,
    instructions: &[u8],
) -> (Vec<u8>, Vec<HostRelocation>) {
    if text_size == 0 {
        return (Vec::new(), Vec::new());
    }
    let mut bytes = code.cie.to_vec();
    let mut entry = Vec::new();
    // From its own place back to the head; then the start of the code, which is relocated.
    entry.extend_from_slice(&(code.cie.len() as u32 + 4).to_le_bytes());
    entry.extend_from_slice(&[0; 4]);
    entry.extend_from_slice(&text_size.to_le_bytes());
    entry.push(0);
    entry.extend_from_slice(instructions);
    let end = (bytes.len() + 4 + entry.len()).next_multiple_of(8);
    let size = end - bytes.len() - 4;
    entry.resize(size, 0);
    let at = bytes.len() as u64 + 8;
    bytes.extend_from_slice(&(size as u32).to_le_bytes());
    bytes.extend_from_slice(&entry);
    (bytes, vec![HostRelocation { at, kind: code.pcrel32, symbol: TEXT_SYMBOL, addend: 0 }])
}

/// A note of type 5, `NT_GNU_PROPERTY_TYPE_0`, with one property.
fn property((kind, value): (u32, u32)) -> Vec<u8> {
    let gnu = u32::from_le_bytes(*b"GNU\0");
    [4, 16, 5, gnu, kind, 4, value, 0].iter().flat_map(|word| word.to_le_bytes()).collect()
}
