//! The object of a device link with `-r`, which is one module of a later device link.
//!
//! In: the machine of the host, the size of a fat binary of relocatable images, the id of the
//! module. Out: the head of a relocatable ELF file, which the fat binary ends. Its constructor
//! registers the module with the host object of that device link.

use super::code::{Fix, MachinePart, Referent};
use super::elf::{HostObjectBuilder, HostRelocation, HostSection, HostSymbol};
use super::{Machine, Visibility, check, property, too_large, unwind, wrapper_of};
use crate::error::Error;

// The numbers of sections that symbols name.
const TEXT: u16 = 1;
const SEGMENT: u16 = 3;
const MODULE_ID: u16 = 2;
const FATBIN: u16 = 8;

const SECTION_SYMBOLS: [u16; 4] = [TEXT, MODULE_ID, SEGMENT, FATBIN];
const TEXT_SYMBOL: u32 = 1;
const ID_SYMBOL: u32 = 2;
const SEGMENT_SYMBOL: u32 = 3;
const FATBIN_SYMBOL: u32 = 4;
const FIRST_GLOBAL: u32 = 5;

/// The head of the object that is the module `id` with a fat binary of `fatbin_size` bytes, which
/// follows it in the file.
///
/// # Errors
/// An id that is empty or has a NUL.
pub fn module_object(
    machine: Machine,
    visibility: Visibility,
    fatbin_size: u64,
    id: &[u8],
) -> Result<Vec<u8>, Error> {
    check(&[id])?;
    let code = machine.code();
    let relocation = |&Fix { at, what }: &Fix| {
        let MachinePart::Reloc { kind, target, addend } = what else { return None };
        let symbol = match target {
            Referent::Wrapper => SEGMENT_SYMBOL,
            Referent::OwnId => ID_SYMBOL,
            Referent::RegisterModule => FIRST_GLOBAL + 1,
            _ => return None,
        };
        Some(HostRelocation { at: at as u64, kind, symbol, addend })
    };
    let relocations = code.constructor_fixes.iter().filter_map(relocation).collect();
    let size = u32::try_from(code.constructor.len()).map_err(|_| too_large())?;
    let (unwind, unwind_relocation) = unwind(code, size, &[]);
    let address = |at, symbol| HostRelocation { at, kind: code.abs64, symbol, addend: 0 };
    let sections = vec![
        HostSection::code(b".text", 16, code.constructor.to_vec()).relocated(relocations),
        HostSection::data(b"__nv_module_id", 16, [id, b"\0"].concat()),
        HostSection::data(b".nvFatBinSegment", 8, wrapper_of(1))
            .writable()
            .relocated(vec![address(8, FATBIN_SYMBOL)]),
        HostSection::constructors(b".init_array", 8, vec![0; 8])
            .relocated(vec![address(0, TEXT_SYMBOL)]),
        HostSection::data(b".eh_frame", 8, unwind).relocated(unwind_relocation),
        HostSection::note(b".note.gnu.property", 8, property(code.property)),
        HostSection::mark(b".note.GNU-stack"),
        HostSection::last(b"__nv_relfatbin", 8, fatbin_size),
    ];
    debug_assert_eq!(sections.len(), usize::from(FATBIN));
    let mut symbols: Vec<HostSymbol> =
        SECTION_SYMBOLS.iter().map(|&section| HostSymbol::section(section)).collect();
    let name = |begin: &[u8]| [begin, id].concat();
    symbols.push(HostSymbol::object(name(b"__fatbinwrap"), SEGMENT, 0, 24).seen(visibility));
    symbols.push(HostSymbol::undefined(name(b"__cudaRegisterLinkedBinary")));
    let object =
        HostObjectBuilder { machine: code.machine, sections, symbols, first_global: FIRST_GLOBAL };
    object.write().ok_or_else(too_large)
}
