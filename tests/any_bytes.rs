//! Names of any bytes: of files in every place of a command line, and of symbols and members in
//! files.
//!
//! In: the two objects of the quickstart, and names that are no text, or text that a terminal would
//! obey. Out: no report. Guaranteed: a link with such names has the output of one with ordinary
//! names, and no line has an invisible character.
#![allow(clippy::unwrap_used)]

use culd_fatbin::writer::ImageTarget;
use culd_testkit::fixtures::pack::{self, ArchiveFlavour};
use culd_testkit::reference::compare;
use culd_tests::world::copy_quickstart;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");
/// Latin 1, a terminal command, a line feed, a mark that reverses text.
const NAME: &[u8] = b"caf\xe9\x1b[2J\n\xe2\x80\xae";
/// The same name as printed.
const SHOWN: &str = "caf\\xe9\\x1b[2J\\n\\u{202e}";

/// A folder with the objects.
struct ObjectFolder(tempfile::TempDir);

impl ObjectFolder {
    fn new() -> Self {
        let world = ObjectFolder(tempfile::tempdir().unwrap());
        copy_quickstart(world.0.path());
        world
    }

    fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.0.path().join(name.as_ref())
    }

    fn write(&self, name: impl AsRef<OsStr>, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    fn read(&self, name: impl AsRef<OsStr>) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Runs the link of these words; no line may have invisible characters.
    fn run<T: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = T>) -> Output {
        let mut command = Command::new(CULD);
        command.arg("-arch=sm_90").args(words).current_dir(self.0.path());
        let output = command.output().unwrap();
        for stream in [&output.stdout, &output.stderr] {
            let text = String::from_utf8(stream.clone()).unwrap();
            for line in text.lines() {
                assert_eq!(culd_text::escaped(line), line, "{text}");
            }
        }
        output
    }

    /// Runs a link that succeeds; returns its output.
    fn links<T: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = T>) -> String {
        let output = self.run(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    }

    /// A link that fails with a line that has `message` in it.
    fn fails<T: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = T>, message: &str) {
        let output = self.run(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(message), "{said}\nlacks {message}");
    }

    /// The link with ordinary names.
    fn plain(&self) -> Vec<u8> {
        self.links(["saxpy.cubin", "smooth.cubin", "-o", "plain"]);
        self.read("plain")
    }
}

/// [`NAME`] between `begin` and `end`.
fn named(begin: &str, end: &str) -> OsString {
    OsString::from_vec([begin.as_bytes(), NAME, end.as_bytes()].concat())
}

fn words<'w>(words: &[&'w dyn AsRef<OsStr>]) -> Vec<&'w OsStr> {
    words.iter().map(|word| (*word).as_ref()).collect()
}

/// `bytes` with the word `old` replaced by one of the same length.
fn renamed(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    assert_eq!(old.len(), new.len());
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(old.len()).position(|window| window == old) {
        bytes[at + found..][..new.len()].copy_from_slice(new);
        at += found + new.len();
    }
    assert_ne!(at, 0);
    bytes
}

#[test]
fn inputs_and_outputs_of_every_kind() {
    let world = ObjectFolder::new();
    let plain = world.plain();
    let cubin = world.read("smooth.cubin");
    let target = ImageTarget::sm(90);
    let fatbin = pack::cubin_fatbin(&cubin, target).unwrap();
    let archive = pack::archive(&[("smooth.cubin", &cubin)], ArchiveFlavour::Gnu);
    for (ending, bytes) in [(".cubin", &cubin), (".fatbin", &fatbin), (".a", &archive)] {
        let (input, output) = (named("", ending), named("", ".out"));
        world.write(&input, bytes);
        assert_eq!(world.links(words(&[&"saxpy.cubin", &input, &"-o", &output])), "");
        assert!(world.read(&output) == plain, "{ending}");
        let equals = OsString::from_vec([b"--output-file=", output.as_bytes()].concat());
        assert_eq!(world.links(words(&[&"saxpy.cubin", &input, &equals])), "");
        assert!(world.read(&output) == plain, "{ending}");
    }
}

