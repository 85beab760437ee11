//! `culd install-shadow` with the real program: the installed program runs as nvlink.
//!
//! `cargo xtask compare e2e` shows that nvcc and CMake find it; it needs them.

use culd_testkit::fixtures::case;
use culd_tests::world::ProgramFolder;
use culd_tests::{FinishedCommand, command};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");

fn run(program: &Path, name: &str, words: &str, dir: &Path) -> FinishedCommand {
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    command(program, name, &words, dir).expect("it runs")
}

/// A folder with a toolkit of two empty tools and the inputs of a case.
fn world(case: &case::Case) -> ProgramFolder {
    let world = ProgramFolder::new();
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

const LINK: &str = "-arch=sm_90 a.cubin b.cubin -o out.cubin";

/// Makes the shadow `tk` of `toolkit` in `world` by the program at `culd`.
fn install(culd: &Path, world: &Path) {
    let done = run(culd, "culd", "install-shadow tk --cuda toolkit", world);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    assert!(done.stdout.contains("tk/bin/nvcc'"), "{}", done.stdout);
}

/// Checks that the output is that of the case.
fn assert_linked(case: &case::Case, world: &Path) {
    let linked = fs::read(world.join("out.cubin")).expect("an output");
    let expected = case.expected_output().expect("it is text").expect("the case links");
    assert_eq!(culd_testkit::reference::compare::cubins(&expected, &linked), None);
}

#[test]
fn the_nvlink_of_a_shadow_is_culd() {
    let case = case::named("headers-and-order/every-section-90").expect("the case");
    let world = world(&case);
    install(Path::new(CULD), world.path());
    let nvlink = world.path().join("tk/bin/nvlink");
    let done = run(&nvlink, "nvlink", LINK, world.path());
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    assert_linked(&case, world.path());

    let done = run(&nvlink, "nvlink", "-arch=sm_90 missing.cubin -o no", world.path());
    let line = done.stderr.lines().next();
    assert_eq!(line, Some("nvlink fatal   : Could not open input file 'missing.cubin'"));
    assert_eq!(done.status, 1);
}

/// nvcc runs the first nvlink of PATH: that of the shadow, or another one if that cannot run.
#[test]
fn a_shadow_links_though_culd_and_the_shadow_have_moved() {
    let case = case::named("headers-and-order/every-section-90").expect("the case");
    let world = world(&case);
    let at = |name: &str| world.path().join(name);
    for folder in ["target", "other"] {
        fs::create_dir(at(folder)).expect("made");
    }
    fs::copy(CULD, at("target/culd")).expect("copied");
    let script = "#!/bin/sh\necho another nvlink\nexit 0\n";
    fs::write(at("other/nvlink"), script).expect("written");
    fs::set_permissions(at("other/nvlink"), fs::Permissions::from_mode(0o755)).expect("set");
    install(&at("target/culd"), world.path());
    let by_path = |shadow: &str| {
        let usual = std::env::var("PATH").unwrap_or_default();
        let folders = [at(shadow).join("bin"), at("other")].map(|path| path.display().to_string());
        let line = format!("PATH={}:{usual}; nvlink {LINK}", folders.join(":"));
        let words = ["-c".to_owned(), line];
        let done = command(Path::new("/bin/sh"), "sh", &words, world.path()).expect("it runs");
        assert_eq!((done.status, &*done.stdout, &*done.stderr), (0, "", ""));
        assert_linked(&case, world.path());
        fs::remove_file(at("out.cubin")).expect("removed");
    };
    by_path("tk");
    fs::rename(at("target/culd"), at("target/elsewhere")).expect("renamed");
    by_path("tk");
    fs::remove_dir_all(at("target")).expect("removed");
    by_path("tk");
    fs::rename(at("tk"), at("moved")).expect("renamed");
    by_path("moved");
}

#[test]
fn a_link_says_that_the_toolkit_or_culd_has_changed() {
    let case = case::named("headers-and-order/every-section-90").expect("the case");
    let world = world(&case);
    let at = |name: &str| world.path().join(name);
    let release = |name: &str| {
        let text = format!("{{\"cuda\" : {{ \"version\" : \"{name}.1\" }} }}");
        fs::write(at("toolkit/version.json"), text).expect("written");
    };
    release("13.0");
    fs::copy(CULD, at("culd")).expect("copied");
    install(&at("culd"), world.path());
    let nvlink = at("tk/bin/nvlink");
    let again = format!("  >>> run 'culd install-shadow {}' again\n", at("tk").display());

    fs::write(at("culd"), "a newer one").expect("written");
    let done = run(&nvlink, "nvlink", LINK, world.path());
    let program = at("culd").canonicalize().expect("there");
    let program = program.display();
    let line =
        format!("nvlink warning : '{program}' has changed since this copy of it was made\n{again}");
    assert_eq!((done.status, done.stderr), (0, line));
    let done = run(&nvlink, "nvlink", &format!("-w {LINK}"), world.path());
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    fs::remove_file(at("culd")).expect("removed");

    // The same release again is no change.
    release("13.0");
    fs::write(at("toolkit/bin/nvcc"), "another").expect("written");
    let done = run(&nvlink, "nvlink", LINK, world.path());
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));

    fs::remove_file(at("out.cubin")).expect("removed");
    release("13.5");
    let done = run(&nvlink, "nvlink", LINK, world.path());
    let toolkit = at("toolkit").canonicalize().expect("there");
    let line = format!(
        "nvlink fatal   : The toolkit '{}' is not CUDA 13.0 any more, of which this is a shadow; it is \
         CUDA 13.5\n{again}",
        toolkit.display()
    );
    assert_eq!((done.status, done.stderr), (1, line));
    assert!(!at("out.cubin").exists());
    // With a named release, there is no doubt.
    let done = run(&nvlink, "nvlink", &format!("--dialect=13.0 {LINK}"), world.path());
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    assert_linked(&case, world.path());
    let done = run(Path::new(CULD), "culd", "install-shadow tk", world.path());
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    let done = run(&nvlink, "nvlink", LINK, world.path());
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));

    fs::rename(at("toolkit"), at("gone")).expect("renamed");
    let done = run(&nvlink, "nvlink", LINK, world.path());
    let line = "nvlink fatal   : The toolkit '";
    assert!(done.status == 1 && done.stderr.starts_with(line), "{}", done.stderr);
}

