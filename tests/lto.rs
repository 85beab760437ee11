//! `culd -lto` with LTO-IR: the command lines of culd-lto and ptxas, and the use of their outputs.
//! Both are scripts here; `cargo xtask compare lto` tests with NVIDIA's.
#![allow(clippy::unwrap_used)]

use culd::Arch;
use culd::cubin::build::{Builder, Space, Variable};
use culd_fatbin::container::ImageKind;
use culd_fatbin::host::HostReference;
use culd_fatbin::writer::{ImageTarget, InputImage};
use culd_testkit::fixtures::pack::{self, ArchiveFlavour, HostParts};
use culd_tests::lto_folder::{LtoFolder, said};
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Command;

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");

fn exists(path: &Path) -> bool {
    path.try_exists().unwrap()
}

#[test]
fn without_a_compiler_the_error_says_what_is_missing() {
    let world = LtoFolder::new(CULD);
    let done = world.run("a.ltoir -o out");
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(
        said(&done),
        "culd fatal   : LTO-IR in 'a.ltoir' cannot be compiled: there is no culd-lto beside this program or in PATH, \
         which compiles it\n  >>> culd-lto is a program of culd's own, in every package of culd beside it; in its \
         source, 'cargo install --locked --path crates/culd' installs both\n"
    );
    assert!(!exists(&world.path("out")));
    world.script("culd-lto", "echo 'no library'; echo 'second line' >&2; exit 1");
    let done = world.run("a.ltoir -o out");
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(
        said(&done),
        "culd fatal   : LTO-IR in 'a.ltoir' cannot be compiled: no library\n  >>> second line\n"
    );
}

#[test]
fn nothing_but_lto_ir_becomes_the_whole_program() {
    let world = LtoFolder::new(CULD);
    world.compiler();
    let done = world.run("a.ltoir b.ltoir -o out");
    assert_eq!((said(&done).as_str(), done.status.code()), ("", Some(0)));
    assert_eq!(fs::read(world.path("out")).unwrap(), world.whole());
    let words = world.words();
    // The toolkit of -nvvmpath comes first, for ptxas too.
    assert!(words.starts_with("--toolkit toolkit --toolkit "), "{words}");
    let request = " ptx --option -arch=sm_90 --option -lto --option -ptx \
                   --input ltoir a.ltoir --input ltoir b.ltoir\n";
    assert!(words.ends_with(request), "{words}");
    // The output is PTX if asked for; options for the compiler reach it.
    let done = world.run("-emit-ptx -Xnvvm -opt-level=2 a.ltoir b.ltoir -o text");
    assert_eq!((said(&done).as_str(), done.status.code()), ("", Some(0)));
    assert_eq!(fs::read(world.path("text")).unwrap(), b"// made of LL MM\n");
    assert!(world.words().contains("--option -Xnvvm=-opt-level=2"));
}

#[test]
fn the_whole_program_is_verified_and_has_side_outputs() {
    let world = LtoFolder::new(CULD);
    world.compiler();
    let done = world.run("a.ltoir b.ltoir -o out --verify --stats --trace=t --report=r.json");
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    let bytes = format!("{:>12}  output bytes\n", world.whole().len());
    assert!(said(&done).starts_with(&bytes), "{}", said(&done));
    assert!(fs::read_to_string(world.path("t")).unwrap().contains("\"name\":\"write\""));
    assert!(exists(&world.path("r.json")));
    let done = world.run("-emit-ptx a.ltoir b.ltoir -o text --verify --trace=t2 --report=r2.json");
    let note = "  >>> '--report' has no effect: -emit-ptx makes PTX and no cubin\n";
    assert_eq!((said(&done).as_str(), done.status.code()), (note, Some(0)));
    assert!(exists(&world.path("t2")) && !exists(&world.path("r2.json")));
    // A ptxas that makes no sound cubin.
    world.script(
        "ptxas",
        "head -c 600 whole.cubin > elf.o"
            .replace("whole", world.path("whole").to_str().unwrap())
            .as_str(),
    );
    fs::remove_file(world.path("out")).unwrap();
    let done = world.run("a.ltoir b.ltoir -o out --verify");
    assert_eq!(done.status.code(), Some(1));
    assert!(said(&done).contains("; ptxas made it, and nothing was written"), "{}", said(&done));
    assert!(!exists(&world.path("out")));
}

/// By names the compiler changes functions that other code cannot see.
#[test]
fn notes_about_names_count_those_of_lto_ir() {
    let world = LtoFolder::new(CULD);
    world.compiler();
    let done = world.run("-kernels-used=saxpy a.ltoir b.ltoir -o out");
    assert_eq!((said(&done).as_str(), done.status.code()), ("", Some(0)));
    let done = world.run("-kernels-used=nosuch -u=smooth a.ltoir b.ltoir -o out");
    let notes = "  >>> no kernel has a name that contains 'nosuch' (-kernels-used)\n  \
                 >>> '--undefined' has no effect: LTO-IR is all of the program\n";
    assert_eq!((said(&done).as_str(), done.status.code()), (notes, Some(0)));
    let done = world.run("-emit-ptx -kernels-used=nosuch a.ltoir b.ltoir -o out");
    assert_eq!((said(&done).as_str(), done.status.code()), ("", Some(0)));
}

