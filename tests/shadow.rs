//! `culd install-shadow` with the real program: what it puts there runs, and is nvlink by name.
//!
//! That nvcc and CMake find it there is shown by `cargo xtask e2e`, which needs them.

use culd_testkit::case;
use culd_tests::{Finished, command};
use std::fs;
use std::path::Path;

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");

fn run(program: &Path, name: &str, words: &str, dir: &Path) -> Finished {
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    command(program, name, &words, dir).expect("it runs")
}

/// A folder with a toolkit of two empty tools and the inputs of a case.
fn world(case: &case::Case) -> tempfile::TempDir {
    let world = tempfile::tempdir().expect("a folder");
    let bin = world.path().join("toolkit/bin");
    fs::create_dir_all(&bin).expect("made");
    for tool in ["nvcc", "nvlink"] {
        fs::write(bin.join(tool), "").expect("written");
    }
    for (name, bytes) in case.inputs().expect("inputs") {
        fs::write(world.path().join(name), bytes).expect("written");
    }
    world
}

#[test]
fn the_nvlink_of_a_shadow_is_culd() {
    let case = case::named("headers-and-order/every-section-90").expect("the case");
    for flag in ["", "--copy"] {
        let world = world(&case);
        let words = format!("install-shadow tk --cuda toolkit {flag}");
        let done = run(Path::new(CULD), "culd", &words, world.path());
        assert_eq!((done.status, done.stderr.as_str()), (0, ""));
        assert!(done.stdout.contains("tk/bin/nvcc'"), "{}", done.stdout);
        let nvlink = world.path().join("tk/bin/nvlink");
        assert_eq!(nvlink.is_symlink(), flag.is_empty());

        let words = "-arch=sm_90 a.cubin b.cubin -o out.cubin";
        let done = run(&nvlink, "nvlink", words, world.path());
        assert_eq!((done.status, done.stderr.as_str()), (0, ""));
        let linked = fs::read(world.path().join("out.cubin")).expect("an output");
        let expected = case.expected_output().expect("it is text").expect("the case links");
        assert_eq!(culd_testkit::compare::cubins(&expected, &linked), None);

        let done = run(&nvlink, "nvlink", "-arch=sm_90 missing.cubin -o no", world.path());
        let line = done.stderr.lines().next();
        assert_eq!(line, Some("nvlink fatal   : Could not open input file 'missing.cubin'"));
        assert_eq!(done.status, 1);
    }
}

#[test]
fn errors_are_said_like_those_of_a_link() {
    let world = tempfile::tempdir().expect("a folder");
    let done = run(Path::new(CULD), "culd", "install-shadow tk --cuda gone", world.path());
    assert_eq!(done.status, 1);
    let line = "culd fatal   : Could not open toolkit 'gone': ";
    assert!(done.stderr.starts_with(line), "{}", done.stderr);
    assert_eq!(fs::read_dir(world.path()).expect("listed").count(), 0);
}

#[test]
fn by_the_name_of_nvlink_the_word_is_a_file() {
    let world = tempfile::tempdir().expect("a folder");
    let words = "install-shadow --help";
    let help = run(Path::new(CULD), "nvlink", words, world.path());
    assert!(
        help.stdout.contains("-arch") && !help.stdout.contains("--cuda TOOLKIT"),
        "{}",
        help.stdout
    );
    let own = run(Path::new(CULD), "culd", words, world.path());
    assert!(own.stdout.contains("--cuda TOOLKIT"), "{}", own.stdout);
}
