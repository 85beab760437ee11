//! The members of an archive: GNU, BSD or COFF, thin or not.
//!
//! In: the bytes of an archive. Out: its members in order. Guaranteed: symbol tables and tables of
//! names are not members; a member's bytes lie in the archive; after an error the iterator ends. A
//! member that is an archive itself is a member like any other.

use crate::error::Error;
use object::archive::{MAGIC, THIN_MAGIC};
use object::read::archive::{ArchiveFile, ArchiveMember, ArchiveMemberIterator};
use std::iter::FusedIterator;

/// Names of the archiver's own members. They stand in front of the others, except in files of
/// careless tools.
const SPECIAL: &[&[u8]] = &[
    b"/",
    b"//",
    b"/SYM64/",
    b"/<ECSYMBOLS>/",
    b"__.SYMDEF",
    b"__.SYMDEF SORTED",
    b"__.SYMDEF_64",
    b"__.SYMDEF_64 SORTED",
];

/// One file in an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its name; in a thin archive the path from the archive's folder, or an absolute one.
    pub name: &'a [u8],
    /// Its contents.
    pub contents: MemberContents<'a>,
}

/// The place of a member's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberContents<'a> {
    /// In the archive.
    Here {
        /// Offset of the first byte in the archive.
        offset: u64,
        /// The bytes.
        data: &'a [u8],
    },
    /// In the file that the name names, which the caller opens.
    Elsewhere {
        /// Bytes of that file when the archive was made.
        size: u64,
    },
}

/// The members of the archive `data`.
///
/// ```
/// let archive = b"!<arch>\nhello.txt/      0           0     0     644     3         `\nhi\n\n";
/// let members: Vec<_> = culd_fatbin::archive::members(archive)?.collect::<Result<_, _>>()?;
/// assert_eq!(members[0].name, b"hello.txt");
/// # Ok::<(), culd_fatbin::Error>(())
/// ```
///
/// # Errors
/// Not an archive, or damaged in front of the first member.
pub fn members(data: &[u8]) -> Result<Members<'_>, Error> {
    if !data.starts_with(&MAGIC) && !data.starts_with(&THIN_MAGIC) {
        return Err(Error::new(0, "not an archive"));
    }
    let at = MAGIC.len();
    let file = ArchiveFile::parse(data).map_err(|error| Error::new(at, error.to_string()))?;
    Ok(Members { data, thin: file.is_thin(), inner: file.members(), at: at as u64 })
}

/// Iterator over the members of an archive, made by [`members`].
#[derive(Debug)]
pub struct Members<'a> {
    data: &'a [u8],
    thin: bool,
    inner: ArchiveMemberIterator<'a>,
    /// The end of the bytes read so far, for errors.
    at: u64,
}

impl<'a> Members<'a> {
    /// True for a thin archive.
    pub fn is_thin(&self) -> bool {
        self.thin
    }

    fn member(&mut self, member: &ArchiveMember<'a>) -> Result<Member<'a>, Error> {
        let name = member.name();
        if self.thin {
            self.at += size_of::<object::archive::Header>() as u64;
            return Ok(Member {
                name,
                contents: MemberContents::Elsewhere { size: member.size() },
            });
        }
        let (offset, size) = member.file_range();
        let data = member.data(self.data).map_err(|_| {
            let left = (self.data.len() as u64).saturating_sub(offset);
            let what = format!("member '{}' of {size} bytes, {left} are left", name.escape_ascii());
            Error { offset, what: what.into() }
        })?;
        self.at = offset + size;
        Ok(Member { name, contents: MemberContents::Here { offset, data } })
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Result<Member<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let member = match self.inner.next()? {
                Ok(member) => self.member(&member),
                Err(error) => Err(Error { offset: self.at, what: error.to_string().into() }),
            };
            if member.as_ref().is_ok_and(|member| SPECIAL.contains(&member.name)) {
                continue;
            }
            return Some(member);
        }
    }
}

impl FusedIterator for Members<'_> {}
