//! Shadow toolkits: a CUDA toolkit of symbolic links in which only `nvlink` is another program.
//!
//! nvcc runs the nvlink in its own folder, by the path it was started with and before anything in
//! `PATH`. In a folder of links to a toolkit it therefore finds the nvlink of that folder, and the
//! toolkit does not change. That program is a copy of culd: if it were a link to a file that has
//! moved, nvcc would run NVIDIA's nvlink of `PATH` without a message.
//!
//! In: the words after a command, the path of this program. Out: a shadow toolkit and lines about
//! it; before a link, the faults of the shadow that this program is in. Guaranteed: the folder is
//! built next to its place and renamed, so there is the old state or the new one; files that culd
//! did not put there are never replaced or removed.

mod check;
mod toolkit;

use culd_text::os::OsStrExt;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use culd_link::Severity;
use thiserror::Error;

use crate::messages::{Line, RunOutcome};
use crate::options::{CommandOptions, OptionId, dialect};
use crate::os::host;
use crate::toolkit::marker::{self, Marker, OwnShadow, ToolkitChange};

pub(crate) use check::check_shadow;

const HELP: &str = "\
usage: culd install-shadow DIR [--cuda TOOLKIT]
       culd install-shadow --remove DIR

Makes DIR a CUDA toolkit of symbolic links to TOOLKIT in which culd stands in for nvlink, nvcc and fatbinary.
TOOLKIT is not changed. Run again with the same DIR after an update of the toolkit or of culd; a link says when it is
time. 'culd check-shadow DIR' says whether all is in place.

  --cuda TOOLKIT   without it: the toolkit that DIR is a shadow of already, that of CUDA_HOME, of CUDA_PATH, of nvcc in
                   PATH, or /usr/local/cuda, the first that there is
  --remove         remove DIR, if nothing is in it that culd did not put there
";

/// The programs of a toolkit that are copies of culd in its shadow.
const REPLACED: &[&str] = &["nvlink", "nvcc", "fatbinary"];

/// True if a program of the shadow of `toolkit` is a copy of culd: nvlink always, others if the
/// toolkit has them.
fn is_replaced(toolkit: &Path, name: &str) -> bool {
    name == "nvlink" || toolkit.join("bin").join(name).exists()
}

/// Programs that must lie in one folder with culd and its copies.
const COMPANIONS: &[&str] = &["culd-lto"];

