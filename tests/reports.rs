//! Reports of links: their contents, hostile names as text, and packed links that are repeated
//! elsewhere.
//!
//! In: files of the quickstart, and objects made here. Out: a report of faults. Guaranteed: only
//! the command, a shell and tar are needed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use culd::cubin::Cubin;
use culd::cubin::build::Space;
use culd::cubin::build::{Builder, Code, Kernel, Linkage, Variable};
use culd::cubin::elf::sht;
use culd::report::{
    Bounds, Category, Detail, LinkedCode, Report, ReportImage, ReportSection, ReportedLink,
};
use culd_fatbin::container::ImageKind;
use culd_fatbin::writer::{Compression, ImageTarget, InputImage};
use culd_link::{Input, LinkOptions, Session};
use culd_testkit::fixtures::case;
use culd_testkit::fixtures::pack::{self, HostParts};
use culd_tests::world::copy_quickstart;
use culd_tests::{PROGRAM, case_options, command, finish, link_options, printed, root};

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");

/// Options for reports that go into different files, or are printed.
const REPORTS: [&str; 13] = [
    "--report=r.json",
    "--report=r.html",
    "--report=r.txt",
    "--map=m",
    "--cref",
    "--why-live=*",
    "--why-extract=x",
    "--print-gc-sections",
    "--print-memory-usage",
    "--callgraph=c.dot",
    "--callgraph=c.svg",
    "--reproduce=r.tar",
    "--dependency-file=d",
];

/// Runs culd in `folder`; it must succeed.
fn culd(folder: &Path, words: &[&str]) -> String {
    printed(Path::new(CULD), words, folder)
}

fn json(path: &Path) -> Report {
    Report::from_json(&fs::read(path).expect("a report")).expect("JSON of a report")
}

#[test]
fn no_option_changes_the_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    copy_quickstart(place);
    let inputs = ["-arch=sm_90", "saxpy.cubin", "smooth.cubin"];
    culd(place, &[&inputs[..], &["-o", "plain"]].concat());
    let plain = fs::read(place.join("plain")).expect("an output");
    let others = [
        "--report=-",
        "-Map=m",
        "--trace-symbol=smooth",
        "-y=smooth",
        "--color=always",
        "--error-limit=1",
        // It is alive anyway.
        "--undefined=smooth",
    ];
    for option in REPORTS.into_iter().chain(others) {
        culd(place, &[&inputs[..], &["-o", "other", option]].concat());
        let other = fs::read(place.join("other")).expect("an output");
        assert!(plain == other, "{option}");
    }
}

/// By each release, for programs and objects.
#[test]
fn all_reports_at_once_change_no_recorded_output() {
    let mut releases = BTreeSet::new();
    for case in case::all().expect("recorded cases") {
        if case.expected_output().expect("it is text").is_none() {
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path();
        let index_files = case.index_files().expect("index files");
        for (name, bytes) in case.inputs().expect("inputs").into_iter().chain(index_files) {
            fs::write(place.join(name), bytes).expect("written");
        }
        let words = case.arguments();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = |more: &[&str]| {
            culd(place, &[&words[..], &["-o", "out.cubin"], more].concat());
            fs::read(place.join("out.cubin")).expect("an output")
        };
        let with_all = [&REPORTS[..], &["--trace-symbol=k"]].concat();
        assert!(output(&[]) == output(&with_all), "{}", case.name);
        assert!(!json(&place.join("r.json")).images.is_empty(), "{}", case.name);
        releases.insert(case.recipe.release.clone());
    }
    assert!(releases.len() > 10, "{releases:?}");
}

#[test]
fn the_command_and_the_library_report_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    copy_quickstart(place);
    culd(place, &["-arch=sm_90", "saxpy.cubin", "smooth.cubin", "-o", "o", "--report=r.json"]);
    let mut whole = json(&place.join("r.json"));
    let mut linker = culd::Linker::new(culd::Options::for_arch("sm_90").expect("sm_90"));
    for name in ["saxpy.cubin", "smooth.cubin"] {
        linker.add_bytes(name, culd::InputKind::Cubin, fs::read(place.join(name)).expect(name));
    }
    let mut own = linker.link().expect("it links").report();
    // The command has an output, options and times.
    let (whole_link, own_link) =
        (whole.link.take().expect("a link"), own.link.take().expect("a link"));
    assert_eq!((whole_link.target, whole_link.dialect), (own_link.target, own_link.dialect));
    assert_eq!(whole_link.output_bytes, own_link.output_bytes);
    assert_eq!(whole, own);
    assert_eq!(Report::from_json(&own.to_json()).expect("JSON"), own);
    // Sections do not overlap, and are the whole file except headers and gaps.
    let image = &own.images[0];
    let mut end = 64;
    let category = |section: &&ReportSection| image.section_kind(section).category;
    for section in image.sections.iter().filter(|section| !category(section).is_nobits()) {
        assert!(section.offset >= end, "{}", image.section_name(section));
        end = section.offset + section.bytes;
    }
    assert!(end < image.bytes);
    assert!(image.sections.iter().all(|section| category(&section) != Category::Other));
}

