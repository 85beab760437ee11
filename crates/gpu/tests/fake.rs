//! The program with a driver of the tests' own, written in C (`fake.c`): what it calls, what it
//! makes of the answers, and what it says where there is no GPU.
//!
//! In: a plan and images whose first letters say what goes wrong. Out: exit status and lines.
//! Guaranteed: the functions have the types of the public header on both sides, so a wrong order of
//! arguments shows.

use culd_gpu::plan::{
    GpuPlan, GpuProgram, GpuVariable, HostProgram, Launch, PlannedArgument, PlannedImage,
};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_culd-gpu");

/// Builds the driver.
fn driver(folder: &Path) -> PathBuf {
    let (source, library) =
        (Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake.c"), folder.join("libcuda.so.1"));
    let built = Command::new("gcc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(source)
        .output()
        .expect("gcc starts");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library
}

fn program(name: &str, arch: &str, letters: &[(&str, char)], folder: &Path) -> GpuProgram {
    let image = |(by, letter): &(&str, char)| {
        let file = format!("{}.{by}.cubin", name.replace('/', "-"));
        fs::write(folder.join(&file), format!("{letter} image")).expect("written");
        PlannedImage { by: (*by).to_owned(), file }
    };
    let launch = Launch {
        kernel: "twice".to_owned(),
        blocks: 2,
        threads: 4,
        shared: 64,
        set: vec![GpuVariable { name: "v".to_owned(), words: vec![100, 0] }],
        argument: vec![
            PlannedArgument::memory((0..8).map(|i| 2 * i + 3 + 100)),
            PlannedArgument::word(3),
        ],
        expect: vec![GpuVariable { name: "v".to_owned(), words: vec![100, 8] }],
    };
    GpuProgram {
        name: name.to_owned(),
        arch: arch.to_owned(),
        image: letters.iter().map(image).collect(),
        launch: vec![launch],
    }
}

fn run(folder: &Path, library: &Path, environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = Command::new(PROGRAM);
    command.arg(folder).arg("--libcuda").arg(library).envs(environment.iter().copied());
    let Output { status, stdout, stderr } = command.output().expect("it starts");
    (status.code(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

#[test]
fn what_is_right_passes() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = driver(folder.path());
    let both = [("culd", '-'), ("nvlink", '-')];
    let plan = GpuPlan {
        program: vec![
            program("a/one", "sm_90", &both, folder.path()),
            program("a/two", "sm_90a", &both, folder.path()),
            program("a/three", "sm_80", &both, folder.path()),
        ],
        host: Vec::new(),
    };
    plan.write(folder.path()).expect("written");
    let (status, said) = run(folder.path(), &library, &[]);
    let expected =
        "Fake GPU, sm_90, driver 13000\n4 programs right, 0 wrong; 1 are for other GPUs\n";
    assert_eq!((status, said.as_str()), (Some(0), expected));
}

#[test]
fn host_programs_say_what_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = driver(folder.path());
    let build = |by: &str, script: &str| {
        let file = format!("statics.{by}");
        let path = folder.path().join(&file);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("made executable");
        PlannedImage { by: by.to_owned(), file }
    };
    let build = vec![
        build("nvlink", "echo one: right"),
        build("culd", "echo one: right; echo two: 3 instead of 4; echo three: right; exit 1"),
    ];
    let host = HostProgram { name: "statics".to_owned(), arch: "sm_90".to_owned(), build };
    let other = HostProgram { arch: "sm_100".to_owned(), ..host.clone() };
    let plan = GpuPlan { program: Vec::new(), host: vec![host, other] };
    plan.write(folder.path()).expect("written");
    let (status, said) = run(folder.path(), &library, &[]);
    let expected = "Fake GPU, sm_90, driver 13000
failed: statics sm_90 by culd (status 1): two: 3 instead of 4
1 programs right, 1 wrong; 1 are for other GPUs
";
    assert_eq!((status, said.as_str()), (Some(1), expected));
}

#[test]
fn errors_are_reported_and_the_rest_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = driver(folder.path());
    let mut plan = GpuPlan::default();
    for (letter, what) in [
        (
            'W',
            "(status 2): culd-gpu: kernel 'twice': memory of argument 0, word 3: 0x6e instead of 0x6d",
        ),
        ('L', "(status 2): culd-gpu: cuModuleLoadData: CUDA_ERROR_INVALID_IMAGE"),
        ('C', "(status 2): culd-gpu: kernel 'twice': cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"),
        ('S', "(killed): "),
    ] {
        let letters = [("culd", letter), ("nvlink", '-')];
        plan.program = vec![program("a/wrong", "sm_90", &letters, folder.path())];
        plan.write(folder.path()).expect("written");
        let (status, said) = run(folder.path(), &library, &[]);
        let expected = format!(
            "Fake GPU, sm_90, driver 13000\nfailed: a/wrong sm_90 by culd {what}\n1 programs right, 1 wrong; 0 are for other GPUs\n"
        );
        assert_eq!((status, said), (Some(1), expected), "{letter}");
    }
    // A kernel and a variable that the program lacks.
    plan.program = vec![program("a/wrong", "sm_90", &[("culd", '-')], folder.path())];
    plan.program[0].launch[0].kernel = "thrice".to_owned();
    plan.write(folder.path()).expect("written");
    let (status, said) = run(folder.path(), &library, &[]);
    assert_eq!(status, Some(1));
    assert!(said.contains("kernel 'thrice': cuModuleGetFunction: CUDA_ERROR_NOT_FOUND"), "{said}");
    plan.program[0].launch[0].kernel = "twice".to_owned();
    plan.program[0].launch[0].expect[0].words = vec![0; 5];
    plan.write(folder.path()).expect("written");
    let (_, said) = run(folder.path(), &library, &[]);
    assert!(said.contains("'v' has 16 bytes"), "{said}");
}

#[test]
fn without_a_gpu_that_is_said_and_nothing_passes() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = driver(folder.path());
    let plan = GpuPlan {
        program: vec![program("a/one", "sm_90", &[("culd", '-')], folder.path())],
        ..GpuPlan::default()
    };
    plan.write(folder.path()).expect("written");
    let (status, said) = run(folder.path(), Path::new("libcuda-that-is-not-there.so"), &[]);
    assert_eq!(status, Some(77));
    assert!(said.starts_with("skipped: there is no CUDA driver: "), "{said}");
    let (status, said) = run(folder.path(), &library, &[("FAKE_NO_DEVICE", "1")]);
    assert_eq!(status, Some(77));
    assert_eq!(said, "skipped: the CUDA driver has no GPU: cuInit: CUDA_ERROR_NO_DEVICE\n");
    // Programs for other GPUs only: nothing ran, so nothing is right.
    let plan = GpuPlan {
        program: vec![program("a/one", "sm_75", &[("culd", '-')], folder.path())],
        ..GpuPlan::default()
    };
    plan.write(folder.path()).expect("written");
    let (status, said) = run(folder.path(), &library, &[]);
    assert_eq!(status, Some(1), "{said}");
}