/// The reason for a missing shadow toolkit.
#[derive(Debug, Error)]
enum ShadowError {
    #[error("install-shadow: {0}; see 'culd install-shadow --help'")]
    Usage(String),
    #[error("'{0}' is no CUDA toolkit: it has neither bin/nvcc nor bin/nvlink")]
    NotAToolkit(PathBuf),
    #[error(
        "no CUDA toolkit by CUDA_HOME, CUDA_PATH, nvcc in PATH or in '{usual}'; name one with \
         --cuda"
    )]
    NoToolkit { usual: &'static str },
    #[error("'{0}' is a shadow toolkit itself; name the toolkit that it was made of")]
    ShadowOfShadow(PathBuf),
    #[error("'{dir}' is inside the toolkit '{toolkit}'")]
    Inside { dir: PathBuf, toolkit: PathBuf },
    #[error("'{0}' exists and is no shadow toolkit; choose another folder or remove it")]
    Occupied(PathBuf),
    #[error("'{0}' is no shadow toolkit")]
    NotAShadow(PathBuf),
    #[error("'{0}' is not from culd; remove it from the shadow toolkit first")]
    Foreign(PathBuf),
    #[error("this program is '{0}', a part of the shadow toolkit; run one that is elsewhere")]
    OwnProgram(PathBuf),
    #[error("Could not {what} '{path}': {error}")]
    Io { what: &'static str, path: PathBuf, error: io::Error },
}

/// The request of the command line.
#[derive(Debug, PartialEq, Eq)]
enum ShadowCommand {
    Help,
    Install { dir: PathBuf, toolkit: Option<PathBuf> },
    Remove { dir: PathBuf },
}

/// Runs `install-shadow` with `arguments`; `program` is the path of culd. Returns the text for
/// standard output. After an error, no file has changed.
pub(crate) fn install_shadow(arguments: &[OsString], program: &Path) -> (String, RunOutcome) {
    let done = parse(arguments).and_then(|request| match request {
        ShadowCommand::Help => Ok(HELP.to_owned()),
        ShadowCommand::Install { dir, toolkit } => install(&dir, toolkit.as_deref(), program),
        ShadowCommand::Remove { dir } => remove(&dir, program),
    });
    match done {
        Ok(text) => (text, RunOutcome::success()),
        Err(error) => (String::new(), RunOutcome::fatal(error)),
    }
}

fn install(dir: &Path, named: Option<&Path>, program: &Path) -> Result<String, ShadowError> {
    let toolkit = toolkit::find(named, dir)?;
    let dir = place(dir, &toolkit)?;
    let program = program_outside(program, &dir)?;
    check_old(&dir)?;
    let parent = dir.parent().unwrap_or(Path::new("/"));
    let work = scratch(parent)?;
    let fresh = work.path().join("new");
    fill(&fresh, &toolkit, &program)?;
    replace(&fresh, &dir, &work.path().join("old"))?;
    Ok(format!(
        "'{dir}' is '{toolkit}' with culd as nvlink. Use it in its place, for example '{dir}/bin/nvcc'.\n",
        dir = culd_text::escaped(&culd_text::name(&dir)),
        toolkit = culd_text::escaped(&culd_text::name(&toolkit))
    ))
}

/// Removes the shadow at `dir`.
fn remove(dir: &Path, program: &Path) -> Result<String, ShadowError> {
    let dir = dir.canonicalize().map_err(failed("open", dir))?;
    if !is_shadow(&dir) {
        return Err(ShadowError::NotAShadow(dir));
    }
    program_outside(program, &dir)?;
    check_old(&dir)?;
    let work = scratch(dir.parent().unwrap_or(Path::new("/")))?;
    let aside = work.path().join("old");
    fs::rename(&dir, &aside).map_err(failed("remove", &dir))?;
    fs::remove_dir_all(&aside).map_err(failed("remove", &aside))?;
    Ok(format!("'{}' is removed.\n", dir.display()))
}

/// The real path of this program, which must not be the copy in the shadow at `dir`.
fn program_outside(program: &Path, dir: &Path) -> Result<PathBuf, ShadowError> {
    let program = program.canonicalize().map_err(failed("find", program))?;
    match program.starts_with(dir) {
        true => Err(ShadowError::OwnProgram(program)),
        false => Ok(program),
    }
}

/// A folder in `parent` that is gone afterwards.
fn scratch(parent: &Path) -> Result<tempfile::TempDir, ShadowError> {
    let made = tempfile::Builder::new().prefix(".culd-shadow-").tempdir_in(parent);
    made.map_err(|error| failed("write to", parent)(error.kind().into()))
}

fn parse(arguments: &[impl AsRef<OsStr>]) -> Result<ShadowCommand, ShadowError> {
    let usage = |text: String| Err(ShadowError::Usage(text));
    let (mut dir, mut toolkit, mut removes) = (None, None, false);
    let mut words = arguments.iter().map(AsRef::as_ref);
    while let Some(word) = words.next() {
        // A path need not be text.
        match word.to_str().unwrap_or_default() {
            "--help" | "-h" => return Ok(ShadowCommand::Help),
            "--remove" => removes = true,
            "--cuda" => match words.next() {
                Some(value) => toolkit = Some(PathBuf::from(value)),
                None => return usage("argument expected after '--cuda'".to_owned()),
            },
            _ => match word.as_bytes().strip_prefix(b"--cuda=") {
                Some(value) => toolkit = Some(PathBuf::from(OsStr::from_bytes(value))),
                None if word.as_bytes().starts_with(b"-") => {
                    return usage(format!("unknown option '{}'", culd_text::name(word)));
                }
                None if dir.is_some() => {
                    return usage(format!("unexpected '{}'", culd_text::name(word)));
                }
                None => dir = Some(PathBuf::from(word)),
            },
        }
    }
    match (dir.filter(|dir| !dir.as_os_str().is_empty()), removes) {
        (None, _) => usage("it takes the folder of the shadow".to_owned()),
        (Some(_), true) if toolkit.is_some() => {
            usage("'--remove' and '--cuda' do not go together".to_owned())
        }
        (Some(dir), true) => Ok(ShadowCommand::Remove { dir }),
        (Some(dir), false) => Ok(ShadowCommand::Install { dir, toolkit }),
    }
}

/// The real path that the shadow has or will have.
fn place(dir: &Path, toolkit: &Path) -> Result<PathBuf, ShadowError> {
    let real = match dir.canonicalize() {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !dir.is_symlink() => {
            let name = dir.file_name().ok_or_else(|| ShadowError::Occupied(dir.to_owned()))?;
            let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new("."));
            parent.canonicalize().map_err(failed("open folder", parent))?.join(name)
        }
        Err(error) => return Err(failed("open", dir)(error)),
    };
    if real.starts_with(toolkit) {
        return Err(ShadowError::Inside { dir: real, toolkit: toolkit.to_owned() });
    }
    Ok(real)
}