#[test]
fn members_of_thin_archives_and_their_folder() {
    let world = ObjectFolder::new();
    let plain = world.plain();
    let folder = named("d", "");
    fs::create_dir(world.path(&folder)).unwrap();
    let member = named("m", ".o");
    let placeholder = "x".repeat(member.len());
    let cubin = world.read("smooth.cubin");
    let archive = pack::archive(&[(&placeholder, &cubin)], ArchiveFlavour::Thin);
    // A name in the table of names ends with a line feed.
    let plain_member: Vec<u8> =
        member.as_bytes().iter().map(|&byte| if byte == b'\n' { b' ' } else { byte }).collect();
    let archive = renamed(&archive, placeholder.as_bytes(), &plain_member);
    let place = |name: &[u8]| Path::new(&folder).join(OsStr::from_bytes(name));
    world.write(place(b"lib.a"), &archive);
    world.write(place(&plain_member), &cubin);
    let lib = place(b"lib.a");
    assert_eq!(world.links(words(&[&"saxpy.cubin", &lib, &"-o", &"out"])), "");
    assert!(world.read("out") == plain);
    fs::remove_file(world.path(place(&plain_member))).unwrap();
    let message = format!("'d{SHOWN}/lib.a:mcaf\\xe9\\x1b[2J \\u{{202e}}.o'");
    world.fails(words(&[&"saxpy.cubin", &lib, &"-o", &"out"]), &message);
}

#[test]
fn libraries_and_options_files() {
    let world = ObjectFolder::new();
    // A library has an object for the host.
    let host = pack::host_object(&pack::HostParts::default()).expect("an object");
    let members = [("smooth.cubin", &world.read("smooth.cubin")[..]), ("host.o", &host)];
    let archive = pack::archive(&members, ArchiveFlavour::Gnu);
    let library = |folder: &OsStr, name: &[u8]| {
        fs::create_dir(world.path(folder)).unwrap();
        let file = OsString::from_vec([b"lib", name, b".a"].concat());
        world.write(Path::new(folder).join(file), &archive);
    };
    let folder = named("d", "");
    library(&folder, NAME);
    // The tool note has both names as text; with ordinary names of the same length, all other bytes
    // have the same place.
    let ordinary = "x".repeat(culd_text::bytes(NAME).len());
    library(OsStr::new(&format!("d{ordinary}")), ordinary.as_bytes());
    let (path, name) = (format!("-Ld{ordinary}//"), format!("-l{ordinary}"));
    world.links(["saxpy.cubin", &path, &name, "-o", "plain"]);
    let is_plain = || assert_eq!(compare::cubins(&world.read("plain"), &world.read("out")), None);
    let (path, library) = (named("-Ld", "//"), named("-l", ""));
    world.links(words(&[&"saxpy.cubin", &path, &library, &"-o", &"out"]));
    is_plain();
    // Quoted, because it has a line feed.
    let text = [&b"\"-L"[..], folder.as_bytes(), b"//\" -l \"", NAME, b"\""].concat();
    for option in ["@", "-optf="] {
        world.write(named("f", ""), &text);
        let file = named(&format!("{option}f"), "");
        world.links(words(&[&"saxpy.cubin", &file, &"-o", &"out"]));
        is_plain();
    }
    let message = format!("Library '{SHOWN}' was ignored");
    let missing = world.links(words(&[&"saxpy.cubin", &"smooth.cubin", &library, &"-o", &"out"]));
    assert!(missing.contains(&message), "{missing}");
}

#[test]
fn files_beside_the_output() {
    let world = ObjectFolder::new();
    let input = named("", ".cubin");
    fs::rename(world.path("smooth.cubin"), world.path(&input)).unwrap();
    let option = |name: &str| OsString::from_vec([name.as_bytes(), NAME].concat());
    let (register, time) = (option("--register-link-binaries=r"), option("-time=t"));
    let (trace, output) = (option("--trace=j"), named("o", ""));
    let all = words(&[&"saxpy.cubin", &input, &"-o", &output, &register, &time, &trace, &"-g"]);
    world.links(all);
    // A register file has paths with a `_` for each byte that is no letter or digit.
    let module = String::from_utf8(world.read(named("r", ""))).unwrap();
    assert!(module.contains("_caf___2J_____cubin)\n"), "{module}");
    let table = String::from_utf8(world.read(named("t", ""))).unwrap();
    assert!(table.lines().count() > 3, "{table}");
    // The titles have a comma without blanks.
    for row in table.lines().skip(1) {
        assert_eq!(row.split(" , ").count(), 8, "{row}");
        assert_eq!(culd_text::escaped(row), row);
    }
    assert!(table.contains(&format!("o{SHOWN} , merge")), "{table}");
    assert!(world.read(named("j", "")).starts_with(b"{\"displayTimeUnit\""));
}

