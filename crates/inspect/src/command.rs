//! The commands `culd-dump` and `culd-diff`, which culd has as `culd dump` and `culd diff`.
//!
//! In: words, and a function that reads a file. Out: text on standard output, files of extracted
//! images, exit status. Guaranteed: at any time one image of each file is unpacked; a damaged image
//! does not hide the others.

mod difference;
mod select;

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use culd_fatbin::container::Unpacker;
use thiserror::Error;

pub use self::difference::{DIFF_USAGE, diff};
use self::select::{Selection, WHICH};
use crate::images::{FileImages, ProgramFile, StoredImage};
use crate::text::{self, DumpOptions};
use crate::view::View;
use crate::{about, print};

/// Reads the file at a path.
pub type Reader<'r> = &'r dyn Fn(&OsString) -> Result<&'r [u8], String>;

/// The most bytes of one image when it is unpacked.
const MAX_IMAGE: u64 = 4 << 30;

/// How `culd-dump` is used.
pub const DUMP_USAGE: &str = "\
usage: culd-dump [OPTION]... FILE
Print a cubin as text: names instead of indices, one line per record (docs/TEXT-FORMAT.md). FILE may
also be an executable, shared library, object, archive, fat binary or program for Windows: of one
with several images, the images are listed, unless an option chooses.
  --list          list the images
  --image WHICH   print these only: a number of the list, an architecture (sm_90), or a part of the
                  place; may be repeated
  --all           print all images
  --extract DIR   write the images to files in the folder DIR instead
  --only NAME     print this section only, of the images that have it
  --summary       sizes instead of the contents of string tables, code and data
  --abi           where kernels have their parameters, prototypes, system calls and address classes
  --version       print the version
exit status: 0 done, 2 trouble
";

/// The end of a command without a result.
#[derive(Debug)]
pub struct Trouble {
    /// Why.
    pub error: String,
    /// The usage, if that was wrong.
    pub usage: &'static str,
}

impl From<String> for Trouble {
    fn from(error: String) -> Self {
        Trouble { error, usage: "" }
    }
}

/// The request of the command line.
#[derive(Default)]
struct DumpRequest {
    options: DumpOptions,
    /// Interfaces instead of the text form.
    abi: bool,
    list: bool,
    all: bool,
    extract: Option<OsString>,
    which: Selection,
    files: Vec<OsString>,
}

impl DumpRequest {
    /// `None` if the usage is asked for.
    fn of(words: &[OsString]) -> Result<Option<Self>, String> {
        let mut request = DumpRequest::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let shown = culd_text::name(word);
            let mut value = |what| words.next().ok_or(format!("{shown} needs {what}"));
            match shown.as_str() {
                "-h" | "--help" => return Ok(None),
                "--abi" => request.abi = true,
                "--summary" => request.options.summary = true,
                "--list" => request.list = true,
                "--all" => request.all = true,
                "--only" => request.options.only = Some(culd_text::name(value("a name")?)),
                "--image" => request.which.add(&culd_text::name(value(WHICH)?)),
                "--extract" => request.extract = Some(value("a folder")?.clone()),
                option if option.starts_with('-') && option.len() > 1 => {
                    return Err(format!("unknown option '{option}'"));
                }
                _ => request.files.push(word.clone()),
            }
        }
        match request.files.len() {
            1 => Ok(Some(request)),
            count => Err(format!("one file is needed, {count} given")),
        }
    }
}

