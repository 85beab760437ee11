//! `culd-lto`, running.
//!
//! In: requests. Out: outputs and lines. Guaranteed: the program is killed when the link needs it
//! no more or is cancelled, and ends by itself when this process ends; its private folder is
//! removed.
//!
//! The program is started as soon as LTO-IR is found, so that it loads NVIDIA's library while other
//! inputs are compiled, and makes all compilations of the link.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::{env, fs};

use culd_link::{Cancel, Session};
use culd_text::message;
use thiserror::Error;

use crate::messages::InputPlace;
use crate::options::CommandOptions;
use crate::os::child::{self, ChildError};
use crate::os::host::{self, Socket};
use crate::os::place;
use crate::os::scratch::Scratch;
use crate::threads::has_room;
use crate::toolkit::programs;
use crate::tools;

/// The program that has NVIDIA's library compile.
const PROGRAM: &str = "culd-lto";

/// A file that keeps the program from the CUDA driver: it is empty, so the loader ends its search
/// there. NVIDIA's library looks for the driver before each compilation, and starting it takes
/// 200 ms on a machine with a GPU. nvlink never starts it, and the code is the same without it.
const DRIVER: &str = "libcuda.so.1";

/// How to get the program: somebody has copied the command alone.
const WHERE_FROM: &str = "culd-lto is a program of culd's own, in every package of culd beside it; in its source, 'cargo \
                          install --locked --path crates/culd' installs both";

/// The output of the program.
#[derive(Debug)]
pub(crate) struct LtoOutput {
    pub(crate) bytes: Vec<u8>,
    pub(crate) said: CompilerLog,
}

/// Lines of the program.
#[derive(Debug, Default)]
pub(crate) struct CompilerLog {
    /// The log of the compiler, which nvlink prints as an info.
    pub(crate) log: String,
    /// Lines that NVIDIA's libraries print themselves.
    pub(crate) lines: Vec<String>,
}

/// The reason why there is no output.
#[derive(Debug, Error)]
pub(crate) enum LtoFailure {
    #[error("there is no {PROGRAM} beside this program or in PATH, which compiles it")]
    NoProgram,
    #[error("this system has no way to {PROGRAM}, which compiles it; Linux has one")]
    NotHere,
    #[error(transparent)]
    NotRun(#[from] ChildError),
    /// The lines of the program; the first has the reason.
    #[error("{}", .0.first().map_or("it does not say why", String::as_str))]
    Failed(Vec<String>),
    /// NVIDIA's library makes no objects.
    #[error("{0}")]
    NoObject(String),
    /// NVIDIA's library has refused: it does not take the input of the request at place `input`, or
    /// it does not compile them.
    #[error("'{library}' refused (code {code})")]
    Refused { code: i32, library: String, said: CompilerLog, input: Option<usize> },
    /// It does not take the piece of LTO-IR at `place`. nvlink's compiler looks at a piece as soon
    /// as it is read.
    #[error("{refusal}")]
    NotTaken { refusal: Box<LtoFailure>, place: InputPlace },
}

impl LtoFailure {
    /// Lines that explain it.
    pub(crate) fn notes(&self) -> Vec<String> {
        match self {
            LtoFailure::Failed(lines) => lines.iter().skip(1).cloned().collect(),
            LtoFailure::NoProgram => vec![WHERE_FROM.to_owned()],
            _ => Vec::new(),
        }
    }
}

/// What stands in front of an option of libnvJitLink in a request, behind `--`.
pub(crate) const OPTION: &str = "option";

/// The names that must stay.
#[derive(Clone)]
pub(crate) enum LtoRoots {
    /// In NVVM IR.
    Text(String),
    /// LTO-IR of it.
    LtoIr(Vec<u8>),
}

/// The program for one link. It is started again for a request behind one that ended it,
/// or after which NVIDIA's compiler would compile otherwise.
#[derive(Default)]
pub(crate) struct LtoProgram {
    running: Option<RunningProgram>,
    /// Programs that have been killed. To leave the memory of NVIDIA's libraries takes the system
    /// 5 ms, for which the link does not wait before its end.
    killed: Vec<RunningProgram>,
    /// There were processors for another one when this was started.
    had_room: bool,
    /// A second one, which makes LTO-IR of names while the first one loads another library.
    names: Option<RunningProgram>,
}

impl LtoProgram {
    /// Starts the program. If that fails, the first request reports the reason.
    pub(crate) fn start(options: &CommandOptions, session: &Session) -> Self {
        let had_room = has_room(options, session, 1);
        let running = RunningProgram::start(options, &[]).ok();
        LtoProgram { running, had_room, ..LtoProgram::default() }
    }

