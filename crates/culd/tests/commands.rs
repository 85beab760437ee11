//! `culd-dump` and `culd-diff`: exit status, one-line errors, closed pipes.

use std::path::Path;
use std::process::{Command, Output, Stdio};

mod common;

use common::{data, path};

fn dump(arguments: &[&str], file: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_culd-dump"));
    command.args(arguments).arg(file).output().unwrap()
}

fn diff(arguments: &[&str], a: &Path, b: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_culd-diff"));
    command.args(arguments).arg(a).arg(b).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn dump_prints_the_text_form_or_a_part_of_it() {
    let file = path("linked.90.cubin");
    let whole = dump(&[], &file);
    assert_eq!(whole.status.code(), Some(0));
    assert_eq!(whole.stdout, data("linked.90.txt"));

    let one = dump(&["--only", ".nv.callgraph"], &file);
    assert!(text(&one.stdout).starts_with("section .nv.callgraph nv_callgraph align=4\n"));
    assert_eq!(text(&one.stdout).matches("section ").count(), 1);

    let summary = dump(&["--summary"], &file);
    assert!(text(&summary.stdout).contains("symbol=kernel size=0x580\nsection"));
    assert!(summary.stdout.len() < whole.stdout.len());
}

#[test]
fn dump_lists_interfaces() {
    let listed = dump(&["--abi"], &path("main.90.cubin"));
    let main = data("main.90.cubin");
    let view = culd_inspect::view::View::parse(&main).unwrap();
    assert_eq!(text(&listed.stdout), culd_inspect::abi::describe(&view));
}

#[test]
fn the_status_of_diff_says_whether_files_differ() {
    let (a, b) = (path("linked.90.cubin"), path("reversed.90.cubin"));
    let same = diff(&[], &a, &a);
    assert_eq!((same.status.code(), text(&same.stdout)), (Some(0), ""));
    let different = diff(&["--limit", "1"], &a, &b);
    assert_eq!(different.status.code(), Some(1));
    assert!(text(&different.stdout).contains(" more\n"));
}

#[test]
fn names_of_any_bytes_are_read_and_printed_escaped() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = std::env::temp_dir().join(format!("culd-inspect-names-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(OsStr::from_bytes(b"caf\xe9\x1b[2J\n.cubin"));
    let shown = "/caf\\xe9\\x1b[2J\\n.cubin: ";
    let good = data("linked.90.cubin");
    std::fs::write(&file, &good).unwrap();
    assert_eq!(dump(&[], &file).stdout, data("linked.90.txt"));
    assert_eq!(diff(&[], &file, &file).status.code(), Some(0));
    std::fs::write(&file, &good[..100]).unwrap();
    for output in [dump(&[], &file), diff(&[], &path("linked.90.cubin"), &file)] {
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(shown), "{said}");
        assert_eq!(said.lines().count(), 1);
    }
    std::fs::remove_dir_all(folder).unwrap();
    let endless = dump(&[], Path::new("/dev/zero"));
    assert_eq!(text(&endless.stderr), "culd-dump: /dev/zero: file too large\n");
}

#[test]
fn trouble_is_one_line_and_status_2() {
    let folder = std::env::temp_dir().join(format!("culd-inspect-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let good = data("linked.90.cubin");
    let mut bad_link = good.clone();
    // e_shoff
    bad_link[0x2a] = 0xff;
    let cases: [(&str, &[u8]); 4] = [
        ("empty", b""),
        ("text", b"this is no ELF file, but it is long enough to hold the header of an ELF file"),
        ("short", &good[..good.len() / 2]),
        ("far", &bad_link),
    ];
    for (name, bytes) in cases {
        let file = folder.join(name);
        std::fs::write(&file, bytes).unwrap();
        for output in [dump(&[], &file), diff(&[], &file, &path("linked.90.cubin"))] {
            assert_eq!(output.status.code(), Some(2), "{name}");
            let error = text(&output.stderr);
            assert_eq!(error.lines().count(), 1, "{name}: {error}");
            assert!(error.contains(name) && error.contains("offset"), "{name}: {error}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();

    let missing = dump(&[], &path("no-such-file"));
    assert_eq!(missing.status.code(), Some(2));
    assert_eq!(dump(&["--only", ".nope"], &path("linked.90.cubin")).status.code(), Some(2));
    assert_eq!(dump(&["--nope"], &path("linked.90.cubin")).status.code(), Some(2));
}

#[test]
fn a_closed_pipe_is_no_trouble() {
    for program in [env!("CARGO_BIN_EXE_culd-dump"), env!("CARGO_BIN_EXE_culd-diff")] {
        let mut command = Command::new(program);
        command.arg(path("linked.90.cubin"));
        if program.contains("diff") {
            command.args(["--limit", "100000"]).arg(path("linked.100.cubin"));
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_ne!(output.status.code(), None, "{program} was ended by a signal");
        assert_ne!(output.status.code(), Some(101), "{program}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "{program}");
    }
}
