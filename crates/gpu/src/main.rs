//! `culd-gpu`: see [`culd_gpu`].
#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail};
use culd_gpu::check::{CheckFolders, GpuRunEnd, run, run_one};
use culd_gpu::driver::LIBRARY;
use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
usage: culd-gpu FOLDER [--libcuda PATH]
Runs the linked programs of FOLDER on the first GPU and compares what they compute with what they mean.
Exit status: 0 all right, 1 something wrong, 77 there is no GPU.";

fn main() -> ExitCode {
    match start() {
        Ok(GpuRunEnd::Passed) => ExitCode::SUCCESS,
        Ok(GpuRunEnd::Failed) => ExitCode::FAILURE,
        Ok(GpuRunEnd::Skipped) => ExitCode::from(77),
        Err(error) => {
            eprintln!("culd-gpu: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn start() -> Result<GpuRunEnd> {
    let mut words = env::args().skip(1);
    let (mut folder, mut libcuda, mut only) = (None, PathBuf::from(LIBRARY), None);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--help" => {
                println!("{HELP}");
                return Ok(GpuRunEnd::Passed);
            }
            "--libcuda" => libcuda = words.next().context("--libcuda PATH")?.into(),
            // How this program starts itself.
            "--only" => {
                let number = words.next().and_then(|number| number.parse::<usize>().ok());
                only = Some((
                    number.context("--only NUMBER LINKER")?,
                    words.next().context("--only NUMBER LINKER")?,
                ));
            }
            _ if folder.is_none() && !word.starts_with('-') => folder = Some(PathBuf::from(word)),
            _ => bail!("'{word}' is not known\n{HELP}"),
        }
    }
    let place = CheckFolders { folder: folder.context(HELP)?, libcuda };
    match only {
        Some((number, by)) => run_one(&place, number, &by).map(|()| GpuRunEnd::Passed),
        None => run(&place, &env::current_exe()?),
    }
}
