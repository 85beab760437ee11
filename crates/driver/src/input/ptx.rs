//! PTX compiled by the user's ptxas.
//!
//! In: PTX texts and their options. Out: cubins, and ptxas's lines in nvlink's words. Guaranteed:
//! each text has a private folder that is removed afterwards, or none if no folder can be made;
//! results are in order, also if compilers ran in parallel.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::{fs, io};

use culd_fatbin::{Format, sniff};
use culd_link::{Dialect, Session};
use thiserror::Error;

use super::compilation::{PtxCompilation, PtxJob};
use super::ptx_ahead::PtxasAhead;
use super::record::{self, BadRecord};
use crate::options::{CommandOptions, OptionId};
use crate::os::child::{self, ChildError, RunningCompiler, Streams};
use crate::os::scratch::Scratch;
use crate::os::{host, place};
use crate::toolkit::programs;
use crate::tools;

/// nvlink's name of the text in messages.
const INPUT_NAME: &str = "application ptx input";

/// The file with the text.
pub(super) const TEXT_NAME: &str = "ptx";

/// nvlink's name of the cubin; the tool note of code for a debugger has it.
pub(super) const OUTPUT_NAME: &str = "elf.o";

/// Why there is no cubin.
#[derive(Debug, Error)]
pub(crate) enum CompileError {
    #[error(
        "no ptxas: there is none beside this program, in CUDA_HOME or CUDA_PATH, in PATH or beside \
         an nvcc in PATH; --ptxas-path names one"
    )]
    NotFound,
    #[error("there is no '{}' in PATH", culd_text::name(.0))]
    NotInPath(PathBuf),
    #[error(transparent)]
    NotRun(#[from] ChildError),
    /// ptxas has printed the reason. The value says more about the program itself.
    #[error("ptxas failed")]
    Refused(Option<String>),
    #[error("'{}' made no cubin{}", culd_text::name(path), what_it_is(*release))]
    NoCubin { path: PathBuf, release: Option<PtxasRelease> },
    /// ptxas did not run: the option record has an option that no known ptxas takes. The line has
    /// ptxas's words.
    #[error("an option is not known")]
    Unknown,
    /// The option record does not only have options for a compilation.
    #[error("{0}")]
    Options(BadRecord),
}

/// A ptxas, and its arguments for every text.
#[derive(PartialEq, Eq)]
pub(crate) struct PtxCompiler {
    /// A path that does not depend on the folder it runs in; else the name that is in no folder of
    /// PATH, if there is one.
    pub(super) path: Result<PathBuf, Option<PathBuf>>,
    pub(super) arguments: Vec<OsString>,
    /// The output of the link.
    pub(super) output: Option<PathBuf>,
    /// The text is all of a program, so that no link has to follow.
    pub(crate) whole_program: bool,
    /// Whose words its lines have.
    pub(crate) voice: CompilerVoice,
}

/// The tool whose compiler of PTX ptxas stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompilerVoice {
    Nvlink,
    NvJitLink,
}

/// What the compilation of PTX may take.
pub(crate) struct PtxLimits<'l> {
    /// The largest number of registers of a function.
    pub(crate) registers: Option<i32>,
    /// The number of threads, as it stands in an option.
    pub(crate) threads: Option<&'l str>,
}

impl PtxCompiler {
    /// The compiler for a link with `options` to the target `arch`, by the rules of a release.
    pub(crate) fn new(options: &CommandOptions, arch: &str, rules: &Dialect) -> Self {
        let registers = options.max_registers();
        let limits = PtxLimits { registers, threads: options.text(OptionId::SplitCompile) };
        PtxCompiler::with_limits(options, limits, arch, rules)
    }

