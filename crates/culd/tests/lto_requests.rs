//! Requests to `culd-lto` itself, as culd sends them.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::io::BufReader;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use culd_text::message;

/// culd waits for each of them.
#[test]
fn each_wanted_output_has_a_reply_without_a_library_too() {
    let (mut own, other) = UnixStream::pair().unwrap();
    // A reply that does not come is an error.
    own.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_culd-lto"))
        .env("CULD_NVJITLINK", "/no/such/library")
        .stdin(OwnedFd::from(other))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut replies = BufReader::new(own.try_clone().unwrap());
    for (kind, expected) in
        [("ptx", 1), ("object", 1), ("image", 1), ("check", 1), ("both", 2), ("nothing", 1)]
    {
        let words = [kind, "--option", "-arch=sm_90", "--input", "ltoir", "a.ltoir", "LTO-IR"];
        message::write(&mut own, &words).unwrap();
        for _ in 0..expected {
            let reply = message::read(&mut replies).unwrap().unwrap();
            let report = String::from_utf8(reply.concat()).unwrap();
            let why = if kind == "nothing" { "usage: " } else { "cannot use '/no/such/library'" };
            assert!(report.starts_with(&format!("failed: {why}")), "{kind}: {report}");
        }
    }
    // There is none left.
    drop(own);
    drop(replies);
    assert!(program.wait().unwrap().success());
}
