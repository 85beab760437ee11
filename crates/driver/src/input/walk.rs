//! A walk over the inputs.
//!
//! In: files and bytes. Out: events in the order of the inputs. The extension of a file's name says
//! first what it is, as in nvlink. Where nvlink would then ignore the file, its content decides
//! (docs/DIFFERENCES.md, ignored-inputs).

use culd_text::os::OsStrExt;
use std::ffi::OsStr;
use std::path::Path;

use culd_fatbin::{Format, sniff};

use super::archive::ArchiveReader;
use super::gathered::{DeviceCode, InputEvent, InputPiece, InputStop};
use super::{Content, Gatherer, InputItem, InputKind, Sources};
use crate::messages::{Ignored, InputError};
use crate::options::base_name;
use crate::os::files::{Identity, Kinds, LoadedFile};
use crate::registration::ModuleNumber;

/// nvlink ignores files below this many bytes; not even a fat binary fits.
const SHORTEST: usize = 56;

/// A file or archive member that is being looked at.
#[derive(Debug, Clone)]
pub(super) struct InputSource {
    /// Its name in messages.
    pub(super) name: String,
    /// The name as bytes: a path, with the archive's path in front of a member's.
    pub(super) path: Vec<u8>,
    /// A member of an archive: nvlink has no line if it lacks the target.
    pub(super) member: bool,
    /// Part of a library that is linked only if something needs it.
    pub(super) system: bool,
}

