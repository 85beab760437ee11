//! What is launched, and what has to come of it.
//!
//! In: `plan.toml` in a folder. Out: a [`GpuPlan`]. Guaranteed: names of images are names of files
//! in that folder.

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// What memory holds that nobody gave a value.
pub const BEFORE: u32 = 0xcdcd_cdcd;

/// The name of the file.
pub const FILE: &str = "plan.toml";

/// Programs for GPUs of several kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuPlan {
    /// The programs.
    #[serde(default)]
    pub program: Vec<GpuProgram>,
    /// Programs with a host part.
    #[serde(default)]
    pub host: Vec<HostProgram>,
}

/// A program for the host and the GPU that checks its own results, built in one or more ways.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostProgram {
    /// Its folder of `testdata/gpu`.
    pub name: String,
    /// `sm_90a`.
    pub arch: String,
    /// The executables: how each was built, and the name of the file.
    pub build: Vec<PlannedImage>,
}

/// A program that was linked for one architecture by one or more linkers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuProgram {
    /// `topic/case`.
    pub name: String,
    /// `sm_90a`.
    pub arch: String,
    /// The images: by whom, and the name of the file.
    pub image: Vec<PlannedImage>,
    /// What is done, in this order, with one module.
    pub launch: Vec<Launch>,
}

/// A linked program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedImage {
    /// The linker.
    pub by: String,
    /// Its file in the folder.
    pub file: String,
}

/// One launch of one kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// Name of the kernel.
    pub kernel: String,
    /// Blocks.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    #[serde(default)]
    pub shared: u32,
    /// Variables that get values before.
    #[serde(default)]
    pub set: Vec<GpuVariable>,
    /// Parameters.
    #[serde(default)]
    pub argument: Vec<PlannedArgument>,
    /// Variables that have to have these values afterwards.
    #[serde(default)]
    pub expect: Vec<GpuVariable>,
}

/// A parameter of a kernel: one of both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedArgument {
    /// A number of 32 bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub word: Option<u32>,
    /// The address of memory that has to hold these words afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Vec<u32>>,
    /// What its first words are before; the others, and all without this, are [`BEFORE`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<u32>,
    /// As many words more there are, which may hold anything afterwards.
    #[serde(default)]
    pub room: usize,
}

/// Words of a variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuVariable {
    /// Its name in the module.
    pub name: String,
    /// Its first words.
    pub words: Vec<u32>,
}

impl PlannedArgument {
    /// A number.
    pub fn word(word: u32) -> Self {
        PlannedArgument { word: Some(word), ..PlannedArgument::default() }
    }

    /// Memory and what it has to hold.
    pub fn memory(words: impl IntoIterator<Item = u32>) -> Self {
        PlannedArgument { expect: Some(words.into_iter().collect()), ..PlannedArgument::default() }
    }

    /// The same for memory that a kernel reads.
    #[must_use]
    pub fn with(self, before: &[u32]) -> Self {
        PlannedArgument { before: before.to_vec(), ..self }
    }

    /// What the memory holds before a launch.
    pub fn memory_before(&self) -> Option<Vec<u32>> {
        let mut words = vec![BEFORE; self.expect.as_ref()?.len().saturating_add(self.room)];
        words.iter_mut().zip(&self.before).for_each(|(word, before)| *word = *before);
        Some(words)
    }
}

impl GpuPlan {
    /// The plan in `folder`.
    ///
    /// # Errors
    /// When it cannot be read or makes no sense.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let plan: GpuPlan = toml::from_str(&text).with_context(|| path.display().to_string())?;
        plan.check().with_context(|| path.display().to_string())?;
        Ok(plan)
    }

    /// Writes the plan to `folder`.
    ///
    /// # Errors
    /// When it makes no sense or cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        self.check()?;
        Ok(fs::write(folder.join(FILE), toml::to_string(self)?)?)
    }

    fn check(&self) -> Result<()> {
        for HostProgram { name, build, .. } in &self.host {
            check_files(name, build)?;
        }
        for program in &self.program {
            let name = &program.name;
            ensure!(!program.launch.is_empty(), "{name}: nothing is launched");
            check_files(name, &program.image)?;
            for launch in &program.launch {
                let kernel = &launch.kernel;
                let sound = |argument: &PlannedArgument| {
                    let words = argument.expect.as_ref().map_or(0, Vec::len);
                    argument.word.is_some() != argument.expect.is_some()
                        && argument.before.len() <= words
                };
                ensure!(
                    launch.argument.iter().all(sound),
                    "{name}, {kernel}: an argument is a word or memory"
                );
                let memory = launch.argument.iter().any(|argument| argument.expect.is_some());
                ensure!(
                    memory || !launch.expect.is_empty(),
                    "{name}, {kernel}: nothing is expected"
                );
            }
        }
        Ok(())
    }
}

fn check_files(name: &str, files: &[PlannedImage]) -> Result<()> {
    ensure!(!files.is_empty(), "{name}: no image");
    for PlannedImage { file, .. } in files {
        let bare = Path::new(file).file_name() == Some(file.as_ref());
        ensure!(bare, "{name}: '{file}' is no name of a file");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> GpuPlan {
        let launch = Launch {
            kernel: "k".to_owned(),
            blocks: 1,
            threads: 4,
            argument: vec![PlannedArgument::word(3), PlannedArgument::memory([1, 2])],
            set: vec![GpuVariable { name: "v".to_owned(), words: vec![7] }],
            ..Launch::default()
        };
        let image = vec![PlannedImage { by: "culd".to_owned(), file: "0.culd.cubin".to_owned() }];
        let program = GpuProgram {
            name: "calls/chain".to_owned(),
            arch: "sm_90".to_owned(),
            image,
            launch: vec![launch],
        };
        let build = vec![PlannedImage { by: "nvcc".to_owned(), file: "nested.nvcc".to_owned() }];
        let host = HostProgram { name: "nested".to_owned(), arch: "sm_90".to_owned(), build };
        GpuPlan { program: vec![program], host: vec![host] }
    }

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let text = toml::to_string(&plan()).expect("a text");
        assert_eq!(toml::from_str::<GpuPlan>(&text).expect("a plan"), plan());
        assert!(plan().check().is_ok());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let wrong = |change: fn(&mut GpuProgram)| {
            let mut plan = plan();
            change(&mut plan.program[0]);
            plan.check().unwrap_err().to_string()
        };
        assert!(wrong(|p| p.launch.clear()).contains("nothing is launched"));
        assert!(wrong(|p| p.image.clear()).contains("no image"));
        assert!(wrong(|p| p.image[0].file = "../x".to_owned()).contains("no name of a file"));
        assert!(wrong(|p| p.launch[0].argument[0].word = None).contains("a word or memory"));
        assert!(wrong(|p| p.launch[0].argument.truncate(1)).contains("nothing is expected"));
    }
}
