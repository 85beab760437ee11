//! Definitions that must stay in a program of LTO-IR although no LTO-IR uses them.
//!
//! In: names. Out: a module of NVVM IR that uses them, of which NVIDIA's libnvvm makes LTO-IR.
//! Guaranteed: any name can be written.

use std::collections::HashSet;
use std::fmt::Write as _;

/// The memory of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RootSpace {
    Global,
    Shared,
    Constant,
}

impl RootSpace {
    /// The memory of the variables in the section called `name` of a relocatable cubin.
    pub(super) fn of_section(name: &[u8]) -> Option<Self> {
        match name {
            b".nv.global" | b".nv.global.init" => Some(RootSpace::Global),
            b".nv.constant3" => Some(RootSpace::Constant),
            _ => None,
        }
    }

    /// The number in NVVM IR.
    fn number(self) -> u8 {
        match self {
            RootSpace::Global => 1,
            RootSpace::Shared => 3,
            RootSpace::Constant => 4,
        }
    }
}

/// Names of functions and variables, in the order in which they were added.
#[derive(Debug, Default, Clone)]
pub(super) struct RootNames {
    functions: Vec<String>,
    variables: Vec<(String, RootSpace, u64)>,
    names: HashSet<String>,
}

/// A function that nothing defines. `culd-lto` adds LTO-IR that needs it where a library would take
/// the LTO-IR of a link for the whole program.
pub(super) const OTHER_FUNCTION: &str = "culd_other_code";

/// The layout of data that NVVM IR has to name: it is the same for all targets. Pointers to shared
/// memory have 32 bits, as in nvcc's: the compiler for sm_120 takes the layout of the first module
/// (13.5), and computes addresses of that size.
const LAYOUT: &str = "e-p:64:64:64-p3:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-\
                      i128:128:128-f32:32:32-f64:64:64-v16:16:16-v32:32:32-v64:64:64-\
                      v128:128:128-n16:32:64";

impl RootNames {
    pub(super) fn function(&mut self, name: String) {
        if self.names.insert(name.clone()) {
            self.functions.push(name);
        }
    }

    /// A variable of `size` bytes, 0 for an array without size. The compiler compares sizes.
    pub(super) fn variable(&mut self, name: String, space: RootSpace, size: u64) {
        if self.names.insert(name.clone()) {
            self.variables.push((name, space, size));
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Takes in others; of two variables of a name the first counts.
    pub(super) fn add(&mut self, other: RootNames) {
        other.functions.into_iter().for_each(|name| self.function(name));
        for (name, space, size) in other.variables {
            self.variable(name, space, size);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// True if the compiler treats a variable otherwise because the module names it. The compiler
    /// for sm_100 and later (`newer`) may place named variables elsewhere (13.0 and 13.1).
    pub(super) fn change_variables(&self, newer: bool) -> bool {
        self.has_shared() || newer && !self.variables.is_empty()
    }

    /// True if there are variables in shared memory, which the compiler aligns to 16 bytes because
    /// the module names them.
    pub(super) fn has_shared(&self) -> bool {
        self.variables.iter().any(|(_, space, _)| *space == RootSpace::Shared)
    }

    #[cfg(test)]
    pub(super) fn functions(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().map(String::as_str)
    }

    #[cfg(test)]
    pub(super) fn variables(&self) -> impl Iterator<Item = (&str, RootSpace, u64)> {
        self.variables.iter().map(|(name, space, size)| (name.as_str(), *space, *size))
    }

    /// The module of these names and of the functions that other code `needs`; `None` if there is
    /// no name.
    pub(super) fn module_with(mut self, needs: Vec<String>) -> Option<String> {
        needs.into_iter().for_each(|name| self.function(name));
        (!self.is_empty()).then(|| self.module())
    }

    /// The module without the version of the language, which depends on libnvvm. Declarations have
    /// other types than definitions: the name is all that counts.
    pub(super) fn module(&self) -> String {
        let mut text =
            format!("target datalayout = \"{LAYOUT}\"\ntarget triple = \"nvptx64-nvidia-cuda\"\n");
        let mut used = Vec::new();
        for name in &self.functions {
            let name = quoted(name);
            let _ = writeln!(text, "declare void {name}()");
            used.push(format!("i8* bitcast (void ()* {name} to i8*)"));
        }
        for (name, space, size) in &self.variables {
            let (name, space) = (quoted(name), space.number());
            let _ = writeln!(
                text,
                "{name} = external addrspace({space}) global [{size} x i8], align 1"
            );
            used.push(format!(
                "i8* addrspacecast ([{size} x i8] addrspace({space})* {name} to i8*)"
            ));
        }
        let _ = writeln!(
            text,
            "@llvm.used = appending global [{} x i8*] [{}], section \"llvm.metadata\"",
            used.len(),
            used.join(", ")
        );
        text
    }
}

/// A global name of LLVM's language.
fn quoted(name: &str) -> String {
    let mut text = "@\"".to_owned();
    for byte in name.bytes() {
        match byte {
            b'"' | b'\\' | 0..0x20 | 0x7f.. => {
                let _ = write!(text, "\\{byte:02X}");
            }
            _ => text.push(char::from(byte)),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_names_everything_once_in_order() {
        let mut roots = RootNames::default();
        assert!(roots.is_empty());
        roots.function("_Z1fi".to_owned());
        roots.function("a\"b".to_owned());
        roots.function("_Z1fi".to_owned());
        roots.variable("table".to_owned(), RootSpace::Global, 40);
        let mut others = RootNames::default();
        others.variable("table".to_owned(), RootSpace::Global, 8);
        others.variable("pool".to_owned(), RootSpace::Shared, 0);
        roots.add(others);
        let module = roots.module();
        let lines: Vec<&str> = module.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "declare void @\"_Z1fi\"()",
                "declare void @\"a\\22b\"()",
                "@\"table\" = external addrspace(1) global [40 x i8], align 1",
                "@\"pool\" = external addrspace(3) global [0 x i8], align 1",
                "@llvm.used = appending global [4 x i8*] [i8* bitcast (void ()* @\"_Z1fi\" to i8*), \
                 i8* bitcast (void ()* @\"a\\22b\" to i8*), \
                 i8* addrspacecast ([40 x i8] addrspace(1)* @\"table\" to i8*), \
                 i8* addrspacecast ([0 x i8] addrspace(3)* @\"pool\" to i8*)], \
                 section \"llvm.metadata\"",
            ]
        );
    }
}
