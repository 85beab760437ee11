//! The options of `nvJitLinkCreate`.
//!
//! In: the words. Out: [`JitOptions`], or the code and log text of the first word that is wrong.
//! Guaranteed: as observed with 13.0.88 (docs/JITLINK.md, options), where one word in four is
//! looked at up to its known part only.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use culd_cubin::arch::{ARCHS, Arch, Variant};
use culd_driver::{CommandOptions, OptionId, Target};
use culd_link::{Dialect, Session};

use crate::interface::INTERFACE;
use crate::link::name_in_logs;
use crate::result::ResultCode;

/// The options of a link.
#[derive(Debug, Clone)]
pub struct JitOptions {
    /// The architecture.
    pub arch: &'static Arch,
    /// The target is virtual: only PTX can come out.
    pub is_virtual: bool,
    /// `-lto`.
    pub lto: bool,
    /// `-ptx`.
    pub ptx: bool,
    /// `-verbose`.
    pub verbose: bool,
    /// `-time`.
    pub time: bool,
    /// The index file of unified functions and variables.
    pub index: Option<PathBuf>,
    /// The words as they came, for NVIDIA's library: those that it knows.
    pub words: Vec<OsString>,
    /// The driver's options.
    pub options: CommandOptions,
    /// PTX can be compiled, or needs no compiler.
    pub has_compiler: bool,
}

impl JitOptions {
    /// The release whose rules a link of `cubins` follows: the one that was named, or that of the
    /// newest.
    pub fn dialect<'c>(&self, cubins: impl IntoIterator<Item = &'c [u8]>) -> &'static Dialect {
        let named = culd_driver::named_dialect(&self.options);
        named.unwrap_or_else(|| INTERFACE.dialect(self.arch, cubins))
    }

    /// A session with the threads that were asked for, or one for each core.
    pub fn session(&self) -> Session {
        let asked = self.options.number(OptionId::Threads).and_then(|count| count.try_into().ok());
        Session::with_threads(asked.unwrap_or(0).min(culd_driver::most_threads()))
    }
}

/// The reason for a missing handle: the code, and the error log.
pub type Refusal = (ResultCode, String);

/// Options that count up to their end, whatever follows. To NVIDIA's library `-restrict` is `-r`.
const FLAGS: &[&str] = &[
    "-dlto",
    "-fast-compile",
    "-lineinfo",
    "-lto",
    "-no-cache",
    "-nvvm-latest",
    "-optimize-unused-variables",
    "-ptx",
    "-r",
    "-time",
    "-verbose",
];

/// Which release's rules are followed; an option that NVIDIA's library has not.
const DIALECT: &str = "-dialect=";

/// The number of threads of a link; an option that NVIDIA's library has not, either.
const THREADS: &str = "-threads=";

/// Options with a value, and whether there must be one.
const VALUES: &[(&str, bool)] = &[
    ("-arch=", true),
    (DIALECT, true),
    (THREADS, true),
    ("-fma=", false),
    ("-ftz=", false),
    ("-jump-table-density=", false),
    ("-kernels-used=", true),
    ("-maxrregcount=", true),
    ("-prec-div=", false),
    ("-prec-sqrt=", false),
    ("-Ofc=", true),
    ("--Ofast-compile=", true),
    ("-split-compile-extended=", true),
    ("-split-compile=", false),
    ("-uidx=", false),
    ("-variables-used=", true),
    ("-Xnvvm=", true),
    ("-Xptxas=", true),
];

/// Prefixes of the value of `-Ofc=`.
const LEVELS: &[&str] = &["0", "min", "mid", "max"];

/// NVIDIA's library does not take numbers from here on for architectures.
const TOO_LARGE: i64 = 1000;

