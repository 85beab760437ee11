//! `culd-diff`: two files, image by image.

use std::collections::BTreeMap;
use std::ffi::OsString;

use culd_fatbin::container::Unpacker;

use super::select::{Selection, WHICH};
use super::{MAX_IMAGE, Reader, Trouble, about_image, images_of};
use crate::diff::{self, DiffOptions};
use crate::images::{FileImages, StoredImage};
use crate::view::View;
use crate::{about, complain, print};

/// How `culd-diff` is used.
pub const DIFF_USAGE: &str = "\
usage: culd-diff [OPTION]... A B
Compare two cubins by the names of what is in them. A is the left side; \"missing\" is in A only.
A and B may also be PTX, executables, shared libraries, objects, archives, fat binaries and programs
for Windows: their images are compared, each with that of the same kind, architecture and number.
  --image WHICH  compare these only: a number of 'culd-dump --list', an architecture (sm_90), or a
                 part of the place; may be repeated
  --limit N      at most N lines of each group (default 20)
  --tool         compare the first record of .note.nv.tkinfo too: the one of the linker itself
  --version      print the version
exit status: 0 nothing differs, 1 something does, 2 trouble
";

struct DiffRequest {
    limit: usize,
    options: DiffOptions,
    which: Selection,
    files: [OsString; 2],
}

impl DiffRequest {
    /// `None` if the usage is asked for.
    fn of(words: &[OsString]) -> Result<Option<Self>, String> {
        let (mut limit, mut tool, mut files) = (20, false, Vec::new());
        let mut which = Selection::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match culd_text::name(word).as_str() {
                "-h" | "--help" => return Ok(None),
                "--tool" => tool = true,
                "--ignore-tool" => tool = false,
                "--limit" => {
                    let number = words.next();
                    let number = number.and_then(|number| number.to_str()?.parse().ok());
                    limit = number.ok_or("--limit needs a number")?;
                }
                "--image" => {
                    let word = words.next().ok_or_else(|| format!("--image needs {WHICH}"))?;
                    which.add(&culd_text::name(word));
                }
                option if option.starts_with('-') && option.len() > 1 => {
                    return Err(format!("unknown option '{option}'"));
                }
                _ => files.push(word.clone()),
            }
        }
        let count = files.len();
        let files = files.try_into().map_err(|_| format!("two files are needed, {count} given"))?;
        Ok(Some(DiffRequest { limit, options: DiffOptions { tool }, which, files }))
    }
}

/// Runs `culd-diff`; returns whether something differs.
///
/// # Errors
/// A line about the first trouble.
pub fn diff(words: &[OsString], read: Reader<'_>) -> Result<bool, Trouble> {
    let request = DiffRequest::of(words).map_err(|error| Trouble { error, usage: DIFF_USAGE })?;
    let Some(request) = request else {
        print(DIFF_USAGE)?;
        return Ok(false);
    };
    let [a, b] = &request.files;
    let (a_bytes, b_bytes) = (read(a)?, read(b)?);
    let (a_found, b_found) = (images_of(a, a_bytes, read), images_of(b, b_bytes, read));
    let is_bare = |found: &FileImages<'_>| {
        matches!(found.images[..], [ref one] if one.place.is_empty())
            || found.images.is_empty() && found.defects.is_empty()
    };
    // Bare PTX is compared as an image with that of the other file.
    let is_ptx = |found: &FileImages<'_>| found.images.iter().all(|one| one.kind() == "ptx");
    let none = a_found.images.is_empty() || b_found.images.is_empty();
    let both_ptx = !none && is_ptx(&a_found) && is_ptx(&b_found);
    if is_bare(&a_found) && is_bare(&b_found) && !both_ptx {
        return Ok(request.cubins(a_bytes, b_bytes, |file| about(file, ""))?);
    }
    for (file, found) in [(a, &a_found), (b, &b_found)] {
        if let Some(defect) = found.defects.first() {
            return Err(about(file, defect).into());
        }
    }
    request.images(&a_found, &b_found)
}

/// The pairs of images that are compared, by kind, target and number among those.
type Pairs<'f, 'd> = BTreeMap<(String, String, usize), [Option<&'f StoredImage<'d>>; 2]>;

