//! `culd size`: the device code in any program: which images, how large, which kernels.
//!
//! In: files: executables, shared libraries, objects, archives, fat binaries, cubins, programs for
//! Windows. Out: a report for each. Guaranteed: a file is mapped and not copied; at any time, each
//! thread has at most one unpacked image; without a report, of an image only its lines and what the
//! text shows stay in memory; damaged parts are reported and skipped.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use culd_fatbin::container::Unpacker;
use culd_inspect::images::{FileImages, ProgramFile, StoredImage};
use culd_link::{Session, Severity};
use culd_report::{Detail, File, KernelRow, Report, ReportImage, RowCounts};

use super::{refused, value_of};
use crate::messages::{FileError, Line, Product, RunOutcome};
use crate::os::files::{Kinds, Store};
use crate::os::{heap, output};

const USAGE: &str = "\
usage: culd size [options] FILE...
Show the device code in executables, shared libraries, objects, archives, fat binaries, cubins and
programs for Windows: images with architecture, kind, compression and bytes; kernels with registers,
stack, shared memory and occupancy.
  --report FILE   write the report to FILE: .json data, .html a page, .txt text (docs/REPORT.md);
                  may be repeated
  --images        list all images, not only the largest
  --kernels       list all kernels with what they use
  --threads N     use N threads; 0, the default, takes one per core
";

/// The most bytes of one image when it is unpacked.
const MAX_IMAGE: u64 = 4 << 30;

