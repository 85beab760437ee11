//! Files that `culd size`, `culd dump` and `culd diff` look into.
//!
//! In: objects of the quickstart, and archives made here. Out: a report of faults. Guaranteed: only
//! the command is needed.

use std::fs;
use std::path::Path;
use std::process::Command;

use culd_testkit::fixtures::pack::{self, ArchiveFlavour};
use culd_tests::{finish, root};

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");

/// Status, standard output and standard error of `culd` with `words`.
fn culd(folder: &Path, words: &[&str]) -> (i32, String, String) {
    let run = finish(Command::new(CULD).args(words).current_dir(folder)).expect("culd");
    (run.status, run.stdout, run.stderr)
}

/// The lines about images.
fn images(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.starts_with("cubin ")).collect()
}

#[test]
fn a_thin_archive_has_what_the_files_beside_it_have() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    fs::create_dir(place.join("lib")).expect("a folder");
    let names = ["saxpy.cubin", "smooth.cubin"];
    let data = names.map(|name| fs::read(root().join("testdata/quickstart").join(name)));
    let data = data.map(|data| data.expect("a cubin"));
    let members = [(names[0], &data[0][..]), (names[1], &data[1][..])];
    for (name, data) in members {
        fs::write(place.join("lib").join(name), data).expect("a cubin");
    }
    // It names an archive, itself and what is no file, too.
    let others = [&members[..], &[("whole.a", b""), ("thin.a", b""), (".", b""), ("gone", b"")]];
    let thin = pack::archive(&others.concat(), ArchiveFlavour::Thin);
    fs::write(place.join("lib/thin.a"), thin).expect("an archive");
    let whole = pack::archive(&members, ArchiveFlavour::Gnu);
    fs::write(place.join("lib/whole.a"), &whole).expect("an archive");

    let (_, of_whole, _) = culd(place, &["size", "--images", "lib/whole.a"]);
    let (status, of_thin, said) = culd(place, &["size", "--images", "lib/thin.a"]);
    let own = images(&of_whole);
    assert_eq!(own.len(), 2, "{of_whole}");
    let inner = own.iter().map(|line| {
        let (line, name) = line.rsplit_once(' ').expect("a place");
        format!("{line} whole.a:{name}")
    });
    let expected: Vec<String> = own.iter().map(|line| (*line).to_owned()).chain(inner).collect();
    assert_eq!((status, images(&of_thin)), (0, expected.iter().map(String::as_str).collect()));
    assert!(said.contains("'lib/thin.a': '.': it is no regular file\n"), "{said}");
    assert!(said.contains("'lib/thin.a': 'gone': "), "{said}");

    let thin = pack::archive(&members, ArchiveFlavour::Thin);
    fs::write(place.join("lib/thin.a"), thin).expect("an archive");
    assert_eq!(culd(place, &["diff", "lib/thin.a", "lib/whole.a"]).0, 0);
    let listed = |name: &str| culd(place, &["dump", "--list", name]).1.lines().count();
    assert_eq!((listed("lib/thin.a"), listed("lib/whole.a")), (3, 3));
    // What it names is an input.
    fs::rename(place.join("lib/saxpy.cubin"), place.join("lib/r.json")).expect("renamed");
    let thin = pack::archive(&[("r.json", &data[0][..])], ArchiveFlavour::Thin);
    fs::write(place.join("lib/thin.a"), thin).expect("an archive");
    let (status, _, said) = culd(place, &["size", "lib/thin.a", "--report=lib/r.json"]);
    assert!(status == 1 && said.contains("it is an input"), "{status} {said}");
    assert!(fs::read(place.join("lib/r.json")).expect("it") == data[0]);
}

#[test]
fn every_report_that_is_asked_for_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    let cubin = root().join("testdata/quickstart/saxpy.cubin");
    let cubin = cubin.to_str().expect("a path");
    let reports = ["r.json", "r.html", "r.txt"];
    let words: Vec<String> = reports.iter().map(|name| format!("--report={name}")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (status, _, said) = culd(place, &[&["size", cubin][..], &words].concat());
    assert_eq!((status, said.as_str()), (0, ""));
    for name in reports {
        assert!(fs::metadata(place.join(name)).expect(name).len() > 100, "{name}");
    }
}

/// The file itself has no place in the file.
#[test]
fn damage_of_a_file_is_said_of_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    let cubin = fs::read(root().join("testdata/quickstart/saxpy.cubin")).expect("a cubin");
    let host = pack::host_object(&pack::HostParts::default()).expect("an object");
    let archive = pack::archive(&[("saxpy.cubin", &cubin)], ArchiveFlavour::Gnu);
    for (name, bytes) in [("a.cubin", &cubin), ("a.o", &host), ("a.a", &archive)] {
        fs::write(place.join(name), &bytes[..bytes.len() - bytes.len() / 4]).expect("a file");
        let (status, _, said) = culd(place, &["size", name]);
        assert_eq!(status, 0, "{said}");
        assert!(said.starts_with(&format!("culd-under-test warning : '{name}'")), "{said}");
        let (status, _, said) = culd(place, &["dump", name]);
        assert!(status == 2 && !said.contains("''") && said.contains(name), "{said}");
    }
}
