//! The inputs of a link, unread.
//!
//! In: paths and bytes. Out: [`InputItem`]s.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use culd_fatbin::Format;

use crate::messages::InputError;

/// An input of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputItem<'i> {
    /// Its name in messages; of a file, its path as text.
    pub name: String,
    /// Its kind.
    pub kind: InputKind,
    /// Its bytes, or their place.
    pub content: Content<'i>,
}

/// The bytes of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content<'i> {
    /// In the file at this path, which is read when the link begins.
    File(PathBuf),
    /// Here.
    Bytes(Cow<'i, [u8]>),
}

/// The kind of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum InputKind {
    /// By the name, as on the command line; if the name does not say, by the content.
    Named,
    /// By the content.
    #[default]
    Any,
    /// A relocatable cubin.
    Cubin,
    /// PTX text, which the user's ptxas compiles.
    Ptx,
    /// LTO-IR.
    LtoIr,
    /// A fat binary.
    Fatbin,
    /// An object for the host with device code in it.
    Object,
    /// An archive of objects.
    Library,
}

impl<'i> InputItem<'i> {
    /// A file as the command line takes it.
    pub fn named(path: impl AsRef<Path>) -> Self {
        InputItem::file(path, InputKind::Named)
    }

    /// A file of this kind.
    pub fn file(path: impl AsRef<Path>, kind: InputKind) -> Self {
        let path = path.as_ref();
        InputItem { name: culd_text::name(path), kind, content: Content::File(path.to_owned()) }
    }

    /// Bytes with the name `name` in messages.
    pub fn bytes(
        name: impl Into<String>,
        kind: InputKind,
        bytes: impl Into<Cow<'i, [u8]>>,
    ) -> Self {
        // The name of a file on the command line decides its kind; the name of bytes does not.
        let kind = if kind == InputKind::Named { InputKind::Any } else { kind };
        InputItem { name: name.into(), kind, content: Content::Bytes(bytes.into()) }
    }

    /// The path of the file that holds its bytes.
    pub(super) fn file_path(&self) -> Option<&Path> {
        match &self.content {
            Content::File(path) => Some(path),
            Content::Bytes(_) => None,
        }
    }

    /// Its path; of bytes, their name.
    pub fn path(&self) -> &OsStr {
        match &self.content {
            Content::File(path) => path.as_os_str(),
            Content::Bytes(_) => OsStr::new(&self.name),
        }
    }
}

impl InputKind {
    /// True if contents of the format `found` can be of this kind.
    pub fn takes(self, found: Format) -> bool {
        use Format as F;
        match self {
            InputKind::Named | InputKind::Any => true,
            InputKind::Cubin => matches!(found, F::RelocatableCubin | F::ExecutableCubin),
            InputKind::Ptx => found == F::Ptx,
            InputKind::LtoIr => found == F::LtoIr,
            InputKind::Fatbin => found == F::Fatbin,
            InputKind::Object => matches!(found, F::HostElf { .. } | F::Coff),
            InputKind::Library => matches!(found, F::Archive | F::ThinArchive),
        }
    }

    /// The error for contents of another kind; `None` if the kind is right.
    pub(super) fn mismatch(self, name: &str, found: Format) -> Option<InputError> {
        let error = || InputError::WrongKind {
            name: name.to_owned(),
            wanted: self.words(),
            found: words(found),
        };
        (!self.takes(found)).then(error)
    }

    fn words(self) -> &'static str {
        match self {
            InputKind::Named | InputKind::Any => "anything",
            InputKind::Cubin => "a cubin",
            InputKind::Ptx => "PTX text",
            InputKind::LtoIr => "LTO-IR",
            InputKind::Fatbin => "a fat binary",
            InputKind::Object => "a host object",
            InputKind::Library => "an archive",
        }
    }
}

fn words(found: Format) -> &'static str {
    match found {
        Format::RelocatableCubin => "a cubin",
        Format::ExecutableCubin => "a linked cubin",
        Format::Ptx => "PTX text",
        Format::LtoIr => "LTO-IR",
        Format::Fatbin => "a fat binary",
        Format::HostElf { .. } | Format::Coff => "a host object",
        Format::Archive | Format::ThinArchive => "an archive",
        Format::Bitcode => "LLVM bitcode",
        Format::Unknown => "of no known kind",
    }
}
