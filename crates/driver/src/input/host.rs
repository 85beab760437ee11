//! Host objects: their device code, what they register, which kernels they refer to.

use std::borrow::Cow;

use culd_fatbin::host::{HostObject, Reference};

use super::fatbin::entries;
use super::walk::Source;
use super::{Gather, InputError, Module, Stopped};
use crate::hints::Unlinked;

impl<'a> Gather<'a, '_> {
    pub(super) fn host(&mut self, source: Source, bytes: &'a [u8]) -> Result<(), Stopped> {
        self.opened(InputError::Internal)?;
        let object = match HostObject::parse(bytes) {
            Ok(object) => object.unwrap_or_default(),
            Err(error) => return Err(self.no_fatbin(source, Some(error))),
        };
        self.references(&source, &object);
        if !object.has_segment {
            return Ok(());
        }
        if object.fatbins.is_empty() {
            if object.whole_programs.is_empty() {
                return Err(self.no_fatbin(source, None));
            }
            for entry in object.whole_programs.iter().flat_map(|section| entries(section.data)) {
                self.unlinked(&source.name, Unlinked::WholeProgram, entry);
            }
            return Ok(());
        }
        let ids = object.module_ids.iter();
        let named = ids.map(|&id| Module { id: Cow::Borrowed(id), system: source.system });
        self.found.modules.extend(named);
        let mut has_code = false;
        for section in &object.fatbins {
            has_code |= self.fatbins(&source, section.data, InputError::Internal)?;
        }
        // One that has no name of its own registers only what it has for the target, like a fat binary.
        if object.module_ids.is_empty() && has_code {
            self.module_of_path(&source);
        }
        Ok(())
    }

    fn no_fatbin(&mut self, source: Source, error: Option<culd_fatbin::Error>) -> Stopped {
        let notes = error.into_iter().map(|error| error.to_string()).collect();
        self.fatal(InputError::NoFatbin(source.name), notes);
        self.fatal(InputError::Internal, Vec::new())
    }

    /// Not every input tells what host code refers to.
    pub(super) fn no_references(&mut self) {
        self.found.references = None;
    }

    /// Takes in the kernels that the host code of an object refers to.
    fn references(&mut self, source: &Source, object: &HostObject<'a>) {
        let tells = object.has_segment
            && object.references.iter().any(|(reference, section)| {
                *reference == Reference::Kernel && !section.data.is_empty()
            });
        let Some(all) = self.found.references.as_mut().filter(|_| tells) else {
            return self.no_references();
        };
        for (reference, section) in &object.references {
            let list = match reference {
                Reference::Kernel => &mut all.external,
                Reference::InternalKernel => &mut all.internal,
                Reference::Constant => &mut all.constants,
                Reference::InternalConstant => &mut all.internal_constants,
                Reference::Variable | Reference::InternalVariable => continue,
            };
            let before = list.len();
            list.extend(section.data.split(|&byte| byte == 0).filter(|name| !name.is_empty()));
            let kernels = matches!(reference, Reference::Kernel | Reference::InternalKernel);
            all.selects |= kernels && list.len() > before && !source.system;
        }
    }

    /// A module that is called by the path of its file, as it was given.
    pub(super) fn module_of_path(&mut self, source: &Source) {
        use std::os::unix::ffi::OsStrExt;
        let mut path = match source.name.starts_with('/') {
            true => Vec::new(),
            false => {
                let folder = || std::env::current_dir().unwrap_or_default();
                let folder = self.folder.get_or_insert_with(folder);
                [folder.as_os_str().as_bytes(), b"/"].concat()
            }
        };
        path.extend_from_slice(source.name.as_bytes());
        let plain = |byte: &u8| if byte.is_ascii_alphanumeric() { *byte } else { b'_' };
        let id = Cow::Owned(path.iter().map(plain).collect());
        self.found.modules.push(Module { id, system: source.system });
    }
}
