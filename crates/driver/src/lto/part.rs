//! LTO-IR that is a part of the program.
//!
//! In: LTO-IR, and the names in the images next to it. Out: a cubin for the link, or the PTX of
//! which it would be made. Guaranteed: the PTX is nvlink's where libnvJitLink gives it
//! (docs/rules/lto.md, 9).

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::mem;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Instant;

use culd_cubin::text_of;
use culd_fatbin::container::ImageKind;
use culd_link::Session;
use culd_text::os::OsStrExt;

use super::LtoTask;
use super::link::{LinkTime, LtoNames, needed, time_of_text, up_to_nul};
use super::order::in_order_of;
use super::outline::Outline;
use super::reach;
use super::text::{self, ObjectText, SourceLines};
use crate::input::{
    CompileTime, InputStop, LinkCubin, LtoCubin, LtoPiece, MAX_UNPACKED, PartReason,
    PtxCompilation, PtxCompiler, PtxJob,
};
use crate::lto_program::{CompilerLog, LtoFailure, LtoOutput, LtoProgram, LtoRoots};
use crate::options::{CommandOptions, OptionId};
use crate::os::files::InputBytes;
use crate::threads::overlaps;

/// The ways to nvlink's text.
enum TextWay {
    /// By the names that must stay. It is the faster one.
    Names,
    /// Out of an object that libnvJitLink makes.
    Object,
    /// By names, if an object has the same text. Both are made at once.
    NamesIfEqual,
}

/// What an object tells about the text by names.
enum Verdict {
    /// It has the same text. The library said this.
    Equal(CompilerLog),
    /// It has another one, which is nvlink's: what the library said, the time, and the cubin.
    Other(CompilerLog, CompileTime, PtxCompilation),
    /// It has another one, without the lines of source files of nvlink's.
    OtherWithoutLines(Vec<u8>),
    /// ptxas refuses the text of the object.
    Refused(LtoFailure),
    /// There is no object, or no text in it.
    Unknown,
}

