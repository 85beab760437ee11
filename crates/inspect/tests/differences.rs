//! culd-diff reports each small change of a file in one line.

use culd_inspect::diff::{self, DiffOptions, DiffReport};
use culd_inspect::text;
use culd_inspect::view::View;
use culd_testkit::fixtures::asm;

#[allow(dead_code, reason = "other tests use the rest")]
mod common;

fn compare(a: &[u8], b: &[u8], tool: bool) -> DiffReport {
    let (a, b) = (View::parse(a).unwrap(), View::parse(b).unwrap());
    diff::compare(&a, &b, DiffOptions { tool })
}

fn lines(difference: &DiffReport) -> Vec<&str> {
    difference.groups.iter().flat_map(|group| &group.lines).map(String::as_str).collect()
}

/// A recorded linked file, and the same with `from` replaced by `to` in its text.
fn edited(name: &str, from: &str, to: &str) -> (Vec<u8>, Vec<u8>) {
    let original = common::data(name);
    let text = text::dump(&View::parse(&original).unwrap(), &text::DumpOptions::default());
    assert_eq!(text.matches(from).count(), 1, "{from}");
    let other = asm::assemble(&text.replace(from, to));
    (original, other.unwrap_or_else(|error| panic!("{from}: {error}")))
}

#[test]
fn every_kind_of_change_has_its_key() {
    let cases: [(&str, &str, &[&str]); 14] = [
        ("type=exec sm=90", "type=exec sm=89", &["header  flags.sm  90 != 89"]),
        (
            "section .nv.shared.kernel nobits flags=write+alloc+info align=16",
            "section .nv.shared.kernel nobits flags=write+alloc+info align=4",
            &["section.align  .nv.shared.kernel  16 != 4"],
        ),
        (
            "info=.text.kernel size=0x518",
            "info=.text.kernel size=0x510",
            &["section.size  .nv.shared.kernel  0x518 != 0x510"],
        ),
        (
            "align=128 symbol=twice",
            "align=128 symbol=kernel",
            &["section.info  .text.twice  twice != kernel"],
        ),
        (
            "global object counter in=.nv.global.init value=0x8",
            "weak object counter in=.nv.global.init value=0x10",
            &["symbol.binding  counter  global != weak", "symbol.value  counter  0x8 != 0x10"],
        ),
        (
            "global func vprintf\n",
            "global func vprintf in=.text.kernel\n",
            &["symbol.section  vprintf  undef != .text.kernel"],
        ),
        (
            "  REGCOUNT words kernel 0x24",
            "  REGCOUNT words kernel 0x18",
            &["attr  .nv.info REGCOUNT kernel  words kernel 0x24 != words kernel 0x18"],
        ),
        (
            "  NUM_BARRIERS byte 0x1\nsection .nv.info.helper",
            "  NUM_BARRIERS byte 0x2\nsection .nv.info.helper",
            &["attr  .nv.info.kernel NUM_BARRIERS  byte 0x1 != byte 0x2"],
        ),
        (
            "  kernel vprintf\n  kernel helper\n",
            "  kernel helper\n  kernel vprintf\n",
            &["callgraph.order  .nv.callgraph [-1] kernel -> vprintf  \
               after twice -> helper@2 != after kernel -> helper"],
        ),
        (
            "  0x00c0 R_CUDA_ABS55_16_34 twice\n",
            "  0x00c0 R_CUDA_ABS55_16_34 helper +0x10\n",
            &[
                "reloc.symbol  .rela.text.kernel+0xc0  twice != helper",
                "reloc.addend  .rela.text.kernel+0xc0  +0x0 != +0x10",
            ],
        ),
        (
            "cuinfo version=2 sm=75",
            "cuinfo version=2 sm=80",
            &["note  .note.nv.cuinfo type 1000  \
               0c00000008000000e80300004e564944494120436f72700002004b0082000000 != \
               0c00000008000000e80300004e564944494120436f7270000200500082000000"],
        ),
        (
            "end=.nv.global.init memory=0x570",
            "end=.nv.global.init memory=0x580",
            &["segment.bss  load (no. 2)  0x560 != 0x570"],
        ),
        (
            "  0x0000 01000000 02000000 03000000 04000000",
            "  0x0000 01000000 02000000 03000000 05000000",
            &["bytes  .nv.constant3+0x0  \
               01000000020000000300000004000000 != 01000000020000000300000005000000"],
        ),
        (
            "type=exec sm=90\n",
            "type=exec sm=90 size=0x2440\n",
            &["text  file type=exec sm=90 != file type=exec sm=90 size=0x2440"],
        ),
    ];
    for (from, to, expected) in cases {
        let (original, other) = edited("linked.90.cubin", from, to);
        assert_eq!(lines(&compare(&original, &other, false)), expected, "{from}");
    }
}

