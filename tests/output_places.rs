//! Every kind of file that a path can name, as the place of every output.
//!
//! In: a recorded case that links, an option that names an output, and a place. Out: no report.
//! Guaranteed: the output arrives where the maker of the place expects it, or the link reports an
//! error. No other file is left in any folder, and an old output that stays is whole.

use culd_tests::world::{self, names, set_mode};
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::pty::openpty;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::Mode;
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd::mkfifo;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Write, pipe};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");
const CASE: &str = "headers-and-order/every-section-90";
const OLD: &[u8] = b"what an earlier link wrote\n";
const LIMIT: Duration = Duration::from_secs(60);
/// A user without rights.
const NOBODY: u32 = 65534;
/// The longest path, with its NUL, and the longest name.
const PATH_MAX: usize = 4096;
const NAME_MAX: usize = 255;

/// An option that names an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputOption {
    Output,
    RegisterFile,
    Trace,
    Times,
    HostScript,
}

impl OutputOption {
    const ALL: [OutputOption; 5] = [
        OutputOption::Output,
        OutputOption::RegisterFile,
        OutputOption::Trace,
        OutputOption::Times,
        OutputOption::HostScript,
    ];

    fn words(self, path: &str) -> Vec<String> {
        let link = ["-arch=sm_90", "a.cubin", "b.cubin", "-o"];
        let words: &[&str] = match self {
            OutputOption::Output => &[path],
            OutputOption::RegisterFile => &["out.cubin", "--register-link-binaries", path],
            OutputOption::Trace => &["out.cubin", "--trace", path],
            OutputOption::Times => &["out.cubin", "-time", path],
            OutputOption::HostScript => {
                return ["-ghls=lcs-aug", "-o", path].map(str::to_owned).into();
            }
        };
        link.iter().chain(words).map(|word| (*word).to_owned()).collect()
    }

    /// True if `bytes` are the output; `usual` is the output elsewhere.
    fn is_whole(self, bytes: &[u8], usual: &[u8]) -> bool {
        let (begins, ends) = match self {
            OutputOption::Trace => (&b"{\"displayTimeUnit\":\"ms\","[..], &b"}\n]}\n"[..]),
            // Names of modules are paths.
            OutputOption::RegisterFile => {
                (&b"#define NUM_PRELINKED_OBJECTS 2\nDEFINE_"[..], &b"_b_cubin)\n"[..])
            }
            // The second of both would be titles.
            OutputOption::Times => (&b"out.cubin , "[..], &b" , ms\n"[..]),
            _ => return bytes == usual,
        };
        bytes.starts_with(begins) && bytes.ends_with(ends)
    }
}

/// The fate of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputFate {
    /// It arrives and replaces the old contents.
    Arrives,
    /// It arrives behind the old contents.
    Follows,
    /// The place accepts everything and keeps nothing.
    Vanishes,
    /// The link reports this, and the old contents stay.
    Refused(&'static str),
}

/// A place for an output.
struct OutputPlace {
    path: String,
    /// The descriptors that the linker inherits.
    inherited: Vec<OwnedFd>,
    stdout: Option<Stdio>,
    /// A user without rights links.
    nobody: bool,
    /// The bytes that the maker of the place finds in it.
    found: Box<dyn FnOnce() -> Vec<u8>>,
    fate: OutputFate,
}

impl OutputPlace {
    fn new(
        path: impl Into<String>,
        found: impl FnOnce() -> Vec<u8> + 'static,
        fate: OutputFate,
    ) -> Self {
        let (path, found) = (path.into(), Box::new(found));
        OutputPlace { path, inherited: Vec::new(), stdout: None, nobody: false, found, fate }
    }

    /// The file at `path` of a folder.
    fn file(world: &Path, path: &str, fate: OutputFate) -> Self {
        let at = world.join(path);
        OutputPlace::new(path, move || fs::read(at).unwrap_or_default(), fate)
    }

