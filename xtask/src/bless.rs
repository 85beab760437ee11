//! `xtask bless`: records the cases of `testdata/cases` with the reference tools.
//!
//! In: cases ([`culd_testkit::fixtures::case`]) and their sources. Out: inputs and expectations as
//! text. Guaranteed: a text is written only if it assembles to the same bytes. With `--check`
//! nothing is written, and a recorded text that differs from the tools' output fails.

use crate::args::Args;
use crate::workspace;
use anyhow::{Context, Result, bail};
use culd_testkit::fixtures::case::{self, Case, EXPECTED, ExpectedEnd};
use culd_testkit::reference::oracle::process::{self, Status};
use culd_testkit::reference::oracle::{self, Oracle, Release};
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

const HELP: &str = "\
usage: cargo xtask bless [options] [topic | topic/case]...
  --check   write nothing; exit 1 when the tools do not confirm what is recorded

Needs ptxas, nvcc and nvlink 13.0.88, and those of the release that a case names, which are installed from PyPI on first
use.";

const LINK_LIMIT: Duration = Duration::from_secs(60);

struct BlessPlan {
    check: bool,
    oracle: Oracle,
}

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    if args.flag("--help") {
        println!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    let check = args.flag("--check");
    let selection = args.operands()?;
    let cases = select(case::all()?, &selection)?;
    let mut stale = 0;
    for case in &cases {
        let release = match &case.recipe.release {
            Some(name) => name.parse()?,
            None => Release::usual(),
        };
        let oracle = workspace::oracle_of(release)
            .context("cases are recorded with the reference tools only")?;
        let plan = BlessPlan { check, oracle };
        let changed = one(&plan, case).with_context(|| case.name.clone())?;
        for file in &changed {
            println!("{}/{file}: {}", case.name, if check { "not confirmed" } else { "written" });
        }
        stale += usize::from(!changed.is_empty());
    }
    let what = if check { "not confirmed" } else { "changed" };
    println!("{} cases, {stale} {what}", cases.len());
    Ok(if check && stale != 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The cases in `selection`, by name or start of the name.
fn select(mut cases: Vec<Case>, selection: &[String]) -> Result<Vec<Case>> {
    cases.retain(|case| case::is_chosen(&case.name, selection));
    if cases.is_empty() {
        bail!("no case matches {selection:?}");
    }
    Ok(cases)
}

/// Records one case; returns the files that change.
fn one(plan: &BlessPlan, case: &Case) -> Result<Vec<String>> {
    let work = tempfile::tempdir()?;
    let mut changed = Vec::new();
    for stem in &case.recipe.inputs {
        let name = format!("{stem}.cubin");
        let recorded = case.dir.join(format!("{name}.txt"));
        let made = match (case.recipe.objects.get(stem), case.source(stem)) {
            (Some(files), _) => Some(object(plan, case, (&name, files), work.path())?),
            (None, Some(source)) => Some(compile(plan, case, stem, &source, work.path())?),
            (None, None) => None,
        };
        let bytes = match made {
            Some(bytes) => {
                record(plan, &recorded, &bytes, &mut changed)?;
                bytes
            }
            None => case::assemble(&recorded)?,
        };
        fs::write(work.path().join(name), bytes)?;
    }
    for (name, bytes) in case.index_files()? {
        fs::write(work.path().join(name), bytes)?;
    }
    let (expect, output) = link(plan, case, work.path())?;
    let recorded = case.dir.join(EXPECTED);
    match output {
        Some(bytes) => record(plan, &recorded, &bytes, &mut changed)?,
        None if recorded.exists() => {
            changed.push(EXPECTED.to_owned());
            if !plan.check {
                fs::remove_file(recorded)?;
            }
        }
        None => {}
    }
    if case.recipe.expect.as_ref() != Some(&expect) {
        changed.push("case.toml".to_owned());
        if !plan.check {
            write_expect(&case.dir.join("case.toml"), &expect)?;
        }
    }
    Ok(changed)
}

/// Compiles one input in the folder `dir`. With debug information a cubin names its output file, so
/// the file has its name in the link.
fn compile(
    plan: &BlessPlan,
    case: &Case,
    stem: &str,
    source: &Path,
    dir: &Path,
) -> Result<Vec<u8>> {
    // Headers are in the folder of the source.
    let folder = source.parent().unwrap_or(Path::new("."));
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if let Some(name) = path.file_name().filter(|_| path.is_file()) {
            fs::copy(&path, dir.join(name))?;
        }
    }
    let name = source.file_name().unwrap_or_default();
    let other = case.recipe.file_release.get(stem);
    let other = other.map(|release| workspace::oracle_of(release.parse()?)).transpose()?;
    let oracle = other.as_ref().unwrap_or(&plan.oracle);
    let (arch, flags) = case.compilation(stem);
    if source.extension().is_some_and(|extension| extension == "ptx") {
        let text = fs::read_to_string(source)?;
        fs::write(dir.join(name), &*oracle.release().ptx(&text, arch))?;
    }
    let mut command = oracle.compiler(source, &flags);
    command.current_dir(dir).arg(format!("-arch={arch}")).args(flags).arg(name);
    command.args(["-o", &format!("{stem}.cubin")]);
    let run = process::run(&mut command, oracle::COMPILE_LIMIT)?;
    if !run.status.success() {
        bail!("{}: {}\n{}", source.display(), run.status, run.stderr_text());
    }
    Ok(fs::read(dir.join(format!("{stem}.cubin")))?)
}

/// Makes the object `name` of compiled files in the folder `dir` with nvlink.
fn object(
    plan: &BlessPlan,
    case: &Case,
    (name, files): (&str, &[String]),
    dir: &Path,
) -> Result<Vec<u8>> {
    let mut command = plan.oracle.command("nvlink");
    command.current_dir(dir).args(["-r", &format!("-arch={}", case.recipe.arch)]);
    for stem in files {
        let source = case.source(stem).with_context(|| format!("no source of {stem}"))?;
        let file = format!("{stem}.cubin");
        fs::write(dir.join(&file), compile(plan, case, stem, &source, dir)?)?;
        command.arg(file);
    }
    let run = process::run(command.args(["-o", name]), LINK_LIMIT)?;
    if !run.status.success() {
        bail!("{name}: {}\n{}", run.status, run.stderr_text());
    }
    Ok(fs::read(dir.join(name))?)
}

/// Runs nvlink; a link that crashes or does not end cannot be recorded.
fn link(plan: &BlessPlan, case: &Case, dir: &Path) -> Result<(ExpectedEnd, Option<Vec<u8>>)> {
    let mut command = plan.oracle.command("nvlink");
    command.current_dir(dir).args(case.reference_arguments()).args(["-o", "out.cubin"]);
    let run = process::run(&mut command, LINK_LIMIT).context("cannot start nvlink")?;
    let Status::Exit(status) = run.status else { bail!("nvlink: {}", run.status) };
    let stderr = case::plain_lines(&run.stderr_text(), "nvlink");
    let output = if status == 0 { Some(fs::read(dir.join("out.cubin"))?) } else { None };
    Ok((ExpectedEnd { status, stderr }, output))
}

/// Writes the text form of `bytes` to `path` if it has changed.
fn record(plan: &BlessPlan, path: &Path, bytes: &[u8], changed: &mut Vec<String>) -> Result<()> {
    let text = case::text(bytes).with_context(|| path.display().to_string())?;
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    changed.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
    if !plan.check {
        fs::write(path, text)?;
    }
    Ok(())
}

/// Replaces the table `[expect]`, the last one of the file.
fn write_expect(path: &Path, expect: &ExpectedEnd) -> Result<()> {
    let text = fs::read_to_string(path)?;
    let head = text.split("[expect]").next().unwrap_or_default().trim_end();
    let mut out = format!("{head}\n\n[expect]\nstatus = {}\nstderr = [", expect.status);
    for line in &expect.stderr {
        out.push_str(&format!("\n    {},", toml::Value::from(line.as_str())));
    }
    out.push_str(if expect.stderr.is_empty() { "]\n" } else { "\n]\n" });
    toml::from_str::<case::CaseFile>(&out).with_context(|| path.display().to_string())?;
    fs::write(path, out)?;
    Ok(())
}
