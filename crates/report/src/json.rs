//! The JSON form of a report.
//!
//! In: a [`Report`], or JSON. Out: the other. Guaranteed: one line without blanks, with all
//! characters of names that end a line or a script escaped; the same for any number of threads;
//! JSON of another schema is an error.

use std::fmt;
use std::io;
use std::ops::Range;

use culd_link::Session;
use serde::{Serialize, Serializer};
use thiserror::Error;

use crate::data::{
    File, Report, ReportCopies, ReportFunction, ReportImage, ReportInput, ReportLimits, ReportLink,
    ReportMessage, ReportOccupancy, ReportPrototype, ReportRelocations, ReportRemoval,
    ReportSection, ReportSectionKind, ReportVariable, SCHEMA,
};
use crate::json_text;
use crate::link::{AccountRows, LinkedCode, ReportedLink, producer};
use crate::row_text;

/// The number of rows that a thread takes at once to write them.
const SHARE: usize = 1024;

/// The number of shares that the threads write before the next ones. Of 57 shares of a link of
/// 1,000 files, few wait for others.
const BATCH: usize = 16;

/// Bytes that rows of sections, functions and variables have, more or less.
const ROW_BYTES: [usize; 3] = [40, 192, 112];

/// Error: the text is not a report.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BadReport {
    /// The text is not JSON, or not of this form.
    #[error("it is no report: {0}")]
    Json(#[from] serde_json::Error),
    /// It is of another schema.
    #[error("its schema is '{0}', not '{SCHEMA}'")]
    Schema(String),
}

/// The JSON form of a report, in pieces that follow each other: as one, it would be copied.
#[derive(Debug, Default)]
pub struct JsonPieces(Vec<Vec<u8>>);

impl JsonPieces {
    /// The pieces.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }

    /// The whole.
    pub fn to_vec(&self) -> Vec<u8> {
        self.0.concat()
    }
}

impl Report {
    /// The JSON form, docs/REPORT.md.
    pub fn to_json(&self) -> Vec<u8> {
        self.to_json_in(&Session::serial()).to_vec()
    }

    /// The JSON form, by the threads of a session.
    pub fn to_json_in(&self, session: &Session) -> JsonPieces {
        let images = match &self.images[..] {
            [image] => ImageParts::of(image, image, session).map(|image| vec![image]),
            images => {
                let work = images.iter().map(json_bytes).sum();
                let serial = Session::serial();
                let parts = session.map(images.len(), work, |place| {
                    ImageParts::of(&images[place], &images[place], &serial)
                });
                parts.into_iter().collect()
            }
        };
        let form = |images| ReportForm {
            schema: &self.schema,
            producer: &self.producer,
            link: self.link.as_ref(),
            file: self.file.as_ref(),
            inputs: &self.inputs,
            removed: &self.removed,
            copies: &self.copies,
            messages: &self.messages,
            images,
        };
        // A report is lists, numbers and strings: nothing in it has no JSON form.
        images.and_then(|images| pieces(images, form)).unwrap_or_default()
    }
    /// Reads a report from its JSON form.
    ///
    /// # Errors
    /// The text is not a report, or one of another schema.
    pub fn from_json(json: &[u8]) -> Result<Self, BadReport> {
        #[derive(serde::Deserialize)]
        struct Head {
            #[serde(default)]
            schema: String,
        }
        let head: Head = serde_json::from_slice(json)?;
        if head.schema != SCHEMA {
            return Err(BadReport::Schema(head.schema));
        }
        Ok(serde_json::from_slice(json)?)
    }
}

