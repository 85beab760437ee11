//! Places of reports: files, and standard output.
//!
//! In: files of the quickstart, and names for reports. Out: a report of faults. Guaranteed: only
//! the command is needed.

use std::fs;
use std::path::Path;
use std::process::Command;

use culd_tests::world::copy_quickstart;
use culd_tests::{PROGRAM, command, printed};

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");

/// Runs culd in `folder`; it must succeed.
fn culd(folder: &Path, words: &[&str]) -> String {
    printed(Path::new(CULD), words, folder)
}

#[test]
fn standard_output_is_for_text_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    copy_quickstart(place);
    let inputs = ["-arch=sm_90", "saxpy.cubin", "smooth.cubin", "-o", "o"];
    let rule = culd(place, &[&inputs[..], &["--dependency-file=-"]].concat());
    assert!(rule.starts_with("o: \\\n  saxpy.cubin \\\n  smooth.cubin\n"), "{rule}");
    for (option, note) in [
        ("--report=", "the ending says the form"),
        ("--reproduce=-", "it takes the name of a file"),
        ("--trace=-", "it takes the name of a file"),
    ] {
        let words = [&inputs[..], &[option]].concat();
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let run = command(Path::new(CULD), PROGRAM, &words, place).expect("it runs");
        assert!(run.status == 1 && run.stderr.contains(note), "{option}: {}", run.stderr);
    }
    assert!(!place.join("-").exists());
}

/// A file that a shell opened for standard output, and a path to it.
#[test]
fn a_file_for_standard_output_has_no_room_for_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    copy_quickstart(place);
    let link = |words: &[&str]| {
        let mut run = Command::new(CULD);
        run.args(["-arch=sm_90", "saxpy.cubin", "smooth.cubin"]).args(words).current_dir(place);
        let file = fs::File::create(place.join("all")).expect("a file");
        let run = run.stdout(file).output().expect("it runs");
        (run.status.success(), String::from_utf8_lossy(&run.stderr).into_owned())
    };
    let refused = |option: &str, words: &[&str]| {
        let other =
            if words.iter().any(|word| word.starts_with("--map")) { "map" } else { "output-file" };
        let line = format!("Could not write '-' (--{option}): it is the file of '--{other}' too");
        let (done, said) = link(words);
        assert!(!done && said.contains(&line), "{words:?}: {said}");
        assert_eq!(fs::read(place.join("all")).expect("it"), b"", "{words:?}");
    };
    refused("report", &["-o", "/dev/stdout", "--report=-"]);
    refused("cref", &["-o", "all", "--cref"]);
    refused("why-live", &["-o", "o", "--why-live=*", "--map=/dev/stdout"]);
    refused("report", &["-o", "o", "--report=-", "--map=./all"]);
    for words in [
        &["-o", "o", "--report=-", "--map=-", "--cref"][..],
        &["-o", "/dev/stdout", "--map=m"],
        &["-o", "o", "--report=-", "--map=m"],
    ] {
        let (done, said) = link(words);
        assert!(done, "{words:?}: {said}");
        assert!(!fs::read(place.join("all")).expect("it").is_empty(), "{words:?}");
    }
}

/// Runs culd in `place`; it must fail. Returns the first line of standard error.
fn refusal(place: &Path, words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let run = command(Path::new(CULD), PROGRAM, &words, place).expect("it runs");
    assert_eq!(run.status, 1, "{words:?}: {}", run.stderr);
    run.stderr.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_report_takes_the_place_of_no_input_and_of_no_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    copy_quickstart(place);
    for ending in ["json", "html", "txt", "dot", "svg", "tar", "list"] {
        fs::copy(place.join("saxpy.cubin"), place.join(format!("in.{ending}"))).expect("an input");
    }
    std::os::unix::fs::symlink("in.list", place.join("to-in.list")).expect("a link");
    let input = fs::read(place.join("saxpy.cubin")).expect("an input");
    for (option, path) in [
        ("report", "in.json"),
        ("report", "in.html"),
        ("report", "in.txt"),
        ("map", "in.list"),
        ("map", "to-in.list"),
        ("callgraph", "in.dot"),
        ("callgraph", "in.svg"),
        ("why-extract", "in.list"),
        ("reproduce", "in.tar"),
        ("dependency-file", "./in.list"),
        ("trace", "in.list"),
    ] {
        let source = path.trim_start_matches("to-").trim_start_matches("./");
        let word = format!("--{option}={path}");
        let said = refusal(place, &["-arch=sm_90", source, "smooth.cubin", "-o", "o", &word]);
        let line = format!("culd fatal   : Could not write '{path}' (--{option}): it is an input");
        assert_eq!(said, line);
        assert!(fs::read(place.join(source)).expect("the input") == input, "{word}");
        assert!(!place.join("o").exists(), "{word}");
    }
    let said = refusal(place, &["size", "in.json", "--report=in.json"]);
    assert_eq!(said, "culd fatal   : Could not write 'in.json' (--report): it is an input");
    assert!(fs::read(place.join("in.json")).expect("the input") == input);

    let inputs = ["-arch=sm_90", "saxpy.cubin", "smooth.cubin"];
    for (words, path, option, other) in [
        (&["-o=o", "--map=./o"][..], "./o", "map", "output-file"),
        (&["-o=o", "--map=m", "--trace=m"], "m", "trace", "map"),
        (&["-o=o", "--report=m.txt", "--report=m.txt"], "m.txt", "report", "report"),
        (&["-o=o", "--map=f", "--register-link-binaries=f"], "f", "map", "register-link-binaries"),
        (&["-o=o", "--map=f", "-time=f"], "f", "map", "time"),
    ] {
        let said = refusal(place, &[&inputs[..], words].concat());
        let what = format!("'{path}' (--{option}): it is the file of '--{other}' too");
        assert_eq!(said, format!("culd fatal   : Could not write {what}"));
        assert!(!place.join("o").exists(), "{words:?}");
    }
    // A device and standard output have room for several.
    let shared = ["-o=o", "--map=/dev/null", "--trace=/dev/null", "--why-extract=-", "-time=-"];
    culd(place, &[&inputs[..], &shared, &["--dependency-file=-"]].concat());
}
