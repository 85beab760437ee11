//! `culd -lto` with LTO-IR: what is asked of culd-lto and ptxas, and what is made of their answers. Both are scripts here; with
//! NVIDIA's it is `cargo xtask lto`.
#![allow(clippy::unwrap_used)]

use culd::Arch;
use culd::cubin::build::{Builder, Space, Variable};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");
const QUICKSTART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/quickstart/");

/// A folder with culd, inputs, and a ptxas that makes `smooth.cubin` of any PTX, or `WHOLE` of a whole program.
struct World {
    folder: tempfile::TempDir,
    /// Programs are written and started: another thread that starts one meanwhile would hold them open.
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

impl World {
    fn new() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let world = World { folder: tempfile::tempdir().unwrap(), _alone: alone };
        fs::copy(CULD, world.path("culd")).unwrap();
        fs::write(world.path("a.ltoir"), [b'L'; 64]).unwrap();
        fs::write(world.path("b.ltoir"), [b'M'; 64]).unwrap();
        for name in ["saxpy.cubin", "smooth.cubin"] {
            fs::copy(format!("{QUICKSTART}{name}"), world.path(name)).unwrap();
        }
        let smooth = world.path("smooth.cubin");
        world.script(
            "ptxas",
            &format!(
                "echo \"$*\" >> {}\ncase \"$*\" in *' -c '*) cp {} elf.o;; *) printf WHOLE > elf.o;; esac\n\
                 grep -q 'made of LL MM' ptx || exit 1",
                world.path("assembled").display(),
                smooth.display()
            ),
        );
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn script(&self, name: &str, text: &str) {
        fs::write(self.path(name), format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A culd-lto that makes PTX which names its inputs.
    fn compiler(&self) {
        self.script(
            "culd-lto",
            "out=$2 text='// made of'\necho \"$*\" >> words\nwhile [ $# -gt 0 ]; do\n\
             [ \"$1\" = --input ] && text=\"$text $(head -c 2 $4)\"\nshift\ndone\n\
             printf '%s\\n\\0' \"$text\" > $out",
        );
    }

    fn run(&self, words: &str) -> Output {
        let mut command = Command::new(self.path("culd"));
        command.args(["-arch=sm_90", "-lto", "-nvvmpath=toolkit/nvvm"]);
        command.arg(format!("--ptxas-path={}", self.path("ptxas").display()));
        command.args(words.split(' ')).current_dir(self.folder.path());
        command.env("PATH", "/usr/bin:/bin").env_remove("CUDA_HOME").output().unwrap()
    }

    fn words(&self) -> String {
        fs::read_to_string(self.path("words")).unwrap()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn exists(path: &Path) -> bool {
    path.try_exists().unwrap()
}

#[test]
fn without_a_compiler_the_error_says_what_is_missing() {
    let world = World::new();
    let done = world.run("a.ltoir -o out");
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(
        said(&done),
        "culd fatal   : LTO-IR in 'a.ltoir' cannot be compiled: there is no culd-lto beside this program or in PATH, \
         which compiles it\n"
    );
    assert!(!exists(&world.path("out")));
    world.script("culd-lto", "echo 'no library' >&2; echo 'second line' >&2; exit 1");
    let done = world.run("a.ltoir -o out");
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(
        said(&done),
        "culd fatal   : LTO-IR in 'a.ltoir' cannot be compiled: no library\n  >>> second line\n"
    );
}

#[test]
fn nothing_but_lto_ir_becomes_the_whole_program() {
    let world = World::new();
    world.compiler();
    let done = world.run("a.ltoir b.ltoir -o out");
    assert_eq!((said(&done).as_str(), done.status.code()), ("", Some(0)));
    assert_eq!(fs::read(world.path("out")).unwrap(), b"WHOLE");
    let words = world.words();
    assert!(words.starts_with("ptx /"), "{words}");
    // The toolkit of -nvvmpath comes first, for ptxas too.
    assert!(words.contains("out --toolkit toolkit --toolkit "), "{words}");
    assert!(words.contains(" --option -arch=sm_90 --option -lto --option -ptx"));
    assert!(words.contains("--input ltoir a.ltoir /") && words.contains("--input ltoir b.ltoir /"));
    // PTX is the output if that is asked for; options for the compiler reach it.
    let done = world.run("-emit-ptx -Xnvvm -opt-level=2 a.ltoir b.ltoir -o text");
    assert_eq!((said(&done).as_str(), done.status.code()), ("", Some(0)));
    assert_eq!(fs::read(world.path("text")).unwrap(), b"// made of LL MM\n");
    assert!(world.words().contains("--option -Xnvvm=-opt-level=2"));
}

#[test]
fn options_of_the_compilation_reach_both_compilers() {
    let world = World::new();
    world.compiler();
    let options = "-Ofc=mid -split-compile-extended 2 -device-stack-protector true -Xptxas -v -maxrregcount 40";
    let done = world.run(&format!("{options} a.ltoir b.ltoir -o out"));
    assert_eq!((said(&done).as_str(), done.status.code()), ("", Some(0)));
    let words = world.words();
    for word in [
        "-Ofc=mid",
        "-split-compile-extended=2",
        "-Xptxas=-device-stack-protector=true",
        "-Xptxas=-v",
        "-maxrregcount=40",
    ] {
        assert!(words.contains(&format!("--option {word} ")), "{word}: {words}");
    }
    let assembled = fs::read_to_string(world.path("assembled")).unwrap();
    let given = "-Ofc=mid -device-stack-protector=true -arch=sm_90 -m64 --maxrregcount=40 -v ptx";
    assert!(assembled.starts_with(given), "{assembled}");
    // A PTX input is no LTO-IR: as in nvlink, these are not for it.
    fs::write(world.path("x.ptx"), format!("// made of LL MM\n.version 8.0\n{}", " ".repeat(64)))
        .unwrap();
    fs::remove_file(world.path("assembled")).unwrap();
    world.run("-Ofc=mid -device-stack-protector true x.ptx -o out");
    let assembled = fs::read_to_string(world.path("assembled")).unwrap();
    assert!(assembled.starts_with("-arch=sm_90 -m64 -c ptx"), "{assembled}");
}

#[test]
fn both_compilers_are_of_the_toolkit_of_nvvmpath() {
    let world = World::new();
    world.compiler();
    for toolkit in ["toolkit/bin", "other/bin"] {
        fs::create_dir_all(world.path(toolkit)).unwrap();
    }
    fs::rename(world.path("ptxas"), world.path("toolkit/bin/ptxas")).unwrap();
    world.script("other/bin/ptxas", "exit 1");
    let mut command = Command::new(world.path("culd"));
    command.args([
        "-arch=sm_90",
        "-lto",
        "-nvvmpath=toolkit/nvvm",
        "a.ltoir",
        "b.ltoir",
        "-o",
        "out",
    ]);
    command.env("PATH", world.path("other/bin").display().to_string() + ":/usr/bin:/bin");
    let command = command.env("CUDA_HOME", world.path("other")).current_dir(world.folder.path());
    let done = command.output().unwrap();
    assert_eq!((said(&done).as_str(), done.status.code()), ("", Some(0)));
    assert_eq!(fs::read(world.path("out")).unwrap(), b"WHOLE");
    let other = world.path("other").display().to_string();
    assert!(
        world
            .words()
            .contains(&format!("--toolkit toolkit --toolkit {}", world.path("").display()))
    );
    assert!(world.words().contains(&format!("--toolkit {other} ")), "{}", world.words());
}

#[test]
fn other_code_is_linked_with_it() {
    let world = World::new();
    world.compiler();
    // The function and variable that saxpy needs are in what is made of LTO-IR.
    let done = world.run("saxpy.cubin a.ltoir b.ltoir -o out");
    assert_eq!(
        (said(&done).as_str(), done.status.code()),
        (
            "culd info    : requested LTO but 'saxpy.cubin' not built for LTO so doing partial LTO\n",
            Some(0)
        )
    );
    let image = fs::read(world.path("out")).unwrap();
    let cubin = culd_cubin::Cubin::parse(&image).unwrap();
    assert!(cubin.section_by_name(b".text.smooth").is_some());
    let done = world.run("-r saxpy.cubin a.ltoir b.ltoir -o object");
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
}

#[test]
fn what_other_code_needs_and_the_ptx_has_not_is_explained() {
    let world = World::new();
    world.compiler();
    // An object without the function that saxpy needs.
    let mut builder = Builder::new(Arch::by_name("sm_90").unwrap());
    builder.variable(Variable::zero("offset", Space::Global, 4));
    fs::write(world.path("poor"), builder.finish().unwrap()).unwrap();
    world.script("ptxas", &format!("cp {} elf.o", world.path("poor").display()));
    let done = world.run("saxpy.cubin a.ltoir b.ltoir -o out");
    assert_eq!(
        (said(&done).as_str(), done.status.code()),
        (
            "culd info    : requested LTO but 'saxpy.cubin' not built for LTO so doing partial LTO\n\
             culd error   : Undefined reference to 'smooth' in 'saxpy.cubin'\n  \
             >>> referenced by saxpy.cubin:(saxpy+0x170)\n  \
             >>> of the functions in LTO-IR, libnvJitLink keeps those that LTO-IR uses; compile what else uses them \
             with -dlto, or them without\n",
            Some(255)
        )
    );
}

#[test]
fn a_compiler_that_refuses_ends_the_link() {
    let world = World::new();
    world.compiler();
    world.script("ptxas", "echo 'ptxas ptx, line 3; error   : no' >&2; exit 1");
    let done = world.run("a.ltoir b.ltoir -o out");
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(
        said(&done),
        "ptxas application ptx input, line 3; error   : no\nculd fatal   : elfLink fatbinary error\n"
    );
}
