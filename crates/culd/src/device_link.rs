//! A device link for several architectures as a value.

use std::borrow::Cow;
use std::path::Path;

use culd_driver::{DeviceLinkRequest, InputItem, InputKind};
use culd_fatbin::registration::{Machine, Visibility};

use crate::diagnostic::{Diagnostic, LinkError};
use crate::options::Options;

/// Inputs, options and architectures of a device link, as by `nvcc -dlink`.
///
/// ```
/// use culd::fatbin::registration::Machine;
/// use culd::{DeviceLink, Options};
///
/// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/quickstart/");
/// let mut link = DeviceLink::new(vec![Options::for_arch("sm_90")?]);
/// link.add_file(format!("{folder}saxpy.cubin")).add_file(format!("{folder}smooth.cubin"));
/// let linked = link.link()?;
/// assert_eq!(linked.images.len(), 1);
/// let object = linked.host_object(Machine::X86_64)?;
/// assert!(object.starts_with(b"\x7fELF") && object.ends_with(&linked.fatbin()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct DeviceLink<'d> {
    options: Vec<Options>,
    items: Vec<InputItem<'d>>,
}

/// A program that is linked for its architectures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceLinked {
    /// The entries of the fat binary, in the order of the architectures.
    pub images: Vec<culd_fatbin::writer::InputImage>,
    /// The ids of the modules that the host object registers.
    pub modules: Vec<Vec<u8>>,
    /// Warnings and infos, those of each architecture after those of the one before.
    pub diagnostics: Vec<Diagnostic>,
}

impl<'d> DeviceLink<'d> {
    /// A device link with the options of each architecture, without inputs so far.
    pub fn new(options: Vec<Options>) -> Self {
        DeviceLink { options, items: Vec::new() }
    }

    /// Adds the file at `path`, which is read when the link begins, as the command line takes it.
    pub fn add_file(&mut self, path: impl AsRef<Path>) -> &mut Self {
        self.items.push(InputItem::file(path, InputKind::Named));
        self
    }

    /// Adds `bytes`, which have the name `name` in messages, as
    /// [`Linker::add_bytes`](crate::Linker::add_bytes) does.
    pub fn add_bytes(
        &mut self,
        name: impl Into<String>,
        kind: InputKind,
        bytes: impl Into<Cow<'d, [u8]>>,
    ) -> &mut Self {
        self.items.push(InputItem::bytes(name, kind, bytes));
        self
    }

    /// Links for all architectures, from inputs that are opened once.
    ///
    /// # Errors
    /// What is wrong with the first architecture that fails.
    pub fn link(&self) -> Result<DeviceLinked, LinkError> {
        let options = self.options.iter().map(|options| options.options.clone()).collect();
        let linked =
            culd_driver::device_link_in_memory(DeviceLinkRequest { options, items: &self.items });
        let diagnostics: Vec<Diagnostic> = linked.lines.into_iter().map(Diagnostic::of).collect();
        match linked.images {
            Some(images) => Ok(DeviceLinked { images, modules: linked.modules, diagnostics }),
            None => Err(LinkError { diagnostics }),
        }
    }
}

impl DeviceLinked {
    /// The fat binary of all images.
    ///
    /// # Errors
    /// A part that is too large for its field.
    pub fn fatbin(&self) -> Result<Vec<u8>, culd_fatbin::Error> {
        culd_fatbin::writer::write(&self.images)
    }

    /// The object for the host linker.
    ///
    /// # Errors
    /// As [`host_object`](culd_fatbin::registration::host_object).
    pub fn host_object(&self, machine: Machine) -> Result<Vec<u8>, culd_fatbin::Error> {
        let fatbin = self.fatbin()?;
        let ids: Vec<&[u8]> = self.modules.iter().map(Vec::as_slice).collect();
        let size = fatbin.len() as u64;
        let visibility = Visibility::Default;
        let mut object = culd_fatbin::registration::host_object(machine, visibility, size, &ids)?;
        object.extend_from_slice(&fatbin);
        Ok(object)
    }
}
