//! `culd size`: the device code in any program: which images, how large, which kernels.
//!
//! In: files: executables, shared libraries, objects, archives, fat binaries, cubins, programs for
//! Windows. Out: a report for each. Guaranteed: a file is mapped and not copied; at any time, each
//! thread has at most one unpacked image; damaged parts are reported and skipped.

use std::ffi::OsString;
use std::path::Path;

use culd_fatbin::container::{Encoding, FatbinEntry, ImageKind, Unpacker, containers};
use culd_fatbin::host::{HostObject, SectionData};
use culd_fatbin::{Format, archive, sniff};
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

/// How deep archives may lie in each other.
const MAX_DEPTH: usize = 16;

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
            Err(line) => return (text, RunOutcome::fatal_line(line)),
        }
    }
    let failed = lines.iter().any(|line| line.severity() >= Some(Severity::Error));
    (text, RunOutcome { status: if failed { u8::MAX } else { 0 }, lines })
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
        let bytes: &'static [u8] = store.alloc(bytes);
        let mut found = FileCode::default();
        let kind = found.file(bytes, "", 0);
        let session = Session::with_threads(self.threads);
        let detail = if self.report.is_some() { Detail::Functions } else { Detail::Totals };
        let images = found.read(&session, detail);
        let device = found.device_bytes;
        let file = File::new(name.clone(), kind, bytes.len() as u64, device);
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
        self.write(&report)?;
        Ok((self.text(&report), lines))
    }

    fn write(&self, report: &Report) -> Result<(), Line> {
        let Some(path) = &self.report else { return Ok(()) };
        let path = Path::new(path);
        let bytes = match path.extension().and_then(|ending| ending.to_str()) {
            Some("json") => report.to_json(),
            Some("html" | "htm") => report.to_page(),
            _ => report.to_text().into_bytes(),
        };
        output::write(path, &bytes).map_err(|error| FileError::output(path, &error))
    }

    fn text(&self, report: &Report) -> String {
        let mut text = report.to_text();
        let mut line = |line: String| {
            text.push_str(&culd_text::escaped(&line));
            text.push('\n');
        };
        if self.images {
            line("\nAll images".to_owned());
            for image in &report.images {
                let how = if image.compression.is_empty() { "none" } else { &image.compression };
                let (target, kernels) = (&image.target, image.kernels().count());
                line(format!(
                    "{} {target} {how} stored={} bytes={} kernels={kernels} {}",
                    image.kind, image.stored, image.bytes, image.place
                ));
            }
        }
        if self.kernels {
            line("\nAll kernels".to_owned());
            let shown = |number: Option<u32>| number.map_or("-".to_owned(), |n| n.to_string());
            for image in &report.images {
                for (_, function, kernel) in image.kernels() {
                    let banks = kernel
                        .constants
                        .iter()
                        .map(|(bank, size)| format!(" constant{bank}={size}"));
                    line(format!(
                        "{} registers={} stack={} barriers={} shared={}{} {}",
                        image.target,
                        shown(function.registers.total),
                        shown(function.stack.total),
                        shown(function.barriers.total),
                        kernel.shared,
                        banks.collect::<String>(),
                        function.name
                    ));
                }
            }
        }
        text
    }
}

/// The device code of a file.
#[derive(Default)]
struct FileCode<'a> {
    images: Vec<SizedCode<'a>>,
    /// Bytes of sections and files of device code.
    device_bytes: u64,
    /// The parts that cannot be read.
    defects: Vec<String>,
}

/// An image before it is looked into.
struct SizedCode<'a> {
    place: String,
    code: StoredCode<'a>,
}

