//! The `R_MERCURY_*` relocation types, of the `.nv.merc.*` sections of sm_100 and later.
//!
//! In: nothing. Out: [`MERCURY`], one row per code, indexed by the code less 0x10000. Guaranteed at
//! compile time: the same as for the `R_CUDA_*` table.

use crate::desc::{
    MERCURY_BASE, Observed::*, Proof, RelocDesc, Resolver::*, address, check, clear, descriptor,
    generic, header, part, pc_rel, row, unified, unified_address,
};

const _: () = check(&MERCURY, MERCURY_BASE);

const PROBE: Proof = Proof::Probe;
const NONE: Proof = Proof::NotObservable;

/// The `R_MERCURY_*` types, `MERCURY[code - 0x10000].code == code`.
//
//      code         name                           resolver   fields                   nvlink         proof
#[rustfmt::skip]
pub static MERCURY: [RelocDesc; 65] = [
    row(0x10000,     "R_MERCURY_NONE",              Nobody,    &[],                      Rejected,     NONE),
    row(0x10001,     "R_MERCURY_G64",               Driver,    &[generic(0..64, 0)],     Kept,         PROBE),
    row(0x10002,     "R_MERCURY_ABS64",             Either,    &[address(0..64, 0)],     Bits,         PROBE),
    row(0x10003,     "R_MERCURY_ABS32",             Either,    &[address(0..32, 0)],     Bits,         PROBE),
    row(0x10004,     "R_MERCURY_ABS16",             Either,    &[address(0..16, 0)],     Bits,         PROBE),
    row(0x10005,     "R_MERCURY_ABS32_LO",          Driver,    &[part(0..32, 0)],        Kept,         PROBE),
    row(0x10006,     "R_MERCURY_ABS32_HI",          Driver,    &[part(32..64, 0)],       Kept,         PROBE),
    row(0x10007,     "R_MERCURY_PROG_REL64",        Finalizer, &[address(0..64, 0)],     Kept,         PROBE),
    row(0x10008,     "R_MERCURY_PROG_REL32",        Finalizer, &[address(0..32, 0)],     Kept,         PROBE),
    row(0x10009,     "R_MERCURY_PROG_REL32_LO",     Finalizer, &[part(0..32, 0)],        Kept,         PROBE),
    row(0x1000a,     "R_MERCURY_PROG_REL32_HI",     Finalizer, &[part(32..64, 0)],       Kept,         PROBE),
    row(0x1000b,     "R_MERCURY_TEX_HEADER_INDEX",  Driver,    &[header(0..20, 0)],      Kept,         PROBE),
    row(0x1000c,     "R_MERCURY_SAMP_HEADER_INDEX", Driver,    &[header(0..12, 20)],     Kept,         PROBE),
    row(0x1000d,     "R_MERCURY_SURF_HEADER_INDEX", Driver,    &[header(0..20, 0)],      Kept,         PROBE),
    row(0x1000e,     "R_MERCURY_UNUSED_CLEAR64",    Linker,    &[clear(0..64, 0)],       Clears,       PROBE),
    row(0x1000f,     "R_MERCURY_FUNC_DESC_64",      Driver,    &[descriptor(0..64, 0)],  FunctionOnly, PROBE),
    row(0x10010,     "R_MERCURY_8_0",               Either,    &[part(0..8, 0)],         Bits,         PROBE),
    row(0x10011,     "R_MERCURY_8_8",               Either,    &[part(8..16, 0)],        Bits,         PROBE),
    row(0x10012,     "R_MERCURY_8_16",              Either,    &[part(16..24, 0)],       Bits,         PROBE),
    row(0x10013,     "R_MERCURY_8_24",              Either,    &[part(24..32, 0)],       Bits,         PROBE),
    row(0x10014,     "R_MERCURY_8_32",              Either,    &[part(32..40, 0)],       Bits,         PROBE),
    row(0x10015,     "R_MERCURY_8_40",              Either,    &[part(40..48, 0)],       Bits,         PROBE),
    row(0x10016,     "R_MERCURY_8_48",              Either,    &[part(48..56, 0)],       Bits,         PROBE),
    row(0x10017,     "R_MERCURY_8_56",              Either,    &[part(56..64, 0)],       Bits,         PROBE),
    row(0x10018,     "R_MERCURY_G8_0",              Driver,    &[generic(0..8, 0)],      Kept,         PROBE),
    row(0x10019,     "R_MERCURY_G8_8",              Driver,    &[generic(8..16, 0)],     Kept,         PROBE),
    row(0x1001a,     "R_MERCURY_G8_16",             Driver,    &[generic(16..24, 0)],    Kept,         PROBE),
    row(0x1001b,     "R_MERCURY_G8_24",             Driver,    &[generic(24..32, 0)],    Kept,         PROBE),
    row(0x1001c,     "R_MERCURY_G8_32",             Driver,    &[generic(32..40, 0)],    Kept,         PROBE),
    row(0x1001d,     "R_MERCURY_G8_40",             Driver,    &[generic(40..48, 0)],    Kept,         PROBE),
    row(0x1001e,     "R_MERCURY_G8_48",             Driver,    &[generic(48..56, 0)],    Kept,         PROBE),
    row(0x1001f,     "R_MERCURY_G8_56",             Driver,    &[generic(56..64, 0)],    Kept,         PROBE),
    row(0x10020,     "R_MERCURY_FUNC_DESC_8_0",     Driver,    &[descriptor(0..8, 0)],   Kept,         PROBE),
    row(0x10021,     "R_MERCURY_FUNC_DESC_8_8",     Driver,    &[descriptor(8..16, 0)],  Kept,         PROBE),
    row(0x10022,     "R_MERCURY_FUNC_DESC_8_16",    Driver,    &[descriptor(16..24, 0)], Kept,         PROBE),
    row(0x10023,     "R_MERCURY_FUNC_DESC_8_24",    Driver,    &[descriptor(24..32, 0)], Kept,         PROBE),
    row(0x10024,     "R_MERCURY_FUNC_DESC_8_32",    Driver,    &[descriptor(32..40, 0)], Kept,         PROBE),
    row(0x10025,     "R_MERCURY_FUNC_DESC_8_40",    Driver,    &[descriptor(40..48, 0)], Kept,         PROBE),
    row(0x10026,     "R_MERCURY_FUNC_DESC_8_48",    Driver,    &[descriptor(48..56, 0)], Kept,         PROBE),
    row(0x10027,     "R_MERCURY_FUNC_DESC_8_56",    Driver,    &[descriptor(56..64, 0)], Kept,         PROBE),
    row(0x10028,     "R_MERCURY_ABS_PROG_REL32_LO", Driver,    &[pc_rel(0..32, 0)],      Kept,         PROBE),
    row(0x10029,     "R_MERCURY_ABS_PROG_REL32_HI", Driver,    &[pc_rel(32..64, 0)],     Kept,         PROBE),
    row(0x1002a,     "R_MERCURY_PROG_REL8_0",       Finalizer, &[part(0..8, 0)],         Kept,         PROBE),
    row(0x1002b,     "R_MERCURY_PROG_REL8_8",       Finalizer, &[part(8..16, 0)],        Kept,         PROBE),
    row(0x1002c,     "R_MERCURY_PROG_REL8_16",      Finalizer, &[part(16..24, 0)],       Kept,         PROBE),
    row(0x1002d,     "R_MERCURY_PROG_REL8_24",      Finalizer, &[part(24..32, 0)],       Kept,         PROBE),
    row(0x1002e,     "R_MERCURY_PROG_REL8_32",      Finalizer, &[part(32..40, 0)],       Kept,         PROBE),
    row(0x1002f,     "R_MERCURY_PROG_REL8_40",      Finalizer, &[part(40..48, 0)],       Kept,         PROBE),
    row(0x10030,     "R_MERCURY_PROG_REL8_48",      Finalizer, &[part(48..56, 0)],       Kept,         PROBE),
    row(0x10031,     "R_MERCURY_PROG_REL8_56",      Finalizer, &[part(56..64, 0)],       Kept,         PROBE),
    unified(0x10032, "R_MERCURY_UNIFIED",           0x10002,   &[unified_address(0..64, 0)],           PROBE),
    unified(0x10033, "R_MERCURY_UNIFIED_32",        0x10003,   &[unified_address(0..32, 0)],           PROBE),
    unified(0x10034, "R_MERCURY_UNIFIED_8_0",       0x10010,   &[unified_address(0..8, 0)],            PROBE),
    unified(0x10035, "R_MERCURY_UNIFIED_8_8",       0x10011,   &[unified_address(8..16, 0)],           PROBE),
    unified(0x10036, "R_MERCURY_UNIFIED_8_16",      0x10012,   &[unified_address(16..24, 0)],          PROBE),
    unified(0x10037, "R_MERCURY_UNIFIED_8_24",      0x10013,   &[unified_address(24..32, 0)],          PROBE),
    unified(0x10038, "R_MERCURY_UNIFIED_8_32",      0x10014,   &[unified_address(32..40, 0)],          PROBE),
    unified(0x10039, "R_MERCURY_UNIFIED_8_40",      0x10015,   &[unified_address(40..48, 0)],          PROBE),
    unified(0x1003a, "R_MERCURY_UNIFIED_8_48",      0x10016,   &[unified_address(48..56, 0)],          PROBE),
    unified(0x1003b, "R_MERCURY_UNIFIED_8_56",      0x10017,   &[unified_address(56..64, 0)],          PROBE),
    row(0x1003c,     "R_MERCURY_ABS_PROG_REL32",    Driver,    &[pc_rel(0..32, 0)],      Kept,         PROBE),
    row(0x1003d,     "R_MERCURY_ABS_PROG_REL64",    Driver,    &[pc_rel(0..64, 0)],      Kept,         PROBE),
    unified(0x1003e, "R_MERCURY_UNIFIED32_LO",      0x10005,   &[unified_address(0..32, 0)],           PROBE),
    unified(0x1003f, "R_MERCURY_UNIFIED32_HI",      0x10006,   &[unified_address(32..64, 0)],          PROBE),
    row(0x10040,     "R_MERCURY_NONE_LAST",         Nobody,    &[],                      Ignored,      NONE),
];