    /// The same with other limits than those of the link.
    pub(crate) fn with_limits(
        options: &CommandOptions,
        limits: PtxLimits<'_>,
        arch: &str,
        rules: &Dialect,
    ) -> Self {
        let path = match options.path(OptionId::PtxasPath) {
            Some(name) => programs::named(name).ok_or_else(|| Some(name.to_owned())),
            None => tools::ptxas(options).ok_or(None),
        };
        // Of two values ptxas takes the last: -Xptxas wins over the target, and the other options
        // of the link over -Xptxas.
        let mut arguments: Vec<OsString> = vec![format!("-arch={arch}").into(), "-m64".into()];
        arguments.extend(options.ptxas_words());
        let level = options.text(OptionId::FastCompile).filter(|&level| level != "0");
        let protector = options.text(OptionId::StackProtector);
        // One thread is the default.
        let threads = limits.threads.filter(|&count| count != "1" && rules.compilers_split);
        for (name, value) in
            [("-Ofc", level), ("-device-stack-protector", protector), ("-split-compile", threads)]
        {
            arguments.extend(value.map(|value| format!("{name}={value}").into()));
        }
        arguments.extend(limits.registers.map(|count| format!("--maxrregcount={count}").into()));
        if options.makes_debug_information() {
            arguments.push("-g".into());
        }
        if options.flag(OptionId::Verbose2) {
            arguments.push("-v2".into());
        }
        let output = options.output().map(Path::to_owned);
        let voice = match options.reads_like_jit {
            true => CompilerVoice::NvJitLink,
            false => CompilerVoice::Nvlink,
        };
        PtxCompiler { path, arguments, output, whole_program: false, voice }
    }