    /// True if another program beside this one would have a processor. Of two looks one counts:
    /// on an idle machine, too, something runs for a moment.
    pub(crate) fn has_room(&self, options: &CommandOptions, session: &Session) -> bool {
        // This thread and the program, which loads its libraries.
        self.had_room || has_room(options, session, 2)
    }

    /// The number of its process, if it runs.
    pub(crate) fn process(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.child.id())
    }

    /// The output for a request with these words.
    pub(crate) fn compile(
        &mut self,
        words: &[Cow<'_, [u8]>],
        options: &CommandOptions,
        cancel: Option<&Cancel>,
    ) -> Result<LtoOutput, LtoFailure> {
        let mut running = self.asked(words, options)?;
        let made = running.output(cancel)?;
        self.running = Some(running);
        if words.windows(2).any(|pair| is_option(&pair[0]) && changes_compiler(&pair[1])) {
            self.no_more();
        }
        made
    }

    /// The second output for a request with these words for two; `take_first` gets the first one,
    /// if there is one.
    pub(crate) fn compile_both(
        &mut self,
        words: &[Cow<'_, [u8]>],
        options: &CommandOptions,
        cancel: Option<&Cancel>,
        take_first: impl FnOnce(LtoOutput),
    ) -> Result<LtoOutput, LtoFailure> {
        let mut running = self.asked(words, options)?;
        if let Ok(made) = running.output(cancel)? {
            take_first(made);
        }
        let made = running.output(cancel)?;
        self.running = Some(running);
        made
    }

    /// The program, which has got a request with these words.
    fn asked(
        &mut self,
        words: &[Cow<'_, [u8]>],
        options: &CommandOptions,
    ) -> Result<RunningProgram, LtoFailure> {
        let started = self.running.take().map_or_else(|| RunningProgram::start(options, &[]), Ok);
        let mut running = started?;
        running.ask(words);
        Ok(running)
    }

    /// Starts a program for [`LtoProgram::roots`].
    pub(crate) fn start_names(&mut self, options: &CommandOptions) {
        self.names = RunningProgram::start(options, &["--names"]).ok();
    }

    /// The names in `text`, NVVM IR, in the form for a request to the target `arch`: LTO-IR if a
    /// program for it runs. Without one, or if it fails, the other program makes LTO-IR.
    pub(crate) fn roots(&mut self, text: String, arch: &str, cancel: Option<&Cancel>) -> LtoRoots {
        let Some(mut running) = self.names.take() else { return LtoRoots::Text(text) };
        let option = format!("-arch={arch}");
        let words = ["names", "--roots", &text, "--option", &option];
        running.ask(&words);
        let made = running.output(cancel);
        // It ends while the other one compiles, and not at the end of the link, which waits for it.
        self.kill(running);
        match made {
            Ok(Ok(made)) => LtoRoots::LtoIr(made.bytes),
            _ => LtoRoots::Text(text),
        }
    }

    /// No request is likely to follow: the program ends while the link goes on.
    pub(crate) fn no_more(&mut self) {
        for running in [self.names.take(), self.running.take()].into_iter().flatten() {
            self.kill(running);
        }
    }

    fn kill(&mut self, mut running: RunningProgram) {
        running.kill();
        self.killed.push(running);
    }

    /// Leaves the end of `other` to the end of this one.
    pub(crate) fn keep(&mut self, mut other: LtoProgram) {
        other.no_more();
        self.killed.append(&mut other.killed);
    }
}

fn is_option(word: &[u8]) -> bool {
    word.strip_prefix(b"--") == Some(OPTION.as_bytes())
}

/// True if NVIDIA's compiler compiles otherwise in the rest of its process, once it has met the
/// option `word`: without optimization it changes settings that later compilations take over. They
/// read a `__grid_constant__` parameter through a generic address then, for example (13.0 to 13.5;
/// `-g` by 13.5; `compare lto`, *constantl.o*). Of `-Ofc` and `-opt` that is `max` and `0`; other
/// values end the process without need.
fn changes_compiler(word: &[u8]) -> bool {
    matches!(word, b"-O0" | b"-g")
        || [&b"-Ofc"[..], b"-Xnvvm=-opt"].iter().any(|start| word.starts_with(start))
}

/// The program, its private folder and what connects it.
struct RunningProgram {
    child: Child,
    /// Requests and replies.
    socket: Socket,
    /// Standard output and error.
    said: File,
    /// Bytes of it that earlier requests have read.
    heard: u64,
    /// It is removed when the program is killed.
    folder: Option<Scratch>,
}

impl RunningProgram {
    /// Starts it with `words`.
    fn start(options: &CommandOptions, words: &[&str]) -> Result<Self, LtoFailure> {
        if !host::HAS_LTO {
            return Err(LtoFailure::NotHere);
        }
        let program = options.lto_program.clone().or_else(find).ok_or(LtoFailure::NoProgram)?;
        let fill = |folder: &Path| fs::write(folder.join(DRIVER), "");
        let folder = place::scratch("culd-lto-", &[DRIVER], options.output(), fill);
        let folder = folder.map_err(ChildError::NoPlace)?;
        let said = child::memory(c"said").map_err(ChildError::Temporary)?;
        let (socket, stdin) = host::socket().map_err(ChildError::Temporary)?;
        let mut command = Command::new(&program);
        command.env("LD_LIBRARY_PATH", library_folders(&folder));
        command.args(words);
        for toolkit in tools::toolkit_homes(options) {
            command.arg("--toolkit").arg(toolkit);
        }
        let [stdout, stderr] = [said.try_clone(), said.try_clone()];
        command.stdin(stdin);
        command.stdout(stdout.map_err(ChildError::Temporary)?);
        command.stderr(stderr.map_err(ChildError::Temporary)?);
        let child = child::start_compiler(&mut command)?;
        Ok(RunningProgram { child, socket, said, heard: 0, folder: Some(folder) })
    }

    /// Sends a request. A program that has ended gives no reply.
    fn ask(&mut self, words: &[impl AsRef<[u8]>]) {
        let _ = message::write(&mut self.socket, words);
    }

    /// What the program makes of a request. The outer failure is that of the program, which is
    /// killed then.
    fn output(
        &mut self,
        cancel: Option<&Cancel>,
    ) -> Result<Result<LtoOutput, LtoFailure>, LtoFailure> {
        let reply = self.reply(cancel).inspect_err(|_| self.kill())?;
        let lines = self.lines()?;
        match reply {
            Some(reply) => Ok(output(reply, lines)),
            None => Err(LtoFailure::Failed(lines)),
        }
    }

    /// The next reply; `None` if the program ended without one.
    fn reply(&mut self, cancel: Option<&Cancel>) -> Result<Option<Vec<Vec<u8>>>, ChildError> {
        let timeout = self.socket.set_read_timeout(cancel.map(|_| child::LOOK));
        timeout.map_err(ChildError::Temporary)?;
        // Lines are read byte by byte, and nothing of the reply behind this one.
        let patient = Patient { socket: &self.socket, cancel };
        let reply = message::read(&mut BufReader::with_capacity(1, patient));
        match cancel.is_some_and(Cancel::is_cancelled) {
            true => Err(ChildError::Cancelled),
            false => Ok(reply.ok().flatten()),
        }
    }

    /// Lines that the program and its libraries have printed since the last call.
    fn lines(&mut self) -> Result<Vec<String>, ChildError> {
        let mut new = Vec::new();
        let mut part = [0; 4096];
        loop {
            let at = self.heard + new.len() as u64;
            match host::read_at(&self.said, &mut part, at).map_err(ChildError::Temporary)? {
                0 => break,
                size => new.extend_from_slice(&part[..size]),
            }
        }
        self.heard += new.len() as u64;
        Ok(culd_text::bytes(&new).lines().map(str::to_owned).collect())
    }

    /// Ends the program, while the link goes on. NVIDIA's libraries would take 7 ms to end by
    /// themselves, of which nothing comes.
    fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        self.folder = None;
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

/// Reads until there is something, or the link is cancelled.
struct Patient<'s> {
    socket: &'s Socket,
    cancel: Option<&'s Cancel>,
}

impl Read for Patient<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.socket.read(bytes) {
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock
                        && !self.cancel.is_some_and(Cancel::is_cancelled) => {}
                done => return done,
            }
        }
    }
}

