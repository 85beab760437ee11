//! The proofs that the relocation tables name exist: recorded cases with a record of the type.

use std::collections::{HashMap, HashSet};

use culd_cubin::Cubin;
use culd_reloc::{CUDA, MERCURY, Proof};
use culd_testkit::fixtures::case;

/// The relocation types of the inputs of a case.
fn types(case: &case::Case) -> HashSet<u32> {
    let inputs = case.recipe.inputs.iter();
    let files = inputs.map(|stem| case::assemble(&case.dir.join(format!("{stem}.cubin.txt"))));
    let mut types = HashSet::new();
    for file in files {
        let bytes = file.expect("an input of a recorded case assembles");
        let cubin = Cubin::parse(&bytes).expect("an input of a recorded case is a cubin");
        for section in &cubin.sections {
            types.extend(section.relocations().iter().map(|record| record.kind));
        }
    }
    types
}

#[test]
fn every_row_is_in_the_case_that_proves_it() {
    let cases = case::all().expect("the recorded cases can be read");
    let mut seen: HashMap<&str, HashSet<u32>> = HashMap::new();
    for row in CUDA.iter().chain(&MERCURY) {
        let Proof::Case(name) = row.proof else { continue };
        let types = seen.entry(name).or_insert_with(|| {
            let case = cases.iter().find(|case| case.name == name);
            types(case.unwrap_or_else(|| panic!("{}: no recorded case {name}", row.name)))
        });
        assert!(types.contains(&row.code.0), "case {name} has no record of type {}", row.name);
    }
}