fn pairs<'f, 'd>(sides: [Vec<(usize, &'f StoredImage<'d>)>; 2]) -> Pairs<'f, 'd> {
    let mut pairs = Pairs::new();
    for (side, images) in sides.into_iter().enumerate() {
        let mut numbers: BTreeMap<(String, String), usize> = BTreeMap::new();
        for (_, image) in images {
            let (kind, target) = (image.kind().into_owned(), image.target());
            let number = numbers.entry((kind.clone(), target.clone())).or_default();
            pairs.entry((kind, target, *number)).or_default()[side] = Some(image);
            *number += 1;
        }
    }
    pairs
}

impl DiffRequest {
    /// Compares two cubins that are whole files.
    fn cubins(
        &self,
        a: &[u8],
        b: &[u8],
        prefix: impl Fn(&OsString) -> String,
    ) -> Result<bool, String> {
        let [a_name, b_name] = &self.files;
        let failed = |name, error: culd_cubin::Malformed| format!("{}{error}", prefix(name));
        let a = View::parse(a).map_err(|error| failed(a_name, error))?;
        let b = View::parse(b).map_err(|error| failed(b_name, error))?;
        let difference = diff::compare(&a, &b, self.options);
        if difference.is_empty() && a.data != b.data {
            let note = "only the linkers' own tool records differ (--tool shows them)";
            complain("culd-diff", note, "");
        }
        let mut text = String::new();
        difference.write(&mut text, self.limit).map_err(|error| error.to_string())?;
        print(&text)?;
        Ok(!difference.is_empty())
    }

    fn images(&self, a: &FileImages<'_>, b: &FileImages<'_>) -> Result<bool, Trouble> {
        let [a_name, b_name] = &self.files;
        let chosen = |found, name| self.which.of(found).map_err(|error| about(name, error));
        let mut differs = false;
        for ((kind, target, number), pair) in pairs([chosen(a, a_name)?, chosen(b, b_name)?]) {
            let what = format!("{kind} {target} {number}");
            match pair {
                [Some(a), Some(b)] => {
                    if self.pair(&what, a, b)? {
                        differs = true;
                    }
                }
                [one, other] => {
                    differs = true;
                    let side = if one.is_some() { "missing" } else { "extra" };
                    let place = one.or(other).map_or("", |image| &image.place);
                    let line = format!("image.{side}  {what}  {place}");
                    print(&format!("{}\n", culd_text::escaped(line.trim_end())))?;
                }
            }
        }
        Ok(differs)
    }

    /// Compares two images; true if they differ.
    fn pair(&self, what: &str, a: &StoredImage<'_>, b: &StoredImage<'_>) -> Result<bool, String> {
        let [a_name, b_name] = &self.files;
        let mut unpacker = Unpacker::default();
        let a_bytes = a.unpack(&mut unpacker, MAX_IMAGE);
        let a_bytes = a_bytes.map_err(|error| about_image(a_name, a, error))?;
        let b_bytes = b.unpack(&mut unpacker, MAX_IMAGE);
        let b_bytes = b_bytes.map_err(|error| about_image(b_name, b, error))?;
        if a_bytes == b_bytes {
            return Ok(false);
        }
        let mut text = format!("image  {what}  {}\n", culd_text::escaped(&a.place));
        if a.kind() == "cubin" {
            let a_view = View::parse(&a_bytes).map_err(|error| about_image(a_name, a, error))?;
            let b_view = View::parse(&b_bytes).map_err(|error| about_image(b_name, b, error))?;
            let difference = diff::compare(&a_view, &b_view, self.options);
            if difference.is_empty() {
                return Ok(false);
            }
            difference.write(&mut text, self.limit).map_err(|error| error.to_string())?;
        } else {
            text.push_str(&format!("{} bytes != {} bytes\n", a_bytes.len(), b_bytes.len()));
            let same = a_bytes.iter().zip(&*b_bytes).take_while(|(a, b)| a == b).count();
            let line = a_bytes[..same].iter().filter(|&&byte| byte == b'\n').count() + 1;
            text.push_str(&format!("the first difference is in line {line}\n"));
        }
        print(&text)?;
        Ok(true)
    }
}