/// Runs the command; `words` stand behind its name.
pub(crate) fn size(words: &[OsString]) -> (Product, RunOutcome) {
    let asked = match SizeRequest::of(words) {
        Ok(asked) => asked,
        Err((text, outcome)) => return (text.into(), outcome),
    };
    let session = Session::with_threads(asked.threads).growing_heaps(heap::grow);
    let (mut product, mut lines) = (Product::default(), Vec::new());
    for path in &asked.files {
        match asked.one(Path::new(path), &session, &mut product) {
            Ok(mut said) => lines.append(&mut said),
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
    (product, RunOutcome { status, lines })
}

/// What is known of an image, and the lines of its kernels.
struct SizedImage {
    image: ReportImage,
    counts: RowCounts,
    lines: Vec<u8>,
}

/// The request of the command line.
#[derive(Default)]
struct SizeRequest {
    files: Vec<OsString>,
    reports: Vec<OsString>,
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
                let report = value.map(OsString::from).unwrap_or_default();
                let ending = Path::new(&report).extension();
                if !ending.is_some_and(|ending| {
                    ["json", "html", "htm", "txt"].iter().any(|one| ending == *one)
                }) {
                    return Err(refused("size: the report is a file .json, .html or .txt"));
                }
                asked.reports.push(report);
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
            2.. if !asked.reports.is_empty() => Err(refused("size: a report is of one file")),
            _ => Ok(asked),
        }
    }

    /// Appends what is printed about a file to `product`; returns what is wrong with the file.
    fn one(
        &self,
        path: &Path,
        session: &Session,
        product: &mut Product,
    ) -> Result<Vec<Line>, Line> {
        let name = culd_text::name(path);
        let unreadable = |error: std::io::Error| {
            let text = format!("Could not open input file '{name}'");
            Line::new(Severity::Fatal, text).with_notes(vec![error.to_string()])
        };
        // The process ends soon, which gives the file back.
        let store: &'static Store = Box::leak(Box::new(Store::mapping()));
        let (bytes, _) = store.read(path, Kinds::Any).map_err(unreadable)?;
        let bytes: &'static [u8] = store.alloc(bytes);
        let open = |path: &Path| {
            let read = store.read(path, Kinds::Files).map(|(bytes, _)| &**store.alloc(bytes));
            read.map_err(|error| error.to_string())
        };
        let mut found = FileImages::without_data(ProgramFile { bytes, path, open: &open });
        if let Some(path) = self.reports.iter().map(Path::new).find(|path| store.has_read(path)) {
            return Err(FileError::input_at(path, "report"));
        }
        let (mut images, more) = self.read(&found, session);
        found.device_bytes += more.device_bytes;
        found.defects.extend(more.defects.iter().cloned());
        images.extend(self.read(&more, session).0);
        let counts: Vec<RowCounts> = images.iter().map(|image| image.counts).collect();
        let (images, kernels): (Vec<ReportImage>, Vec<Vec<u8>>) =
            images.into_iter().map(|image| (image.image, image.lines)).unzip();
        let device = found.device_bytes;
        let file = File::new(name.clone(), found.kind, bytes.len() as u64, device);
        let report = Report::of_program(file, images);
        let warning = |text: String| Line::new(Severity::Warning, text);
        let defects = found.defects.iter();
        let mut lines: Vec<Line> =
            defects.map(|defect| warning(format!("'{name}': {defect}"))).collect();
        for image in report.images.iter().filter(|image| !image.defect.is_empty()) {
            let of = match image.place.as_str() {
                "" => format!("'{name}'"),
                place => format!("Image '{place}' of '{name}'"),
            };
            lines.push(warning(format!("{of} cannot be read: {}", image.defect)));
        }
        if report.images.is_empty() {
            let text = format!("'{name}' has no device code that is known");
            lines.push(Line::new(Severity::Warning, text));
        }
        self.write(session, &report)?;
        product.push(report.to_text_of(&counts).into());
        if self.images {
            let mut text = String::from("\nAll images\n");
            let rows = report.images.iter().zip(&counts);
            rows.for_each(|(image, counts)| image_line(image, counts, &mut text));
            product.push(text.into());
        }
        if self.kernels {
            product.push(b"\nAll kernels\n".to_vec());
            kernels.into_iter().for_each(|lines| product.push(lines));
        }
        if self.files.len() == 1 {
            // The process ends soon, which is faster than to free each row.
            std::mem::forget(report);
        }
        Ok(lines)
    }

    /// Looks into all images, the largest first, so that no thread is left alone with one at the
    /// end, and into one of those that are stored alike: an eighth of libnppif is copies. Returns
    /// them in the order of the file, and the images among data, which one thread looks for
    /// meanwhile.
    fn read<'a>(
        &self,
        found: &FileImages<'a>,
        session: &Session,
    ) -> (Vec<SizedImage>, FileImages<'a>) {
        let images = &found.images;
        let mut order: Vec<usize> = (0..images.len()).collect();
        let key = |place: usize| images.get(place).map(|image| (image.size(), image.packed()));
        order.sort_by(|&one, &other| key(other).cmp(&key(one)));
        let alike = |one: &usize, other: &usize| images[*one].is_copy_of(&images[*other]);
        let runs: Vec<&[usize]> = order.chunk_by(alike).collect();
        let sizes = runs.iter().filter_map(|run| Some(images.get(*run.first()?)?.size()));
        let work = usize::try_from(sizes.fold(0, u64::saturating_add)).unwrap_or(usize::MAX);
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(images.len())));
        let more = OnceLock::new();
        let searched = AtomicBool::new(false);
        session.lanes(session.most_lanes().min(runs.len()), work, || {
            if !searched.swap(true, Ordering::Relaxed) {
                more.get_or_init(|| found.among_data());
            }
            let (mut unpacker, mut own) = (Unpacker::default(), Vec::new());
            while let Some([first, copies @ ..]) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let image = self.image(&images[*first], &mut unpacker);
                own.extend(copies.iter().map(|&place| (place, image.copy(&images[place]))));
                own.push((*first, image));
            }
            done.lock().unwrap_or_else(PoisonError::into_inner).append(&mut own);
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_unstable_by_key(|one| one.0);
        let read = done.into_iter().map(|(_, image)| image).collect();
        (read, more.into_inner().unwrap_or_default())
    }

    fn image(&self, stored: &StoredImage<'_>, unpacker: &mut Unpacker) -> SizedImage {
        let kind = stored.kind();
        let is_cubin = kind == "cubin";
        let mut image = ReportImage::new(stored.place.clone(), kind, stored.target());
        image.stored = stored.stored();
        image.bytes = stored.size();
        image.compression = stored.compression().to_owned();
        let (mut counts, mut lines) = (RowCounts::default(), Vec::new());
        if is_cubin {
            match stored.unpack(unpacker, MAX_IMAGE) {
                Ok(bytes) => {
                    (counts, lines) = self.cubin(&bytes, &mut image);
                    unpacker.reuse(bytes);
                }
                Err(error) => image.defect = error.to_string(),
            }
        }
        SizedImage { image, counts, lines }
    }

    /// Reads the cubin `bytes`: all rows for a report, else those of the text.
    fn cubin(&self, bytes: &[u8], image: &mut ReportImage) -> (RowCounts, Vec<u8>) {
        let target = image.target.clone();
        if !self.reports.is_empty() {
            image.read(bytes, Detail::Functions);
            let kernels = image.kernels().filter(|_| self.kernels);
            let rows = kernels.map(|(_, function, kernel)| {
                let name = function.name.as_bytes();
                KernelRow { name, function, kernel }
            });
            let rows: Vec<KernelRow<'_>> = rows.collect();
            return (RowCounts::of(image), kernel_lines(&target, &rows));
        }
        let mut lines = Vec::new();
        let counts = image.read_shown(bytes, |rows| {
            if self.kernels {
                lines = kernel_lines(&target, rows);
            }
        });
        (counts, lines)
    }

    fn write(&self, session: &Session, report: &Report) -> Result<(), Line> {
        for path in self.reports.iter().map(Path::new) {
            let written = match path.extension().and_then(|ending| ending.to_str()) {
                Some("json") => output::write_pieces(path, report.to_json_in(session).iter()),
                Some("html" | "htm") => output::write(path, &report.to_page_in(session)),
                _ => output::write(path, report.to_text().as_bytes()),
            };
            written.map_err(|error| FileError::output(path, &error))?;
        }
        Ok(())
    }
}