    /// Compiles all `jobs`, results in order; a single one by `ahead`, if that is this compiler.
    pub(crate) fn compile(
        &self,
        jobs: &[PtxJob<'_>],
        ahead: Option<PtxasAhead>,
        session: &Session,
    ) -> Vec<PtxCompilation> {
        if let [job] = jobs {
            return vec![self.compile_with(ahead, job, session, || ())];
        }
        // Starting a process is worth a thread, even for a small input.
        session.map(jobs.len(), usize::MAX, |place| self.compile_one(&jobs[place], session))
    }

    pub(crate) fn compile_one(&self, job: &PtxJob<'_>, session: &Session) -> PtxCompilation {
        self.compile_while(job, session, || ())
    }

    /// The same; `meanwhile` is called when ptxas runs.
    pub(super) fn compile_while(
        &self,
        job: &PtxJob<'_>,
        session: &Session,
        meanwhile: impl FnOnce(),
    ) -> PtxCompilation {
        let start = std::time::Instant::now();
        let mut lines = Vec::new();
        let cubin = self.run(job, &mut lines, session, meanwhile);
        PtxCompilation { cubin, lines, time: start.elapsed().as_secs_f64() * 1e3 }
    }

    fn run(
        &self,
        job: &PtxJob<'_>,
        lines: &mut Vec<String>,
        session: &Session,
        meanwhile: impl FnOnce(),
    ) -> Result<Vec<u8>, CompileError> {
        let path = self.path.as_ref().map_err(|name| match name {
            None => CompileError::NotFound,
            Some(name) => CompileError::NotInPath(name.clone()),
        })?;
        let given = match record::words(&job.options) {
            Ok(words) => words,
            Err(error @ BadRecord::NotTaken(_)) => return Err(CompileError::Options(error)),
            Err(error) => {
                lines.push(format!("ptxas fatal   : {error}"));
                return Err(CompileError::Unknown);
            }
        };
        let place = TextPlace::of(job.text, self.output.as_deref())?;
        self.run_in(place, path, given, lines, session, meanwhile)
    }

    /// The compiler at `path` with the words `given`, up to the names of files.
    pub(super) fn command(&self, path: &Path, given: Vec<String>) -> Command {
        let mut command = Command::new(path);
        command.args(given).args(&self.arguments).args((!self.whole_program).then_some("-c"));
        command
    }

    /// The lines of ptxas in the words that its counterpart has for the same.
    pub(super) fn lines_of(&self, output: &Output) -> impl Iterator<Item = String> {
        [&output.stdout, &output.stderr]
            .into_iter()
            .flat_map(|text| as_said_by(self.voice, &culd_text::bytes(text)))
    }

    /// True if `cubin` is of the kind that the link needs.
    pub(super) fn is_wanted(&self, cubin: &[u8]) -> bool {
        match sniff(cubin) {
            Format::ExecutableCubin => self.whole_program,
            Format::RelocatableCubin => !self.whole_program || self.asks_for_relocatable(),
            _ => false,
        }
    }

    /// True if a word of `-Xptxas` asks for a relocatable program.
    fn asks_for_relocatable(&self) -> bool {
        const NAMES: [&str; 4] = ["c", "compile-only", "ewp", "extensible-whole-program"];
        let name = |word: &OsString| {
            let word = word.to_str()?.trim_start_matches('-');
            word.split('=').next().map(str::to_owned)
        };
        self.arguments.iter().filter_map(name).any(|name| NAMES.contains(&name.as_str()))
    }

    /// Runs the compiler at `path` with the words `given` for the text that is in `place`.
    fn run_in(
        &self,
        mut place: TextPlace,
        path: &Path,
        given: Vec<String>,
        lines: &mut Vec<String>,
        session: &Session,
        meanwhile: impl FnOnce(),
    ) -> Result<Vec<u8>, CompileError> {
        let mut command = self.command(path, given);
        let streams = place.enter(&mut command).map_err(ChildError::Temporary)?;
        let running = RunningCompiler::start(&mut command, streams)?;
        meanwhile();
        let output = running.output(session.cancel())?;
        lines.extend(self.lines_of(&output));
        if !output.status.success() {
            return Err(CompileError::Refused(reason(path, &place, lines, output.status)));
        }
        let no_cubin =
            |place| CompileError::NoCubin { path: path.to_owned(), release: release(path, place) };
        match place.made() {
            Ok(cubin) if self.is_wanted(&cubin) => Ok(cubin),
            Ok(_) => Err(no_cubin(&place)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(no_cubin(&place)),
            Err(error) => Err(ChildError::Temporary(error).into()),
        }
    }
}

/// The place of the text and of the cubin.
enum TextPlace {
    /// Names are the same in every link: the tool note of code for a debugger has them.
    Folder(Scratch),
    /// No folder can be written to. The compiler opens its own standard streams, whose names are
    /// the same, too.
    Memory { text: File, cubin: File, names: [&'static str; 2] },
}

impl TextPlace {
    fn of(text: &[u8], output: Option<&Path>) -> Result<Self, ChildError> {
        let fill = |folder: &Path| fs::write(folder.join(TEXT_NAME), text);
        place::scratch("culd-ptx-", &[TEXT_NAME, OUTPUT_NAME], output, fill)
            .map(TextPlace::Folder)
            .or_else(|no_place| {
                let files = (child::memory_of(c"ptx", text), child::memory(c"elf.o"));
                match (files, host::STREAMS) {
                    ((Ok(text), Ok(cubin)), Some(names)) => {
                        Ok(TextPlace::Memory { text, cubin, names })
                    }
                    _ => Err(no_place.into()),
                }
            })
    }

    /// Adds the last words of `command`.
    fn enter(&self, command: &mut Command) -> io::Result<Streams> {
        match self {
            TextPlace::Folder(folder) => {
                enter_folder(command, folder);
                Ok(Streams::default())
            }
            TextPlace::Memory { text, cubin, names: [stdin, stdout] } => {
                command.args([stdin, "-o", stdout]);
                let (stdin, stdout) = (text.try_clone()?.into(), cubin.try_clone()?);
                Ok(Streams { stdin: Some(stdin), stdout: Some(stdout) })
            }
        }
    }

    /// The cubin.
    fn made(&mut self) -> io::Result<Vec<u8>> {
        match self {
            TextPlace::Folder(folder) => fs::read(folder.join(OUTPUT_NAME)),
            TextPlace::Memory { cubin, .. } => child::contents(cubin),
        }
    }
}

/// Adds the last words of `command`, whose text and cubin are in `folder`.
pub(super) fn enter_folder(command: &mut Command, folder: &Path) {
    command.args([TEXT_NAME, "-o", OUTPUT_NAME]).current_dir(folder);
}

/// Why the program at `path` failed, where its lines leave that open.
fn reason(path: &Path, place: &TextPlace, lines: &[String], status: ExitStatus) -> Option<String> {
    let said = |text: &str| lines.iter().any(|line| line.contains(text));
    let (newer, target) = (said("Unsupported .version"), said("for option 'gpu-name'"));
    // ptxas names itself in front of what it says.
    if !newer && !target && lines.iter().any(|line| line.starts_with("ptxas")) {
        return None;
    }
    let (shown, release) = (culd_text::name(path), release(path, place));
    let of = |PtxasRelease(major, minor)| format!("'{shown}' is of release {major}.{minor}");
    match release {
        Some(release) if newer => Some(of(release) + "; the text was made for a later one"),
        Some(release) if target => Some(of(release) + ", which does not know the target"),
        _ if lines.is_empty() => {
            Some(format!("'{shown}' said nothing ({status}){}", what_it_is(release)))
        }
        None => Some(format!("'{shown}' is no ptxas")),
        Some(_) => None,
    }
}

/// A release of CUDA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PtxasRelease(u32, u32);

/// The release of the program at `path`, as `--version` prints it; none for a program that is not
/// ptxas.
fn release(path: &Path, place: &TextPlace) -> Option<PtxasRelease> {
    let mut command = Command::new(path);
    command.arg("--version");
    if let TextPlace::Folder(folder) = place {
        command.current_dir(&**folder);
    }
    release_in(&culd_text::bytes(&child::briefly(&mut command)?))
}

/// `Cuda compilation tools, release 13.0, V13.0.88`
fn release_in(said: &str) -> Option<PtxasRelease> {
    if !said.contains("ptxas") {
        return None;
    }
    let (major, rest) = said.split_once(", release ")?.1.split_once('.')?;
    let minor = rest.split(|char: char| !char.is_ascii_digit()).next()?;
    Some(PtxasRelease(major.parse().ok()?, minor.parse().ok()?))
}

/// The end of a message about a program of this release; a program without one is not ptxas.
fn what_it_is(release: Option<PtxasRelease>) -> &'static str {
    if release.is_some() { "" } else { "; it is no ptxas" }
}

/// Messages of ptxas in the words that its counterpart has for the same. What is indented is the
/// rest of a message: `-report-arch` adds the target behind it (nvlink 11.8, 12.4, 12.5 and 13.0).
/// Behind a fatal message nvlink does not say that the compilation ends, and libnvJitLink does (PTX
/// that is cut short, 13.0).
fn as_said_by(voice: CompilerVoice, text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        if let Some(last) = lines.last_mut().filter(|_| line.starts_with("    ")) {
            last.push('\n');
            last.push_str(line);
            continue;
        }
        let after_fatal = lines.last().is_some_and(|last| last.contains("; fatal   :"));
        let is_left_out = after_fatal && voice == CompilerVoice::Nvlink;
        if !(is_left_out && line == "ptxas fatal   : Ptx assembly aborted due to errors") {
            let names = host::STREAMS.map(|[stdin, _]| stdin).into_iter().chain([TEXT_NAME]);
            let line = names
                .map(|name| format!("ptxas {name}, line"))
                .find_map(|begin| line.strip_prefix(begin.as_str()))
                .map_or_else(|| line.to_owned(), |rest| format!("ptxas {INPUT_NAME}, line{rest}"));
            lines.push(line);
        }
    }
    lines
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::Target;
    use culd_cubin::arch::ARCHS;
    use culd_link::Cancel;

    /// A compiler that is a script.
    pub(in super::super) fn fake(folder: &Path, script: &str) -> PtxCompiler {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.join("ptxas");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        PtxCompiler {
            path: Ok(path),
            arguments: vec!["-arch=sm_90".into()],
            output: None,
            whole_program: false,
            voice: CompilerVoice::Nvlink,
        }
    }

    /// Prints the begin of something that is taken for a relocatable cubin.
    pub(in super::super) const HEADER: &str =
        r"printf '\177ELF\002\001\101\010\000\000\000\000\000\000\000\000\001\000\276\000'";

    #[test]
    fn lines_that_are_indented_belong_to_the_message_before() {
        let said =
            "ptxas info    : Function properties for f\n    0 bytes stack frame\nptxas info\n";
        let properties = "ptxas info    : Function properties for f\n    0 bytes stack frame";
        assert_eq!(as_said_by(CompilerVoice::Nvlink, said), [properties, "ptxas info"]);
    }

    #[test]
    fn only_nvlink_is_silent_behind_a_fatal_message() {
        let fatal = "ptxas application ptx input, line 1; fatal   : syntax error";
        let end = "ptxas fatal   : Ptx assembly aborted due to errors";
        let said = format!("{fatal}\n{end}\n");
        assert_eq!(as_said_by(CompilerVoice::Nvlink, &said), [fatal]);
        assert_eq!(as_said_by(CompilerVoice::NvJitLink, &said), [fatal, end]);
    }

    /// `-Xptxas=-v -O2` is two words to nvlink, and one that ptxas does not know to libnvJitLink.
    #[test]
    fn only_nvlink_splits_words() {
        let mut options = CommandOptions::for_target(Target::Real(&ARCHS[0]));
        options.set(OptionId::Xptxas, ["-v -O2"]);
        for (reads_like_jit, words) in [(false, &["-v", "-O2"][..]), (true, &["-v -O2"])] {
            options.reads_like_jit = reads_like_jit;
            let compiler = PtxCompiler::new(&options, "sm_90", Dialect::for_toolkit(130));
            assert_eq!(compiler.arguments[2..], *words);
        }
    }

    #[test]
    fn results_come_in_order_with_the_words_of_the_compiler() {
        let folder = tempfile::tempdir().unwrap();
        let compiler = fake(
            folder.path(),
            &format!(
                "grep -q bad ptx && {{ echo 'ptxas ptx, line 3; error   : no' >&2; exit 255; }}\n\
                 {HEADER} > elf.o\nhead -c 60 /dev/zero >> elf.o\necho \"$@\" | cat - ptx >> elf.o"
            ),
        );
        let job = |text: &'static str| PtxJob { text: text.as_bytes(), options: "-g".to_owned() };
        let done = compiler.compile(
            &[job("one"), job("bad"), job("two")],
            None,
            &Session::with_threads(3),
        );
        let cubin = |place: usize| {
            let cubin = done[place].cubin.as_ref().unwrap();
            String::from_utf8(cubin[80..].to_vec())
        };
        assert_eq!(cubin(0).unwrap(), "-g -arch=sm_90 -c ptx -o elf.o\none");
        assert_eq!(cubin(2).unwrap(), "-g -arch=sm_90 -c ptx -o elf.o\ntwo");
        assert!(matches!(done[1].cubin, Err(CompileError::Refused(None))));
        assert_eq!(done[1].lines, ["ptxas application ptx input, line 3; error   : no"]);
    }

    #[test]
    fn without_a_folder_the_compiler_reads_and_writes_its_own_streams() {
        let folder = tempfile::tempdir().unwrap();
        let script = format!(
            "grep -q bad \"$4\" && {{ echo \"ptxas $4, line 3; error   : no\" >&2; exit 255; }}\n\
                      pwd >&2; {{ {HEADER}; cat \"$4\"; }} > \"$6\"; test \"$1 $2 $3\" = '-g -arch=sm_90 -c'"
        );
        let compiler = fake(folder.path(), &script);
        let path = compiler.path.as_ref().unwrap();
        let sessions = [Session::serial(), Session::serial().cancelled_by(Cancel::new())];
        for session in sessions {
            let mut lines = Vec::new();
            let mut run = |text: &[u8]| {
                let text = child::memory_of(c"ptx", text).unwrap();
                let cubin = child::memory(c"elf.o").unwrap();
                let names = host::STREAMS.unwrap();
                let place = TextPlace::Memory { text, cubin, names };
                compiler.run_in(place, path, vec!["-g".to_owned()], &mut lines, &session, || ())
            };
            let made = run(&[b'x'; 1 << 20]).unwrap();
            assert_eq!((made.len(), &made[20..]), (20 + (1 << 20), &[b'x'; 1 << 20][..]));
            assert!(matches!(run(b"bad"), Err(CompileError::Refused(None))));
            let here = std::env::current_dir().unwrap().display().to_string();
            assert_eq!(lines, [here.as_str(), "ptxas application ptx input, line 3; error   : no"]);
        }
    }

    #[test]
    fn a_program_that_makes_no_cubin_is_named() {
        let version = "[ \"$1\" = --version ] && { echo 'ptxas: NVIDIA (R) Ptx optimizing assembler'; \
                       echo 'Cuda compilation tools, release 13.1, V13.1.9'; exit 0; }";
        let newer = "echo 'ptxas ptx, line 1; fatal   : Unsupported .version 9.5' >&2; exit 1";
        let unknown =
            "echo \"ptxas fatal   : Value 'sm_999' is not defined for option 'gpu-name'\"\nexit 1";
        let cases = [
            ("exit 0".to_owned(), "made no cubin; it is no ptxas"),
            ("echo text > elf.o".to_owned(), "made no cubin; it is no ptxas"),
            (format!("{version}\nexit 0"), "made no cubin"),
            ("exit 3".to_owned(), "said nothing (exit status: 3); it is no ptxas"),
            (format!("{version}\nexit 3"), "said nothing (exit status: 3)"),
            (
                format!("{version}\n{newer}"),
                "is of release 13.1; the text was made for a later one",
            ),
            (format!("{version}\n{unknown}"), "is of release 13.1, which does not know the target"),
            ("echo usage: ls; exit 2".to_owned(), "is no ptxas"),
        ];
        for (script, expected) in cases {
            let folder = tempfile::tempdir().unwrap();
            let compiler = fake(folder.path(), &script);
            let job = PtxJob { text: b"x", options: String::new() };
            let done = compiler.compile(&[job], None, &Session::serial());
            let said = match done[0].cubin.as_ref().unwrap_err() {
                CompileError::Refused(reason) => reason.clone().unwrap(),
                error => error.to_string(),
            };
            let ptxas = folder.path().join("ptxas");
            assert_eq!(said, format!("'{}' {expected}", ptxas.display()), "{script}");
        }
    }

    #[test]
    fn releases_are_read() {
        let said = "ptxas: NVIDIA (R)\nCuda compilation tools, release 13.0, V13.0.88\nBuild x\n";
        assert_eq!(release_in(said), Some(PtxasRelease(13, 0)));
        for other in
            ["", "cat (GNU coreutils) 9.1", "ptxas", "nvcc, release 13.0", "ptxas, release x.y"]
        {
            assert_eq!(release_in(other), None, "{other}");
        }
    }

    #[test]
    fn without_a_compiler_the_error_says_where_one_was_looked_for() {
        let compiler = PtxCompiler {
            path: Err(None),
            arguments: Vec::new(),
            output: None,
            whole_program: false,
            voice: CompilerVoice::Nvlink,
        };
        let done = compiler.compile(
            &[PtxJob { text: b"x", options: String::new() }],
            None,
            &Session::serial(),
        );
        let error = done[0].cubin.as_ref().unwrap_err().to_string();
        assert!(error.contains("--ptxas-path"), "{error}");
    }
}
