//! Which names LTO-IR defines and needs.
//!
//! In: an image that was compiled of the same source for the same target, PTX or a cubin, which
//! nvcc puts into the same fat binary. Out: an [`Outline`]. Guaranteed: LTO-IR itself, which is
//! NVIDIA's own, is not looked at; an image that cannot be read gives none.

use std::collections::{BTreeMap, BTreeSet};

use culd_abi::ptx::{DeclarationKind, Module, PtxLinkage, PtxVariable};
use culd_abi::space::StateSpace;
use culd_cubin::elf::{stb, stt};
use culd_cubin::{Cubin, SymbolSection, text_of};
use culd_link::driver_function_since;

use super::roots::{RootNames, RootSpace};
use super::text::ObjectText;

/// The start of the names of functions that ptxas adds (`__cuda_sm3x_div_rn_noftz_f32_slowpath`).
/// PTX must not declare them.
const OF_PTXAS: &[u8] = b"__cuda_sm";

/// True for functions of the driver, of any release: compilers of LTO-IR leave them to it.
pub(super) fn is_of_driver(name: &[u8]) -> bool {
    driver_function_since(name).is_some()
}

/// Names of a piece of LTO-IR, or of several.
#[derive(Debug, Default)]
pub(super) struct Outline {
    /// Definitions that other code can see and that the compiler would drop or make local.
    pub(super) roots: RootNames,
    /// Functions that are named and not defined, without those that the driver defines.
    needs: BTreeSet<String>,
    /// Kernels.
    kernels: BTreeSet<String>,
    /// Functions that other code cannot see: of PTX only.
    local: BTreeSet<String>,
    /// The alignments in bytes of variables in shared memory that other code can see: of PTX only.
    pub(super) shared_alignments: BTreeMap<String, u64>,
}

impl Outline {
    /// The names in the PTX `text`.
    pub(super) fn of_ptx(text: &[u8]) -> Self {
        let mut outline = Outline::default();
        for item in Module::parse(&text_of(text)).items {
            let seen = matches!(item.linkage, PtxLinkage::Visible | PtxLinkage::Weak);
            match item.what {
                DeclarationKind::Function(function) if item.linkage == PtxLinkage::Extern => {
                    if !function.entry {
                        outline.need(item.name);
                    }
                }
                // One that is only declared is defined further down.
                DeclarationKind::Function(function) if function.entry => {
                    outline.kernels.insert(item.name);
                }
                DeclarationKind::Function(_) if seen => outline.roots.function(item.name),
                DeclarationKind::Function(_) => {
                    outline.local.insert(item.name);
                }
                DeclarationKind::Alias(_) if seen => outline.roots.function(item.name),
                DeclarationKind::Variable(variable) => {
                    outline.variable(item.name, item.linkage, &variable)
                }
                DeclarationKind::Alias(_) => {}
            }
        }
        outline
    }

    fn variable(&mut self, name: String, linkage: PtxLinkage, variable: &PtxVariable) {
        // Visible variables in global and constant memory stay by themselves.
        let (space, rooted) = match variable.space {
            StateSpace::Shared => (RootSpace::Shared, linkage != PtxLinkage::Local),
            StateSpace::Global => (RootSpace::Global, linkage == PtxLinkage::Weak),
            StateSpace::Const => (RootSpace::Constant, linkage == PtxLinkage::Weak),
            _ => return,
        };
        if rooted {
            if let (RootSpace::Shared, Some(bytes)) = (space, variable.align) {
                self.align_shared(name.clone(), bytes);
            }
            // An array without size has none here either.
            let size = variable.size().unwrap_or(0);
            self.roots.variable(name, space, size);
        }
    }

    /// The names in the cubin `bytes`, which may be compiled LTO-IR.
    pub(super) fn of_cubin(bytes: &[u8]) -> Option<Self> {
        let cubin = Cubin::parse(bytes).ok()?;
        let mut outline = Outline::default();
        let kernels = cubin.symbols.iter().filter(|symbol| symbol.is_entry());
        outline.kernels = kernels.map(|symbol| text_of(symbol.name)).collect();
        let own = cubin.symbols.iter().filter(|symbol| !symbol.name.starts_with(OF_PTXAS));
        for symbol in own.filter(|symbol| symbol.binding() != stb::LOCAL) {
            let name = text_of(symbol.name);
            let section = symbol.defined_in().and_then(|section| cubin.section(section));
            let weak = symbol.binding() == stb::WEAK;
            match symbol.section {
                SymbolSection::Undefined if symbol.is_function() => outline.need(name),
                // An `extern` array. Every compiler of a whole program aligns it to 16 bytes.
                SymbolSection::Undefined if symbol.is_shared() => {
                    outline.roots.variable(name, RootSpace::Shared, 0);
                }
                SymbolSection::Undefined => {}
                _ if symbol.is_function() && !symbol.is_entry() => outline.roots.function(name),
                _ if symbol.is_shared() => {
                    outline.roots.variable(name, RootSpace::Shared, symbol.size);
                }
                _ if symbol.kind() == stt::OBJECT && weak => {
                    if let Some(space) =
                        section.and_then(|section| RootSpace::of_section(section.name))
                    {
                        outline.roots.variable(name, space, symbol.size);
                    }
                }
                _ => {}
            }
        }
        Some(outline)
    }

