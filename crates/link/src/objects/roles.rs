//! Phase `objects`: what every section of an input is.
//!
//! In: a parsed cubin. Out: a [`Role`] for each section, by type, name and flags together, because sections are
//! merged by name. Guaranteed: a section of a kind that nothing here knows how to link ends the link.

use culd_cubin::arch::Flavour;
use culd_cubin::elf::{shf, sht};
use culd_cubin::{Cubin, Malformed, Section, SectionIndex, Symbol};

use super::Failure;
use crate::unified::{SLOT_PREFIX, STUB_PREFIX};

/// What a section of an input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
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
    /// `.nv.shared.reserved.0`: shared memory that the system has taken (sm_110).
    ReservedShared,
    Debug,
    /// `.nv.constant0.<entry>` of an object with Mercury, where parameters take no part in the link.
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
    /// The half of a pair that is not shown, see [`crate::capsule::twins`].
    Twin,
    /// The same of `.nv.info.<function>`.
    TwinInfo,
}

/// What tells of the tools that made an object, and what it tells the driver; the last in CUDA 12.9.
const NOTES: [&[u8]; 3] = [b".note.nv.tkinfo", b".note.nv.cuinfo", b".note.nv.cuver"];

/// The roles of all sections, in their order.
pub(super) fn all(cubin: &Cubin<'_>, flavour: Flavour) -> Result<Vec<Role>, Failure> {
    let mut roles = Vec::with_capacity(cubin.sections.len());
    for section in &cubin.sections {
        let Some(role) = role(section, flavour) else {
            let name = String::from_utf8_lossy(section.name);
            let kind = section.sh_type;
            return Err(Failure::Unsupported(format!(
                "section '{name}' of type {kind:#x} is of an unknown kind"
            )));
        };
        roles.push(role);
    }
    Ok(roles)
}

/// What `section` is; `None` for kinds that nothing here knows how to link. Sections are merged by
/// name, so a role belongs to names of one form.
fn role(section: &Section<'_>, flavour: Flavour) -> Option<Role> {
    let name = section.name;
    if flavour == Flavour::Mercury && section.flags & shf::MERCURY != 0 {
        return Some(Role::Twin);
    }
    let owned = section.flags & shf::INFO_LINK != 0;
    Some(match section.sh_type {
        sht::NULL
        | sht::STRTAB
        | sht::SYMTAB
        | sht::SYMTAB_SHNDX
        | sht::CUDA_COMPAT
        | sht::CUDA_REL_ACTION => Role::Table,
        sht::NOTE if NOTES.contains(&name) => Role::Table,
        // What was applied when an object was made is of no use to the next link, nor does nvlink
        // read it (docs/LINKING.md, --preserve-relocs).
        sht::CUDA_RESOLVED_RELA if name.starts_with(b".nv.resolvedrela.") => Role::Table,
        sht::REL | sht::RELA if name.starts_with(b".rel") => Role::Reloc,
        sht::CUDA_INFO if name == b".nv.info" => Role::FileInfo,
        sht::CUDA_INFO if name.starts_with(b".nv.info.") && owned => Role::FunctionInfo,
        sht::CUDA_CALLGRAPH if name == b".nv.callgraph" => Role::CallGraph,
        sht::CUDA_PROTOTYPE if name == b".nv.prototype" => Role::Prototype,
        sht::CUDA_GLOBAL if name == b".nv.global" => Role::Global,
        sht::CUDA_GLOBAL_INIT if name == b".nv.global.init" => Role::GlobalInit,
        sht::CUDA_SHARED_RESERVED if name == b".nv.shared.reserved.0" => Role::ReservedShared,
        sht::CUDA_SHARED if name == b".nv_debug.shared" => Role::PoolShared,
        sht::CUDA_SHARED if name.starts_with(b".nv.shared.") => Role::OwnShared,
        sht::CUDA_CONSTANT0..=sht::CUDA_CONSTANT_LAST => {
            let bank = section.constant_bank()?;
            let of_type = u32::from(bank) == section.sh_type - sht::CUDA_CONSTANT0;
            let role = match (flavour, bank) {
                (Flavour::Classic, _) => Role::Constant(bank),
                (Flavour::Mercury, 0) if owned => Role::Parameters,
                (Flavour::Mercury, 2..=4) => Role::Constant(bank),
                (Flavour::Mercury, _) => return None,
            };
            return of_type.then_some(role);
        }
        sht::CUDA_UFT if section.is_code() && name.starts_with(SLOT_PREFIX) => Role::JumpSlot,
        sht::CUDA_UDT if name == b".nv.udt" => Role::UnifiedData,
        sht::CUDA_UIDX if name == b".nv.uidx" => Role::Index,
        sht::CUDA_UFT_ENTRY if name == b".nv.uft.entry" => Role::FunctionIds,
        sht::CUDA_UDT_ENTRY if name == b".nv.udt.entry" => Role::VariableIds,
        sht::PROGBITS if section.is_code() && name.starts_with(b".text.") => Role::Text,
        sht::PROGBITS if is_debug(name) => Role::Debug,
        _ => return None,
    })
}

/// Relocation sections are named after what they patch: they are merged by name. A section has one of each type.
pub(super) fn check_reloc_names(cubin: &Cubin<'_>, roles: &[Role]) -> Result<(), Malformed> {
    // Types seen, by what they patch.
    let mut seen = vec![0u8; cubin.sections.len()];
    for (section, _) in
        cubin.sections.iter().zip(roles).filter(|(_, role)| matches!(role, Role::Reloc))
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

/// True when code section `section` is named after `function`, which then is no alias.
pub(super) fn names_code(role: Role, section: &Section<'_>, function: &Symbol<'_>) -> bool {
    match role {
        Role::JumpSlot => {
            let stub = function.name.strip_prefix(STUB_PREFIX);
            stub.is_some() && stub == section.name.strip_prefix(SLOT_PREFIX)
        }
        _ => section.name.strip_prefix(b".text.") == Some(function.name),
    }
}

/// Relocation sections in section order, with the section they patch.
pub(super) fn reloc_sections<'c, 'd>(
    cubin: &'c Cubin<'d>,
    roles: &'c [Role],
) -> impl Iterator<Item = (SectionIndex, &'c Section<'d>, SectionIndex)> {
    let sections = cubin.section_indices().zip(roles);
    let relocs = sections.filter(|(_, role)| matches!(role, Role::Reloc));
    relocs.filter_map(|((index, section), _)| Some((index, section, section.info_section()?)))
}