/// The output in a reply; `lines` are those of NVIDIA's libraries, without those in the reply.
fn output(reply: Vec<Vec<u8>>, mut lines: Vec<String>) -> Result<LtoOutput, LtoFailure> {
    let mut reply = reply.into_iter();
    let report = culd_text::bytes(&reply.next().unwrap_or_default());
    match reply.next() {
        Some(bytes) => {
            let log = report.split_once('\n').map_or("", |(_, log)| log).to_owned();
            let said = culd_text::bytes(&reply.next().unwrap_or_default());
            lines.extend(said.lines().map(str::to_owned));
            Ok(LtoOutput { bytes, said: CompilerLog { log, lines } })
        }
        None => Err(failure(&report, lines)),
    }
}

/// The failure in the program's report; `lines` are its other lines.
fn failure(report: &str, lines: Vec<String>) -> LtoFailure {
    let (first, log) = report.split_once('\n').unwrap_or((report, ""));
    if let Some((code, library)) =
        first.strip_prefix("refused ").and_then(|rest| rest.split_once(" by "))
        && let (code, input) =
            code.split_once(" at ").map_or((code, None), |(code, input)| (code, Some(input)))
        && let Ok(code) = code.parse()
    {
        let input = input.and_then(|input| input.parse().ok());
        let said = CompilerLog { log: log.to_owned(), lines };
        return LtoFailure::Refused { code, library: library.to_owned(), said, input };
    }
    if let Some(why) = first.strip_prefix("no object: ") {
        return LtoFailure::NoObject(why.to_owned());
    }
    let why = first.strip_prefix("failed: ").filter(|why| !why.is_empty());
    let reasons = why.map(str::to_owned).into_iter().chain(log.lines().map(str::to_owned));
    LtoFailure::Failed(reasons.chain(lines).collect())
}