impl ReportedLink<'_> {
    /// The JSON form of the report, without the report.
    pub fn to_json_in(&self, session: &Session) -> JsonPieces {
        let mut pieces = Vec::new();
        let kept = self.write_json(session, |piece| {
            pieces.push(piece.to_vec());
            Ok(())
        });
        // Memory takes all that is written to it.
        kept.map(|()| JsonPieces(pieces)).unwrap_or_default()
    }

    /// Hands the JSON form of the report to `sink`, piece by piece in order. Neither its rows nor
    /// its text are in memory as a whole: fresh memory costs more than the letters in it.
    ///
    /// # Errors
    /// Those of `sink`.
    pub fn write_json(
        &self,
        session: &Session,
        mut sink: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let LinkedCode::Account(account) = self.code else {
            let report = Report::of_link(self.clone());
            return report.to_json_in(session).iter().try_for_each(sink);
        };
        let rows = AccountRows::of(self, account);
        let image = rows.image_without_rows();
        let (removed, copies) = (rows.removed(), rows.copies());
        let (link, producer) = (self.report_link(), producer());
        let form = ReportForm {
            schema: SCHEMA,
            producer: &producer,
            link: Some(&link),
            file: None,
            inputs: &self.inputs,
            removed: &removed,
            copies: &copies,
            messages: &self.messages,
            images: vec![Written],
        };
        let mut text = Vec::new();
        json_text::write(&mut text, &form).map_err(io::Error::other)?;
        let mut around = text.split(|&byte| byte == json_text::GAP);
        sink(around.next().unwrap_or_default())?;
        let image = ImageText::of(&image, &rows).map_err(io::Error::other)?;
        let mut inside = image.text.split(|&byte| byte == json_text::GAP);
        sink(inside.next().unwrap_or_default())?;
        let bytes = json_bytes(&rows);
        if !session.has_threads(bytes) {
            let mut json = Vec::new();
            for share in &image.shares {
                let len = rows.write(share.list, share.range.clone(), &mut json);
                let behind = inside.next().unwrap_or_default();
                let end = len + behind.len();
                json.resize(json.len().max(end), 0);
                json[len..end].copy_from_slice(behind);
                sink(&json[..end])?;
            }
            return sink(around.next().unwrap_or_default());
        }
        for shares in image.shares.chunks(BATCH) {
            let work = bytes * shares.len() / image.shares.len();
            let parts = session.map(shares.len(), work, |at| shares[at].write(&rows));
            for mut part in parts {
                part.extend_from_slice(inside.next().unwrap_or_default());
                sink(&part)?;
            }
        }
        sink(around.next().unwrap_or_default())
    }
}

/// A report whose images are written already. The fields are those of [`Report`].
#[derive(Serialize)]
struct ReportForm<'a> {
    schema: &'a str,
    producer: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<&'a ReportLink>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a File>,
    #[serde(skip_serializing_if = "<[ReportInput]>::is_empty")]
    inputs: &'a [ReportInput],
    images: Vec<Written>,
    #[serde(skip_serializing_if = "<[ReportRemoval]>::is_empty")]
    removed: &'a [ReportRemoval],
    #[serde(skip_serializing_if = "<[ReportCopies]>::is_empty")]
    copies: &'a [ReportCopies],
    #[serde(skip_serializing_if = "<[ReportMessage]>::is_empty")]
    messages: &'a [ReportMessage],
}

/// The text around the parts, and the parts in their places.
fn pieces<'a>(
    images: Vec<ImageParts>,
    form: impl FnOnce(Vec<Written>) -> ReportForm<'a>,
) -> Result<JsonPieces, fmt::Error> {
    let mut text = Vec::new();
    json_text::write(&mut text, &form(images.iter().map(|_| Written).collect()))?;
    let mut pieces = Vec::new();
    let mut images = images.into_iter();
    let mut around = text.split(|&byte| byte == json_text::GAP);
    pieces.extend(around.next().map(<[u8]>::to_vec));
    for around in around {
        let ImageParts { text, parts } = images.next().ok_or(fmt::Error)?;
        let mut parts = parts.into_iter();
        let mut inside = text.split(|&byte| byte == json_text::GAP);
        pieces.extend(inside.next().map(<[u8]>::to_vec));
        for inside in inside {
            pieces.push(parts.next().ok_or(fmt::Error)?);
            pieces.push(inside.to_vec());
        }
        pieces.push(around.to_vec());
    }
    Ok(JsonPieces(pieces))
}

/// A value that is written already: a gap, into which it goes.
struct Written;

impl Serialize for Written {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&[])
    }
}

/// A long list of an image.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImageList {
    Sections,
    Functions,
    Variables,
}

const LISTS: [ImageList; 3] = [ImageList::Sections, ImageList::Functions, ImageList::Variables];

/// The rows of the long lists of an image.
trait ImageRows: Sync {
    /// The number of rows.
    fn count(&self, list: ImageList) -> usize;

    /// Writes some rows to the begin of `json`, with commas between them; returns the length.
    fn write(&self, list: ImageList, range: Range<usize>, json: &mut Vec<u8>) -> usize;
}

impl ImageRows for ReportImage {
    fn count(&self, list: ImageList) -> usize {
        match list {
            ImageList::Sections => self.sections.len(),
            ImageList::Functions => self.functions.len(),
            ImageList::Variables => self.variables.len(),
        }
    }

