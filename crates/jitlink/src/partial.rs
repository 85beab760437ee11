//! LTO-IR that is linked with other code.
//!
//! In: LTO-IR and the other cubins. Out: PTX of what is kept of the LTO-IR, or an object.
//! Guaranteed: the result does not depend on what was guessed.
//!
//! Only an object tells what NVIDIA's library keeps (docs/rules/lto.md, 9), and its ptxas has to
//! compile one. What is kept is mostly a program of its own. So if processors are idle, a second
//! thread has the text of such a program made and compiled meanwhile.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Instant;

use culd_driver::{LtoObject, NamedCubin, OptionId, PtxasAhead};
use culd_link::{Cancel, Session};
use culd_lto::{BusyProcessor, CompileOutput, CompileTask, LtoTarget, NvJitLink, OPEN_ROOTS};

use crate::abi::STACK;
use crate::lto::{CompileFailure, Logs, LtoCompilation, LtoInput, lines, refusal, toolkits, words};
use crate::options::JitOptions;

/// Options about used names, which the link follows.
const SELECTING: &[&str] = &["-kernels-used=", "-variables-used="];
/// The option with which variables are dropped that LTO-IR does not use.
const DROPS_VARIABLES: &str = "-optimize-unused-variables";

/// What is kept of LTO-IR that is linked with other code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// As NVIDIA's library has it: what LTO-IR uses itself that names no function of other code, a
    /// program of its own; else all that other code can see.
    Used,
    /// All that other code can see, where NVIDIA's library fails.
    Visible,
}

/// The output of NVIDIA's library for LTO-IR in a link with other code.
#[derive(Debug)]
pub(crate) struct LtoPart<T> {
    pub(crate) code: LtoCode<T>,
    /// The time at which its text was there.
    pub(crate) text_made: Instant,
    /// It has only what the LTO-IR uses itself, so other code may lack something.
    pub(crate) may_lack: bool,
}

/// Code of LTO-IR.
#[derive(Debug)]
pub(crate) enum LtoCode<T> {
    /// What the caller has made of PTX with all that is kept.
    Compiled(T),
    /// An object, if there is no libnvvm. It has been linked once.
    Object(Vec<u8>),
}

/// Has LTO-IR compiled that is linked with `others`. `compile` gets its PTX, and maybe one that
/// turns out not to be it, in a session that is cancelled then.
pub(crate) fn partial<T: Send>(
    compiler: &NvJitLink,
    options: &JitOptions,
    inputs: &[LtoInput],
    others: &[NamedCubin],
    kept: Kept,
    compile: impl Fn(&[u8], Option<PtxasAhead>, &Session) -> T + Sync,
) -> Result<LtoCompilation<LtoPart<T>>, CompileFailure> {
    let inputs: Vec<culd_lto::CompileInput<'_>> = inputs.iter().map(LtoInput::borrow).collect();
    let nvvm = culd_lto::find_nvvm(compiler.path(), &toolkits(options));
    let part = PartialLink { compiler, options, inputs, others, kept, nvvm };
    // ptxas will run for a moment, until it waits.
    let has_room = culd_driver::has_room(&options.options, &options.session(), 1);
    let guesses = kept == Kept::Used && has_room;
    let mut ahead = PtxasAhead::for_ptx(&options.options, options.arch);
    let (object, guess) = match guesses {
        true => part.object_and_guess(&compile, &mut ahead)?,
        false => (part.object()?, None),
    };
    let PartObject { bytes, told, lto_ir, logs } = object;
    let is_program = part.is_program(&told);
    let text = match (&guess, part.source(&told)) {
        (Some(_), _) | (None, TextSource::None) => None,
        (None, TextSource::Program) => Some(part.text_of_program()?),
        (None, TextSource::Object(text)) => Some(text.to_vec()),
        (None, TextSource::Names(nvvm)) => Some(part.text_by_names(nvvm, &told)?),
    };
    let now = Instant::now();
    let (code, text_made) = match (text, guess) {
        (_, Some(guess)) => {
            guess.map(|Guess { made, text_made }| (LtoCode::Compiled(made), text_made))?
        }
        (Some(text), None) => (LtoCode::Compiled(compile(&text, ahead, &Session::serial())), now),
        (None, None) => (LtoCode::Object(bytes), now),
    };
    let drops = options.words.iter().any(|word| word == DROPS_VARIABLES);
    let may_lack = kept == Kept::Used && (is_program || drops);
    Ok(LtoCompilation { code: LtoPart { code, text_made, may_lack }, lto_ir, logs })
}

