//! `culd prune` and nvprune on the same objects and archives.

use super::{ARCHS, DeviceLinkLab, LIMIT, generate, succeed};
use anyhow::{Context, Result, ensure};
use culd_testkit::random::generate::rng::Rng;
use culd_testkit::reference::oracle::process;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that names nvprune, which the wheels of CUDA 13 do not have.
const VARIABLE: &str = "CULD_NVPRUNE";

/// Lines that are tried.
const LINES: u64 = 300;

const INPUTS: [&str; 4] = ["main.o", "rules.o", "libshapes.a", "whole.o"];

impl DeviceLinkLab {
    /// Random lines of nvprune.
    pub(super) fn prune(&mut self) -> Result<()> {
        let nvprune = std::env::var_os(VARIABLE).map(PathBuf::from);
        let nvprune = nvprune.with_context(|| format!("{VARIABLE} names no nvprune"))?;
        // An object of whole programs, with PTX.
        let mut nvcc = self.nvcc(&self.reference);
        nvcc.args(generate(&["80", "90"])).arg("-gencode=arch=compute_90,code=compute_90");
        fs::write(self.dir.join("whole.cu"), "__global__ void k(int *p) { *p = 1; }\n")?;
        succeed(nvcc.args(["-c", "whole.cu", "-o", "whole.o"]))?;
        let (mut same, mut cut) = (0, 0);
        for seed in 0..LINES {
            match self.pruned(&nvprune, seed) {
                Ok(smaller) => {
                    same += 1;
                    cut += usize::from(smaller);
                }
                Err(error) => self.check(&format!("prune {seed}"), Err(error)),
            }
        }
        println!("{same} lines of nvprune are the same, {cut} with fewer images");
        let enough = || -> Result<()> {
            ensure!(cut > 50, "hardly anything was cut");
            Ok(())
        };
        self.check("prune lines", enough());
        Ok(())
    }

    /// One line; true if the file became smaller.
    fn pruned(&self, nvprune: &Path, seed: u64) -> Result<bool> {
        let mut rng = Rng::new(seed);
        let input = rng.pick(&INPUTS);
        let kind = |rng: &mut Rng| rng.pick(&["sm", "sm", "compute"]);
        let mut words: Vec<String> = Vec::new();
        if rng.chance(60) {
            words.push(format!("-arch={}_{}", kind(&mut rng), rng.pick(ARCHS[2])));
        } else {
            for _ in 0..1 + rng.below(3) {
                let (sm, kind) = (rng.pick(ARCHS[2]), kind(&mut rng));
                words.push(format!("-gencode=arch=compute_{sm},code={kind}_{sm}"));
            }
        }
        // What a later target could run is unknown to nvprune 12.4: it drops PTX for sm_100, too.
        let later = words.iter().any(|word| word.contains("_10") || word.contains("_12"));
        for (percent, word) in [(30, "-include-possible-codes"), (15, "-no-relocatable-elf")] {
            if rng.chance(percent) && !(later && word == "-include-possible-codes") {
                words.push(format!("-{word}"));
            }
        }
        let mut made = Vec::new();
        for own in [false, true] {
            let mut command = Command::new(if own { &self.culd } else { nvprune });
            command.current_dir(&self.dir).args(own.then_some("prune")).args(&words);
            let run = process::run(command.arg(input).args(["-o", "pruned"]), LIMIT)?;
            let warned = run.stderr_text().contains("stripped out all device code")
                || String::from_utf8_lossy(&run.stdout).contains("stripped out all device code");
            let path = self.dir.join("pruned");
            made.push((run.status.success(), warned, fs::read(&path).ok()));
            let _ = fs::remove_file(&path);
        }
        let (theirs, ours) = (&made[0], &made[1]);
        let outcome = |made: &(bool, bool, Option<Vec<u8>>)| (made.0, made.1);
        ensure!(outcome(theirs) == outcome(ours), "{words:?} {input}: another end");
        ensure!(theirs.2 == ours.2, "{words:?} {input}: another file");
        let before = fs::metadata(self.dir.join(input))?.len();
        Ok(ours.2.as_ref().is_some_and(|file| (file.len() as u64) < before))
    }
}