/// Sections of an image: name, offset, bytes, type, flags, alignment.
fn sections(image: &ReportImage) -> Vec<(String, u64, u64, u32, u64, u64)> {
    let section = |one: &ReportSection| {
        let kind = image.section_kind(one);
        let name = image.section_name(one).into_owned();
        (name, one.offset, one.bytes, kind.sh_type, kind.flags, kind.align)
    };
    image.sections.iter().map(section).collect()
}

/// What the output has of a function.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FunctionFacts {
    name: String,
    section: Option<String>,
    place: (u64, u64),
    calls: Vec<String>,
    /// Shared memory, and the part that the system keeps.
    shared: Option<(u64, u64)>,
    constants: Vec<(u8, u64)>,
    parameters: (u32, u32, Vec<(u32, u32)>),
    bounds: String,
}

fn functions(image: &ReportImage, with_calls: bool) -> Vec<FunctionFacts> {
    let mut all: Vec<FunctionFacts> = Vec::new();
    for function in image.functions.iter().filter(|function| function.section.is_some()) {
        let kernel = function.kernel.as_deref();
        let name = |&place: &usize| image.functions[place].name.clone();
        let calls = function.calls.iter().filter(|_| with_calls);
        let mut calls: Vec<String> = calls.map(name).collect();
        calls.sort();
        // Older call graphs have some twice.
        calls.dedup();
        all.push(FunctionFacts {
            name: function.name.clone(),
            section: function
                .section
                .map(|place| image.section_name(&image.sections[place]).into_owned()),
            place: (function.offset, function.code),
            calls,
            shared: kernel.map(|kernel| (kernel.shared, kernel.system_shared)),
            constants: kernel.map(|kernel| kernel.constants.clone()).unwrap_or_default(),
            parameters: kernel.map_or((0, 0, Vec::new()), |kernel| {
                let parameters = kernel.parameters.clone();
                (kernel.parameter_offset, kernel.parameter_bytes, parameters)
            }),
            bounds: format!("{:?}", kernel.map_or(Bounds::default(), |kernel| kernel.bounds)),
        });
    }
    // Local kernels of one name share their banks, and the section names one of them.
    let names: Vec<String> = all.iter().map(|one| one.name.clone()).collect();
    for one in &mut all {
        if names.iter().filter(|name| **name == one.name).count() > 1 {
            (one.shared, one.constants) = (None, Vec::new());
        }
    }
    all.sort();
    all
}

/// A link with this code, and nothing else that a report has.
fn reported<'a>(options: &LinkOptions, code: LinkedCode<'a>) -> ReportedLink<'a> {
    ReportedLink {
        output: String::new(),
        target: options.target,
        dialect: options.dialect,
        options: Vec::new(),
        phases: Vec::new(),
        inputs: Vec::new(),
        objects: Vec::new(),
        code,
        messages: Vec::new(),
    }
}

/// Holds the JSON that is written without a report against that of `serde_json` for the report.
fn holds_json(name: &str, link: &ReportedLink<'_>) {
    let report = Report::of_link(link.clone());
    let expected = serde_json::to_vec(&report).expect("JSON");
    for threads in [1, 3] {
        let json = link.to_json_in(&Session::with_threads(threads)).to_vec();
        if let Some(at) = json.iter().zip(&expected).position(|(a, b)| a != b) {
            let shown = |json: &[u8]| {
                String::from_utf8_lossy(&json[at..json.len().min(at + 200)]).into_owned()
            };
            panic!("{name}, {threads} threads, at {at}: {}\n{}", shown(&json), shown(&expected));
        }
        assert_eq!(json.len(), expected.len(), "{name}, {threads} threads");
    }
    assert_eq!(Report::from_json(&expected).expect("a report"), report, "{name}");
}

#[test]
fn the_json_of_a_link_is_that_of_serde() {
    let session = Session::serial();
    let (mut compared, mut rows) = (0, 0);
    let mut holds = |name: &str, inputs: &[Input<'_>], options: &LinkOptions| {
        let Some(image) = culd_link::prepare(&session, inputs, options).image else { return };
        let account = image.account(&session);
        let link = reported(options, LinkedCode::Account(&account));
        holds_json(name, &link);
        compared += 1;
        rows += account.sections.len();
    };
    for case in case::all().expect("recorded cases") {
        let options = case_options(&case, &case.arguments()).expect("options");
        let files = case.inputs().expect("inputs");
        let inputs: Vec<Input<'_>> =
            files.iter().map(|(name, bytes)| Input { name, bytes, system: false }).collect();
        holds(&case.name, &inputs, &options);
    }
    let object = hostile_object();
    let input = Input { name: "<b>\u{1b}\"\\.cubin", bytes: &object, system: false };
    let options = link_options(&["-arch=sm_90".to_owned()]).expect("options");
    holds("hostile names", &[input], &options);
    assert!(compared > 200 && rows > 2000, "{compared} links, {rows} sections");
}

