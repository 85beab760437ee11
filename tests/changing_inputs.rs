//! Inputs that another process changes while they are linked, without a change of their times.
//!
//! In: the programs of the recorded cases, as cubins and in containers, long enough to be mapped.
//! Out: no report. Guaranteed: another process changes bytes of the files all the time, through its
//! own maps. Every link ends with an output or with a line, never with a panic or a signal, and
//! leaves only the output. Without that process, the same files link as the cases say.

use culd_testkit::fixtures::pack::{self, ArchiveFlavour, HostParts};
use culd_testkit::random::mutate::program::{MutationSource, recorded, target};
use culd_testkit::reference::oracle::process::{self, Status};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");
const OLD: &[u8] = b"the output of an earlier link";
/// Bytes from which on files are mapped.
const MAPPED: usize = 16 << 10;
/// Links of each program.
const LINKS: usize = 6;
const LIMIT: Duration = Duration::from_secs(60);

/// Reads lines with names of files and the number of their bytes that count, one line for each
/// program. Until the next line it changes a few bytes at a time and restores them. First it
/// changes and restores the last byte of the file, as a sign that it has begun.
const WRITER: &str = r#"
import mmap, os, random, sys, threading
wanted, at_work = None, threading.Event()
def listen():
    global wanted
    for line in sys.stdin:
        words = line.split()
        pairs = zip(words[::2], words[1::2])
        wanted = [(mmap.mmap(os.open(path, os.O_RDWR), 0), int(size)) for path, size in pairs]
        at_work.set()
    os._exit(0)
threading.Thread(target=listen).start()
at_work.wait()
now, held = None, []
while True:
    if wanted is not now:
        for map, at, old in reversed(held): map[at] = old
        now, held = wanted, []
        print("begun", flush=True)
    map, size = random.choice(now)
    at = random.randrange(size)
    held.append((map, at, map[at]))
    map[at] = random.choice((0, 1, 0xff, map[at] ^ 1 << random.randrange(8), random.randrange(256)))
    if len(held) == 4:
        for map, at, old in reversed(held): map[at] = old
        held = []
"#;

struct InputWriter {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl InputWriter {
    fn new() -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", WRITER]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("Python 3");
        let said = BufReader::new(child.stdout.take().expect("a pipe"));
        InputWriter { child, said }
    }

    /// Makes it change these files from now on.
    fn change(&mut self, world: &Path, files: &[(String, usize)]) {
        let path =
            |(name, size): &(String, usize)| format!("{} {size}", world.join(name).display());
        let line = files.iter().map(path).collect::<Vec<_>>().join(" ");
        writeln!(self.child.stdin.as_ref().expect("a pipe"), "{line}").expect("it listens");
        let mut begun = String::new();
        self.said.read_line(&mut begun).expect("it speaks");
        assert_eq!(begun, "begun\n");
    }
}

impl Drop for InputWriter {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The inputs as files that are mapped: names, bytes, and the number of bytes in front of the
/// padding.
fn files(program: &MutationSource, form: usize) -> Vec<(String, Vec<u8>, usize)> {
    let padded = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes.resize(bytes.len().max(MAPPED), 0);
        bytes
    };
    let file = |(name, bytes): &(String, Vec<u8>)| {
        let stem = name.trim_end_matches(".cubin");
        let packed = || pack::cubin_fatbin(&padded(bytes), target(&program.arch)).expect("packed");
        let (name, packed) = match form {
            0 => return (name.clone(), padded(bytes), bytes.len()),
            1 => (format!("{stem}.fatbin"), packed()),
            2 => {
                let parts = HostParts { fatbins: vec![packed()], ..HostParts::default() };
                (format!("{stem}.o"), pack::host_object(&parts).expect("packed"))
            }
            _ => {
                let flavour = [ArchiveFlavour::Gnu, ArchiveFlavour::Bsd][bytes.len() % 2];
                (format!("{stem}.a"), pack::archive(&[(name, &padded(bytes))], flavour))
            }
        };
        let length = packed.len();
        (name, packed, length)
    };
    program.inputs.iter().map(file).collect()
}

/// The status and lines of a link.
fn ended(world: &Path, words: &[String]) -> (i32, String) {
    let mut command = Command::new(CULD);
    command.arg0("culd").args(words).args(["-o", "out"]).current_dir(world);
    let run = process::run(&mut command, LIMIT).expect("starts");
    let said = run.stderr_text();
    let Status::Exit(status) = run.status else { panic!("{words:?}: {}: {said}", run.status) };
    (status, said)
}

fn names(world: &Path) -> Vec<String> {
    let names = fs::read_dir(world).expect("listed");
    let names = names.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn bytes_that_change_under_a_link_give_an_output_or_a_line() {
    let mut writer = InputWriter::new();
    let (mut linked, mut refused, mut differ) = (0, 0, 0);
    for (number, program) in recorded().expect("cases").iter().enumerate() {
        let world = tempfile::tempdir().expect("a folder");
        let files = files(program, number % 4);
        for (name, bytes, _) in &files {
            fs::write(world.path().join(name), bytes).expect("written");
        }
        for (name, bytes) in &program.others {
            fs::write(world.path().join(name), bytes).expect("written");
        }
        let mut words = vec![format!("-arch={}", program.arch)];
        words.extend(program.options.iter().cloned());
        words.extend(files.iter().map(|(name, ..)| name.clone()));
        fs::write(world.path().join("out"), OLD).expect("written");
        let (usual, _) = ended(world.path(), &words);
        let good = fs::read(world.path().join("out")).expect("an output");
        assert_eq!(usual == 0, good != OLD, "{}", program.name);
        let before = names(world.path());
        let sizes: Vec<_> = files.iter().map(|(name, _, size)| (name.clone(), *size)).collect();
        writer.change(world.path(), &sizes);
        for link in 0..LINKS {
            fs::write(world.path().join("out"), OLD).expect("written");
            let mut words = words.clone();
            words.push(format!("--threads={}", 1 + link % 2));
            words.extend((link % 3 == 0).then(|| "--verify".to_owned()));
            let (status, said) = ended(world.path(), &words);
            let what = format!("{} in form {}: {status}, {said}", program.name, number % 4);
            let out = fs::read(world.path().join("out")).expect("an output");
            assert!(!said.contains("panicked") && !said.contains("defect"), "{what}");
            assert!([0, 1, 255].contains(&status), "{what}");
            assert_eq!(status == 0, out != OLD, "{what}");
            let reported = [" fatal   : ", " error   : "].iter().any(|word| said.contains(word));
            assert!(status == 0 || reported, "{what}");
            assert_eq!(names(world.path()), before, "{what}");
            linked += usize::from(status == 0);
            refused += usize::from(status != 0 && usual == 0);
            differ += usize::from(status == 0 && out != good);
        }
    }
    println!("{linked} linked, {differ} of them otherwise, {refused} refused");
    // It was met.
    assert!(linked > 100 && refused > 100 && differ > 20, "{linked} {refused} {differ}");
}