/// nvlink's line about two options.
const EXTENDED: &str = "culd info    : Incompatible options '-split-compile' and \
                        '-split-compile-extended', using '-split-compile-extended'\n";

#[test]
fn options_of_the_compilation_reach_both_compilers() {
    let world = LtoFolder::new(CULD);
    world.compiler();
    let options = "-Ofc=mid -split-compile 3 -split-compile-extended 2 -device-stack-protector true \
                   -Xptxas -v -maxrregcount 40";
    let done = world.run(&format!("{options} a.ltoir b.ltoir -o out"));
    assert_eq!((said(&done).as_str(), done.status.code()), (EXTENDED, Some(0)));
    let words = world.words();
    for word in ["-Ofc=mid", "-split-compile=2", "-maxrregcount=40"] {
        assert!(words.contains(&format!("--option {word} ")), "{word}: {words}");
    }
    assert!(!words.contains("-split-compile=3"), "{words}");
    let given = "-arch=sm_90 -m64 -v -Ofc=mid -device-stack-protector=true -split-compile=3 \
                 --maxrregcount=40";
    assert_eq!(world.assembled(), format!("{given} ptx -o elf.o\n"));
    // As nvlink does, culd compiles PTX inputs with the same options.
    fs::write(world.path("x.ptx"), format!("// made of LL MM\n.version 8.0\n{}", " ".repeat(64)))
        .unwrap();
    world.run(&format!("{options} x.ptx -o out"));
    assert_eq!(world.assembled(), format!("{given} -c ptx -o elf.o\n"));
    // Options without an effect are not passed on.
    world.run(
        "-Ofc=0 -split-compile 1 -maxrregcount=-1 -g -suppress-debug-info a.ltoir b.ltoir -o out",
    );
    assert_eq!(world.assembled(), "-arch=sm_90 -m64 ptx -o elf.o\n");
    let words = world.words();
    assert!(!words.contains("-option -g"), "{words}");
}

/// docs/rules/lto.md, 3: such an option changes what NVIDIA's compiler does in the rest of its
/// process.
#[test]
fn a_compilation_without_optimization_is_the_last_one_of_its_process() {
    for (options, requests, processes) in
        [("", 2, 1), ("-g", 2, 2), ("-Ofc=max", 2, 2), ("-Xnvvm=-opt=0", 2, 2)]
    {
        let world = LtoFolder::new(CULD);
        // An object without PTX, and then the text by names.
        world.compiler_and("echo $$ >> processes");
        let words = format!("{options} -disable-infos a.ltoir b.ltoir smooth.cubin -o out");
        world.run_words(words.split_whitespace());
        let asked = world.taken("processes");
        let asked: Vec<&str> = asked.lines().collect();
        let distinct: HashSet<&str> = asked.iter().copied().collect();
        assert_eq!((asked.len(), distinct.len()), (requests, processes), "{options}: {asked:?}");
    }
}

/// nvlink 13.3 and later say of a PTX file that it has no host code when they have compiled it.
/// What ptxas says in two lines stays in two.
#[test]
fn a_missing_host_code_is_reported_behind_the_compilation() {
    let world = LtoFolder::new(CULD);
    world.compiler();
    world.script(
        "ptxas",
        &format!(
            "printf 'compiled\\n    in two lines\\n' >&2; cp {} elf.o",
            world.path("smooth.cubin").display()
        ),
    );
    fs::write(world.path("x.ptx"), format!(".version 9.0\n.target sm_90\n{}", " ".repeat(64)))
        .unwrap();
    let options = "--dialect=13.5 --disable-warnings --register-link-binaries=reg";
    let done = world.run(&format!("{options} x.ptx -o out"));
    let expected = "compiled\n    in two lines\n\
                    culd info    : Input 'x.ptx' has no host code, which could cause later host link error if there is a reference to it\n\
                    culd info    : requested LTO but 'x.ptx' not built for LTO so doing partial LTO\n";
    assert!(said(&done).starts_with(expected), "{}", said(&done));
}

