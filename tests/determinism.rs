//! The same inputs give the same bytes: with any number of threads, in any folder, in every run.
//!
//! In: many copies of one recorded module under other names, so that the linker uses its threads,
//! and small recorded cases. Out: no report, or the first byte that differs.

use culd_link::LinkOutcome;
use culd_testkit::fixtures::case;
use culd_testkit::reference::compare;
use culd_tests::{PROGRAM, command, finish, lines, link, link_options};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");
/// Names in the module: its own, and that of the module that it calls.
const OWN: &[u8] = b"QSELFxx";
const NEXT: &[u8] = b"QNEXTxx";
/// Inputs, relocations and output are each above the linker's threshold (4 MiB).
const COPIES: usize = 500;

type NamedFiles = Vec<(String, Vec<u8>)>;

/// `copies` modules that each call the next, and the module that the last one calls.
fn chain(name: &str, copies: usize) -> NamedFiles {
    let mut inputs = case::named(name).and_then(|case| case.inputs()).expect("the recorded case");
    let last = inputs.pop().expect("the end of the chain");
    let module = inputs.pop().expect("a module").1;
    let mut chain: NamedFiles = (0..copies)
        .map(|index| {
            let mut bytes = module.clone();
            rename(&mut bytes, OWN, &label(index));
            if index + 1 < copies {
                rename(&mut bytes, NEXT, &label(index + 1));
            }
            (format!("m{index}.cubin"), bytes)
        })
        .collect();
    chain.push(last);
    chain
}

/// A name of the same length as those in the module.
fn label(index: usize) -> Vec<u8> {
    format!("M{index:06}").into_bytes()
}

fn rename(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    let mut at = 0;
    while at + from.len() <= bytes.len() {
        if &bytes[at..at + from.len()] == from {
            bytes[at..at + from.len()].copy_from_slice(to);
        }
        at += 1;
    }
}

fn image(outcome: LinkOutcome) -> Vec<u8> {
    let lines = lines(&outcome);
    outcome.image.unwrap_or_else(|| panic!("{lines:?}"))
}

fn same(expected: &[u8], actual: &[u8], what: &str) {
    let first = || (0..).find(|&at| expected.get(at) != actual.get(at));
    assert!(expected == actual, "{what}: byte {:?} of {} differs", first(), expected.len());
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    for arch in ["75", "90"] {
        let inputs = chain(&format!("threads/module-{arch}"), COPIES);
        let options = link_options(&[format!("-arch=sm_{arch}")]).expect("options");
        let total: usize = inputs.iter().map(|input| input.1.len()).sum();
        let expected = image(link(&options, &inputs, 1).expect("threads"));
        let threshold = 4 << 20;
        assert!(total > threshold && expected.len() > threshold, "{total}, {}", expected.len());
        for threads in [2, 2, 3, 8] {
            let actual = image(link(&options, &inputs, threads).expect("threads"));
            same(&expected, &actual, &format!("sm_{arch}, {threads} threads"));
        }
    }
}

#[test]
fn links_side_by_side_do_not_disturb_each_other() {
    let inputs = chain("threads/module-90", 40);
    let options = link_options(&["-arch=sm_90".to_owned()]).expect("options");
    let expected = image(link(&options, &inputs, 1).expect("threads"));
    thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|index| {
                let (inputs, options) = (&inputs, &options);
                scope.spawn(move || image(link(options, inputs, 1 + index % 2).expect("threads")))
            })
            .collect();
        for worker in workers {
            same(&expected, &worker.join().expect("a link"), "side by side");
        }
    });
}

#[test]
fn a_link_that_fails_says_the_same_with_more_threads() {
    let mut inputs = chain("threads/module-90", COPIES);
    inputs.pop();
    for index in [7, 300] {
        inputs[index].1.truncate(1000);
    }
    let options = link_options(&["-arch=sm_90".to_owned()]).expect("options");
    let expected = lines(&link(&options, &inputs, 1).expect("threads"));
    assert!(expected.len() == 1 && expected[0].contains("'m7.cubin'"), "{expected:?}");
    assert_eq!(lines(&link(&options, &inputs, 2).expect("threads")), expected);
}

