//! The files of the command line, looked into.
//!
//! What a file is taken for depends on the extension of its name first, as in nvlink; where nvlink
//! would go on to ignore it, its content decides (docs/DIFFERENCES.md, ignored-inputs).

use std::borrow::Cow;
use std::path::Path;

use culd_cubin::arch::Variant;
use culd_fatbin::container::{self, Container, Entry, Kind, containers};
use culd_fatbin::header::flag;
use culd_fatbin::host::{HostObject, Reference};
use culd_fatbin::{Format, archive, sniff};

use super::ready::{Code, Piece};
use super::select::{Form, Offer, choose};
use super::{Event, Gather, Ignored, InputError, MAX_UNPACKED, Module, Stopped};
use crate::files;
use crate::hints::{self, Elsewhere, Unlinked};
use crate::options::{Id, base_name};

/// What nvlink ignores shorter files for; not even a fat binary fits.
const SHORTEST: usize = 56;

/// A file or archive member that is being looked at.
#[derive(Debug, Clone)]
pub(super) struct Source {
    /// Its name in messages.
    pub(super) name: String,
    /// A member of an archive: nvlink does not tell when it lacks the target.
    member: bool,
    /// Part of a library that is linked only if something needs it.
    system: bool,
}

impl<'a> Gather<'a, '_> {
    /// Looks at all inputs.
    pub(super) fn walk(&mut self) -> Result<(), Stopped> {
        let options = self.options;
        for path in &options.inputs {
            self.file(path)?;
        }
        self.libraries()
    }

    fn file(&mut self, path: &str) -> Result<(), Stopped> {
        let read = files::read_with_identity(path);
        let (bytes, identity) = read.map_err(|error| {
            self.fatal(InputError::Open(path.to_owned()), vec![error.to_string()])
        })?;
        if bytes.is_empty() {
            self.ignored(Ignored::Empty(path.to_owned()));
            return Ok(());
        }
        let bytes = &**self.store.alloc(bytes);
        let is_archive = matches!(sniff(bytes), Format::Archive | Format::ThinArchive);
        if bytes.len() < SHORTEST && !is_archive {
            let size = format!("it has {} bytes, too few for any kind of input", bytes.len());
            return Err(self.fatal(InputError::Open(path.to_owned()), vec![size]));
        }
        let source = Source { name: path.to_owned(), member: false, system: is_system(path) };
        let name = base_name(path);
        match name.rsplit_once('.').map(|(_, extension)| extension) {
            Some("cubin") => self.named_cubin(source, bytes),
            Some("fatbin") => self.named_fatbin(source, bytes),
            Some("ptx") => self.named_ptx(source, bytes),
            Some("ltoir" | "nvvm") if self.options.lto() => {
                Err(self.fatal(InputError::LtoUnsupported(source.name), Vec::new()))
            }
            Some("ltoir" | "nvvm") => {
                Err(self.fatal(InputError::Nvvm, vec![format!("'{}'", source.name)]))
            }
            Some("bc") => Err(self.fatal(InputError::Bitcode, vec![format!("'{}'", source.name)])),
            // Shared libraries take no part in a device link; the name may be that of a script.
            Some("so") if !is_archive => Ok(()),
            _ if is_archive => {
                if self.first_time(identity) {
                    self.archive(path, bytes)
                } else {
                    Ok(())
                }
            }
            _ => self.content(source, bytes),
        }
    }

    fn named_cubin(&mut self, source: Source, bytes: &'a [u8]) -> Result<(), Stopped> {
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

    fn named_fatbin(&mut self, source: Source, bytes: &'a [u8]) -> Result<(), Stopped> {
        if sniff(bytes) != Format::Fatbin {
            let note = format!("'{}', offset 0x0: no fat binary magic number", source.name);
            return Err(self.fatal(InputError::NotFatbin, vec![note]));
        }
        self.content(source, bytes)
    }

    /// PTX by its name: a cubin or fat binary under that name is linked as such.
    fn named_ptx(&mut self, source: Source, bytes: &'a [u8]) -> Result<(), Stopped> {
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

    /// An input that is no archive, by its content.
    fn content(&mut self, source: Source, bytes: &'a [u8]) -> Result<(), Stopped> {
        match sniff(bytes) {
            Format::HostElf { relocatable: false } => Ok(()),
            Format::HostElf { relocatable: true } | Format::Coff => self.host(source, bytes),
            Format::RelocatableCubin => {
                self.no_references();
                self.module_of_path(&source);
                self.piece(source, Code::Cubin(bytes), true);
                Ok(())
            }
            Format::ExecutableCubin => {
                self.ignored(Ignored::Linked(source.name));
                Ok(())
            }
            Format::Fatbin => {
                self.opened(InputError::Fatbinary)?;
                self.no_references();
                if self.fatbins(&source, bytes, InputError::Fatbinary)? {
                    self.module_of_path(&source);
                }
                Ok(())
            }
            Format::Ptx => {
                self.opened(InputError::Fatbinary)?;
                self.no_references();
                self.module_of_path(&source);
                self.piece(source, Code::Ptx(bytes), true);
                Ok(())
            }
            Format::LtoIr => self.content_ignored(Ignored::LtoIr(source.name)),
            Format::Bitcode => self.content_ignored(Ignored::Bitcode(source.name)),
            Format::Archive | Format::ThinArchive | Format::Unknown => {
                self.content_ignored(Ignored::Unknown(source.name))
            }
        }
    }

    fn content_ignored(&mut self, ignored: Ignored) -> Result<(), Stopped> {
        self.ignored(ignored);
        Ok(())
    }

    /// All members of the archive at `path`: there is no choice by what is undefined.
    pub(super) fn archive(&mut self, path: &str, bytes: &'a [u8]) -> Result<(), Stopped> {
        self.opened(InputError::Internal)?;
        let system = is_system(path);
        let members = match archive::members(bytes) {
            Ok(members) => members,
            Err(error) => return Err(self.bad_archive(path, &error)),
        };
        let folder = Path::new(path).parent().unwrap_or(Path::new(""));
        let mut without_code = 0;
        for member in members {
            let member = member.map_err(|error| self.bad_archive(path, &error))?;
            let member_name = String::from_utf8_lossy(member.name).into_owned();
            let name = format!("{path}:{member_name}");
            let bytes = match member.contents {
                archive::Contents::Here { data, .. } => data,
                archive::Contents::Elsewhere { .. } => {
                    let file = folder.join(&member_name);
                    let read = files::read(&file.to_string_lossy()).map_err(|error| {
                        self.fatal(InputError::Open(name.clone()), vec![error.to_string()])
                    })?;
                    &**self.store.alloc(read)
                }
            };
            let source = Source { name, member: true, system };
            if bytes.is_empty() {
                self.ignored(Ignored::Empty(source.name));
            } else {
                let before = self.found.without_code;
                self.content(source, bytes)?;
                without_code += usize::from(self.found.without_code != before);
            }
        }
        self.members_without_code(path, without_code);
        Ok(())
    }

    fn bad_archive(&mut self, path: &str, error: &culd_fatbin::Error) -> Stopped {
        let note = format!("in '{path}', {error}");
        self.fatal(InputError::NotArchive, vec![note]);
        self.fatal(InputError::Internal, Vec::new())
    }

    /// Tells how many members lack the target: nvlink does not.
    fn members_without_code(&mut self, path: &str, count: usize) {
        let quiet =
            self.options.flag(Id::SuppressArchWarning) || self.options.flag(Id::DisableInfos);
        if count != 0 && !quiet {
            let (file, arch) = (path.to_owned(), self.target.clone());
            self.ignored(Ignored::Members { file, arch, count });
        }
    }

    fn host(&mut self, source: Source, bytes: &'a [u8]) -> Result<(), Stopped> {
        self.opened(InputError::Internal)?;
        let object = match HostObject::parse(bytes) {
            Ok(object) => object.unwrap_or_default(),
            Err(error) => return Err(self.no_fatbin(source, Some(error))),
        };
        self.references(&object);
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
        self.modules(&source, &object);
        for section in &object.fatbins {
            self.fatbins(&source, section.data, InputError::Internal)?;
        }
        Ok(())
    }

    fn no_fatbin(&mut self, source: Source, error: Option<culd_fatbin::Error>) -> Stopped {
        let notes = error.into_iter().map(|error| error.to_string()).collect();
        self.fatal(InputError::NoFatbin(source.name), notes);
        self.fatal(InputError::Internal, Vec::new())
    }

    /// One image of each container in `bytes`; false when none of them has one.
    fn fatbins(
        &mut self,
        source: &Source,
        bytes: &'a [u8],
        stop: InputError,
    ) -> Result<bool, Stopped> {
        let mut taken = false;
        let mut any = false;
        for container in containers(bytes) {
            any = true;
            let entries = container.and_then(|container| container.entries().collect());
            let entries: Vec<Entry<'a>> = entries.map_err(|error| {
                self.fatal(InputError::NoFatbin(source.name.clone()), vec![error.to_string()]);
                self.fatal(stop.clone(), Vec::new())
            })?;
            taken |= self.container(source, entries)?;
        }
        if !any {
            self.fatal(InputError::NoFatbin(source.name.clone()), Vec::new());
            return Err(self.fatal(stop, Vec::new()));
        }
        Ok(taken)
    }

    /// Takes the best of `entries`.
    fn container(&mut self, source: &Source, entries: Vec<Entry<'a>>) -> Result<bool, Stopped> {
        let usable: Vec<(Entry<'a>, Offer)> =
            entries.into_iter().filter_map(|entry| Some((entry, offer(&entry)?))).collect();
        let offers: Vec<Offer> = usable.iter().map(|(_, offer)| *offer).collect();
        let suits = |offer: &&Offer| offer.suits(self.arch);
        let lto = offers.iter().filter(suits).any(|offer| offer.form == Form::Lto);
        if lto && self.options.lto() {
            return Err(self.fatal(InputError::LtoUnsupported(source.name.clone()), Vec::new()));
        }
        match choose(self.arch, &offers).and_then(|place| usable.get(place)) {
            Some((entry, offer)) => {
                let code = match offer.form {
                    Form::Ptx => Code::PackedPtx(*entry),
                    _ => Code::Packed(*entry),
                };
                self.piece(source.clone(), code, false);
                Ok(true)
            }
            None if lto => {
                Err(self.fatal(InputError::LtoFound, vec![format!("in '{}'", source.name)]))
            }
            None => {
                self.arch_not_found(source, &usable);
                Ok(false)
            }
        }
    }

    fn arch_not_found(&mut self, source: &Source, usable: &[(Entry<'a>, Offer)]) {
        self.found.without_code += 1;
        let archs: Vec<String> = usable.iter().map(|(entry, _)| describe(entry)).collect();
        for ((entry, _), arch) in usable.iter().zip(&archs) {
            let why = match entry.kind() {
                Kind::LtoIr => Unlinked::LtoIr,
                _ => Unlinked::OtherArch(arch.clone()),
            };
            self.unlinked(&source.name, why, *entry);
        }
        let quiet =
            self.options.flag(Id::SuppressArchWarning) || self.options.flag(Id::DisableInfos);
        if source.member || quiet {
            return;
        }
        let hint = hints::holds(&source.name, archs.iter().map(String::as_str));
        let (arch, file) = (self.target.clone(), source.name.clone());
        let notes = hint.iter().map(ToString::to_string).collect();
        self.warning(InputError::ArchNotFound { arch, file }, notes);
    }

    /// Remembers code that is not linked.
    fn unlinked(&mut self, file: &str, why: Unlinked, entry: Entry<'a>) {
        let read = move || Some(entry.data(MAX_UNPACKED).ok()?.into_owned());
        let cubin = (entry.kind() == Kind::Elf).then(|| Box::new(read) as Box<_>);
        self.found.elsewhere.push(Elsewhere { file: file.to_owned(), why, cubin });
    }

    /// After an error, nvlink ends at the next object, archive or fat binary that it opens.
    fn opened(&mut self, stop: InputError) -> Result<(), Stopped> {
        if self.failed { Err(self.fatal(stop, Vec::new())) } else { Ok(()) }
    }

    fn piece(&mut self, source: Source, code: Code<'a>, whole_file: bool) {
        let Source { name, system, .. } = source;
        self.events.push(Event::Piece(Piece { name, system, whole_file, code }));
    }

    /// Not every input tells what host code refers to.
    fn no_references(&mut self) {
        self.found.references = None;
    }

    /// Takes in the kernels that the host code of an object refers to.
    fn references(&mut self, object: &HostObject<'a>) {
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
                _ => continue,
            };
            list.extend(section.data.split(|&byte| byte == 0).filter(|name| !name.is_empty()));
        }
    }

    /// The modules of a host object for the register file.
    fn modules(&mut self, source: &Source, object: &HostObject<'a>) {
        if object.module_ids.is_empty() {
            return self.module_of_path(source);
        }
        let system = source.system;
        let ids = object.module_ids.iter();
        self.found.modules.extend(ids.map(|&id| Module { id: Cow::Borrowed(id), system }));
    }

    /// A module that is called by the path of its file, as it was given.
    fn module_of_path(&mut self, source: &Source) {
        use std::os::unix::ffi::OsStrExt;
        let mut path = match source.name.starts_with('/') {
            true => Vec::new(),
            false => {
                let folder = std::env::current_dir().unwrap_or_default();
                [folder.as_os_str().as_bytes(), b"/"].concat()
            }
        };
        path.extend_from_slice(source.name.as_bytes());
        let plain = |byte: &u8| if byte.is_ascii_alphanumeric() { *byte } else { b'_' };
        let id = Cow::Owned(path.iter().map(plain).collect());
        self.found.modules.push(Module { id, system: source.system });
    }
}