/// Copies of functions that were replaced bring nothing, and no section has more than its bytes.
#[test]
fn what_inputs_bring_to_a_section_lies_side_by_side() {
    let session = Session::serial();
    let (mut pieces, mut functions) = (0, 0);
    for case in case::all().expect("recorded cases") {
        let options = case_options(&case, &case.arguments()).expect("options");
        let files = case.inputs().expect("inputs");
        let inputs: Vec<Input<'_>> =
            files.iter().map(|(name, bytes)| Input { name, bytes, system: false }).collect();
        let Some(image) = culd_link::prepare(&session, &inputs, &options).image else { continue };
        let account = image.account(&session);
        let mut link = reported(&options, LinkedCode::Account(&account));
        link.objects = (0..inputs.len()).collect();
        let report = Report::of_link(link);
        let image = &report.images[0];
        for section in &image.sections {
            // Local kernels of one name share their shared memory.
            if image.section_kind(section).category == Category::Shared {
                continue;
            }
            let name = format!("{}: {}", case.name, image.section_name(section));
            let mut end = 0;
            for &(_, offset, bytes) in &section.pieces {
                assert!(offset >= end && bytes > 0, "{name}: {:?}", section.pieces);
                end = offset + bytes;
                pieces += 1;
            }
            assert!(end <= section.bytes, "{name}: {} bytes, {:?}", section.bytes, section.pieces);
        }
        for function in &image.functions {
            let Some(section) = function.section.map(|place| &image.sections[place]) else {
                continue;
            };
            let of_function = section.function.map(|place| &image.functions[place].name);
            if of_function == Some(&function.name) && section.input.is_some() {
                assert_eq!(section.input, function.input, "{}: {}", case.name, function.name);
                functions += 1;
            }
        }
    }
    assert!(pieces > 200 && functions > 200, "{pieces} pieces, {functions} functions");
}

/// How many relocation records of each type a cubin has, without those that are applied.
fn records(bytes: &[u8]) -> BTreeMap<u32, u64> {
    let cubin = Cubin::parse(bytes).expect("a cubin");
    let mut all = BTreeMap::new();
    let applied = [sht::CUDA_RESOLVED_RELA, sht::MERCURY_RESOLVED_RELA];
    let sections = cubin.sections.iter().filter(|section| !applied.contains(&section.sh_type));
    for record in sections.flat_map(|section| section.relocations().iter()) {
        *all.entry(record.kind).or_default() += 1;
    }
    all
}

#[test]
fn a_report_of_the_cubin_alone_has_what_that_of_the_link_has() {
    let session = Session::serial();
    let mut compared = 0;
    for case in case::all().expect("recorded cases") {
        let options = case_options(&case, &case.arguments()).expect("options");
        let files = case.inputs().expect("inputs");
        let inputs: Vec<Input<'_>> =
            files.iter().map(|(name, bytes)| Input { name, bytes, system: false }).collect();
        let outcome = culd_link::prepare(&session, &inputs, &options);
        let Some(mut image) = outcome.image else { continue };
        let account = image.account(&session);
        image.count_types();
        let bytes = image.to_vec(&session);
        let written = records(&bytes);
        for account in [&account, &image.account(&session)] {
            let rows = account.relocations.iter().map(|row| (row.kind, row.count));
            assert_eq!(rows.collect::<BTreeMap<_, _>>(), written, "{}", case.name);
        }
        let report = |code| Report::of_link(reported(&options, code));
        let of_link = report(LinkedCode::Account(&account));
        let of_cubin = report(LinkedCode::Cubin(&bytes));
        let (of_link, of_cubin) = (&of_link.images[0], &of_cubin.images[0]);
        assert_eq!(of_cubin.defect, "", "{}", case.name);
        assert_eq!(sections(of_link), sections(of_cubin), "{}", case.name);
        // Older call graphs have the functions that an indirect call may reach as callees.
        let with_calls = of_link.prototypes.is_empty();
        let of_link = functions(of_link, with_calls);
        assert_eq!(of_link, functions(of_cubin, with_calls), "{}", case.name);
        compared += 1;
    }
    assert!(compared > 200, "{compared}");
}

