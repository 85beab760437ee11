//! `culd size`: the device code in any program: which images, how large, which kernels.
//!
//! In: files: executables, shared libraries, objects, archives, fat binaries, cubins, programs for
//! Windows. Out: a report for each. Guaranteed: a file is mapped and not copied; at any time, each
//! thread has at most one unpacked image; damaged parts are reported and skipped.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use culd_fatbin::container::Unpacker;
use culd_inspect::images::{FileImages, StoredImage};
use culd_link::{Session, Severity};
use culd_report::{Detail, File, Report, ReportImage};

use super::{refused, value_of};
use crate::messages::{FileError, Line, RunOutcome};
use crate::os::files::{Kinds, Store};
use crate::os::output;

const USAGE: &str = "\
usage: culd size [options] FILE...
Show the device code in executables, shared libraries, objects, archives, fat binaries, cubins and
programs for Windows: images with architecture, kind, compression and bytes; kernels with registers,
stack, shared memory and occupancy.
  --report FILE   write the report to FILE: .json data, .html a page, .txt text (docs/REPORT.md)
  --images        list all images, not only the largest
  --kernels       list all kernels with what they use
  --threads N     use N threads; 0, the default, takes one per core
";

/// The most bytes of one image when it is unpacked.
const MAX_IMAGE: u64 = 4 << 30;

/// Runs the command; `words` stand behind its name.
pub(crate) fn size(words: &[OsString]) -> (String, RunOutcome) {
    let asked = match SizeRequest::of(words) {
        Ok(asked) => asked,
        Err(answer) => return answer,
    };
    let (mut text, mut lines) = (String::new(), Vec::new());
    for path in &asked.files {
        match asked.one(Path::new(path)) {
            Ok((table, mut said)) => {
                text.push_str(&table);
                lines.append(&mut said);
            }
            Err(line) => {
                lines.push(line);
                break;
            }
        }
    }
    let status = match lines.iter().filter_map(Line::severity).max() {
        Some(Severity::Fatal) => 1,
        Some(Severity::Error) => u8::MAX,
        _ => 0,
    };
    (text, RunOutcome { status, lines })
}

/// The request of the command line.
#[derive(Default)]
struct SizeRequest {
    files: Vec<OsString>,
    report: Option<OsString>,
    images: bool,
    kernels: bool,
    threads: usize,
}