    fn write(&self, list: ImageList, range: Range<usize>, json: &mut Vec<u8>) -> usize {
        match list {
            ImageList::Sections => row_text::rows(json, &self.sections[range], |text, row| {
                row_text::section(text, row)
            }),
            ImageList::Functions => row_text::rows(json, &self.functions[range], |text, row| {
                row_text::function(text, row)
            }),
            ImageList::Variables => row_text::rows(json, &self.variables[range], |text, row| {
                row_text::variable(text, row)
            }),
        }
    }
}

impl ImageRows for AccountRows<'_> {
    fn count(&self, list: ImageList) -> usize {
        match list {
            ImageList::Sections => self.account.sections.len(),
            ImageList::Functions => self.account.functions.rows.len(),
            ImageList::Variables => self.account.definitions.variables.len(),
        }
    }

    fn write(&self, list: ImageList, range: Range<usize>, json: &mut Vec<u8>) -> usize {
        match list {
            ImageList::Sections => {
                let mut row = ReportSection::default();
                row_text::rows(json, range, |text, &at| {
                    self.section(at, &mut row);
                    row_text::section(text, &row)
                })
            }
            ImageList::Functions => {
                let mut row = ReportFunction::default();
                row_text::rows(json, range, |text, &at| {
                    self.function(at, &mut row);
                    row_text::function(text, &row)
                })
            }
            ImageList::Variables => {
                let mut row = ReportVariable::default();
                row_text::rows(json, range, |text, &at| {
                    self.variable(at, &mut row);
                    row_text::variable(text, &row)
                })
            }
        }
    }
}

/// Bytes of the long lists of an image, more or less.
fn json_bytes(rows: &impl ImageRows) -> usize {
    LISTS.iter().zip(ROW_BYTES).map(|(&list, bytes)| rows.count(list) * bytes).sum()
}

/// An image whose long lists are written already. The fields are those of [`ReportImage`].
#[derive(Serialize)]
struct ImageForm<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    place: &'a str,
    kind: &'a str,
    target: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    compression: &'a str,
    stored: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    defect: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<&'a ReportLimits>,
    #[serde(skip_serializing_if = "<[ReportPrototype]>::is_empty")]
    prototypes: &'a [ReportPrototype],
    #[serde(skip_serializing_if = "<[ReportRelocations]>::is_empty")]
    relocations: &'a [ReportRelocations],
    #[serde(skip_serializing_if = "<[Vec<ReportOccupancy>]>::is_empty")]
    occupancies: &'a [Vec<ReportOccupancy>],
    #[serde(skip_serializing_if = "<[ReportSectionKind]>::is_empty")]
    section_kinds: &'a [ReportSectionKind],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sections: Vec<Written>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    functions: Vec<Written>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    variables: Vec<Written>,
}

/// Some rows of a list.
#[derive(Clone)]
struct Share {
    list: ImageList,
    range: Range<usize>,
}

impl Share {
    /// Its JSON form.
    fn write(&self, rows: &impl ImageRows) -> Vec<u8> {
        let mut json = vec![0; self.range.len() * ROW_BYTES[self.list as usize]];
        let len = rows.write(self.list, self.range.clone(), &mut json);
        json.truncate(len);
        json
    }
}

/// The text around the rows of an image, with a gap for each share of them.
struct ImageText {
    text: Vec<u8>,
    shares: Vec<Share>,
}

impl ImageText {
    fn of(image: &ReportImage, rows: &impl ImageRows) -> Result<Self, fmt::Error> {
        let of_list = |list: ImageList| {
            let count = rows.count(list);
            let share = move |at| Share { list, range: at..count.min(at + SHARE) };
            (0..count).step_by(SHARE).map(share)
        };
        let shares: Vec<Share> = LISTS.into_iter().flat_map(of_list).collect();
        let gaps = |list| {
            let own = shares.iter().filter(|share| share.list == list);
            own.map(|_| Written).collect()
        };
        let form = ImageForm {
            place: &image.place,
            kind: &image.kind,
            target: &image.target,
            compression: &image.compression,
            stored: image.stored,
            bytes: image.bytes,
            defect: &image.defect,
            limits: image.limits.as_ref(),
            prototypes: &image.prototypes,
            relocations: &image.relocations,
            occupancies: &image.occupancies,
            section_kinds: &image.section_kinds,
            sections: gaps(ImageList::Sections),
            functions: gaps(ImageList::Functions),
            variables: gaps(ImageList::Variables),
        };
        let mut text = Vec::new();
        json_text::write(&mut text, &form)?;
        Ok(ImageText { text, shares })
    }
}

