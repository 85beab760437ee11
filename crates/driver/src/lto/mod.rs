//! Link-time optimization: LTO-IR becomes PTX, by the program `culd-lto` and NVIDIA's libnvJitLink.
//!
//! In: LTO-IR and the options of the link. Out: PTX, or an error. Guaranteed: no library of
//! NVIDIA's is loaded into this process.
//!
//! [`link`] decides how the LTO-IR of a link is compiled, [`part`] compiles it where it is not all
//! of the program. [`outline`] reads the names that it defines and needs, [`reach`] which of them
//! kernels reach, [`roots`] writes down those that must stay, [`order`] puts functions into
//! nvlink's order, and [`source_lines`] their files; [`text`] takes PTX out of an object and
//! compares it, [`object`] for libnvJitLink's interface; [`agreement`] finds out what the options
//! beside LTO-IR ask for.

mod agreement;
mod link;
mod object;
mod order;
mod outline;
mod part;
mod reach;
mod roots;
mod source_lines;
mod text;
mod unused;

use culd_text::os::OsStrExt;
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};

use culd_link::{Dialect, Session};

use crate::input::{LinkCubin, LtoPiece};
use crate::lto_program::{CompilerLog, LtoFailure, LtoOutput, LtoProgram, LtoRoots, OPTION};
use crate::messages::InputPlace;
use crate::options::{CommandOptions, OptionId, UsageError};

use agreement::LtoCompilation;

pub(crate) use link::LinkTime;
pub use object::{LtoObject, ptx_is_open};

/// The option of libnvJitLink with which an object has the text of [`LtoObject::text`], where it
/// does not get `-g`.
pub const LTO_TEXT_OPTION: &str = "-Xptxas=-lineinfo";

/// Changes `words`, options of libnvJitLink, for an object whose text is used, but not its code.
/// ptxas does not optimize it, but with `-Ofc` it takes no other level. A limit of registers, which
/// the compiler of the text needs, could be too low for such code, so ptxas gets the highest.
pub fn without_use_of_code<W: AsRef<OsStr> + From<&'static str>>(words: &mut Vec<W>) {
    let begins = |word: &W, option: &str| word.as_ref().as_bytes().starts_with(option.as_bytes());
    if words.iter().any(|word| begins(word, "-maxrregcount=")) {
        words.push("-Xptxas=-maxrregcount=255".into());
    }
    if !words.iter().any(|word| begins(word, "-Ofc") || begins(word, "--Ofast-compile")) {
        words.push("-Xptxas=-O0".into());
    }
}

/// The option of NVIDIA's compiler with which it says what it inlines, also beside LTO-IR.
const INLINE_INFO: &str = "-inline-info";

/// Stands in front of the library's log.
const IMAGE_FAILED: &str = "linking it with all other inputs, which would do, failed:";

/// A task for the program.
struct LtoTask<'t, 'a> {
    options: &'t CommandOptions,
    session: &'t Session,
    /// The options, as [`words`] makes them.
    words: &'t [OsString],
    /// The name of the target.
    arch: &'t str,
    parts: &'t [LtoPiece<'a>],
}

impl LtoTask<'_, '_> {
    /// PTX of all parts in which `roots` stay; `more` are further options.
    fn ptx(
        &self,
        program: &mut LtoProgram,
        more: &[OsString],
        roots: Option<LtoRoots>,
    ) -> Result<LtoOutput, LtoFailure> {
        self.run(program, &self.request("ptx", Some("-ptx"), more, roots)).map(as_text)
    }

