//! Constants of the cubin ELF dialect. Generic ELF values come from the `object` crate.
//!
//! Source of each value: dumps of ptxas and nvlink 13.0.88 files (docs/rules).

/// `e_machine` of a device ELF (EM_CUDA).
pub const EM_CUDA: u16 = 190;
/// `e_type` of relocatable objects (ET_REL).
pub const TYPE_RELOCATABLE: u16 = 1;
/// `e_type` of whole programs that are linked with libcudadevrt (`ptxas -ewp`).
pub const TYPE_EXTENSIBLE: u16 = 0xff00;
/// `e_ident[EI_OSABI]` of files made by CUDA 13 tools.
pub const OSABI_CUDA: u8 = 0x41;
/// `e_ident[EI_ABIVERSION]` of files made by CUDA 13 tools.
pub const ABI_VERSION: u8 = 8;
/// `e_ident[EI_OSABI]` of files made by CUDA 12 and older tools for sm_90 and older.
pub const OSABI_CUDA_12: u8 = 0x33;
/// `e_ident[EI_ABIVERSION]` of those of CUDA 12.
pub const ABI_VERSION_12: u8 = 7;

/// The values of `sh_type` that a cubin uses.
pub mod sht {
    /// Unused entry.
    pub const NULL: u32 = 0;
    /// Bytes in the file.
    pub const PROGBITS: u32 = 1;
    /// Symbol table.
    pub const SYMTAB: u32 = 2;
    /// String table.
    pub const STRTAB: u32 = 3;
    /// Relocations with addends.
    pub const RELA: u32 = 4;
    /// Notes.
    pub const NOTE: u32 = 7;
    /// No bytes in the file.
    pub const NOBITS: u32 = 8;
    /// Relocations without addends.
    pub const REL: u32 = 9;
    /// Section indices above 0xff00 of symbols.
    pub const SYMTAB_SHNDX: u32 = 18;
    /// `.nv.info` and `.nv.info.<function>`: attribute records.
    pub const CUDA_INFO: u32 = 0x7000_0000;
    /// `.nv.callgraph`.
    pub const CUDA_CALLGRAPH: u32 = 0x7000_0001;
    /// `.nv.prototype`.
    pub const CUDA_PROTOTYPE: u32 = 0x7000_0002;
    /// `.nv.resolvedrela.<section>`, made with `--preserve-relocs`.
    pub const CUDA_RESOLVED_RELA: u32 = 0x7000_0003;
    /// `.nv.global`: zero-initialised variables of a relocatable object, no bytes in the file.
    pub const CUDA_GLOBAL: u32 = 0x7000_0007;
    /// `.nv.global.init`: initialised variables of a relocatable object.
    pub const CUDA_GLOBAL_INIT: u32 = 0x7000_0008;
    /// `.nv.shared.*` and `.nv_debug.shared` of a relocatable object, no bytes in the file.
    pub const CUDA_SHARED: u32 = 0x7000_000a;
    /// `.nv.rel.action`.
    pub const CUDA_REL_ACTION: u32 = 0x7000_000b;
    /// `.nv.uft`: jump slots of unified functions; in an object `.nv.uft.rel.<function>`, one of
    /// them.
    pub const CUDA_UFT: u32 = 0x7000_000e;
    /// `.nv.uidx`: the uidx file of the link.
    pub const CUDA_UIDX: u32 = 0x7000_0010;
    /// `.nv.uft.entry`: the ids of unified functions.
    pub const CUDA_UFT_ENTRY: u32 = 0x7000_0011;
    /// `.nv.udt`: unified variables.
    pub const CUDA_UDT: u32 = 0x7000_0012;
    /// `.nv.udt.entry`: the ids of unified variables.
    pub const CUDA_UDT_ENTRY: u32 = 0x7000_0014;
    /// `.nv.constant0*`; bank N is `CUDA_CONSTANT0 + N`.
    pub const CUDA_CONSTANT0: u32 = 0x7000_0064;
    /// The type of the last constant bank, 17.
    pub const CUDA_CONSTANT_LAST: u32 = CUDA_CONSTANT0 + 17;
    /// `.nv.shared.reserved.0`: shared memory that the system has taken, no bytes in the file
    /// (sm_110).
    pub const CUDA_SHARED_RESERVED: u32 = 0x7000_0015;
    /// `.nv.capmerc.text.<function>`: Mercury code.
    pub const MERCURY_CODE: u32 = 0x7000_0016;
    /// `.nv.merc.nv.constant.entry_image_header_indices.<kernel>`: slots of textures.
    pub const MERCURY_CONSTANT_IMAGES: u32 = 0x7000_0079;
    /// `.nv.merc.nv.constant.user`: constant variables.
    pub const MERCURY_CONSTANT_USER: u32 = 0x7000_007c;
    /// `.nv.merc.nv.constant.pic`: addresses in position-independent code.
    pub const MERCURY_CONSTANT_PIC: u32 = 0x7000_007d;
    /// `.nv.merc.nv.constant.optimizer.<function>`: literals and jump tables.
    pub const MERCURY_CONSTANT_OPTIMIZER: u32 = 0x7000_0084;
    /// `.nv.merc.rela.*`: relocations with addends of a Mercury section.
    pub const MERCURY_RELA: u32 = 0x7000_0082;
    /// `.nv.merc.nv.info*`: attribute records of Mercury code.
    pub const MERCURY_INFO: u32 = 0x7000_0083;
    /// `.nv.merc.symtab`: the symbol table of the Mercury sections.
    pub const MERCURY_SYMTAB: u32 = 0x7000_0085;
    /// `.nv.compat`.
    pub const CUDA_COMPAT: u32 = 0x7000_0086;
    /// `.nv.merc.nv.resolvedrela.*`: the records that were applied to a Mercury section.
    pub const MERCURY_RESOLVED_RELA: u32 = 0x7000_0088;
    /// `.nv.merc.nv.callgraph`, CUDA 13.4 and later.
    pub const MERCURY_CALLGRAPH: u32 = 0x7000_008a;
    /// `.nv.merc.nv.prototype`, CUDA 13.4 and later.
    pub const MERCURY_PROTOTYPE: u32 = 0x7000_008b;
}

