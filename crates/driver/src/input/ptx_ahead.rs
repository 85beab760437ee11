//! ptxas, started before there is a text.
//!
//! In: a compiler; later the text. Out: what the compiler would make of it. Guaranteed: if anything
//! goes wrong, ptxas is started again with the text in a file.
//!
//! ptxas takes a third of a small compilation until it opens its text, which it does twice: it
//! reads all of it, and then once more (12.0 to 13.5). Until there is a text, the name of the file
//! leads to ptxas's standard input, a pipe, where the first reading waits. Then the text gets the
//! name for the second one, and the pipe is filled. A ptxas that has opened nothing yet reads the
//! file twice. If this process ends, so does the pipe, and ptxas.

use std::fs::{self, File};
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::path::Path;
use std::process::Command;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use culd_link::Session;

use super::compilation::{PtxCompilation, PtxJob};
use super::ptx::{OUTPUT_NAME, PtxCompiler, TEXT_NAME, enter_folder, lines_of};
use crate::os::child::{RunningCompiler, Streams};
use crate::os::host;
use crate::os::place;
use crate::os::scratch::Scratch;

/// The text before it gets its name.
const NEW_TEXT: &str = "text";

/// The time to wait for room in the pipe.
const ROOM: Duration = Duration::from_micros(200);

/// A ptxas that waits for its text. A thread starts it, which takes a millisecond.
pub(crate) struct PtxasAhead(Option<JoinHandle<Option<WaitingPtxas>>>);

impl PtxasAhead {
    /// Starts `compiler`; `None` if there is no thread for it, or in a program that uses the
    /// library. Such a program may copy itself (fork), and the pipe would not end before the copy.
    pub(crate) fn start(compiler: PtxCompiler) -> Option<Self> {
        if !is_command() {
            return None;
        }
        let start = || WaitingPtxas::start(compiler);
        Some(PtxasAhead(Some(thread::Builder::new().spawn(start).ok()?)))
    }

    /// Waits until it runs.
    fn waiting(&mut self) -> Option<WaitingPtxas> {
        self.0.take()?.join().ok().flatten()
    }
}

impl Drop for PtxasAhead {
    fn drop(&mut self) {
        // Its folder is removed.
        drop(self.waiting());
    }
}

struct WaitingPtxas {
    compiler: PtxCompiler,
    running: RunningCompiler,
    writer: PipeWriter,
    /// No signal comes of a pipe that somebody could read.
    _reader: PipeReader,
    folder: Scratch,
}

impl WaitingPtxas {
    /// Starts `compiler`, if this system can and it is a program of NVIDIA's kind: a script might
    /// read its standard input.
    fn start(compiler: PtxCompiler) -> Option<Self> {
        let path = compiler.path.as_deref().ok().filter(|path| is_elf(path))?;
        let command = compiler.command(path, Vec::new());
        WaitingPtxas::start_command(command, compiler)
    }

    fn start_command(mut command: Command, compiler: PtxCompiler) -> Option<Self> {
        let fill = |folder: &Path| host::link_to_stdin(&folder.join(TEXT_NAME));
        let names = [TEXT_NAME, OUTPUT_NAME, NEW_TEXT];
        let (reader, writer) = host::pipe().ok()?;
        let folder = place::scratch("culd-ptx-", &names, compiler.output.as_deref(), fill).ok()?;
        enter_folder(&mut command, &folder);
        let stdin = reader.try_clone().ok()?;
        let streams = Streams { stdin: Some(stdin.into()), stdout: None };
        let running = RunningCompiler::start(&mut command, streams).ok()?;
        Some(WaitingPtxas { compiler, running, writer, _reader: reader, folder })
    }

    /// What it makes of `text`; `None` if it fails in any way. `meanwhile` is called when it has
    /// the text.
    fn compile(
        mut self,
        text: &[u8],
        session: &Session,
        meanwhile: &mut impl FnMut(),
    ) -> Option<(Vec<u8>, Vec<String>)> {
        let [new, named] = [NEW_TEXT, TEXT_NAME].map(|name| self.folder.join(name));
        fs::write(&new, text).ok()?;
        fs::rename(&new, named).ok()?;
        self.fill(text, session).ok()?;
        let WaitingPtxas { compiler, running, writer, folder, .. } = self;
        drop(writer);
        meanwhile();
        let output = running.output(session.cancel()).ok()?;
        let cubin = fs::read(folder.join(OUTPUT_NAME)).ok()?;
        let made = output.status.success() && compiler.is_wanted(&cubin);
        made.then(|| (cubin, lines_of(&output).collect()))
    }