    /// An open file that the linker inherits, by its number in `folder`.
    fn open(folder: &str, file: File, fate: OutputFate) -> Self {
        let inherited: OwnedFd = file.try_clone().expect("a second one").into();
        fcntl(&inherited, FcntlArg::F_SETFD(FdFlag::empty())).expect("it is inherited");
        let path = format!("{folder}/{}", inherited.as_raw_fd());
        // From its start, independent of the position after the link.
        let found = move || fs::read(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("read");
        OutputPlace { inherited: vec![inherited], ..OutputPlace::new(path, found, fate) }
    }

    /// One end of a pipe or terminal; the bytes at the other end are found.
    fn end_of(
        other: impl Read + Send + 'static,
        path: String,
        own: OwnedFd,
        fate: OutputFate,
    ) -> Self {
        fcntl(&own, FcntlArg::F_SETFD(FdFlag::empty())).expect("it is inherited");
        OutputPlace { inherited: vec![own], ..OutputPlace::new(path, reading(move || other), fate) }
    }

    /// Its path without the long part.
    fn short(&self) -> &str {
        match self.path.strip_prefix("f/../") {
            Some(_) => self.path.rsplit('/').next().unwrap_or_default(),
            None => &self.path,
        }
    }

    fn nobody(self) -> Self {
        OutputPlace { nobody: true, ..self }
    }
}

/// Reads the file of `open` to its end on another thread.
fn reading<R: Read>(open: impl FnOnce() -> R + Send + 'static) -> impl FnOnce() -> Vec<u8> {
    let thread = thread::spawn(move || {
        let mut bytes = Vec::new();
        // A terminal whose other end is closed ends with an error.
        let _ = open().read_to_end(&mut bytes);
        bytes
    });
    || thread.join().expect("read")
}

fn write_old(path: &Path) {
    fs::write(path, OLD).expect("written");
}

/// Root may write anywhere.
fn is_root() -> bool {
    fs::metadata("/proc/self").expect("there").uid() == 0
}

/// A file with old bytes, open.
fn old_file(options: &mut OpenOptions, path: &Path) -> File {
    write_old(path);
    options.open(path).expect("open")
}

/// A path of `length` bytes to a file in the working folder, in which it makes a folder.
fn long_path(world: &Path, name: &str, length: usize) -> String {
    fs::create_dir(world.join("f")).expect("made");
    let detour = "f/../";
    let (detours, rest) =
        ((length - name.len()) / detour.len(), (length - name.len()) % detour.len());
    detour.repeat(detours) + &"/".repeat(rest) + name
}

type MakePlace = fn(&Path) -> OutputPlace;

/// Places by name.
#[rustfmt::skip]
const PLACES: &[(&str, MakePlace)] = &[
    ("a new file", |world| OutputPlace::file(world, "new", OutputFate::Arrives)),
    ("a file", |world| {
        write_old(&world.join("old"));
        OutputPlace::file(world, "old", OutputFate::Arrives)
    }),
    ("a file with a second name", |world| {
        write_old(&world.join("old"));
        fs::hard_link(world.join("old"), world.join("second")).expect("made");
        OutputPlace::file(world, "old", OutputFate::Arrives)
    }),
    ("a chain of links", |world| {
        fs::create_dir(world.join("folder")).expect("made");
        write_old(&world.join("folder/old"));
        symlink("folder/second", world.join("first")).expect("made");
        symlink("../third", world.join("folder/second")).expect("made");
        symlink(world.join("folder/old"), world.join("third")).expect("made");
        OutputPlace::file(world, "first", OutputFate::Arrives)
    }),
    ("a link to nothing", |world| {
        fs::create_dir(world.join("folder")).expect("made");
        symlink("folder/new", world.join("link")).expect("made");
        OutputPlace::file(world, "link", OutputFate::Arrives)
    }),
    ("a link to itself", |world| {
        symlink("link", world.join("link")).expect("made");
        OutputPlace::file(world, "link", OutputFate::Refused("(os error 40)"))
    }),
    ("a named pipe", |world| {
        let path = world.join("pipe");
        mkfifo(&path, Mode::S_IRWXU).expect("made");
        OutputPlace::new("pipe", reading(|| File::open(path).expect("open")), OutputFate::Follows)
    }),
    ("a pipe", |_| {
        let (other, own) = pipe().expect("made");
        OutputPlace::end_of(other, format!("/dev/fd/{}", own.as_raw_fd()), own.into(), OutputFate::Follows)
    }),
    ("standard output that is a pipe", |_| {
        let (other, own) = pipe().expect("made");
        let place = OutputPlace::new("/dev/stdout", reading(|| other), OutputFate::Follows);
        OutputPlace { stdout: Some(own.into()), ..place }
    }),
    ("standard output that is a file", |world| {
        let file = old_file(OpenOptions::new().read(true).write(true), &world.join("old"));
        let stdout = file.try_clone().expect("a second one");
        let place = OutputPlace::open("/proc/self/fd", file, OutputFate::Arrives);
        OutputPlace { path: "/dev/stdout".to_owned(), stdout: Some(stdout.into()), ..place }
    }),
    ("a socket", |_| {
        let (other, own) = UnixStream::pair().expect("made");
        let path = format!("/proc/self/fd/{}", own.as_raw_fd());
        OutputPlace::end_of(other, path, own.into(), OutputFate::Refused("(os error 6)"))
    }),
    ("standard output that is a socket", |_| {
        let (other, own) = UnixStream::pair().expect("made");
        let place = OutputPlace::new("/dev/stdout", reading(|| other), OutputFate::Follows);
        OutputPlace { stdout: Some(OwnedFd::from(own).into()), ..place }
    }),
    ("a terminal", |_| {
        let pty = openpty(None, None).expect("made");
        let mut settings = tcgetattr(&pty.slave).expect("settings");
        cfmakeraw(&mut settings);
        tcsetattr(&pty.slave, SetArg::TCSANOW, &settings).expect("set");
        let path = fs::read_link(format!("/proc/self/fd/{}", pty.slave.as_raw_fd()));
        let path = path.expect("a name").to_str().expect("text").to_owned();
        // It exists until the linker has ended.
        OutputPlace::end_of(File::from(pty.master), path, pty.slave, OutputFate::Follows)
    }),
    ("the device that forgets", |_| OutputPlace::new("/dev/null", Vec::new, OutputFate::Vanishes)),
    ("the device that is full", |_| {
        OutputPlace::new("/dev/full", Vec::new, OutputFate::Refused("No space left on device"))
    }),
    ("a folder", |world| {
        fs::create_dir(world.join("folder")).expect("made");
        OutputPlace::new("folder", Vec::new, OutputFate::Refused("Is a directory"))
    }),
    ("no folder", |_| OutputPlace::new("no/new", Vec::new, OutputFate::Refused("No such file or directory"))),
    ("a descriptor that is not open", |_| {
        OutputPlace::new("/proc/self/fd/999", Vec::new, OutputFate::Refused("No such file or directory"))
    }),
    ("an open file without a name", |world| {
        let path = world.join("gone");
        let file = old_file(OpenOptions::new().read(true).write(true), &path);
        fs::remove_file(path).expect("removed");
        OutputPlace::open("/proc/self/fd", file, OutputFate::Arrives)
    }),
    ("an open file whose name another one has", |world| {
        let path = world.join("old");
        let file = old_file(OpenOptions::new().read(true).write(true), &path);
        fs::remove_file(&path).expect("removed");
        fs::write(world.join("old (deleted)"), OLD).expect("written");
        write_old(&path);
        OutputPlace::open("/dev/fd", file, OutputFate::Arrives)
    }),
    ("a file of memory", |_| {
        let file = memfd_create(c"output", MFdFlags::empty()).expect("made");
        let mut file = File::from(file);
        file.write_all(OLD).expect("written");
        OutputPlace::open("/proc/self/fd", file, OutputFate::Arrives)
    }),
    ("a temporary file that never had a name", |world| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(OFlag::O_TMPFILE.bits());
        let mut file = options.open(world).expect("made");
        file.write_all(OLD).expect("written");
        OutputPlace::open("/dev/fd", file, OutputFate::Arrives)
    }),
    ("an open file with a name", |world| {
        let file = old_file(OpenOptions::new().read(true).write(true), &world.join("old"));
        OutputPlace::open("/dev/fd", file, OutputFate::Arrives)
    }),
    ("a file that is open for reading", |world| {
        let file = old_file(OpenOptions::new().read(true), &world.join("old"));
        OutputPlace::open("/dev/fd", file, OutputFate::Arrives)
    }),
    ("a file that is open for appending", |world| {
        let file = old_file(OpenOptions::new().read(true).append(true), &world.join("old"));
        OutputPlace::open("/proc/self/fd", file, OutputFate::Follows)
    }),
    ("a link to a file that is open for appending", |world| {
        let file = old_file(OpenOptions::new().read(true).append(true), &world.join("old"));
        let place = OutputPlace::open("/proc/self/fd", file, OutputFate::Follows);
        symlink(&place.path, world.join("link")).expect("made");
        OutputPlace { path: "link".to_owned(), ..place }
    }),
    ("a file that may only be read", |world| {
        fs::create_dir(world.join("folder")).expect("made");
        write_old(&world.join("folder/old"));
        set_mode(&world.join("folder/old"), 0o444);
        set_mode(&world.join("folder"), 0o777);
        OutputPlace::file(world, "folder/old", OutputFate::Refused("Permission denied")).nobody()
    }),
    ("a file in a folder that may only be read", |world| {
        fs::create_dir(world.join("folder")).expect("made");
        write_old(&world.join("folder/old"));
        set_mode(&world.join("folder/old"), 0o666);
        set_mode(&world.join("folder"), 0o555);
        OutputPlace::file(world, "folder/old", OutputFate::Arrives).nobody()
    }),
    ("a new file in a folder that may only be read", |world| {
        fs::create_dir(world.join("folder")).expect("made");
        set_mode(&world.join("folder"), 0o555);
        OutputPlace::file(world, "folder/new", OutputFate::Refused("Permission denied")).nobody()
    }),
    ("another user's file in a sticky folder", |world| {
        fs::create_dir(world.join("folder")).expect("made");
        write_old(&world.join("folder/old"));
        set_mode(&world.join("folder/old"), 0o666);
        set_mode(&world.join("folder"), 0o1777);
        OutputPlace::file(world, "folder/old", OutputFate::Arrives).nobody()
    }),
    ("the empty path", |_| OutputPlace::new("", Vec::new, OutputFate::Refused("No such file or directory"))),
    ("the longest name", |world| OutputPlace::file(world, &"n".repeat(NAME_MAX), OutputFate::Arrives)),
    ("a longer name", |world| {
        OutputPlace::file(world, &"n".repeat(NAME_MAX + 1), OutputFate::Refused("File name too long"))
    }),
    ("a file with the longest path", |world| {
        write_old(&world.join("old"));
        let place = OutputPlace::file(world, "old", OutputFate::Arrives);
        OutputPlace { path: long_path(world, "old", PATH_MAX - 1), ..place }
    }),
    ("a longer path", |world| {
        write_old(&world.join("old"));
        let place = OutputPlace::file(world, "old", OutputFate::Refused("File name too long"));
        OutputPlace { path: long_path(world, "old", PATH_MAX), ..place }
    }),
];