/// The line before a link by the linker of `shadow`. A toolkit of another release is an error,
/// unless the options name the release: another release may choose other rules, images and
/// libraries.
pub(crate) fn before_link(
    shadow: &OwnShadow,
    options: &CommandOptions,
) -> Result<Option<Line>, Line> {
    let OwnShadow { dir, marker } = shadow;
    let again = vec![format!("run 'culd install-shadow {}' again", dir.display())];
    if dialect::named(options).is_none()
        && let Some(ToolkitChange::Release(now)) = marker.toolkit_change()
    {
        let now = if now.is_empty() { now } else { format!("; it is CUDA {now}") };
        let (toolkit, before) = (marker.toolkit.display(), &marker.release);
        let outdated = format!(
            "The toolkit '{toolkit}' is not CUDA {before} any more, of which this is a shadow{now}"
        );
        return Err(Line::new(Severity::Fatal, outdated).with_notes(again));
    }
    let program = marker.changed_program().filter(|_| !options.flag(OptionId::DisableWarnings));
    Ok(program.map(|program| {
        let outdated =
            format!("'{}' has changed since this copy of it was made", program.display());
        Line::new(Severity::Warning, outdated).with_notes(again)
    }))
}

fn is_shadow(dir: &Path) -> bool {
    dir.join(marker::NAME).is_file()
}

/// Refuses to replace anything except an empty folder, or a shadow toolkit without files of the
/// user.
fn check_old(dir: &Path) -> Result<(), ShadowError> {
    if !dir.exists() {
        return Ok(());
    }
    if !dir.is_dir() {
        return Err(ShadowError::Occupied(dir.to_owned()));
    }
    let entries = list(dir)?;
    if entries.is_empty() {
        return Ok(());
    }
    if !is_shadow(dir) {
        return Err(ShadowError::Occupied(dir.to_owned()));
    }
    let bin = dir.join("bin");
    let inner = if bin.is_dir() { list(&bin)? } else { Vec::new() };
    let mut ours = vec![dir.join(marker::NAME), bin.clone()];
    ours.extend(REPLACED.iter().chain(COMPANIONS).map(|name| bin.join(name)));
    let foreign = |path: &PathBuf| !path.is_symlink() && !ours.contains(path);
    match entries.into_iter().chain(inner).find(foreign) {
        Some(path) => Err(ShadowError::Foreign(path)),
        None => Ok(()),
    }
}

