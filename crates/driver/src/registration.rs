//! The modules that a program registers with the CUDA runtime, and those that an earlier device
//! link has registered.
//!
//! Every object with device code is a module with an id. The host object of a device link registers
//! the linked modules and lists their ids (`def <id>` in `__nv_module_id`). Such objects are inputs
//! of later links, mostly as members of libraries with their own device link. The modules in their
//! lists are in a program already: they are neither linked nor registered again, at any place on
//! the line (docs/rules/inputs.md, 6).
//!
//! In: modules and lists in the order of the inputs. Out: the modules to leave out, and the text of
//! the file of `--register-link-binaries`, which nvcc compiles into the host program. Guaranteed:
//! nothing here depends on the target, except for withdrawn modules and the need for the system
//! library. So links of one program for several targets can share the values.

use std::borrow::Cow;
use std::collections::HashMap;

/// A part of the id of the module of libcudadevrt, by which nvlink finds it.
const SYSTEM_ID: &[u8] = b"_cuda_device_runtime_";

/// Bytes of a register file that are read: the lists of some million modules.
pub(crate) const MAX_FILE: u64 = 256 << 20;

/// A module, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ModuleNumber(usize);

/// Something that registers itself with the CUDA runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RegisteredModule<'a> {
    /// The id from the compiler of the host code, or one made of a path; `None` for code in an
    /// object that a device link made.
    id: Option<Cow<'a, [u8]>>,
    /// Part of a system library.
    system: bool,
    place: ModulePlace,
    /// It is not registered.
    withdrawn: bool,
}

/// The place of a module in an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModulePlace {
    /// It is the first or only one.
    First,
    /// Not the first, in an object that `ld -r` made of several, with its own code.
    Behind,
    /// A later module of an object, whose code is in the first. nvlink always lists it.
    Bare,
}

/// The state of the system library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SystemLibrary {
    /// It is not an input.
    NotGiven,
    /// It is not needed.
    NotNeeded,
    Linked,
}

/// The modules of a link.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registration<'a> {
    modules: Vec<RegisteredModule<'a>>,
    /// Modules that a device link has linked, and the object that says so.
    linked_before: HashMap<&'a [u8], String>,
}

impl<'a> Registration<'a> {
    /// A module.
    pub(crate) fn add(
        &mut self,
        id: Cow<'a, [u8]>,
        system: bool,
        place: ModulePlace,
    ) -> ModuleNumber {
        self.push(RegisteredModule { id: Some(id), system, place, withdrawn: false })
    }

    /// Adds the code of an object of a device link: only the modules that it has linked count.
    pub(crate) fn add_linked(&mut self) -> ModuleNumber {
        self.push(RegisteredModule {
            id: None,
            system: false,
            place: ModulePlace::First,
            withdrawn: true,
        })
    }

    fn push(&mut self, module: RegisteredModule<'a>) -> ModuleNumber {
        self.modules.push(module);
        ModuleNumber(self.modules.len() - 1)
    }

    /// Withdraws a module, which then is not registered.
    pub(crate) fn withdraw(&mut self, module: ModuleNumber) {
        self.modules[module.0].withdrawn = true;
    }

