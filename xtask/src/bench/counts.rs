//! Counts the instructions of fixed links: a check for regressions that does not depend on the
//! machine's load or speed.
//!
//! In: cases, and the counts in `testdata/bench/counts.toml`. Out: a table, or the reason why there
//! is none. Guaranteed: a count that is more than [`TOLERANCE`] above the recorded one fails.
//! (Compilers and hash seeds cause small differences.)

use crate::workspace;
use anyhow::{Context, Result, bail};
use culd_testkit::reference::compare::trial::Tools;
use culd_testkit::scale::{case, generate};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The cases: start-up, a usual link, mostly dead code.
const CASES: [&str; 3] = ["tiny", "many100", "dead"];
/// A count may grow by this part.
const TOLERANCE: f64 = 0.03;

fn kept_at() -> PathBuf {
    workspace::root().join("testdata/bench/counts.toml")
}

/// Counts; false if a count has grown. `record` stores the counts.
pub(crate) fn run(tools: &Tools, arch: &str, dir: &Path, record: bool) -> Result<bool> {
    let there = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        println!(
            "Instruction counts: skipped, there is no valgrind ('apt-get install valgrind' brings it)."
        );
        return Ok(true);
    }
    let kept: BTreeMap<String, u64> = match fs::read_to_string(kept_at()) {
        Ok(text) => toml::from_str(&text).with_context(|| kept_at().display().to_string())?,
        Err(_) => BTreeMap::new(),
    };
    println!("| instructions | counted | kept | ratio |\n|---|--:|--:|--:|");
    let mut good = true;
    let mut text = String::from(
        "# Instructions of 'culd -threads=1' on cases of 'cargo xtask bench', counted by callgrind; 'cargo xtask bench\n\
         # --counts --record' writes this file.\n",
    );
    for name in CASES {
        let count = count(tools, arch, &dir.join(format!("count-{name}")), name)?;
        writeln!(text, "{name} = {count}")?;
        match kept.get(name) {
            Some(&kept) => {
                let ratio = count as f64 / kept as f64;
                println!("| {name} | {count} | {kept} | {ratio:.3} |");
                good &= ratio <= 1.0 + TOLERANCE;
            }
            None => println!("| {name} | {count} | — | — |"),
        }
    }
    if record {
        fs::create_dir_all(kept_at().parent().context("a file in no folder")?)?;
        fs::write(kept_at(), text)?;
        return Ok(true);
    }
    if !good {
        println!(
            "\nA link takes more instructions than were kept. If it should: --counts --record."
        );
    }
    Ok(good)
}

/// Instructions of one link.
fn count(tools: &Tools, arch: &str, dir: &Path, name: &str) -> Result<u64> {
    let case = case(name).with_context(|| format!("no case '{name}'"))?;
    let inputs = generate(&tools.oracle, case, arch, dir)?;
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=callgrind.out"])
        .arg(&tools.candidate)
        .args([format!("-arch={arch}").as_str(), "-threads=1", "-o", "out.cubin"])
        .args(&inputs.files)
        .current_dir(dir)
        // The C library reads the environment when a program starts, so its size would count.
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .output()?;
    let text = String::from_utf8_lossy(&run.stderr);
    if !run.status.success() {
        bail!("valgrind: {}\n{text}", run.status);
    }
    counted(&text).with_context(|| format!("no count in what valgrind says:\n{text}"))
}

/// The number in the line `Collected : 123`.
fn counted(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.split_once("Collected :"))?;
    line.1.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found() {
        assert_eq!(
            counted("==1== Events    : Ir\n==1== Collected : 598052958\n"),
            Some(598_052_958)
        );
        assert_eq!(counted("==1== nothing"), None);
    }
}