/// docs/rules/lto.md, 8. Fat binaries do not start with the letters that the scripts look for.
#[test]
fn options_beside_lto_ir_count_for_its_compilation_only() {
    let world = LtoFolder::new(CULD);
    world.compiler_and("printf '// made of LL MM\\n\\0' > made");
    let write = |name: &str, options: &str| {
        let image = InputImage::new(ImageKind::LtoIr, (13, 0), ImageTarget::sm(90), [b'L'; 64]);
        fs::write(world.path(name), pack::fatbin(&[image.options(options)]).unwrap()).unwrap();
    };
    write("a.fatbin", "-maxreg 24 -split-compile 2 -inline-info -ftz=0");
    write("b.fatbin", "-ftz=0");
    let done = world.run("-disable-infos a.fatbin b.fatbin -o out");
    let lacks = "culd info    : Some objects do not have '-maxrregcount' specified but others do; \
                 will build everything with '-maxrregcount=24'\n";
    assert_eq!((said(&done).as_str(), done.status.code()), (lacks, Some(0)));
    assert_eq!(
        world.assembled(),
        "-arch=sm_90 -m64 -split-compile=2 --maxrregcount=24 ptx -o elf.o\n"
    );
    let words = world.words();
    for word in ["-Xnvvm=-inline-info", "-split-compile=2", "-maxrregcount=24"] {
        assert!(words.contains(&format!("--option {word} ")), "{word}: {words}");
    }
    // Not for PTX, and not where the link has a limit.
    fs::write(world.path("x.ptx"), format!("// made of LL MM\n.version 8.0\n{}", " ".repeat(64)))
        .unwrap();
    world.run("x.ptx a.fatbin -o out");
    let assembled = world.assembled();
    assert!(assembled.contains("-arch=sm_90 -m64 -c ptx"), "{assembled}");
    world.words();
    let done = world.run("-maxrregcount=40 a.fatbin b.fatbin -o out");
    assert_eq!((said(&done).as_str(), done.status.code()), ("", Some(0)));
    assert!(world.assembled().contains("--maxrregcount=40"));
    write("b.fatbin", "-maxreg 32");
    let done = world.run("a.fatbin b.fatbin -o other");
    let fatal = "culd fatal   : Cicc option values for '-maxrregcount' do not match\n  \
                 >>> -maxrregcount=24 in 'a.fatbin', -maxrregcount=32 in 'b.fatbin'\n";
    assert!(said(&done).starts_with(fatal), "{}", said(&done));
    assert!(!exists(&world.path("other")));
}

#[test]
fn options_of_the_link_win_over_words_for_ptxas() {
    let world = LtoFolder::new(CULD);
    world.compiler();
    world.run("-maxrregcount=24 -Xptxas=-maxrregcount=32 a.ltoir b.ltoir -o out");
    let given = "-arch=sm_90 -m64 -maxrregcount=32 --maxrregcount=24";
    assert_eq!(world.assembled(), format!("{given} ptx -o elf.o\n"));
}

/// A program with libcudadevrt and LTO-IR whose names are not known: an object, which takes ten
/// times as long for large libraries, is made only if nothing else tells whether it is whole.
#[test]
fn the_compiled_program_shows_which_functions_its_lto_ir_defines() {
    let world = LtoFolder::new(CULD);
    // The compiler's text of a whole program, and an object without the functions in question.
    world.compiler_and("[ $kind = object ] || cp text made");
    let text = "// made of LL MM\n.visible .entry k () {\n\tret;\n}\n";
    fs::write(world.path("text"), text).unwrap();
    make_system_library(&world);
    // LTO-IR with PTX beside it that needs `needs`: in its kernel, or in a function without calls.
    let run = |needs: &str, in_kernel: bool| {
        let call = format!("\tcall {needs};\n");
        let (dead, kernel) = if in_kernel { ("", call.as_str()) } else { (call.as_str(), "") };
        let ptx = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.extern .func {needs}\n()\n;\n\
             .visible .func dead () {{\n{dead}\tret;\n}}\n\
             .visible .entry k () {{\n{kernel}\tret;\n}}\n"
        );
        let lto = InputImage::new(ImageKind::LtoIr, (13, 0), ImageTarget::sm(90), [b'L'; 64]);
        let ptx = InputImage::new(ImageKind::Ptx, (13, 0), ImageTarget::sm(90), ptx);
        fs::write(world.path("a.fatbin"), pack::fatbin(&[lto, ptx]).unwrap()).unwrap();
        let done = world.run("a.fatbin b.ltoir -L. -lcudadevrt -o out");
        let words = world.words();
        let kind = |line: &str| if line.contains(" object --") { "object" } else { "ptx" };
        let requests: Vec<&str> = words.lines().map(kind).collect();
        (said(&done), requests)
    };
    let partial = |name: &str| {
        format!("culd info    : doing partial LTO because no LTO-IR defines '{name}'\n")
    };
    // The kernel calls it and nothing is missing in the program, so b.ltoir defines it.
    assert_eq!(run("outside", true), (String::new(), vec!["ptx"]));
    // It may have been dropped with the function that needs it: the object has no such function.
    assert_eq!(run("outside", false).1[..2], ["ptx", "object"]);
    assert!(run("outside", false).0.contains(&partial("outside")));
    // It is in the program.
    let defined = format!("{text}.visible .func outside () {{\n\tret;\n}}\n");
    fs::write(world.path("text"), defined).unwrap();
    assert_eq!(run("outside", false), (String::new(), vec!["ptx"]));
    // The program needs it still.
    fs::write(world.path("text"), format!("{text}.extern .func outside ();\n")).unwrap();
    assert_eq!(run("outside", true).1[..2], ["ptx", "object"]);
    // libcudadevrt defines it: nothing has to be asked, and the object is the part's.
    let (said, requests) = run("smooth", true);
    assert!(said.contains(&partial("smooth")), "{said}");
    assert_eq!(requests[0], "object");
}