#[test]
fn missing_and_extra_records_are_named() {
    let line = "  0x00c0 R_CUDA_ABS55_16_34 twice\n";
    let (original, other) = edited("linked.90.cubin", line, "");
    let difference = compare(&original, &other, false);
    let missing = "reloc.missing  .rela.text.kernel+0xc0  \
                   type=R_CUDA_ABS55_16_34 symbol=twice addend=+0x0";
    assert!(lines(&difference).contains(&missing), "{difference:?}");
    let difference = compare(&other, &original, false);
    assert!(lines(&difference).contains(&missing.replace("missing", "extra").as_str()));
}

#[test]
fn the_linkers_own_record_counts_on_request_only() {
    // Same size: nothing moves.
    let (original, other) = edited("linked.90.cubin", "name=nvlink", "name=culink");
    assert!(compare(&original, &other, false).is_empty());
    let difference = compare(&original, &other, true);
    assert!(lines(&difference)[0].starts_with("note.missing  .note.nv.tkinfo tool nvlink"));
    // The records behind it count always.
    let original = common::data("linked.90.cubin");
    let text = text::dump(&View::parse(&original).unwrap(), &text::DumpOptions::default());
    let other = asm::assemble(&text.replacen("name=ptxas", "name=ptxos", 1)).unwrap();
    assert!(!compare(&original, &other, false).is_empty());
}

#[test]
fn a_file_is_equal_to_itself_and_to_no_other() {
    let names = ["main.75", "main.90", "linked.75", "linked.90", "reversed.90", "partial.90"];
    let files = names.map(|name| common::data(&format!("{name}.cubin")));
    for (i, a) in files.iter().enumerate() {
        for (j, b) in files.iter().enumerate() {
            let difference = compare(a, b, true);
            assert_eq!(difference.is_empty(), i == j, "{} {}", names[i], names[j]);
        }
    }
}

#[test]
fn long_groups_are_cut_with_a_count() {
    let (a, b) = (common::data("linked.90.cubin"), common::data("reversed.90.cubin"));
    let difference = compare(&a, &b, false);
    let group = difference.groups.iter().find(|group| group.name == "bytes").unwrap();
    let mut text = String::new();
    difference.write(&mut text, 2).unwrap();
    assert!(text.contains(&format!("bytes: {} more\n", group.lines.len() - 2)));
    assert!(text.lines().count() <= 3 * difference.groups.len());
}

/// The Mercury half of a file of sm_100, by its own names.
#[test]
fn changes_of_mercury_sections_have_their_keys() {
    let cases = [
        (
            "  code .text.twice\n",
            "  code .text.kernel\n",
            "record  .nv.capmerc.text.twice code  .text.twice != .text.kernel",
        ),
        (
            "  0x00b0 elided\n  0x00c0 full 02222806 f8004101 00000105",
            "  0x00b0 elided\n  0x00c0 full 02222806 f8004101 00000106",
            "record.bytes  .nv.capmerc.text.twice+0xc0",
        ),
        (
            "global func kernel in=.nv.capmerc.text.kernel size=0x6d0",
            "global func kernel in=.nv.capmerc.text.kernel size=0x6e0",
            "symbol.size  mercury kernel  0x6d0 != 0x6e0",
        ),
        (
            "info=.nv.capmerc.text.kernel\n  EXIT_INSTR_OFFSETS words 0x6c0",
            "info=.nv.capmerc.text.kernel\n  EXIT_INSTR_OFFSETS words 0x6b0",
            "attr  .nv.merc.nv.info.kernel EXIT_INSTR_OFFSETS  words 0x6c0 != words 0x6b0",
        ),
        (
            "symtab flags=mercury align=8",
            "symtab flags=mercury align=4",
            "section.align  .nv.merc.symtab  8 != 4",
        ),
    ];
    for (from, to, expected) in cases {
        let (a, b) = edited("linked.100.cubin", from, to);
        let difference = compare(&a, &b, false);
        let lines = lines(&difference);
        assert!(lines.len() == 1 && lines[0].starts_with(expected), "{lines:#?}");
    }
}