/// The JSON form of an image: the text around its rows, with a gap for each part of them.
struct ImageParts {
    text: Vec<u8>,
    parts: Vec<Vec<u8>>,
}

impl ImageParts {
    /// The image with these rows, which the threads of a session write.
    fn of(
        image: &ReportImage,
        rows: &impl ImageRows,
        session: &Session,
    ) -> Result<Self, fmt::Error> {
        let ImageText { text, shares } = ImageText::of(image, rows)?;
        let parts = session.map(shares.len(), json_bytes(rows), |at| shares[at].write(rows));
        Ok(ImageParts { text, parts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{
        Bounds, Category, ReportFunction, ReportKernel, ReportNeed, ReportPhase, ReportSection,
        ReportSpace, ReportStack, ReportVariable,
    };

    const HOSTILE: &str = "a\"b\\c\n\u{1}\u{2028}</script>\u{1f600}";

    fn section(
        kind: usize,
        function: Option<usize>,
        pieces: &[(usize, u64, u64)],
    ) -> ReportSection {
        ReportSection {
            kind,
            offset: 64,
            bytes: 256,
            function,
            input: pieces.is_empty().then_some(0),
            pieces: pieces.to_vec(),
        }
    }

    /// A function; numbers decide what it needs.
    fn function(place: usize) -> ReportFunction {
        let own = Some(place as u32 % 3);
        let kernel = ReportKernel {
            shared: 1024,
            constants: vec![(0, 8), (3, u64::MAX)],
            parameters: vec![(0, 8), (8, 4)],
            bounds: Bounds { threads: Some([1, 2, 3]), ..Bounds::default() },
            occupancy: Some(0),
            ..ReportKernel::default()
        };
        let needs = [
            ReportNeed { own, total: own, set_by: None },
            ReportNeed { own, total: Some(9), set_by: Some(1) },
            ReportNeed { own: None, total: Some(9), set_by: None },
            ReportNeed::default(),
        ];
        ReportFunction {
            name: format!("{HOSTILE}{place}"),
            section: Some(place),
            code: 256,
            registers: needs[place % 4],
            barriers: needs[(place + 1) % 4],
            stack: ReportStack { own, total: [own, None, Some(7)][place % 3], next: None },
            calls: vec![0, place],
            address_taken: place.is_multiple_of(2),
            kernel: place.is_multiple_of(5).then(|| Box::new(kernel)),
            ..ReportFunction::default()
        }
    }

    /// A function of which the JSON form has all fields.
    fn every_field() -> ReportFunction {
        let kernel = ReportKernel {
            shared: 1,
            system_shared: 2,
            dynamic_shared: true,
            local: 3,
            constants: vec![(4, 5)],
            textures: 6,
            surfaces: 7,
            samplers: 8,
            parameter_offset: 9,
            parameter_bytes: 10,
            parameters: vec![(11, 12)],
            bounds: Bounds {
                most_threads: Some([13, 14, 15]),
                threads: Some([16, 17, 18]),
                registers: Some(19),
                cluster: Some([20, 21, 22]),
                most_cluster: Some(23),
            },
            occupancy: Some(24),
        };
        ReportFunction {
            name: "f".to_owned(),
            demangled: HOSTILE.to_owned(),
            input: Some(25),
            section: Some(26),
            offset: 27,
            code: 28,
            registers: ReportNeed { own: Some(29), total: Some(30), set_by: Some(31) },
            barriers: ReportNeed { own: None, total: Some(32), set_by: None },
            stack: ReportStack { own: Some(33), total: None, next: Some(34) },
            address_taken: true,
            recursive: true,
            calls: vec![35, 36],
            indirect: vec![37],
            kernel: Some(Box::new(kernel)),
            source: HOSTILE.to_owned(),
        }
    }

    fn full(functions: usize) -> Report {
        let mut functions: Vec<ReportFunction> = (0..functions).map(function).collect();
        functions.extend([every_field(), ReportFunction::default()]);
        let mut sections: Vec<ReportSection> =
            (0..functions.len()).map(|place| section(0, Some(place), &[])).collect();
        sections.push(section(1, None, &[(0, 0, 8), (1, 8, 248)]));
        sections.push(section(2, Some(0), &[]));
        sections.push(ReportSection::default());
        let kind = |name: &str, of_function| ReportSectionKind {
            name: name.to_owned(),
            of_function,
            category: Category::Code,
            sh_type: 1,
            flags: 6,
            align: 128,
        };
        let image = ReportImage {
            place: "here[0.1]".to_owned(),
            kind: "cubin".to_owned(),
            limits: Some(ReportLimits { warps: 64, ..ReportLimits::default() }),
            section_kinds: vec![kind(".text.", true), kind(HOSTILE, false), kind("x", false)],
            sections,
            functions,
            occupancies: vec![vec![ReportOccupancy {
                by: [1, 2, 3, 4, 5],
                ..ReportOccupancy::default()
            }]],
            prototypes: vec![ReportPrototype { text: "#vi".to_owned(), functions: vec![0] }],
            variables: vec![
                ReportVariable { name: HOSTILE.to_owned(), ..Default::default() },
                ReportVariable {
                    name: "v".to_owned(),
                    demangled: HOSTILE.to_owned(),
                    space: ReportSpace::Managed,
                    input: Some(1),
                    section: Some(2),
                    offset: 3,
                    bytes: 4,
                },
            ],
            relocations: vec![ReportRelocations { kind: "R".to_owned(), count: u64::MAX }],
            ..ReportImage::default()
        };
        let link = ReportLink {
            options: vec![HOSTILE.to_owned()],
            phases: vec![ReportPhase::new("write", 19.902_679), ReportPhase::new("x", 1e-7)],
            ..ReportLink::default()
        };
        let copies = ReportCopies { dropped: vec![(1, 2), (3, 4)], ..ReportCopies::default() };
        Report {
            schema: SCHEMA.to_owned(),
            link: Some(link),
            file: Some(File::new("f".to_owned(), "object", 1, 2)),
            inputs: vec![ReportInput::new("a".to_owned(), 3)],
            images: vec![image.clone(), ReportImage::default(), image],
            removed: vec![ReportRemoval::default()],
            copies: vec![copies],
            messages: vec![ReportMessage::new("error", HOSTILE.to_owned(), vec!["n".to_owned()])],
            ..Report::default()
        }
    }

    /// The writer makes the bytes of `serde_json`, in parts and by any number of threads, and what
    /// is read is what was written.
    #[test]
    fn the_writer_makes_the_json_of_serde() {
        for mut report in [Report::default(), full(7), full(3 * SHARE + 1)] {
            if report.schema.is_empty() {
                report.schema = SCHEMA.to_owned();
            }
            let json = report.to_json();
            let expected = serde_json::to_vec(&report).unwrap();
            assert_eq!(String::from_utf8_lossy(&json), String::from_utf8_lossy(&expected));
            let in_threads = report.to_json_in(&Session::with_threads(3));
            assert_eq!(in_threads.to_vec(), expected);
            assert_eq!(Report::from_json(&json).unwrap(), report);
            report.images.truncate(1);
            assert_eq!(report.to_json(), serde_json::to_vec(&report).unwrap());
            let in_threads = report.to_json_in(&Session::with_threads(3));
            assert_eq!(in_threads.to_vec(), report.to_json());
        }
    }

    #[test]
    fn names_of_sections_are_made_of_kinds_and_functions() {
        let report = full(7);
        let image = &report.images[0];
        let names: Vec<_> = image.sections.iter().map(|one| image.section_name(one)).collect();
        assert_eq!(names[6], format!(".text.{HOSTILE}6"));
        assert_eq!(names[7..], [".text.f", ".text.", HOSTILE, "x", ".text."]);
    }

    #[test]
    fn other_schemas_and_damaged_rows_are_no_panic() {
        let json = br#"{"schema":"culd-report/1","images":[{"sections":[{"name":"a"}]}]}"#;
        let read = Report::from_json(json);
        assert!(matches!(read, Err(BadReport::Schema(name)) if name.ends_with("/1")));
        let json = br#"{"schema":"culd-report/2","images":[{"section_kinds":[{"of_function":true}],
            "sections":[[],[9,1,2],[0,1,2,7,null,[],1]]}]}"#;
        let report = Report::from_json(json).unwrap();
        let image = &report.images[0];
        assert_eq!(image.sections.len(), 3);
        assert!(image.sections.iter().all(|section| image.section_name(section).is_empty()));
    }
}
