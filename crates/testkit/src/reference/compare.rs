//! Compares the results of two linkers for the same inputs.
//!
//! In: two linked cubins, or two finished processes. Out: nothing if they agree, else a line about
//! the first difference. Guaranteed: in the bytes, only the payload of the first tool note may
//! differ, where a linker names itself; on sm_100 and later, also what [`mercury`] describes.

mod carried;
pub mod code;
pub mod damaged;
mod damaged_rules;
mod deliberate;
pub mod embedded;
pub mod mercury;
mod rebuilt;
pub mod relinked;
pub mod relocatable;
mod report;
pub mod steps;
pub mod trial;
mod whole;

use crate::fixtures::case::{plain_lines, stack_warnings_once};
use crate::reference::oracle::process::Run;
use culd_cubin::note::ToolRecord;
use mercury::{Classes, LinkObjects};
use object::elf::{FileHeader64, SectionHeader64};
use object::read::elf::{FileHeader as _, SectionHeader as _};
use object::{LittleEndian, elf};
use std::ops::Range;
use std::path::Path;

const TOOL_NOTE: &[u8] = b".note.nv.tkinfo";

/// The entry of docs/DIFFERENCES.md whose words are in a refusal of culd's.
pub fn entry_of_refusal(text: &str) -> Option<&'static str> {
    deliberate::refusal(text)
}

/// Compares the outputs of nvlink and culd. The objects that `arguments` name are read only where
/// they matter.
///
/// # Errors
/// When the outputs differ but should not.
pub fn outputs(
    arguments: &[String],
    objects: impl FnOnce() -> Vec<Vec<u8>>,
    expected: &[u8],
    actual: &[u8],
) -> Result<Classes, String> {
    outputs_of(arguments, || LinkObjects::of(arguments, &objects()), expected, actual)
}

/// The same with the facts about the objects.
fn outputs_of(
    arguments: &[String],
    inputs: impl FnOnce() -> LinkObjects,
    expected: &[u8],
    actual: &[u8],
) -> Result<Classes, String> {
    if is_of_culd(expected) {
        return Err("the reference is an output of culd's, too".to_owned());
    }
    if is_relocatable(arguments) {
        return relocatable::objects(expected, actual, inputs).map_or(Ok(Classes::default()), Err);
    }
    linked(expected, actual, inputs)
}

/// The same for the files that `arguments` name, which are in `dir`.
///
/// # Errors
/// As [`outputs`].
pub fn outputs_in(
    arguments: &[String],
    dir: &Path,
    expected: &[u8],
    actual: &[u8],
) -> Result<Classes, String> {
    outputs(arguments, || carried::objects(arguments, dir), expected, actual)
}

/// The cubins for the target in the files that `arguments` name, which are in `dir`.
pub fn objects_in(arguments: &[String], dir: &Path) -> Vec<Vec<u8>> {
    carried::objects(arguments, dir)
}

/// Compares a program that nvlink linked with culd's; `inputs` matter on sm_100 and later only.
///
/// # Errors
/// When they differ but should not.
pub fn linked(
    expected: &[u8],
    actual: &[u8],
    inputs: impl FnOnce() -> LinkObjects,
) -> Result<Classes, String> {
    if mercury::applies(expected) {
        return mercury::compare(expected, actual, &inputs());
    }
    cubins(expected, actual).map_or(Ok(Classes::default()), Err)
}

/// True for an object of `-ewp`: its ELF type is 0xff00.
fn is_whole_program(object: &[u8]) -> bool {
    object.starts_with(b"\x7fELF") && object.get(16..18) == Some(&[0x00, 0xff])
}

/// True if one of the files is an object of `-ewp`.
fn is_any_whole_program(files: &[Vec<u8>]) -> bool {
    files.iter().any(|file| is_whole_program(file))
}

/// True for the arguments of a link that makes an object.
fn is_relocatable(arguments: &[String]) -> bool {
    arguments.iter().any(|word| word == "-r" || word == "--relocatable-link")
}

/// The difference of two cubins; `None` if they are equal except the linker's own note.
///
/// Sections are compared before headers: if a section has another size, all later offsets differ
/// too.
pub fn cubins(expected: &[u8], actual: &[u8]) -> Option<String> {
    if expected == actual {
        return None;
    }
    let own =
        own_note(expected).filter(|own| own_note(actual).as_ref() == Some(own)).unwrap_or(0..0);
    let same = |at: usize| own.contains(&at) || expected.get(at) == actual.get(at);
    let first = (0..expected.len().max(actual.len())).find(|&at| !same(at))?;
    Some(in_sections(expected, actual).unwrap_or_else(|| {
        format!("{}: {}", place(expected, first), values(expected, actual, first))
    }))
}