/// The name of NVIDIA's runtime library, of which only what is used is linked. nvlink looks for
/// `cudadevrt` anywhere in a path (docs/DIFFERENCES.md, system-library).
fn is_system(path: &str) -> bool {
    let name = base_name(path);
    name.strip_prefix("libcudadevrt").is_some_and(|rest| rest.ends_with(".a"))
}

/// What an entry offers; `None` for what nvlink passes over.
fn offer(entry: &Entry<'_>) -> Option<Offer> {
    let form = match entry.kind() {
        Kind::Elf => Form::Elf,
        Kind::Ptx => Form::Ptx,
        Kind::LtoIr => Form::Lto,
        Kind::Other(_) => return None,
    };
    let variant = match entry.variant() {
        container::Variant::Plain => Variant::Plain,
        container::Variant::Family => Variant::Family,
        container::Variant::Accelerated => Variant::Accelerated,
    };
    entry.has(flag::BITS_64).then(|| Offer { form, sm: entry.sm(), variant })
}

/// `sm_90a`, `compute_80 (PTX)`.
fn describe(entry: &Entry<'_>) -> String {
    let (sm, letter) = (entry.sm(), entry.variant().suffix());
    match entry.kind() {
        Kind::Ptx => format!("compute_{sm}{letter} (PTX)"),
        Kind::LtoIr => format!("lto_{sm}{letter} (LTO-IR)"),
        _ => format!("sm_{sm}{letter}"),
    }
}

/// All entries of the fat binaries in a section, as far as they can be read.
fn entries(bytes: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    containers(bytes)
        .map_while(Result::ok)
        .flat_map(|container: Container<'_>| container.entries().map_while(Result::ok))
}