#[test]
fn a_root_keeps_a_function_and_what_it_calls() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    copy_quickstart(place);
    let link = |options: &[&str]| {
        let words =
            [&["-arch=sm_90", "smooth.cubin", "-o", "o", "--report=r.json"], options].concat();
        culd(place, &words);
        let report = json(&place.join("r.json"));
        let names = report.images[0].functions.iter().map(|function| function.name.clone());
        names.collect::<Vec<String>>()
    };
    assert_eq!(link(&[]), [""; 0]);
    assert_eq!(link(&["-u", "smooth"]), ["smooth"]);
    assert_eq!(link(&["--undefined=unused,smooth"]), ["unused", "smooth"]);
    // As in other linkers, undefined names are no error here.
    assert_eq!(link(&["-u", "nowhere"]), [""; 0]);
}

#[test]
fn names_are_those_of_the_source_with_their_commas() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    let mut builder = Builder::new(culd::Arch::by_name("sm_90").expect("sm_90"));
    let [kernel, called, kept, below] = ["k", "_ZN2ns1fIiEEvT_i", "_Z4keptii", "_Z5belowi"]
        .map(|name| builder.function(name, Linkage::Global));
    let code = || Code::new(vec![0; 128]).registers(4);
    builder.define(kernel, code().kernel(Kernel::new([])).call(called));
    builder.define(called, code());
    builder.define(kept, code().call(below));
    builder.define(below, code());
    builder.variable(Variable::zero("_ZN2ns1vE", Space::Global, 4));
    fs::write(place.join("a.cubin"), builder.finish().expect("an object")).expect("it");
    let said =
        |options: &[&str]| culd(place, &[&["-arch=sm_90", "a.cubin", "-o", "o"], options].concat());
    for name in ["void ns::f<int>(int, int)", "ns::f<int>", "ns::f", "_ZN2ns1fIiEEvT_i"] {
        let expected = "live symbol: a.cubin:(void ns::f<int>(int, int))\n  >>> called by \
                        a.cubin:(k)\n  >>> a kernel, which the host starts\n";
        assert_eq!(said(&["--why-live", name]), expected, "{name}");
        let expected = "a.cubin: definition of _ZN2ns1fIiEEvT_i\n";
        assert_eq!(said(&["-y", name]), expected, "{name}");
    }
    let variable = "live symbol: a.cubin:(ns::v)\n  >>> variables are never removed\n";
    assert_eq!(said(&["--why-live=ns::v"]), variable);
    // What an option keeps is a way, too.
    assert_eq!(
        said(&["-u", "_Z4keptii", "--why-live=below(int)", "--why-live=kept(int, int)"]),
        "live symbol: a.cubin:(below(int))\n  >>> called by a.cubin:(kept(int, int))\n  >>> an \
         option keeps it\nlive symbol: a.cubin:(kept(int, int))\n  >>> an option keeps it\n"
    );
    let table = said(&["--print-memory-usage"]);
    let colons: Vec<Option<usize>> = table.lines().skip(1).map(|line| line.find(':')).collect();
    assert!(colons.len() > 1 && colons.windows(2).all(|pair| pair[0] == pair[1]), "{table}");
}

#[test]
fn reports_of_no_cubin_are_said_to_be_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    copy_quickstart(place);
    let reports = ["--report=r.json", "--map=m", "--trace=t", "--cref"];
    let words = [&["-arch=compute_90", "saxpy.cubin", "smooth.cubin", "-o=o"], &reports[..]];
    let words: Vec<String> = words.concat().into_iter().map(str::to_owned).collect();
    let run = command(Path::new(CULD), PROGRAM, &words, place).expect("it runs");
    let note =
        |option| format!("  >>> '--{option}' has no effect: -arch=compute_90 links nothing\n");
    assert_eq!(run.stderr, ["report", "map", "cref", "trace"].map(note).concat());
    assert_eq!(run.status, 0);
    let words: Vec<String> = words.into_iter().chain(["-no-notes".to_owned()]).collect();
    let run = command(Path::new(CULD), PROGRAM, &words, place).expect("it runs");
    assert_eq!((run.status, &*run.stderr), (0, ""));
}

/// The names of inlined functions have relocations of 32 bits beside those of addresses.
#[test]
fn functions_with_inlined_ones_have_their_lines() {
    let case = case::named("explained/inlined-lines-100").expect("a recorded case");
    let options = case_options(&case, &case.arguments()).expect("options");
    let files = case.inputs().expect("inputs");
    let inputs: Vec<Input<'_>> =
        files.iter().map(|(name, bytes)| Input { name, bytes, system: false }).collect();
    let session = Session::serial();
    let image = culd_link::prepare(&session, &inputs, &options).image.expect("it links");
    let account = image.account(&session);
    let report = Report::of_link(reported(&options, LinkedCode::Account(&account)));
    let functions = report.images[0].functions.iter();
    let lines: Vec<(&str, &str)> =
        functions.map(|one| (one.demangled.as_str(), one.source.as_str())).collect();
    assert_eq!(lines, [("kernel(int*)", "a.cu:7"), ("out(int)", "b.cu:2")]);
}