    /// Writes `text` into the pipe, as far as ptxas takes it: it may read the file instead.
    fn fill(&mut self, mut text: &[u8], session: &Session) -> io::Result<()> {
        while !text.is_empty() {
            match self.writer.write(text) {
                Ok(count) => text = &text[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if self.running.has_ended() || session.is_cancelled() {
                        break;
                    }
                    thread::sleep(ROOM);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl PtxCompiler {
    /// As [`PtxCompiler::compile_one`], by `ahead` if it is this compiler. `meanwhile` is called
    /// when a ptxas has the text.
    pub(crate) fn compile_with(
        &self,
        ahead: Option<PtxasAhead>,
        job: &PtxJob<'_>,
        session: &Session,
        mut meanwhile: impl FnMut(),
    ) -> PtxCompilation {
        let begin = Instant::now();
        let ahead = ahead.and_then(|mut ahead| ahead.waiting());
        let ahead = ahead.filter(|ahead| ahead.compiler == *self && job.options.is_empty());
        match ahead.and_then(|ahead| ahead.compile(job.text, session, &mut meanwhile)) {
            Some((cubin, lines)) => {
                let time = begin.elapsed().as_secs_f64() * 1e3;
                PtxCompilation { cubin: Ok(cubin), lines, time }
            }
            None => self.compile_while(job, session, meanwhile),
        }
    }
}

/// True if this process is the command.
fn is_command() -> bool {
    #[cfg(feature = "command")]
    return crate::os::guard::is_set_up();
    #[cfg(not(feature = "command"))]
    return false;
}

fn is_elf(path: &Path) -> bool {
    let mut start = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *b"\x7fELF"
}

#[cfg(test)]
mod tests {
    use super::super::ptx::tests::{HEADER, fake};
    use super::*;

    /// A compiler that is a script, which writes a line to `runs` beside it.
    fn listed(folder: &Path, script: &str) -> PtxCompiler {
        fake(folder, &format!("pwd >> {}\n{script}", folder.join("runs").display()))
    }

    /// The same, started. Scripts are not started ahead otherwise.
    fn started(folder: &Path, script: &str) -> (PtxCompiler, WaitingPtxas) {
        let [compiler, same] = [(); 2].map(|()| listed(folder, script));
        let command = compiler.command(compiler.path.as_deref().unwrap(), Vec::new());
        let waiting = WaitingPtxas::start_command(command, same).unwrap();
        (compiler, waiting)
    }

    fn ahead(waiting: WaitingPtxas) -> PtxasAhead {
        PtxasAhead(Some(thread::spawn(|| Some(waiting))))
    }

    /// What comes behind the header.
    fn made(compilation: PtxCompilation) -> Vec<u8> {
        compilation.cubin.unwrap().split_off(20)
    }

    fn runs(folder: &Path) -> Vec<String> {
        let runs = fs::read_to_string(folder.join("runs")).unwrap_or_default();
        runs.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_compiler_that_waits_reads_all_of_the_text_each_time() {
        let reads = |before: &str| format!("{before}\n{{ {HEADER}; cat ptx; cat ptx; }} > elf.o");
        // It may come before the text or behind it, and not read what is in the pipe.
        for before in ["", "sleep 0.1", "sleep 0.1; exec < /dev/null"] {
            for size in [1, 300, 1 << 20] {
                let folder = tempfile::tempdir().unwrap();
                let (compiler, waiting) = started(folder.path(), &reads(before));
                let text: Vec<u8> = (0..size).map(|place| b'a' + (place % 23) as u8).collect();
                if before.is_empty() {
                    thread::sleep(Duration::from_millis(50));
                }
                let job = PtxJob { text: &text, options: String::new() };
                let mut times = 0;
                let session = Session::serial();
                let done =
                    compiler.compile_with(Some(ahead(waiting)), &job, &session, || times += 1);
                assert!(made(done) == [text.as_slice(), &text].concat(), "{before} {size}");
                assert_eq!((times, runs(folder.path()).len()), (1, 1), "{before} {size}");
            }
        }
    }

    #[test]
    fn a_compiler_that_fails_or_is_another_one_is_started_again() {
        let works = format!("{{ {HEADER}; cat ptx; }} > elf.o");
        for script in [
            format!("[ -p /dev/stdin ] && exit 1\n{works}"),
            format!("[ -p /dev/stdin ] && exit 0\n{works}"),
            format!("[ -f ptx ] && [ ! -L ptx ] || {{ cat ptx > elf.o; exit; }}\n{works}"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let (compiler, waiting) = started(folder.path(), &script);
            thread::sleep(Duration::from_millis(50));
            let job = PtxJob { text: b"text", options: String::new() };
            let session = Session::serial();
            let done = compiler.compile_with(Some(ahead(waiting)), &job, &session, || ());
            assert_eq!(made(done), b"text", "{script}");
            assert_eq!(runs(folder.path()).len(), 2, "{script}");
        }
        // The job, or the link, has other options.
        let folder = tempfile::tempdir().unwrap();
        for (whole_program, options) in [(true, ""), (false, "-g")] {
            let (mut compiler, waiting) = started(folder.path(), &works);
            compiler.whole_program = whole_program;
            let place = waiting.folder.to_path_buf();
            let job = PtxJob { text: b"text", options: options.to_owned() };
            let session = Session::serial();
            let done = compiler.compile_with(Some(ahead(waiting)), &job, &session, || ());
            assert_eq!(done.cubin.is_ok(), !whole_program);
            let own = runs(folder.path()).pop().unwrap();
            assert!(own != place.display().to_string() && !place.exists());
        }
    }

    #[test]
    fn a_compiler_that_gets_no_text_ends_with_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (_, waiting) = started(folder.path(), "cat ptx; sleep 100");
        let place = waiting.folder.to_path_buf();
        assert!(place.exists());
        let begin = Instant::now();
        drop(ahead(waiting));
        assert!(!place.exists() && begin.elapsed() < Duration::from_secs(50));
        // The pipe ends with this process, and with it the reading.
        let (_, mut waiting) = started(folder.path(), "cat ptx");
        drop((waiting.writer, waiting._reader));
        while !waiting.running.has_ended() {
            assert!(begin.elapsed() < Duration::from_secs(50));
            thread::sleep(ROOM);
        }
    }

    #[test]
    fn scripts_are_not_started_ahead_and_nothing_outside_of_the_command() {
        let folder = tempfile::tempdir().unwrap();
        assert!(WaitingPtxas::start(listed(folder.path(), "exit 0")).is_none());
        assert!(PtxasAhead::start(listed(folder.path(), "exit 0")).is_none());
        assert_eq!(runs(folder.path()), [""; 0]);
        assert!(is_elf(&std::env::current_exe().unwrap()));
    }
}
