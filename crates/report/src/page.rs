//! The page: one file that opens from disk and needs nothing else.
//!
//! In: a [`Report`]. Out: HTML. Guaranteed: the only text of inputs in the markup is the title,
//! which is escaped; all other names are in the data, which is compressed JSON in base64. The page
//! asks for nothing: its content policy forbids it.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use culd_link::Session;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::data::{File, Report, ReportLink};
use crate::json::JsonPieces;
use crate::link::ReportedLink;

const TEMPLATE: &str = include_str!("../assets/page.html");
const STYLE: &str = include_str!("../assets/page.css");
const SCRIPT: &str = include_str!("../assets/page.js");
/// The layout of the map. Its licence asks that the notice be in every copy.
const D3: &str = concat!(
    "/*\n",
    include_str!("../assets/d3-hierarchy.LICENSE"),
    "*/\n",
    include_str!("../assets/d3-hierarchy.min.js")
);

/// The most characters of the title.
const LONGEST_TITLE: usize = 200;

impl Report {
    /// The page.
    pub fn to_page(&self) -> Vec<u8> {
        self.to_page_in(&Session::serial())
    }

    /// The page, by the threads of a session.
    pub fn to_page_in(&self, session: &Session) -> Vec<u8> {
        page(&self.to_json_in(session), &title(self.link.as_ref(), self.file.as_ref()))
    }
}

impl ReportedLink<'_> {
    /// The page of the report, without the report.
    pub fn to_page_in(&self, session: &Session) -> Vec<u8> {
        page(&self.to_json_in(session), &title(Some(&self.report_link()), None))
    }
}

fn page(json: &JsonPieces, title: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Memory takes all that is written to it.
    let packed = json.iter().try_for_each(|piece| encoder.write_all(piece));
    let packed = packed.and_then(|()| encoder.finish());
    let data = STANDARD.encode(packed.unwrap_or_default());
    let title = escaped(title);
    let parts = [
        ("@TITLE@", title.as_str()),
        ("@STYLE@", STYLE),
        ("@DATA@", data.as_str()),
        ("@D3@", D3),
        ("@SCRIPT@", SCRIPT),
    ];
    let mut page = Vec::with_capacity(data.len() + STYLE.len() + SCRIPT.len() + D3.len() + 4096);
    let mut rest = TEMPLATE;
    for (mark, text) in parts {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        page.extend_from_slice(before.as_bytes());
        page.extend_from_slice(text.as_bytes());
        rest = after;
    }
    page.extend_from_slice(rest.as_bytes());
    page
}

/// The subject of a report, in a few words.
fn title(link: Option<&ReportLink>, file: Option<&File>) -> String {
    let name = match (link, file) {
        (Some(link), _) if !link.output.is_empty() => link.output.as_str(),
        (Some(_), _) => "a link",
        (None, Some(file)) => file.name.as_str(),
        (None, None) => "a report",
    };
    let name: String = culd_text::escaped(name).chars().take(LONGEST_TITLE).collect();
    format!("{name} – culd")
}

/// `text` as HTML has it.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(char),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ReportFunction, ReportImage};

    #[test]
    fn names_of_inputs_are_no_markup() {
        let hostile = "</script><script>alert(1)</script>\u{1b}[2J\u{202e}\" onload=x '";
        let image = ReportImage {
            functions: vec![ReportFunction {
                name: hostile.to_owned(),
                ..ReportFunction::default()
            }],
            ..ReportImage::default()
        };
        let link = ReportLink { output: hostile.to_owned(), ..ReportLink::default() };
        let report = Report { link: Some(link), images: vec![image], ..Report::default() };
        let page = String::from_utf8(report.to_page()).unwrap();
        assert!(!page.contains("alert(1)</script>") && !page.contains('\u{1b}'));
        assert!(
            page.contains("<title>&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[2J")
        );
        assert_eq!(page.matches("<script").count(), 3);
        assert_eq!(page.matches("</script>").count(), 3);
    }

    #[test]
    fn every_part_is_in_the_page_once() {
        let page = String::from_utf8(Report::default().to_page()).unwrap();
        assert!(page.contains(D3) && page.contains(SCRIPT) && page.contains(STYLE));
        let marks = ["@TITLE@", "@STYLE@", "@DATA@", "@D3@", "@SCRIPT@"];
        assert!(marks.iter().all(|mark| TEMPLATE.matches(mark).count() == 1));
        assert!(marks.iter().all(|mark| !page.contains(mark)));
        for outside in ["http:", "https:", "//cdn", "@import", "url("] {
            let own = page.replace("https://d3js.org/d3-hierarchy/ v3.1.2", "");
            assert!(!own.contains(outside), "{outside}");
        }
    }

    #[test]
    fn the_data_is_the_json_form() {
        use std::io::Read;
        let report = Report { producer: "culd 0".to_owned(), ..Report::default() };
        let page = String::from_utf8(report.to_page()).unwrap();
        let data = page.split_once("id=\"data\">").unwrap().1.split_once('<').unwrap().0;
        let packed = STANDARD.decode(data).unwrap();
        let mut json = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut json).unwrap();
        assert_eq!(json, report.to_json());
    }
}
