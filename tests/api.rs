//! Compares the library `culd` with the command, the linker crate and nvlink's outputs.
//!
//! In: recorded cases and the files of the quickstart. Out: a report of differences. Guaranteed:
//! whole images are compared.

use std::fs;
use std::path::Path;

use culd::report::{RemovedWhy, ReportSpace};
use culd::{Cause, InputError, InputKind, Linker, Options, Report, Severity};
use culd_testkit::fixtures::case::{self, Case};
use culd_tests::{PROGRAM, case_options, command, link, root};

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");

/// A linker with the inputs and options of a recorded case.
fn linker(case: &Case) -> Linker<'static> {
    let words: Vec<String> =
        case.arguments().into_iter().filter(|word| !word.ends_with(".cubin")).collect();
    let options = Options::parse(&words);
    // The tool note of a link with -g has the output's name: that in `culd_tests::link_options`.
    let mut options =
        options.unwrap_or_else(|error| panic!("{}: {error}", case.name)).output_name("out.cubin");
    let name = words.iter().position(|word| word == "-uidx").map(|at| words[at + 1].clone());
    let mut files = case.index_files().expect("index files").into_iter();
    let index = name.and_then(|name| files.find(|(file, _)| *file == name));
    if let Some((_, bytes)) = index {
        options = options.index_file(bytes).expect("an index file");
    }
    let mut linker = Linker::new(options);
    for (name, bytes) in case.inputs().expect("inputs") {
        linker.add_bytes(name, InputKind::Cubin, bytes);
    }
    linker
}

#[test]
fn recorded_cases_come_out_as_from_the_linker_itself() {
    let mut linked = 0;
    for case in case::all().expect("cases") {
        let options = case_options(&case, &case.arguments()).expect("options");
        if case.inputs().expect("inputs").is_empty() {
            continue;
        }
        let expected = link(&options, &case.inputs().expect("inputs"), 1).expect("a session").image;
        let image = linker(&case).link().ok().map(culd::Linked::into_image);
        assert!(expected == image, "{}", case.name);
        linked += 1;
    }
    assert!(linked > 100, "{linked} cases");
}

fn quickstart(name: &str) -> std::path::PathBuf {
    root().join("testdata/quickstart").join(name)
}

#[test]
fn the_command_and_the_library_make_the_same_image() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("out").display().to_string();
    for flags in [&[][..], &["-g"], &["-r"], &["--preserve-relocs"], &["-kernels-used=saxpy"]] {
        let mut words = vec!["-arch=sm_90".to_owned(), "-o".to_owned(), output.clone()];
        words.extend(flags.iter().map(|&flag| flag.to_owned()));
        let options = Options::parse(&words).expect("options");
        let mut linker = Linker::new(options);
        for name in ["saxpy.cubin", "smooth.cubin"] {
            words.push(quickstart(name).display().to_string());
            linker.add_file(quickstart(name));
        }
        let run = command(Path::new(CULD), PROGRAM, &words, folder.path()).expect("it runs");
        assert_eq!(run.status, 0, "{}", run.stderr);
        let linked = linker.link().expect("it links");
        assert!(fs::read(&output).expect("the output") == linked.image(), "{flags:?}");
    }
}

#[test]
fn what_is_said_to_be_something_else_is_refused_by_name() {
    let bytes = fs::read(quickstart("saxpy.cubin")).expect("a cubin");
    let kinds = [
        InputKind::Ptx,
        InputKind::LtoIr,
        InputKind::Fatbin,
        InputKind::Object,
        InputKind::Library,
    ];
    for kind in kinds {
        let mut linker = Linker::new(Options::for_arch("sm_90").expect("sm_90"));
        let error = linker.add_bytes("it", kind, &bytes).link().expect_err("not of that kind");
        let wrong = |cause: &Cause| {
            matches!(cause, Cause::Input(InputError::WrongKind { name, found, .. })
                if name == "it" && *found == "a cubin")
        };
        assert!(error.errors().filter_map(|line| line.cause.as_ref()).any(wrong), "{error}");
    }
    let mut linker = Linker::new(Options::for_arch("sm_90").expect("sm_90"));
    let error = linker.add_file_of_kind(quickstart("nowhere"), InputKind::Cubin).link();
    assert!(error.expect_err("no file").to_string().contains("nowhere"));
}