/// A host object with `image`.
fn host_object(name: &str, image: InputImage) -> Vec<u8> {
    let parts = HostParts {
        fatbins: vec![pack::fatbin(&[image]).unwrap()],
        module_ids: vec![format!("_1_{name}")],
        ..HostParts::default()
    };
    pack::host_object(&parts).unwrap()
}

/// Makes a libcudadevrt.a that defines `smooth`.
fn make_system_library(world: &LtoFolder) {
    let smooth = fs::read(world.path("smooth.cubin")).unwrap();
    let image = InputImage::cubin(smooth, ImageTarget::sm(90)).unwrap();
    let host = host_object("system", image);
    let library = pack::archive(&[("system.o", &host)], ArchiveFlavour::Gnu);
    fs::write(world.path("libcudadevrt.a"), library).unwrap();
}

/// To nvlink such a program needs libcudadevrt (docs/rules/lto.md, 1).
#[test]
fn lto_ir_without_a_kernel_is_a_part_of_the_program() {
    const PART: &str = "culd info    : doing partial LTO because no LTO-IR has a kernel\n";
    let world = LtoFolder::new(CULD);
    make_system_library(&world);
    // The text of a whole program depends on whether kernels are chosen.
    world.compiler_and(
        "[ $kind = object ] || case \"$line\" in *kernels-used*) cp chosen made;; *) cp all made;; esac",
    );
    let lto = InputImage::new(ImageKind::LtoIr, (13, 0), ImageTarget::sm(90), [b'L'; 64]);
    fs::write(world.path("host.o"), host_object("lto", lto)).unwrap();
    let other = InputImage::new(ImageKind::Elf, (1, 0), ImageTarget::sm(80), [0; 64]);
    fs::write(world.path("other.fatbin"), pack::fatbin(&[other]).unwrap()).unwrap();
    let (function, kernel) =
        ("// made of LL MM\n.visible .func f () {\n\tret;\n}\n", ".entry k () {\n\tret;\n}\n");
    let run = |words: &str, all: &str, chosen: &str| {
        fs::write(world.path("all"), format!("{function}{all}")).unwrap();
        fs::write(world.path("chosen"), format!("{function}{chosen}")).unwrap();
        let done = world.run(&format!("-w -L. -lcudadevrt -o out {words}"));
        let requests = world.words();
        let kind = |line: &str| if line.contains(" object --") { "object" } else { "ptx" };
        let requests: Vec<&str> = requests.lines().map(kind).collect();
        (said(&done).contains(PART), requests[..2.min(requests.len())].join(" "))
    };
    let [whole, part] = [(false, "ptx".to_owned()), (true, "ptx object".to_owned())];
    assert_eq!(run("host.o b.ltoir", "", ""), part);
    assert_eq!(run("host.o b.ltoir", kernel, ""), whole);
    // Only host objects and files without an image ask for the library; before 13.0 all do.
    assert_eq!(run("a.ltoir b.ltoir", "", ""), whole);
    assert_eq!(run("a.ltoir b.ltoir other.fatbin", "", ""), part);
    assert_eq!(run("--dialect=12.4 a.ltoir b.ltoir", "", ""), part);
    assert_eq!(run("--dialect=12.4 a.ltoir b.ltoir", kernel, ""), whole);
    // A kernel that is not chosen is one.
    let chosen = "-kernels-used=none host.o b.ltoir";
    assert_eq!(run(chosen, kernel, ""), (false, "ptx ptx".to_owned()));
    assert_eq!(run(chosen, "", ""), (true, "ptx ptx".to_owned()));
    assert_eq!(run(chosen, kernel, kernel), whole);
    // Without the library nvlink ends; the program is the one with it.
    fs::write(world.path("all"), function).unwrap();
    let done = world.run("-w -o out host.o b.ltoir");
    assert!(said(&done).contains(PART), "{}", said(&done));
}