/// A cubin with zeros in the payload of the linker's own note, which may differ.
pub fn without_own_note(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some(payload) = own_note(&bytes).and_then(|own| bytes.get_mut(own)) {
        payload.fill(0);
    }
    bytes
}

/// A cubin with zeros for all tool notes.
pub fn without_notes(bytes: &[u8]) -> Vec<u8> {
    let mut copy = bytes.to_vec();
    for (_, range) in sections(bytes).into_iter().filter(|(name, _)| name == TOOL_NOTE) {
        if let Some(note) = copy.get_mut(range) {
            note.fill(0);
        }
    }
    copy
}

/// The cubin `bytes` with zeros for the note that the linker of `object`, one of its inputs, has
/// left there.
pub fn without_note_of(bytes: &[u8], object: &[u8]) -> Vec<u8> {
    let mut copy = bytes.to_vec();
    let note = own_note(object).and_then(|own| object.get(own)).unwrap_or_default();
    if note.is_empty() {
        return copy;
    }
    for (_, range) in sections(bytes).into_iter().filter(|(name, _)| name == TOOL_NOTE) {
        let section = copy.get_mut(range).unwrap_or_default();
        let found = section.windows(note.len()).position(|window| window == note);
        if let Some(place) = found.and_then(|at| section.get_mut(at..at + note.len())) {
            place.fill(0);
        }
    }
    copy
}

/// The first difference of section contents and a list of all sections that differ.
fn in_sections(expected: &[u8], actual: &[u8]) -> Option<String> {
    let (theirs, ours) = (sections(expected), sections(actual));
    let names = |list: &[(Vec<u8>, Range<usize>)], at: usize| {
        list.get(at).map_or("end".to_owned(), |(name, _)| text(name))
    };
    let length = theirs.len().max(ours.len());
    if let Some(at) = (0..length).find(|&at| names(&theirs, at) != names(&ours, at)) {
        return Some(format!(
            "section list: '{}' instead of '{}'",
            names(&ours, at),
            names(&theirs, at)
        ));
    }
    let mut first = None;
    let mut differing = Vec::new();
    for ((name, theirs), (_, ours)) in theirs.iter().zip(&ours) {
        let (theirs, ours) = (masked(expected, theirs, name), masked(actual, ours, name));
        if theirs == ours {
            continue;
        }
        differing.push(text(name));
        let at = (0..).find(|&at| theirs.get(at) != ours.get(at)).unwrap_or(0);
        let sizes = if theirs.len() == ours.len() {
            String::new()
        } else {
            format!(", size {:#x} instead of {:#x}", ours.len(), theirs.len())
        };
        first.get_or_insert_with(|| {
            format!("{}+{at:#x}: {}{sizes}", text(name), values(&theirs, &ours, at))
        });
    }
    differing.dedup();
    Some(format!("{}; sections that differ: {}", first?, differing.join(" ")))
}

/// Contents of a section, without the linker's own note.
fn masked(bytes: &[u8], range: &Range<usize>, name: &[u8]) -> Vec<u8> {
    let mut content = bytes.get(range.clone()).unwrap_or_default().to_vec();
    if name == TOOL_NOTE
        && let Some(own) = own_note(bytes)
        && let Some(payload) = content.get_mut(own.start - range.start..own.end - range.start)
    {
        payload.fill(0);
    }
    content
}

fn values(expected: &[u8], actual: &[u8], at: usize) -> String {
    let byte = |bytes: &[u8]| bytes.get(at).map_or("end".to_owned(), |b| format!("{b:02x}"));
    format!("{} instead of {}", byte(actual), byte(expected))
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// A class of a difference: its text without names and numbers of one program. Differences of one
/// class are likely to have one cause.
pub fn class(what: &str) -> String {
    if what.starts_with("exit code") || what.starts_with("message ") {
        return message_class(what);
    }
    let head = what.split(['+', ':', '\'']).next().unwrap_or_default().trim();
    let head = head.split(" of ").next().unwrap_or_default();
    for prefix in [
        ".rela.text",
        ".rel.text",
        ".rel.nv.constant",
        ".rela.nv.constant",
        ".nv.constant",
        ".nv.info.",
        ".nv.shared",
        ".text",
    ] {
        if head.starts_with(prefix) {
            return prefix.to_owned();
        }
    }
    head.trim_end_matches(|c: char| c.is_ascii_digit() || c == ' ').to_owned()
}

/// A line of messages without quoted text and numbers.
fn message_class(what: &str) -> String {
    let line = what.lines().next().unwrap_or_default();
    let unquoted = line.split('\'').step_by(2).collect::<Vec<_>>().join("_");
    let words =
        unquoted.split([' ', '/']).filter(|word| !word.contains(|c: char| c.is_ascii_digit()));
    words.collect::<Vec<_>>().join(" ")
}

/// Byte range of the payload of the first record of the tool note.
fn own_note(bytes: &[u8]) -> Option<Range<usize>> {
    let (_, range) = sections(bytes).into_iter().find(|(name, _)| name == TOOL_NOTE)?;
    let word = |at: usize| {
        let raw = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(raw.try_into().ok()?) as usize)
    };
    let start = range.start + 12 + word(range.start)?.next_multiple_of(4);
    let end = start + word(range.start + 4)?;
    (end <= range.end).then_some(start..end)
}

