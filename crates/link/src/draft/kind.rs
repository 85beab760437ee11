//! The kinds of output sections.

use culd_cubin::elf::sht;

use crate::options::dialect::Dialect;

/// The kind of an output section. The order of the variants is the order in the file, except that
/// the kinds without bytes keep their order of creation among themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SectionKind {
    Debug,
    TkInfo,
    CuInfo,
    /// `.nv.compat` of CUDA 12, among the attributes of functions.
    LateCompat,
    /// `.nv.uft.entry` of an executable.
    FunctionTable,
    FileInfo,
    Compat,
    /// `.nv.uidx`.
    Index,
    FunctionInfo,
    /// `.nv.uft.entry` of an object.
    FunctionIds,
    /// `.nv.udt.entry`.
    VariableIds,
    CallGraph,
    Prototype,
    RelAction,
    Reloc,
    /// `.nv.resolvedrela.X`: relocations of X that are applied.
    Resolved,
    Constant(u8),
    Text,
    /// `.nv.uft`, and in an object `.nv.uft.rel.F`.
    JumpSlots,
    GlobalInit,
    /// `.nv.udt`.
    UnifiedData,
    Global,
    Shared,
    PoolShared,
    /// `.nv.shared.reserved.0`.
    ReservedShared,
    /// `.symtab_shndx` of a file with Mercury that has too many sections for its symbols.
    HighIndices,
    /// `.nv.constant0.<entry>` of a file with Mercury: created together with the machine code.
    Parameters,
}

/// The number of section categories.
pub(crate) const CATEGORIES: usize = 15;

impl SectionKind {
    /// Sections are sorted by category, then by creation. Less than [`CATEGORIES`].
    pub(crate) fn category(self) -> u8 {
        match self {
            SectionKind::Debug => 0,
            SectionKind::TkInfo | SectionKind::CuInfo => 1,
            SectionKind::FunctionTable | SectionKind::FileInfo => 2,
            SectionKind::Compat => 3,
            SectionKind::Index
            | SectionKind::LateCompat
            | SectionKind::FunctionInfo
            | SectionKind::FunctionIds
            | SectionKind::VariableIds => 4,
            SectionKind::CallGraph => 5,
            SectionKind::Prototype => 6,
            SectionKind::RelAction => 7,
            SectionKind::Reloc | SectionKind::Resolved => 8,
            SectionKind::Constant(_) => 9,
            SectionKind::Text | SectionKind::JumpSlots => 10,
            SectionKind::GlobalInit | SectionKind::UnifiedData => 11,
            SectionKind::Global
            | SectionKind::Shared
            | SectionKind::PoolShared
            | SectionKind::ReservedShared => 12,
            SectionKind::HighIndices => 13,
            SectionKind::Parameters => 14,
        }
    }

    /// True for sections without bytes in the file.
    pub(crate) fn is_nobits(self) -> bool {
        self.category() == 12
    }

    /// Whether a section of this kind gets a section symbol when it is created.
    pub(super) fn has_symbol(self) -> bool {
        !matches!(
            self,
            SectionKind::FileInfo
                | SectionKind::Compat
                | SectionKind::LateCompat
                | SectionKind::FunctionInfo
                | SectionKind::Reloc
                | SectionKind::Resolved
        )
    }

    /// True for a note.
    pub(super) fn is_note(self) -> bool {
        matches!(self, SectionKind::TkInfo | SectionKind::CuInfo)
    }

    /// `sh_type`. An object that is linked again keeps CUDA's own types.
    pub(super) fn sh_type(self, relocatable: bool, dialect: &Dialect) -> u32 {
        match self {
            SectionKind::Parameters if relocatable => sht::CUDA_CONSTANT0,
            SectionKind::Constant(bank) if relocatable => sht::CUDA_CONSTANT0 + u32::from(bank),
            SectionKind::GlobalInit if relocatable => sht::CUDA_GLOBAL_INIT,
            SectionKind::Global if relocatable => sht::CUDA_GLOBAL,
            SectionKind::Shared | SectionKind::PoolShared if relocatable => sht::CUDA_SHARED,
            SectionKind::ReservedShared if relocatable => sht::CUDA_SHARED_RESERVED,
            SectionKind::Debug
            | SectionKind::Constant(_)
            | SectionKind::Text
            | SectionKind::GlobalInit
            | SectionKind::Parameters => sht::PROGBITS,
            SectionKind::HighIndices => sht::SYMTAB_SHNDX,
            SectionKind::TkInfo | SectionKind::CuInfo => sht::NOTE,
            SectionKind::FileInfo | SectionKind::FunctionInfo => sht::CUDA_INFO,
            SectionKind::Compat | SectionKind::LateCompat => sht::CUDA_COMPAT,
            SectionKind::FunctionTable | SectionKind::FunctionIds => sht::CUDA_UFT_ENTRY,
            SectionKind::VariableIds => sht::CUDA_UDT_ENTRY,
            SectionKind::Index => sht::CUDA_UIDX,
            SectionKind::JumpSlots => sht::CUDA_UFT,
            SectionKind::UnifiedData if !dialect.types_unified_data => sht::PROGBITS,
            SectionKind::UnifiedData => sht::CUDA_UDT,
            SectionKind::CallGraph => sht::CUDA_CALLGRAPH,
            SectionKind::Prototype => sht::CUDA_PROTOTYPE,
            SectionKind::RelAction => sht::CUDA_REL_ACTION,
            SectionKind::Reloc => sht::RELA,
            SectionKind::Resolved => sht::CUDA_RESOLVED_RELA,
            SectionKind::Global
            | SectionKind::Shared
            | SectionKind::PoolShared
            | SectionKind::ReservedShared => sht::NOBITS,
        }
    }
}

/// The most bytes of a constant bank.
pub(crate) const BANK_LIMIT: u64 = 0x10000;
