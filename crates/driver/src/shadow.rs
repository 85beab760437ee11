//! `install-shadow`: a CUDA toolkit of symbolic links in which only `nvlink` is another program.
//!
//! nvcc runs the nvlink beside itself, by the path it was started with and before anything on `PATH`. In a folder of
//! links to a toolkit it therefore finds the nvlink of that folder, and the toolkit stays as it is.
//!
//! In: the words after `install-shadow`, the path of this program. Out: a shadow toolkit and what to say about it.
//! Guaranteed: the folder is built beside its place and renamed, so there is the old state or the new one; nothing that
//! culd did not put there is ever replaced or removed.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use culd_link::Dialect;
use thiserror::Error;

use crate::dialect;
use crate::lines::Outcome;

const HELP: &str = "\
usage: culd install-shadow DIR [--cuda TOOLKIT] [--copy]

Makes DIR a CUDA toolkit of symbolic links to TOOLKIT (default /usr/local/cuda) in which only bin/nvlink is another
program, culd. TOOLKIT is not changed. Run again with the same DIR to follow an updated toolkit or a moved culd.

  --copy   put a copy of culd there instead of a symbolic link
";

/// Tells a shadow toolkit from any other folder.
const MARKER: &str = ".culd-shadow";
const DEFAULT_TOOLKIT: &str = "/usr/local/cuda";

/// Why there is no shadow toolkit.
#[derive(Debug, Error)]
enum ShadowError {
    #[error("install-shadow: {0}; see 'culd install-shadow --help'")]
    Usage(String),
    #[error("'{0}' is no CUDA toolkit: it has neither bin/nvcc nor bin/nvlink")]
    NotAToolkit(PathBuf),
    #[error("'{0}' is a shadow toolkit itself; name the toolkit that it was made of")]
    ShadowOfShadow(PathBuf),
    #[error("'{dir}' is inside the toolkit '{toolkit}'")]
    Inside { dir: PathBuf, toolkit: PathBuf },
    #[error("'{0}' exists and is no shadow toolkit; choose another folder or remove it")]
    Occupied(PathBuf),
    #[error("'{0}' is not from culd; remove it from the shadow toolkit first")]
    Foreign(PathBuf),
    #[error("this program is '{0}', a part of the shadow toolkit; run one that is elsewhere")]
    OwnProgram(PathBuf),
    #[error("Could not {what} '{path}': {error}")]
    Io { what: &'static str, path: PathBuf, error: io::Error },
}

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    dir: PathBuf,
    toolkit: PathBuf,
    copy: bool,
}

/// Does what `arguments`, the words after `install-shadow`, say; `program` is the path of culd. The text is for
/// standard output. After an error nothing has changed.
pub(crate) fn install_shadow(arguments: &[String], program: &Path) -> (String, Outcome) {
    match install(arguments, program) {
        Ok(text) => (text, Outcome::success()),
        Err(error) => (String::new(), Outcome::fatal(error)),
    }
}

fn install(arguments: &[String], program: &Path) -> Result<String, ShadowError> {
    let Some(request) = parse(arguments)? else { return Ok(HELP.to_owned()) };
    let toolkit = open_toolkit(&request.toolkit)?;
    let dir = place(&request.dir, &toolkit)?;
    let program = program.canonicalize().map_err(failed("find", program))?;
    if program.starts_with(&dir) {
        return Err(ShadowError::OwnProgram(program));
    }
    check_old(&dir)?;
    let parent = dir.parent().unwrap_or(Path::new("/"));
    let work = tempfile::Builder::new().prefix(".culd-shadow-").tempdir_in(parent);
    let work = work.map_err(|error| failed("write to", parent)(error.kind().into()))?;
    let fresh = work.path().join("new");
    fill(&fresh, &toolkit, &program, request.copy)?;
    replace(&fresh, &dir, &work.path().join("old"))?;
    Ok(format!(
        "'{dir}' is '{toolkit}' with culd as nvlink. Use it in its place, for example '{dir}/bin/nvcc'.\n",
        dir = dir.display(),
        toolkit = toolkit.display()
    ))
}

/// `None`: help.
fn parse(arguments: &[String]) -> Result<Option<Request>, ShadowError> {
    let usage = |text: String| Err(ShadowError::Usage(text));
    let (mut dir, mut toolkit, mut copy) = (None, None, false);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--copy" => copy = true,
            "--cuda" => match words.next() {
                Some(value) => toolkit = Some(PathBuf::from(value)),
                None => return usage("argument expected after '--cuda'".to_owned()),
            },
            _ => match word.strip_prefix("--cuda=") {
                Some(value) => toolkit = Some(PathBuf::from(value)),
                None if word.starts_with('-') => return usage(format!("unknown option '{word}'")),
                None if dir.is_some() => return usage(format!("unexpected '{word}'")),
                None => dir = Some(PathBuf::from(word)),
            },
        }
    }
    let Some(dir) = dir.filter(|dir| !dir.as_os_str().is_empty()) else {
        return usage("it takes the folder to make".to_owned());
    };
    let toolkit = toolkit.unwrap_or_else(|| DEFAULT_TOOLKIT.into());
    Ok(Some(Request { dir, toolkit, copy }))
}