#[test]
fn compilers_and_texts() {
    let world = ObjectFolder::new();
    let plain = world.plain();
    let ptx = ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry e() { ret; }\n";
    world.write(named("", ".ptx"), ptx);
    let smooth = world.path("smooth.cubin");
    world.write(named("p", ""), format!("#!/bin/sh\ncp {} elf.o\n", smooth.display()));
    let program = world.path(named("p", ""));
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let compiler = named("--ptxas-path=./p", "");
    let (text, output) = (named("", ".ptx"), "out");
    world.links(words(&[&"saxpy.cubin", &text, &compiler, &"-o", &output]));
    assert!(world.read("out") == plain);
    world.write(
        named("p", ""),
        "#!/bin/sh\nprintf 'ptxas ptx, line 3; error   : a\\033[2Jb\\n'; exit 1\n",
    );
    world.fails(words(&[&text, &compiler, &"-o", &output]), "line 3; error   : a\\x1b[2Jb\n");
    fs::remove_file(program).unwrap();
    world.fails(words(&[&text, &compiler, &"-o", &output]), &format!("/p{SHOWN}'"));
}

#[test]
fn messages_about_words_and_files() {
    let world = ObjectFolder::new();
    let input = named("", ".cubin");
    let folder = named("no/such/", "");
    let shown = |begin: &str, end: &str| format!("{begin}{SHOWN}{end}");
    let option = |name: &str| named(name, "");
    world.fails(words(&[&input, &"-o", &"o"]), &shown("Could not open input file '", ".cubin'"));
    world
        .fails(words(&[&"saxpy.cubin", &"smooth.cubin", &"-o", &folder]), &shown("'no/such/", "'"));
    world.fails([named("-", "")], &shown("Unknown option '", "'"));
    world.fails([named("-arch=", "")], &shown("Value '", "' is not defined for option 'arch'"));
    world.fails([named("--verbose=", "")], "no argument expected after '--verbose'");
    world.fails([named("-m=", "")], &shown("'", "': expected a number"));
    world.fails([named("@", "")], &shown("Could not open options file '", "'"));
    let index = option("-uidx=");
    world.fails(words(&[&"saxpy.cubin", &"-o", &"o", &index]), &shown("input file '", "'"));
    let time = option("-time=no/such/");
    world.fails(words(&[&"saxpy.cubin", &"-o", &"o", &time]), &shown("'no/such/", "'"));
    world.write(&input, "no cubin, but long enough for one: words, words, words, words, words");
    world.fails(words(&[&input, &"-o", &"o"]), &shown("'", ".cubin', offset 0x0"));
    let unknown = named("", ".words");
    fs::rename(world.path(&input), world.path(&unknown)).unwrap();
    let both = words(&[&"saxpy.cubin", &"smooth.cubin", &unknown, &"-o", &"o"]);
    assert!(world.links(both).contains(&shown("Input file '", ".words' was ignored")));
    let mut command = Command::new(CULD);
    let check =
        command.arg("abi-check").arg(&unknown).current_dir(world.0.path()).output().unwrap();
    let said = String::from_utf8(check.stderr).unwrap();
    assert!(said.contains(&shown("'", ".words' is no PTX text")), "{said}");
}

#[test]
fn messages_about_what_is_in_files() {
    let world = ObjectFolder::new();
    let smooth = renamed(&world.read("smooth.cubin"), b"smooth", b"s\x1b[2Jh");
    let saxpy = world.read("saxpy.cubin");
    world.write("a.cubin", renamed(&saxpy, b"smooth", b"s\x1b[2Jh"));
    world.write("b.cubin", &smooth);
    assert_eq!(world.links(["a.cubin", "b.cubin", "-o", "out"]), "");
    let undefined = "Undefined reference to 's\\x1b[2Jh' in 'a.cubin'";
    world.fails(["a.cubin", "-o", "o"], undefined);
    world.write("c.cubin", &smooth);
    let twice = "Multiple definition of 's\\x1b[2Jh' in 'c.cubin', first defined in 'b.cubin'";
    world.fails(["a.cubin", "b.cubin", "c.cubin", "-o", "o"], twice);
    for option in ["-dump-callgraph", "-dump-callgraph-no-demangle"] {
        let said = world.links(["a.cubin", "b.cubin", "-o", "o", option]);
        assert!(said.contains("s\\x1b[2Jh"), "{said}");
    }
    // The kernel's name: a carriage return, a bell, and a byte that is no text, which messages
    // replace.
    world.write("d.cubin", renamed(&saxpy, b"saxpy", b"s\r\x07\x9by"));
    let said = world.links(["d.cubin", "smooth.cubin", "-o", "o", "-v"]);
    assert!(said.contains("Function properties for 's\\r\\x07"), "{said}");
    let archive = pack::archive(&[("m123456.cubin", &smooth[..200])], ArchiveFlavour::Gnu);
    world.write("lib.a", renamed(&archive, b"123456", "\x1b\u{9b}\u{202e}".as_bytes()));
    world.fails(["a.cubin", "lib.a", "-o", "o"], "lib.a:m\\x1b\\u{9b}\\u{202e}.cubin'");
}
