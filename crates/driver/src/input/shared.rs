//! What the links of one program for several targets share: files that are open, and objects that
//! are taken apart.
//!
//! In: the inputs of all links. Out: [`SharedInputs`]. Guaranteed: no decisions and no messages are
//! made here. Unreadable and damaged files are missing, so each link reports them in its own order.

use culd_text::os::OsStrExt;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use culd_fatbin::archive::{self, MemberContents};
use culd_fatbin::container::containers;
use culd_fatbin::host::HostObject;
use culd_fatbin::{Error, Format, sniff};
use culd_link::Session;

use super::archive::{MAX_DEPTH, folder_of};
use super::library::{is_library, path_in};
use super::{Content, InputItem, Sources, Store};
use crate::options::{CommandOptions, OptionId};
use crate::os::files::{Identity, Kinds};

/// Files that are open, and objects that are taken apart.
#[derive(Default)]
pub(crate) struct SharedInputs<'f> {
    files: HashMap<PathBuf, (&'f [u8], Identity)>,
    /// By the address of their first byte.
    objects: HashMap<usize, HostObject<'f>>,
    /// `e_machine` of the first object.
    machine: Option<u16>,
    /// Unpacked bytes of the images for one SM number, at most.
    largest_link: u64,
}

/// Host objects that are to be taken apart, in the order of the inputs.
#[derive(Default)]
struct HostObjectQueue<'f> {
    objects: Vec<&'f [u8]>,
    bytes: usize,
    /// Thin archives can name a file many times.
    seen: HashSet<usize>,
}

impl<'f> SharedInputs<'f> {
    /// Opens `items` and the libraries that `options` name.
    pub(crate) fn open(
        options: &CommandOptions,
        items: &'f [InputItem<'f>],
        store: &'f Store,
        session: &Session,
    ) -> Self {
        let mut shared = SharedInputs::default();
        let mut found = HostObjectQueue::default();
        let paths: Vec<Option<&Path>> = items.iter().map(InputItem::file_path).collect();
        let mut loaded = store.read_ahead(&paths, session).into_iter();
        for item in items {
            let loaded = loaded.next().flatten();
            match &item.content {
                Content::Bytes(bytes) => shared.look_into(bytes, Path::new(""), store, &mut found),
                Content::File(path) => {
                    let read = || store.read(path, Kinds::Any);
                    let read = loaded.map_or_else(read, |loaded| Ok(store.keep(loaded)));
                    if let Ok((bytes, identity)) = read {
                        let bytes = &**store.alloc(bytes);
                        shared.files.insert(path.clone(), (bytes, identity));
                        shared.look_into(bytes, &folder_of(path), store, &mut found);
                    }
                }
            }
        }
        for name in options.list(OptionId::Library) {
            shared.library(options, name, store, &mut found);
        }
        shared.take_apart(found, session);
        shared
    }

    fn library(
        &mut self,
        options: &CommandOptions,
        name: &OsStr,
        store: &'f Store,
        found: &mut HostObjectQueue<'f>,
    ) {
        for folder in options.list(OptionId::LibraryPath) {
            let path = path_in(folder, name, b".a");
            let Some(bytes) = self.file(&path, store) else { continue };
            if is_library(bytes) {
                self.look_into(bytes, &folder_of(&path), store, found);
                return;
            }
        }
    }

    /// A regular file that an input names.
    fn file(&mut self, path: &Path, store: &'f Store) -> Option<&'f [u8]> {
        if let Some((bytes, _)) = self.files.get(path) {
            return Some(bytes);
        }
        let (bytes, identity) = store.read(path, Kinds::Files).ok()?;
        let bytes = &**store.alloc(bytes);
        self.files.insert(path.to_owned(), (bytes, identity));
        Some(bytes)
    }

    /// Finds the objects in `bytes`, a file in `folder`.
    fn look_into(
        &mut self,
        bytes: &'f [u8],
        folder: &Path,
        store: &'f Store,
        found: &mut HostObjectQueue<'f>,
    ) {
        let mut open = vec![(bytes, 0)];
        while let Some((bytes, depth)) = open.pop() {
            match sniff(bytes) {
                Format::HostElf { relocatable: true }
                    if found.seen.insert(bytes.as_ptr().addr()) =>
                {
                    self.machine = self.machine.or_else(|| machine(bytes));
                    found.bytes += bytes.len();
                    found.objects.push(bytes);
                }
                Format::Archive | Format::ThinArchive if depth < MAX_DEPTH => {
                    let members = archive::members(bytes).into_iter().flatten();
                    let before = open.len();
                    for member in members.map_while(Result::ok) {
                        let data = match member.contents {
                            MemberContents::Here { data, .. } => Some(data),
                            // The members of an archive in another folder are there.
                            MemberContents::Elsewhere { .. } if depth == 0 => {
                                self.file(&folder.join(OsStr::from_bytes(member.name)), store)
                            }
                            MemberContents::Elsewhere { .. } => None,
                        };
                        open.extend(data.map(|data| (data, depth + 1)));
                    }
                    // The last is looked at first.
                    open[before..].reverse();
                }
                _ => {}
            }
        }
    }

    fn take_apart(&mut self, found: HostObjectQueue<'f>, session: &Session) {
        let HostObjectQueue { objects, bytes, .. } = found;
        let parsed =
            session.map(objects.len(), bytes, |place| HostObject::parse(objects[place]).ok());
        for (bytes, object) in objects.into_iter().zip(parsed) {
            if let Some(object) = object.flatten() {
                self.objects.insert(bytes.as_ptr().addr(), object);
            }
        }
        self.largest_link = largest_link(self.objects.values());
    }

    /// Unpacked bytes of the images for one SM number, at most: about what the largest link reads.
    pub(crate) fn largest_link(&self) -> u64 {
        self.largest_link
    }

    /// The bytes of the file at `path`, if it could be opened.
    pub(crate) fn bytes(&self, path: &Path) -> Option<&'f [u8]> {
        self.files.get(path).map(|(bytes, _)| *bytes)
    }

    /// `e_machine` of the first host object.
    pub(crate) fn machine(&self) -> Option<u16> {
        self.machine
    }
}