    /// The names in `object`, which libnvJitLink made of LTO-IR: those of `text`, the PTX in it, or
    /// else of its code, in which weak variables are local.
    pub(super) fn of_object(object: &[u8], text: Option<&ObjectText>) -> Option<Self> {
        match text {
            Some(text) => Some(Outline::of_ptx(&text.ptx)),
            None => Outline::of_cubin(object),
        }
    }

    fn need(&mut self, name: String) {
        if !is_of_driver(name.as_bytes()) {
            self.needs.insert(name);
        }
    }

    fn align_shared(&mut self, name: String, bytes: u64) {
        let known = self.shared_alignments.entry(name).or_insert(bytes);
        *known = bytes.max(*known);
    }

    /// Takes in the names of another piece.
    pub(super) fn add(&mut self, other: Outline) {
        self.roots.add(other.roots);
        self.needs.extend(other.needs);
        self.kernels.extend(other.kernels);
        self.local.extend(other.local);
        for (name, bytes) in other.shared_alignments {
            self.align_shared(name, bytes);
        }
    }

    /// True if it is a function that the PTX defines.
    pub(super) fn defines(&self, name: &str) -> bool {
        self.roots.has(name) || self.local.contains(name)
    }

    /// True if the PTX has functions that other code cannot see.
    pub(super) fn has_local_functions(&self) -> bool {
        !self.local.is_empty()
    }

    /// True if `ptx`, in which these names stay, has a function that other code cannot see and that
    /// is none of theirs. A link may leave more functions than the images beside LTO-IR have: with
    /// `-g` nothing is inlined.
    pub(super) fn lacks_functions_of(&self, ptx: &[u8]) -> bool {
        // One of several functions of a name has a number behind `$`.
        let is_known = |name: &String| {
            let begin = name.rsplit_once('$').map(|(begin, _)| begin);
            self.local.contains(name) || begin.is_some_and(|begin| self.local.contains(begin))
        };
        !Outline::of_ptx(ptx).local.iter().all(is_known)
    }

    /// The kernels.
    pub(super) fn kernels(&self) -> impl Iterator<Item = &str> {
        self.kernels.iter().map(String::as_str)
    }

    /// A function that no piece defines, the first by name.
    pub(super) fn open(&self) -> Option<&str> {
        self.all_open().next()
    }

    /// All functions that no piece defines, by name.
    pub(super) fn all_open(&self) -> impl Iterator<Item = &str> {
        self.needs.iter().filter(|name| !self.roots.has(name)).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
        .version 9.0\n.target sm_90\n.address_size 64\n\
        .extern .func (.param .b32 r) needed (.param .b32 a);\n\
        .extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n\
        .func local_one () { ret; }\n\
        .visible .global .align 4 .u32 plain = 1;\n\
        .weak .global .align 8 .u64 table[5];\n\
        .weak .const .align 4 .b8 fixed[12];\n\
        .visible .shared .align 4 .b8 pool[128];\n\
        .extern .shared .align 16 .b8 dynamic[];\n\
        .shared .align 4 .u32 own;\n\
        .visible .func seen () { ret; }\n\
        .weak .func (.param .b32 r) inlined (.param .b32 a) { ret; }\n\
        .visible .entry kernel (.param .u64 p) { ret; }\n";

    #[test]
    fn of_ptx_what_others_see_is_rooted_and_what_is_named_only_is_needed() {
        let outline = Outline::of_ptx(TEXT.as_bytes());
        let functions: Vec<&str> = outline.roots.functions().collect();
        assert_eq!(functions, ["seen", "inlined"]);
        let variables: Vec<_> = outline.roots.variables().collect();
        assert_eq!(
            variables,
            [
                ("table", RootSpace::Global, 40),
                ("fixed", RootSpace::Constant, 12),
                ("pool", RootSpace::Shared, 128),
                ("dynamic", RootSpace::Shared, 0),
            ]
        );
        assert_eq!(outline.open(), Some("needed"));
        assert!(outline.has_local_functions());
        assert!(!Outline::of_ptx(b".weak .func seen () { ret; }\n").has_local_functions());
    }

    #[test]
    fn what_another_piece_defines_is_not_open() {
        let mut outline = Outline::of_ptx(TEXT.as_bytes());
        outline.add(Outline::of_ptx(b".visible .func needed () { ret; }\n"));
        assert_eq!(outline.open(), None);
    }
}