/// The program's folders of libraries, `folder` first.
fn library_folders(folder: &Path) -> OsString {
    let others = env::var_os("LD_LIBRARY_PATH").filter(|others| !others.is_empty());
    let folder = folder.as_os_str().to_owned();
    let folders: Vec<OsString> = [folder].into_iter().chain(others).collect();
    folders.join(OsStr::new(":"))
}

/// The program in the folder of this one, or in PATH.
fn find() -> Option<PathBuf> {
    // The file behind a link: a shadow's nvlink has no such neighbour.
    let own = env::current_exe().ok().and_then(|own| Some(own.parent()?.to_owned()));
    programs::in_folders(own.into_iter().chain(programs::folders()), PROGRAM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_the_program_are_read() {
        let lines = || vec!["opt: no".to_owned()];
        let LtoFailure::Refused { code, library, said, input } =
            failure("refused 5 by /a b/lib.so\nlog 1\nlog 2\n", lines())
        else {
            panic!("not refused");
        };
        assert_eq!((code, library.as_str(), input), (5, "/a b/lib.so", None));
        let at = failure("refused 14 at 2 by /lib.so\n", Vec::new());
        assert!(matches!(at, LtoFailure::Refused { code: 14, input: Some(2), .. }));
        assert_eq!((said.log.as_str(), said.lines), ("log 1\nlog 2\n", lines()));
        let failed = failure("failed: no library\nmore\n", Vec::new());
        assert_eq!(
            (failed.to_string().as_str(), failed.notes()),
            ("no library", vec!["more".to_owned()])
        );
        let none = failure("no object: 'lib.so' is old\n", Vec::new());
        assert!(matches!(&none, LtoFailure::NoObject(why) if why == "'lib.so' is old"));
        for report in ["", "refused x by y", "refused", "failed: "] {
            let failed = failure(report, Vec::new());
            assert!(matches!(failed, LtoFailure::Failed(_)), "{report}");
        }
        assert_eq!(failure("", Vec::new()).to_string(), "it does not say why");
    }
}