/// It loads while the text is made. A script is not started then: it might not open the file.
#[test]
fn ptxas_is_started_before_its_text_if_threads_may_be() {
    let world = LtoFolder::new(CULD);
    world.compiler();
    // It reads the text as ptxas does, and says whether there was one at its start.
    let program = r#"#include <stdio.h>
#include <sys/stat.h>
int main(void) {
    static char bytes[65536];
    struct stat text;
    FILE *said = fopen(AHEAD, "w"), *in, *out;
    fputs(stat("ptx", &text) == 0 && text.st_size == 0 ? "ahead" : "with its text", said);
    fclose(said);
    for (int time = 0; time < 2; time++) {
        size_t all = 0, size;
        in = fopen("ptx", "r");
        while ((size = fread(bytes, 1, sizeof bytes, in)) > 0) all += size;
        fclose(in);
        if (all != 17) return 1;
    }
    in = fopen(CUBIN, "r"), out = fopen("elf.o", "w");
    fwrite(bytes, 1, fread(bytes, 1, sizeof bytes, in), out);
    return fclose(out);
}
"#;
    fs::write(world.path("ptxas.c"), program).unwrap();
    let name = |name: &str, path: &str| format!("-D{name}=\"{}\"", world.path(path).display());
    let made = Command::new("gcc")
        .args([name("AHEAD", "ahead"), name("CUBIN", "whole.cubin")])
        .args(["-o", "ptxas", "ptxas.c"])
        .current_dir(world.folder.path())
        .status();
    assert!(made.unwrap().success());
    // A folder for temporary files.
    fs::create_dir(world.path("left")).unwrap();
    let run = |words: &str| {
        world.command(words.split(' ')).env("TMPDIR", world.path("left")).output().unwrap()
    };
    let left = || fs::read_dir(world.path("left")).unwrap().count();
    // The text comes when ptxas runs.
    let waits = "for time in $(seq 100); do [ -s ahead ] && break; sleep 0.1; done";
    for (threads, more, expected) in [("2", waits, "ahead"), ("1", "", "with its text")] {
        world.compiler_and(more);
        let done = run(&format!("-threads={threads} a.ltoir b.ltoir -o out"));
        assert_eq!((said(&done).as_str(), done.status.code()), ("", Some(0)), "{threads}");
        assert_eq!(fs::read(world.path("out")).unwrap(), world.whole());
        assert_eq!((world.taken("ahead").as_str(), left()), (expected, 0));
    }
    // Without a text it ends, and its folder is gone.
    world.compiler_and("said='refused 5 by lib'; : > made");
    let done = run("-threads=2 a.ltoir b.ltoir -o other");
    assert_eq!(done.status.code(), Some(1), "{}", said(&done));
    assert!(!exists(&world.path("other")) && left() == 0);
}

#[test]
fn words_for_the_compilers_are_split_as_nvlink_does() {
    let world = LtoFolder::new(CULD);
    world.compiler();
    let words = ["-Xptxas", "-O3 -v ", "-Xptxas", "a\tb\\c", "-Xnvvm", " -ftz=1 -fma\\ d\te"];
    let done = world.run_words(words.into_iter().chain(["a.ltoir", "b.ltoir", "-o", "out"]));
    assert_eq!((said(&done).as_str(), done.status.code()), ("", Some(0)));
    assert_eq!(world.assembled(), "-arch=sm_90 -m64 -O3 -v a b\\c ptx -o elf.o\n");
    let words = world.words();
    assert!(words.contains("--option -Xnvvm=-ftz=1 --option -Xnvvm=-fma d\te "), "{words}");
}

#[test]
fn used_names_are_passed_on_where_lto_ir_is_all_of_the_program() {
    let world = LtoFolder::new(CULD);
    world.compiler();
    world.run("-kernels-used=k,m a.ltoir b.ltoir -o out");
    let words = world.words();
    let message =
        "--option -kernels-used=k --option -kernels-used=m --option -optimize-unused-variables";
    assert!(words.contains(message), "{words}");
    world.run("-variables-used=v a.ltoir b.ltoir -o out");
    let words = world.words();
    assert!(words.contains("--option -variables-used=v --input"), "{words}");
    // If there is other code, the linker makes the selection.
    world.run("-kernels-used=k saxpy.cubin a.ltoir b.ltoir -o out");
    let words = world.words();
    assert!(!words.contains("-used"), "{words}");
}

#[test]
fn messages_of_the_compiler_are_reported_as_by_nvlink() {
    let world = LtoFolder::new(CULD);
    world.compiler_and(
        "said=\"$said\n$(printf 'opt: no such option\\n.')\" said=${said%.}; echo 'raw line' >&2",
    );
    let done = world.run("a.ltoir b.ltoir -o out");
    let expected = "raw line\nculd info    : opt: no such option\n\n";
    assert_eq!((said(&done).as_str(), done.status.code()), (expected, Some(0)));
    for (code, report, message) in [
        (4, "ptxas input, line 9; error   : no\\nERROR X\\n", "fatbinary error"),
        (5, "x.o: no\\nERROR NVVM_ERROR_X (9) in nvvmCompileProgram\\n", "JIT compile failed"),
        (14, "newer\\n", "nvvm error"),
    ] {
        let report = format!("$(printf 'refused {code} by /lib\\n{report}.')");
        world.compiler_and(&format!("said=\"{report}\" said=${{said%.}}; : > made"));
        let done = world.run("a.ltoir b.ltoir -o new");
        assert_eq!(done.status.code(), Some(1));
        let refused = format!("  >>> '/lib' refused (code {code})\n");
        let (first, notes) = match code {
            4 => ("ptxas input, line 9; error   : no\n", String::new()),
            5 => ("culd info    : x.o: no\nNVVM_ERROR_X\n", refused),
            _ => ("", refused + "  >>> newer\n"),
        };
        let fatal = format!("culd fatal   : elfLink {message}\n");
        assert_eq!(said(&done), format!("{first}{fatal}{notes}"));
        assert!(!exists(&world.path("new")));
    }
}

