//! Phase `objects`: objects that NVIDIA's linkers made with `-r`.
//!
//! In: the tool records and symbols of an object. Out: the linker that made it, and its symbols in
//! ptxas's form: unused literals are removed, and arrays that the linker defined are declarations
//! again.

use culd_cubin::elf::{self, stt};
use culd_cubin::{Cubin, SymbolIndex, SymbolSection, note};

use super::object::InputObject;
use super::roles::{SectionRole, is_internal};

/// The symbol that kernels in objects of NVIDIA's linkers name instead of any `extern` array.
pub(super) const EXTERN_INSTANCE: &[u8] = b"externsharedinstance";

/// A linker of NVIDIA's that makes objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NvidiaLinker {
    Nvlink,
    /// libnvJitLink, of LTO-IR too.
    JitLink,
}

impl NvidiaLinker {
    /// The linker that made an object with that tool note. Its own record comes first; other tools
    /// have none in an object.
    pub(super) fn of_object(tkinfo: &[u8]) -> Option<NvidiaLinker> {
        match note::first_tool(tkinfo)? {
            (b"nvlink", options) => {
                let mut options = options.split(|&byte| byte == b' ');
                options.any(|option| option == b"-r").then_some(NvidiaLinker::Nvlink)
            }
            (b"nvJIT API", _) => Some(NvidiaLinker::JitLink),
            _ => None,
        }
    }

    /// Its name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            NvidiaLinker::Nvlink => "nvlink",
            NvidiaLinker::JitLink => "libnvJitLink",
        }
    }
}

/// True for an object that a linker made, culd included. culd keeps the alignments that nvlink
/// wrote in an earlier step (case shared/dynamic-with-g by 13.5).
pub(super) fn is_by_linker(tkinfo: &[u8]) -> bool {
    let by_culd = note::first_tool(tkinfo).is_some_and(|(tool, _)| tool == b"culd");
    by_culd || NvidiaLinker::of_object(tkinfo).is_some()
}

/// Clears the symbols of literals that lie outside their bank. With `-r` nvlink keeps the symbols
/// of literals of a replaced copy, behind the end of the bank that the new copy brought; nothing
/// refers to them (docs/DIFFERENCES.md, literals-of-replaced).
pub(super) fn forget_lost_literals(cubin: &mut Cubin<'_>, roles: &[SectionRole]) {
    let Cubin { symbols, sections, .. } = cubin;
    for symbol in symbols.iter_mut().filter(|symbol| is_internal(symbol)) {
        let SymbolSection::In(at) = symbol.section else { continue };
        let end = symbol.value.checked_add(symbol.size);
        let inside = end.is_some_and(|end| end <= sections[at.0 as usize].size);
        if matches!(roles[at.0 as usize], SectionRole::Constant(1..)) && !inside {
            symbol.info = elf::stb::LOCAL << 4 | stt::NOTYPE;
        }
    }
}

impl InputObject<'_> {
    /// Turns `extern` arrays that nvlink defined into declarations. With `-r` nvlink defines them,
    /// without size, in `.nv_debug.shared`. They still have no place of their own, and later links
    /// lay them out like declared arrays (case shared/dynamic-in-steps). The symbol that kernels
    /// refer to instead has the size of their other variables as alignment; nvlink, which links
    /// LTO-IR without that step, takes the alignment of the arrays.
    pub(super) fn declare_arrays(&mut self) {
        if self.roles.contains(&SectionRole::PoolShared) {
            self.declare_pooled_arrays();
        }
        if self.linker == Some(NvidiaLinker::JitLink) {
            let arrays = self.array_definitions.iter().map(|&index| self.symbol(index).value);
            let align = arrays.max().unwrap_or(0);
            let symbols = self.cubin.symbols.iter_mut();
            let instances = symbols.filter(|symbol| symbol.name == EXTERN_INSTANCE);
            instances.for_each(|symbol| symbol.value = align);
        }
    }

    fn declare_pooled_arrays(&mut self) {
        for (index, symbol) in (0..).map(SymbolIndex).zip(&mut self.cubin.symbols) {
            let SymbolSection::In(section) = symbol.section else { continue };
            let pool = self.roles[section.0 as usize] == SectionRole::PoolShared;
            if pool && symbol.is_shared() && symbol.size == 0 && symbol.binding() != elf::stb::LOCAL
            {
                symbol.section = SymbolSection::Undefined;
                self.array_definitions.push(index);
            }
        }
    }
}
