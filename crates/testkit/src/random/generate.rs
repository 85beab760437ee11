//! Random programs for the differential test.
//!
//! In: a seed and, optionally, a family and an architecture. Out: a [`model::GeneratedProgram`] of
//! several PTX files; for some families also edits of their compiled objects. Guaranteed: the same
//! seed gives the same program on every machine. Every program should pass `ptxas -c`; the caller
//! counts those that do not.

mod body;
mod build;
mod cuda;
mod dwarf;
mod fill;
mod mistakes;
pub mod mix;
pub mod model;
mod names;
pub mod ptx;
mod recent;
pub mod rng;
mod textures;
mod unified;

use crate::random::edit::{Edit, EditKind};
use mix::{FAMILIES, Mix, ProgramFamily};
use model::{GeneratedProgram, PtxArch};
use rng::Rng;

/// Choices of the caller; the seed decides for `None`.
#[derive(Clone, Copy, Debug, Default)]
pub struct GeneratorChoices {
    /// Name of a family.
    pub family: Option<&'static ProgramFamily>,
    /// Architecture of the link.
    pub arch: Option<PtxArch>,
    /// Every round has one edit of this kind.
    pub edit: Option<EditKind>,
    /// Only programs without edits and index files, which can be linked with any option.
    pub plain: bool,
}

/// The family of that name.
pub fn family(name: &str) -> Option<&'static ProgramFamily> {
    FAMILIES.iter().find(|family| family.name == name)
}

/// The program of a seed.
pub fn generate(seed: u64, choices: GeneratorChoices) -> GeneratedProgram {
    let mut rng = Rng::new(seed);
    let special = |mix: &Mix| mix.rounds > 0 || mix.unified_pc > 0;
    // An edit changes only one half of a file with Mercury code, which damages the file
    // (tests/bad_input.rs).
    let two_halves = choices.arch.is_some_and(|arch| arch.number() >= 100);
    let weight = |family: &ProgramFamily| {
        let barred = choices.plain && special(family.mix) || two_halves && family.mix.rounds > 0;
        if barred { 0 } else { family.weight }
    };
    let weights: Vec<u32> = FAMILIES.iter().map(weight).collect();
    // Drawn even if not needed, so that a choice of the caller does not change the rest of the
    // program.
    let drawn = &FAMILIES[rng.weighted(&weights).unwrap_or(0)];
    let arch = rng.pick(&PtxArch::ALL);
    let family = choices.family.unwrap_or(drawn);
    // Only newer architectures have unified functions.
    let arch =
        if family.mix.unified_pc > 0 && arch.number() < 90 { PtxArch("sm_90") } else { arch };
    let mut program = build::build(seed, family, choices.arch.unwrap_or(arch), &mut rng);
    for _ in 0..family.mix.mistakes {
        mistakes::add(&mut program, &mut rng);
    }
    unified::add(&mut program, family.mix, &mut rng);
    edit(&mut program, family.mix, choices.edit, &mut rng);
    cuda::without_debug(&mut program);
    if choices.plain {
        program.library = false;
        program.units.iter_mut().for_each(|unit| unit.whole_program = false);
    }
    program
}

/// Draws the edits of each round.
fn edit(program: &mut GeneratedProgram, mix: &Mix, only: Option<EditKind>, rng: &mut Rng) {
    let units: Vec<String> = program.units.iter().map(|unit| unit.name.clone()).collect();
    for _ in 0..mix.rounds {
        let count = if only.is_some() { 1 } else { rng.range(mix.edits.0, mix.edits.1) };
        program.rounds.push((0..count).filter_map(|_| Edit::draw(&units, only, rng)).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_names_one_program() {
        for seed in 0..50 {
            assert_eq!(
                generate(seed, GeneratorChoices::default()),
                generate(seed, GeneratorChoices::default())
            );
        }
    }

    #[test]
    fn every_family_prints() {
        for family in FAMILIES {
            let program = generate(
                3,
                GeneratorChoices { family: Some(family), ..GeneratorChoices::default() },
            );
            assert!(program.units.len() >= 2, "{}", family.name);
            for unit in &program.units {
                let mark = if family.mix.cuda { "__device__" } else { ".address_size 64" };
                assert!(ptx::print(&program, unit).contains(mark));
            }
        }
    }
}