/// LTO-IR in a link with other code.
struct PartialLink<'l> {
    compiler: &'l NvJitLink,
    options: &'l JitOptions,
    inputs: Vec<culd_lto::CompileInput<'l>>,
    others: &'l [NamedCubin],
    kept: Kept,
    /// NVIDIA's libnvvm.
    nvvm: Option<PathBuf>,
}

/// An object of all LTO-IR.
struct PartObject {
    bytes: Vec<u8>,
    told: LtoObject,
    lto_ir: Option<Vec<u8>>,
    logs: Logs,
}

/// What the caller has made of the text of a program of its own.
struct Guess<T> {
    made: T,
    text_made: Instant,
}

type GuessResult<T> = Result<Guess<T>, CompileFailure>;

/// Where the PTX of LTO-IR comes from.
enum TextSource<'t> {
    /// It is that of a program of its own.
    Program,
    /// It is in the object.
    Object(&'t [u8]),
    /// The object tells the names that this libnvvm keeps.
    Names(&'t Path),
    /// It cannot be had.
    None,
}

impl PartialLink<'_> {
    /// What the library makes with the options `own` beside those of the link, and with a module of
    /// names.
    fn run(
        &self,
        own: &[&str],
        want: LtoTarget,
        roots: Option<&[u8]>,
    ) -> Result<CompileOutput, CompileFailure> {
        let mut words = words(self.options, own)?;
        words.retain(|word| !SELECTING.iter().any(|option| word.starts_with(option)));
        words.retain(|word| self.kept == Kept::Used || word != DROPS_VARIABLES);
        words.iter_mut().for_each(|word| *word = in_one_text(word));
        if want == LtoTarget::Object && self.nvvm.is_some() {
            culd_driver::without_use_of_code(&mut words);
        }
        let task = CompileTask { options: &words, inputs: &self.inputs, want, roots };
        self.compiler.compile(&task).map_err(refusal)
    }

    /// LTO-IR of a module of names.
    fn roots(&self, nvvm: &Path, text: &str) -> Result<Vec<u8>, CompileFailure> {
        let words = words(self.options, &[])?;
        let arch = words.first().map_or("", String::as_str);
        culd_lto::lto_ir(nvvm, text, arch).map_err(refusal)
    }

    /// An object of all LTO-IR.
    fn object(&self) -> Result<PartObject, CompileFailure> {
        // With `-g` ptxas keeps the text by itself.
        let keeps = self.options.options.flag(OptionId::Debug);
        let mut own = vec!["-r"];
        own.extend((!keeps).then_some(culd_driver::LTO_TEXT_OPTION));
        // Before 13.3 the object of a program has what it uses itself, and nothing else.
        let drops = self.kept == Kept::Visible && self.compiler.needs_other_code();
        let made = self.run(&own, LtoTarget::Object, drops.then_some(OPEN_ROOTS))?;
        let CompileOutput { bytes, lto_ir, log, infos } = made;
        // The library repeats lines of ptxas.
        let logs = Logs { errors: log, infos: lines(&infos, is_about_lto_ir) };
        Ok(PartObject { told: LtoObject::of(&bytes), bytes, lto_ir, logs })
    }

    /// True if LTO-IR of this object is a program of its own.
    fn is_program(&self, object: &LtoObject) -> bool {
        self.kept == Kept::Used && object.is_program()
    }

    /// Where the PTX of LTO-IR with this object comes from.
    fn source<'t>(&'t self, object: &'t LtoObject) -> TextSource<'t> {
        // The text in an object has no comments.
        let text = object.text().filter(|_| !self.options.options.keeps_ptx());
        // That of a program has all that other code can see, but before 13.3.
        let is_program =
            self.is_program(object) && !self.options.options.flag(OptionId::Relocatable);
        match (text, &self.nvvm) {
            (None, _) if is_program => TextSource::Program,
            _ if is_program && !self.compiler.needs_other_code() => TextSource::Program,
            (Some(text), _) => TextSource::Object(text),
            (None, Some(nvvm)) => TextSource::Names(nvvm),
            (None, None) => TextSource::None,
        }
    }

    /// PTX of a program of its own.
    fn text_of_program(&self) -> Result<Vec<u8>, CompileFailure> {
        self.run(&["-ptx"], LtoTarget::Ptx, None).map(|made| made.bytes)
    }

    /// PTX in which the names stay that `object` tells.
    fn text_by_names(&self, nvvm: &Path, object: &LtoObject) -> Result<Vec<u8>, CompileFailure> {
        let roots = object.roots(self.others);
        let roots = roots.map(|text| self.roots(nvvm, &text)).transpose()?;
        let made = self.run(&["-ptx"], LtoTarget::Ptx, roots.as_deref())?;
        Ok(object.like_text(made.bytes))
    }

    /// The object, and what `compile` makes of the text of a program of its own; `None` if that is
    /// not the text of the LTO-IR.
    fn object_and_guess<T: Send>(
        &self,
        compile: &(impl Fn(&[u8], Option<PtxasAhead>, &Session) -> T + Sync),
        ahead: &mut Option<PtxasAhead>,
    ) -> Result<(PartObject, Option<GuessResult<T>>), CompileFailure> {
        let cancel = Cancel::new();
        let processor = BusyProcessor::of_this_thread();
        thread::scope(|scope| {
            let (send, texts) = mpsc::channel();
            let session = Session::serial().cancelled_by(cancel.clone());
            let guess = move || {
                if let Some(processor) = processor {
                    processor.leave();
                }
                let text = self.text_of_program()?;
                let text_made = Instant::now();
                // Other code mostly sees some of its functions: the object has more of them.
                let is_likely = !culd_driver::ptx_is_open(&text);
                // Without a receiver it has turned out to be another one.
                if !is_likely || send.send(text.clone()).is_err() {
                    return Ok(None);
                }
                let mut ahead = ahead.take();
                if let Some(ahead) = &mut ahead {
                    ahead.take_over_here();
                }
                Ok(Some(Guess { made: compile(&text, ahead, &session), text_made }))
            };
            let guessing = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, guess);
            let object = self.object();
            let is_right = object.as_ref().is_ok_and(|object| self.is_text_of(object, texts));
            if !is_right {
                cancel.cancel();
            }
            let guess = guessing.ok().map(|guessing| match guessing.join() {
                Ok(guess) => guess,
                Err(panic) => resume_unwind(panic),
            });
            let guess = guess.and_then(Result::transpose).filter(|_| is_right);
            Ok((object?, guess))
        })
    }

    /// True if the PTX of `object` is the text of a program of its own, which is received unless it
    /// cannot be made.
    fn is_text_of(&self, object: &PartObject, text: Receiver<Vec<u8>>) -> bool {
        match self.source(&object.told) {
            TextSource::Program => text.recv().is_ok(),
            TextSource::Object(_) => text.recv().is_ok_and(|text| object.told.has_text(&text)),
            TextSource::Names(_) | TextSource::None => false,
        }
    }
}

/// `word`, but for the option that makes several texts of a program and links their code: only one
/// of them could be had (docs/JITLINK.md, LTO, *extended*).
fn in_one_text(word: &str) -> String {
    match word.strip_prefix("-split-compile-extended=") {
        Some(threads) => format!("-split-compile={threads}"),
        None => word.to_owned(),
    }
}

/// True for a line about the LTO-IR as a whole: `INFO: NVVM70 LTOIR Container created (8908 bytes)`
/// of 13.5, `SUCCESS: ...` of 13.4.
fn is_about_lto_ir(line: &str) -> bool {
    ["INFO: ", "SUCCESS: "].iter().any(|begin| line.starts_with(begin))
}
