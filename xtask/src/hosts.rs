//! `xtask hosts`: the systems beside Linux x86-64 that culd runs on.
//!
//! In: names of systems. Out: their programs, in `target/hosts`; recorded cases and transcripts by
//! the programs that an emulator can run here. Guaranteed: clippy has no warning for each system; a
//! program's headers name its system. A program of macOS, which nothing can run here, starts on an
//! old release, loads the system's libraries only, is signed, and has no path of this machine.

mod nvlink;

use crate::args::Args;
use crate::dist::{paths::Folders, zig};
use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use culd_testkit::reference::mach;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const HELP: &str = "\
usage: cargo xtask hosts [options] [SYSTEM]...
  SYSTEM    aarch64, musl, windows, macos or macos-x86_64 (default all)
  --clippy  no programs, no tests
       cargo xtask hosts nvlink-aarch64
  recorded cases of 13.0 by NVIDIA's nvlink for AArch64, from PyPI, and for x86-64

aarch64: gcc-aarch64-linux-gnu and qemu-user-binfmt. windows: gcc-mingw-w64-x86-64 and wine64. musl
and macOS: zig, which is installed from PyPI. All: 'rustup target add' of the target.";

/// The crates that other systems have: culd-jitlink and culd-python replace files of Linux, and
/// culd-gpu, culd-testkit, culd-tests and xtask are for development.
const CRATES: &[&str] = &[
    "culd-abi",
    "culd-cubin",
    "culd-reloc",
    "culd-fatbin",
    "culd-text",
    "culd-link",
    "culd-report",
    "culd-driver",
    "culd-inspect",
    "culd-lto",
    "culd",
];

/// The programs, without the ending of a system.
const PROGRAMS: [&str; 4] = ["culd", "culd-dump", "culd-diff", "culd-lto"];

/// The test programs for a system whose tests run here as a whole.
const TESTS: &[&str] =
    &["cases", "cli", "api", "relocatable_steps", "many_sections", "builder", "probe"];

/// The source of a library that wine 8 lacks.
const STUB: &str = "testdata/hosts/bcryptprimitives.c";