/// True for an output of culd's: to compare with it would say nothing.
fn is_of_culd(output: &[u8]) -> bool {
    let note = own_note(output).and_then(|own| ToolRecord::parse(output.get(own)?));
    note.is_some_and(|record| record.tool == "culd")
}

/// Names and file ranges of the sections with contents; empty if the bytes are no ELF file.
fn sections(bytes: &[u8]) -> Vec<(Vec<u8>, Range<usize>)> {
    let parse = || -> object::read::Result<Vec<_>> {
        let header = FileHeader64::<LittleEndian>::parse(bytes)?;
        let endian = header.endian()?;
        let table = header.sections(endian, bytes)?;
        let mut list = Vec::new();
        for section in table.iter() {
            let section: &SectionHeader64<LittleEndian> = section;
            if let Some((offset, size)) = section.file_range(endian)
                && section.sh_type(endian) != elf::SHT_NULL
            {
                let name = table.section_name(endian, section)?;
                list.push((name.to_vec(), offset as usize..(offset + size) as usize));
            }
        }
        Ok(list)
    };
    parse().unwrap_or_default()
}

/// A name for a file offset: the section or table there.
fn place(bytes: &[u8], at: usize) -> String {
    for (name, range) in sections(bytes) {
        if range.contains(&at) {
            return format!("{}+{:#x}", text(&name), at - range.start);
        }
    }
    header_place(bytes, at).unwrap_or_else(|| format!("padding, file offset {at:#x}"))
}

/// A name for an offset in the ELF header or the tables of headers.
fn header_place(bytes: &[u8], at: usize) -> Option<String> {
    if at < size_of::<FileHeader64<LittleEndian>>() {
        return Some(format!("ELF header+{at:#x}"));
    }
    let header = FileHeader64::<LittleEndian>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let from = at.checked_sub(header.e_shoff(endian) as usize);
    let table = header.sections(endian, bytes).ok()?;
    let index = from.map(|from| from / size_of::<SectionHeader64<LittleEndian>>())?;
    let Ok(section) = table.section(object::SectionIndex(index)) else {
        let from = at - header.e_phoff(endian) as usize;
        return Some(format!("program headers+{from:#x}"));
    };
    let field = from? % size_of::<SectionHeader64<LittleEndian>>();
    let fields = [
        (56, "sh_entsize"),
        (48, "sh_addralign"),
        (44, "sh_info"),
        (40, "sh_link"),
        (32, "sh_size"),
        (24, "sh_offset"),
        (16, "sh_addr"),
        (8, "sh_flags"),
        (4, "sh_type"),
        (0, "sh_name"),
    ];
    let field = fields.iter().find(|(start, _)| field >= *start).map_or("", |(_, name)| name);
    let name = table.section_name(endian, section).map(text).unwrap_or_default();
    Some(format!("section header {field} of {name}"))
}

/// The difference of two runs: status, output or messages. Names of linkers at the start of lines,
/// notes and repeated warnings about a stack do not count.
pub fn outcomes(expected: &Run, actual: &Run) -> Option<String> {
    if expected.status != actual.status {
        let text = actual.stderr_text();
        return Some(format!("{} instead of {}: {text}", actual.status, expected.status));
    }
    if expected.stdout != actual.stdout {
        return Some("standard output differs".to_owned());
    }
    let (expected, actual) = (messages(expected), messages(actual));
    let first =
        (0..expected.len().max(actual.len())).find(|&i| expected.get(i) != actual.get(i))?;
    let line =
        |lines: &[String]| lines.get(first).cloned().unwrap_or_else(|| "(nothing)".to_owned());
    Some(format!("message {}: '{}' instead of '{}'", first + 1, line(&actual), line(&expected)))
}

