//! The build script of package `culd`, which has the command linked statically where that works.
//!
//! In: the script as a program, with the environment that cargo gives it, and linkers that cannot
//! do what it needs. Out: no report, or link arguments that should not or should be there.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use culd_tests::root;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The script, built, and an empty folder for what it writes.
struct Script {
    folder: TempDir,
    host: String,
}

impl Script {
    fn build() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = root().join("crates/culd/build.rs");
        let mut build = Command::new(rustc());
        build.arg("--edition=2024").arg(source).arg("-o").arg(folder.path().join("script"));
        assert!(build.status().unwrap().success());
        let version = Command::new(rustc()).arg("-vV").output().unwrap();
        let version = String::from_utf8(version.stdout).unwrap();
        let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
        Script { host: host.to_owned(), folder }
    }

    /// The link arguments that the script gives for a release build of the command, with other
    /// values of some variables.
    fn arguments(&self, others: &[(&str, &str)]) -> Vec<String> {
        let environment = if self.host.ends_with("musl") { "musl" } else { "gnu" };
        let mut script = Command::new(self.folder.path().join("script"));
        script.env_remove("CULD_STATIC").env_remove("DOCS_RS").env("OUT_DIR", self.folder.path());
        script.env("RUSTC", rustc()).env("HOST", &self.host).env("TARGET", &self.host);
        script.env("PROFILE", "release").env("CARGO_FEATURE_COMMAND", "1");
        script.env("CARGO_CFG_TARGET_OS", "linux").env("CARGO_CFG_TARGET_ENV", environment);
        script.env("CARGO_CFG_TARGET_ARCH", std::env::consts::ARCH);
        script.env("CARGO_CFG_TARGET_FEATURE", "fxsr,sse,sse2").env("CARGO_ENCODED_RUSTFLAGS", "");
        let output = script.envs(others.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8(output.stdout).unwrap();
        let argument =
            |line: &str| Some(line.strip_prefix("cargo:rustc-link-arg-bin=")?.to_owned());
        lines.lines().filter_map(argument).collect()
    }

    /// A linker that runs the line `script`.
    fn linker(&self, script: &str) -> String {
        let path = self.folder.path().join("linker");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

fn rustc() -> PathBuf {
    let beside = Path::new(env!("CARGO")).with_file_name("rustc");
    if beside.exists() { beside } else { "rustc".into() }
}

/// Whether the C compiler has all that a static program needs.
fn has_archives() -> bool {
    ["libc.a", "libgcc_eh.a", "rcrt1.o"].iter().all(|name| {
        let found = Command::new("cc").arg(format!("-print-file-name={name}")).output().unwrap();
        Path::new(String::from_utf8(found.stdout).unwrap().trim()).is_absolute()
    })
}

#[test]
fn the_command_is_static_where_that_works() {
    let script = Script::build();
    let arguments = script.arguments(&[]);
    if script.host.ends_with("gnu") && has_archives() {
        assert_eq!(arguments.first().map(String::as_str), Some("culd=-static-pie"));
        assert!(arguments.iter().all(|argument| argument.starts_with("culd=-")), "{arguments:?}");
    } else {
        assert_eq!(arguments, [""; 0]);
    }
}

#[test]
fn the_command_stays_as_it_is_without_a_static_program() {
    let script = Script::build();
    let refuses = r#"case "$*" in *-static-pie*) exit 1 ;; esac; exec cc "$@""#;
    let ignores = r#"for w; do shift; case $w in -static-pie | -L*static | *start-group*) ;;
        *) set -- "$@" "$w" ;; esac; done; exec cc "$@""#;
    for line in [refuses, ignores, "exit 1", "exit 0"] {
        let linker = script.linker(line);
        assert_eq!(script.arguments(&[("RUSTC_LINKER", &linker)]), [""; 0], "{line}");
    }
    let others = [
        ("CULD_STATIC", "0"),
        ("DOCS_RS", "1"),
        ("PROFILE", "debug"),
        ("TARGET", "aarch64-unknown-linux-musl"),
        ("HOST", "riscv64gc-unknown-linux-gnu"),
        ("CARGO_CFG_TARGET_OS", "macos"),
        ("CARGO_CFG_TARGET_ENV", "musl"),
        ("CARGO_CFG_TARGET_ARCH", "riscv64"),
        ("CARGO_CFG_TARGET_FEATURE", "crt-static,fxsr"),
        ("CARGO_ENCODED_RUSTFLAGS", "-Cno-such-flag"),
        ("RUSTC", "/nowhere/rustc"),
        ("OUT_DIR", "/dev/null"),
    ];
    for other in others {
        assert_eq!(script.arguments(&[other]), [""; 0], "{other:?}");
    }
}
