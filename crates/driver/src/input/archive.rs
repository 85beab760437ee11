//! Archives, thin or not, and archives in them.

use std::path::{Path, PathBuf};

use culd_fatbin::{Format, archive, sniff};

use super::walk::Source;
use super::{Gather, Ignored, InputError, Stopped};
use crate::files;
use crate::options::Id;

/// How deep archives may lie in each other: a thin archive can name itself.
const MAX_DEPTH: usize = 16;

/// An archive being read.
pub(super) struct Archive<'s, 'a> {
    /// Its name in messages.
    pub(super) name: &'s str,
    /// Where members of a thin archive are looked for.
    pub(super) folder: PathBuf,
    pub(super) bytes: &'a [u8],
    pub(super) system: bool,
    /// Archives around it.
    pub(super) depth: usize,
}

impl<'s, 'a> Archive<'s, 'a> {
    /// The archive that is the file at `path`.
    pub(super) fn file(path: &'s str, bytes: &'a [u8], system: bool) -> Self {
        let folder = Path::new(path).parent().unwrap_or(Path::new("")).to_owned();
        Archive { name: path, folder, bytes, system, depth: 0 }
    }
}

impl<'a> Gather<'a, '_> {
    /// Links all members: there is no choice by what is undefined.
    pub(super) fn archive(&mut self, archive: &Archive<'_, 'a>) -> Result<(), Stopped> {
        self.opened(InputError::Internal)?;
        let bad = |error: &culd_fatbin::Error| format!("in '{}', {error}", archive.name);
        if archive.depth == MAX_DEPTH {
            return Err(self.bad_archive(format!("'{}' is too deep inside archives", archive.name)));
        }
        let members = match archive::members(archive.bytes) {
            Ok(members) => members,
            Err(error) => return Err(self.bad_archive(bad(&error))),
        };
        let mut without_code = 0;
        for member in members {
            let member = member.map_err(|error| self.bad_archive(bad(&error)))?;
            let before = self.found.without_code;
            self.member(archive, &member)?;
            without_code += usize::from(self.found.without_code != before);
        }
        self.members_without_code(archive.name, without_code);
        Ok(())
    }

    fn member(
        &mut self,
        archive: &Archive<'_, 'a>,
        member: &archive::Member<'a>,
    ) -> Result<(), Stopped> {
        let member_name = String::from_utf8_lossy(member.name);
        let name = format!("{}:{member_name}", archive.name);
        let mut folder = archive.folder.clone();
        let bytes = match member.contents {
            archive::Contents::Here { data, .. } => data,
            archive::Contents::Elsewhere { .. } => {
                let file = archive.folder.join(&*member_name);
                folder = file.parent().unwrap_or(Path::new("")).to_owned();
                let read = files::read(&file.to_string_lossy()).map_err(|error| {
                    self.fatal(InputError::Open(name.clone()), vec![error.to_string()])
                })?;
                &**self.store.alloc(read)
            }
        };
        let (system, depth) = (archive.system, archive.depth + 1);
        if bytes.is_empty() {
            self.ignored(Ignored::Empty(name));
            return Ok(());
        }
        if matches!(sniff(bytes), Format::Archive | Format::ThinArchive) {
            return self.archive(&Archive { name: &name, folder, bytes, system, depth });
        }
        self.content(Source { name, member: true, system }, bytes)
    }

    fn bad_archive(&mut self, note: String) -> Stopped {
        self.fatal(InputError::NotArchive, vec![note]);
        self.fatal(InputError::Internal, Vec::new())
    }

    /// Tells how many members lack the target: nvlink does not.
    fn members_without_code(&mut self, path: &str, count: usize) {
        let quiet =
            self.options.flag(Id::SuppressArchWarning) || self.options.flag(Id::DisableInfos);
        if count != 0 && !quiet {
            let (file, arch) = (path.to_owned(), self.target.name());
            self.ignored(Ignored::Members { file, arch, count });
        }
    }
}
