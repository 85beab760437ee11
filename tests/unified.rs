//! Unified functions and variables with entries, and jump slots, that no compiler makes.
//!
//! In: the recorded case unified/called-90 and its index file with single fields changed. Out: no
//! report, or the lines that are wrong (docs/DIFFERENCES.md, unified-places;
//! `testdata/cli/unified.toml` has index files that are wrong).

use culd_cubin::build::object::{ObjectBuilder, ObjectSection, SectionContent, SectionRef};
use culd_cubin::unified::{Uidx, UnifiedId};
use culd_link::IndexFile;
use culd_testkit::fixtures::case;
use culd_tests::elf::{Editor, SH_SIZE};
use culd_tests::{case_options, lines, link};

const CASE: &str = "unified/called-90";

/// A change of the first file, one of the index file, and the expected lines.
type UnifiedDamage = (fn(&mut Editor), fn(&mut Uidx), &'static [&'static str]);

fn forget(id: UnifiedId) -> impl Fn(&mut Uidx) {
    move |uidx| {
        uidx.functions.places.retain(|place| place.id != id);
        uidx.variables.places.retain(|place| place.id != id);
    }
}

fn name(editor: &mut Editor, section: &str, at: usize, symbol: &str) {
    let symbol = editor.symbol_index(symbol) as u64;
    editor.inside(section, (at, 4), symbol);
}

const DAMAGES: [UnifiedDamage; 9] = [
    (|_| {}, |_| {}, &[]),
    (
        |e| name(e, ".nv.uft.entry", 0, "k"),
        |_| {},
        &["fatal   : Unified id (0x13, 0x5f) of 'k' in 'a.cubin': it has no jump slot of its own"],
    ),
    (
        |e| name(e, ".nv.uft.entry", 32, "tab"),
        |_| {},
        &[
            "fatal   : Malformed input file 'a.cubin': section '.nv.uft.entry', offset 0x20: symbol 31 is no function",
        ],
    ),
    (
        |e| name(e, ".nv.udt.entry", 0, "tab"),
        |_| {},
        &[
            "fatal   : Malformed input file 'a.cubin': section '.nv.udt.entry', offset 0x0: symbol 31 is no variable in \
           '.nv.udt'",
        ],
    ),
    (
        |e| {
            e.inside(".nv.uft.entry", (0, 4), 0xffff);
        },
        |_| {},
        &[
            "fatal   : Malformed input file 'a.cubin': section '.nv.uft.entry', offset 0x0: symbol 65535 is no function",
        ],
    ),
    (
        |e| {
            e.section(".nv.uft.entry", SH_SIZE, 64);
        },
        |_| {},
        &[
            "fatal   : Internal error: Number of .nv.uft jump slots != Number of entries in .nv.uft.entry",
        ],
    ),
    (
        |e| {
            e.section(".nv.udt.entry", SH_SIZE, 32);
        },
        |u| forget(UnifiedId(5, 6))(u),
        &["fatal   : Unified variable 'uw' has no id"],
    ),
    (
        |e| {
            e.inside(".nv.uft.entry", (0x30, 8), 19).inside(".nv.uft.entry", (0x38, 8), 95);
        },
        |u| forget(UnifiedId(0x11, 0x22))(u),
        &[
            "fatal   : Unified id (0x13, 0x5f) of 'ug' in 'a.cubin': it is that of 'uf' in 'a.cubin' too",
        ],
    ),
    (
        |e| {
            e.section(".nv.uft.rel.ug", SH_SIZE, 64);
        },
        |_| {},
        &[
            "fatal   : Malformed input file 'a.cubin': section '.nv.uft.rel.ug', offset 0x0: a jump slot of 0x40 bytes \
           at alignment 0x80, not 0x80",
        ],
    ),
];