    /// The object `by` says that a device link has linked the modules `ids`.
    pub(crate) fn mark(&mut self, by: &str, ids: &[&'a [u8]]) {
        for id in ids {
            self.linked_before.entry(id).or_insert_with(|| by.to_owned());
        }
    }

    /// Whether a device link has linked the module before. All lists must have been added.
    pub(crate) fn is_linked_before(&self, module: ModuleNumber) -> bool {
        let RegisteredModule { id, place, .. } = &self.modules[module.0];
        let listed = |id: &Cow<'_, [u8]>| self.linked_before.contains_key(&**id);
        *place != ModulePlace::Bare && id.as_ref().is_none_or(listed)
    }

    /// Whether the module is part of this link.
    pub(crate) fn takes_part(&self, module: ModuleNumber) -> bool {
        !self.modules[module.0].withdrawn && !self.is_linked_before(module)
    }

    /// The object that says that the module is linked.
    pub(crate) fn linked_by(&self, module: ModuleNumber) -> Option<&str> {
        let id = self.modules[module.0].id.as_ref()?;
        self.linked_before.get(&**id).map(String::as_str)
    }

    /// The state of the system library; `needed` returns true if it is needed. A library that is
    /// already linked, or alone, does not count.
    pub(crate) fn system_library(&self, needed: impl FnOnce() -> bool) -> SystemLibrary {
        let numbers = || (0..self.modules.len()).filter(|&number| !self.modules[number].withdrawn);
        let is_library = |number: usize| {
            self.modules[number].system && !self.is_linked_before(ModuleNumber(number))
        };
        let has_others = numbers().any(|number| !self.modules[number].system);
        if !numbers().any(is_library) || !has_others {
            SystemLibrary::NotGiven
        } else if needed() {
            SystemLibrary::Linked
        } else {
            SystemLibrary::NotNeeded
        }
    }

    /// The modules that the program registers. The lists of the links for several targets become
    /// one. With `reversed` the last module comes first.
    pub(crate) fn listing(&self, system: SystemLibrary, reversed: bool) -> ModuleListing {
        let list = |(number, module): (usize, &RegisteredModule<'a>)| {
            let needed = !module.system || system == SystemLibrary::Linked;
            ModuleEntry {
                id: module.id.as_deref().unwrap_or_default().to_vec(),
                first: module.place == ModulePlace::First,
                counts: needed && module.id.is_some() && self.takes_part(ModuleNumber(number)),
            }
        };
        ModuleListing { modules: self.modules.iter().enumerate().map(list).collect(), reversed }
    }

    /// The register file: a line for each module, or the lines from the last on.
    pub(crate) fn register_file(&self, system: SystemLibrary, reversed: bool) -> Vec<u8> {
        let listing = self.listing(system, reversed);
        let ids = listing.ids();
        let mut text = format!("#define NUM_PRELINKED_OBJECTS {}\n", ids.len()).into_bytes();
        for id in ids {
            text.extend_from_slice(b"DEFINE_REGISTER_FUNC(");
            text.extend_from_slice(id);
            text.extend_from_slice(b")\n");
        }
        text
    }
}

/// The modules of a program, and which of them it registers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModuleListing {
    modules: Vec<ModuleEntry>,
    reversed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ModuleEntry {
    id: Vec<u8>,
    /// The first or only one of its object.
    first: bool,
    /// The program registers it.
    counts: bool,
}

impl ModuleListing {
    /// Adds the modules that the link of the same inputs for another target registers.
    pub(crate) fn add(&mut self, other: &ModuleListing) {
        for (own, other) in self.modules.iter_mut().zip(&other.modules) {
            own.counts |= other.counts;
        }
    }

    /// The modules that the program registers: the first of each object in link order, then all
    /// others, from the last on, as nvlink has them.
    pub(crate) fn ids(&self) -> Vec<&[u8]> {
        let all = self.modules.iter().filter(|module| module.counts);
        let (mut listed, others): (Vec<&ModuleEntry>, Vec<&ModuleEntry>) =
            all.partition(|module| module.first);
        listed.extend(others.into_iter().rev());
        if self.reversed {
            listed.reverse();
        }
        listed.into_iter().map(|module| module.id.as_slice()).collect()
    }
}

/// Whether an existing register file stays. nvcc makes the links for all targets write one file:
/// the module of libcudadevrt is in it if one of them needs the library.
pub(crate) fn keeps(existing: &[u8], system: SystemLibrary) -> bool {
    // Read as a C string, which ends with the first NUL.
    let text = existing.split(|&byte| byte == 0).next().unwrap_or_default();
    system == SystemLibrary::NotNeeded
        || text.windows(SYSTEM_ID.len()).any(|window| window == SYSTEM_ID)
}

#[cfg(test)]
mod tests {
    use super::SystemLibrary::{Linked, NotGiven, NotNeeded};
    use super::*;