#[test]
fn the_report_has_resources_places_and_what_was_left_out() {
    let mut linker = Linker::new(Options::for_arch("sm_90").expect("sm_90"));
    linker.add_file(quickstart("saxpy.cubin")).add_file(quickstart("smooth.cubin"));
    let linked = linker.link().expect("it links");
    let report = linked.report();
    let image = &report.images[0];
    let (_, function, kernel) = image.kernels().next().expect("a kernel");
    // As `culd -v` prints them and the source has them (README.md, testdata/quickstart/saxpy.ptx).
    assert_eq!(function.name, "saxpy");
    assert_eq!((function.registers.total, function.barriers.total), (Some(24), Some(1)));
    assert_eq!((kernel.shared, &kernel.constants[..]), (2048, &[(0, 544)][..]));
    let bytes = |space| -> Vec<u64> {
        let own = image.variables.iter().filter(|variable| variable.space == space);
        own.map(|variable| variable.bytes).collect()
    };
    assert_eq!((bytes(ReportSpace::Global), bytes(ReportSpace::Constant)), (vec![4], vec![4]));
    let mut end = 0;
    for &(offset, size) in &kernel.parameters {
        assert!(offset >= end && size > 0);
        end = offset + size;
    }
    assert_eq!(end, kernel.parameter_bytes);
    let callee = &image.functions[function.calls[0]];
    let own = |place: Option<usize>| place.map(|place| image.section_name(&image.sections[place]));
    assert_eq!(own(function.section).as_deref(), Some(".text.saxpy"));
    assert_eq!(callee.name, "smooth");
    assert_eq!(removed(&report), [("unused", RemovedWhy::Unreached)]);
    assert_eq!(linked.parts().len(), 2);

    // The function alone is not needed.
    let mut linker = Linker::new(Options::for_arch("sm_90").expect("sm_90"));
    linker.add_file(quickstart("smooth.cubin"));
    let report = linker.link().expect("it links").report();
    assert!(removed(&report).contains(&("smooth", RemovedWhy::Unreached)));
    assert!(report.images[0].functions.is_empty());

    // The kernel is not among the used ones.
    let options = Options::for_arch("sm_90").expect("sm_90").kernels_used(["other"]);
    let mut linker = Linker::new(options);
    linker.add_file(quickstart("saxpy.cubin")).add_file(quickstart("smooth.cubin"));
    let report = linker.link().expect("it links").report();
    assert!(removed(&report).contains(&("saxpy", RemovedWhy::Unused)));
}

/// Names that are not in the program, with the reasons.
fn removed(report: &Report) -> Vec<(&str, RemovedWhy)> {
    report.removed.iter().map(|removed| (removed.name.as_str(), removed.why)).collect()
}

#[test]
fn links_run_at_the_same_time_and_do_not_see_each_other() {
    let mut linker = Linker::new(Options::for_arch("sm_90").expect("sm_90"));
    linker.add_file(quickstart("saxpy.cubin")).add_file(quickstart("smooth.cubin"));
    let mut broken = Linker::new(Options::for_arch("sm_90").expect("sm_90"));
    broken.add_file(quickstart("saxpy.cubin"));
    let expected = linker.link().expect("it links");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (linker, broken, expected) = (&linker, &broken, &expected);
            scope.spawn(move || {
                for round in 0..20 {
                    if (thread + round) % 3 == 0 {
                        let error = broken.link().expect_err("smooth is missing");
                        assert!(error.errors().all(|line| line.severity == Severity::Error));
                        assert!(error.to_string().contains("Undefined reference to 'smooth'"));
                    } else {
                        assert!(linker.link().as_ref() == Ok(expected));
                    }
                }
            });
        }
    });
}

/// The phases that a link of the quickstart begins if it is cancelled at the phase `at`, and its
/// last message.
fn stopped_at(at: Option<&'static str>) -> (Vec<&'static str>, Option<culd::Message>) {
    let cancel = culd::Cancel::new();
    let (seen, own) = (std::sync::Arc::new(std::sync::Mutex::new(Vec::new())), cancel.clone());
    let begun = std::sync::Arc::clone(&seen);
    let watcher = move |phase: &'static str| {
        begun.lock().expect("no panic").push(phase);
        if Some(phase) == at {
            own.cancel();
        }
    };
    let session = culd_link::Session::serial().watched(watcher).cancelled_by(cancel);
    let arch = culd::Arch::by_name("sm_90").expect("sm_90");
    let options = culd_link::LinkOptions::new(arch, culd::cubin::note::ToolRecord::default());
    let files = ["saxpy.cubin", "smooth.cubin"].map(|name| fs::read(quickstart(name)).expect(name));
    let inputs: Vec<culd_link::Input<'_>> =
        files.iter().map(|bytes| culd_link::Input { name: "it", bytes, system: false }).collect();
    let outcome = culd_link::link(&session, &inputs, &options);
    assert_eq!(outcome.image.is_some(), at.is_none());
    let seen = seen.lock().expect("no panic").clone();
    (seen, outcome.diagnostics.last().map(|line| line.message.clone()))
}