#[test]
fn the_link_ends_at_lto_ir_that_the_library_does_not_take() {
    let world = LtoFolder::new(CULD);
    let partial = |name: &str| {
        format!(
            "culd info    : requested LTO but '{name}' not built for LTO so doing partial LTO\n"
        )
    };
    let (saxpy, smooth) = (partial("saxpy.cubin"), partial("smooth.cubin"));
    // The code is one of the compiler: it compiles when all inputs are read.
    for (code, place, said_before) in
        [(14, 0, String::new()), (14, 1, saxpy.clone()), (13, 1, format!("{saxpy}{smooth}"))]
    {
        let report = format!("$(printf 'refused {code} at {place} by /lib\nnewer\n.')");
        world.compiler_and(&format!("said=\"{report}\" said=${{said%.}}; : > made"));
        let done = world.run("a.ltoir saxpy.cubin b.ltoir smooth.cubin -o new");
        assert_eq!(done.status.code(), Some(1));
        let message = if code == 14 { "nvvm error" } else { "JIT compile failed" };
        let fatal = format!("culd fatal   : elfLink {message}\n");
        let said = said(&done);
        let lines: String = said
            .lines()
            .filter(|line| !line.starts_with("  >>>"))
            .fold(String::new(), |all, line| all + line + "\n");
        assert_eq!(lines, said_before + &fatal, "{code} {place}");
    }
}

#[test]
fn a_folder_of_nvvmpath_that_is_not_there_is_an_error() {
    let world = LtoFolder::new(CULD);
    world.compiler();
    fs::remove_dir(world.path("toolkit/nvvm")).unwrap();
    // Nothing is said of an input that is not for LTO.
    for inputs in ["a.ltoir -o out", "saxpy.cubin a.ltoir -o out", "a.ltoir saxpy.cubin -o out"] {
        let done = world.run(inputs);
        assert_eq!(done.status.code(), Some(1), "{inputs}");
        assert_eq!(
            said(&done),
            "culd fatal   : elfLink linker library load error\n  \
             >>> 'toolkit/nvvm', which -nvvmpath names, is no folder\n",
            "{inputs}"
        );
    }
    // So it is for a virtual target without an output, for which nothing is compiled.
    let mut command = Command::new(world.path("culd"));
    command.args(["-arch=compute_90", "-lto", "-nvvmpath=toolkit/nvvm", "a.ltoir", "saxpy.cubin"]);
    let done = command.current_dir(world.folder.path()).output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert!(said(&done).starts_with("culd fatal   : elfLink linker library load error\n"));
}

#[test]
fn both_compilers_are_of_the_toolkit_of_nvvmpath() {
    let world = LtoFolder::new(CULD);
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
    assert_eq!(fs::read(world.path("out")).unwrap(), world.whole());
    let other = world.path("other").display().to_string();
    let words = world.words();
    let first = format!("--toolkit toolkit --toolkit {}", world.path("").display());
    assert!(words.contains(&first), "{words}");
    assert!(words.contains(&format!("--toolkit {other} ")), "{words}");
}

#[test]
fn the_compiler_finds_no_driver() {
    let world = LtoFolder::new(CULD);
    // The loader takes the first file of that name, and an empty one ends its search.
    world.compiler_and(
        "first=${LD_LIBRARY_PATH%%:*}\n[ -f $first/libcuda.so.1 ] && [ ! -s $first/libcuda.so.1 ] && \
         echo \"${LD_LIBRARY_PATH#*:}\" > others",
    );
    let run = |folders: Option<&str>| {
        let mut command = world.command("a.ltoir b.ltoir -o out".split(' '));
        match folders {
            Some(folders) => command.env("LD_LIBRARY_PATH", folders),
            None => command.env_remove("LD_LIBRARY_PATH"),
        };
        let done = command.output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{}", said(&done));
        world.taken("others")
    };
    assert_eq!(run(Some("/its:/folders")), "/its:/folders\n");
    // One folder alone: the script finds no other behind it.
    let alone = run(None);
    assert!(alone.ends_with('\n') && !alone.contains(':'), "{alone}");
}

#[test]
fn other_code_is_linked_with_it() {
    let world = LtoFolder::new(CULD);
    world.compiler();
    // The cubin made of LTO-IR has the function and variable that saxpy needs.
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
    // The compiler gets the names that have to stay.
    let roots = fs::read_to_string(world.path("roots")).unwrap();
    assert!(roots.contains("declare void @\"smooth\"()\n"), "{roots}");
    let words = world.words();
    assert!(words.contains(" ptx --roots "), "{words}");
    // The names come from an object of it.
    assert!(words.lines().any(|line| line.contains(" object --option ")), "{words}");
    let done = world.run("-r saxpy.cubin a.ltoir b.ltoir -o object");
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    world.words();
    // Where names are wanted in any case, a program of its own makes LTO-IR of them.
    let done = world.run("-threads=2 -Xptxas=-lineinfo saxpy.cubin a.ltoir b.ltoir -o lines");
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    assert!(world.words().contains(" ptx --made-roots "));
}

