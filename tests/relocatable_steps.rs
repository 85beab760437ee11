//! Programs linked in one step and in several are the same, and so are programs of objects and
//! compiled files.
//!
//! In: the recorded cases (testdata/cases) that link. Out: one test for each. Guaranteed: no
//! reference tool is needed; `cargo xtask compare corpus --steps` does the same with nvlink, too.

use anyhow::{Context, Result, bail};
use culd_testkit::fixtures::case::{self, Case};
use culd_testkit::reference::compare::steps::{faithful, groupings, makes_program};
use culd_testkit::reference::program::{Objects, ProgramText};
use culd_tests::{case_options, link, run_trials};
use libtest_mimic::Trial;
use std::process::ExitCode;

fn main() -> ExitCode {
    run_trials("steps", trials)
}

fn trials() -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    for case in case::all()? {
        if case.expect()?.status == 0
            && makes_program(&case.recipe.args)
            && case.recipe.one_step.is_none()
            && makes_objects(&case)?
        {
            let name = case.name.clone();
            let check = move || check(&case).map_err(|error| format!("{error:#}").into());
            trials.push(Trial::test(name, check));
        }
    }
    trials.push(Trial::test("a whole program among files it cannot be linked with", || {
        refused_in_steps("errors/placed-already-75").map_err(|error| format!("{error:#}").into())
    }));
    Ok(trials)
}

/// True if `-r` makes objects by the rules of the case's release: before 13.0 it makes a program.
fn makes_objects(case: &Case) -> Result<bool> {
    Ok(case_options(case, &case.arguments())?.dialect.makes_objects)
}

/// A case whose link is refused is also refused if an object of the first file is linked with the
/// others: the code of its kernels has the places of their own shared variables.
fn refused_in_steps(case: &str) -> Result<()> {
    let case = case::named(case)?;
    let mut inputs = case.inputs()?;
    let last = case.arguments();
    let one = link(&case_options(&case, &last)?, &inputs, 1)?;
    let step: Vec<String> = ["-r".to_owned()].into_iter().chain(last.clone()).collect();
    let whole = inputs
        .iter()
        .position(|(_, bytes)| bytes.get(16..18) == Some(&[0x00, 0xff]))
        .context("no whole program")?;
    let object = link(&case_options(&case, &step)?, &inputs[whole..=whole], 1)?;
    inputs[whole].1 = object.image.with_context(|| format!("{:?}", object.diagnostics))?;
    let two = link(&case_options(&case, &last)?, &inputs, 1)?;
    let lines = |messages: &[culd_link::LinkDiagnostic]| {
        let lines = messages.iter().map(|line| line.message.to_string());
        lines.filter(|line| line.contains("partially linked kernel")).collect::<Vec<_>>()
    };
    // Not for kernels without their own shared variables.
    let (mut one, two_lines) = (lines(&one.diagnostics), lines(&two.diagnostics));
    one.retain(|line| !line.contains("'third'"));
    if one.is_empty() || two.image.is_some() || two_lines != one {
        bail!("{one:?} in one step, {two_lines:?} in two");
    }
    Ok(())
}

fn check(case: &Case) -> Result<()> {
    let inputs = case.inputs()?;
    let bytes: Vec<Vec<u8>> = inputs.iter().map(|(_, bytes)| bytes.clone()).collect();
    let objects = Objects::parse(&bytes)?;
    let last = case.arguments();
    let step: Vec<String> = ["-r".to_owned()].into_iter().chain(last.clone()).collect();
    let image = |arguments: &[String], inputs: &[(String, Vec<u8>)]| {
        let outcome = link(&case_options(case, arguments)?, inputs, 1)?;
        outcome.image.with_context(|| format!("{:?}", outcome.diagnostics))
    };
    let one = ProgramText::read(&image(&last, &inputs)?, &objects).context("one step")?;
    for grouping in groupings(inputs.len()).into_iter().take(faithful(&objects)) {
        let mut made = Vec::new();
        for group in &grouping {
            let files: Vec<_> = group.iter().filter_map(|&at| inputs.get(at).cloned()).collect();
            made.push((format!("{group:?}.cubin"), image(&step, &files).context("an object")?));
        }
        let linked = image(&last, &made).with_context(|| format!("{grouping:?}"))?;
        let several =
            ProgramText::read(&linked, &objects).with_context(|| format!("{grouping:?}"))?;
        if let Some(difference) = one.difference(&several) {
            bail!("{grouping:?}: {difference}");
        }
    }
    // One object among compiled files, in the place of its file.
    for at in [0, inputs.len() - 1] {
        let object = image(&step, &inputs[at..=at]).context("an object")?;
        let mut made = inputs.clone();
        made[at] = (format!("[{at}].cubin"), object);
        let linked = image(&last, &made).with_context(|| format!("an object of file {at}"))?;
        let program = ProgramText::read(&linked, &objects);
        let program = program.with_context(|| format!("an object of file {at}"))?;
        if let Some(difference) = one.difference(&program) {
            bail!("an object of file {at}: {difference}");
        }
    }
    Ok(())
}