#[derive(Default)]
struct GivenOptions {
    arch: Option<(&'static Arch, bool)>,
    dialect: Option<&'static Dialect>,
    threads: Option<u16>,
    debug: bool,
    relocatable: bool,
    lto: bool,
    ptx: bool,
    verbose: bool,
    time: bool,
    index: Option<PathBuf>,
    kernels: Vec<OsString>,
    variables: Vec<OsString>,
    ptxas: Vec<OsString>,
    /// The value of `-Ofc`.
    level: Option<String>,
}

/// Reads the options of a link.
///
/// # Errors
/// The first bad word, or the first conflict.
pub fn parse(words: &[OsString]) -> Result<JitOptions, Refusal> {
    let mut given = GivenOptions::default();
    words.iter().try_for_each(|word| given.take(word))?;
    let (arch, is_virtual) = given.arch.ok_or((ResultCode::MissingArch, String::new()))?;
    let incompatible =
        |text: &str| Err((ResultCode::IncompatibleOptions, format!("ERROR: {text}\n")));
    if given.ptx && !given.lto {
        return incompatible("-ptx requires -lto");
    }
    if is_virtual && !given.ptx {
        return incompatible("virtual arch requires -ptx");
    }
    if let Some(release) = given.dialect.filter(|release| !release.knows(arch)) {
        let text = format!("release {release} does not know '{}'\n", arch.name);
        return Err((ResultCode::UnrecognizedArch, text));
    }
    Ok(given.finish(arch, is_virtual, words))
}

/// The refusal of an option that is not known.
fn unknown(word: &str) -> Refusal {
    (ResultCode::UnrecognizedOption, format!("unrecognized option: {word}\n"))
}

impl GivenOptions {
    fn take(&mut self, word: &OsStr) -> Result<(), Refusal> {
        let shown = name_in_logs(word);
        let unrecognized =
            || (ResultCode::UnrecognizedOption, format!("unrecognized option: {shown}\n"));
        let Some(word) = word.to_str() else {
            return if self.names(word.as_bytes()) { Ok(()) } else { Err(unrecognized()) };
        };
        if let Some((name, value)) = VALUES.iter().find_map(|&(name, needed)| {
            let value = word.strip_prefix(name)?;
            Some((name, (!needed || !value.is_empty()).then_some(value)))
        }) {
            let value = value.ok_or_else(|| missing(word))?;
            return self.value(name, value, word);
        }
        if word == "-g" {
            self.debug = true;
            return Ok(());
        }
        if let Some(level) = word.strip_prefix("-O").filter(|level| level.len() == 1) {
            return match level.as_bytes() {
                b"0" | b"3" => {
                    self.ptxas.push(word.into());
                    Ok(())
                }
                [b'0'..=b'9'] => Err((
                    ResultCode::UnrecognizedOption,
                    format!("unsupported value of -O: {level}. Only 0 and 3 are supported.\n"),
                )),
                _ => Err(unrecognized()),
            };
        }
        let mut flags = FLAGS.iter().filter(|flag| !INTERFACE.lacks.contains(flag));
        let flag = flags.find(|flag| word.starts_with(**flag)).ok_or_else(unrecognized)?;
        self.flag(flag);
        Ok(())
    }

    /// Takes a word that is not UTF-8: names and paths are any bytes. False for other options.
    fn names(&mut self, word: &[u8]) -> bool {
        let value = |name: &str| {
            word.strip_prefix(name.as_bytes()).map(|value| OsStr::from_bytes(value).to_owned())
        };
        self.kernels.extend(value("-kernels-used="));
        self.variables.extend(value("-variables-used="));
        self.ptxas.extend(value("-Xptxas="));
        let index = value("-uidx=").map(PathBuf::from);
        self.index = index.or(self.index.take());
        let taken = ["-kernels-used=", "-variables-used=", "-Xptxas=", "-uidx="];
        taken.iter().any(|name| word.starts_with(name.as_bytes()))
    }

    fn flag(&mut self, flag: &str) {
        match flag {
            "-lto" | "-dlto" => self.lto = true,
            "-ptx" => self.ptx = true,
            "-r" => self.relocatable = true,
            "-time" => self.time = true,
            "-verbose" => {
                self.verbose = true;
                self.ptxas.push("-v".into());
            }
            "-lineinfo" => self.ptxas.push(flag.into()),
            // ptxas warns that it does not go with a relocatable object.
            "-fast-compile" => self.ptxas.push("--fast-compile".into()),
            // The others are about LTO.
            _ => {}
        }
    }

