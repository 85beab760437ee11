//! Phase `objects`: the role of every section of an input.
//!
//! In: a parsed cubin. Out: a [`SectionRole`] for each section, from its type, name and flags
//! together, because sections are merged by name. Guaranteed: a section of an unknown kind ends the
//! link.

use culd_cubin::arch::Flavour;
use culd_cubin::elf::{self, shf, sht, sto, stt};
use culd_cubin::{Cubin, Malformed, Section, SectionIndex, Symbol, text_of};

use crate::diag::Message;

/// The role of an input section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SectionRole {
    /// Headers, string and symbol tables, notes: made anew or read elsewhere.
    Table,
    Text,
    /// A constant bank, with its number.
    Constant(u8),
    Global,
    GlobalInit,
    /// `.nv.shared.<entry>`.
    OwnShared,
    /// `.nv_debug.shared`.
    PoolShared,
    /// `.nv.shared.reserved.0`: the system's part of shared memory (sm_110).
    ReservedShared,
    Debug,
    /// `.nv.constant0.<entry>` of an object with Mercury: such parameters take no part in the link.
    Parameters,
    /// `.nv.info`.
    FileInfo,
    /// `.nv.info.<function>`.
    FunctionInfo,
    CallGraph,
    Prototype,
    Reloc,
    /// `.nv.uft.rel.<function>`: the jump slot of a unified function.
    JumpSlot,
    /// `.nv.udt`: unified variables.
    UnifiedData,
    /// `.nv.uft.entry`.
    FunctionIds,
    /// `.nv.udt.entry`.
    VariableIds,
    /// `.nv.uidx`, in objects that were linked with an index file.
    Index,
    /// The section of a pair that other phases do not see, see [`crate::objects::counterparts`].
    Counterpart,
    /// The same for `.nv.info.<function>`.
    CounterpartInfo,
}

/// Notes about the tools that made an object, and notes for the driver; CUDA 12.9 has the last one.
const NOTES: [&[u8]; 3] = [b".note.nv.tkinfo", b".note.nv.cuinfo", b".note.nv.cuver"];

/// The roles of all sections, in section order.
pub(super) fn all(
    file: &str,
    cubin: &Cubin<'_>,
    flavour: Flavour,
) -> Result<Vec<SectionRole>, Message> {
    let mut roles = Vec::with_capacity(cubin.sections.len());
    for section in &cubin.sections {
        let Some(role) = role(section, flavour) else {
            let name = text_of(section.name);
            let kind = section.sh_type;
            let reason = format!("section '{name}' of type {kind:#x} is of an unknown kind");
            return Err(Message::unsupported(file, reason));
        };
        roles.push(role);
    }
    Ok(roles)
}

/// The role of `section`; `None` for an unknown kind. Sections are merged by name, so a role
/// belongs to names of one form.
fn role(section: &Section<'_>, flavour: Flavour) -> Option<SectionRole> {
    let name = section.name;
    if flavour == Flavour::Mercury && section.flags & shf::MERCURY != 0 {
        return Some(SectionRole::Counterpart);
    }
    let owned = section.info_section().is_some();
    Some(match section.sh_type {
        sht::NULL
        | sht::STRTAB
        | sht::SYMTAB
        | sht::SYMTAB_SHNDX
        | sht::CUDA_COMPAT
        | sht::CUDA_REL_ACTION => SectionRole::Table,
        sht::NOTE if NOTES.contains(&name) => SectionRole::Table,
        // A record of relocations applied in an earlier link is of no use to this one, and nvlink
        // does not read it (docs/LINKING.md, --preserve-relocs).
        sht::CUDA_RESOLVED_RELA if name.starts_with(b".nv.resolvedrela.") => SectionRole::Table,
        sht::REL | sht::RELA if name.starts_with(b".rel") => SectionRole::Reloc,
        sht::CUDA_INFO if name == b".nv.info" => SectionRole::FileInfo,
        sht::CUDA_INFO if name.starts_with(b".nv.info.") && owned => SectionRole::FunctionInfo,
        sht::CUDA_CALLGRAPH if name == b".nv.callgraph" => SectionRole::CallGraph,
        sht::CUDA_PROTOTYPE if name == b".nv.prototype" => SectionRole::Prototype,
        sht::CUDA_GLOBAL if name == b".nv.global" => SectionRole::Global,
        sht::CUDA_GLOBAL_INIT if name == b".nv.global.init" => SectionRole::GlobalInit,
        sht::CUDA_SHARED_RESERVED if name == b".nv.shared.reserved.0" => {
            SectionRole::ReservedShared
        }
        sht::CUDA_SHARED if name == b".nv_debug.shared" => SectionRole::PoolShared,
        sht::CUDA_SHARED if name.starts_with(b".nv.shared.") => SectionRole::OwnShared,
        sht::CUDA_CONSTANT0..=sht::CUDA_CONSTANT_LAST => {
            let bank = section.constant_bank()?;
            let of_type = u32::from(bank) == section.sh_type - sht::CUDA_CONSTANT0;
            let role = match (flavour, bank) {
                (Flavour::Classic, _) => SectionRole::Constant(bank),
                (Flavour::Mercury, 0) if owned => SectionRole::Parameters,
                (Flavour::Mercury, 2..=4) => SectionRole::Constant(bank),
                (Flavour::Mercury, _) => return None,
            };
            return of_type.then_some(role);
        }
        sht::CUDA_UFT if section.is_code() && name.starts_with(SLOT_PREFIX) => {
            SectionRole::JumpSlot
        }
        sht::CUDA_UDT if name == b".nv.udt" => SectionRole::UnifiedData,
        sht::CUDA_UIDX if name == b".nv.uidx" => SectionRole::Index,
        sht::CUDA_UFT_ENTRY if name == b".nv.uft.entry" => SectionRole::FunctionIds,
        sht::CUDA_UDT_ENTRY if name == b".nv.udt.entry" => SectionRole::VariableIds,
        sht::PROGBITS if section.is_code() && name.starts_with(b".text.") => SectionRole::Text,
        sht::PROGBITS if is_debug(name) => SectionRole::Debug,
        _ => return None,
    })
}