impl SizeRequest {
    fn of(words: &[OsString]) -> Result<Self, (String, RunOutcome)> {
        let mut asked = SizeRequest::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            if word == "-h" || word == "--help" {
                return Err((USAGE.to_owned(), RunOutcome::success()));
            }
            if let Some(value) = value_of("--report", word, &mut rest) {
                asked.report = value.map(OsString::from);
                let ending = asked.report.as_ref().and_then(|path| Path::new(path).extension());
                if !ending.is_some_and(|ending| {
                    ["json", "html", "htm", "txt"].iter().any(|one| ending == *one)
                }) {
                    return Err(refused("size: the report is a file .json, .html or .txt"));
                }
            } else if let Some(value) = value_of("--threads", word, &mut rest) {
                let number = value.and_then(|value| value.to_str()?.parse().ok());
                let number = number.ok_or_else(|| refused("size: --threads takes a number"))?;
                asked.threads = usize::min(number, crate::threads::most_threads());
            } else if word == "--images" {
                asked.images = true;
            } else if word == "--kernels" {
                asked.kernels = true;
            } else if word.as_encoded_bytes().starts_with(b"-") && word.len() > 1 {
                let option = culd_text::name(word);
                return Err(refused(format!("size: unknown option '{option}'")));
            } else {
                asked.files.push(word.clone());
            }
        }
        match asked.files.len() {
            0 => Err(refused("size: name a file")),
            2.. if asked.report.is_some() => Err(refused("size: a report is of one file")),
            _ => Ok(asked),
        }
    }

    fn one(&self, path: &Path) -> Result<(String, Vec<Line>), Line> {
        let name = culd_text::name(path);
        let unreadable = |error: std::io::Error| {
            let text = format!("Could not open input file '{name}'");
            Line::new(Severity::Fatal, text).with_notes(vec![error.to_string()])
        };
        // The process ends soon, which gives the file back.
        let store: &'static Store = Box::leak(Box::new(Store::mapping()));
        let (bytes, _) = store.read(path, Kinds::Any).map_err(unreadable)?;
        if let Some(path) = self.report.as_ref().map(Path::new).filter(|path| store.has_read(path))
        {
            return Err(FileError::input_at(path, "report"));
        }
        let bytes: &'static [u8] = store.alloc(bytes);
        let found = FileImages::of(bytes);
        let session = Session::with_threads(self.threads);
        let (images, kernels) = self.read(&found, &session);
        let device = found.device_bytes;
        let file = File::new(name.clone(), found.kind, bytes.len() as u64, device);
        let report = Report::of_program(file, images);
        let mut lines: Vec<Line> =
            found.defects.into_iter().map(|text| Line::new(Severity::Warning, text)).collect();
        for image in report.images.iter().filter(|image| !image.defect.is_empty()) {
            let text =
                format!("Image '{}' of '{name}' cannot be read: {}", image.place, image.defect);
            lines.push(Line::new(Severity::Warning, text));
        }
        if report.images.is_empty() {
            let text = format!("'{name}' has no device code that is known");
            lines.push(Line::new(Severity::Warning, text));
        }
        self.write(&session, &report)?;
        let text = self.text(&report, &kernels);
        if self.files.len() == 1 {
            // The process ends soon, which is faster than to free each row.
            std::mem::forget((report, kernels));
        }
        Ok((text, lines))
    }

    /// Looks into all images, the largest first, so that no thread is left alone with one at the
    /// end, and into one of those that are stored alike: an eighth of libnppif is copies. Returns
    /// them in the order of the file, each with the lines of its kernels.
    fn read(&self, found: &FileImages<'_>, session: &Session) -> (Vec<ReportImage>, Vec<String>) {
        let images = &found.images;
        let mut order: Vec<usize> = (0..images.len()).collect();
        let key = |place: usize| images.get(place).map(|image| (image.size(), image.packed()));
        order.sort_by(|&one, &other| key(other).cmp(&key(one)));
        let alike = |one: &usize, other: &usize| images[*one].is_copy_of(&images[*other]);
        let runs: Vec<&[usize]> = order.chunk_by(alike).collect();
        let sizes = runs.iter().filter_map(|run| Some(images.get(*run.first()?)?.size()));
        let work = usize::try_from(sizes.fold(0, u64::saturating_add)).unwrap_or(usize::MAX);
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(images.len())));
        session.lanes(session.most_lanes().min(runs.len()), work, || {
            let (mut unpacker, mut own) = (Unpacker::default(), Vec::new());
            while let Some([first, copies @ ..]) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (image, lines) = self.image(&images[*first], &mut unpacker);
                for &place in copies {
                    let copy = copy(&image, &images[place]);
                    let lines = self.lines(&copy);
                    own.push((place, copy, lines));
                }
                own.push((*first, image, lines));
            }
            done.lock().unwrap_or_else(PoisonError::into_inner).append(&mut own);
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_unstable_by_key(|one| one.0);
        done.into_iter().map(|(_, image, lines)| (image, lines)).unzip()
    }

    /// The image, and the lines of its kernels if they are asked for.
    fn image(&self, stored: &StoredImage<'_>, unpacker: &mut Unpacker) -> (ReportImage, String) {
        let detail = if self.report.is_some() { Detail::Functions } else { Detail::Totals };
        let image = image(stored, unpacker, detail);
        let lines = self.lines(&image);
        (image, lines)
    }

    fn lines(&self, image: &ReportImage) -> String {
        if self.kernels { kernel_lines(image) } else { String::new() }
    }

    fn write(&self, session: &Session, report: &Report) -> Result<(), Line> {
        let Some(path) = &self.report else { return Ok(()) };
        let path = Path::new(path);
        let written = match path.extension().and_then(|ending| ending.to_str()) {
            Some("json") => output::write_pieces(path, report.to_json_in(session).iter()),
            Some("html" | "htm") => output::write(path, &report.to_page_in(session)),
            _ => output::write(path, report.to_text().as_bytes()),
        };
        written.map_err(|error| FileError::output(path, &error))
    }

    fn text(&self, report: &Report, kernels: &[String]) -> String {
        let mut text = report.to_text();
        if self.images {
            text.push_str("\nAll images\n");
            report.images.iter().for_each(|image| image_line(image, &mut text));
        }
        if self.kernels {
            text.push_str("\nAll kernels\n");
            text.reserve_exact(kernels.iter().map(String::len).sum());
            kernels.iter().for_each(|lines| text.push_str(lines));
        }
        text
    }
}