/// The fate of outputs that are exceptions.
fn fate_of(named: OutputOption, name: &str, place: &OutputPlace) -> OutputFate {
    match (named, name, place.fate) {
        // It is only opened by its path, as nvlink does.
        (OutputOption::Times, "standard output that is a socket", _) => {
            OutputFate::Refused("(os error 6)")
        }
        // The table is appended to the file.
        (OutputOption::Times, _, OutputFate::Arrives) => OutputFate::Follows,
        (_, _, fate) => fate,
    }
}

/// A folder with the inputs of the case and a copy of culd, writable for everybody.
fn world() -> tempfile::TempDir {
    world::with_program(CULD, CASE, 0o777)
}

fn link(world: &Path, words: &[String], nobody: bool, stdout: Option<Stdio>) -> Output {
    let mut command = Command::new(world.join("culd"));
    command.args(words).current_dir(world).stdin(Stdio::null());
    command.stdout(stdout.unwrap_or_else(Stdio::piped)).stderr(Stdio::piped());
    if nobody && is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let child = command.spawn().expect("starts");
    // This closes the linker's standard output here.
    drop(command);
    world::ended(child, LIMIT)
}

/// The output at an ordinary place.
fn usual(named: OutputOption) -> Vec<u8> {
    let world = world();
    let output = link(world.path(), &named.words("usual"), false, None);
    assert!(output.status.success(), "{named:?}");
    fs::read(world.path().join("usual")).expect("an output")
}