#[test]
fn functions_have_the_lines_of_their_source() {
    let session = Session::serial();
    for name in ["explained/source-lines", "explained/source-lines-100"] {
        let mut cases = case::all().expect("cases").into_iter();
        let case = cases.find(|case| case.name == name).expect(name);
        let options = case_options(&case, &case.arguments()).expect("options");
        // The second file can be linked alone.
        let files = case.inputs().expect("inputs");
        let (file, bytes) = &files[1];
        let input = Input { name: file, bytes, system: false };
        let image = culd_link::prepare(&session, &[input], &options).image.expect(name);
        let account = image.account(&session);
        let report = Report::of_link(reported(&options, LinkedCode::Account(&account)));
        let functions = report.images[0].functions.iter();
        let lines: Vec<(&str, &str)> =
            functions.map(|one| (one.demangled.as_str(), one.source.as_str())).collect();
        assert!(lines.contains(&("second(int*)", "b.cu:10")), "{lines:?}");
        assert!(lines.iter().all(|(_, line)| line.starts_with("b.cu:")), "{lines:?}");
        // The cubin alone has them, too, and so has the object.
        let program = image.to_vec(&session);
        for (bytes, all) in [(&program, true), (bytes, false)] {
            let mut own = ReportImage::new(String::new(), "cubin", String::new());
            own.read(bytes, Detail::Functions);
            let named = |image: &ReportImage| -> BTreeMap<String, String> {
                let functions = image.functions.iter().filter(|one| one.code != 0);
                functions.map(|one| (one.name.clone(), one.source.clone())).collect()
            };
            let (of_link, own) = (named(&report.images[0]), named(&own));
            let alike = of_link.iter().filter(|one| own.get(one.0) == Some(one.1)).count();
            assert_eq!(alike, of_link.len(), "{of_link:?} {own:?}");
            assert!(!all || own.len() == of_link.len(), "{own:?}");
        }
    }
}

/// The report of `culd size` about a file of these bytes, and its messages.
fn sized(bytes: &[u8]) -> (Report, String) {
    let (report, _, said) = sized_with_text(bytes);
    (report, said)
}

/// The same with the text. Without a report, which keeps fewer rows of an image, it is the same.
fn sized_with_text(bytes: &[u8]) -> (Report, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("program"), bytes).expect("a program");
    let size = |more: &[&str]| {
        let words = [&["size", "--images", "--kernels", "program"], more].concat();
        let run = finish(Command::new(CULD).args(words).current_dir(folder.path())).expect("culd");
        assert_eq!(run.status, 0, "{}", run.stderr);
        (run.stdout, run.stderr)
    };
    let (text, said) = size(&["--report=r.json"]);
    for threads in ["--threads=1", "--threads=3"] {
        assert_eq!(size(&[threads]), (text.clone(), said.clone()), "{threads}");
    }
    (json(&folder.path().join("r.json")), text, said)
}

/// A fat binary of these images.
fn fat(images: &[InputImage]) -> Vec<u8> {
    pack::fatbin(images).expect("a fat binary")
}

fn saxpy() -> InputImage {
    let cubin = fs::read(root().join("testdata/quickstart/saxpy.cubin")).expect("saxpy");
    InputImage::cubin(cubin, ImageTarget::sm(90)).expect("a cubin")
}

#[test]
fn fat_binaries_among_data_are_found() {
    let one = fat(&[saxpy(), saxpy().compressed(Compression::Zstd).expect("memory")]);
    let mut bytes = pack::host_object(&HostParts::default()).expect("an object");
    let (mut found, mut expected): (Vec<usize>, Vec<String>) = (Vec::new(), Vec::new());
    for gap in [1, 0, 6, 8] {
        // Beginnings of fat binaries that are none: cut off, longer than the file, without entries.
        bytes.extend_from_slice(&one[..8]);
        bytes.extend_from_slice(&[one[..8].to_vec(), vec![0xff; 8]].concat());
        bytes.extend_from_slice(&fat(&[]));
        bytes.resize(bytes.len() + gap, 0xee);
        found.push(bytes.len());
        expected.extend([0, 1].map(|entry| format!("{:#x}[0.{entry}]", bytes.len())));
        bytes.extend_from_slice(&one);
    }
    bytes.extend_from_slice(&one[..one.len() - 1]);
    let (report, said) = sized(&bytes);
    let places: Vec<&str> = report.images.iter().map(|image| image.place.as_str()).collect();
    assert_eq!((places, said.as_str()), (expected.iter().map(String::as_str).collect(), ""));
    assert!(report.images.iter().all(|image| image.functions[0].name == "saxpy"), "{report:?}");
    let device = report.file.expect("a file").device_bytes;
    assert_eq!(device, (found.len() * one.len()) as u64);
    // What is in a section for device code is counted there, and only there.
    let parts = HostParts { fatbins: vec![one.clone()], ..HostParts::default() };
    let mut bytes = pack::host_object(&parts).expect("an object");
    let behind = bytes.len();
    bytes.extend_from_slice(&one);
    let (report, _) = sized(&bytes);
    let places: Vec<&str> = report.images.iter().map(|image| image.place.as_str()).collect();
    let data = [0, 1].map(|entry| format!("{behind:#x}[0.{entry}]"));
    assert_eq!(places, ["__nv_relfatbin[0.0]", "__nv_relfatbin[0.1]", &data[0], &data[1]]);
    assert_eq!(report.file.expect("a file").device_bytes, 2 * one.len() as u64);
}