#[test]
fn a_shadow_is_checked_and_removed() {
    let case = case::named("headers-and-order/every-section-90").expect("the case");
    let world = world(&case);
    let culd = |words: &str| run(Path::new(CULD), "culd", words, world.path());
    install(Path::new(CULD), world.path());
    let done = culd("check-shadow tk");
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    assert!(done.stdout.ends_with("with culd as nvlink.\n"), "{}", done.stdout);
    fs::write(world.path().join("tk/bin/nvlink"), "").expect("written");
    let done = culd("check-shadow tk");
    let lines = ["nvlink", "nvcc"]
        .map(|name| format!("culd error   : 'tk/bin/{name}' is another culd than this one\n"));
    assert_eq!((done.status, done.stderr), (1, lines.concat()));
    let done = culd("install-shadow --remove tk");
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    assert!(!world.path().join("tk").exists());
    for words in
        ["check-shadow tk", "install-shadow --remove tk", "check-shadow", "check-shadow a b"]
    {
        let done = culd(words);
        assert!(done.status == 1 && !done.stderr.is_empty(), "{words}: {}", done.stderr);
    }
}

#[test]
fn errors_are_said_like_those_of_a_link() {
    let world = ProgramFolder::new();
    let done = run(Path::new(CULD), "culd", "install-shadow tk --cuda gone", world.path());
    assert_eq!(done.status, 1);
    let line = "culd fatal   : Could not open toolkit 'gone': ";
    assert!(done.stderr.starts_with(line), "{}", done.stderr);
    assert_eq!(fs::read_dir(world.path()).expect("listed").count(), 0);
}

#[test]
fn by_the_name_of_nvlink_the_word_is_a_file() {
    let world = ProgramFolder::new();
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