    fn registration(modules: &[(&'static str, bool)]) -> Registration<'static> {
        let mut registration = Registration::default();
        for &(id, system) in modules {
            registration.add(id.as_bytes().into(), system, ModulePlace::First);
        }
        registration
    }

    fn ids(registration: &Registration<'_>, system: SystemLibrary) -> String {
        let listing = registration.listing(system, false);
        let ids: Vec<String> =
            listing.ids().iter().map(|id| id.escape_ascii().to_string()).collect();
        ids.join(" ")
    }

    #[test]
    fn every_module_has_a_line() {
        let two = registration(&[("_72784db6_4_k_cu__Z1kPi", false), ("x", false)]);
        assert_eq!(
            two.register_file(NotGiven, false),
            b"#define NUM_PRELINKED_OBJECTS 2\n\
              DEFINE_REGISTER_FUNC(_72784db6_4_k_cu__Z1kPi)\nDEFINE_REGISTER_FUNC(x)\n"
        );
        let reversed = two.register_file(NotGiven, true);
        assert!(reversed.ends_with(b"(_72784db6_4_k_cu__Z1kPi)\n"), "{}", reversed.escape_ascii());
        let none = registration(&[]).register_file(NotGiven, false);
        assert_eq!(none, b"#define NUM_PRELINKED_OBJECTS 0\n");
    }

    #[test]
    fn what_a_device_link_lists_is_linked_before() {
        let mut some = registration(&[("a", false), ("ab", false), ("rt", true), ("b", false)]);
        let code = some.add_linked();
        assert_eq!(ids(&some, Linked), "a ab rt b");
        assert_eq!(ids(&some, NotNeeded), "a ab b");
        some.mark("m.o", &[b"b", b"c"]);
        some.mark("n.o", &[b"b", b"rt"]);
        let marked: Vec<_> = (0..5).map(|at| some.is_linked_before(ModuleNumber(at))).collect();
        assert_eq!(marked, [false, false, true, true, true]);
        assert_eq!(some.linked_by(ModuleNumber(3)), Some("m.o"));
        assert_eq!((some.linked_by(ModuleNumber(0)), some.linked_by(code)), (None, None));
        assert_eq!(ids(&some, Linked), "a ab");
        some.withdraw(ModuleNumber(0));
        assert_eq!(ids(&some, Linked), "ab");
    }

    #[test]
    fn the_system_library_counts_beside_other_modules() {
        let library = |modules| registration(modules).system_library(|| true);
        assert_eq!(library(&[("a", false)]), NotGiven);
        assert_eq!(library(&[("rt", true)]), NotGiven);
        assert_eq!(library(&[("a", false), ("rt", true)]), Linked);
        let mut both = registration(&[("a", false), ("rt", true)]);
        both.mark("m.o", &[b"a"]);
        assert_eq!(both.system_library(|| false), NotNeeded);
        both.withdraw(ModuleNumber(1));
        assert_eq!(both.system_library(|| true), NotGiven);
    }

    #[test]
    fn a_program_registers_what_any_target_needs() {
        let modules = [("a", false), ("b", false), ("rt", true), ("c", false)];
        let (mut one, mut other) = (registration(&modules), registration(&modules));
        one.withdraw(ModuleNumber(0));
        other.withdraw(ModuleNumber(0));
        other.withdraw(ModuleNumber(1));
        let mut both = other.listing(Linked, false);
        both.add(&one.listing(NotNeeded, false));
        assert_eq!(both.ids(), [&b"b"[..], b"rt", b"c"]);
    }

    #[test]
    fn modules_of_merged_objects_come_last() {
        let mut merged = registration(&[("a", false)]);
        for (id, place) in [("b", ModulePlace::Behind), ("c", ModulePlace::Bare)] {
            merged.add(id.as_bytes().into(), false, place);
        }
        merged.add(b"rt"[..].into(), true, ModulePlace::First);
        assert_eq!(ids(&merged, Linked), "a rt c b");
        merged.mark("m.o", &[b"b", b"c"]);
        assert_eq!(ids(&merged, NotGiven), "a c");
    }

    #[test]
    fn a_register_file_stays_for_the_sake_of_the_system_library() {
        let with = b"#define NUM_PRELINKED_OBJECTS 1\nDEFINE_REGISTER_FUNC(_f_22_cuda_device_runtime_cu_3)\n";
        let without = b"#define NUM_PRELINKED_OBJECTS 1\nDEFINE_REGISTER_FUNC(_a)\n";
        for system in [NotGiven, NotNeeded, Linked] {
            assert!(keeps(with, system), "{system:?}");
            assert_eq!(keeps(without, system), system == NotNeeded, "{system:?}");
        }
        assert!(!keeps(b"\0_cuda_device_runtime_", Linked));
        assert!(keeps(b"", NotNeeded) && !keeps(b"", NotGiven));
    }
}
