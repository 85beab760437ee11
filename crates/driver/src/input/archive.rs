//! Archives, thin or not, and archives in them.

use culd_text::os::OsStrExt;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use culd_fatbin::{archive, sniff};

use super::walk::InputSource;
use super::{Gatherer, InputStop};
use crate::messages::{Ignored, InputError};
use crate::options::OptionId;
use crate::os::files::{self, Identity, Kinds};

/// The limit of archives in archives.
pub(super) const MAX_DEPTH: usize = 16;

/// The number of ignored members of an archive that have a line each. Lines take more memory than
/// members.
pub(super) const MAX_REPORTED: usize = 16;

/// An archive being read.
pub(super) struct ArchiveReader<'s, 'a> {
    /// Its name in messages.
    pub(super) name: &'s str,
    /// The name as bytes.
    path: &'s [u8],
    /// The folder in which members of a thin archive are opened.
    pub(super) folder: PathBuf,
    pub(super) bytes: &'a [u8],
    pub(super) system: bool,
    /// Archives around it.
    depth: usize,
    /// The files that it and the archives around it are: a thin archive can name itself.
    files: Vec<Identity>,
}

impl<'s, 'a> ArchiveReader<'s, 'a> {
    /// An archive in memory: members of a thin one are opened in the working folder.
    pub(super) fn bytes(name: &'s str, bytes: &'a [u8], system: bool) -> Self {
        let path = name.as_bytes();
        ArchiveReader {
            name,
            path,
            folder: PathBuf::new(),
            bytes,
            system,
            depth: 0,
            files: Vec::new(),
        }
    }

    /// The archive that is the file at `path`.
    pub(super) fn file(
        name: &'s str,
        path: &'s Path,
        bytes: &'a [u8],
        identity: Identity,
        system: bool,
    ) -> Self {
        let (folder, path) = (folder_of(path), path.as_os_str().as_bytes());
        ArchiveReader { name, path, folder, bytes, system, depth: 0, files: vec![identity] }
    }
}

impl<'a> Gatherer<'a, '_> {
    /// Links all members, whether or not anything needs them.
    pub(super) fn archive(&mut self, archive: &ArchiveReader<'_, 'a>) -> Result<(), InputStop> {
        self.opened(InputError::Internal)?;
        let bad = |error: &culd_fatbin::Error| format!("in '{}', {error}", archive.name);
        if archive.depth == MAX_DEPTH {
            return Err(self.bad_archive(format!("'{}' is too deep inside archives", archive.name)));
        }
        let members = match archive::members(archive.bytes) {
            Ok(members) => members,
            Err(error) => return Err(self.bad_archive(bad(&error))),
        };
        self.found.archives.push(archive.name.to_owned());
        let mut without_code = 0;
        let outer = self.members_ignored.replace(0);
        for member in members {
            let member = member.map_err(|error| self.bad_archive(bad(&error)))?;
            let before = self.found.without_code;
            self.member(archive, &member)?;
            without_code += usize::from(self.found.without_code != before);
            if self.options.reads_like_jit && without_code != 0 {
                break;
            }
        }
        let ignored = std::mem::replace(&mut self.members_ignored, outer).unwrap_or_default();
        self.others_ignored(archive.name, ignored.saturating_sub(MAX_REPORTED));
        self.members_without_code(archive, without_code);
        Ok(())
    }

    fn member(
        &mut self,
        archive: &ArchiveReader<'_, 'a>,
        member: &archive::Member<'a>,
    ) -> Result<(), InputStop> {
        let name = format!("{}:{}", archive.name, culd_text::bytes(member.name));
        let path = [archive.path, b":", member.name].concat();
        let (bytes, file) = match member.contents {
            archive::MemberContents::Here { data, .. } => (data, None),
            archive::MemberContents::Elsewhere { .. } => {
                let place = archive.folder.join(OsStr::from_bytes(member.name));
                let (bytes, identity) = self.thin_member(&place).map_err(|error| {
                    self.fatal(InputError::Open(name.clone()), vec![error.to_string()])
                })?;
                (bytes, Some((place, identity)))
            }
        };
        if sniff(bytes).is_archive() {
            return self.inner_archive(archive, &name, &path, bytes, file);
        }
        if bytes.is_empty() {
            self.ignored(Ignored::Empty(name));
            return Ok(());
        }
        self.content(InputSource { name, path, member: true, system: archive.system }, bytes)
    }

    /// Links an archive in `outer`; `file` is its path if `outer` is thin.
    fn inner_archive(
        &mut self,
        outer: &ArchiveReader<'_, 'a>,
        name: &str,
        path: &[u8],
        bytes: &'a [u8],
        file: Option<(PathBuf, Identity)>,
    ) -> Result<(), InputStop> {
        let (mut folder, mut files) = (outer.folder.clone(), outer.files.clone());
        if let Some((place, identity)) = file {
            if files.contains(&identity) {
                return Err(self.bad_archive(format!("'{name}' is inside itself")));
            }
            if !self.first_time(identity) {
                return Ok(());
            }
            folder = folder_of(&place);
            files.push(identity);
        }
        let (system, depth) = (outer.system, outer.depth + 1);
        self.archive(&ArchiveReader { name, path, folder, bytes, system, depth, files })
    }

    /// A file that a thin archive names. It is read once, however often it is named.
    pub(super) fn thin_member(&mut self, path: &Path) -> io::Result<(&'a [u8], Identity)> {
        let identity = files::identity(self.sources.store.place(path))?;
        if let Some(bytes) = self.thin_members.get(&identity) {
            return Ok((bytes, identity));
        }
        let (bytes, identity) = self.sources.open(path, Kinds::Files)?;
        self.thin_members.insert(identity, bytes);
        self.found.files.push(path.to_owned());
        Ok((bytes, identity))
    }

    fn bad_archive(&mut self, note: String) -> InputStop {
        self.fatal(InputError::NotArchive, vec![note]);
        self.fatal(InputError::Internal, Vec::new())
    }

    /// Reports the number of ignored members that have no line.
    fn others_ignored(&mut self, path: &str, count: usize) {
        if count != 0 {
            self.ignored(Ignored::Others { file: path.to_owned(), count });
        }
    }

    /// Reports how many members lack the target, for the command with `--strict` only. Without it
    /// the message about an undefined symbol names the member that would have defined it.
    fn members_without_code(&mut self, archive: &ArchiveReader<'_, 'a>, count: usize) {
        let strict = self.options.flag(OptionId::Strict) && !archive.system;
        let wanted = strict || self.options.reads_like_jit;
        if count != 0 && wanted && self.warns_of_missing_code() {
            let (file, arch) = (archive.name.to_owned(), self.target.name());
            self.ignored(Ignored::Members { file, arch, count });
        }
    }
}

pub(super) fn folder_of(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).to_owned()
}
