//! Kernels without references from host code are left out.
//!
//! In: a recorded case, and lists as in host objects. Out: no report, or the wrong kernels.
//! nvlink's results for such lists were compared with generated programs in host objects
//! (docs/LINKING.md, kernel selection).

use culd_cubin::Cubin;
use culd_link::{HostReferences, Selection};
use culd_testkit::fixtures::case;
use culd_tests::{link, link_options};

const CASE: &str = "selection/kernels-used";

fn linked(selection: Selection) -> Vec<u8> {
    let case = case::named(CASE).expect("the recorded case");
    let mut options = link_options(&["-arch=sm_90".to_owned()]).expect("options");
    options.selection = selection;
    let outcome = link(&options, &case.inputs().expect("inputs"), 1).expect("threads");
    outcome.image.expect("it links")
}

fn kernels(image: &[u8]) -> Vec<String> {
    let cubin = Cubin::parse(image).expect("a cubin");
    let entries = cubin.symbols.iter().filter(|symbol| symbol.is_entry());
    let mut names: Vec<String> =
        entries.map(|symbol| String::from_utf8_lossy(symbol.name).into_owned()).collect();
    names.sort();
    names
}

fn host(external: &[&str], internal: &[&str]) -> Selection {
    let list = |names: &[&str]| names.join("\0").into_bytes();
    Selection::Host(HostReferences {
        external: list(external),
        internal: list(internal),
        ..HostReferences::default()
    })
}

#[test]
fn whole_names_count() {
    let image = linked(host(&["keep_me_1", "_Z5*", "other", "*las"], &[]));
    assert_eq!(kernels(&image), ["_Z5otherPj", "keep_me_1"]);
}

#[test]
fn patterns_for_internal_kernels_name_no_external_one() {
    assert_eq!(kernels(&linked(host(&["the_*"], &["keep*", "another"]))), ["the_last"]);
}

#[test]
fn every_kernel_that_is_left_out_leaves_the_name_of_its_shared_section() {
    let image = linked(host(&["the_last"], &[]));
    let cubin = Cubin::parse(&image).expect("a cubin");
    let strings = cubin.section_by_name(b".shstrtab").expect("a string table").data;
    let names = strings.split(|&byte| byte == 0);
    let mut left: Vec<&[u8]> = names.filter_map(|name| name.strip_prefix(b".nv.shared.")).collect();
    left.sort();
    let all: [&[u8]; 6] =
        [b"_Z5otherPj", b"another", b"dropped", b"keep_me_1", b"keep_me_2", b"the_last"];
    assert_eq!(left, all);
}

/// What nvlink does with the references if it has made them options of the compiler of LTO-IR
/// (`cargo xtask compare lto --family host`, *child.o*).
#[test]
fn known_first_they_leave_the_traces_of_an_option() {
    let mut selection = host(&["the_last"], &[]);
    let late = linked(selection.clone());
    let Selection::Host(references) = &mut selection else { unreachable!("as made") };
    references.known_first = true;
    let named = Selection::Named { kernels: vec![b"the_last".to_vec()], variables: Vec::new() };
    let image = linked(selection);
    assert_eq!(image, linked(named));
    assert_ne!(image, late);
}

#[test]
fn without_a_selection_all_stay() {
    assert_eq!(kernels(&linked(Selection::All)).len(), 6);
}