/// Runs `culd-dump`.
///
/// # Errors
/// A line about the first trouble; other images are shown nevertheless.
pub fn dump(words: &[OsString], read: Reader<'_>) -> Result<(), Trouble> {
    let request = DumpRequest::of(words).map_err(|error| Trouble { error, usage: DUMP_USAGE })?;
    let Some(request) = request else { return Ok(print(DUMP_USAGE)?) };
    let [file] = &request.files[..] else { return Ok(()) };
    let bytes = read(file)?;
    let found = images_of(file, bytes, read);
    if found.images.is_empty() && found.defects.is_empty() {
        // Its parser says what is wrong with the file as a cubin.
        request.cubin(bytes).map_err(|error| about(file, error))?;
        return Err(about(file, "no device code").into());
    }
    let chosen = request.which.of(&found).map_err(|error| about(file, error))?;
    let several = found.images.len() > 1 || !found.defects.is_empty();
    let mut first = None;
    let mut note = |error| first = first.take().or(Some(error));
    if let Some(folder) = &request.extract {
        for image in &chosen {
            let written = extract(image, Path::new(folder));
            written.unwrap_or_else(|error| note(about_image(file, image.1, error)));
        }
    } else if request.list || several && !request.all && request.which.is_empty() {
        print(&list(&found, &chosen))?;
    } else {
        let mut blank = "";
        for image in &chosen {
            let text = match request.text_of(image.1) {
                // Of several images, those that have the section are shown.
                Err(NotShown::NoSection(_)) if several => continue,
                text => text,
            };
            if several {
                print(&format!("{blank}image {}\n", row(image)))?;
                blank = "\n";
            }
            match text {
                Ok(text) => print(&text)?,
                Err(error) => note(about_image(file, image.1, error)),
            }
        }
        if several && blank.is_empty() && !chosen.is_empty() {
            let only = request.options.only.as_deref().unwrap_or_default();
            note(about(file, NotShown::NoSection(only.to_owned())));
        }
    }
    let defect = found.defects.first().map(|defect| about(file, defect));
    match first.or(defect) {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// The device code of a file; `read` reads what a thin archive names.
fn images_of<'r>(file: &OsString, bytes: &'r [u8], read: Reader<'r>) -> FileImages<'r> {
    let open = |path: &Path| read(&path.as_os_str().to_owned());
    FileImages::of(ProgramFile { bytes, path: Path::new(file), open: &open })
}

/// Why an image is not shown.
#[derive(Debug, Error)]
enum NotShown {
    #[error("no section '{0}'")]
    NoSection(String),
    #[error("{0}")]
    Malformed(String),
}

/// A line about an image of a file.
fn about_image(file: &OsString, image: &StoredImage<'_>, error: impl ToString) -> String {
    let error = error.to_string();
    match image.place.as_str() {
        "" => about(file, error),
        place => about(file, format!("{place}: {error}")),
    }
}

impl DumpRequest {
    fn text_of(&self, image: &StoredImage<'_>) -> Result<String, NotShown> {
        let unpacked = image.unpack(&mut Unpacker::default(), MAX_IMAGE);
        let bytes = unpacked.map_err(|error| NotShown::Malformed(error.to_string()))?;
        match (image.kind().as_ref(), &self.options.only) {
            ("cubin", _) => self.cubin(&bytes),
            // Only cubins have sections.
            (_, Some(only)) => Err(NotShown::NoSection(only.clone())),
            ("ptx", None) => {
                let text = culd_cubin::text_of(&bytes);
                let lines = text.lines().map(|line| {
                    let line = line.replace('\t', "    ");
                    culd_text::escaped(&line).into_owned() + "\n"
                });
                Ok(lines.collect())
            }
            (kind, None) => Ok(format!("{} bytes of {kind}\n", bytes.len())),
        }
    }

    fn cubin(&self, bytes: &[u8]) -> Result<String, NotShown> {
        let view = View::parse(bytes).map_err(|error| NotShown::Malformed(error.to_string()))?;
        if self.abi {
            return Ok(crate::abi::describe(&view));
        }
        let only = self.options.only.as_ref();
        match only.filter(|only| !view.sections.contains(only)) {
            Some(only) => Err(NotShown::NoSection(only.clone())),
            None => Ok(text::dump(&view, &self.options)),
        }
    }
}

/// A line of the list: number, kind, target, compression, bytes in the file, unpacked, place.
fn row((number, image): &(usize, &StoredImage<'_>)) -> String {
    let how = if image.compression().is_empty() { "-" } else { image.compression() };
    let line = format!(
        "{number} {} {} {how} stored={} bytes={} {}",
        image.kind(),
        if image.target().is_empty() { "-".to_owned() } else { image.target() },
        image.stored(),
        image.size(),
        image.place
    );
    culd_text::escaped(line.trim_end()).into_owned()
}

fn list(found: &FileImages<'_>, chosen: &[(usize, &StoredImage<'_>)]) -> String {
    let mut text = format!("{}, {} bytes of device code\n", found.kind, found.device_bytes);
    for image in chosen {
        text.push_str(&row(image));
        text.push('\n');
    }
    text
}

/// Writes an image to a file of its own. The name has the number, the architecture and the kind,
/// nothing of the file's own names: those may lead out of the folder.
fn extract((number, image): &(usize, &StoredImage<'_>), folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", culd_text::name(folder)))?;
    let bytes = image.unpack(&mut Unpacker::default(), MAX_IMAGE).map_err(|e| e.to_string())?;
    let ending = match image.kind().as_ref() {
        "cubin" => "cubin",
        "ptx" => "ptx",
        "lto-ir" => "ltoir",
        _ => "bin",
    };
    let target = image.target();
    let middle = if target.is_empty() { String::new() } else { format!("{target}.") };
    let path = folder.join(format!("{number}.{middle}{ending}"));
    fs::write(&path, &bytes).map_err(|error| format!("{}: {error}", culd_text::name(&path)))?;
    print(&format!("{}\n", culd_text::escaped(&culd_text::name(&path))))
}