impl<'a> Gatherer<'a, '_> {
    /// Looks at all inputs.
    pub(super) fn walk(&mut self) -> Result<(), InputStop> {
        let libraries = self.search()?;
        let Sources { items, store, shared, .. } = self.sources;
        self.events.reserve(items.len());
        let mut loaded = Vec::new().into_iter();
        if shared.is_none() {
            let paths: Vec<_> = items.iter().map(InputItem::file_path).collect();
            loaded = store.read_ahead(&paths, self.session).into_iter();
        }
        for item in items {
            if self.session.is_cancelled() {
                return Err(InputStop);
            }
            self.item(item, loaded.next().flatten())?;
        }
        self.libraries(libraries)
    }

    fn item(
        &mut self,
        item: &'a InputItem<'a>,
        loaded: Option<LoadedFile>,
    ) -> Result<(), InputStop> {
        match (item.kind, &item.content) {
            (InputKind::Named, Content::File(path)) => self.file(&item.name, path, loaded),
            (_, Content::File(path)) => {
                let (bytes, identity) = self.read(&item.name, path, loaded)?;
                self.item_bytes(item, bytes, Some((path, identity)))
            }
            (_, Content::Bytes(bytes)) => self.item_bytes(item, bytes, None),
        }
    }

    /// An input of a known kind, or known by its content alone.
    fn item_bytes(
        &mut self,
        item: &InputItem<'_>,
        bytes: &'a [u8],
        file: Option<(&Path, Identity)>,
    ) -> Result<(), InputStop> {
        let name = item.name.clone();
        if let Some(wrong) = item.kind.mismatch(&name, sniff(bytes)) {
            return Err(self.fatal(wrong, Vec::new()));
        }
        let system = is_system(&item.path());
        match (sniff(bytes).is_archive(), file) {
            (true, Some((_, identity))) if !self.first_time(identity) => Ok(()),
            (true, Some((path, identity))) => {
                self.archive(&ArchiveReader::file(&name, path, bytes, identity, system))
            }
            (true, None) => self.archive(&ArchiveReader::bytes(&name, bytes, system)),
            (false, _) if bytes.is_empty() => {
                self.ignored(Ignored::Empty(name));
                Ok(())
            }
            (false, _) => {
                let path = item.path().as_bytes().to_vec();
                self.content(InputSource { name, path, member: false, system }, bytes)
            }
        }
    }

    /// The file at `path`, which may have been read before.
    fn read(
        &mut self,
        name: &str,
        path: &Path,
        loaded: Option<LoadedFile>,
    ) -> Result<(&'a [u8], Identity), InputStop> {
        self.found.files.push(path.to_owned());
        let opened = match loaded {
            Some(loaded) => {
                let (bytes, identity) = self.sources.store.keep(loaded);
                Ok((&**self.sources.store.alloc(bytes), identity))
            }
            None => self.sources.open(path, Kinds::Any),
        };
        opened
            .map_err(|error| self.fatal(InputError::Open(name.to_owned()), vec![error.to_string()]))
    }

    /// A file of a command line.
    fn file(
        &mut self,
        name: &str,
        path: &Path,
        loaded: Option<LoadedFile>,
    ) -> Result<(), InputStop> {
        let (bytes, identity) = self.read(name, path, loaded)?;
        if bytes.is_empty() {
            self.found.depends_on_release = true;
            if !self.rules.ignores_empty_files {
                return Err(self.fatal(InputError::Open(name.to_owned()), Vec::new()));
            }
            self.ignored(Ignored::Empty(name.to_owned()));
            return Ok(());
        }
        let is_archive = sniff(bytes).is_archive();
        if bytes.len() < SHORTEST && !is_archive {
            let size = format!("it has {} bytes, too few for any kind of input", bytes.len());
            return Err(self.fatal(InputError::Open(name.to_owned()), vec![size]));
        }
        let system = is_system(path);
        let bytes_of_path = path.as_os_str().as_bytes().to_vec();
        let source =
            InputSource { name: name.to_owned(), path: bytes_of_path, member: false, system };
        let mut parts = base_name(path).rsplitn(2, |&byte| byte == b'.');
        let extension = parts.next().filter(|_| parts.next().is_some());
        match extension {
            Some(b"cubin") => self.named_cubin(source, bytes),
            Some(b"fatbin") => self.named_fatbin(source, bytes),
            Some(b"ptx") => self.named_ptx(source, bytes),
            Some(b"ltoir" | b"nvvm") if self.options.lto() => {
                self.bare_lto(&source, bytes);
                Ok(())
            }
            Some(b"ltoir" | b"nvvm") => {
                Err(self.fatal(InputError::Nvvm, vec![format!("'{}'", source.name)]))
            }
            Some(b"bc") => Err(self.fatal(InputError::Bitcode, vec![format!("'{}'", source.name)])),
            // Shared libraries take no part in a device link; the name may be that of a script.
            Some(b"so") if !is_archive => Ok(()),
            _ if is_archive => {
                if self.first_time(identity) {
                    self.archive(&ArchiveReader::file(name, path, bytes, identity, system))
                } else {
                    Ok(())
                }
            }
            _ => self.content(source, bytes),
        }
    }

    fn named_cubin(&mut self, source: InputSource, bytes: &'a [u8]) -> Result<(), InputStop> {
        match sniff(bytes) {
            Format::RelocatableCubin | Format::ExecutableCubin => self.content(source, bytes),
            Format::HostElf { .. } => {
                let note = format!("'{}', offset 0x12: the machine is not CUDA", source.name);
                Err(self.fatal(InputError::NotDeviceElf, vec![note]))
            }
            _ => {
                let note = format!("'{}', offset 0x0: no ELF magic number", source.name);
                Err(self.fatal(InputError::NotElf, vec![note]))
            }
        }
    }

    fn named_fatbin(&mut self, source: InputSource, bytes: &'a [u8]) -> Result<(), InputStop> {
        if sniff(bytes) != Format::Fatbin {
            let note = format!("'{}', offset 0x0: no fat binary magic number", source.name);
            return Err(self.fatal(InputError::NotFatbin, vec![note]));
        }
        self.content(source, bytes)
    }

    /// PTX by its name: a cubin or fat binary under that name is linked as such.
    fn named_ptx(&mut self, source: InputSource, bytes: &'a [u8]) -> Result<(), InputStop> {
        match sniff(bytes) {
            Format::RelocatableCubin | Format::ExecutableCubin | Format::Fatbin | Format::Ptx => {
                self.content(source, bytes)
            }
            _ => {
                self.opened(InputError::Fatbinary)?;
                let severity = culd_link::Severity::Error;
                self.say(
                    severity,
                    InputError::UnknownFormat,
                    vec![format!("in '{}'", source.name)],
                );
                Err(self.fatal(InputError::Fatbinary, Vec::new()))
            }
        }
    }

    /// An input that is not an archive, by its content.
    pub(super) fn content(
        &mut self,
        source: InputSource,
        bytes: &'a [u8],
    ) -> Result<(), InputStop> {
        match sniff(bytes) {
            Format::HostElf { relocatable: false } => Ok(()),
            Format::HostElf { relocatable: true } | Format::Coff => self.host(source, bytes),
            Format::RelocatableCubin => {
                // Behind an error nvlink does not look at cubins.
                if !self.failed {
                    self.report_missing_host_code(&source);
                }
                let module = self.device_file(&source);
                self.piece(source, DeviceCode::Cubin(bytes), true, module);
                Ok(())
            }
            Format::ExecutableCubin => {
                self.ignored(Ignored::Linked(source.name));
                Ok(())
            }
            Format::Fatbin => {
                self.report_missing_host_code(&source);
                self.opened(InputError::Fatbinary)?;
                let module = self.module_of_path(&source);
                let mut modules = std::iter::repeat(module);
                let before = self.found.lto.len();
                if !self.fatbins(&source, bytes, &mut modules, InputError::Fatbinary)? {
                    self.withdraw_without_code(module);
                }
                if self.found.lto.len() == before {
                    self.device_only(&source, module);
                } else {
                    self.lto_only(&source);
                }
                Ok(())
            }
            Format::Ptx => {
                self.opened(InputError::Fatbinary)?;
                self.hands_limit_on()?;
                let module = self.device_file(&source);
                let info_behind_compiler = self.missing_host_code(&source);
                let piece = InputPiece::new(source, DeviceCode::Ptx(bytes), true, module);
                self.events.push(InputEvent::Piece(InputPiece { info_behind_compiler, ..piece }));
                Ok(())
            }
            Format::LtoIr if self.options.lto() => {
                self.bare_lto(&source, bytes);
                Ok(())
            }
            Format::LtoIr => self.content_ignored(Ignored::LtoIr(source.name)),
            Format::Bitcode => self.content_ignored(Ignored::Bitcode(source.name)),
            Format::Archive | Format::ThinArchive | Format::Unknown => {
                self.content_ignored(Ignored::Unknown(source.name))
            }
        }
    }

    /// Adds LTO-IR outside a fat binary. It registers no module.
    fn bare_lto(&mut self, source: &InputSource, bytes: &'a [u8]) {
        let module = self.module_of_path(source);
        self.found.registration.withdraw(module);
        self.lto_only(source);
        self.lto(source, bytes, None, module);
    }

    fn content_ignored(&mut self, ignored: Ignored) -> Result<(), InputStop> {
        self.ignored(ignored);
        Ok(())
    }

    /// After an error, nvlink ends at the next object, archive or fat binary that it opens.
    pub(super) fn opened(&mut self, stop: InputError) -> Result<(), InputStop> {
        if self.failed { Err(self.fatal(stop, Vec::new())) } else { Ok(()) }
    }

    pub(super) fn piece(
        &mut self,
        source: InputSource,
        code: DeviceCode<'a>,
        whole_file: bool,
        module: ModuleNumber,
    ) {
        let piece = InputPiece::new(source, code, whole_file, module);
        self.events.push(InputEvent::Piece(piece));
    }
}

impl<'a> InputPiece<'a> {
    fn new(
        source: InputSource,
        code: DeviceCode<'a>,
        whole_file: bool,
        module: ModuleNumber,
    ) -> Self {
        let InputSource { name, system, .. } = source;
        InputPiece { name, system, whole_file, module, code, info_behind_compiler: None }
    }
}

/// The name of NVIDIA's runtime library, which is linked only if it is used. nvlink looks for
/// `cudadevrt` anywhere in a path (docs/DIFFERENCES.md, system-library).
pub(super) fn is_system(path: &(impl AsRef<OsStr> + ?Sized)) -> bool {
    let name = base_name(path);
    name.strip_prefix(b"libcudadevrt").is_some_and(|rest| rest.ends_with(b".a"))
}