/// Bits of `sh_flags`.
pub mod shf {
    /// Written at run time.
    pub const WRITE: u64 = 1;
    /// Occupies memory.
    pub const ALLOC: u64 = 2;
    /// Machine code.
    pub const EXECINSTR: u64 = 4;
    /// `sh_info` is a section index.
    pub const INFO_LINK: u64 = 0x40;
    /// The flag of the note about the tools that made the file.
    pub const NOTE_TKINFO: u64 = 0x200_0000;
    /// The flag of the note about the needs of the file, for the driver.
    pub const NOTE_CUINFO: u64 = 0x100_0000;
    /// The number of barriers of machine code of CUDA 12.
    pub const BARRIERS: u64 = 0x7f << 20;

    /// The number of barriers in the flags of machine code of CUDA 12.
    pub fn barriers_of(flags: u64) -> u32 {
        ((flags & BARRIERS) >> BARRIERS.trailing_zeros()) as u32
    }

    /// The flags of machine code of CUDA 12 with `count` barriers.
    pub fn barriers(count: u32) -> u64 {
        (u64::from(count) << BARRIERS.trailing_zeros()) & BARRIERS
    }

    /// On every section of the Mercury half.
    pub const MERCURY: u64 = 0x1000_0000;
}

/// Section indices with a special meaning.
pub mod shn {
    /// Defined in no section of this file.
    pub const UNDEF: u16 = 0;
    /// A number, not an address.
    pub const ABS: u16 = 0xfff1;
    /// A tentative definition.
    pub const COMMON: u16 = 0xfff2;
    /// The index is in the table of section indices.
    pub const XINDEX: u16 = 0xffff;
}

/// Symbol types (`st_info & 15`).
pub mod stt {
    /// No type.
    pub const NOTYPE: u8 = 0;
    /// Data.
    pub const OBJECT: u8 = 1;
    /// Function.
    pub const FUNC: u8 = 2;
    /// Section.
    pub const SECTION: u8 = 3;
    /// Legacy texture reference.
    pub const CUDA_TEXTURE: u8 = 10;
    /// Legacy sampler reference.
    pub const CUDA_SAMPLER: u8 = 11;
    /// Legacy surface reference.
    pub const CUDA_SURFACE: u8 = 12;
    /// A data object whose memory space is in `st_other`.
    pub const CUDA_OBJECT: u8 = 13;
}

/// Symbol bindings (`st_info >> 4`).
pub mod stb {
    /// Seen in its own file only.
    pub const LOCAL: u8 = 0;
    /// Seen by all files.
    pub const GLOBAL: u8 = 1;
    /// Like global, but gives way to it.
    pub const WEAK: u8 = 2;
}

/// Bits of `st_other`.
pub mod sto {
    /// Made by ptxas for itself (`_param`, `f.const_opt.a.b`).
    pub const INTERNAL: u8 = 0x01;
    /// Managed memory.
    pub const MANAGED: u8 = 0x04;
    /// A kernel.
    pub const ENTRY: u8 = 0x10;
    /// Mask of the memory space.
    pub const SPACE: u8 = 0xe0;
    /// Global memory.
    pub const SPACE_GLOBAL: u8 = 0x20;
    /// Shared memory.
    pub const SPACE_SHARED: u8 = 0x40;
    /// Constant memory.
    pub const SPACE_CONSTANT: u8 = 0x80;
}

/// `sh_entsize` of sections of type `sh_type`, as ptxas and nvlink write it.
pub fn entsize(sh_type: u32) -> u64 {
    match sh_type {
        sht::SYMTAB | sht::MERCURY_SYMTAB => 24,
        sht::RELA | sht::MERCURY_RELA | sht::CUDA_RESOLVED_RELA | sht::MERCURY_RESOLVED_RELA => 24,
        sht::REL => 16,
        sht::CUDA_CALLGRAPH | sht::CUDA_PROTOTYPE | sht::CUDA_REL_ACTION => 8,
        sht::MERCURY_CALLGRAPH | sht::MERCURY_PROTOTYPE => 8,
        sht::CUDA_UFT_ENTRY | sht::CUDA_UDT_ENTRY => crate::unified::ENTRY_SIZE as u64,
        _ => 0,
    }
}

/// True for section types without bytes in the file.
pub fn is_nobits(sh_type: u32) -> bool {
    matches!(sh_type, sht::NOBITS | sht::CUDA_GLOBAL | sht::CUDA_SHARED | sht::CUDA_SHARED_RESERVED)
}