/// Kernels of cuBLASLt that were assembled have their registers in the header of their code alone.
#[test]
fn registers_are_found_in_the_header_of_code() {
    const REGCOUNT: [u8; 4] = [4, 0x2f, 8, 0];
    let mut builder = Builder::new(culd::Arch::by_name("sm_75").expect("a target"));
    let kernel = builder.function("kernel", Linkage::Global);
    let code = Code::new([0; 128]).registers(24);
    builder.define(kernel, code.kernel(Kernel::new([(8, 8)])));
    let mut cubin = builder.finish().expect("a cubin");
    let registers = |cubin: &[u8]| sized(cubin).0.images[0].functions[0].registers.total;
    assert_eq!(registers(&cubin), Some(24));
    let at = cubin.windows(4).position(|bytes| bytes == REGCOUNT).expect("the attribute");
    // A code that means nothing here.
    cubin[at + 1] = 0x7e;
    assert_eq!(registers(&cubin), Some(24));
}

#[test]
fn images_that_are_stored_alike_are_reported_each() {
    let plain = saxpy();
    let packed = |kind| saxpy().compressed(kind).expect("memory");
    let (zstd, lz4) = (packed(Compression::Zstd), packed(Compression::Lz4));
    let renamed = |payload: &[u8], target, flags| {
        let image = InputImage::new(ImageKind::Elf, (1, 7), target, payload.to_vec());
        image.flags(flags)
    };
    let accelerated = renamed(plain.payload(), ImageTarget::accelerated(90), 0);
    let accelerated = accelerated.compressed(Compression::Zstd).expect("memory");
    // The bytes of a frame, stored as they are, are no cubin.
    let frame = renamed(zstd.payload(), ImageTarget::sm(90), 0);
    let ptx = InputImage::ptx(".version 9.0\n.target sm_90\n", ImageTarget::sm(90)).expect("PTX");
    let images =
        [&zstd, &plain, &frame, &lz4, &ptx, &zstd, &frame, &plain, &accelerated, &lz4, &ptx];
    let (all, said) = sized(&fat(&images.map(Clone::clone)));
    assert_eq!(all.images.len(), images.len());
    assert_eq!(said.matches("cannot be read").count(), 2, "{said}");
    for (number, (image, input)) in all.images.iter().zip(images).enumerate() {
        let (mut alone, _) = sized(&fat(std::slice::from_ref(input)));
        let mut expected = alone.images.remove(0);
        assert_eq!(image.place, format!("[0.{number}]"));
        expected.place.clone_from(&image.place);
        assert_eq!(*image, expected, "{number}");
    }
    assert_eq!((all.images[5].target.as_str(), all.images[8].target.as_str()), ("sm_90", "sm_90a"));
}