/// The PTX in an object is nvlink's, so there is no second compilation; without lines of source
/// files only its names count.
#[test]
fn what_other_code_needs_and_the_ptx_has_not_is_explained() {
    let world = LtoFolder::new(CULD);
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
             >>> referenced by saxpy.cubin:(saxpy+0x170)\n",
            Some(255)
        )
    );
}

/// Without them, functions that only other code uses would be missing.
#[test]
fn names_that_cannot_be_had_end_the_link() {
    let world = LtoFolder::new(CULD);
    for (more, why) in [
        ("[ $kind = object ] && kill -9 $$; true", "it does not say why"),
        ("[ $kind = object ] && cp ptxas made; true", "libnvJitLink made no object of LTO-IR"),
    ] {
        world.compiler_and(more);
        let done = world.run("saxpy.cubin a.ltoir b.ltoir -o out");
        assert_eq!(done.status.code(), Some(1), "{}", said(&done));
        let line = format!("culd fatal   : LTO-IR in 'a.ltoir' cannot be compiled: {why}\n");
        assert!(said(&done).ends_with(&line), "{}", said(&done));
        assert!(!world.path("out").exists());
    }
}

#[test]
fn a_ptxas_that_is_missing_or_of_another_release_or_none_is_named() {
    const VERSION: &str = "[ \"$1\" = --version ] && { echo 'ptxas: NVIDIA (R) Ptx optimizing assembler'; \
                           echo 'Cuda compilation tools, release 13.1, V13.1.9'; exit 0; }";
    let world = LtoFolder::new(CULD);
    world.compiler();
    let ptxas = world.path("ptxas").display().to_string();
    let cases = [
        // A release other than the one that made the PTX.
        (
            format!(
                "{VERSION}\necho 'ptxas ptx, line 1; fatal   : Unsupported .version 9.5' >&2; exit 1"
            ),
            "ptxas application ptx input, line 1; fatal   : Unsupported .version 9.5\n\
             culd fatal   : elfLink fatbinary error\n  \
             >>> 'PTXAS' is of release 13.1; the text was made for a later one\n",
        ),
        // A program of another kind that succeeds or fails.
        (
            "exit 0".to_owned(),
            "culd fatal   : PTX in 'lto.cubin' cannot be compiled: 'PTXAS' made no cubin; it is no ptxas\n",
        ),
        (
            "exit 3".to_owned(),
            "culd fatal   : elfLink fatbinary error\n  \
             >>> 'PTXAS' said nothing (exit status: 3); it is no ptxas\n",
        ),
        (
            "echo 'ls: no such option' >&2; exit 2".to_owned(),
            "ls: no such option\nculd fatal   : elfLink fatbinary error\n  >>> 'PTXAS' is no ptxas\n",
        ),
        // One that makes objects only.
        (
            format!("cp {} elf.o", world.path("smooth.cubin").display()),
            "culd fatal   : PTX in 'lto.cubin' cannot be compiled: 'PTXAS' made no cubin; it is no ptxas\n",
        ),
    ];
    for (script, expected) in cases {
        world.script("ptxas", &script);
        let done = world.run("a.ltoir b.ltoir -o out");
        assert_eq!(said(&done), expected.replace("PTXAS", &ptxas), "{script}");
        assert_eq!(done.status.code(), Some(1));
    }
    fs::remove_file(&ptxas).unwrap();
    let done = world.run("a.ltoir b.ltoir -o out");
    let message = said(&done);
    let begin =
        format!("culd fatal   : PTX in 'lto.cubin' cannot be compiled: cannot run '{ptxas}': ");
    assert!(message.starts_with(&begin), "{message}");
    let mut command = Command::new(world.path("culd"));
    command.args(["-arch=sm_90", "-lto", "-nvvmpath=toolkit/nvvm", "a.ltoir", "-o", "out"]);
    command.current_dir(world.folder.path()).env("PATH", "/usr/bin:/bin");
    for name in ["CUDA_HOME", "CUDA_PATH"] {
        command.env_remove(name);
    }
    let message = said(&command.output().unwrap());
    let begin =
        "culd fatal   : PTX in 'lto.cubin' cannot be compiled: no ptxas: there is none beside";
    assert!(message.starts_with(begin), "{message}");
    assert!(!world.path("out").exists());
}

#[test]
fn a_backslash_at_the_end_of_a_value_for_the_compiler_is_an_error() {
    let world = LtoFolder::new(CULD);
    world.compiler();
    let words = ["-Xnvvm", "-ftz=1\\", "saxpy.cubin", "a.ltoir", "b.ltoir", "-o", "out"];
    let done = world.run_words(words.into_iter());
    assert_eq!(done.status.code(), Some(1));
    let partial = "requested LTO but 'saxpy.cubin' not built for LTO so doing partial LTO";
    let fatal = "culd fatal   : Stray '' character\n  >>> in the value of -Xnvvm\n";
    assert_eq!(said(&done), format!("culd info    : {partial}\n{fatal}"));
    assert!(!world.path("words").exists(), "the compiler was not started");
}