/// Sizes are those that the headers name, damaged or not: only the number of links at once depends
/// on them.
fn largest_link<'o, 'f: 'o>(objects: impl Iterator<Item = &'o HostObject<'f>>) -> u64 {
    let mut sizes: HashMap<u32, u64> = HashMap::new();
    for section in objects.flat_map(|object| &object.fatbins) {
        let containers = containers(section.data).map_while(Result::ok);
        let entries = containers.flat_map(|container| container.entries().map_while(Result::ok));
        for entry in entries {
            let size = sizes.entry(entry.sm()).or_default();
            *size = size.saturating_add(entry.size());
        }
    }
    sizes.into_values().max().unwrap_or_default()
}

/// `e_machine` of an ELF file.
fn machine(bytes: &[u8]) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(18..20)?.try_into().ok()?))
}

impl<'a> Sources<'a> {
    /// The bytes of the file at `path`, which is one of `kinds`, and which file it is.
    pub(super) fn open(
        &self,
        path: impl AsRef<Path>,
        kinds: Kinds,
    ) -> io::Result<(&'a [u8], Identity)> {
        let path = path.as_ref();
        if let Some(file) = self.shared.and_then(|shared| shared.files.get(path)) {
            return Ok(*file);
        }
        let (bytes, identity) = self.store.read(path, kinds)?;
        Ok((&**self.store.alloc(bytes), identity))
    }

    /// The parts of a host object.
    pub(super) fn host_object(&self, bytes: &'a [u8]) -> Result<Option<HostObject<'a>>, Error> {
        let known = self.shared.and_then(|shared| shared.objects.get(&bytes.as_ptr().addr()));
        known.map_or_else(|| HostObject::parse(bytes), |object| Ok(Some(object.clone())))
    }
}