/// Makes a complete shadow in the new folder `fresh`.
fn fill(fresh: &Path, toolkit: &Path, program: &Path) -> Result<(), ShadowError> {
    let bin = fresh.join("bin");
    fs::create_dir_all(&bin).map_err(failed("make folder", &bin))?;
    let marker = fresh.join(marker::NAME);
    let contents = Marker::new(toolkit, program).bytes();
    fs::write(&marker, contents).map_err(failed("write", &marker))?;
    link_all(toolkit, fresh, &["bin"])?;
    link_all(&toolkit.join("bin"), &bin, &[REPLACED, COMPANIONS].concat())?;
    let first = bin.join("nvlink");
    fs::copy(program, &first).map_err(failed("install", program))?;
    for name in REPLACED.iter().filter(|name| is_replaced(toolkit, name)) {
        let path = bin.join(name);
        if path != first && fs::hard_link(&first, &path).is_err() {
            fs::copy(program, &path).map_err(failed("install", program))?;
        }
    }
    for name in COMPANIONS {
        let companion = program.with_file_name(name);
        if companion.is_file() {
            fs::copy(&companion, bin.join(name)).map_err(failed("install", &companion))?;
        }
    }
    Ok(())
}

/// Makes links in `to` to all entries of `from` that are not in `except`.
fn link_all(from: &Path, to: &Path, except: &[&str]) -> Result<(), ShadowError> {
    for path in list(from)? {
        let name = path.file_name().filter(|name| !except.iter().any(|other| *name == *other));
        if let Some(name) = name {
            host::symlink(&path, &to.join(name)).map_err(failed("link to", &path))?;
        }
    }
    Ok(())
}

/// Moves `dir` to `aside` and `fresh` to `dir`.
fn replace(fresh: &Path, dir: &Path, aside: &Path) -> Result<(), ShadowError> {
    let existed = dir.exists();
    if existed {
        fs::rename(dir, aside).map_err(failed("replace", dir))?;
    }
    let renamed = fs::rename(fresh, dir).map_err(failed("write", dir));
    if renamed.is_err() && existed {
        fs::rename(aside, dir).map_err(failed("restore", dir))?;
    }
    renamed
}

