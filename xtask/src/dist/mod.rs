//! `xtask dist`: puts everything that a user installs into one folder.
//!
//! In: the source tree. Out: `target/dist` with `bin`, `lib`, `include` and `share`. Guaranteed:
//! everything is built from this tree. The linker is a static program. The shared library exports
//! NVIDIA's names, according to readelf. No file has a path of this machine except the prefix
//! ([`paths`]). All compiled crates are listed ([`bill`]).

mod bill;
mod paths;

use crate::args::Args;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use culd_testkit::reference::oracle::process;
use culd_testkit::reference::readers;
use paths::Folders;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

const HELP: &str = "\
usage: cargo xtask dist [options]
  --to DIR       the folder (default <target>/dist), which is made anew
  --prefix DIR   where it will lie, for the pkg-config file (default /usr/local)";

/// The linker, which `cargo static` builds: a static program starts in half the time, and runs on
/// any Linux of its architecture.
const LINKER: &str = "culd";
/// The other programs. `culd-lto` loads NVIDIA's library and cannot be static.
const PROGRAMS: &[&str] = &["culd-dump", "culd-diff", "culd-lto"];
/// The packages of one build for all of them.
const PACKAGES: &[&str] = &["-p", "culd-inspect", "-p", "culd-lto"];
/// The library has the linker's profile: it is for short links, too.
const LIBRARY_BUILD: &[&str] =
    &["build", "--profile", "static", "-p", "culd-jitlink", "-p", "culd-jitlink12"];
/// The packages of all of it.
const SHIPPED: &[&str] =
    &["-p=culd", "-p=culd-inspect", "-p=culd-lto", "-p=culd-jitlink", "-p=culd-jitlink12"];