/// A system.
struct Host {
    name: &'static str,
    target: &'static str,
    /// A C compiler and linker that is not zig.
    linker: Option<&'static str>,
    /// The ending of programs.
    ending: &'static str,
    /// The magic number and the machine in a program's header, and where.
    machine: [(usize, &'static [u8]); 2],
}

const HOSTS: &[Host] = &[
    Host {
        name: "aarch64",
        target: "aarch64-unknown-linux-gnu",
        linker: Some("aarch64-linux-gnu-gcc"),
        ending: "",
        machine: [(0, b"\x7fELF\x02\x01"), (18, &[183, 0])],
    },
    Host {
        name: "musl",
        target: "x86_64-unknown-linux-musl",
        linker: None,
        ending: "",
        machine: [(0, b"\x7fELF\x02\x01"), (18, &[62, 0])],
    },
    Host {
        name: "windows",
        target: "x86_64-pc-windows-gnu",
        linker: Some("x86_64-w64-mingw32-gcc"),
        ending: ".exe",
        // The place of the second header is in the first; see `is_for`.
        machine: [(0, b"MZ"), (PE, b"PE\0\0\x64\x86")],
    },
    Host {
        name: "macos",
        target: "aarch64-apple-darwin",
        linker: None,
        ending: "",
        machine: [(0, &[0xcf, 0xfa, 0xed, 0xfe]), (4, &[12, 0, 0, 1])],
    },
    Host {
        name: "macos-x86_64",
        target: "x86_64-apple-darwin",
        linker: None,
        ending: "",
        machine: [(0, &[0xcf, 0xfa, 0xed, 0xfe]), (4, &[7, 0, 0, 1])],
    },
];

/// The oldest macOS of the programs: what Rust asks for on AArch64.
const OLDEST_MACOS: (u32, u32) = (11, 0);

/// Debian's libraries of AArch64, for programs that qemu runs.
const AARCH64_ROOT: &str = "/usr/aarch64-linux-gnu";

/// Stands for the place of a header that a file names at byte 60.
const PE: usize = usize::MAX;

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    if args.flag("--help") {
        println!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    let clippy_only = args.flag("--clippy");
    let names = args.operands()?;
    if names == [nvlink::NAME] {
        return nvlink::compare();
    }
    let unknown = names.iter().find(|name| !HOSTS.iter().any(|host| host.name == **name));
    if let Some(unknown) = unknown {
        bail!("no system '{unknown}'\n{HELP}");
    }
    for host in HOSTS.iter().filter(|host| names.is_empty() || names.iter().any(|n| n == host.name))
    {
        host.clippy()?;
        if !clippy_only {
            host.build()?;
            host.test()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Cargo's target folder: everyday builds do not wait for these.
fn folder() -> PathBuf {
    workspace::target().join("hosts")
}

impl Host {
    /// `cargo WORD` for this system, with its compiler and linker.
    fn cargo(&self, word: &str) -> Result<Command> {
        let mut cargo = match self.linker {
            Some(linker) => {
                let name = self.target.to_uppercase().replace('-', "_");
                let mut cargo = Command::new("cargo");
                cargo.env(format!("CARGO_TARGET_{name}_LINKER"), linker);
                cargo.current_dir(workspace::root()).env("CARGO_TARGET_DIR", folder());
                cargo
            }
            None => {
                let mut cargo = zig::tool(&zig::install()?, "cargo-zigbuild", &folder())?;
                Folders::find(&folder())?.hide(&mut cargo);
                let (major, minor) = OLDEST_MACOS;
                cargo.env("MACOSX_DEPLOYMENT_TARGET", format!("{major}.{minor}"));
                cargo
            }
        };
        cargo.env("CARGO_INCREMENTAL", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
        cargo.args([word, "--locked", "--target", self.target]);
        Ok(cargo)
    }

    fn clippy(&self) -> Result<()> {
        let mut cargo = self.cargo("clippy")?;
        let crates = CRATES.iter().flat_map(|name| ["-p", name]);
        done(cargo.args(crates).args(["--", "-D", "warnings"]), self.name)
    }

    /// Links the programs, and reads what they are for.
    fn build(&self) -> Result<()> {
        done(self.cargo("build")?.args(["-p", "culd", "--bins"]), self.name)?;
        for name in PROGRAMS {
            let path = self.program(name);
            let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
            ensure!(self.is_for(&bytes), "{} is not for {}", path.display(), self.name);
            if self.name.starts_with("macos") {
                self.check_mac(&path, &bytes).with_context(|| path.display().to_string())?;
            }
        }
        println!("{}: {} programs", self.name, PROGRAMS.len());
        Ok(())
    }

    fn program(&self, name: &str) -> PathBuf {
        folder().join(self.target).join("debug").join(format!("{name}{}", self.ending))
    }

    /// Whether the headers of a program name this system.
    fn is_for(&self, program: &[u8]) -> bool {
        let second = || Some(u32::from_le_bytes(*program.get(60..)?.first_chunk()?) as usize);
        self.machine.iter().all(|&(at, bytes)| {
            let at = if at == PE { second() } else { Some(at) };
            at.and_then(|at| program.get(at..)).is_some_and(|rest| rest.starts_with(bytes))
        })
    }

    /// Reads what the headers of a program of macOS ask for.
    fn check_mac(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let program = mach::program(bytes)?;
        let (major, minor) = program.oldest;
        println!(
            "{}: {}: {}, macOS {major}.{minor}, signed {}, loads {}",
            self.name,
            path.display(),
            program.arch,
            program.signed,
            program.libraries.join(" ")
        );
        ensure!(self.target.starts_with(program.arch), "for {}", program.arch);
        ensure!(program.oldest <= OLDEST_MACOS, "needs macOS {major}.{minor}");
        ensure!(program.signed || program.arch != "aarch64", "has no signature");
        let system = |library: &String| {
            library.starts_with("/usr/lib/") || library.starts_with("/System/Library/")
        };
        let other = program.libraries.iter().find(|library| !system(library));
        ensure!(other.is_none(), "loads {other:?}");
        ensure!(!program.libraries.is_empty() && program.search.is_empty(), "{program:?}");
        Folders::find(&folder())?.check(path)
    }

    /// Runs recorded cases and transcripts, by an emulator where one is needed and there.
    fn test(&self) -> Result<()> {
        let mut tests = match self.name {
            "aarch64" | "musl" => {
                let mut tests = self.cargo("test")?;
                tests.env("QEMU_LD_PREFIX", AARCH64_ROOT);
                tests.args(TESTS.iter().flat_map(|name| ["--test", name]));
                tests
            }
            "windows" => {
                // wine 8 lacks a library that Rust's standard library imports: [`STUB`].
                let mut stub = Command::new(self.linker.context("a compiler")?);
                stub.arg("-shared").arg(workspace::root().join(STUB)).arg("-o");
                done(
                    stub.arg(self.program("x").with_file_name("bcryptprimitives.dll")),
                    self.name,
                )?;
                let wine = Wine::start(&folder().join("wine"))?;
                let mut tests = Command::new("cargo");
                tests.current_dir(workspace::root()).args(["test", "--locked"]);
                tests.env("CARGO_INCREMENTAL", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
                tests.env("UNDER_TEST", self.program("culd")).env(PREFIX, &wine.prefix);
                tests.args(["--test", "cases", "--test", "cli"]);
                return done(tests.args(["--workspace", "--no-fail-fast"]), self.name);
            }
            _ => return Ok(()),
        };
        done(tests.args(["--workspace", "--no-fail-fast"]), self.name)
    }
}

/// The variable that names wine's folder.
const PREFIX: &str = "WINEPREFIX";

/// A server of wine that stays until the value is dropped.
///
/// wine's server ends three seconds after its last program, also if a new one is just connecting to
/// it: wine then ends with status 1 before the program has started. Of 4,000 programs on two busy
/// cores that happened to 3, while the server was started 200 times. So tests start the server
/// themselves, and in a folder of its own: it is no one else's server that ends with the tests.
struct Wine {
    prefix: PathBuf,
}

impl Wine {
    fn start(prefix: &Path) -> Result<Self> {
        fs::create_dir_all(prefix)?;
        let wine = Wine { prefix: prefix.to_owned() };
        done(wine.command("wineserver").arg("-p"), "wine")?;
        // The first program takes seconds: it makes the folder.
        done(wine.command("wine").args(["cmd", "/c", "exit"]), "wine")?;
        Ok(wine)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env(PREFIX, &self.prefix).env("WINEDEBUG", "-all");
        command
    }
}

impl Drop for Wine {
    fn drop(&mut self) {
        // The tests have said all there is to say.
        let _ = self.command("wineserver").arg("-k").status();
    }
}

/// Runs the command, whose words are printed.
fn done(command: &mut Command, host: &str) -> Result<()> {
    println!("{host}: {:?} {:?}", Path::new(command.get_program()), command.get_args());
    let status = command.status().with_context(|| format!("{:?}", command.get_program()))?;
    ensure!(status.success(), "{host}: {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_name_the_system() {
        let mut windows = vec![0; 80];
        windows[..2].copy_from_slice(b"MZ");
        windows[60] = 70;
        windows[70..76].copy_from_slice(b"PE\0\0\x64\x86");
        let elf = [&b"\x7fELF\x02\x01"[..], &[0; 12], &[183, 0]].concat();
        let mac = [0xcf, 0xfa, 0xed, 0xfe, 12, 0, 0, 1].to_vec();
        for (program, name) in [(windows, "windows"), (elf, "aarch64"), (mac, "macos")] {
            for end in 0..=program.len() {
                let of: Vec<&str> = HOSTS
                    .iter()
                    .filter(|host| host.is_for(&program[..end]))
                    .map(|h| h.name)
                    .collect();
                assert!(of.is_empty() || of == [name], "{end} bytes: {of:?}");
            }
            assert!(HOSTS.iter().any(|host| host.name == name && host.is_for(&program)));
        }
    }
}
