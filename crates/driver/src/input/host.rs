//! Host objects: their device code, the modules that they register, the kernels that they refer to.
//!
//! In: an object. Out: its images and lists of names.

use std::borrow::Cow;

use culd_fatbin::container::containers;
use culd_fatbin::host::{HostObject, HostReference, ModuleIds};
use culd_link::Severity;

use super::fatbin::entries;
use super::gathered::{HostUses, InputEvent, InputStop};
use super::walk::InputSource;
use super::{Gatherer, HostLists};
use crate::hints::UnlinkedReason;
use crate::messages::{InputError, Line};
use crate::options::OptionId;
use crate::registration::{ModuleNumber, ModulePlace, Registration};

impl<'a> Gatherer<'a, '_> {
    pub(super) fn host(&mut self, source: InputSource, bytes: &'a [u8]) -> Result<(), InputStop> {
        self.opened(InputError::Internal)?;
        let mut object = match self.sources.host_object(bytes) {
            Ok(object) => object.unwrap_or_default(),
            Err(error) => return Err(self.no_fatbin(source, Some(error))),
        };
        let before = self.found.lto.len();
        let mut modules = match object.has_segment {
            true => self.device_code(&source, &object)?,
            false => Vec::new(),
        };
        self.found.asks_for_library |= self.found.lto.len() > before;
        let has_list = !modules.is_empty()
            && object.references.iter().any(|(reference, section)| {
                *reference == HostReference::Kernel && !section.data.is_empty()
            });
        let lists = has_list.then(|| std::mem::take(&mut object.references));
        if object.module_ids.is_none() && self.found.lto.len() > before {
            // LTO-IR without an id registers nothing, but its lists count.
            modules.clear();
        }
        self.host_lists.push(HostLists { modules, system: source.system, lists });
        match object.module_ids {
            Some(ModuleIds::Linked(ids)) if self.follows_device_links() => {
                let ids = ids.map_err(|error| {
                    let note = format!("in '{}', section '__nv_module_id', {error}", source.name);
                    self.fatal(InputError::ModuleIds, vec![note])
                })?;
                self.found.registration.mark(&source.name, &ids);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Without a register file, no module is registered, and nvlink leaves out none.
    fn follows_device_links(&self) -> bool {
        self.options.path(OptionId::RegisterFile).is_some()
    }

    /// A module that has its path as its name and no code for the target is not registered. Then
    /// its lists of host references do not count either; without a register file, they do.
    pub(super) fn withdraw_without_code(&mut self, module: ModuleNumber) {
        if self.follows_device_links() {
            self.found.registration.withdraw(module);
        }
    }

    /// Adds the device code of an object; returns its modules, or none if it has no code to link.
    fn device_code(
        &mut self,
        source: &InputSource,
        object: &HostObject<'a>,
    ) -> Result<Vec<ModuleNumber>, InputStop> {
        if object.fatbins.is_empty() {
            if object.whole_programs.is_empty() {
                return Err(self.no_fatbin(source.clone(), None));
            }
            if matches!(object.module_ids, Some(ModuleIds::Linked(_))) {
                // Its contents are those of other objects.
                return Ok(Vec::new());
            }
            for entry in object.whole_programs.iter().flat_map(|section| entries(section.data)) {
                self.unlinked(&source.name, UnlinkedReason::WholeProgram, &entry);
            }
            return Ok(Vec::new());
        }
        // `ld -r` puts ids and containers together in one order. Else all code is that of the
        // first.
        let sections = || object.fatbins.iter();
        let merged = object.modules().len() > 1
            && object.modules().len() == sections().flat_map(|s| containers(s.data)).count();
        let modules = self.modules(
            source,
            object,
            if merged { ModulePlace::Behind } else { ModulePlace::Bare },
        );
        let mut first = modules.iter().take(1).copied().cycle();
        let mut each = modules.iter().copied();
        let of_containers: &mut dyn Iterator<Item = ModuleNumber> =
            if merged { &mut each } else { &mut first };
        let mut has_code = false;
        for section in sections() {
            has_code |= self.fatbins(source, section.data, of_containers, InputError::Internal)?;
        }
        // An object without an id registers only code for the target, like a fat binary.
        if object.module_ids.is_none() && !has_code {
            modules.iter().for_each(|&module| self.withdraw_without_code(module));
        }
        Ok(modules)
    }

    /// The modules of an object with device code; at least one.
    fn modules(
        &mut self,
        source: &InputSource,
        object: &HostObject<'a>,
        others: ModulePlace,
    ) -> Vec<ModuleNumber> {
        match &object.module_ids {
            Some(ModuleIds::Here(ids)) => {
                let places = std::iter::once(ModulePlace::First).chain(std::iter::repeat(others));
                let registration = &mut self.found.registration;
                let add = |(id, place): (&&'a [u8], ModulePlace)| {
                    registration.add(Cow::Borrowed(id), source.system, place)
                };
                ids.iter().zip(places).map(add).collect()
            }
            Some(ModuleIds::Linked(_)) if self.follows_device_links() => {
                vec![self.found.registration.add_linked()]
            }
            _ => vec![self.module_of_path(source)],
        }
    }

    fn no_fatbin(&mut self, source: InputSource, error: Option<culd_fatbin::Error>) -> InputStop {
        let notes = error.into_iter().map(|error| error.to_string()).collect();
        self.fatal(InputError::NoFatbin(source.name), notes);
        self.fatal(InputError::Internal, Vec::new())
    }

    /// Adds a file of device code only, which is a module and has no list of kernels.
    pub(super) fn device_file(&mut self, source: &InputSource) -> ModuleNumber {
        let module = self.module_of_path(source);
        self.device_only(source, module);
        module
    }

    /// Adds the file of `module`, which has no list of kernels.
    pub(super) fn device_only(&mut self, source: &InputSource, module: ModuleNumber) {
        let modules = vec![module];
        self.host_lists.push(HostLists { modules, system: source.system, lists: None });
    }

    /// Adds a file of LTO-IR only. Since 13.0 it has no part in the references of host code.
    pub(super) fn lto_only(&mut self, source: &InputSource) {
        if self.rules.lto_files_keep_kernels {
            let (modules, system) = (Vec::new(), source.system);
            self.host_lists.push(HostLists { modules, system, lists: None });
        }
    }

    /// Reports that a file has device code only, so the code that registers it must be elsewhere.
    pub(super) fn report_missing_host_code(&mut self, source: &InputSource) {
        let line = self.missing_host_code(source);
        self.events.extend(line.map(InputEvent::Line));
    }

    /// The line of [`Self::report_missing_host_code`], if it is to be printed.
    pub(super) fn missing_host_code(&mut self, source: &InputSource) -> Option<Line> {
        if !self.follows_device_links() {
            return None;
        }
        self.found.depends_on_release = true;
        let line = || Line::about(Severity::Info, InputError::NoHostCode(source.name.clone()));
        self.rules.reports_missing_host_code.then(line)
    }

    /// A module that is called by the path of its file, as it was given.
    pub(super) fn module_of_path(&mut self, source: &InputSource) -> ModuleNumber {
        use culd_text::os::OsStrExt;
        let parts: [&[u8]; 3] = match source.path.starts_with(b"/") {
            true => [b"", b"", &source.path],
            false => {
                let folder = || std::env::current_dir().unwrap_or_default();
                let folder = self.folder.get_or_insert_with(folder);
                [folder.as_os_str().as_bytes(), b"/", &source.path]
            }
        };
        let mut id = parts.concat();
        for byte in id.iter_mut().filter(|byte| !byte.is_ascii_alphanumeric()) {
            *byte = b'_';
        }
        self.found.registration.add(Cow::Owned(id), source.system, ModulePlace::First)
    }

    /// Leaves out the code that a device link has linked before: it is not unpacked
    /// (docs/DIFFERENCES.md, linked-before).
    pub(super) fn leave_out_linked(&mut self) {
        let registration = &self.found.registration;
        let left_out = |module| registration.is_linked_before(module);
        let why = |module| {
            let by = registration.linked_by(module)?;
            Some(UnlinkedReason::LinkedBefore(by.to_owned()))
        };
        let mut elsewhere = Vec::new();
        self.events.retain(|event| {
            if let InputEvent::Lto(module) | InputEvent::WithoutCode(module) = event {
                return !left_out(*module);
            }
            let Some(piece) = event.piece().filter(|piece| left_out(piece.module)) else {
                return true;
            };
            elsewhere.extend(why(piece.module).map(|why| piece.code.elsewhere(&piece.name, why)));
            false
        });
        self.found.lto.retain(|part| !left_out(part.module));
        self.found.elsewhere.extend(elsewhere);
    }
}

/// The kernels that host code refers to; `None` if some input has no list. An input does not count
/// if all its modules are left out or withdrawn.
pub(super) fn references<'a>(
    host_lists: &[HostLists<'a>],
    registration: &Registration<'a>,
) -> Option<HostUses<'a>> {
    let mut all = HostUses::default();
    let counts = |host_lists: &&HostLists<'a>| {
        let mut modules = host_lists.modules.iter();
        host_lists.modules.is_empty() || modules.any(|&module| registration.takes_part(module))
    };
    for HostLists { system, lists, .. } in host_lists.iter().filter(counts) {
        for (reference, section) in lists.as_ref()? {
            let list = match reference {
                HostReference::Kernel => &mut all.external,
                HostReference::InternalKernel => &mut all.internal,
                HostReference::Constant => &mut all.constants,
                HostReference::InternalConstant => &mut all.internal_constants,
                HostReference::Variable => &mut all.variables,
                HostReference::InternalVariable => &mut all.internal_variables,
            };
            if section.data.iter().all(|&byte| byte == 0) {
                continue;
            }
            list.push(section.data);
            let kernels =
                matches!(reference, HostReference::Kernel | HostReference::InternalKernel);
            all.selects |= kernels && !system;
        }
    }
    Some(all)
}
