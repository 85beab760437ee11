//! A compiler that starts up while its text is being made.
//!
//! In: a compiler, and later a text. Out: the result, as of [`PtxCompiler::compile`]. Guaranteed:
//! the result is the same as if the compiler had been started with the text. A compiler ends if it
//! gets no text, or if its parent has ended.
//!
//! ptxas opens its input when it has set up its tables, which is half of what it does for a small
//! text, and opens it again at its end. So the name is first that of a pipe, and later that of a
//! file with the text. A compiler that has opened the pipe before reads the text from it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use culd_link::Session;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::{OUTPUT_NAME, PtxCompilation, PtxCompiler, PtxJob, TEXT_NAME, TextPlace};
use crate::os::child::{self, RunningChild};
use crate::os::place;

/// The file with the text before it has its name.
const NEW_NAME: &str = "text";

/// Bytes of a text that the compiler may be slow to read. The system's own number is 64 KiB.
const ROOM: i32 = 1 << 20;

/// A compiler that waits for its text.
pub(crate) struct WaitingCompiler {
    running: RunningChild,
    place: TextPlace,
    /// Both ends: it can be opened and written to whether or not the compiler has opened it. The
    /// compiler finds its end when this process is gone.
    pipe: File,
    whole_program: bool,
}

impl PtxCompiler {
    /// Starts for a text that is still to come; `None` where that cannot be done.
    pub(crate) fn start(&self) -> Option<WaitingCompiler> {
        let path = self.path.as_ref().ok()?;
        let names = [TEXT_NAME, OUTPUT_NAME, NEW_NAME];
        let pipe =
            |folder: &Path| Ok(mkfifo(&folder.join(TEXT_NAME), Mode::S_IRUSR | Mode::S_IWUSR)?);
        let folder = place::scratch("culd-ptx-", &names, self.output.as_deref(), pipe).ok()?;
        let mut both = OpenOptions::new();
        both.read(true).write(true).custom_flags(libc::O_NONBLOCK);
        let pipe = both.open(folder.join(TEXT_NAME)).ok()?;
        // A limit of the user's may forbid it.
        let _ = fcntl(&pipe, FcntlArg::F_SETPIPE_SZ(ROOM));
        let place = TextPlace::Folder(folder);
        let mut command = Command::new(path);
        command.args(self.words());
        place.enter(&mut command).ok()?;
        let running = child::start(&mut command).ok()?;
        Some(WaitingCompiler { running, place, pipe, whole_program: self.whole_program })
    }

    /// Compiles `text` with `waiting`, if that is for such a text. Where it fails the compiler is
    /// started again, so that a program which cannot read a pipe only takes longer.
    pub(crate) fn compile_with(
        &self,
        waiting: Option<WaitingCompiler>,
        text: &[u8],
        session: &Session,
    ) -> Option<PtxCompilation> {
        let start = Instant::now();
        if let Some(waiting) = waiting.filter(|one| one.whole_program == self.whole_program)
            && let Some((cubin, lines)) = self.finish(waiting, text, session)
        {
            let time = start.elapsed().as_secs_f64() * 1e3;
            return Some(PtxCompilation { cubin: Ok(cubin), lines, time });
        }
        let job = PtxJob { text, options: String::new() };
        self.compile(&[job], session).pop()
    }

    /// What `waiting` makes of `text`; `None` where it fails.
    fn finish(
        &self,
        waiting: WaitingCompiler,
        text: &[u8],
        session: &Session,
    ) -> Option<(Vec<u8>, Vec<String>)> {
        let WaitingCompiler { mut running, mut place, pipe, .. } = waiting;
        give(&mut running, &place, pipe, text, session).ok()?;
        let output = running.finish(session.cancel());
        let mut lines = Vec::new();
        let path = self.path.as_ref().ok()?;
        let cubin = self.result(output, &mut place, path, &mut lines).ok()?;
        Some((cubin, lines))
    }
}

/// Gives the text, and the end of it.
fn give(
    running: &mut RunningChild,
    place: &TextPlace,
    mut pipe: File,
    text: &[u8],
    session: &Session,
) -> io::Result<()> {
    let TextPlace::Folder(folder) = place else { return Ok(()) };
    fs::write(folder.join(NEW_NAME), text)?;
    fs::rename(folder.join(NEW_NAME), folder.join(TEXT_NAME))?;
    let mut left = text;
    while !left.is_empty() {
        match pipe.write(left) {
            Ok(count) => left = left.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // It is slow, or has opened the file.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let unwanted = session.cancel().is_some_and(|cancel| cancel.is_cancelled());
                if unwanted || running.has_ended() {
                    break;
                }
                thread::sleep(child::LOOK);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{HEADER, fake};
    use super::*;
    use std::time::Duration;

    /// Compiles `text` with a compiler that had `before` to start up.
    fn compiled(script: &str, text: &[u8], before: Duration) -> PtxCompilation {
        let folder = tempfile::tempdir().unwrap();
        let compiler = fake(folder.path(), script);
        let waiting = compiler.start();
        assert!(waiting.is_some());
        thread::sleep(before);
        compiler.compile_with(waiting, text, &Session::serial()).unwrap()
    }

    #[test]
    fn a_compiler_that_is_early_or_late_reads_the_whole_text_twice() {
        for wait in ["", "sleep 0.2"] {
            for before in [0, 100].map(Duration::from_millis) {
                for size in [64, 3 << 20] {
                    let script =
                        format!("{wait}\ncp ptx one\n{{ {HEADER}; cat one ptx; }} > elf.o");
                    let text = vec![b'x'; size];
                    let done = compiled(&script, &text, before);
                    let cubin = done.cubin.unwrap();
                    assert_eq!(cubin.len(), 20 + 2 * size, "{wait} {before:?}");
                }
            }
        }
    }

    #[test]
    fn one_that_fails_is_started_again_with_a_file() {
        let script = format!("test -f ptx || exit 3\n{{ {HEADER}; cat ptx; }} > elf.o\necho again");
        let done = compiled(&script, &[b'x'; 100], Duration::from_millis(100));
        assert_eq!(done.cubin.unwrap().len(), 120);
        assert_eq!(done.lines, ["again"]);
        let done = compiled("cat ptx; exit 1", b"no", Duration::ZERO);
        assert!(done.cubin.is_err());
        assert_eq!(done.lines, ["no"]);
    }

    #[test]
    fn nobody_waits_for_one_that_gets_no_text() {
        let folder = tempfile::tempdir().unwrap();
        let compiler = fake(folder.path(), "cat ptx");
        let place = |waiting: &WaitingCompiler| match &waiting.place {
            TextPlace::Folder(folder) => folder.to_path_buf(),
            TextPlace::Memory { .. } => panic!("no folder"),
        };
        let waiting = compiler.start().unwrap();
        let there = place(&waiting);
        assert!(there.exists());
        drop(waiting);
        assert!(!there.exists());
    }
}