    /// A relocatable cubin of all parts, with all their functions and with the PTX of which it was
    /// made. Where the library makes none, an image of the whole link: of `all` its LTO-IR and of
    /// the cubins `others`.
    fn object(
        &self,
        program: &mut LtoProgram,
        all: &[LtoPiece<'_>],
        others: &[LinkCubin<'_>],
    ) -> Result<LtoOutput, LtoFailure> {
        let words = self.object_words();
        let task = LtoTask { words: &words, ..*self };
        let made = task.run(program, &task.request("object", Some("-r"), &[], None));
        task.object_of(made, program, all, others)
    }

    /// PTX of all parts in which `roots` stay, for `take_text`, and an object as
    /// [`LtoTask::object`] makes it, at the same time.
    fn both(
        &self,
        program: &mut LtoProgram,
        roots: Option<LtoRoots>,
        others: &[LinkCubin<'_>],
        take_text: impl FnOnce(LtoOutput),
    ) -> Result<LtoOutput, LtoFailure> {
        let words = self.object_words();
        let task = LtoTask { words: &words, ..*self };
        let mut request: Vec<Cow<'_, [u8]>> = vec![b"both".into()];
        request.extend(self.way("", Some("-ptx"), &[], roots));
        request.extend(task.way("object-", Some("-r"), &[], None));
        request.extend(self.inputs());
        let (options, cancel) = (self.options, self.session.cancel());
        let made = program.compile_both(&request, options, cancel, |text| take_text(as_text(text)));
        task.object_of(made, program, self.parts, others)
    }

    /// The options for an object.
    fn object_words(&self) -> Vec<OsString> {
        let mut words = self.words.to_vec();
        words.push(LTO_TEXT_OPTION.into());
        without_use_of_code(&mut words);
        words
    }

    /// The object that was `made`, or what takes its place.
    fn object_of(
        &self,
        made: Result<LtoOutput, LtoFailure>,
        program: &mut LtoProgram,
        all: &[LtoPiece<'_>],
        others: &[LinkCubin<'_>],
    ) -> Result<LtoOutput, LtoFailure> {
        const RELOCATABLE: [u8; 2] = 1u16.to_le_bytes();
        if let Err(LtoFailure::NoObject(why)) = made {
            let link = LtoTask { parts: all, ..*self };
            return link.image(program, others, why);
        }
        let mut made = made?;
        if !made.bytes.starts_with(b"\x7fELF") || made.bytes.get(16..18) != Some(&RELOCATABLE) {
            let why = "libnvJitLink made no object of LTO-IR".to_owned();
            return Err(LtoFailure::Failed(vec![why]));
        }
        // ptxas will say it again of the text.
        let log = made.said.log.split_inclusive('\n').filter(|line| !link::is_of_ptxas(line));
        made.said.log = log.collect();
        made.said.lines.retain(|line| !link::is_of_ptxas(line));
        Ok(made)
    }

    /// An image of all parts and of the cubins `others`, by a library of CUDA 12, which makes no
    /// objects: `why`. Like an object it has the PTX in it that nvlink compiles, but the link must
    /// succeed.
    fn image(
        &self,
        program: &mut LtoProgram,
        others: &[LinkCubin<'_>],
        why: String,
    ) -> Result<LtoOutput, LtoFailure> {
        let mut request = self.request("image", None, &[], None);
        for LinkCubin { name, bytes, .. } in others {
            request.extend(["--input", "cubin", name].map(|word| word.as_bytes().into()));
            request.push((*bytes).into());
        }
        let mut made = self.run(program, &request).map_err(|failure| match failure {
            LtoFailure::Refused { code, said, .. } if !link::is_of_text(code) => {
                let reason = [why, IMAGE_FAILED.to_owned()];
                let log = said.log.lines().map(str::to_owned);
                LtoFailure::Failed(reason.into_iter().chain(log).chain(said.lines).collect())
            }
            other => other,
        })?;
        // culd's link will say of the program what this one says.
        made.said = CompilerLog::default();
        Ok(made)
    }

    /// Has the library take all parts, and compile nothing.
    fn check(&self, program: &mut LtoProgram) -> Result<(), LtoFailure> {
        self.run(program, &self.request("check", None, &[], None)).map(drop)
    }

    fn run(
        &self,
        program: &mut LtoProgram,
        request: &[Cow<'_, [u8]>],
    ) -> Result<LtoOutput, LtoFailure> {
        let made = program.compile(request, self.options, self.session.cancel());
        made.map_err(|refusal| match self.not_taken(&refusal) {
            Some(place) => LtoFailure::NotTaken { refusal: Box::new(refusal), place },
            None => refusal,
        })
    }

    /// The place of the part that the library has not taken.
    fn not_taken(&self, failure: &LtoFailure) -> Option<InputPlace> {
        match *failure {
            // nvlink reports that of a later target when it compiles.
            LtoFailure::Refused { code, input: Some(place), .. } if !link::is_of_compiler(code) => {
                self.parts.get(place).map(|part| part.place)
            }
            _ => None,
        }
    }

    /// The words of a request for `what`, which the library's option `word` asks for, if it needs
    /// one.
    fn request<'r>(
        &'r self,
        what: &'r str,
        word: Option<&'r str>,
        more: &'r [OsString],
        roots: Option<LtoRoots>,
    ) -> Vec<Cow<'r, [u8]>> {
        let mut request: Vec<Cow<'r, [u8]>> = vec![what.as_bytes().into()];
        request.extend(self.way("", word, more, roots));
        request.extend(self.inputs());
        request
    }

    /// The words of a request for how its inputs are compiled; `start` stands in front of the names
    /// of its own options.
    fn way<'r>(
        &'r self,
        start: &str,
        word: Option<&'r str>,
        more: &'r [OsString],
        roots: Option<LtoRoots>,
    ) -> Vec<Cow<'r, [u8]>> {
        let named =
            |name: &str| -> Cow<'r, [u8]> { format!("--{start}{name}").into_bytes().into() };
        let mut words: Vec<Cow<'r, [u8]>> = Vec::new();
        match roots {
            Some(LtoRoots::Text(text)) => {
                words.extend([named("roots"), text.into_bytes().into()]);
            }
            Some(LtoRoots::LtoIr(bytes)) => words.extend([named("made-roots"), bytes.into()]),
            None => {}
        }
        let mut option = |word: Cow<'r, [u8]>| words.extend([named(OPTION), word]);
        option(format!("-arch={}", self.arch).into_bytes().into());
        ["-lto"].into_iter().chain(word).for_each(|word| option(word.as_bytes().into()));
        self.words.iter().chain(more).for_each(|word| option(word.as_bytes().into()));
        words
    }

    /// The words of a request for its inputs.
    fn inputs(&self) -> impl Iterator<Item = Cow<'_, [u8]>> {
        self.parts.iter().flat_map(|LtoPiece { fatbin, name, bytes, .. }| {
            let kind = if *fatbin { "fatbin" } else { "ltoir" };
            ["--input".as_bytes(), kind.as_bytes(), name.as_bytes(), bytes].map(Cow::from)
        })
    }
}

/// PTX without the NUL at its end.
fn as_text(mut made: LtoOutput) -> LtoOutput {
    made.bytes.truncate(made.bytes.iter().position(|&byte| byte == 0).unwrap_or(made.bytes.len()));
    made
}

/// The options as options of libnvJitLink, without those about used names.
fn words(
    options: &CommandOptions,
    rules: &Dialect,
    compilation: &LtoCompilation,
) -> Result<Vec<OsString>, UsageError> {
    let mut words: Vec<OsString> = Vec::new();
    if options.makes_debug_information() {
        words.push("-g".into());
    }
    if options.flag(OptionId::NvvmLatest) {
        words.push("-nvvm-latest".into());
    }
    let joined = |word: &OsString| [OsStr::new("-Xnvvm"), word].join(OsStr::new("="));
    let nvvm = options.nvvm_words()?;
    words.extend(nvvm.iter().chain(&compilation.arithmetic_behind(&nvvm)).map(joined));
    if compilation.inline_info && !nvvm.iter().any(|word| word == INLINE_INFO) {
        words.push(joined(&INLINE_INFO.into()));
    }
    // To make PTX, the library takes the second for the first, and only one of them counts.
    let extended = options.text(OptionId::SplitCompileExtended);
    let emit = options.flag(OptionId::EmitPtx);
    let replaced = extended.is_some_and(|count| count != "1") && !emit;
    for (value, name) in [
        (options.text(OptionId::FastCompile), "-Ofc"),
        (compilation.threads.as_deref().filter(|_| !replaced), "-split-compile"),
        (extended.filter(|_| rules.compilers_split || emit), "-split-compile"),
    ] {
        // The library takes no negative number of threads. ptxas takes none for its own.
        let value = value.filter(|value| !value.starts_with('-'));
        words.extend(value.map(|value| format!("{name}={value}").into()));
    }
    words.extend(compilation.registers.map(|count| format!("-maxrregcount={count}").into()));
    Ok(words)
}
