//! `xtask dist`: puts everything that a user installs into one folder.
//!
//! In: the source tree. Out: `target/dist` with `bin`, `lib`, `include` and `share`, and packages
//! of these in `packages`. Guaranteed: everything is built from this tree. The linker is a static
//! program, all else runs with an old glibc ([`zig`]). The shared library exports NVIDIA's names,
//! according to readelf. No file has a path of this machine ([`paths`]). All compiled crates are
//! listed ([`bill`]), with the texts of their licences ([`notices`]).

mod bill;
mod notices;
mod packages;
pub(crate) mod paths;
mod wheel;
pub(crate) mod zig;

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
use zig::OldGlibc;

const HELP: &str = "\
usage: cargo xtask dist [options]
  --to DIR       the folder, which is made anew (default <target>/dist; for another machine <target>/dist-ARCH)
  --wheel        the Python wheel and what is in it, but no other package
  --pack         packages of the folder as it is: nothing is built, and there is no new wheel
  --arch ARCH    x86_64 or aarch64 (default this machine's): for another one, Debian's cross compiler
                 (gcc-aarch64-linux-gnu) and qemu-user are needed";

/// The linker, which `cargo static` builds: a static program starts in half the time, and runs on
/// any Linux of its architecture.
const LINKER: &str = "culd";
/// The other programs. `culd-lto` loads NVIDIA's library and cannot be static.
const PROGRAMS: [&str; 3] = ["culd-dump", "culd-diff", "culd-lto"];
/// The packages of all of it.
const SHIPPED: &[&str] = &["-p=culd", "-p=culd-jitlink", "-p=culd-jitlink12", "-p=culd-python"];
/// The bill of materials.
const BILL: &str = "culd.cdx.json";
/// The texts of the crates' licences.
const NOTICES: &str = "THIRD-PARTY.txt";
/// The shared libraries: the archive that is built, the crate, as installed, and the folder of the
/// crate. Programs are linked with the first.
const LIBRARIES: [(&str, &str, &str, &str); 2] = [
    ("libnvJitLink.a", "culd-jitlink", "libnvJitLink.so.13", "crates/jitlink"),
    ("libnvJitLink12.a", "culd-jitlink12", "libnvJitLink.so.12", "crates/jitlink12"),
];
const LINK: &str = "libnvJitLink.so";
/// Shell, folder, name.
const COMPLETIONS: &[(&str, &str, &str)] = &[
    ("bash", "share/bash-completion/completions", "culd"),
    ("zsh", "share/zsh/site-functions", "_culd"),
    ("fish", "share/fish/vendor_completions.d", "culd.fish"),
];
/// Pages that explain the package.
const PAGES: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
];

