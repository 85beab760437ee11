//! Objects made with `-r --preserve-relocs` are linked like those made without: nvlink ignores
//! records that were applied.
//!
//! In: recorded cases (testdata/cases). Out: no report, or the links that differ. Guaranteed: some
//! objects do have such tables.

use culd_cubin::Cubin;
use culd_cubin::arch::{Arch, Flavour};
use culd_cubin::elf::sht;
use culd_testkit::fixtures::case;
use culd_tests::{lines, link, link_options};

type ObjectInputs = Vec<(String, Vec<u8>)>;

fn linked(arguments: &[&str], inputs: &ObjectInputs) -> Vec<u8> {
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    let outcome = link(&link_options(&arguments).expect("options"), inputs, 1).expect("a link");
    let lines = lines(&outcome);
    outcome.image.unwrap_or_else(|| panic!("{lines:?}"))
}

/// Names and bytes of all sections but the tool note, which has the options.
fn contents(image: &[u8]) -> Vec<(String, Vec<u8>)> {
    let cubin = Cubin::parse(image).expect("a cubin");
    let own = |name: &[u8]| name == b".note.nv.tkinfo";
    let others = cubin.sections.iter().filter(|section| !own(section.name));
    others.map(|s| (String::from_utf8_lossy(s.name).into_owned(), s.data.to_vec())).collect()
}

#[test]
fn tables_of_applied_relocations_are_passed_over() {
    let cases = case::all().expect("the cases");
    // Without targets with Mercury code, for which --preserve-relocs is refused.
    let plain = cases.iter().filter(|case| {
        case.recipe.args.is_empty()
            && case.recipe.release.is_none()
            && Arch::by_name(&case.recipe.arch).is_some_and(|arch| arch.flavour == Flavour::Classic)
            && case.expect().is_ok_and(|expect| expect.status == 0)
    });
    let mut tables = 0;
    for case in plain.take(60) {
        let inputs = case.inputs().expect("inputs");
        let arguments = case.arguments();
        let arch = arguments.first().expect("an architecture").as_str();
        let object = |options: &[&str]| {
            let bytes = linked(&[&[arch, "-r"], options].concat(), &inputs);
            vec![("object.cubin".to_owned(), bytes)]
        };
        let (plain, preserved) = (object(&[]), object(&["--preserve-relocs"]));
        let sections = Cubin::parse(&preserved[0].1).expect("an object").sections;
        tables +=
            sections.iter().filter(|section| section.sh_type == sht::CUDA_RESOLVED_RELA).count();
        let program = |objects| contents(&linked(&[arch], objects));
        assert_eq!(program(&plain), program(&preserved), "{}", case.name);
    }
    assert!(tables > 0, "no object has a table");
}
