//! `xtask uidx OBJECT...`: writes an index file for the unified functions and variables of objects.

use crate::args::Args;
use anyhow::{Context, Result};
use culd_testkit::fixtures::uidx::{TableOrder, for_objects};
use std::fs;
use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask uidx [--forward] [--version N] --out FILE OBJECT...
  writes FILE for '-uidx FILE' with places for all unified functions and variables of the objects,
  the last one met first, or with --forward the first one";

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    if args.flag("--help") {
        println!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    let order = if args.flag("--forward") { TableOrder::Forward } else { TableOrder::Reversed };
    let version = args.option("--version")?;
    let out: String = args.option("--out")?.context("--out is missing")?;
    let read = |name: &String| fs::read(name).with_context(|| name.clone());
    let objects: Vec<Vec<u8>> = args.operands()?.iter().map(read).collect::<Result<_>>()?;
    let mut uidx = for_objects(&objects, order)?;
    uidx.version = version.unwrap_or(uidx.version);
    fs::write(&out, uidx.bytes()).with_context(|| out.clone())?;
    Ok(ExitCode::SUCCESS)
}