/// The real path of a toolkit.
fn open_toolkit(path: &Path) -> Result<PathBuf, ShadowError> {
    let toolkit = path.canonicalize().map_err(failed("open toolkit", path))?;
    if is_shadow(&toolkit) {
        return Err(ShadowError::ShadowOfShadow(toolkit));
    }
    let bin = toolkit.join("bin");
    if !["nvcc", "nvlink"].iter().any(|tool| bin.join(tool).is_file()) {
        return Err(ShadowError::NotAToolkit(toolkit));
    }
    Ok(toolkit)
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

/// The release of the toolkit whose shadow has the program at `own`, if its rules are known.
pub(crate) fn release(own: &Path) -> Option<&'static Dialect> {
    let marker = fs::read_to_string(own.parent()?.parent()?.join(MARKER)).ok()?;
    marker.lines().nth(1)?.parse().ok()
}

fn is_shadow(dir: &Path) -> bool {
    dir.join(MARKER).is_file()
}

/// Refuses to replace anything but an empty folder and a shadow toolkit with nothing of the user's in it.
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
    let ours = [dir.join(MARKER), bin.clone(), bin.join("nvlink")];
    let foreign = |path: &PathBuf| !path.is_symlink() && !ours.contains(path);
    match entries.into_iter().chain(inner).find(foreign) {
        Some(path) => Err(ShadowError::Foreign(path)),
        None => Ok(()),
    }
}

/// Makes a complete shadow in the new folder `fresh`.
fn fill(fresh: &Path, toolkit: &Path, program: &Path, copy: bool) -> Result<(), ShadowError> {
    let bin = fresh.join("bin");
    fs::create_dir_all(&bin).map_err(failed("make folder", &bin))?;
    let marker = fresh.join(MARKER);
    let release = dialect::of_toolkit(toolkit).unwrap_or_default();
    fs::write(&marker, format!("{}\n{release}\n", toolkit.display()))
        .map_err(failed("write", &marker))?;
    link_all(toolkit, fresh, "bin")?;
    link_all(&toolkit.join("bin"), &bin, "nvlink")?;
    let nvlink = bin.join("nvlink");
    let made = if copy { fs::copy(program, &nvlink).map(drop) } else { symlink(program, &nvlink) };
    made.map_err(failed("install", program))
}

/// Links in `to` to all entries of `from` but one.
fn link_all(from: &Path, to: &Path, except: &str) -> Result<(), ShadowError> {
    for path in list(from)? {
        if let Some(name) = path.file_name().filter(|name| *name != except) {
            symlink(&path, to.join(name)).map_err(failed("link to", &path))?;
        }
    }
    Ok(())
}

/// Puts `fresh` in the place of `dir`, whose old state goes to `aside`.
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
        let words = [dir, Path::new("--cuda"), toolkit].map(|word| word.display().to_string());
        super::install(&words, program)
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
        assert_eq!(fs::read_link(dir.join("bin/nvcc")).unwrap(), toolkit.join("bin/nvcc"));
        assert_eq!(fs::read_to_string(dir.join("bin/nvlink")).unwrap(), "the program");
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
        assert_eq!(fs::read_link(dir.join("bin/nvlink")).unwrap(), moved);
        assert_eq!(names(world.path()), ["cuda-13.0", "culd-2", "current", "tk"]);
        assert!(link.is_symlink());
    }

    #[test]
    fn a_copy_does_not_need_the_program() {
        let (world, toolkit, program) = world();
        let dir = world.path().join("tk");
        fs::create_dir(&dir).unwrap();
        let words = [format!("--cuda={}", toolkit.display()), "--copy".to_owned()];
        let words = [&[dir.display().to_string()], &words[..]].concat();
        super::install(&words, &program).unwrap();
        fs::remove_file(&program).unwrap();
        assert_eq!(fs::read_to_string(dir.join("bin/nvlink")).unwrap(), "the program");
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
        let words = [dir.display().to_string(), format!("--cuda={}", toolkit.display())];
        // A folder cannot be copied: this fails as the last step, when all links are made.
        let words = [&words[..], &["--copy".to_owned()]].concat();
        fs::remove_file(&program).unwrap();
        fs::create_dir(&program).unwrap();
        let error = super::install(&words, &program).unwrap_err().to_string();
        assert!(error.starts_with("Could not install"), "{error}");
        assert_eq!(names(world.path()), ["cuda-13.0", "culd"]);
    }

    #[test]
    fn words() {
        let parse =
            |words: &[&str]| parse(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        let shadow = parse(&["tk"]).unwrap().unwrap();
        let plain = Request { dir: "tk".into(), toolkit: DEFAULT_TOOLKIT.into(), copy: false };
        assert_eq!(shadow, plain);
        assert_eq!(parse(&["tk", "--help"]).unwrap(), None);
        for words in [&[][..], &[""], &["a", "b"], &["a", "--cuda"], &["a", "--force"]] {
            assert!(matches!(parse(words), Err(ShadowError::Usage(_))), "{words:?}");
        }
    }
}
