//! Recorded cases: small programs, what they compile to, and what nvlink made of them.
//!
//! In: `testdata/cases/<topic>/<name>/` with a `case.toml` ([`Recipe`]), the inputs as text
//! (`a.cubin.txt`) and, where the link succeeds, the output as text (`expect.cubin.txt`). Out:
//! [`Case`]: names and bytes. Guaranteed: a case is complete in its folder; the compilers and
//! nvlink are needed to record it and for nothing else.

use crate::asm;
use crate::uidx;
use anyhow::{Context, Result, bail};
use culd_inspect::{text, view::View};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Name of the text with the expected output.
pub const EXPECTED: &str = "expect.cubin.txt";

/// `case.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// What the case shows; for people.
    pub what: String,
    /// Folder of testdata/corpus with the sources; without it they are in the folder of the case.
    pub corpus: Option<String>,
    /// Target of the link, and of the compilation unless `file_arch` says otherwise.
    pub arch: String,
    /// Input files in link order, without extension.
    pub inputs: Vec<String>,
    /// Further options of the link.
    #[serde(default)]
    pub args: Vec<String>,
    /// Further compiler flags of all files.
    #[serde(default)]
    pub compile: Vec<String>,
    /// Architecture of single files.
    #[serde(default)]
    pub file_arch: BTreeMap<String, String>,
    /// Further compiler flags of single files.
    #[serde(default)]
    pub file_flags: BTreeMap<String, Vec<String>>,
    /// Index files of unified functions and variables, by name.
    #[serde(default)]
    pub uidx: BTreeMap<String, uidx::Text>,
    /// Release of the reference tools that it is recorded with; without it the usual one.
    pub release: Option<String>,
    /// Release that compiles single files, 12.9 too.
    #[serde(default)]
    pub file_release: BTreeMap<String, String>,
    /// Inputs that nvlink makes with `-r`, of compiled files.
    #[serde(default)]
    pub objects: BTreeMap<String, Vec<String>>,
    /// Why the program of several steps is another than that of one.
    pub one_step: Option<String>,
    /// How the link ends; written by `cargo xtask bless`, always the last table of the file.
    pub expect: Option<Expect>,
}

/// How a link ends.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Exit status.
    pub status: i32,
    /// Lines on standard error, without the name of the program.
    pub stderr: Vec<String>,
}

/// One recorded case.
#[derive(Clone, Debug)]
pub struct Case {
    /// `<topic>/<name>`.
    pub name: String,
    /// Its folder.
    pub dir: PathBuf,
    /// How it was made.
    pub recipe: Recipe,
}

/// Root of the source tree.
pub fn source_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map(Path::to_owned).unwrap_or_default()
}

/// All cases of the source tree, sorted by name.
///
/// # Errors
/// When a folder cannot be listed or a `case.toml` makes no sense.
pub fn all() -> Result<Vec<Case>> {
    let root = source_root().join("testdata/cases");
    let mut cases = Vec::new();
    for topic in folders(&root)? {
        for dir in folders(&topic)? {
            cases.push(Case::open(&root, dir)?);
        }
    }
    Ok(cases)
}

/// The case called `name`.
///
/// # Errors
/// As [`all`].
pub fn named(name: &str) -> Result<Case> {
    let root = source_root().join("testdata/cases");
    let dir = root.join(name);
    Case::open(&root, dir)
}

