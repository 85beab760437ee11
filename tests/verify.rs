//! `--verify`: the outputs of both linkers are sound by an independent reader, and damage to one is
//! reported.
//!
//! In: the recorded cases. Out: no report, or the faults. Guaranteed: each invariant has a damage
//! that breaks it.

use culd::Arch;
use culd::cubin::build::{Builder, Code, Linkage};
use culd_driver::verify;
use culd_testkit::fixtures::case;
use culd_testkit::random::generate::rng::Rng;
use culd_testkit::random::mutate::damage_file;
use culd_tests::crafted::with_older_header;
use culd_tests::elf::*;
use culd_tests::{case_options, command, link, link_options};
use std::fs;
use std::path::Path;

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");
/// Has every kind of section.
const CASE: &str = "headers-and-order/every-section-90";

#[test]
fn the_outputs_of_both_linkers_are_sound() {
    let mut checked = 0;
    let mut unsound = Vec::new();
    for case in case::all().expect("the cases") {
        let Some(expected) = case.expected_output().expect("recorded") else { continue };
        unsound
            .extend(verify(&expected).err().map(|what| format!("{}, nvlink: {what}", case.name)));
        let options = case_options(&case, &case.arguments()).expect("options");
        match link(&options, &case.inputs().expect("inputs"), 1) {
            Ok(outcome) => assert!(outcome.image.is_some(), "{} does not link", case.name),
            Err(what) => unsound.push(format!("{}: {what:#}", case.name)),
        }
        checked += 1;
    }
    assert!(unsound.is_empty(), "{}", unsound.join("\n"));
    assert!(checked > 100, "only {checked} outputs");
}

/// CUDA 12.0 to 12.2 write 5 for the symbol table, also into files that end in front of section 5.
#[test]
fn an_old_number_of_the_symbol_table_names_a_section_that_may_be_missing() {
    let mut builder = Builder::new(Arch::by_name("sm_80").unwrap());
    let function = builder.function("unused", Linkage::Global);
    builder.define(function, Code::new([0; 16]));
    let object = builder.finish().expect("an object");
    let object = with_older_header(object, 121, 0x0050_0550);
    let words = ["-arch=sm_80", "--dialect=12.1"].map(str::to_owned);
    let options = link_options(&words).expect("options");
    let linked = link(&options, &[("a.cubin".to_owned(), object)], 1).expect("threads");
    let image = linked.image.expect("a program");
    assert!(u16::from_le_bytes([image[60], image[61]]) <= 5, "it has a section 5");
    assert_eq!(verify(&image), Ok(()));
}

/// What is damaged, how, and the message.
type ImageDamage = (&'static str, fn(&mut Editor), &'static str);

#[rustfmt::skip]
const DAMAGES: &[ImageDamage] = &[
    ("machine", |e| { e.header((18, 2), 62); }, "machine: 62, not 190"),
    ("header size", |e| { e.header((52, 2), 60); }, "size of the file header: 60, not 64"),
    ("section past the end", |e| { e.section(".text.first", SH_OFFSET, 0x10_0000); }, "the file at"),
    ("sections overlap", |e| { let at = e.content(".text.first").start as u64; e.section(".nv.constant3", SH_OFFSET, at); }, "overlaps section"),
    ("section in the file header", |e| { e.section(".nv.constant3", SH_OFFSET, 0); }, "the file header at 0x0 overlaps"),
    ("odd place", |e| { let at = e.content(".text.first").start as u64; e.section(".text.first", SH_OFFSET, at + 4); }, "is not aligned to 0x80"),
    ("alignment is no power of two", |e| { e.section(".text.first", SH_ADDRALIGN, 24); }, "is no power of two"),
    ("no string table", |e| { let text = e.section_index(".text.first") as u64; e.section(".symtab", SH_LINK, text); }, "sh_link names no string table"),
    ("sh_info of attributes", |e| { e.section(".nv.info.first", SH_INFO, 0x7fff); }, "sh_info 32767 names no section"),
    ("half a symbol", |e| { e.section(".symtab", SH_SIZE, 24 * 3 + 8); }, "are no whole entries"),
    ("symbol in no section", |e| { e.symbol("counter", ST_SHNDX, 0x7fff); }, "is in section 32767, which does not exist"),
    ("symbol without a name", |e| { e.symbol("counter", ST_NAME, 0x7fff_ffff); }, "symbol "),
    ("symbol outside its section", |e| { e.symbol("counter", ST_VALUE, 0x1_0000); }, "is not inside section"),
    ("symbol larger than its section", |e| { e.symbol("counter", ST_SIZE, 0x1_0000); }, "is not inside section"),
];

#[test]
fn damage_is_reported() {
    let good = case::named(CASE).and_then(|case| case.expected_output());
    let good = good.expect("recorded").expect("an output");
    for (what, damage, message) in DAMAGES {
        let mut editor = Editor::new(&good);
        damage(&mut editor);
        let error = verify(&editor.bytes).expect_err(what);
        assert!(error.contains(message), "{what}: {error}");
    }
    for end in [0, 3, 64, good.len() / 2, good.len() - 1] {
        verify(&good[..end]).expect_err("cut short");
    }
}

#[test]
fn any_damage_is_refused_in_words() {
    let good = case::named(CASE).and_then(|case| case.expected_output());
    let good = good.expect("recorded").expect("an output");
    let refused = (0..20_000).filter(|&seed| {
        let mut bytes = good.clone();
        damage_file(&mut bytes, &mut Rng::new(seed));
        verify(&bytes).is_err()
    });
    let refused = refused.count();
    assert!(refused > 5000, "only {refused} of 20000 were refused");
}

#[test]
fn the_command_verifies_files_and_devices() {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, bytes) in case::named(CASE).and_then(|case| case.inputs()).expect("inputs") {
        fs::write(dir.path().join(name), bytes).expect("written");
    }
    for output in ["out.cubin", "/dev/null"] {
        let words = ["-arch=sm_90", "--verify", "a.cubin", "b.cubin", "-o", output];
        let run = command(Path::new(CULD), "culd", &words.map(str::to_owned), dir.path());
        let run = run.expect("runs");
        assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{output}");
    }
    verify(&fs::read(dir.path().join("out.cubin")).expect("an output")).expect("sound");
}