/// The paths of the entries of a folder.
fn list(dir: &Path) -> Result<Vec<PathBuf>, ShadowError> {
    let entries = fs::read_dir(dir).and_then(|entries| entries.map(|e| Ok(e?.path())).collect());
    entries.map_err(failed("list", dir))
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ShadowError {
    let path = path.to_owned();
    move |error| ShadowError::Io { what, path, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A toolkit as NVIDIA's installer lays it out, a program, and room for shadows.
    fn world() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let world = tempfile::tempdir().unwrap();
        let toolkit = world.path().canonicalize().unwrap().join("cuda-13.0");
        for folder in ["bin/crt", "targets/x86_64-linux/lib", "nvvm/bin"] {
            fs::create_dir_all(toolkit.join(folder)).unwrap();
        }
        symlink("targets/x86_64-linux/lib", toolkit.join("lib64")).unwrap();
        for file in ["version.json", "bin/nvcc", "bin/nvlink", "bin/nvcc.profile"] {
            fs::write(toolkit.join(file), file).unwrap();
        }
        fs::write(toolkit.join("targets/x86_64-linux/lib/libcudadevrt.a"), "archive").unwrap();
        let program = toolkit.with_file_name("culd");
        fs::write(&program, "the program").unwrap();
        (world, toolkit, program)
    }

    fn shadow(dir: &Path, toolkit: &Path, program: &Path) -> Result<String, ShadowError> {
        install(dir, Some(toolkit), program)
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = list(dir)
            .unwrap()
            .iter()
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_shadow_has_everything_of_the_toolkit_and_another_nvlink() {
        let (world, toolkit, program) = world();
        let dir = world.path().join("tk");
        shadow(&dir, &toolkit, &program).unwrap();
        let top = [".culd-shadow", "bin", "lib64", "nvvm", "targets", "version.json"];
        assert_eq!(names(&dir), top);
        assert_eq!(names(&dir.join("bin")), ["crt", "nvcc", "nvcc.profile", "nvlink"]);
        let profile = fs::read_link(dir.join("bin/nvcc.profile")).unwrap();
        assert_eq!(profile, toolkit.join("bin/nvcc.profile"));
        for tool in ["nvcc", "nvlink"] {
            assert_eq!(fs::read_to_string(dir.join("bin").join(tool)).unwrap(), "the program");
        }
        assert_eq!(fs::read_to_string(dir.join("lib64/libcudadevrt.a")).unwrap(), "archive");
        assert_eq!(fs::read_to_string(toolkit.join("bin/nvlink")).unwrap(), "bin/nvlink");
        assert_eq!(names(world.path()), ["cuda-13.0", "culd", "tk"]);
    }

    #[test]
    fn once_more_follows_the_toolkit_and_the_program() {
        let (world, toolkit, program) = world();
        let dir = world.path().join("tk");
        shadow(&dir, &toolkit, &program).unwrap();
        fs::write(toolkit.join("bin/ptxas"), "").unwrap();
        fs::remove_dir_all(toolkit.join("nvvm")).unwrap();
        let moved = program.with_file_name("culd-2");
        fs::rename(&program, &moved).unwrap();
        // Through a link to the shadow, which stays a link.
        let link = world.path().join("current");
        symlink("tk", &link).unwrap();
        shadow(&link, &toolkit, &moved).unwrap();
        assert!(dir.join("bin/ptxas").exists() && !dir.join("nvvm").is_symlink());
        assert_eq!(Marker::read(&dir).unwrap(), Marker::new(&toolkit, &moved));
        assert_eq!(names(world.path()), ["cuda-13.0", "culd-2", "current", "tk"]);
        assert!(link.is_symlink());
    }

    #[test]
    fn a_shadow_does_not_need_the_program() {
        let (world, toolkit, program) = world();
        let companion = program.with_file_name(COMPANIONS[0]);
        fs::write(&companion, "its companion").unwrap();
        let dir = world.path().join("tk");
        fs::create_dir(&dir).unwrap();
        shadow(&dir, &toolkit, &program).unwrap();
        for path in [&program, &companion] {
            fs::remove_file(path).unwrap();
        }
        assert_eq!(fs::read_to_string(dir.join("bin/nvlink")).unwrap(), "the program");
        assert_eq!(fs::read_to_string(dir.join("bin/culd-lto")).unwrap(), "its companion");
        assert!(!dir.join("bin/nvlink").is_symlink());
    }

    #[test]
    fn a_shadow_is_removed_and_nothing_else() {
        let (world, toolkit, program) = world();
        let dir = world.path().join("tk");
        shadow(&dir, &toolkit, &program).unwrap();
        let text = remove(&dir, &program).unwrap();
        assert!(text.ends_with("/tk' is removed.\n"), "{text}");
        assert_eq!(names(world.path()), ["cuda-13.0", "culd"]);
        assert_eq!(fs::read_to_string(toolkit.join("bin/nvlink")).unwrap(), "bin/nvlink");

        shadow(&dir, &toolkit, &program).unwrap();
        fs::write(dir.join("bin/notes"), "x").unwrap();
        let before = snapshot(world.path());
        for (dir, message) in [
            (dir.clone(), "is not from culd"),
            (toolkit.clone(), "is no shadow toolkit"),
            (world.path().join("gone"), "Could not open"),
        ] {
            let error = remove(&dir, &program).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
            assert_eq!(snapshot(world.path()), before, "{error}");
        }
    }

    /// `dir` with everything in it, as text.
    fn snapshot(dir: &Path) -> Vec<String> {
        let mut lines = Vec::new();
        for path in list(dir).unwrap() {
            if path.is_dir() && !path.is_symlink() {
                lines.extend(snapshot(&path));
            } else {
                lines.push(format!("{} {:?}", path.display(), fs::read_link(&path).ok()));
            }
        }
        lines.sort();
        lines
    }

    #[test]
    fn what_cannot_be_done_changes_nothing() {
        let (world, toolkit, program) = world();
        let at = |name: &str| world.path().join(name);
        shadow(&at("tk"), &toolkit, &program).unwrap();
        for (file, text) in [("file", "x"), ("home/notes", "x")] {
            fs::create_dir_all(at(file).parent().unwrap()).unwrap();
            fs::write(at(file), text).unwrap();
        }
        shadow(&at("used"), &toolkit, &program).unwrap();
        fs::write(at("used/bin/notes"), "x").unwrap();
        fs::create_dir(at("no-tools")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        let before = snapshot(world.path());
        let cases = [
            ("new", at("missing"), &program, "Could not open toolkit"),
            ("new", at("no-tools"), &program, "is no CUDA toolkit"),
            ("new", at("tk"), &program, "is a shadow toolkit itself"),
            ("cuda-13.0/tk", toolkit.clone(), &program, "is inside the toolkit"),
            ("cuda-13.0", toolkit.clone(), &program, "is inside the toolkit"),
            ("file", toolkit.clone(), &program, "exists and is no shadow toolkit"),
            ("home", toolkit.clone(), &program, "exists and is no shadow toolkit"),
            ("used", toolkit.clone(), &program, "is not from culd"),
            ("no/such/folder", toolkit.clone(), &program, "Could not open folder"),
            ("file/tk", toolkit.clone(), &program, "Could not"),
            ("dangling", toolkit.clone(), &program, "Could not open"),
            ("tk", toolkit.clone(), &at("gone"), "Could not find"),
            ("tk", toolkit.clone(), &at("tk/.culd-shadow"), "a part of the shadow toolkit"),
        ];
        for (dir, toolkit, program, message) in cases {
            let error = shadow(&at(dir), &toolkit, program).unwrap_err().to_string();
            assert!(error.contains(message), "{dir}: {error}");
            assert_eq!(snapshot(world.path()), before, "{dir}: {error}");
        }
    }

    #[test]
    fn a_shadow_that_cannot_be_finished_is_not_begun() {
        let (world, toolkit, program) = world();
        let dir = world.path().join("tk");
        // A folder cannot be copied: this fails as the last step, when all links are made.
        fs::remove_file(&program).unwrap();
        fs::create_dir(&program).unwrap();
        let error = shadow(&dir, &toolkit, &program).unwrap_err().to_string();
        assert!(error.starts_with("Could not install"), "{error}");
        assert_eq!(names(world.path()), ["cuda-13.0", "culd"]);
    }

    #[test]
    fn words() {
        let parse =
            |words: &[&str]| parse(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        let install = |toolkit: Option<&str>| ShadowCommand::Install {
            dir: "tk".into(),
            toolkit: toolkit.map(PathBuf::from),
        };
        assert_eq!(parse(&["tk"]).unwrap(), install(None));
        assert_eq!(parse(&["--cuda", "a", "tk"]).unwrap(), install(Some("a")));
        assert_eq!(parse(&["tk", "--cuda=a"]).unwrap(), install(Some("a")));
        assert_eq!(parse(&["--remove", "tk"]).unwrap(), ShadowCommand::Remove { dir: "tk".into() });
        assert_eq!(parse(&["tk", "--help"]).unwrap(), ShadowCommand::Help);
        for words in [
            &[][..],
            &[""],
            &["a", "b"],
            &["a", "--cuda"],
            &["a", "--force"],
            &["--remove"],
            &["a", "--remove", "--cuda=b"],
        ] {
            assert!(matches!(parse(words), Err(ShadowError::Usage(_))), "{words:?}");
        }
    }
}