/// Checks that a relocation section is named after the section it patches, because sections are
/// merged by name. Checks that no section has two of one type.
pub(super) fn check_reloc_names(cubin: &Cubin<'_>, roles: &[SectionRole]) -> Result<(), Malformed> {
    // Relocation types seen, by patched section.
    let mut seen = vec![0u8; cubin.sections.len()];
    for (section, _) in
        cubin.sections.iter().zip(roles).filter(|(_, role)| matches!(role, SectionRole::Reloc))
    {
        let target = section.info_section().and_then(|index| cubin.section(index));
        let prefix: &[u8] = if section.sh_type == sht::RELA { b".rela" } else { b".rel" };
        let tail = section.name.strip_prefix(prefix);
        if tail.is_none() || tail != target.map(|target| target.name) {
            let what = "a relocation section is not named after the section it patches";
            return Err(Malformed::section(section.name, 0, what));
        }
        let of_type = if section.sh_type == sht::RELA { 2 } else { 1 };
        let seen = section.info_section().and_then(|target| seen.get_mut(target.0 as usize));
        if seen.is_some_and(|seen| std::mem::replace(seen, *seen | of_type) & of_type != 0) {
            let what = "what it patches has another relocation section of this type";
            return Err(Malformed::section(section.name, 0, what));
        }
    }
    Ok(())
}

fn is_debug(name: &[u8]) -> bool {
    name.starts_with(b".debug_") || name.starts_with(b".nv_debug_")
}

/// True if code section `section` is named after `function`, which then is no alias.
pub(super) fn names_code(role: SectionRole, section: &Section<'_>, function: &Symbol<'_>) -> bool {
    match role {
        SectionRole::JumpSlot => {
            let stub = function.name.strip_prefix(STUB_PREFIX);
            stub.is_some() && stub == section.name.strip_prefix(SLOT_PREFIX)
        }
        _ => section.name.strip_prefix(b".text.") == Some(function.name),
    }
}

/// Relocation sections in section order, each with the section it patches.
pub(super) fn reloc_sections<'c, 'd>(
    cubin: &'c Cubin<'d>,
    roles: &'c [SectionRole],
) -> impl Iterator<Item = (SectionIndex, &'c Section<'d>, SectionIndex)> {
    let sections = cubin.section_indices().zip(roles);
    let relocs = sections.filter(|(_, role)| matches!(role, SectionRole::Reloc));
    relocs.filter_map(|((index, section), _)| Some((index, section, section.info_section()?)))
}

/// ptxas puts this in front of a unified function's name to name the function's jump slot.
pub(crate) const STUB_PREFIX: &[u8] = b"__cuda_uf_stub_";

/// ptxas puts this in front of the same name to name the section of the jump slot.
pub(crate) const SLOT_PREFIX: &[u8] = b".nv.uft.rel.";

/// True for functions, variables and references to textures and the like. nvlink treats symbols of
/// other types, except section symbols, like the null symbol.
pub(crate) fn takes_part(symbol: &Symbol<'_>) -> bool {
    matches!(
        symbol.kind(),
        stt::FUNC
            | stt::OBJECT
            | stt::CUDA_OBJECT
            | stt::CUDA_TEXTURE
            | stt::CUDA_SAMPLER
            | stt::CUDA_SURFACE
    )
}

/// True for a symbol that ptxas made for its own use: parameters and literals.
pub(crate) fn is_internal(symbol: &Symbol<'_>) -> bool {
    symbol.binding() == elf::stb::LOCAL && symbol.other & sto::INTERNAL != 0
}
