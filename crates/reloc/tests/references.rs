//! What nvlink 13.0.88 did with a record of every type against a texture, sampler or surface
//! reference.

use culd_reloc::{CUDA, Observed, ReferenceTreatment};

/// One letter for each type, thirty a line: s slot, 0 zero, k kept, p "PC relative branch address
/// should be in the same section", - what cannot be followed (crash, bank that does not exist,
/// empty record). Recorded from links of one kernel for sm_80 and sm_90 with the type of one record
/// edited.
const OBSERVED: [&str; 4] = [
    "kkkkkskkkkkkskk00ss000ssss000s",
    "s-------ssppskk0s---sskksskkks",
    "0---sssk00kk--0kkkkkkkkkkkkkkk",
    "kkkkkkkkkk0kkkkkkkkkkkkkksk",
];

#[test]
fn every_type_is_taken_as_nvlink_takes_it() {
    let letters: Vec<char> = OBSERVED.iter().flat_map(|line| line.chars()).collect();
    assert_eq!(letters.len(), CUDA.len());
    for (row, letter) in CUDA.iter().zip(letters) {
        if row.is_pc_relative() || row.unified.is_some() {
            // Decided before: the message of its own, and the type it is rewritten to.
            assert_eq!(letter, if row.is_pc_relative() { 'p' } else { 'k' }, "{}", row.name);
            continue;
        }
        let expected = match letter {
            's' => ReferenceTreatment::Slot,
            '0' => ReferenceTreatment::Zero,
            'k' => ReferenceTreatment::Kept,
            _ => ReferenceTreatment::Unsafe,
        };
        assert_eq!(row.against_reference(), expected, "{}", row.name);
        assert!(letter != 'k' || row.observed != Observed::FunctionOnly, "{}", row.name);
    }
}