impl<'a> LinkTime<'a, '_> {
    /// Compiles LTO-IR that is a part of the program: everything that other code can see stays.
    pub(super) fn part(
        &mut self,
        names: LtoNames<'a>,
        reason: PartReason,
    ) -> Result<(), InputStop> {
        self.found.whole = false;
        if self.options.flag(OptionId::EmitPtx) {
            self.found.finished = Some(self.ptx_of_part(names)?);
            return Ok(());
        }
        let way = self.text_way(&names);
        // Where an object is made as well, no processor is left for another program.
        if matches!(way, TextWay::Names) && overlaps(self.options, self.session) {
            self.program.start_names(self.options);
        }
        let cubin = match way {
            TextWay::Names => {
                let ptx = self.ptx_of_part(names)?;
                self.assemble(&ptx, false)?
            }
            TextWay::Object => self.cubin_of_object(names)?,
            TextWay::NamesIfEqual => self.cubin_of_both(names)?,
        };
        let bytes: &'a [u8] = self.store.alloc(InputBytes::Read(cubin));
        let ready = LinkCubin::of_lto_ir(bytes);
        let place = self.found.lto_place;
        self.found.lto_cubin = Some(LtoCubin { ready, place, reason });
        Ok(())
    }

    fn text_way(&self, names: &LtoNames<'_>) -> TextWay {
        if self.text_counts() {
            return TextWay::Names;
        }
        // An object alone has nvlink's order.
        if self.found.lto.len() == 1 && self.splits() {
            return TextWay::Object;
        }
        // Cubins have names of local and weak definitions otherwise, and of what ptxas adds. The
        // module of names is a second piece, which changes the order: see `in_order`.
        if !names.unknown.is_empty() || !self.found.lto.iter().all(has_ptx) {
            return TextWay::Object;
        }
        // The compiler makes definitions without a name in that module local, and takes what all
        // calls of a local function have in common for granted: its arguments, its result. nvlink's
        // takes nothing for granted in a part of a program. Of a function that the module names,
        // the compiler takes nothing for granted in its callers, and nvlink's does: the space of a
        // pointer that it gets or returns.
        let differs = names.outline.has_local_functions()
            || names.outline.roots.change_variables(self.is_newer())
            || self.names_own_functions(&names.outline);
        match differs {
            false => TextWay::Names,
            // Few functions have such calls, and alignments can be mended.
            true if self.program.has_room(self.options, self.session) => TextWay::NamesIfEqual,
            true => TextWay::Object,
        }
    }

    /// True if the PTX next to the LTO-IR names a function with a root more than once: code may
    /// call it.
    fn names_own_functions(&self, outline: &Outline) -> bool {
        let mut named = HashSet::new();
        self.found.lto.iter().filter_map(|piece| piece.sibling.as_ref()).any(|sibling| {
            let Ok(ptx) = sibling.data(MAX_UNPACKED) else { return true };
            let ptx = text_of(up_to_nul(&ptx));
            let mut words = reach::names_in(&ptx);
            words.any(|word| outline.roots.has(word) && !named.insert(word.to_owned()))
        })
    }

    /// True if a newer compiler makes the text, that for sm_100 and later.
    fn is_newer(&self) -> bool {
        const NEWER_COMPILER: u32 = 100;
        self.target.sm >= NEWER_COMPILER
    }

    /// True if the compiler works in several threads, each on a part of the program, and puts
    /// variables and functions together in an order that an object has, too (13.0, 13.1, 13.3 to
    /// 13.5; `compare lto`, *turned.o*).
    fn splits(&self) -> bool {
        let several = |word: &OsString| {
            word.as_bytes().strip_prefix(b"-split-compile=").is_some_and(|count| count != b"1")
        };
        !self.rules.lto_object_lacks_order && self.words.iter().any(several)
    }

    /// [`in_order`] for this link.
    fn in_order(&self, ptx: Vec<u8>, object_text: Option<&[u8]>) -> Vec<u8> {
        in_order(&self.found.lto, self.splits(), ptx, object_text)
    }

    /// True if comments count, which the text in an object lacks.
    fn text_counts(&self) -> bool {
        self.options.flag(OptionId::EmitPtx) || self.options.keeps_ptx()
    }

    /// PTX of LTO-IR in which the names stay that other code can see.
    fn ptx_of_part(&mut self, names: LtoNames<'a>) -> Result<Vec<u8>, InputStop> {
        let begin = Instant::now();
        let made = self.text_by_names(names)?;
        self.made(Ok(made), begin)
    }

    fn text_by_names(&mut self, mut names: LtoNames<'a>) -> Result<LtoOutput, InputStop> {
        let all_unknown = names.unknown.len() == self.found.lto.len();
        if !names.unknown.is_empty() && names.failure.is_none() {
            let words = self.words.clone();
            self.complete(&mut names, &words);
        }
        if !all_unknown && names.failure.is_none() && self.object_tells_more(&names) {
            self.ask_object(&mut names);
        }
        let mut made = self.text_of_names(&mut names)?;
        if names.object_text.is_none() && names.outline.lacks_functions_of(&made.bytes) {
            self.ask_object(&mut names);
            if names.object_text.is_some() {
                made = self.text_of_names(&mut names)?;
            }
        }
        let LtoOutput { bytes, said } = made;
        let bytes = self.in_order(bytes, names.object_text.as_deref());
        let bytes = match names.object_text {
            Some(text) => text::as_in_object(&self.in_order(text, None), bytes),
            None => bytes,
        };
        Ok(LtoOutput { bytes, said })
    }

    /// Adds what an object of all LTO-IR tells to `names`, if there is one.
    fn ask_object(&mut self, names: &mut LtoNames<'a>) {
        let object = self.object().ok();
        if let Some(text) = object.and_then(|object| ObjectText::of(&object.bytes)) {
            names.outline.add(Outline::of_ptx(&text.ptx));
            names.object_text = Some(text.ptx);
        }
    }

    /// The text in which `names` stay, as the library makes it.
    fn text_of_names(&mut self, names: &mut LtoNames<'a>) -> Result<LtoOutput, InputStop> {
        let RootModule { text: module, undefined } = self.root_module(&names.outline);
        let roots = module.map(|text| self.roots(text));
        self.start_ptxas(false);
        match (self.ptx(false, roots), names.failure.take()) {
            (Err(failure), _) => Err(self.failed(failure)),
            // Definitions that only other code uses would be missing.
            (Ok(made), Some(failure)) => {
                self.say(made.said);
                Err(self.failed(failure))
            }
            (Ok(LtoOutput { bytes, said }), None) => {
                let undefined = undefined.iter().map(String::as_str);
                Ok(LtoOutput { bytes: text::without_declarations(&bytes, undefined), said })
            }
        }
    }

    /// True if an object tells something of the text by names where the text counts: alignments of
    /// variables, the order where no PTX does, functions that nothing is inlined into (`-g`), or
    /// numbers of local names, which the newer compiler counts with those of the module.
    fn object_tells_more(&self, names: &LtoNames<'_>) -> bool {
        let [one, ..] = self.found.lto.as_slice() else { return false };
        let without_order = self.found.lto.len() == 1 && (!has_ptx(one) || self.splits());
        self.text_counts()
            && (without_order
                || self.is_newer()
                || self.options.makes_debug_information()
                || names.outline.roots.has_shared())
    }

    /// The module of the names in `outline` and of the functions that other inputs need.
    fn root_module(&self, outline: &Outline) -> RootModule {
        let needed = self.needed();
        let undefined = needed.iter().filter(|name| !outline.defines(name)).cloned().collect();
        RootModule { text: outline.roots.clone().module_with(needed), undefined }
    }

    /// The roots in `text` for a request.
    fn roots(&mut self, text: String) -> LtoRoots {
        self.program.roots(text, self.target.name, self.session.cancel())
    }

    /// The functions that other inputs need.
    fn needed(&self) -> Vec<String> {
        let own = self.found.inputs.iter().filter(|input| !input.system);
        needed(own.map(|input| input.bytes))
    }

    /// A cubin of the text in an object; of the text by names if there is none.
    fn cubin_of_object(&mut self, mut names: LtoNames<'a>) -> Result<Vec<u8>, InputStop> {
        let begin = Instant::now();
        let text = self.text_of_object(&mut names);
        let refusal = names.refusal.take();
        let (lines, times) = (self.lines.len(), self.found.times.len());
        let ptx = match text {
            Some(text) => self.made(Ok(text), begin)?,
            None => self.ptx_of_part(names)?,
        };
        self.assemble(&ptx, false).map_err(|stop| match refusal {
            // The same of nvlink's text, whose lines have other numbers.
            Some(refusal) => {
                self.lines.truncate(lines);
                self.found.times.truncate(times);
                self.failed(refusal)
            }
            None => stop,
        })
    }

    /// PTX of LTO-IR, out of an object that libnvJitLink makes of it. `None` if it is not there;
    /// `names` are complete then.
    fn text_of_object(&mut self, names: &mut LtoNames<'a>) -> Option<LtoOutput> {
        match self.object() {
            Ok(LtoOutput { bytes, said }) => {
                let text = ObjectText::of(&bytes).filter(|text| text.is_complete);
                let text = text.map(|text| self.in_order(text.ptx, None));
                if text.is_none() {
                    names.complete(&bytes);
                }
                text.map(|bytes| LtoOutput { bytes, said })
            }
            // The compilation that follows reports the reason, or else its caller.
            Err(failure) => {
                match names.unknown.is_empty() {
                    true => names.refusal = Some(failure).filter(LtoFailure::is_of_ptxas),
                    false => names.failure = Some(failure),
                }
                None
            }
        }
    }

    /// An object of all LTO-IR.
    fn object(&mut self) -> Result<LtoOutput, LtoFailure> {
        self.start_ptxas(false);
        let LinkTime { options, session, words, target, found, program, .. } = self;
        let (arch, parts) = (target.name, &found.lto);
        let task = LtoTask { options, session, words, arch, parts };
        task.object(program, parts, &found.inputs)
    }

    /// A cubin of the text by names, or of that in an object if it is another one. Most programs
    /// have the same, and ptxas is at work on it before the object shows that. Other processes do
    /// all of it: the two threads only wait.
    fn cubin_of_both(&mut self, mut names: LtoNames<'a>) -> Result<Vec<u8>, InputStop> {
        let judge = Judge {
            options: self.options,
            session: self.session,
            arch: self.target.name,
            words: self.words.clone(),
            splits: self.splits(),
            parts: self.found.lto.clone(),
            others: self.found.inputs.clone(),
            compiler: self.ptx_compiler(false),
        };
        let alignments = mem::take(&mut names.outline.shared_alignments);
        let RootModule { text: module, undefined } = self.root_module(&names.outline);
        let maker = self.program.process();
        let guess = Guess { undefined, alignments, maker };
        let roots = module.map(|text| self.roots(text));
        let (lines, times) = (self.lines.len(), self.found.times.len());
        let begin = Instant::now();
        let mut program = mem::take(&mut self.program);
        let both = thread::scope(|scope| {
            let (send_text, texts) = mpsc::channel();
            let (send, guesses) = mpsc::channel();
            let judging = || judge.verdict(&mut program, roots, send_text, guesses);
            let judging = thread::Builder::new().spawn_scoped(scope, judging).ok()?;
            self.start_ptxas(false);
            let cubin = texts.recv().ok().map(|text| self.guess(&guess, text, begin, send));
            Some((cubin, judging.join().unwrap_or_else(|panic| resume_unwind(panic))))
        });
        self.program.keep(program);
        let Some((cubin, verdict)) = both else { return self.cubin_of_object(names) };
        match (verdict, cubin) {
            (Verdict::Equal(said), Some(cubin)) => {
                self.say_before(lines, said);
                cubin
            }
            (Verdict::Other(said, time, compilation), _) => {
                self.lines.truncate(lines);
                self.found.times.truncate(times);
                self.found.times.push(time);
                self.say(said);
                self.assembled(compilation, false)
            }
            // Lines of that text have nvlink's numbers.
            (Verdict::Refused(failure), Some(Err(_))) => {
                self.lines.truncate(lines);
                Err(self.failed(failure))
            }
            (verdict, _) => {
                self.lines.truncate(lines);
                self.found.times.truncate(times);
                if let Verdict::OtherWithoutLines(text) = verdict {
                    names.object_text = Some(text);
                }
                let ptx = self.ptx_of_part(names)?;
                self.assemble(&ptx, false)
            }
        }
    }

    /// Prints the libraries' lines in front of the last ones, those behind number `lines`.
    fn say_before(&mut self, lines: usize, said: CompilerLog) {
        let last = self.lines.split_off(lines);
        self.say(said);
        self.lines.extend(last);
    }

    /// A cubin of the text that is nvlink's if `guess` is right: of `text` by names, which was
    /// begun at `begin`. `send` takes it.
    fn guess(
        &mut self,
        guess: &Guess,
        text: LtoOutput,
        begin: Instant,
        send: Sender<Vec<u8>>,
    ) -> Result<Vec<u8>, InputStop> {
        let Guess { undefined, alignments, maker } = guess;
        let undefined = undefined.iter().map(String::as_str);
        let text = text::without_declarations(&text.bytes, undefined);
        let text = text::with_shared_alignments(text, alignments);
        let text = self.in_order(text, None);
        self.found.times.push(time_of_text(begin));
        // Whoever receives it may have ended.
        let _ = send.send(text.clone());
        // The processor of another one may be taken by the object.
        if let (Some((_, ahead)), Some(maker)) = (&mut self.ahead, maker) {
            ahead.take_over(*maker);
        }
        self.assemble(&text, false)
    }
}