/// Appends the line of `--images`.
fn image_line(image: &ReportImage, text: &mut String) {
    let how = if image.compression.is_empty() { "none" } else { &image.compression };
    let line = format!(
        "{} {} {how} stored={} bytes={} kernels={} {}",
        image.kind,
        image.target,
        image.stored,
        image.bytes,
        image.kernels().count(),
        image.place
    );
    text.push_str(&culd_text::escaped(&line));
    text.push('\n');
}

/// The lines of `--kernels`.
fn kernel_lines(image: &ReportImage) -> String {
    let target = culd_text::escaped(&image.target);
    let mut text = String::new();
    // A library has tens of thousands of lines.
    let need = |text: &mut String, name: &str, number: Option<u32>| {
        text.push_str(name);
        match number {
            Some(number) => push_number(text, number.into()),
            None => text.push('-'),
        }
    };
    let rows = image.kernels();
    text.reserve_exact(rows.map(|(_, function, _)| function.name.len() + LINE).sum());
    for (_, function, kernel) in image.kernels() {
        text.push_str(&target);
        need(&mut text, " registers=", function.registers.total);
        need(&mut text, " stack=", function.stack.total);
        need(&mut text, " barriers=", function.barriers.total);
        text.push_str(" shared=");
        push_number(&mut text, kernel.shared);
        for &(bank, size) in &kernel.constants {
            text.push_str(" constant");
            push_number(&mut text, bank.into());
            text.push('=');
            push_number(&mut text, size);
        }
        text.push(' ');
        text.push_str(&culd_text::escaped(&function.name));
        text.push('\n');
    }
    text
}

/// Bytes of a usual line of a kernel, without its name.
const LINE: usize = 80;

/// Appends the digits of `number`.
fn push_number(text: &mut String, number: u64) {
    if number >= 10 {
        push_number(text, number / 10);
    }
    text.push(char::from(b'0' + (number % 10) as u8));
}

/// The image `stored`, of which the same is stored as of `image`.
fn copy(image: &ReportImage, stored: &StoredImage<'_>) -> ReportImage {
    let mut copy = image.clone();
    (copy.place, copy.target) = (stored.place.clone(), stored.target());
    copy
}

fn image(stored: &StoredImage<'_>, unpacker: &mut Unpacker, detail: Detail) -> ReportImage {
    let kind = stored.kind();
    let is_cubin = kind == "cubin";
    let mut image = ReportImage::new(stored.place.clone(), kind, stored.target());
    image.stored = stored.stored();
    image.bytes = stored.size();
    image.compression = stored.compression().to_owned();
    if is_cubin {
        match stored.unpack(unpacker, MAX_IMAGE) {
            Ok(bytes) => {
                image.read(&bytes, detail);
                unpacker.reuse(bytes);
            }
            Err(error) => image.defect = error.to_string(),
        }
    }
    image
}
