//! Link-time optimization: LTO-IR becomes PTX, by the program `culd-lto` and NVIDIA's libnvJitLink.
//!
//! In: LTO-IR and the options of the link. Out: PTX, or an error. Guaranteed: no library of
//! NVIDIA's is loaded into this process; there is one private folder, which is removed afterwards.
//!
//! [`link`] decides how the LTO-IR of a link is compiled, [`outline`] reads the names that it
//! defines and needs, [`roots`] writes down those that must stay, [`order`] puts functions into
//! nvlink's order.

mod link;
mod order;
mod outline;
mod roots;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use culd_link::Session;
use thiserror::Error;

use crate::input::{LtoPiece, NamedCubin};
use crate::options::{CommandOptions, OptionId, UsageError};
use crate::os::child::{self, ChildError, Streams};
use crate::os::place;
use crate::toolkit::programs;
use crate::tools;

use outline::Outline;
use roots::RootNames;

pub(crate) use link::LinkTime;

/// The program that has NVIDIA's library compile.
const PROGRAM: &str = "culd-lto";

/// A file that keeps the program from the CUDA driver: it is empty, so the loader ends its search
/// there. NVIDIA's library looks for the driver before each compilation, and starting it takes
/// 200 ms on a machine with a GPU. nvlink never starts it, and the code is the same without it.
const DRIVER: &str = "libcuda.so.1";

/// How to get the program: installing the command alone does not bring it.
const WHERE_FROM: &str = "culd-lto is a program of culd's own: in its source, 'cargo install --locked --path crates/lto' \
                          installs it, and 'cargo xtask dist' puts it beside culd";

/// The name of the cubin of all LTO-IR in messages, as in nvlink.
const CUBIN: &str = "lto.cubin";

/// NVVM IR that names the definitions of LTO-IR that must stay, in a link with the cubins `others`:
/// those in `object`, which libnvJitLink made of the LTO-IR, and functions that the cubins need.
pub fn lto_roots(object: &[u8], others: &[NamedCubin]) -> Option<String> {
    let mut roots = Outline::of_cubin(object)?.roots;
    let others = others.iter().map(|cubin| &*cubin.bytes);
    link::needed(others).into_iter().for_each(|name| roots.function(name));
    (!roots.is_empty()).then(|| roots.module())
}

/// The output of the program.
#[derive(Debug)]
struct LtoOutput {
    bytes: Vec<u8>,
    said: CompilerLog,
}

/// Lines of the program.
#[derive(Debug, Default)]
struct CompilerLog {
    /// The log of the compiler, which nvlink prints as an info.
    log: String,
    /// Lines that NVIDIA's libraries print themselves.
    lines: Vec<String>,
}

/// The reason why there is no output.
#[derive(Debug, Error)]
enum LtoFailure {
    #[error("there is no {PROGRAM} beside this program or in PATH, which compiles it")]
    NoProgram,
    #[error(transparent)]
    NotRun(#[from] ChildError),
    /// The lines of the program; the first has the reason.
    #[error("{}", .0.first().map_or("it does not say why", String::as_str))]
    Failed(Vec<String>),
    /// NVIDIA's library has refused.
    #[error("'{library}' refused (code {code})")]
    Refused { code: i32, library: String, said: CompilerLog },
}

impl LtoFailure {
    /// Lines that explain it.
    fn notes(&self) -> Vec<String> {
        match self {
            LtoFailure::Failed(lines) => lines.iter().skip(1).cloned().collect(),
            LtoFailure::NoProgram => vec![WHERE_FROM.to_owned()],
            _ => Vec::new(),
        }
    }
}

/// A task for the program.
struct LtoTask<'t, 'a> {
    options: &'t CommandOptions,
    /// The options, as [`words`] makes them.
    words: &'t [OsString],
    /// The name of the target.
    arch: &'t str,
    parts: &'t [LtoPiece<'a>],
    session: &'t Session,
}

impl LtoTask<'_, '_> {
    /// PTX of all parts; `more` are further options. `roots` is NVVM IR with the names that must
    /// stay.
    fn ptx(&self, more: &[OsString], roots: Option<&str>) -> Result<LtoOutput, LtoFailure> {
        let mut made = self.run("ptx", "-ptx", more, roots)?;
        // It ends with NUL.
        made.bytes
            .truncate(made.bytes.iter().position(|&byte| byte == 0).unwrap_or(made.bytes.len()));
        Ok(made)
    }

    /// A relocatable cubin of all parts, with all their functions.
    fn object(&self) -> Result<Vec<u8>, LtoFailure> {
        const RELOCATABLE: [u8; 2] = 1u16.to_le_bytes();
        // Names do not depend on the optimization.
        let task = LtoTask { words: &["-O0".into()], ..*self };
        let made = task.run("object", "-r", &[], Some(&RootNames::open()))?.bytes;
        if made.starts_with(b"\x7fELF") && made.get(16..18) == Some(&RELOCATABLE) {
            return Ok(made);
        }
        Err(LtoFailure::Failed(vec!["libnvJitLink made no object of LTO-IR".to_owned()]))
    }