/// The bill of materials.
const BILL: &str = "culd.cdx.json";
/// The shared libraries: as built, as installed, and the folder of the crate. Programs are linked
/// with the first.
const LIBRARIES: [(&str, &str, &str); 2] = [
    ("libnvJitLink.so", "libnvJitLink.so.13", "crates/jitlink"),
    ("libnvJitLink12.so", "libnvJitLink.so.12", "crates/jitlink12"),
];
const LINK: &str = "libnvJitLink.so";
/// Shell, folder, name.
const COMPLETIONS: &[(&str, &str, &str)] = &[
    ("bash", "share/bash-completion/completions", "culd"),
    ("zsh", "share/zsh/site-functions", "_culd"),
    ("fish", "share/fish/vendor_completions.d", "culd.fish"),
];
/// Pages that explain the package.
const PAGES: &[&str] = &["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// A full release build takes minutes on a small machine.
const LIMIT: Duration = Duration::from_secs(1800);

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    if args.flag("--help") {
        println!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    let named = args.option::<PathBuf>("--to")?;
    let dist = named.unwrap_or_else(|| workspace::target().join("dist"));
    let prefix = args.option("--prefix")?.unwrap_or_else(|| "/usr/local".to_owned());
    args.finish()?;
    // Other flags give other files with the same names; the files of everyday builds stay.
    let built = workspace::target().join("dist-build");
    let folders = Folders::find(&built)?;
    let cargo = || {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(workspace::root()).env("CARGO_TARGET_DIR", &built);
        folders.hide(&mut cargo);
        cargo
    };
    let tree = said(cargo().args(bill::TREE).args(SHIPPED))?;
    let lock = fs::read_to_string(workspace::root().join("Cargo.lock"))?;
    let bill = bill::text(&tree, &lock)?;
    said(cargo().args(["build", "--release"]).args(PACKAGES))?;
    said(cargo().arg("static"))?;
    said(cargo().args(LIBRARY_BUILD))?;
    if dist.exists() {
        fs::remove_dir_all(&dist).with_context(|| dist.display().to_string())?;
    }
    let dist = Dist { folder: dist, built };
    dist.programs(&folders)?;
    dist.shared_library(&prefix, &folders)?;
    dist.pages(&bill)?;
    dist.list(&dist.folder.clone())?;
    Ok(ExitCode::SUCCESS)
}

struct Dist {
    folder: PathBuf,
    /// Cargo's target folder.
    built: PathBuf,
}

impl Dist {
    /// A folder of it, made.
    fn at(&self, folder: &str) -> Result<PathBuf> {
        let path = self.folder.join(folder);
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    fn programs(&self, folders: &Folders) -> Result<()> {
        for program in PROGRAMS {
            let to = self.at("bin")?.join(program);
            fs::copy(self.built.join("release").join(program), &to)?;
            folders.check(&to)?;
        }
        let culd = self.at("bin")?.join(LINKER);
        fs::copy(self.built.join("static").join(LINKER), &culd)?;
        folders.check(&culd)?;
        let needs = readers::needed(&culd)?;
        ensure!(needs.is_empty(), "{} needs {}", culd.display(), needs.join(", "));
        let text = |arguments: &[&str]| said(Command::new(&culd).args(arguments));
        fs::write(self.at("share/man/man1")?.join("culd.1"), text(&["man"])?)?;
        for (shell, folder, name) in COMPLETIONS {
            fs::write(self.at(folder)?.join(name), text(&["completions", shell])?)?;
        }
        Ok(())
    }

    fn shared_library(&self, prefix: &str, folders: &Folders) -> Result<()> {
        for (built, name, source) in LIBRARIES {
            let library = self.at("lib")?.join(name);
            fs::copy(self.built.join("static").join(built), &library)?;
            folders.check(&library)?;
            check_names(&library, name, source)?;
        }
        std::os::unix::fs::symlink(LIBRARIES[0].1, self.at("lib")?.join(LINK))?;
        let source = workspace::root().join("crates/jitlink");
        fs::copy(source.join("include/nvJitLink.h"), self.at("include")?.join("nvJitLink.h"))?;
        let pc = format!(
            "prefix={prefix}\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\n\
             Name: nvjitlink\nDescription: culd's libnvJitLink: links device code at run time\n\
             Version: 13.0\nLibs: -L${{libdir}} -lnvJitLink\nCflags: -I${{includedir}}\n"
        );
        fs::write(self.at("lib/pkgconfig")?.join("nvjitlink.pc"), pc)?;
        Ok(())
    }

    fn pages(&self, bill: &str) -> Result<()> {
        let folder = self.at("share/doc/culd")?;
        fs::write(folder.join(BILL), bill)?;
        for page in PAGES {
            fs::copy(workspace::root().join(page), folder.join(page))?;
        }
        fs::copy(workspace::root().join("docs/JITLINK.md"), folder.join("JITLINK.md"))?;
        Ok(())
    }

    /// Prints the files.
    fn list(&self, folder: &Path) -> Result<()> {
        let mut entries: Vec<PathBuf> =
            fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        entries.sort();
        for path in entries {
            if path.is_dir() {
                self.list(&path)?;
            } else {
                let size = fs::symlink_metadata(&path)?.len();
                println!("{size:>9}  {}", path.display());
            }
        }
        Ok(())
    }
}

/// Checks names of the library and its functions; `source` is the folder of its crate.
fn check_names(library: &Path, name: &str, source: &str) -> Result<()> {
    let list = workspace::root().join(source).join("exports.txt");
    let list = fs::read_to_string(&list).with_context(|| list.display().to_string())?;
    let found = readers::exports(library)?;
    let expected: Vec<&str> = list.lines().collect();
    ensure!(found == expected, "{} exports:\n{}", library.display(), found.join("\n"));
    let found = readers::soname(library)?;
    ensure!(found == name, "{}: is called {found}", library.display());
    Ok(())
}

/// The output of a command.
fn said(command: &mut Command) -> Result<String> {
    let run = process::run(command, LIMIT).with_context(|| format!("{command:?}"))?;
    ensure!(run.status.success(), "{command:?}: {}", run.stderr_text());
    Ok(String::from_utf8_lossy(&run.stdout).into_owned())
}
