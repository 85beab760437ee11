//! ptxas, started before there is a text.
//!
//! In: a compiler; later the text. Out: what the compiler would make of it. Guaranteed: if anything
//! goes wrong, ptxas is started again with the text in a file.
//!
//! ptxas takes a third of a small compilation until it opens its text, which it does twice (12.0 to
//! 13.5). Until there is a text, the system lets it wait where it opens the file. If this process
//! ends, so does the waiting, and ptxas finds an empty file.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use culd_cubin::arch::Arch;
use culd_link::{Dialect, Session};

use super::compilation::{PtxCompilation, PtxJob};
use super::ptx::{OUTPUT_NAME, PtxCompiler, TEXT_NAME, enter_folder};
use crate::options::CommandOptions;
use crate::options::dialect;
use crate::os::child::{RunningCompiler, Streams};
use crate::os::host::{FileLease, MovedProcess, this_thread};
use crate::os::place;
use crate::os::scratch::Scratch;

/// A ptxas that waits for its text. A thread starts it, which takes a millisecond.
pub struct PtxasAhead {
    start: Option<JoinHandle<Option<WaitingPtxas>>>,
    /// The process that makes the text.
    maker: Option<u32>,
}

impl PtxasAhead {
    /// Starts the ptxas that [`unpack`](crate::unpack) would start for PTX; `None` if there is no
    /// thread for it.
    pub fn for_ptx(options: &CommandOptions, arch: &'static Arch) -> Option<Self> {
        let rules = dialect::named(options).unwrap_or_else(|| Dialect::for_cubins(arch, []));
        PtxasAhead::start(PtxCompiler::new(options, arch.name, rules))
    }

    /// Starts `compiler`; `None` if there is no thread for it.
    pub(crate) fn start(compiler: PtxCompiler) -> Option<Self> {
        let start = || WaitingPtxas::start(compiler);
        let start = thread::Builder::new().spawn(start).ok()?;
        Some(PtxasAhead { start: Some(start), maker: None })
    }

    /// It takes the processor over on which the process `maker` has made the text.
    pub(crate) fn take_over(&mut self, maker: u32) {
        self.maker = Some(maker);
    }

    /// It takes the processor over on which the calling thread has made the text.
    pub fn take_over_here(&mut self) {
        self.maker = this_thread();
    }

    /// Waits until it runs.
    fn waiting(&mut self) -> Option<WaitingPtxas> {
        self.start.take()?.join().ok().flatten()
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
    text: FileLease,
    folder: Scratch,
}

impl WaitingPtxas {
    /// Starts `compiler`, if this system can and it is a program of NVIDIA's kind: a script might
    /// look at the file and not wait.
    fn start(compiler: PtxCompiler) -> Option<Self> {
        let path = compiler.path.as_deref().ok().filter(|path| is_elf(path))?;
        let command = compiler.command(path, Vec::new());
        WaitingPtxas::start_command(command, compiler)
    }

    fn start_command(mut command: Command, compiler: PtxCompiler) -> Option<Self> {
        let lease = Cell::new(None);
        let fill = |folder: &Path| {
            lease.set(Some(FileLease::new(&folder.join(TEXT_NAME))?));
            Ok(())
        };
        let names = [TEXT_NAME, OUTPUT_NAME];
        let folder = place::scratch("culd-ptx-", &names, compiler.output.as_deref(), fill).ok()?;
        enter_folder(&mut command, &folder);
        let running = RunningCompiler::start(&mut command, Streams::default()).ok()?;
        Some(WaitingPtxas { compiler, running, text: lease.take()?, folder })
    }

    /// What it makes of `text`; `None` if it fails in any way. `meanwhile` is called when it has
    /// the text.
    fn compile(
        self,
        text: &[u8],
        maker: Option<u32>,
        session: &Session,
        meanwhile: &mut impl FnMut(),
    ) -> Option<(Vec<u8>, Vec<String>)> {
        let WaitingPtxas { compiler, running, text: file, folder } = self;
        let moved = maker.and_then(|maker| MovedProcess::to_that_of(running.id(), maker));
        file.complete(text).ok()?;
        if let Some(moved) = moved {
            moved.let_go();
        }
        meanwhile();
        let output = running.output(session.cancel()).ok()?;
        let cubin = fs::read(folder.join(OUTPUT_NAME)).ok()?;
        let made = output.status.success() && compiler.is_wanted(&cubin);
        made.then(|| (cubin, compiler.lines_of(&output).collect()))
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
        let maker = ahead.as_ref().and_then(|ahead| ahead.maker);
        let ahead = ahead.and_then(|mut ahead| ahead.waiting());
        let ahead = ahead.filter(|ahead| ahead.compiler == *self && job.options.is_empty());
        match ahead.and_then(|ahead| ahead.compile(job.text, maker, session, &mut meanwhile)) {
            Some((cubin, lines)) => {
                let time = begin.elapsed().as_secs_f64() * 1e3;
                PtxCompilation { cubin: Ok(cubin), lines, time }
            }
            None => self.compile_while(job, session, meanwhile),
        }
    }
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
    use std::time::Duration;

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
        PtxasAhead { start: Some(thread::spawn(|| Some(waiting))), maker: None }
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
        // It may come before the text or behind it.
        for before in ["", "sleep 0.1"] {
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
        // The second run finds the first one's line in the list.
        for script in [
            format!("[ $(wc -l < LIST) = 1 ] && exit 1\n{works}"),
            format!("[ $(wc -l < LIST) = 1 ] && exit 0\n{works}"),
            format!("[ $(wc -l < LIST) = 1 ] && {{ cat ptx > elf.o; exit; }}\n{works}"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let script = script.replace("LIST", &folder.path().join("runs").display().to_string());
            let (compiler, waiting) = started(folder.path(), &script);
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
        // The lease ends with this process, and with it the waiting.
        let (_, waiting) = started(folder.path(), "cat ptx; exit 3");
        let WaitingPtxas { running, text, .. } = waiting;
        thread::sleep(Duration::from_millis(50));
        drop(text);
        assert_eq!(running.output(None).unwrap().status.code(), Some(3));
    }

    #[test]
    fn scripts_are_not_started_ahead() {
        let folder = tempfile::tempdir().unwrap();
        assert!(WaitingPtxas::start(listed(folder.path(), "exit 0")).is_none());
        assert_eq!(runs(folder.path()), [""; 0]);
        assert!(is_elf(&std::env::current_exe().unwrap()));
    }
}