#[test]
fn a_compiler_that_refuses_ends_the_link() {
    let world = LtoFolder::new(CULD);
    world.compiler();
    world.script("ptxas", "echo 'ptxas ptx, line 3; error   : no' >&2; exit 1");
    let done = world.run("a.ltoir b.ltoir -o out");
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(
        said(&done),
        "ptxas application ptx input, line 3; error   : no\nculd fatal   : elfLink fatbinary error\n"
    );
}

/// To nvlink before 13.5 a file without an image for the target is LTO-IR as far as places are
/// concerned.
#[test]
fn code_of_lto_ir_stands_where_the_last_file_without_an_image_does() {
    let world = LtoFolder::new(CULD);
    world.compiler();
    let image = InputImage::new(ImageKind::Elf, (1, 0), ImageTarget::sm(80), [0; 64]);
    fs::write(world.path("other.fatbin"), pack::fatbin(&[image]).unwrap()).unwrap();
    let linked = |release: &str, inputs: &str| {
        let done = world.run(&format!("--dialect={release} -w {inputs} -o out"));
        assert_eq!(done.status.code(), Some(0), "{}", said(&done));
        fs::read(world.path("out")).unwrap()
    };
    let [first, last] = ["a.ltoir b.ltoir saxpy.cubin", "saxpy.cubin a.ltoir b.ltoir"]
        .map(|inputs| linked("13.0", inputs));
    assert!(first != last);
    assert!(linked("13.0", "a.ltoir b.ltoir saxpy.cubin other.fatbin") == last);
    assert!(linked("13.0", "other.fatbin a.ltoir b.ltoir saxpy.cubin") == first);
    assert!(linked("13.0", "a.ltoir b.ltoir other.fatbin saxpy.cubin") == first);
    let since_13_5 = |inputs| linked("13.5", inputs);
    let first = since_13_5("a.ltoir b.ltoir saxpy.cubin");
    assert!(since_13_5("saxpy.cubin a.ltoir b.ltoir other.fatbin") == first);
}

/// docs/DIALECTS.md: rules of releases before 13.0.
#[test]
fn older_releases_compile_lto_ir_by_their_rules() {
    let world = LtoFolder::new(CULD);
    // A program without a kernel would need libcudadevrt.
    let kernel = "printf '%s\\n.visible .entry k () {\\n}\\n\\0' \"$text\" > made";
    world.compiler_and(&format!("[ $kind = object ] || {kernel}"));
    // Only one of the options is known, and not to ptxas.
    for (more, line, passed) in [("", "", true), ("-split-compile-extended 2 ", EXTENDED, false)] {
        let done =
            world.run(&format!("--dialect=12.4 -split-compile 3 {more}a.ltoir b.ltoir -o out"));
        assert_eq!((said(&done).as_str(), done.status.code()), (line, Some(0)));
        let words = world.words();
        assert_eq!(words.contains("--option -split-compile=3 --input"), passed, "{words}");
        assert!(passed || !words.contains("-split-compile"), "{words}");
        assert_eq!(world.assembled(), "-arch=sm_90 -m64 ptx -o elf.o\n");
    }
    // -r makes a program.
    let done = world.run("--dialect=12.4 -r a.ltoir b.ltoir -o program");
    assert_eq!((said(&done).as_str(), done.status.code()), ("", Some(0)));
    assert_eq!(fs::read(world.path("program")).unwrap(), world.whole());
    assert!(!world.words().contains("roots"));
    world.run("-r a.ltoir b.ltoir -o object");
    assert!(world.words().contains("--roots"));
    // Without lists of kernels in all inputs, all kernels stay.
    let image = InputImage::new(ImageKind::LtoIr, (12, 4), ImageTarget::sm(90), [b'L'; 64]);
    let host = pack::host_object(&HostParts {
        fatbins: vec![pack::fatbin(std::slice::from_ref(&image)).unwrap()],
        module_ids: vec!["_1_host_cu".to_owned()],
        references: vec![(HostReference::Kernel, vec!["launched".to_owned()])],
        ..HostParts::default()
    });
    fs::write(world.path("host.o"), host.unwrap()).unwrap();
    fs::write(world.path("c.fatbin"), pack::fatbin(&[image]).unwrap()).unwrap();
    for (line, selects) in [
        ("--dialect=12.4 host.o -o out", true),
        ("--dialect=12.4 host.o a.ltoir -o out", false),
        ("--dialect=12.4 c.fatbin host.o -o out", false),
        ("--dialect=13.0 host.o a.ltoir -o out", true),
        ("--dialect=13.0 c.fatbin host.o -o out", true),
    ] {
        world.run(line);
        assert_eq!(world.words().contains("-kernels-used=launched"), selects, "{line}");
    }
}