#[test]
fn a_link_ends_before_the_phase_in_which_it_is_cancelled() {
    let (all, message) = stopped_at(None);
    assert!(all.len() > 5 && message.is_none());
    for (place, phase) in all.iter().enumerate() {
        let (begun, message) = stopped_at(Some(phase));
        assert_eq!(begun, all[..=place], "{phase}");
        assert_eq!(message, Some(culd::Message::Cancelled), "{phase}");
    }
}

/// Takes chunks until one begins at byte `until` or later.
struct FullOutput {
    until: u64,
    taken: std::sync::atomic::AtomicUsize,
}

impl culd_link::Output for FullOutput {
    fn write_at(&self, offset: u64, _: &[u8]) -> std::io::Result<()> {
        self.taken.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        match offset < self.until {
            true => Ok(()),
            false => Err(std::io::Error::other(format!("at {offset}"))),
        }
    }
}

#[test]
fn what_is_behind_bytes_that_are_not_taken_is_not_made() {
    use culd::cubin::build::{Builder, Code, Kernel, Linkage};

    let mut builder = Builder::new(culd::Arch::by_name("sm_90").expect("sm_90"));
    for number in 0..32 {
        let kernel = builder.function(format!("k{number}"), Linkage::Global);
        builder.define(kernel, Code::new(vec![0; 1 << 20]).registers(4).kernel(Kernel::new([])));
    }
    let object = builder.finish().expect("an object");
    let options = culd_tests::link_options(&["-arch=sm_90".to_owned()]).expect("options");
    let inputs = [culd_link::Input { name: "a.cubin", bytes: &object, system: false }];
    for threads in [1, 4] {
        let session = culd_link::Session::with_threads(threads);
        let image = culd_link::prepare(&session, &inputs, &options).image.expect("an image");
        let write = |until| {
            let full = FullOutput { until, taken: Default::default() };
            let error = image.write(&session, &full).err().map(|error| error.to_string());
            (full.taken.into_inner(), error)
        };
        let (all, none) = write(u64::MAX);
        assert!(all > 20 && none.is_none(), "{all} chunks");
        let (taken, error) = write(0);
        // Others may have begun already; the first in file order is reported.
        assert!(taken <= threads && error.as_deref() == Some("at 0"), "{taken} {error:?}");
        let (taken, error) = write(5 << 20);
        assert!(taken < all && error.is_some(), "{taken} {error:?}");
    }
}

/// A ptxas that writes where it runs and takes a minute.
#[cfg(unix)]
#[test]
fn a_link_that_is_cancelled_leaves_no_compiler_and_no_files() {
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, Instant};

    let folder = tempfile::tempdir().expect("a folder");
    let (ptxas, place_file) = (folder.path().join("ptxas"), folder.path().join("place"));
    let script = format!(
        "#!/bin/sh\n(pwd; echo $$) > {0}.new\nmv {0}.new {0}\nexec sleep 60\n",
        place_file.display()
    );
    fs::write(&ptxas, script).expect("a script");
    fs::set_permissions(&ptxas, fs::Permissions::from_mode(0o755)).expect("a script");
    let mut linker = Linker::new(Options::for_arch("sm_90").expect("sm_90").ptxas_path(&ptxas));
    let text = b".version 9.0\n.target sm_90\n.address_size 64\n".as_slice();
    linker.add_bytes("it.ptx", InputKind::Ptx, text).add_bytes("other.ptx", InputKind::Ptx, text);
    let cancel = culd::Cancel::new();
    let begin = Instant::now();
    let error = std::thread::scope(|scope| {
        let link = scope.spawn(|| linker.link_with_cancel(&cancel));
        while !place_file.exists() {
            assert!(begin.elapsed() < Duration::from_secs(50), "ptxas has not been started");
            std::thread::sleep(Duration::from_millis(1));
        }
        cancel.cancel();
        link.join().expect("no panic").expect_err("cancelled")
    });
    assert!(error.is_cancelled() && error.diagnostics.len() == 1, "{error}");
    assert!(begin.elapsed() < Duration::from_secs(50), "it waited for ptxas");
    let written = fs::read_to_string(place_file).expect("what ptxas wrote");
    let (place, process) = written.trim().split_once('\n').expect("two lines");
    assert!(!Path::new(place).exists(), "{place} is left");
    let status = fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
    assert!(!status.contains("sleep"), "process {process} is left");
    // Another link works after it.
    let mut linker = Linker::new(Options::for_arch("sm_90").expect("sm_90"));
    linker.add_file(quickstart("smooth.cubin"));
    assert!(linker.link_with_cancel(&culd::Cancel::new()).is_ok());
    let error = linker.link_with_cancel(&cancel).expect_err("it is cancelled still");
    assert!(error.is_cancelled() && error.to_string() == "fatal: Link cancelled", "{error}");
}