/// A full release build takes minutes on a small machine.
const LIMIT: Duration = Duration::from_secs(1800);

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    if args.flag("--help") {
        println!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    let named = args.option::<PathBuf>("--to")?;
    let wheel_only = args.flag("--wheel");
    let pack_only = args.flag("--pack");
    let machine = std::env::consts::ARCH;
    let arch = args.option("--arch")?.unwrap_or_else(|| machine.to_owned());
    let name = if arch == machine { "dist".to_owned() } else { format!("dist-{arch}") };
    // Some tools run in other folders.
    let dist = std::path::absolute(named.unwrap_or_else(|| workspace::target().join(name)))?;
    args.finish()?;
    if pack_only {
        packages::make(&dist, &arch)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Other flags give other files with the same names; the files of everyday builds stay.
    let built = workspace::target().join("dist-build");
    let folders = Folders::find(&built)?;
    let cargo = || {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(workspace::root()).env("CARGO_TARGET_DIR", &built);
        folders.hide(&mut cargo);
        cargo
    };
    let zig = OldGlibc::install(&arch, &built)?;
    let tree = said(cargo().args(bill::TREE).args(["--target", &zig.target()]).args(SHIPPED))?;
    let lock = fs::read_to_string(workspace::root().join("Cargo.lock"))?;
    let bill = bill::text(&tree, &lock)?;
    let metadata =
        said(cargo().args(notices::METADATA).args(["--filter-platform", &zig.target()]))?;
    let notices = notices::text(&tree, &metadata)?;
    let mut linker = cargo();
    if arch != std::env::consts::ARCH {
        let target = zig.target();
        let variable = target.to_uppercase().replace('-', "_");
        linker.env(format!("CARGO_TARGET_{variable}_LINKER"), format!("{arch}-linux-gnu-gcc"));
        linker.env("CARGO_BUILD_TARGET", target);
    }
    said(linker.arg("static"))?;
    said(
        zig.cargo("build", &folders)?
            .args(["-p", "culd"])
            .args(PROGRAMS.map(|name| ["--bin", name]).concat()),
    )?;
    for (_, name, _, _) in LIBRARIES {
        let mut rustc = zig.cargo("rustc", &folders)?;
        said(rustc.args(["-p", name, "--lib", "--crate-type", "staticlib"]))?;
    }
    if dist.exists() {
        fs::remove_dir_all(&dist).with_context(|| dist.display().to_string())?;
    }
    let dist = Dist { folder: dist, built, zig, folders };
    dist.programs()?;
    dist.shared_libraries()?;
    dist.pages(&bill, &notices)?;
    dist.wheel()?;
    if !wheel_only {
        packages::make(&dist.folder, &dist.zig.arch)?;
    }
    dist.list(&dist.folder.clone())?;
    Ok(ExitCode::SUCCESS)
}

struct Dist {
    folder: PathBuf,
    /// Cargo's target folder.
    built: PathBuf,
    zig: OldGlibc,
    folders: Folders,
}

impl Dist {
    /// A folder of it, made.
    fn at(&self, folder: &str) -> Result<PathBuf> {
        let path = self.folder.join(folder);
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// True if the files are for another machine than this one.
    fn is_foreign(&self) -> bool {
        self.zig.arch != std::env::consts::ARCH
    }

    /// The command that runs a program of the package on this machine.
    fn runs(&self, program: &Path) -> Command {
        if !self.is_foreign() {
            return Command::new(program);
        }
        let arch = &self.zig.arch;
        let mut emulator = Command::new(format!("qemu-{arch}"));
        emulator.arg("-L").arg(format!("/usr/{arch}-linux-gnu")).arg(program);
        emulator
    }

    fn programs(&self) -> Result<()> {
        let folders = &self.folders;
        for program in PROGRAMS {
            let to = self.at("bin")?.join(program);
            fs::copy(self.zig.file(program), &to)?;
            folders.check(&to)?;
            zig::check_glibc(&to)?;
        }
        let culd = self.at("bin")?.join(LINKER);
        let own = if self.is_foreign() { self.zig.target() } else { String::new() };
        fs::copy(self.built.join(own).join("static").join(LINKER), &culd)?;
        folders.check(&culd)?;
        let needs = readers::needed(&culd)?;
        ensure!(needs.is_empty(), "{} needs {}", culd.display(), needs.join(", "));
        let text = |arguments: &[&str]| said(self.runs(&culd).args(arguments));
        let manual = self.at("share/man/man1")?;
        fs::write(manual.join("culd.1"), text(&["man"])?)?;
        for program in PROGRAMS {
            let help = said(self.runs(&self.folder.join("bin").join(program)).arg("--help"))?;
            fs::write(manual.join(format!("{program}.1")), man_page(program, &help))?;
        }
        for (shell, folder, name) in COMPLETIONS {
            fs::write(self.at(folder)?.join(name), text(&["completions", shell])?)?;
        }
        Ok(())
    }

    fn shared_libraries(&self) -> Result<()> {
        for (archive, _, name, source) in LIBRARIES {
            let library = self.at("lib")?.join(name);
            let rows = exports(source)?;
            let functions: Vec<String> = rows.iter().filter_map(|row| function(row)).collect();
            let archive = self.zig.file(archive);
            self.zig.shared_library(&archive, (name, &functions), &library, &self.folders)?;
            self.folders.check(&library)?;
            check_names(&library, name, &rows)?;
        }
        std::os::unix::fs::symlink(LIBRARIES[0].2, self.at("lib")?.join(LINK))?;
        let source = workspace::root().join("crates/jitlink");
        fs::copy(source.join("include/nvJitLink.h"), self.at("include")?.join("nvJitLink.h"))?;
        let pc =
            // The folder of the file itself: the package can lie anywhere.
            "prefix=${pcfiledir}/../..\nlibdir=${prefix}/lib\nincludedir=${prefix}/include\n\n\
             Name: nvjitlink\nDescription: culd's libnvJitLink: links device code at run time\n\
             Version: 13.0\nLibs: -L${libdir} -lnvJitLink\nCflags: -I${includedir}\n";
        fs::write(self.at("lib/pkgconfig")?.join("nvjitlink.pc"), pc)?;
        Ok(())
    }

    fn pages(&self, bill: &str, notices: &str) -> Result<()> {
        let folder = self.at("share/doc/culd")?;
        fs::write(folder.join(BILL), bill)?;
        fs::write(folder.join(NOTICES), notices)?;
        for page in PAGES {
            fs::copy(workspace::root().join(page), folder.join(page))?;
        }
        // README's links lead to them.
        for pages in ["docs", "examples"] {
            workspace::keep_tree(&workspace::root().join(pages), &folder.join(pages))?;
        }
        Ok(())
    }

    fn wheel(&self) -> Result<()> {
        let files = |folder: &str, names: Vec<&str>| {
            let folder = self.folder.join(folder);
            names.into_iter().map(|name| folder.join(name)).collect::<Vec<_>>()
        };
        let programs = files("bin", PROGRAMS.into_iter().chain([LINKER]).collect());
        let libraries = files("lib", LIBRARIES.map(|library| library.2).to_vec());
        let pages = self.at("share/doc/culd")?;
        let files = (programs.as_slice(), libraries.as_slice());
        wheel::make(&self.zig, &self.folders, files, &pages, &self.at("packages")?)?;
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

/// The rows of the list of a library's functions; `source` is the folder of its crate.
fn exports(source: &str) -> Result<Vec<String>> {
    let list = workspace::root().join(source).join("exports.txt");
    let list = fs::read_to_string(&list).with_context(|| list.display().to_string())?;
    // GNU ld makes a symbol of the version node, too, zig's linker does not. Nothing refers to it.
    Ok(list.lines().filter(|row| row.starts_with("FUNC ")).map(str::to_owned).collect())
}

/// The name in a row, without type and version.
fn function(row: &str) -> Option<String> {
    let name = row.strip_prefix("FUNC GLOBAL ")?;
    Some(name.split('@').next()?.to_owned())
}

/// Checks names of the library and its functions.
fn check_names(library: &Path, name: &str, expected: &[String]) -> Result<()> {
    let found = readers::exports(library)?;
    ensure!(found == expected, "{} exports:\n{}", library.display(), found.join("\n"));
    let found = readers::soname(library)?;
    ensure!(found == name, "{}: is called {found}", library.display());
    Ok(())
}

/// A manual page of the text that a program prints about itself.
fn man_page(program: &str, help: &str) -> String {
    let escaped = help.replace('\\', "\\e").replace('-', "\\-");
    // A line that begins with a dot would be a request.
    let lines: String = escaped.lines().map(|line| format!("\\&{line}\n")).collect();
    let name = program.replace('-', "\\-");
    format!(
        ".TH {} 1 \"\" \"culd {}\"\n.SH NAME\n{name} \\- a program of the CUDA device linker culd\n\
         .SH DESCRIPTION\n.nf\n{lines}.fi\n.SH SEE ALSO\n.BR culd (1)\n",
        program.to_uppercase(),
        env!("CARGO_PKG_VERSION"),
    )
}

/// The output of a command.
fn said(command: &mut Command) -> Result<String> {
    let run = process::run(command, LIMIT).with_context(|| format!("{command:?}"))?;
    ensure!(run.status.success(), "{command:?}: {}", run.stderr_text());
    Ok(String::from_utf8_lossy(&run.stdout).into_owned())
}
