//! Code that tools insert into other programs (`-astoolspatch`, docs/DIALECTS.md).
//!
//! In: the objects of a recorded case, unchanged, and with the mark of ptxas 13.3 and later for
//! patches. Out: every function of marked objects, as with `-g -suppress-debug-info`, or the line
//! about the first without a mark.

use culd_cubin::attr::code;
use culd_cubin::build::object::{AttributePayload, ObjectAttribute, ObjectBuilder, SectionContent};
use culd_link::DIALECTS;
use culd_testkit::fixtures::case;
use culd_tests::{case_options, lines, link};

const CASE: &str = "deadcode/functions-lines-90";

/// The same object with the mark in the list of each function.
fn marked(object: &[u8]) -> Vec<u8> {
    let mut object = ObjectBuilder::parse(object).expect("an object");
    let lists = object.sections().filter(|(_, section)| section.name.starts_with(b".nv.info."));
    let lists: Vec<_> = lists.map(|(list, _)| list).collect();
    for list in lists {
        let section = object.section_mut(list).expect("a list");
        let SectionContent::Attributes(attributes) = &mut section.contents else {
            panic!("attributes")
        };
        attributes.push(ObjectAttribute {
            code: code::TOOLS_PATCH_FUNC,
            value: AttributePayload::None(0),
        });
    }
    object.finish().expect("an object")
}

#[test]
fn patches_stay_whole() {
    let case = case::named(CASE).expect("the recorded case");
    let mut inputs = case.inputs().expect("inputs");
    inputs.iter_mut().for_each(|(_, object)| *object = marked(object));
    let mut options = case_options(&case, &case.arguments()).expect("options");
    let plain = link(&options, &inputs, 1).expect("threads").image.expect("a program");
    options.tools_patch = true;
    let patched = link(&options, &inputs, 1).expect("threads").image.expect("a program");
    (options.tools_patch, options.debug, options.suppress_debug_info) = (false, true, true);
    let whole = link(&options, &inputs, 1).expect("threads").image.expect("a program");
    assert!(patched == whole && patched != plain);
}

#[test]
fn what_has_no_mark_is_refused() {
    let case = case::named(CASE).expect("the recorded case");
    let inputs = case.inputs().expect("inputs");
    let mut options = case_options(&case, &case.arguments()).expect("options");
    options.tools_patch = true;
    let first = DIALECTS.iter().position(|dialect| dialect.toolkit == 133).expect("13.3");
    for (dialect, option) in DIALECTS[first..].iter().zip(["--", "-", "-"]) {
        options.dialect = dialect;
        let outcome = link(&options, &inputs, 1).expect("threads");
        let line = format!(
            "fatal   : Function 'k' in 'a.cubin' is missing EIATTR_TOOLS_PATCH_FUNC attribute required by \
             {option}astoolspatch option"
        );
        assert_eq!(lines(&outcome), [line]);
        assert!(outcome.image.is_none());
    }
}