#[test]
fn wrong_entries_are_reported() {
    let case = case::named(CASE).expect("the recorded case");
    let (_, index) = case.index_files().expect("index files").remove(0);
    for (damage, list, expected) in DAMAGES {
        let mut inputs = case.inputs().expect("inputs");
        let mut editor = Editor::new(&inputs[0].1);
        damage(&mut editor);
        inputs[0].1 = editor.bytes;
        let mut uidx = Uidx::parse(&index).expect("an index file");
        list(&mut uidx);
        let mut options = case_options(&case, &case.arguments()).expect("options");
        options.index = Some(IndexFile::parse(uidx.bytes()).expect("an index file"));
        let outcome = link(&options, &inputs, 1).expect("threads");
        assert_eq!(lines(&outcome), expected);
        assert_eq!(outcome.image.is_some(), expected.is_empty(), "{expected:?}");
    }
}

const MERCURY_CASE: &str = "unified/called-100";

/// A change of the first file of [`MERCURY_CASE`], and the expected line.
type MercuryDamage = (fn(&mut Editor), &'static str);

#[rustfmt::skip]
const MERCURY_DAMAGES: &[MercuryDamage] = &[
    (|e| { e.inside(".nv.capmerc.nv.uft.rel.uf", (8, 8), 0x0e_0000_0005).inside(".nv.capmerc.nv.uft.rel.uf", (21, 1), 2); }, "section '.nv.capmerc.nv.uft.rel.uf', offset 0x0: Mercury code of a jump slot that is not six instructions and padding"),
    (|e| { e.inside(".nv.capmerc.nv.uft.rel.uf", (20, 1), 0x51); }, "section '.nv.capmerc.nv.uft.rel.uf', offset 0x"),
    (|e| { e.inside(".nv.merc.rela.nv.uft.rel.uf", (0, 8), 0x28); }, "section '.nv.capmerc.nv.uft.rel.uf', offset 0x18: a jump slot without its one relocation, at 0x18"),
    (|e| { e.inside(".rela.nv.uft.rel.uf", (0, 8), 0x10); }, "section '.nv.uft.rel.uf', offset 0x0: a jump slot without its one relocation, at 0x0"),
    (|e| { e.inside(".rela.nv.uft.rel.uf", (12, 4), 1); }, "section '.nv.uft.rel.uf', offset 0x0: a jump slot without its one relocation, at 0x0"),
    (|e| { e.section(".nv.merc.nv.udt", SH_SIZE, 8); }, "section '.nv.merc.nv.udt', offset 0x0: the section is not as long as its twin in the machine code's half"),
];

#[test]
fn slots_that_the_table_is_not_made_for_are_refused() {
    let case = case::named(MERCURY_CASE).expect("the recorded case");
    let (_, index) = case.index_files().expect("index files").remove(0);
    for (damage, expected) in MERCURY_DAMAGES {
        let mut inputs = case.inputs().expect("inputs");
        let mut editor = Editor::new(&inputs[0].1);
        damage(&mut editor);
        inputs[0].1 = editor.bytes;
        let mut options = case_options(&case, &case.arguments()).expect("options");
        options.index = Some(IndexFile::parse(index.clone()).expect("an index file"));
        let outcome = link(&options, &inputs, 1).expect("threads");
        let lines = lines(&outcome);
        assert!(outcome.image.is_none() && lines.len() == 1, "{expected}: {lines:?}");
        assert!(lines[0].contains(expected), "{expected}: {lines:?}");
    }
}

/// ptxas 13.1 and later make slots of twice the size with -g (seed 980225 of the generated programs
/// by 13.5, sm_90): nvlink counts slots by their bytes, so it can make no program of them; it keeps
/// them in objects.
#[test]
fn a_slot_counts_by_its_bytes() {
    let case = case::named(CASE).expect("the recorded case");
    let (_, index) = case.index_files().expect("index files").remove(0);
    let mut inputs = case.inputs().expect("inputs");
    let mut object = ObjectBuilder::parse(&inputs[0].1).expect("an object");
    let is_slot = |(_, section): &(SectionRef, &ObjectSection)| section.name == b".nv.uft.rel.ug";
    let (slot, _) = object.sections().find(is_slot).expect("a slot");
    let section = object.section_mut(slot).expect("a slot");
    let SectionContent::Bytes(code) = &mut section.contents else { panic!("code has bytes") };
    code.resize(2 * code.len(), 0);
    inputs[0].1 = object.finish().expect("an object");
    let mut options = case_options(&case, &case.arguments()).expect("options");
    options.index = Some(IndexFile::parse(index).expect("an index file"));
    let count = "Number of .nv.uft jump slots != Number of entries in .nv.uft.entry";
    let outcome = link(&options, &inputs, 1).expect("threads");
    assert_eq!(lines(&outcome), [format!("fatal   : Internal error: {count}")]);
    options.index = None;
    let outcome = link(&options, &inputs, 1).expect("threads");
    assert_eq!(lines(&outcome), ["fatal   : Unified symbols found but index file not specified."]);
    options.relocatable = true;
    assert!(link(&options, &inputs, 1).expect("threads").image.is_some());
}

/// nvlink 12.4 does not look at the version of an index file. That of version 2 with the bytes that
/// 13.0 wants at its end is too long for it.
#[test]
fn before_13_an_index_file_has_nothing_behind_its_places() {
    let case = case::named("dialects/one-slot-12-4").expect("the recorded case");
    let (_, index) = case.index_files().expect("index files").remove(0);
    let mut options = case_options(&case, &case.arguments()).expect("options");
    let mut uidx = Uidx::parse(&index).expect("an index file");
    let malformed = &["fatal   : Internal error: malformed uidx input"][..];
    for (version, expected) in [(1, &[][..]), (2, malformed)] {
        uidx.version = version;
        options.index = Some(IndexFile::parse(uidx.bytes()).expect("an index file"));
        let outcome = link(&options, &case.inputs().expect("inputs"), 1).expect("threads");
        assert_eq!(lines(&outcome), expected);
        assert_eq!(outcome.image.is_some(), expected.is_empty());
    }
}

/// In a program with one kernel, no slot is an entry. With more kernels all are, and in which order
/// nvlink before 12.8 writes their register counts is not known.
#[test]
fn several_slots_that_are_entries_are_refused_before_12_8() {
    let case = case::named("dialects/slots-12-4").expect("the recorded case");
    let (_, index) = case.index_files().expect("index files").remove(0);
    let mut options = case_options(&case, &case.arguments()).expect("options");
    options.index = Some(IndexFile::parse(index).expect("an index file"));
    let mut inputs = case.inputs().expect("inputs");
    assert!(link(&options, &inputs, 1).expect("threads").image.is_some());
    let others = case::named("dialects/late-arrays-12-1").expect("the recorded case");
    for (name, bytes) in others.inputs().expect("inputs") {
        inputs.push((format!("other-{name}"), bytes));
    }
    for (release, refused) in [("12.4", true), ("12.6", true), ("12.8", false), ("12.9", false)] {
        options.dialect = release.parse().expect("a release");
        let outcome = link(&options, &inputs, 1).expect("threads");
        let line = "fatal   : Jump slots of such a program cannot be linked by the rules of CUDA";
        let expected = refused.then(|| format!("{line} {release}"));
        assert_eq!(lines(&outcome), expected.into_iter().collect::<Vec<_>>());
        assert_eq!(outcome.image.is_some(), !refused);
    }
}

/// nvlink's table of such slots is wrong (docs/DIFFERENCES.md, slots-with-frames).
#[test]
fn a_program_has_no_table_of_slots_with_frames() {
    let case = case::named("unified/frames-100").expect("the recorded case");
    let ids: [(u64, u64, u64); 5] =
        [(1, 1, 0), (1, 2, 0x80), (1, 3, 0x100), (2, 1, 0x180), (2, 2, 0x200)];
    let numbers = [1u64, 0x280, ids.len() as u64, 0, 0].into_iter();
    let numbers = numbers.chain(ids.iter().flat_map(|&(first, second, at)| [first, second, at]));
    let index = b"\x7fUFTINDX".iter().copied().chain(numbers.flat_map(u64::to_le_bytes)).collect();
    let mut options = case_options(&case, &["-arch=sm_100".to_owned()]).expect("options");
    options.index = Some(IndexFile::parse(index).expect("an index file"));
    let outcome = link(&options, &case.inputs().expect("inputs"), 1).expect("threads");
    assert!(outcome.image.is_none());
    assert_eq!(
        lines(&outcome),
        [
            "fatal   : Input file 'a.cubin' cannot be linked: section '.nv.uft.rel.large' is a jump slot with a frame, \
          which the table of slots has no form for"
        ]
    );
}