/// The names that must stay.
struct RootModule {
    /// In NVVM IR.
    text: Option<String>,
    /// Functions in it that no LTO-IR defines: nvlink's text does not declare them.
    undefined: Vec<String>,
}

/// What brings the text by names nearest to nvlink's. The object tells whether it is the same.
struct Guess {
    /// Functions that the text must not declare.
    undefined: Vec<String>,
    /// The alignments in bytes of variables in shared memory, which the module changes.
    alignments: BTreeMap<String, u64>,
    /// The process that makes the text.
    maker: Option<u32>,
}

/// Finds out whether the text by names is nvlink's.
struct Judge<'j, 'a> {
    options: &'j CommandOptions,
    session: &'j Session,
    arch: &'j str,
    /// Options of libnvJitLink.
    words: Vec<OsString>,
    splits: bool,
    parts: Vec<LtoPiece<'a>>,
    others: Vec<LinkCubin<'a>>,
    compiler: PtxCompiler,
}

impl Judge<'_, '_> {
    /// The verdict on the text that `guess` receives, by an object that `program` makes. It makes
    /// the text in which `roots` stay, too, which goes to `send_text`.
    fn verdict(
        &self,
        program: &mut LtoProgram,
        roots: Option<LtoRoots>,
        send_text: Sender<LtoOutput>,
        guess: Receiver<Vec<u8>>,
    ) -> Verdict {
        let begin = Instant::now();
        let Judge { options, session, arch, words, splits, parts, others, compiler } = self;
        let task = LtoTask { options, session, words, arch, parts };
        // Whoever receives the text may have ended.
        let take_text = move |text| drop(send_text.send(text));
        let object = task.both(program, roots, others, take_text);
        program.no_more();
        let LtoOutput { bytes: object, said } = match object {
            Ok(object) => object,
            Err(failure) if failure.is_of_ptxas() => return Verdict::Refused(failure),
            // The compilation that follows reports it.
            Err(_) => return Verdict::Unknown,
        };
        let Some(object) = ObjectText::of(&object) else { return Verdict::Unknown };
        let time = time_of_text(begin);
        let text = in_order(parts, *splits, object.ptx, None);
        let lines = if object.is_complete { SourceLines::Kept } else { SourceLines::Lost };
        if guess.recv().is_ok_and(|guess| text::is_same(&guess, &text, lines)) {
            return Verdict::Equal(said);
        }
        if lines == SourceLines::Lost {
            return Verdict::OtherWithoutLines(text);
        }
        let job = PtxJob { text: &text, options: String::new() };
        Verdict::Other(said, time, compiler.compile_one(&job, session))
    }
}

/// True if there is PTX next to the LTO-IR.
fn has_ptx(piece: &LtoPiece<'_>) -> bool {
    piece.sibling.as_ref().is_some_and(|sibling| sibling.kind() == ImageKind::Ptx)
}

/// Brings `ptx` of a part of the program into nvlink's order: that of the PTX next to the LTO-IR,
/// or else of `object_text`. PTX of several pieces has that order already, and where the compiler
/// `splits` its work, an object alone has it.
fn in_order(
    parts: &[LtoPiece<'_>],
    splits: bool,
    ptx: Vec<u8>,
    object_text: Option<&[u8]>,
) -> Vec<u8> {
    let [piece] = parts else { return ptx };
    let sibling = piece.sibling.as_ref().filter(|sibling| sibling.kind() == ImageKind::Ptx);
    let sibling = sibling.filter(|_| !splits).and_then(|ptx| ptx.data(MAX_UNPACKED).ok());
    let of_sibling = sibling.and_then(|sibling| in_order_of(&ptx, up_to_nul(&sibling)));
    let ordered = of_sibling.or_else(|| in_order_of(&ptx, object_text?));
    ordered.map_or(ptx, String::into_bytes)
}