/// Links to one place.
fn check(named: OutputOption, usual: &[u8], name: &str, make: MakePlace) {
    let world = world();
    // So that it is no new name.
    write_old(&world.path().join("out.cubin"));
    let place = make(world.path());
    if place.nobody
        && is_root()
        && named != OutputOption::Output
        && named != OutputOption::HostScript
    {
        chown(world.path().join("out.cubin"), Some(NOBODY), None).expect("given away");
    }
    let what = format!("{named:?} to {name}, '{:.80}'", place.path);
    let fate = fate_of(named, name, &place);
    let file = world.path().join(place.short());
    let (before, inode) = (names(world.path()), fs::metadata(&file).ok().map(|meta| meta.ino()));
    let OutputPlace { path, inherited, stdout, nobody, found, .. } = place;
    let output = link(world.path(), &named.words(&path), nobody, stdout);
    drop(inherited);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let found = found();
    match fate {
        OutputFate::Arrives => {
            assert!(named.is_whole(&found, usual), "{what}: {} bytes", found.len())
        }
        OutputFate::Follows => {
            // Times have titles in a new file.
            let titles = usual.iter().position(|&byte| byte == b'\n').map_or(0, |end| end + 1);
            let rows = found.strip_prefix(OLD).or_else(|| match named {
                OutputOption::Times => found.get(titles..),
                _ => Some(&found),
            });
            assert!(rows.is_some_and(|rows| named.is_whole(rows, usual)), "{what}: {said}");
        }
        OutputFate::Vanishes => assert!(found.is_empty(), "{what}"),
        OutputFate::Refused(reason) => {
            assert!(said.contains(" fatal   : ") && said.contains(reason), "{what}: {said}");
            assert!(found.is_empty() || found == OLD, "{what}: {} bytes", found.len());
        }
    }
    let refused = matches!(fate, OutputFate::Refused(_));
    assert_eq!(output.status.code(), Some(i32::from(refused)), "{what}: {said}");
    assert_eq!(said.is_empty(), !refused, "{what}: {said}");
    // The only new name is that of a new file.
    let mut expected = before;
    if inode.is_none() && fate == OutputFate::Arrives
        || inode.is_none() && fate == OutputFate::Follows
    {
        expected.push(fs::canonicalize(&file).expect("a new file").display().to_string());
        expected.sort();
    }
    assert_eq!(names(world.path()), expected, "{what}");
    assert!(!Path::new("/memfd:output (deleted)").exists(), "{what}");
    let second = world.path().join("second");
    assert!(
        named == OutputOption::Times || !second.exists() || fs::read(second).expect("read") == OLD
    );
    // For the folder to be removed.
    let _ = fs::set_permissions(world.path().join("folder"), Permissions::from_mode(0o755));
}

