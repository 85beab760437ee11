//! PTX compiled by the user's ptxas.
//!
//! In: PTX texts and the options they came with. Out: cubins, and what ptxas said, as nvlink words
//! it. Guaranteed: one private folder that is gone afterwards; results in order, whatever ran at
//! the same time.

use std::path::PathBuf;
use std::process::Command;
use std::{fs, io};

use culd_link::Session;
use thiserror::Error;

use super::record::{self, BadRecord};
use crate::child;
use crate::guard::Scratch;
use crate::options::{Id, Options};
use crate::programs;

/// What nvlink calls the text when it compiles.
const INPUT_NAME: &str = "application ptx input";

/// What nvlink calls the cubin; the tool note of code for a debugger has it.
const OUTPUT_NAME: &str = "elf.o";

/// One text to compile.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    /// Up to its first NUL.
    pub(crate) text: &'a [u8],
    /// The option record of its entry.
    pub(crate) options: String,
}

/// What came of a job.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) cubin: Result<Vec<u8>, CompileError>,
    /// Lines of ptxas.
    pub(crate) lines: Vec<String>,
    /// Milliseconds.
    pub(crate) time: f64,
}

/// Why there is no cubin.
#[derive(Debug, Error)]
pub(crate) enum CompileError {
    #[error(
        "no ptxas: there is none beside this program, in CUDA_HOME or CUDA_PATH, in PATH or beside \
         an nvcc in PATH; --ptxas-path names one"
    )]
    NotFound,
    #[error("cannot run '{}': {error}", path.display())]
    CannotRun { path: PathBuf, error: io::Error },
    #[error("cannot write a temporary file: {0}")]
    Temporary(io::Error),
    /// ptxas has said why.
    #[error("ptxas failed")]
    Refused,
    /// Nobody asked ptxas: the option record has what no ptxas that is known here takes. It is told in the words of ptxas.
    #[error("an option is not known")]
    Unknown,
    /// The option record does not only have options for a compilation.
    #[error("{0}")]
    Options(BadRecord),
    /// Nobody wants the link any more.
    #[error("cancelled")]
    Cancelled,
}

/// The option that has ptxas protect the stack; it takes `true` or `false`.
pub(crate) const STACK_PROTECTOR: &str = "-device-stack-protector";

/// A ptxas and what it is always told.
pub(crate) struct Compiler {
    path: Option<PathBuf>,
    arguments: Vec<String>,
    /// The text is all of a program, so that no link has to follow.
    pub(crate) whole_program: bool,
}

impl Compiler {
    /// The compiler for a link with `options` to the target `arch`.
    pub(crate) fn new(options: &Options, arch: &str) -> Self {
        // It runs in another folder than this one. What has one name only is looked for in PATH.
        let absolute = |path: &str| match path.contains('/') {
            true => std::path::absolute(path).unwrap_or_else(|_| path.into()),
            false => path.into(),
        };
        let named = options.text(Id::PtxasPath).map(absolute);
        let mut arguments = vec![format!("-arch={arch}"), "-m64".to_owned()];
        if let Some(count) = options.number(Id::MaxRegisters) {
            arguments.push(format!("--maxrregcount={count}"));
        }
        if options.flag(Id::Debug) {
            arguments.push("-g".to_owned());
        }
        arguments.extend_from_slice(options.list(Id::Xptxas));
        Compiler {
            path: named.or_else(|| programs::ptxas(options)),
            arguments,
            whole_program: false,
        }
    }

    /// The compiler of what was made of LTO-IR. nvlink gives it options that PTX inputs do not get.
    pub(crate) fn of_lto(options: &Options, arch: &str) -> Self {
        let mut compiler = Compiler::new(options, arch);
        let values = [("-Ofc", Id::FastCompile), (STACK_PROTECTOR, Id::StackProtector)];
        let given = |(name, id)| Some(format!("{name}={}", options.text(id)?));
        // In front of -Xptxas, which the user chose for ptxas itself.
        compiler.arguments.splice(0..0, values.into_iter().filter_map(given));
        compiler
    }