/// True when the case `name` is, or lies in, one of the selections `topic` and `topic/case`; none
/// chooses all.
pub fn is_chosen(name: &str, selection: &[String]) -> bool {
    let chosen = |wanted: &String| {
        name.strip_prefix(wanted.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    selection.is_empty() || selection.iter().any(chosen)
}

/// The folders in `dir`, sorted by name.
///
/// # Errors
/// When it cannot be listed.
pub fn folders(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

impl Case {
    fn open(root: &Path, dir: PathBuf) -> Result<Self> {
        let file = dir.join("case.toml");
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let recipe = toml::from_str(&text).with_context(|| file.display().to_string())?;
        let name = dir.strip_prefix(root)?.display().to_string();
        Ok(Self { name, dir, recipe })
    }

    /// Options of culd.
    pub fn options(&self) -> Vec<String> {
        let mut options = vec![format!("-arch={}", self.recipe.arch)];
        options.extend(self.recipe.release.iter().map(|release| format!("--dialect={release}")));
        options.extend(self.recipe.args.iter().cloned());
        options
    }

    /// Arguments of culd, without the output.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = self.options();
        arguments.extend(self.recipe.inputs.iter().map(|stem| format!("{stem}.cubin")));
        arguments
    }

    /// Arguments of nvlink, which follows its own release, without the output.
    pub fn reference_arguments(&self) -> Vec<String> {
        let mut arguments = self.arguments();
        arguments.retain(|word| !word.starts_with("--dialect="));
        arguments
    }

    /// Names and bytes of the inputs in link order.
    ///
    /// # Errors
    /// When a text is missing or cannot be assembled.
    pub fn inputs(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let input = |stem: &String| {
            let name = format!("{stem}.cubin");
            let bytes = assemble(&self.dir.join(format!("{name}.txt")))?;
            Ok((name, bytes))
        };
        self.recipe.inputs.iter().map(input).collect()
    }

    /// Names and bytes of the files that options name.
    ///
    /// # Errors
    /// When their description makes no sense.
    pub fn index_files(&self) -> Result<Vec<(String, Vec<u8>)>> {
        uidx::files(&self.recipe.uidx)
    }

    /// How the link ends.
    ///
    /// # Errors
    /// When that was not recorded.
    pub fn expect(&self) -> Result<&Expect> {
        let missing = || format!("{}: nothing is recorded; run cargo xtask bless", self.name);
        self.recipe.expect.as_ref().with_context(missing)
    }

    /// The expected output; `None` when the link fails.
    ///
    /// # Errors
    /// When the text is missing or cannot be assembled, or is there although the link fails.
    pub fn expected_output(&self) -> Result<Option<Vec<u8>>> {
        let path = self.dir.join(EXPECTED);
        if self.expect()?.status == 0 {
            return assemble(&path).map(Some);
        }
        if path.exists() {
            bail!("{}: {EXPECTED} of a link that fails", self.name);
        }
        Ok(None)
    }

    /// The source of the input `stem`; `None` for an input that is written by hand as text.
    pub fn source(&self, stem: &str) -> Option<PathBuf> {
        let dir = match &self.recipe.corpus {
            Some(corpus) => source_root().join("testdata/corpus").join(corpus),
            None => self.dir.clone(),
        };
        ["ptx", "cu"].iter().map(|ext| dir.join(format!("{stem}.{ext}"))).find(|path| path.exists())
    }

    /// Architecture and flags with which the input `stem` is compiled.
    pub fn compilation(&self, stem: &str) -> (&str, Vec<String>) {
        let recipe = &self.recipe;
        let arch = recipe.file_arch.get(stem).unwrap_or(&recipe.arch);
        let own = recipe.file_flags.get(stem).into_iter().flatten();
        (arch, recipe.compile.iter().chain(own).cloned().collect())
    }
}

/// The bytes of the text at `path`.
///
/// # Errors
/// When it is missing or cannot be assembled.
pub fn assemble(path: &Path) -> Result<Vec<u8>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    asm::assemble(&text).with_context(|| path.display().to_string())
}

/// The text form of a cubin.
///
/// # Errors
/// When it is malformed, or when its text would not give the same bytes again.
pub fn text(bytes: &[u8]) -> Result<String> {
    let text = text::dump(&View::parse(bytes)?, &text::Options::default());
    if asm::assemble(&text)? != bytes {
        bail!("the text form does not give the same bytes again");
    }
    Ok(text)
}

/// What a line begins with that explains the one above it; only culd has them.
pub const NOTE: &str = "  >>> ";

/// What a line of culd's own contains: nvlink does not tell when it writes code anew
/// (docs/DIFFERENCES.md, kept-code).
const KEPT_CODE: &str = "; machine code is kept as compiled";

/// Lines on standard error without the name of the program that each starts with, without
/// notes and without what only culd tells.
pub fn plain_lines(stderr: &str, program: &str) -> Vec<String> {
    let prefix = format!("{program} ");
    let told = |line: &&str| !line.starts_with(NOTE) && !line.contains(KEPT_CODE);
    let lines = stderr.lines().filter(told);
    lines.map(|line| line.strip_prefix(&prefix).unwrap_or(line).to_owned()).collect()
}

/// Lines in which a warning about an entry's stack stands once, however often nvlink repeats it
/// (docs/DIFFERENCES.md, stack-warning-once).
pub fn told_once(mut lines: Vec<String>) -> Vec<String> {
    lines.dedup_by(|a, b| a == b && a.contains("Stack size for entry function"));
    lines
}