    /// Runs the program with the command `what`, and its compiler with the option `word`.
    fn run(
        &self,
        what: &str,
        word: &str,
        more: &[OsString],
        roots: Option<&str>,
    ) -> Result<LtoOutput, LtoFailure> {
        let LtoTask { options, words, arch, parts, session } = *self;
        let program = find().ok_or(LtoFailure::NoProgram)?;
        let files: Vec<String> = (0..parts.len()).map(|number| number.to_string()).collect();
        let fixed = roots.map(|_| "roots").into_iter().chain(["out", DRIVER]);
        let files: Vec<&str> = files.iter().map(String::as_str).chain(fixed).collect();
        let fill = |folder: &Path| {
            let mut all = files.iter().zip(parts);
            all.try_for_each(|(file, part)| fs::write(folder.join(file), part.bytes))?;
            fs::write(folder.join(DRIVER), "")?;
            roots.map_or(Ok(()), |text| fs::write(folder.join("roots"), text))
        };
        let folder = place::scratch("culd-lto-", &files, options.output(), fill);
        let folder = folder.map_err(ChildError::NoPlace)?;
        let output = folder.join("out");
        let mut command = Command::new(&program);
        command.arg(what).arg(&output).env("LD_LIBRARY_PATH", library_folders(&folder));
        for toolkit in tools::toolkit_homes(options) {
            command.arg("--toolkit").arg(toolkit);
        }
        if roots.is_some() {
            command.arg("--roots").arg(folder.join("roots"));
        }
        let fixed = [format!("-arch={arch}").into(), "-lto".into(), word.into()];
        for word in fixed.iter().chain(words).chain(more) {
            command.arg("--option").arg(word);
        }
        for (file, LtoPiece { fatbin, name, .. }) in files.iter().zip(parts) {
            let kind = if *fatbin { "fatbin" } else { "ltoir" };
            command.args(["--input", kind, name]).arg(folder.join(file));
        }
        let done = child::output(&mut command, Streams::default(), session.cancel())?;
        let report = culd_text::bytes(&done.stdout);
        let lines = culd_text::bytes(&done.stderr).lines().map(str::to_owned).collect();
        if !done.status.success() {
            return Err(failure(&report, lines));
        }
        let log = report.split_once('\n').map_or("", |(_, log)| log).to_owned();
        let bytes = fs::read(&output).map_err(ChildError::Temporary)?;
        Ok(LtoOutput { bytes, said: CompilerLog { log, lines } })
    }
}

/// The failure in the program's report; `lines` are its other lines.
fn failure(report: &str, lines: Vec<String>) -> LtoFailure {
    let (first, log) = report.split_once('\n').unwrap_or((report, ""));
    if let Some((code, library)) =
        first.strip_prefix("refused ").and_then(|rest| rest.split_once(" by "))
        && let Ok(code) = code.parse()
    {
        let said = CompilerLog { log: log.to_owned(), lines };
        return LtoFailure::Refused { code, library: library.to_owned(), said };
    }
    let why = first.strip_prefix("failed: ").filter(|why| !why.is_empty());
    let reasons = why.map(str::to_owned).into_iter().chain(log.lines().map(str::to_owned));
    LtoFailure::Failed(reasons.chain(lines).collect())
}

/// The options as options of libnvJitLink, without those about used names.
fn words(options: &CommandOptions) -> Result<Vec<OsString>, UsageError> {
    let mut words: Vec<OsString> = Vec::new();
    if options.flag(OptionId::Debug) && !options.flag(OptionId::SuppressDebugInfo) {
        words.push("-g".into());
    }
    if options.flag(OptionId::NvvmLatest) {
        words.push("-nvvm-latest".into());
    }
    let joined = |word: &OsString| [OsStr::new("-Xnvvm"), word].join(OsStr::new("="));
    words.extend(options.nvvm_words()?.iter().map(joined));
    // To make PTX, the library takes the second for the first.
    for (id, name) in [
        (OptionId::FastCompile, "-Ofc"),
        (OptionId::SplitCompile, "-split-compile"),
        (OptionId::SplitCompileExtended, "-split-compile"),
    ] {
        words.extend(options.text(id).map(|value| format!("{name}={value}").into()));
    }
    words.extend(options.max_registers().map(|count| format!("-maxrregcount={count}").into()));
    Ok(words)
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
        let LtoFailure::Refused { code, library, said } =
            failure("refused 5 by /a b/lib.so\nlog 1\nlog 2\n", lines())
        else {
            panic!("not refused");
        };
        assert_eq!((code, library.as_str()), (5, "/a b/lib.so"));
        assert_eq!((said.log.as_str(), said.lines), ("log 1\nlog 2\n", lines()));
        let failed = failure("failed: no library\nmore\n", Vec::new());
        assert_eq!(
            (failed.to_string().as_str(), failed.notes()),
            ("no library", vec!["more".to_owned()])
        );
        for report in ["", "refused x by y", "refused", "failed: "] {
            let failed = failure(report, Vec::new());
            assert!(matches!(failed, LtoFailure::Failed(_)), "{report}");
        }
        assert_eq!(failure("", Vec::new()).to_string(), "it does not say why");
    }
}