    /// Compiles all `jobs`, results in order.
    pub(crate) fn compile(&self, jobs: &[Job<'_>], session: &Session) -> Vec<Compiled> {
        // Starting a process is worth a thread whatever the size of its input.
        session.map(jobs.len(), usize::MAX, |place| self.compile_one(&jobs[place], session))
    }

    fn compile_one(&self, job: &Job<'_>, session: &Session) -> Compiled {
        let start = std::time::Instant::now();
        let mut lines = Vec::new();
        let cubin = self.run(job, &mut lines, session);
        Compiled { cubin, lines, time: start.elapsed().as_secs_f64() * 1e3 }
    }

    fn run(
        &self,
        job: &Job<'_>,
        lines: &mut Vec<String>,
        session: &Session,
    ) -> Result<Vec<u8>, CompileError> {
        let path = self.path.as_ref().ok_or(CompileError::NotFound)?;
        let given = match record::words(&job.options) {
            Ok(words) => words,
            Err(error @ BadRecord::NotTaken(_)) => return Err(CompileError::Options(error)),
            Err(error) => {
                lines.push(format!("ptxas fatal   : {error}"));
                return Err(CompileError::Unknown);
            }
        };
        let files = ["ptx", OUTPUT_NAME, child::STDOUT, child::STDERR];
        let folder = Scratch::new("culd-ptx-", &files).map_err(CompileError::Temporary)?;
        fs::write(folder.join("ptx"), job.text).map_err(CompileError::Temporary)?;
        let mut command = Command::new(path);
        command.args(given).args(&self.arguments);
        command.args((!self.whole_program).then_some("-c")).args(["ptx", "-o", OUTPUT_NAME]);
        command.current_dir(&*folder);
        let output = child::output(&mut command, session.cancel(), &folder);
        let output = output.map_err(|error| match error {
            child::Failure::CannotRun(error) => {
                CompileError::CannotRun { path: path.clone(), error }
            }
            child::Failure::Temporary(error) => CompileError::Temporary(error),
            child::Failure::Cancelled => CompileError::Cancelled,
        })?;
        for text in [&output.stdout, &output.stderr] {
            lines.extend(as_nvlink_says(&String::from_utf8_lossy(text)));
        }
        if !output.status.success() {
            return Err(CompileError::Refused);
        }
        fs::read(folder.join(OUTPUT_NAME)).map_err(CompileError::Temporary)
    }
}

/// Lines of ptxas in the words that its counterpart in nvlink has for the same.
fn as_nvlink_says(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let after_fatal = lines.last().is_some_and(|last| last.contains("; fatal   :"));
        if !(after_fatal && line == "ptxas fatal   : Ptx assembly aborted due to errors") {
            let place = format!("ptxas {INPUT_NAME}, line");
            lines.push(line.replacen("ptxas ptx, line", &place, 1));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn fake(folder: &Path, script: &str) -> Compiler {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.join("ptxas");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Compiler {
            path: Some(path),
            arguments: vec!["-arch=sm_90".to_owned()],
            whole_program: false,
        }
    }

    #[test]
    fn results_come_in_order_with_the_words_of_the_compiler() {
        let folder = tempfile::tempdir().unwrap();
        let compiler = fake(
            folder.path(),
            "grep -q bad ptx && { echo 'ptxas ptx, line 3; error   : no' >&2; exit 255; }\n\
             echo \"$@\" | cat - ptx > elf.o",
        );
        let job = |text: &'static str| Job { text: text.as_bytes(), options: "-g".to_owned() };
        let done =
            compiler.compile(&[job("one"), job("bad"), job("two")], &Session::with_threads(3));
        let cubin = |place: usize| String::from_utf8(done[place].cubin.as_ref().unwrap().clone());
        assert_eq!(cubin(0).unwrap(), "-g -arch=sm_90 -c ptx -o elf.o\none");
        assert_eq!(cubin(2).unwrap(), "-g -arch=sm_90 -c ptx -o elf.o\ntwo");
        assert!(matches!(done[1].cubin, Err(CompileError::Refused)));
        assert_eq!(done[1].lines, ["ptxas application ptx input, line 3; error   : no"]);
    }

    #[test]
    fn without_a_compiler_the_error_says_where_one_was_looked_for() {
        let compiler = Compiler { path: None, arguments: Vec::new(), whole_program: false };
        let done =
            compiler.compile(&[Job { text: b"x", options: String::new() }], &Session::serial());
        let error = done[0].cubin.as_ref().unwrap_err().to_string();
        assert!(error.contains("--ptxas-path"), "{error}");
    }
}