/// The lines that count, with nvlink as the name of either linker.
fn messages(run: &Run) -> Vec<String> {
    let lines = plain_lines(&run.stderr_text(), "culd").join("\n");
    stack_warnings_once(plain_lines(&lines, "nvlink"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::oracle::process::Status;
    use std::time::Duration;

    /// An ELF file with a tool note of two records and some text.
    pub(super) fn cubin(own: &[u8], second: &[u8; 4], text: &[u8; 4]) -> Vec<u8> {
        let mut note = Vec::new();
        for desc in [own, &second[..]] {
            note.extend(12u32.to_le_bytes());
            note.extend((desc.len() as u32).to_le_bytes());
            note.extend(2000u32.to_le_bytes());
            note.extend(b"NVIDIA Corp\0");
            note.extend(desc);
        }
        let names = b"\0.note.nv.tkinfo\0.text.k\0.shstrtab\0";
        let mut bytes = vec![0; 64];
        bytes[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\x41");
        bytes[16..18].copy_from_slice(&2u16.to_le_bytes());
        bytes[18..20].copy_from_slice(&190u16.to_le_bytes());
        bytes[20..24].copy_from_slice(&1u32.to_le_bytes());
        let mut headers = vec![0; 64];
        for (name, kind, content) in [(1u32, 7u32, note.as_slice()), (17, 1, text), (25, 3, names)]
        {
            let mut header = [0; 64];
            header[..4].copy_from_slice(&name.to_le_bytes());
            header[4..8].copy_from_slice(&kind.to_le_bytes());
            header[24..32].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
            header[32..40].copy_from_slice(&(content.len() as u64).to_le_bytes());
            headers.extend(header);
            bytes.extend(content);
        }
        let table = bytes.len() as u64;
        bytes[40..48].copy_from_slice(&table.to_le_bytes());
        bytes[52..54].copy_from_slice(&64u16.to_le_bytes());
        bytes[58..60].copy_from_slice(&64u16.to_le_bytes());
        bytes[60..62].copy_from_slice(&4u16.to_le_bytes());
        bytes[62..64].copy_from_slice(&3u16.to_le_bytes());
        bytes.extend(headers);
        bytes
    }

    #[test]
    fn the_own_note_may_differ() {
        let a = cubin(b"theirs..", b"same", b"code");
        assert_eq!(cubins(&a, &cubin(b"ours....", b"same", b"code")), None);
    }

    #[test]
    fn an_output_of_culd_is_no_reference() {
        let of = |tool: &str, release: &str| {
            let (tool, release) = (tool.to_owned(), release.to_owned());
            let record = ToolRecord { tool, release, ..ToolRecord::default() };
            cubin(&record.descriptor(), b"same", b"code")
        };
        let (theirs, ours) = (of("nvlink", "13.0.8"), of("culd", "culd 0.1"));
        let compared = |expected, actual| outputs(&[], Vec::new, expected, actual).is_ok();
        assert!(compared(&theirs, &ours));
        assert!(!compared(&ours, &ours) && !compared(&ours, &theirs));
    }

    #[test]
    fn later_notes_and_code_may_not() {
        let a = cubin(b"theirs..", b"same", b"code");
        let note = cubins(&a, &cubin(b"ours....", b"Same", b"code")).expect("note differs");
        assert_eq!(
            note,
            ".note.nv.tkinfo+0x38: 53 instead of 73; sections that differ: .note.nv.tkinfo"
        );
        let code = cubins(&a, &cubin(b"theirs..", b"same", b"coXe")).expect("code differs");
        assert_eq!(code, ".text.k+0x2: 58 instead of 64; sections that differ: .text.k");
        assert_eq!(class(&code), ".text");
    }

    #[test]
    fn every_single_byte_counts_outside_the_own_note() {
        let a = cubin(b"theirs..", b"same", b"code");
        let own = own_note(&a).expect("a note");
        for at in 0..a.len() {
            let mut b = a.clone();
            b[at] ^= 0x10;
            assert_eq!(cubins(&a, &b).is_none(), own.contains(&at), "byte {at:#x}");
        }
        assert!(cubins(&a, &a[..a.len() - 1]).is_some());
    }

    #[test]
    fn messages_of_one_kind_are_one_class() {
        let refused = |symbol: &str, at: &str| {
            format!(
                "exit code 1 instead of exit code 0: culd fatal   : File 'a', offset {at}: '{symbol}' bad"
            )
        };
        assert_eq!(class(&refused("x", "0x10")), class(&refused("y", "0x20")));
        assert_ne!(class(&refused("x", "0x10")), class("exit code 0 instead of exit code 1: "));
    }

    fn run(status: Status, stderr: &str) -> Run {
        let stderr = stderr.as_bytes().to_vec();
        Run { status, stdout: Vec::new(), stderr, wall: Duration::ZERO }
    }

    #[test]
    fn messages_are_equal_but_for_the_program_name() {
        let theirs = run(Status::Exit(1), "nvlink error   : a\nnvlink fatal   : b\n");
        let same = run(Status::Exit(1), "culd error   : a\nculd fatal   : b\n");
        assert_eq!(outcomes(&theirs, &same), None);
        let less = run(Status::Exit(1), "culd error   : a\n");
        assert_eq!(
            outcomes(&theirs, &less).as_deref(),
            Some("message 2: '(nothing)' instead of 'fatal   : b'")
        );
        assert!(
            outcomes(&theirs, &run(Status::Exit(255), "culd error   : a\nculd fatal   : b\n"))
                .is_some()
        );
    }
}