#[test]
fn bytes_do_not_depend_on_where_the_files_lie() {
    let names = ["threads/module-75", "headers-and-order/every-section-90", "calls/chain-debug-75"];
    for name in names {
        let case = case::named(name).expect("the recorded case");
        let inputs = case.inputs().expect("inputs");
        let expected = case.expected_output().expect("recorded").expect("an output");
        let dir = tempfile::tempdir().expect("a folder");
        let deep = dir.path().join("a folder with a long name/of its own");
        fs::create_dir_all(&deep).expect("a folder");
        for (name, bytes) in &inputs {
            fs::write(dir.path().join(name), bytes).expect("written");
            fs::write(deep.join(name), bytes).expect("written");
        }
        let options = &case.options();
        // Bare names in two folders, relative and absolute paths, other names of the output.
        let full = |folder: &Path, name: &str| folder.join(name).display().to_string();
        type Spelling<'s> = (&'s Path, &'s str, Box<dyn Fn(&str) -> String + 's>);
        let spellings: [Spelling<'_>; 4] = [
            (dir.path(), "out.cubin", Box::new(|name| name.to_owned())),
            (&deep, "other name.cubin", Box::new(|name| name.to_owned())),
            (dir.path(), "third", Box::new(|name| format!("./{name}"))),
            (dir.path(), "fourth.cubin", Box::new(|name| full(&deep, name))),
        ];
        let mut first: Option<Vec<u8>> = None;
        for (folder, out, spell) in spellings {
            let mut arguments = options.to_vec();
            arguments.extend(inputs.iter().map(|input| spell(&input.0)));
            arguments.extend(["-o".to_owned(), out.to_owned()]);
            let run = command(Path::new(CULD), PROGRAM, &arguments, folder).expect("runs");
            assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{name} {out}");
            let bytes = fs::read(folder.join(out)).expect("an output");
            assert_eq!(compare::cubins(&expected, &bytes), None, "{name} {out}");
            same(first.get_or_insert_with(|| bytes.clone()), &bytes, out);
        }
    }
}

#[test]
fn bytes_do_not_depend_on_environment_locale_or_time() {
    let case = case::named("headers-and-order/every-section-100").expect("the recorded case");
    let dir = tempfile::tempdir().expect("a folder");
    for (name, bytes) in case.inputs().expect("inputs") {
        fs::write(dir.path().join(name), bytes).expect("written");
    }
    let environments: [&[(&str, &str)]; 5] = [
        &[],
        &[("LC_ALL", "tr_TR.UTF-8"), ("LANG", "C"), ("TZ", "Asia/Tokyo")],
        &[("RAYON_NUM_THREADS", "7"), ("SOURCE_DATE_EPOCH", "1"), ("USER", "x"), ("HOME", "/")],
        &[("CULD_THREADS", "3"), ("COLUMNS", "20"), ("TERM", "xterm"), ("TMPDIR", "/nonexistent")],
        &[("PATH", ""), ("RUST_BACKTRACE", "full"), ("MALLOC_ARENA_MAX", "1")],
    ];
    let mut first: Option<(Vec<u8>, String)> = None;
    for (round, environment) in environments.iter().enumerate() {
        // Files of other ages.
        for (name, _) in case.inputs().expect("inputs") {
            let file = fs::File::options().write(true).open(dir.path().join(name));
            let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000 * round as u64);
            file.and_then(|file| file.set_modified(time)).expect("changed");
        }
        let mut command = Command::new(CULD);
        command.arg0(PROGRAM).args(case.arguments()).args(["-v", "-o", "out"]);
        command.current_dir(dir.path()).env_clear().envs(environment.iter().copied());
        let run = finish(&mut command).expect("runs");
        assert_eq!(run.status, 0, "{environment:?}: {}", run.stderr);
        let bytes = fs::read(dir.path().join("out")).expect("an output");
        let (expected, said) = first.get_or_insert_with(|| (bytes.clone(), run.stderr.clone()));
        same(expected, &bytes, &format!("{environment:?}"));
        assert_eq!(*said, run.stderr, "{environment:?}");
    }
}