/// Names that would have an effect if they were interpreted.
fn hostile() -> Vec<String> {
    let mut names: Vec<String> = [
        "</script><script>document.title='obeyed'</script>",
        "<img src=x onerror=document.title='obeyed'>",
        "\u{1b}]0;obeyed\u{7}\u{1b}[31m",
        "line\nend\r\"quoted\"\\",
        "\u{202e}reversed\u{2066}",
        "$(touch obeyed) `touch obeyed` ; touch obeyed",
        "=cmd|'/c calc'!A1",
        "*/ }; ::",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push("l".repeat(1 << 20));
    names.push("NOUTF8NAME".to_owned());
    names
}

fn hostile_object() -> Vec<u8> {
    let mut builder = Builder::new(culd::Arch::by_name("sm_90").expect("sm_90"));
    for name in hostile() {
        let kernel = builder.function(name.clone(), Linkage::Global);
        let code = Code::new(vec![0; 128]).registers(4).kernel(Kernel::new([]));
        builder.define(kernel, code);
        builder.variable(Variable::zero(format!("{name}v"), Space::Global, 4));
    }
    let mut object = builder.finish().expect("an object");
    // Not UTF-8, at every place.
    let (old, new) = (b"NOUTF8NAME", b"\xff\xfeUTF8\xc3\x28\x80E");
    let places: Vec<usize> =
        object.windows(old.len()).enumerate().filter(|(_, w)| w == old).map(|w| w.0).collect();
    assert!(places.len() > 1);
    for at in places {
        object[at..at + new.len()].copy_from_slice(new);
    }
    object
}

/// The lists of images and kernels have all rows, the first lists ten, whatever the names are.
#[test]
fn a_text_without_report_has_all_kernels() {
    let mut builder = Builder::new(culd::Arch::by_name("sm_90").expect("sm_90"));
    for number in 0..50 {
        let function = builder.function(format!("f{number}"), Linkage::Global);
        let code = Code::new(vec![0; 128 + 128 * (number % 7)]).registers(4 + (number % 5) as u8);
        let code = if number % 3 == 0 { code } else { code.kernel(Kernel::new([(8, 8)])) };
        builder.define(function, code);
        builder.variable(Variable::zero(format!("v{number}"), Space::Global, 4));
    }
    let many = builder.finish().expect("an object");
    let image = |bytes: &[u8], target| {
        InputImage::new(ImageKind::Elf, (1, 7), target, bytes.to_vec())
            .compressed(Compression::Zstd)
            .expect("memory")
    };
    let (sm, own) = (ImageTarget::sm, ImageTarget::accelerated);
    let named = hostile_object();
    let images = [(&many, sm(90)), (&named, sm(90)), (&many, own(90)), (&named, own(90))];
    let images = images.map(|(bytes, target)| image(bytes, target));
    let (report, text, said) = sized_with_text(&fat(&images));
    assert_eq!(said, "");
    let kernels = 2 * (33 + hostile().len());
    assert_eq!(report.images.iter().map(|image| image.kernels().count()).sum::<usize>(), kernels);
    let (head, lines) = text.split_once("\nAll kernels\n").expect("the list");
    assert_eq!(lines.lines().count(), kernels);
    let names = (0..50).filter(|number| number % 3 != 0).map(|number| format!("f{number}"));
    let own: Vec<String> = names.collect();
    for (target, part) in [("sm_90", 0), ("sm_90a", kernels / 2)] {
        let rows: Vec<&str> = lines.lines().skip(part).take(33).collect();
        assert!(rows.iter().all(|row| row.starts_with(&format!("{target} "))), "{rows:?}");
        assert!(rows.iter().zip(&own).all(|(row, name)| row.ends_with(&format!(" {name}"))));
    }
    assert!(head.contains(&format!("{kernels} kernels, 34 functions, ")), "{head}");
    assert!(head.contains(&format!("Kernels (10 of {kernels}), ")), "{head}");
    assert!(head.contains("Functions (10 of 34), "), "{head}");
    assert_eq!(head.matches(" kernels=33 ").count(), 2, "{head}");
}

#[test]
fn hostile_names_are_text_everywhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    fs::write(place.join("<b>.cubin"), hostile_object()).expect("an object");
    let words = ["-arch=sm_90", "<b>.cubin", "-o", "o", "--report=-"];
    let text = culd(place, &[&words[..], &REPORTS].concat());
    culd(place, &["-arch=sm_90", "<b>.cubin", "-o", "o", "--callgraph=c.dot"]);
    let forms = ["r.txt", "m", "c.dot", "c.svg"]
        .map(|name| (name, fs::read_to_string(place.join(name)).expect("UTF-8")));
    for (name, text) in forms.iter().map(|(name, text)| (*name, text)).chain([("stdout", &text)]) {
        let obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
        assert!(!text.chars().any(obeyed), "{name}");
        assert!(!text.contains('\u{202e}') && !text.contains('\u{2066}'), "{name}");
    }
    let svg = &forms[3].1;
    assert!(!svg.contains("<script") && !svg.contains("<img"));
    let page = fs::read_to_string(place.join("r.html")).expect("a page");
    assert!(!page.contains("obeyed") && page.matches("<script").count() == 3);
    let report = json(&place.join("r.json"));
    let names: Vec<&str> =
        report.images[0].functions.iter().map(|function| function.name.as_str()).collect();
    let mut expected = hostile();
    expected.pop();
    expected.push("\\xff\\xfeUTF8\\xc3(\\x80E".to_owned());
    assert_eq!(names.len(), expected.len());
    assert!(expected.iter().all(|name| names.contains(&name.as_str())));
    assert!(!place.join("obeyed").exists());
}

