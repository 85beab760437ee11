//! `xtask scale NAME`: writes the inputs of a benchmark case into a folder.

use crate::args::Args;
use crate::workspace;
use anyhow::{Context, Result};
use culd_testkit::scale::{CASES, ScaleInputs, case, generate};
use std::fs;
use std::path::Path;
use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask scale NAME [--arch SM] [--out DIR]
  writes m000000.cubin … and link.opt (for 'nvlink -optf link.opt') into DIR (default <target>/scale/NAME)";

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let help = args.flag("--help");
    let arch = args.option("--arch")?.unwrap_or_else(|| "sm_90".to_owned());
    let out = args.option::<String>("--out")?;
    let names = args.operands()?;
    let [name] = names.as_slice() else { return usage(help) };
    let Some(case) = case(name) else { return usage(help) };
    let dir = out.map_or_else(|| workspace::target().join("scale").join(name), Into::into);
    let ScaleInputs { files, bytes } = generate(&workspace::oracle()?, case, &arch, &dir)?;
    write_list(&dir, &files)?;
    println!("{}: {} files, {bytes} bytes", dir.display(), files.len());
    Ok(ExitCode::SUCCESS)
}

fn write_list(dir: &Path, files: &[String]) -> Result<()> {
    let list: String = files.iter().map(|file| format!("{}\n", dir.join(file).display())).collect();
    fs::write(dir.join("link.opt"), list).context("cannot write link.opt")
}

fn usage(asked: bool) -> Result<ExitCode> {
    println!("{HELP}\n");
    for case in CASES {
        println!("  {:10} {}", case.name, case.what);
    }
    Ok(if asked { ExitCode::SUCCESS } else { ExitCode::from(2) })
}
