//! Transcripts: command lines, their files, and their results (testdata/cli).
//!
//! In: the text of a `*.toml`. Out: [`Transcript`]. Guaranteed: unknown keys and deliberate
//! differences without an entry in docs/DIFFERENCES.md are errors. The keys are explained in
//! testdata/cli/README.md.

use anyhow::{Context, Result, ensure};
use culd_testkit::fixtures::recipe::Recipes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// A file of transcripts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transcript {
    /// Files that a run has if it names them.
    #[serde(default)]
    pub make: Recipes,
    /// The runs.
    pub run: Vec<TranscriptRun>,
}

/// One run of the command.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TranscriptRun {
    /// Name of the test.
    pub name: String,
    /// Words after the program's name, separated by blanks.
    #[serde(default)]
    args: String,
    /// Words after those of `args`, not split.
    #[serde(default)]
    words: Vec<String>,
    /// Arguments of earlier runs of the same program, like `args`; each must succeed.
    #[serde(default)]
    pub before: Vec<String>,
    /// The name that the program is started by.
    pub called: Option<String>,
    /// Environment variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Bits that new files do not get.
    pub umask: Option<String>,
    /// Permissions of files, in octal.
    #[serde(default)]
    pub modes: BTreeMap<String, String>,
    /// Working folder inside the folder of the run.
    #[serde(default)]
    pub dir: String,
    /// The case of testdata/cases whose inputs are in the folder.
    pub case: Option<String>,
    /// More files in the folder, with their text.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// More files in the folder, with their recipes.
    #[serde(default)]
    pub make: Recipes,
    /// Files of the transcript's `make` that the command line does not name.
    #[serde(default)]
    pub with: Vec<String>,
    /// The command needs `ptxas`, which nvlink has built in.
    #[serde(default)]
    pub ptxas: bool,
    /// The folder has `nvvm`, with the library that nvlink loads for `-lto`.
    #[serde(default)]
    pub nvvm: bool,
    /// The case whose output is expected, if it is not `case`.
    like: Option<String>,
    /// The run of this transcript with the same output.
    pub same_output_as: Option<String>,
    /// nvlink does the same.
    #[serde(default)]
    pub nvlink: bool,
    /// The expected result of culd, if it is deliberately different.
    pub culd: Option<TranscriptDifference>,
    /// Exit status.
    #[serde(default)]
    status: i32,
    /// Lines on standard error.
    #[serde(default)]
    stderr: Vec<String>,
    /// The lines include culd's notes; otherwise notes are not compared.
    #[serde(default)]
    pub notes: bool,
    /// Lines on standard output.
    #[serde(default)]
    stdout: Vec<String>,
    /// Only some lines of standard output are given.
    #[serde(default)]
    pub more_stdout: bool,
    /// The new files that the run leaves.
    #[serde(default)]
    creates: Vec<String>,
    /// Files that hold this text afterwards.
    #[serde(default)]
    writes: BTreeMap<String, String>,
    /// The file that holds the output of the case or the other run.
    pub output: Option<String>,
}

/// A deliberate difference.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TranscriptDifference {
    /// Its key in docs/DIFFERENCES.md.
    because: String,
    status: Option<i32>,
    stderr: Option<Vec<String>>,
    stdout: Option<Vec<String>>,
    creates: Option<Vec<String>>,
    writes: Option<BTreeMap<String, String>>,
    /// The case whose output it has instead.
    like: Option<String>,
}

/// The result of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ExpectedRun {
    /// Exit status.
    pub status: i32,
    /// Lines on standard error.
    pub stderr: Vec<String>,
    /// Lines on standard output.
    pub stdout: Vec<String>,
    /// New files.
    pub creates: Vec<String>,
    /// Text of files.
    pub writes: BTreeMap<String, String>,
}

impl Transcript {
    /// Reads a transcript whose runs also have the files of `recipes`.
    ///
    /// # Errors
    /// When it is invalid, or names a reason that `differences` (docs/DIFFERENCES.md) does not
    /// have.
    pub fn read(path: &Path, text: &str, recipes: &Recipes, differences: &str) -> Result<Self> {
        let mut transcript: Transcript =
            toml::from_str(text).with_context(|| path.display().to_string())?;
        transcript.make = transcript.make.or(recipes);
        for run in &transcript.run {
            if let Some(TranscriptDifference { because, .. }) = &run.culd {
                let heading = format!("### {because}");
                let known = differences.lines().any(|line| line == heading);
                ensure!(known, "{}: no {heading:?} in docs/DIFFERENCES.md", run.name);
            }
        }
        Ok(transcript)
    }
}

impl TranscriptRun {
    /// Words of the command line.
    pub fn arguments(&self) -> Vec<String> {
        words(&self.args).chain(self.words.iter().cloned()).collect()
    }

    /// The files of the transcript that the run has: those that it names, also behind `=` or in a
    /// list.
    pub fn names<'a>(&'a self, shared: &'a Recipes) -> impl Iterator<Item = &'a str> {
        let named = |name: &str| {
            let in_word = |word: &str| word.split(['=', ',']).any(|part| part == name);
            self.with.iter().any(|wanted| wanted == name)
                || self.before.iter().flat_map(|line| words(line)).any(|word| in_word(&word))
                || self.arguments().iter().any(|word| in_word(word))
        };
        shared.names().filter(move |name| named(name))
    }

    /// The case whose output is expected if culd (`true`) or nvlink is under test.
    pub fn like(&self, culd: bool) -> Option<&str> {
        let other = self.culd.as_ref().filter(|_| culd).and_then(|other| other.like.as_deref());
        other.or(self.like.as_deref()).or(self.case.as_deref())
    }

    /// True when only culd's output is known.
    pub fn like_is_for_culd(&self) -> bool {
        self.like(false).is_none() && self.like(true).is_some() && self.same_output_as.is_none()
    }

    /// The expected result if culd (`true`) or nvlink is under test.
    pub fn expected(&self, culd: bool) -> ExpectedRun {
        let mut expected = ExpectedRun {
            status: self.status,
            stderr: self.stderr.clone(),
            stdout: self.stdout.clone(),
            creates: self.creates.clone(),
            writes: self.writes.clone(),
        };
        if let Some(other) = self.culd.clone().filter(|_| culd) {
            expected.status = other.status.unwrap_or(expected.status);
            expected.stderr = other.stderr.unwrap_or(expected.stderr);
            expected.stdout = other.stdout.unwrap_or(expected.stdout);
            expected.creates = other.creates.unwrap_or(expected.creates);
            expected.writes = other.writes.unwrap_or(expected.writes);
        }
        expected
    }
}

/// The words of a line.
pub fn words(line: &str) -> impl Iterator<Item = String> {
    line.split_whitespace().map(str::to_owned)
}

/// True if `line` is the expected one; `NUMBER` matches any number.
pub fn matches(expected: &str, line: &str) -> bool {
    let Some((front, back)) = expected.split_once("NUMBER") else { return expected == line };
    let number = line.strip_prefix(front).and_then(|rest| rest.strip_suffix(back));
    number.is_some_and(|number| number.parse::<f64>().is_ok())
}