enum StoredCode<'a> {
    Cubin(&'a [u8]),
    Ptx(&'a [u8]),
    LtoIr(&'a [u8]),
    Packed(FatbinEntry<'a>),
}

impl<'a> FileCode<'a> {
    /// Reads a file or member, which lies at `place` in archives; returns its kind.
    fn file(&mut self, bytes: &'a [u8], place: &str, depth: usize) -> &'static str {
        match sniff(bytes) {
            Format::Archive | Format::ThinArchive => self.archive(bytes, place, depth),
            Format::HostElf { relocatable } => {
                self.host(HostObject::parse(bytes), place);
                match (relocatable, bytes.get(16)) {
                    (true, _) => "object",
                    (_, Some(2)) => "executable",
                    _ => "shared library",
                }
            }
            Format::Coff => {
                self.host(HostObject::parse(bytes), place);
                "object for Windows"
            }
            Format::Fatbin => {
                self.device_bytes += bytes.len() as u64;
                self.fatbin(bytes, place);
                "fat binary"
            }
            Format::RelocatableCubin | Format::ExecutableCubin => {
                self.whole(place, StoredCode::Cubin(bytes), bytes);
                "cubin"
            }
            Format::Ptx => {
                self.whole(place, StoredCode::Ptx(bytes), bytes);
                "PTX text"
            }
            Format::LtoIr => {
                self.whole(place, StoredCode::LtoIr(bytes), bytes);
                "LTO-IR"
            }
            Format::Bitcode => "LLVM bitcode",
            Format::Unknown => match HostObject::parse_pe(bytes) {
                Ok(None) => "file of no known kind",
                object => {
                    self.host(object, place);
                    "program for Windows"
                }
            },
        }
    }

    fn whole(&mut self, place: &str, code: StoredCode<'a>, bytes: &[u8]) {
        self.device_bytes += bytes.len() as u64;
        self.images.push(SizedCode { place: place.to_owned(), code });
    }

    fn archive(&mut self, bytes: &'a [u8], place: &str, depth: usize) -> &'static str {
        const KIND: &str = "archive";
        if depth == MAX_DEPTH {
            self.defects.push(format!("'{place}' is too deep inside archives"));
            return KIND;
        }
        let defect = |place: &str, error: culd_fatbin::Error| format!("archive '{place}': {error}");
        let members = match archive::members(bytes) {
            Ok(members) => members,
            Err(error) => {
                self.defects.push(defect(place, error));
                return KIND;
            }
        };
        for member in members {
            match member {
                Ok(member) => {
                    let name = culd_text::bytes(member.name);
                    let inner = if place.is_empty() { name } else { format!("{place}:{name}") };
                    match member.contents {
                        archive::MemberContents::Here { data, .. } => {
                            _ = self.file(data, &inner, depth + 1)
                        }
                        archive::MemberContents::Elsewhere { .. } => {
                            self.defects
                                .push(format!("'{inner}' is not in the archive, which is thin"));
                        }
                    }
                }
                Err(error) => self.defects.push(defect(place, error)),
            }
        }
        KIND
    }

    fn host(&mut self, object: Result<Option<HostObject<'a>>, culd_fatbin::Error>, place: &str) {
        let object = match object {
            Ok(object) => object.unwrap_or_default(),
            Err(error) => return self.defects.push(format!("'{place}': {error}")),
        };
        let named =
            |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}:{name}") };
        let lists: [(&[SectionData<'a>], &str); 2] =
            [(&object.whole_programs, ".nv_fatbin"), (&object.fatbins, "__nv_relfatbin")];
        for (sections, name) in lists {
            for section in sections {
                self.device_bytes += section.data.len() as u64;
                self.fatbin(section.data, &named(name));
            }
        }
    }

    fn fatbin(&mut self, bytes: &'a [u8], place: &str) {
        for (number, container) in containers(bytes).enumerate() {
            let container = match container {
                Ok(container) => container,
                Err(error) => {
                    self.defects.push(format!("'{place}', fat binary {number}: {error}"));
                    return;
                }
            };
            for (entry_number, entry) in container.entries().enumerate() {
                let place = format!("{place}[{number}.{entry_number}]");
                match entry {
                    Ok(entry) => {
                        self.images.push(SizedCode { place, code: StoredCode::Packed(entry) })
                    }
                    Err(error) => self.defects.push(format!("'{place}': {error}")),
                }
            }
        }
    }

    /// Looks into all images.
    fn read(&self, session: &Session, detail: Detail) -> Vec<ReportImage> {
        let bytes = |code: &SizedCode<'_>| match &code.code {
            StoredCode::Packed(entry) => entry.size(),
            StoredCode::Cubin(bytes) | StoredCode::Ptx(bytes) | StoredCode::LtoIr(bytes) => {
                bytes.len() as u64
            }
        };
        let work = self.images.iter().map(bytes).sum::<u64>();
        let work = usize::try_from(work).unwrap_or(usize::MAX);
        session.map_with(self.images.len(), work, Unpacker::default, |unpacker, at| {
            self.images[at].read(unpacker, detail)
        })
    }
}

impl SizedCode<'_> {
    fn read(&self, unpacker: &mut Unpacker, detail: Detail) -> ReportImage {
        let place = self.place.clone();
        match &self.code {
            StoredCode::Cubin(bytes) => {
                let mut image = ReportImage::new(place, "cubin", target_of(bytes));
                image.stored = bytes.len() as u64;
                image.read(bytes, detail);
                image
            }
            StoredCode::Ptx(bytes) => bare(place, "ptx", bytes),
            StoredCode::LtoIr(bytes) => bare(place, "lto-ir", bytes),
            StoredCode::Packed(entry) => packed(place, entry, unpacker, detail),
        }
    }
}

fn bare(place: String, kind: &str, bytes: &[u8]) -> ReportImage {
    let mut image = ReportImage::new(place, kind, String::new());
    (image.stored, image.bytes) = (bytes.len() as u64, bytes.len() as u64);
    image
}

/// The target of a bare cubin.
fn target_of(bytes: &[u8]) -> String {
    culd_cubin::Cubin::parse(bytes).map_or_else(
        |_| String::new(),
        |cubin| {
            let accelerated = cubin.header.is_accelerated_of_cuda_12();
            format!("sm_{}{}", cubin.header.sm(), if accelerated { "a" } else { "" })
        },
    )
}

fn packed(
    place: String,
    entry: &FatbinEntry<'_>,
    unpacker: &mut Unpacker,
    detail: Detail,
) -> ReportImage {
    let (kind, prefix) = match entry.kind() {
        ImageKind::Elf => ("cubin".to_owned(), "sm"),
        ImageKind::Ptx => ("ptx".to_owned(), "compute"),
        ImageKind::LtoIr => ("lto-ir".to_owned(), "lto"),
        ImageKind::Other(number) => (format!("kind {number:#x}"), "sm"),
    };
    let mut image =
        ReportImage::new(place, kind, format!("{prefix}_{}{}", entry.sm(), entry.variant()));
    image.stored = entry.stored().len() as u64;
    image.bytes = entry.size();
    image.compression = match entry.encoding() {
        Encoding::Stored => "",
        Encoding::Lz4 => "lz4",
        Encoding::Zstd => "zstd",
        // LTO-IR in a form that only NVIDIA's linkers read.
        _ => "scrambled",
    }
    .to_owned();
    if entry.kind() == ImageKind::Elf {
        match unpacker.image(entry, MAX_IMAGE) {
            Ok(bytes) => image.read(&bytes, detail),
            Err(error) => image.defect = error.to_string(),
        }
    }
    image
}