/// Appends the line of `--images`.
fn image_line(image: &ReportImage, counts: &RowCounts, text: &mut String) {
    let how = if image.compression.is_empty() { "none" } else { &image.compression };
    let line = format!(
        "{} {} {how} stored={} bytes={} kernels={} {}",
        image.kind, image.target, image.stored, image.bytes, counts.kernels, image.place
    );
    text.push_str(&culd_text::escaped(&line));
    text.push('\n');
}

/// The lines of `--kernels`. Names become text here: an image without report has no others.
fn kernel_lines(target: &str, rows: &[KernelRow<'_>]) -> Vec<u8> {
    let target = culd_text::escaped(target);
    let mut text = Vec::new();
    // A library has tens of thousands of lines.
    let need = |text: &mut Vec<u8>, name: &[u8], number: Option<u32>| {
        text.extend_from_slice(name);
        match number {
            Some(number) => push_number(text, number.into()),
            None => text.push(b'-'),
        }
    };
    text.reserve_exact(rows.iter().map(|row| row.name.len() + LINE).sum());
    for KernelRow { name, function, kernel } in rows {
        text.extend_from_slice(target.as_bytes());
        need(&mut text, b" registers=", function.registers.total);
        need(&mut text, b" stack=", function.stack.total);
        need(&mut text, b" barriers=", function.barriers.total);
        text.extend_from_slice(b" shared=");
        push_number(&mut text, kernel.shared);
        for &(bank, size) in &kernel.constants {
            text.extend_from_slice(b" constant");
            push_number(&mut text, bank.into());
            text.push(b'=');
            push_number(&mut text, size);
        }
        text.push(b' ');
        culd_text::push_escaped(&mut text, name);
        text.push(b'\n');
    }
    text
}

/// Bytes of a usual line of a kernel, without its name.
const LINE: usize = 80;

/// Appends the digits of `number`.
fn push_number(text: &mut Vec<u8>, number: u64) {
    if number >= 10 {
        push_number(text, number / 10);
    }
    text.push(b'0' + (number % 10) as u8);
}

impl SizedImage {
    /// The image `stored`, of which the same is stored as of this one.
    fn copy(&self, stored: &StoredImage<'_>) -> SizedImage {
        let mut copy = self.with_target(stored.target());
        copy.image.place = stored.place.clone();
        copy
    }

    /// The same for another target, with which each line of a kernel begins.
    fn with_target(&self, target: String) -> SizedImage {
        let [old, new] = [&self.image.target, &target].map(|target| culd_text::escaped(target));
        let mut lines = Vec::with_capacity(self.lines.len());
        for line in self.lines.split_inclusive(|&byte| byte == b'\n') {
            lines.extend_from_slice(new.as_bytes());
            lines.extend_from_slice(line.get(old.len()..).unwrap_or_default());
        }
        let mut image = self.image.clone();
        image.target = target;
        SizedImage { image, counts: self.counts, lines }
    }
}

#[cfg(test)]
mod tests {
    use culd_report::{ReportFunction, ReportKernel};

    use super::*;

    #[test]
    fn a_copy_for_another_target_has_its_name_in_each_line() {
        let (function, kernel) = (&ReportFunction::default(), &ReportKernel::default());
        let rows = [&b"sm_90"[..], b"caf\xe9\n", b"k"];
        let rows = rows.map(|name| KernelRow { name, function, kernel });
        let lines = |target: &str| kernel_lines(target, &rows);
        let lines_of = |target: &str, wanted: &str| {
            let image = ReportImage::new(String::new(), "cubin", target.to_owned());
            let own = SizedImage { image, counts: RowCounts::default(), lines: lines(target) };
            own.with_target(wanted.to_owned()).lines
        };
        assert_eq!(lines("sm_90").iter().filter(|&&byte| byte == b'\n').count(), 3);
        for (own, other) in [("sm_90", "sm_90"), ("sm_90", "sm_120a"), ("sm_120", "a\nb")] {
            assert_eq!(lines_of(own, other), lines(other));
        }
    }
}