    fn value(&mut self, name: &str, value: &str, word: &str) -> Result<(), Refusal> {
        match name {
            "-arch=" => self.arch = Some(arch(value, word)?),
            DIALECT => {
                let release = (value != "auto").then(|| value.parse().map_err(|_| unknown(word)));
                self.dialect = release.transpose()?;
            }
            THREADS => self.threads = Some(value.parse().map_err(|_| unknown(word))?),
            "-kernels-used=" => self.kernels.push(value.into()),
            "-variables-used=" => self.variables.push(value.into()),
            "-maxrregcount=" => self.ptxas.push(word.into()),
            "-Xptxas=" => self.ptxas.push(value.into()),
            "-uidx=" => self.index = Some(value.into()),
            "-Ofc=" | "--Ofast-compile=" if !LEVELS.iter().any(|one| value.starts_with(one)) => {
                let text = format!(
                    "unsupported value of --Ofast-compile (-Ofc): {value}. Only 0, min, mid, and max are supported.\n"
                );
                return Err((ResultCode::UnrecognizedOption, text));
            }
            // The start of the value counts.
            "-Ofc=" | "--Ofast-compile=" => {
                let level = LEVELS.iter().find(|level| value.starts_with(**level));
                self.level = level.map(|&level| level.to_owned());
            }
            "-split-compile=" | "-split-compile-extended=" if is_negative(value) => {
                let name = name.trim_end_matches('=');
                let text = format!("argument for {name} must be non-negative.\n");
                return Err((ResultCode::UnrecognizedOption, text));
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(self, arch: &'static Arch, is_virtual: bool, words: &[OsString]) -> JitOptions {
        let mut options = CommandOptions::for_target(Target::Real(arch));
        options.reads_like_jit = true;
        let flags = [(OptionId::Debug, self.debug), (OptionId::Relocatable, self.relocatable)];
        // NVIDIA's library looks at no references of the host's code, and links libcudadevrt whole.
        let always = [(OptionId::IgnoreHostInfo, true), (OptionId::KeepSystemLibraries, true)];
        for (id, _) in flags.into_iter().chain(always).filter(|(_, on)| *on) {
            options.set(id, [""; 0]);
        }
        let lists = [
            (OptionId::KernelsUsed, self.kernels),
            (OptionId::VariablesUsed, self.variables),
            (OptionId::Xptxas, self.ptxas),
        ];
        if let Some(dialect) = self.dialect {
            options.set(OptionId::Dialect, [dialect.to_string()]);
        }
        if let Some(threads) = self.threads {
            options.set(OptionId::Threads, [threads.to_string()]);
        }
        if let Some(level) = self.level {
            options.set(OptionId::FastCompile, [level]);
        }
        for (id, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            options.set(id, list);
        }
        let (lto, ptx, verbose, time) = (self.lto, self.ptx, self.verbose, self.time);
        let is_own = |word: &OsString| {
            [DIALECT, THREADS].iter().any(|own| word.as_bytes().starts_with(own.as_bytes()))
        };
        let words = words.iter().filter(|word| !is_own(word)).cloned().collect();
        let index = self.index;
        let has_compiler = false;
        JitOptions {
            arch,
            is_virtual,
            lto,
            ptx,
            verbose,
            time,
            index,
            words,
            options,
            has_compiler,
        }
    }
}

/// True for a number below 0, as C reads the begin of a text.
fn is_negative(value: &str) -> bool {
    let digits = value.trim_start().strip_prefix('-').unwrap_or_default();
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].bytes().any(|digit| digit != b'0')
}

fn missing(word: &str) -> Refusal {
    let code = "ERROR NVJITLINK_ERROR_UNRECOGNIZED_OPTION";
    (ResultCode::UnrecognizedOption, format!("{code}: missing option value ({word})\n"))
}

/// The architecture that `value` names, and whether it is virtual. As in NVIDIA's library the
/// number is read from the start, and the rest counts only if it makes a known name.
fn arch(value: &str, word: &str) -> Result<(&'static Arch, bool), Refusal> {
    let kinds = [("sm_", false), ("compute_", true), ("lto_", true)];
    let known = kinds
        .into_iter()
        .find_map(|(kind, is_virtual)| Some((value.strip_prefix(kind)?, is_virtual)));
    let (rest, is_virtual) = known.ok_or_else(|| missing(word))?;
    let digits_end = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (negative, digits) = match rest.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let (digits, suffix) = digits.split_at(digits_end(digits));
    if digits.is_empty() {
        return Err(missing(word));
    }
    let unsupported = |what: &str| {
        let code = "ERROR NVJITLINK_ERROR_UNSUPPORTED_ARCH";
        (ResultCode::UnsupportedArch, format!("{code}: unsupported architecture ({what})\n"))
    };
    let number: i64 = digits.parse().unwrap_or(i64::MAX);
    let number = match u32::try_from(number) {
        Ok(0) => return Err(missing(word)),
        Ok(number) if i64::from(number) < TOO_LARGE && !negative => number,
        _ => return Err(unsupported(word)),
    };
    let variant = match suffix {
        "a" => Variant::Accelerated,
        "f" => Variant::Family,
        _ => Variant::Plain,
    };
    let known = || ARCHS.iter().filter(|arch| INTERFACE.knows(arch));
    let found = |variant| known().find(|arch| arch.sm == number && arch.variant == variant);
    match found(variant).or_else(|| found(Variant::Plain)) {
        Some(arch) => Ok((arch, is_virtual)),
        None if INTERFACE.unsupported.contains(&number) => {
            Err(unsupported(&format!("compute_{number}")))
        }
        None => {
            let code = "ERROR NVJITLINK_ERROR_UNRECOGNIZED_ARCH";
            let text = format!("{code}: unrecognized architecture (compute_{number}{suffix})\n");
            Err((ResultCode::UnrecognizedArch, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(words: &[&str]) -> ResultCode {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        parse(&words).map_or_else(|(code, _)| code, |_| ResultCode::Success)
    }

    #[test]
    fn words_are_taken_as_observed() {
        let with = |word: &str| code(&["-arch=sm_90", word]);
        for word in [
            "-r",
            "-restrict",
            "-times",
            "-dlto",
            "-lineinfo=1",
            "-O0",
            "-ftz=",
            "-Ofc=minx",
            "-split-compile=-0",
            "-split-compile=-x",
            "--Ofast-compile=0",
            "-uidx=x",
        ] {
            assert_eq!(with(word), ResultCode::Success, "{word}");
        }
        for word in [
            "-v",
            "",
            "-O1",
            "-O33",
            "-O",
            "-Xptxas=",
            "-ftz",
            "-g=1",
            "-w",
            "-ofc",
            "x",
            "-Ofc=x",
            "-Ofc=",
            "-split-compile= -1x",
            "-split-compile-extended=-20",
            "-split-compile-extended=",
        ] {
            assert_eq!(with(word), ResultCode::UnrecognizedOption, "{word}");
        }
        assert_eq!(with("-ptx"), ResultCode::IncompatibleOptions);
        assert_eq!(code(&[]), ResultCode::MissingArch);
    }

    #[test]
    fn the_release_followed_can_be_named() {
        let options = |word: &str| {
            parse(&["-arch=sm_90".into(), word.into()])
                .map(|options| (options.dialect([]).to_string(), options.words.len()))
        };
        assert_eq!(options("-dialect=13.4"), Ok(("13.4".to_owned(), 1)));
        assert_eq!(options("-dialect=auto"), Ok(("13.0".to_owned(), 1)));
        for word in ["-dialect=12.7", "-dialect=13", "-dialect=", "-dialect"] {
            assert_eq!(
                options(word).map_err(|refusal| refusal.0),
                Err(ResultCode::UnrecognizedOption),
                "{word}"
            );
        }
        let words = |release| ["-arch=sm_107", release];
        assert_eq!(code(&words("-dialect=13.4")), ResultCode::Success);
        assert_eq!(code(&words("-dialect=13.3")), ResultCode::UnrecognizedArch);
    }

    #[test]
    fn threads_can_be_asked_for() {
        let options = |word: &str| parse(&["-arch=sm_90".into(), word.into()]);
        for (word, lanes) in
            [("-threads=1", Some(1)), ("-threads=2", Some(2)), ("-threads=0", None)]
        {
            let options = options(word).unwrap();
            let (asked, all) = (options.session(), Session::with_threads(0));
            assert_eq!(asked.most_lanes(), lanes.unwrap_or(all.most_lanes()), "{word}");
            // NVIDIA's library does not know it.
            assert_eq!(options.words, ["-arch=sm_90"]);
        }
        for word in ["-threads=", "-threads", "-threads=x", "-threads=-1", "-threads=70000"] {
            let refused = options(word).map_err(|refusal| refusal.0);
            assert_eq!(refused.err(), Some(ResultCode::UnrecognizedOption), "{word}");
        }
    }

    #[test]
    fn ptxas_gets_the_level_that_a_value_begins_with() {
        for (word, level) in
            [("-Ofc=minx", Some("min")), ("--Ofast-compile=0", Some("0")), ("-g", None)]
        {
            let options = parse(&["-arch=sm_90".into(), word.into()]).unwrap();
            assert_eq!(options.options.text(OptionId::FastCompile), level, "{word}");
        }
    }

    #[test]
    fn architectures_are_read_as_observed() {
        let one = |name: &str| code(&[&format!("-arch={name}")]);
        for name in ["sm_75", "sm_90a", "sm_100f", "sm_90x", "sm_89a", "sm_090", "sm_90 "] {
            assert_eq!(one(name), ResultCode::Success, "{name}");
        }
        for name in ["", "sm_", "sm_x", "SM_90", "90", "foo", "sm_0"] {
            assert_eq!(one(name), ResultCode::UnrecognizedOption, "{name}");
        }
        for name in ["sm_50", "sm_70", "sm_-90", "sm_1000", "sm_9000000000000"] {
            assert_eq!(one(name), ResultCode::UnsupportedArch, "{name}");
        }
        for name in ["sm_72", "sm_99", "sm_101", "sm_99a", "sm_999"] {
            assert_eq!(one(name), ResultCode::UnrecognizedArch, "{name}");
        }
        for name in ["compute_90", "lto_90"] {
            assert_eq!(one(name), ResultCode::IncompatibleOptions, "{name}");
        }
    }
}