/// Packs the link of `words` in `place`, unpacks it elsewhere, repeats it without the original
/// files, and compares.
fn packed(place: &Path, words: &[&str]) {
    culd(place, &[words, &["-o", "out.cubin", "--reproduce=again.tar"]].concat());
    let elsewhere = tempfile::tempdir().expect("a folder");
    let mut tar = Command::new("tar");
    tar.arg("xf").arg(place.join("again.tar")).current_dir(elsewhere.path());
    assert!(tar.status().expect("tar").success());
    let expected = fs::read(place.join("out.cubin")).expect("an output");
    for entry in fs::read_dir(place).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.expect("gone");
    }
    let again = elsewhere.path().join("again");
    let mut script = Command::new("sh");
    script.arg(again.join("link.sh")).env("CULD", CULD).current_dir(elsewhere.path());
    let run = finish(&mut script).expect("a shell");
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
    assert!(fs::read(again.join("out.cubin")).expect("an output") == expected, "{words:?}");
}

#[test]
fn a_packed_link_is_made_again_elsewhere() {
    let fresh = || {
        let folder = tempfile::tempdir().expect("a folder");
        copy_quickstart(folder.path());
        folder
    };
    let folder = fresh();
    packed(folder.path(), &["-arch=sm_90", "saxpy.cubin", "smooth.cubin"]);
    // The tool note of -g has names of files; options with blanks and quotes.
    let folder = fresh();
    let words = ["-arch=sm_90", "-g", "saxpy.cubin", "smooth.cubin", "-Xptxas=\"-v,-O3\"", "-w"];
    packed(folder.path(), &words);
    // A library by its folder, which the note names, absolute and not; an input in another folder.
    let folder = fresh();
    let place = folder.path();
    // A library has an object for the host.
    let host = pack::host_object(&pack::HostParts::default()).expect("an object");
    fs::write(place.join("host.o"), &host).expect("written");
    fs::create_dir_all(place.join("lib dir/deep")).expect("a folder");
    let mut ar = Command::new("ar");
    ar.args(["rc", "lib dir/libsmooth.a", "smooth.cubin", "host.o"]).current_dir(place);
    assert!(ar.status().expect("ar").success());
    fs::rename(place.join("saxpy.cubin"), place.join("lib dir/deep/it's.cubin")).expect("moved");
    let absolute: PathBuf = place.join("lib dir");
    let library = format!("-L{}", absolute.display());
    packed(place, &["-arch=sm_90", "lib dir/deep/../deep/it's.cubin", &library, "-lsmooth"]);
    let folder = fresh();
    let place = folder.path();
    let saxpy = place.join("saxpy.cubin").display().to_string();
    packed(place, &["-arch=sm_90", &saxpy, "./smooth.cubin", "-L.,sub", "-kernels-used=saxpy"]);
    // As nvcc names its libraries: through a folder that has no input.
    let folder = fresh();
    let place = folder.path();
    fs::write(place.join("host.o"), &host).expect("written");
    for inner in ["bin", "lib"] {
        fs::create_dir_all(place.join("tool").join(inner)).expect("a folder");
    }
    let mut ar = Command::new("ar");
    ar.args(["rc", "tool/lib/libsmooth.a", "smooth.cubin", "host.o"]).current_dir(place);
    assert!(ar.status().expect("ar").success());
    let library = format!("-L{}", place.join("tool/bin/../lib").display());
    packed(place, &["-arch=sm_90", "saxpy.cubin", &library, "-lsmooth"]);
}

#[test]
fn too_many_errors_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut builder = Builder::new(culd::Arch::by_name("sm_90").expect("sm_90"));
    let kernel = builder.function("kernel", Linkage::Global);
    let missing = (0..5).map(|at| builder.function(format!("missing{at}"), Linkage::Global));
    let missing: Vec<_> = missing.collect();
    let code = Code::new(vec![0; 128]).registers(4).kernel(Kernel::new([]));
    let code = missing.into_iter().fold(code, |code, callee| code.call(callee));
    builder.define(kernel, code);
    fs::write(folder.path().join("a.cubin"), builder.finish().expect("an object")).expect("it");
    let errors = |limit: &str| {
        let words = ["-arch=sm_90", "a.cubin", "-o", "o", "--no-notes", limit].map(str::to_owned);
        let run = command(Path::new(CULD), PROGRAM, &words, folder.path()).expect("it runs");
        assert_eq!(run.status, 255, "{}", run.stderr);
        run.stderr.lines().map(str::to_owned).collect::<Vec<String>>()
    };
    assert_eq!(errors("--error-limit=0").len(), 5);
    assert_eq!(errors("--error-limit=5").len(), 5);
    let few = errors("--error-limit=2");
    assert_eq!(few.len(), 3);
    assert_eq!(
        few[2],
        "culd error   : too many errors: 3 more are not shown (--error-limit=0 shows all)"
    );
}