#[test]
fn every_output_arrives_at_every_place_or_is_refused() {
    for named in OutputOption::ALL {
        let usual = usual(named);
        for (name, make) in PLACES {
            check(named, &usual, name, *make);
        }
    }
}

/// A new file replaces the old one if possible; else the old file gets the bytes.
#[test]
fn what_can_be_replaced_is_replaced() {
    for (name, replaced) in [
        ("a file", true),
        ("a file with a second name", true),
        ("a chain of links", true),
        ("an open file with a name", false),
        ("a file with the longest path", false),
        ("a file in a folder that may only be read", false),
        ("another user's file in a sticky folder", false),
    ] {
        let (_, make) = PLACES.iter().find(|(place, _)| *place == name).expect(name);
        let world = world();
        let place = make(world.path());
        if place.nobody && !is_root() {
            continue;
        }
        let inode = || fs::metadata(world.path().join(place.short())).expect("there").ino();
        let before = inode();
        let words = OutputOption::Output.words(&place.path);
        // A link of the same files is the same for any user.
        assert!(link(world.path(), &words, place.nobody, None).status.success(), "{name}");
        assert_eq!(inode() != before, replaced, "{name}");
        drop(place.inherited);
        let _ = fs::set_permissions(world.path().join("folder"), Permissions::from_mode(0o755));
    }
}

/// A process opens a file. Two links write to it, one after the other.
#[test]
fn what_is_appended_adds_up() {
    let world = world();
    let usual = usual(OutputOption::Output);
    let path = world.path().join("all");
    for _ in 0..2 {
        let file = OpenOptions::new().append(true).create(true).open(&path).expect("open");
        assert!(file.as_fd().as_raw_fd() > 2);
        let words = OutputOption::Output.words("/dev/stdout");
        assert!(link(world.path(), &words, false, Some(file.into())).status.success());
    }
    assert!(fs::read(path).expect("an output") == [&usual[..], &usual[..]].concat());
}
