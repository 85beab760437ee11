//! The command, the Rust library and the C library make the same image of a program.
//!
//! In: recorded cases of every architecture. Out: the case with a difference. Guaranteed: all
//! sections count, their order, and the header of the file; only the tool note does not, because it
//! has the options of a command.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use culd::cubin::Cubin;
use culd::{InputKind, Linker, Options};
use culd_testkit::fixtures::case::{self, Case};
use culd_tests::{PROGRAM, command};
use nvJitLink::link::JitLink;
use nvJitLink::result::ResultCode;

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");
/// `NVJITLINK_INPUT_CUBIN`
const CUBIN: i32 = 1;

/// Name, type, flags, link and bytes of each section; and the header's flags.
type ComparedParts = (u32, Vec<(Vec<u8>, u32, u64, u32, u32, Vec<u8>)>);

fn parts(image: &[u8]) -> ComparedParts {
    let cubin = Cubin::parse(image).expect("a cubin");
    let sections = cubin.sections.iter().map(|one| {
        let is_note = one.name == b".note.nv.tkinfo";
        let data = if is_note { Vec::new() } else { one.data.to_vec() };
        (one.name.to_vec(), one.sh_type, one.flags, one.link, one.info, data)
    });
    (cubin.header.flags, sections.collect())
}

/// The options in the words of the C library; `None` if it lacks one.
fn words(case: &Case, folder: &Path) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut all = case.arguments().into_iter().filter(|word| !word.ends_with(".cubin"));
    while let Some(word) = all.next() {
        match word.split_once('=') {
            // Every option names one there.
            Some((name @ ("-kernels-used" | "-variables-used"), names)) => {
                words.extend(names.split(',').map(|one| format!("{name}={one}")));
            }
            Some(("-arch", _)) => words.push(word),
            None if matches!(word.as_str(), "-g" | "-r") => words.push(word),
            None if word == "-uidx" => {
                words.push(format!("-uidx={}", folder.join(all.next()?).display()));
            }
            None if word == "-disable-infos" => {}
            _ => return None,
        }
    }
    Some(words)
}

fn by_command(case: &Case, folder: &Path) -> Option<Vec<u8>> {
    let mut words = case.arguments();
    words.extend(["-o", "out.cubin"].map(str::to_owned));
    let run = command(Path::new(CULD), PROGRAM, &words, folder).expect("it runs");
    (run.status == 0).then(|| fs::read(folder.join("out.cubin")).expect("an output"))
}

fn by_library(case: &Case, folder: &Path) -> Option<Vec<u8>> {
    let mut words: Vec<String> =
        case.arguments().into_iter().filter(|word| !word.ends_with(".cubin")).collect();
    if let Some(at) = words.iter().position(|word| word == "-uidx") {
        words[at + 1] = folder.join(&words[at + 1]).display().to_string();
    }
    let mut linker = Linker::new(Options::parse(&words).expect("options"));
    for (name, bytes) in case.inputs().expect("inputs") {
        linker.add_bytes(name, InputKind::Cubin, bytes);
    }
    linker.link().ok().map(culd::Linked::into_image)
}

fn by_c_library(case: &Case, words: &[String]) -> Option<Vec<u8>> {
    let words: Vec<_> = words.iter().map(Into::into).collect();
    let mut link = JitLink::new(&words);
    assert_eq!(link.created(), ResultCode::Success, "{}: {}", case.name, link.error_log());
    for (name, bytes) in case.inputs().expect("inputs") {
        if link.add_data(CUBIN, Some(name.as_ref()), &bytes) != ResultCode::Success {
            return None;
        }
    }
    (link.complete() == ResultCode::Success).then(|| link.cubin().expect("an image").to_vec())
}

#[test]
fn the_same_program_is_the_same_image_by_each_way() {
    let mut linked: BTreeMap<String, usize> = BTreeMap::new();
    for case in case::all().expect("cases") {
        let folder = tempfile::tempdir().expect("a folder");
        let inputs = case.inputs().expect("inputs");
        let index = case.index_files().expect("index files");
        for (name, bytes) in inputs.iter().chain(&index) {
            fs::write(folder.path().join(name), bytes).expect("a file");
        }
        let Some(words) = words(&case, folder.path()).filter(|_| !inputs.is_empty()) else {
            continue;
        };
        let images = [
            by_command(&case, folder.path()),
            by_library(&case, folder.path()),
            by_c_library(&case, &words),
        ];
        let [first, second, third] = images.map(|image| image.map(|image| parts(&image)));
        assert!(first == second, "{}: the command and the Rust library", case.name);
        assert!(first == third, "{}: the command and the C library", case.name);
        if first.is_some() {
            *linked.entry(case.recipe.arch.clone()).or_default() += 1;
        }
    }
    for arch in ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"] {
        assert!(linked.contains_key(arch), "{linked:?}");
    }
    assert!(linked.values().sum::<usize>() > 150, "{linked:?}");
}
