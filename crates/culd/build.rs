//! Has the program `culd` linked statically where that works: a static program starts in less time
//! (docs/PERFORMANCE.md, start-up).
//!
//! In: the environment of a build script. Out: link arguments for the program `culd`, for nothing
//! else of the package. Guaranteed: there are none unless a small program, made in the same way by
//! the same compiler and linker, is static and runs; so a build never fails for them. No path gets
//! into the program.
//!
//! rustc has a switch for static programs, `-C target-feature=+crt-static`, but it is one for a
//! whole build, in the hands of whoever starts cargo. Without it rustc writes `-Wl,-Bdynamic
//! -lgcc_s -lc` itself. A linker looks for a library in one folder after the other, so a first
//! folder has a script under each of these names, which leads to the archive.

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// `0`: the program stays dynamic.
const SWITCH: &str = "CULD_STATIC";

/// Libraries that rustc names, and the archives in their places.
const LIBRARIES: [(&str, &str); 7] = [
    ("c", "c"),
    ("dl", "dl"),
    // The unwinder.
    ("gcc_s", "gcc_eh"),
    ("m", "m"),
    ("pthread", "pthread"),
    ("rt", "rt"),
    ("util", "util"),
];

/// Needs what culd needs most: threads, and panics that are caught.
const TRIAL: &str = r#"
fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let caught = || std::panic::catch_unwind(|| std::env::args_os().for_each(|_| panic!()));
    let thread = std::thread::spawn(move || caught().is_err());
    assert!(thread.join().unwrap() && std::env::current_exe().is_ok());
}
"#;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed={SWITCH}");
    if !is_wanted() {
        return;
    }
    // Whatever is missing, the program is then linked as usual.
    if let Ok(arguments) = tried() {
        for argument in arguments {
            println!("cargo:rustc-link-arg-bin=culd={argument}");
        }
    }
}

/// True for a release build of the command for this machine, with glibc and nothing said about the
/// kind of program.
fn is_wanted() -> bool {
    let is = |name: &str, value: &str| variable(name).is_ok_and(|has| has == value);
    let says_static = variable("CARGO_CFG_TARGET_FEATURE")
        .is_ok_and(|features| features.split(',').any(|feature| feature == "crt-static"));
    !is(SWITCH, "0")
        && variable("DOCS_RS").is_err()
        && variable("CARGO_FEATURE_COMMAND").is_ok()
        && is("PROFILE", "release")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && (is("CARGO_CFG_TARGET_ARCH", "x86_64") || is("CARGO_CFG_TARGET_ARCH", "aarch64"))
        && variable("HOST") == variable("TARGET")
        && !says_static
}

fn variable(name: &str) -> Result<String, std::env::VarError> {
    std::env::var(name)
}

/// The link arguments of a static program, after a small one has been made with them and has run.
fn tried() -> Result<Vec<String>, Box<dyn Error>> {
    let folder = PathBuf::from(variable("OUT_DIR")?).join("static");
    fs::create_dir_all(&folder)?;
    for (name, archive) in LIBRARIES {
        fs::write(folder.join(format!("lib{name}.so")), format!("INPUT(-l:lib{archive}.a)\n"))?;
    }
    let shown = folder.to_str().ok_or("no text")?;
    let arguments = vec![
        "-static-pie".to_owned(),
        format!("-L{shown}"),
        // The C library refers to the unwinder, and the unwinder to the C library.
        "-Wl,--start-group,-l:libgcc_eh.a,-l:libgcc.a,-l:libc.a,--end-group".to_owned(),
    ];
    let source = folder.join("trial.rs");
    let trial = folder.join("trial");
    fs::write(&source, TRIAL)?;
    let mut rustc = Command::new(variable("RUSTC")?);
    rustc.args(["--crate-name=trial", "--crate-type=bin", "--edition=2021", "--target"]);
    rustc.arg(variable("TARGET")?);
    if let Ok(linker) = variable("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    let flags = variable("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    rustc.args(arguments.iter().map(|argument| format!("-Clink-arg={argument}")));
    rustc.arg("-o").arg(&trial).arg(&source);
    let good =
        runs(&mut rustc)? && is_static(&fs::read(&trial)?) && runs(&mut Command::new(&trial))?;
    let _ = fs::remove_file(&trial);
    if good { Ok(arguments) } else { Err("no static program".into()) }
}

/// Runs a command; true if it succeeds. It prints nothing.
fn runs(command: &mut Command) -> Result<bool, std::io::Error> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command.status()?.success())
}

/// True for an ELF file, of this machine, that asks for no dynamic loader.
fn is_static(program: &[u8]) -> bool {
    const INTERPRETER: [u8; 4] = 3u32.to_le_bytes();
    let number = |at: usize, size: usize| {
        let bytes = program.get(at..at + size)?;
        Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte)))
    };
    let headers = || Some((number(32, 8)?, number(54, 2)?, number(56, 2)?));
    headers().is_some_and(|(first, size, count)| {
        let kind = |header: usize| program.get(first + header * size..)?.get(..4);
        (0..count).all(|header| kind(header).is_some_and(|kind| kind != INTERPRETER))
    })
}
