//! Suite `registered`: random links of objects that an earlier device link has marked as linked.
//!
//! In: seeds. Out: a line for each link that differs, and a table. Guaranteed: status, messages,
//! and the bytes of the register file and of the program are compared after each of the links that
//! share a register file, as nvcc runs them for several architectures. The exit code is 1 if
//! something differs.

use super::Suite;
use super::setup::{Common, Setup};
use super::tally::{Tally, VerdictCounts};
use crate::workspace;
use anyhow::{Context, Result, ensure};
use culd_fatbin::host::HostReference;
use culd_fatbin::writer::{ImageTarget, InputImage};
use culd_testkit::fixtures::pack::{self, ArchiveFlavour, HostParts};
use culd_testkit::random::generate::rng::Rng;
use culd_testkit::reference::compare::trial::Tools;
use culd_testkit::reference::compare::{outcomes, outputs};
use culd_testkit::reference::oracle::process::{self, Run, Status};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

pub(super) const SUITE: Suite = Suite {
    name: "registered",
    about: "random links of objects that a device link marked",
    takes: &[Common::Seeds(0, 300), Common::Release],
    help: "",
    run,
};

const LIMIT: Duration = Duration::from_secs(60);
const REGISTER: &str = "program.reg.c";
const OUTPUT: &str = "program.cubin";

/// SM numbers. Objects have images for some of them.
const SMS: [u32; 3] = [75, 90, 100];
/// A target without an image.
const OTHER_SM: u32 = 80;

/// The sources of modules: the first calls a function of the second, the fourth one of the system
/// library.
const SOURCES: [&str; 5] = [
    ".extern .func f; .visible .entry k0() { call f; ret; } .visible .entry k0b() { ret; }",
    ".visible .func f { ret; } .visible .entry k1() { ret; }",
    ".visible .global .u32 g = 7; .visible .entry k2() { ret; } .visible .entry k2b() { ret; }",
    ".extern .func sys; .visible .entry k3() { call sys; ret; }",
    ".visible .func sys { ret; }",
];
const SYSTEM: usize = 4;
const SYSTEM_ID: &str = "_f4510a67_22_cuda_device_runtime_cu_3ecce0c0_1";
const SYSTEM_LIBRARY: &str = "libcudadevrt_test.a";

/// Names that host code may refer to.
const KERNELS: [&str; 5] = ["k0", "k1", "k2", "k2b", "k3"];

/// Cubins by number of the source and SM number.
type Cubins = BTreeMap<(usize, u32), Vec<u8>>;

/// A program: files, and the links that share its register file.
struct RegisteredProgram {
    files: Vec<(String, Vec<u8>)>,
    links: Vec<Vec<String>>,
    /// A register file from before the links.
    existing: Option<Vec<u8>>,
}

/// The result of a link.
struct RegisteredLink {
    run: Run,
    output: Option<Vec<u8>>,
    register: Option<Vec<u8>>,
}

/// The data of the comparison.
struct RegisteredBench {
    tools: Tools,
    cubins: Cubins,
    keep: PathBuf,
    tally: Tally,
}

fn run(mut setup: Setup) -> Result<ExitCode> {
    setup.finish()?;
    let tools = setup.tools()?;
    let cubins = compile(&tools)?;
    let seeds = setup.bounded_seeds()?;
    let mut bench =
        RegisteredBench { tools, cubins, keep: setup.keep, tally: Tally::new("links", "links") };
    for seed in seeds {
        let dir = tempfile::tempdir()?;
        let dir = dir.path().canonicalize()?;
        let program = Generator::new(seed, &bench.cubins, &dir).program()?;
        bench.one(seed, &program, &dir).with_context(|| format!("seed {seed}"))?;
    }
    print!("{}", bench.tally.table());
    println!("\nwithout a verdict: docs/DIFFERENCES.md, register-file");
    Ok(bench.tally.exit_code())
}

fn compile(tools: &Tools) -> Result<Cubins> {
    let dir = tempfile::tempdir()?;
    let mut cubins = Cubins::new();
    for (number, source) in SOURCES.iter().enumerate() {
        for sm in SMS {
            let head = format!(".version 8.7\n.target sm_{sm}\n.address_size 64\n");
            fs::write(dir.path().join("source.ptx"), head + source)?;
            let mut ptxas = tools.oracle.command("ptxas");
            ptxas.current_dir(dir.path()).args(["-c", "source.ptx", "-o", "source.cubin"]);
            let run = process::run(ptxas.arg(format!("-arch=sm_{sm}")), LIMIT)?;
            ensure!(run.status.success(), "{source}: {}", run.stderr_text());
            cubins.insert((number, sm), fs::read(dir.path().join("source.cubin"))?);
        }
    }
    Ok(cubins)
}

impl RegisteredBench {
    /// Runs the links of a program with both linkers and compares.
    fn one(&mut self, seed: u64, program: &RegisteredProgram, dir: &Path) -> Result<()> {
        let tools = &self.tools;
        for (name, bytes) in &program.files {
            fs::write(dir.join(name), bytes)?;
        }
        let mut existing = program.existing.clone();
        for (place, words) in program.links.iter().enumerate() {
            let theirs = link(tools.oracle.command("nvlink"), words, existing.as_deref(), dir)?;
            let mut candidate = Command::new(&tools.candidate);
            let itself = tools.candidate == tools.oracle.tool("nvlink");
            candidate.args(&tools.dialect_option).args((!itself).then_some("--no-notes"));
            let ours = link(candidate, words, existing.as_deref(), dir)?;
            let counts = match compare(&theirs, &ours, words, &self.cubins) {
                None if theirs.run.status.success() => VerdictCounts::identical(1),
                None => VerdictCounts::same_error(1),
                Some(_) if reads_behind(&theirs, &ours, existing.as_deref()) => {
                    VerdictCounts::no_verdict(1)
                }
                Some(what) => {
                    let kept = self.keep.join(format!("{seed}-{place}"));
                    workspace::keep_tree(dir, &kept)?;
                    println!("seed {seed}, link {place}: {}: {what}", words.join(" "));
                    println!("  kept in {}", kept.display());
                    VerdictCounts::failed(1)
                }
            };
            self.tally.add("links", "", counts);
            existing = theirs.register;
        }
        Ok(())
    }
}

fn link(
    mut linker: Command,
    words: &[String],
    existing: Option<&[u8]>,
    dir: &Path,
) -> Result<RegisteredLink> {
    let paths = [REGISTER, OUTPUT].map(|name| dir.join(name));
    for path in paths.iter().filter(|path| path.exists()) {
        fs::remove_file(path)?;
    }
    if let Some(existing) = existing {
        fs::write(dir.join(REGISTER), existing)?;
    }
    let run = process::run(linker.args(words).args(["-o", OUTPUT]).current_dir(dir), LIMIT)?;
    ensure!(matches!(run.status, Status::Exit(_)), "{words:?}: {}", run.status);
    let [register, output] = paths.map(|path| fs::read(path).ok());
    Ok(RegisteredLink { run, output, register })
}

fn compare(
    theirs: &RegisteredLink,
    ours: &RegisteredLink,
    words: &[String],
    cubins: &Cubins,
) -> Option<String> {
    if let Some(what) = outcomes(&theirs.run, &ours.run) {
        return Some(what);
    }
    if theirs.register != ours.register {
        let text = |register: &Option<Vec<u8>>| {
            register.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        };
        let (theirs, ours) = (text(&theirs.register), text(&ours.register));
        return Some(format!("register file {ours:?} instead of {theirs:?}"));
    }
    match (&theirs.output, &ours.output) {
        (Some(theirs), Some(ours)) => {
            outputs(words, || cubins.values().cloned().collect(), theirs, ours).err()
        }
        (None, None) => None,
        (theirs, _) => Some(format!("an output of one alone, nvlink's: {}", theirs.is_some())),
    }
}

/// True if nvlink kept the file because of old contents of its memory behind the text
/// (docs/DIFFERENCES.md, register-file).
fn reads_behind(theirs: &RegisteredLink, ours: &RegisteredLink, existing: Option<&[u8]>) -> bool {
    let lists_system = |file: &Option<Vec<u8>>| {
        file.as_ref().is_some_and(|text| String::from_utf8_lossy(text).contains(SYSTEM_ID))
    };
    theirs.register.as_deref() == existing
        && !lists_system(&theirs.register)
        && lists_system(&ours.register)
}

/// Makes programs.
struct Generator<'c> {
    rng: Rng,
    cubins: &'c Cubins,
    /// The system library is on the line. With it, nvlink treats an existing register file in
    /// another way if an object of several modules is marked.
    has_library: bool,
    /// The target of the cubins among the files, and of all links with them.
    cubin_sm: Option<u32>,
    /// The folder of the files: modules without ids have their paths as names.
    dir: &'c Path,
}

impl<'c> Generator<'c> {
    fn new(seed: u64, cubins: &'c Cubins, dir: &'c Path) -> Self {
        Generator { rng: Rng::new(seed), cubins, has_library: false, cubin_sm: None, dir }
    }

    fn program(&mut self) -> Result<RegisteredProgram> {
        let mut files = Vec::new();
        self.has_library = self.rng.chance(60);
        for source in 0..SYSTEM {
            // Sometimes a module is missing, or there is a second object with the same id.
            for copy in 0..self.rng.weighted(&[10, 80, 10]).unwrap_or_default() {
                files.push(self.module(source, copy)?);
            }
        }
        let count = self.rng.weighted(&[10, 60, 30]).unwrap_or_default();
        for number in 0..count {
            files.push((format!("m{number}.o"), self.marking()?));
        }
        if self.rng.chance(20) {
            files.push(("host.o".to_owned(), pack::host_object(&HostParts::default())?));
        }
        self.shuffle(&mut files);
        let mut words = Vec::new();
        let mut members = Vec::new();
        for (name, bytes) in &files {
            let is_object = Path::new(name).extension().is_some_and(|extension| extension == "o");
            match is_object && self.rng.chance(30) {
                true => members.push((name.as_str(), bytes.as_slice())),
                false => words.push(name.clone()),
            }
        }
        if !members.is_empty() {
            let flavour =
                self.rng.pick(&[ArchiveFlavour::Gnu, ArchiveFlavour::Gnu, ArchiveFlavour::Thin]);
            let archive = pack::archive(&members, flavour);
            match self.rng.chance(40) {
                true => words.extend(["-L.".to_owned(), "-lparts".to_owned()]),
                false => words.insert(self.rng.below(words.len() + 1), "libparts.a".to_owned()),
            }
            files.push(("libparts.a".to_owned(), archive));
        }
        if self.has_library {
            let parts = self.object_of(
                SYSTEM,
                Some([SYSTEM_ID.as_bytes(), b"\0"].concat()),
                Some(Vec::new()),
            )?;
            let object = pack::host_object(&parts)?;
            files.push((
                SYSTEM_LIBRARY.to_owned(),
                pack::archive(&[("rt.o", &object)], ArchiveFlavour::Gnu),
            ));
            words.extend(["-L.".to_owned(), "-lcudadevrt_test".to_owned()]);
        }
        // Archives alone are no inputs for nvlink.
        if !words.iter().any(|word| Path::new(word).extension().is_none_or(|e| e != "a")) {
            files.push(("empty.o".to_owned(), pack::host_object(&HostParts::default())?));
            words.push("empty.o".to_owned());
        }
        let sm = self.cubin_sm;
        let links = (0..self.rng.range(1, 3)).map(|_| self.options(&words, sm)).collect();
        let existing = self.existing();
        Ok(RegisteredProgram { files, links, existing })
    }

    /// The words of one link.
    fn options(&mut self, words: &[String], sm: Option<u32>) -> Vec<String> {
        let mut options = vec![match (sm, self.rng.weighted(&[75, 15, 10])) {
            (Some(sm), _) => format!("-arch=sm_{sm}"),
            (None, Some(0)) => format!("-arch=sm_{}", self.rng.pick(&SMS)),
            (None, Some(1)) => format!("-arch=sm_{OTHER_SM}"),
            _ => "-arch=compute_90".to_owned(),
        }];
        if self.rng.chance(90) {
            options.push(format!("--register-link-binaries={REGISTER}"));
        }
        for (percent, option) in [(10, "-r"), (10, "-g"), (10, "-Werror"), (10, "-disable-infos")] {
            if self.rng.chance(percent) {
                options.push(option.to_owned());
            }
        }
        options.extend(words.iter().cloned());
        options
    }

    fn existing(&mut self) -> Option<Vec<u8>> {
        let choices: [&[u8]; 6] = [
            b"",
            b"something else\n",
            b"#define NUM_PRELINKED_OBJECTS 1\nDEFINE_REGISTER_FUNC(_0_a_cu)\n",
            b"// _cuda_device_runtime_ is named\n",
            b"\0_cuda_device_runtime_",
            b"_cuda_device\n_runtime_",
        ];
        self.rng.chance(30).then(|| self.rng.pick(&choices).to_vec())
    }

    /// A file with the code of a source.
    fn module(&mut self, source: usize, copy: usize) -> Result<(String, Vec<u8>)> {
        let name = format!("x{source}{copy}");
        if self.rng.chance(10) {
            let sm = self.rng.pick(&SMS);
            let sm = *self.cubin_sm.get_or_insert(sm);
            return Ok((format!("{name}.cubin"), self.cubins[&(source, sm)].clone()));
        }
        if self.rng.chance(10) {
            return Ok((format!("{name}.fatbin"), self.fatbin(source)?));
        }
        let id = format!("_{source}_a_cu").into_bytes();
        let id = match self.rng.weighted(&[68, 8, 8, 8, 8]) {
            Some(0) => Some([&id[..], b"\0"].concat()),
            // The NUL stays: without it, nvlink reads behind the end of the section.
            Some(1) => Some([&id[..], b"\0\0\0"].concat()),
            // The ids of several merged objects, but the code of one.
            Some(2) if !self.has_library => {
                Some([&id[..], b"\0_6_a_cu\0\0_7_a_cu\0_8_a_cu\0"].concat())
            }
            Some(3) => Some([&b"\0"[..], &id, b"\0"].concat()),
            _ => None,
        };
        let references = self.references();
        let parts = self.object_of(source, id, references)?;
        Ok((format!("{name}.o"), pack::host_object(&parts)?))
    }

    fn object_of(
        &mut self,
        source: usize,
        id_section: Option<Vec<u8>>,
        references: Option<Vec<String>>,
    ) -> Result<HostParts> {
        Ok(HostParts {
            fatbins: vec![self.fatbin(source)?],
            id_section,
            references: references
                .into_iter()
                .map(|names| (HostReference::Kernel, names))
                .collect(),
            ..HostParts::default()
        })
    }

    fn fatbin(&mut self, source: usize) -> Result<Vec<u8>> {
        let first = self.rng.pick(&SMS);
        let mut images = Vec::new();
        for sm in SMS {
            if sm == first || self.rng.chance(75) {
                images.push(InputImage::cubin(
                    self.cubins[&(source, sm)].clone(),
                    ImageTarget::sm(sm),
                )?);
            }
        }
        pack::fatbin(&images)
    }

    /// The names that host code refers to; `None` if it has no list.
    fn references(&mut self) -> Option<Vec<String>> {
        let count = self.rng.below(3);
        self.rng
            .chance(85)
            .then(|| (0..count).map(|_| self.rng.pick(&KERNELS).to_owned()).collect())
    }

    /// An object of a device link, or one that is similar.
    fn marking(&mut self) -> Result<Vec<u8>> {
        let mut list = Vec::new();
        for _ in 0..self.rng.below(4) {
            list.extend_from_slice(self.element().as_bytes());
            list.extend_from_slice(&[0, 0, 0, 0][..self.rng.pick(&[1, 1, 1, 2, 4])]);
        }
        let last = self.element();
        list.extend_from_slice(last.as_bytes());
        // Without it, nvlink may read behind the end of the section (docs/DIFFERENCES.md,
        // register-file).
        list.push(0);
        let (whole, code) = match self.rng.weighted(&[45, 30, 15, 10]) {
            Some(0) => (true, false),
            Some(1) => (false, false),
            Some(2) => (false, true),
            _ => (true, true),
        };
        let source = self.rng.below(SYSTEM);
        let references = self.references().filter(|_| self.rng.chance(30));
        let whole_program = if whole { self.fatbin(source)? } else { Vec::new() };
        let fatbins = if code { vec![self.fatbin(source)?] } else { Vec::new() };
        pack::host_object(&HostParts {
            whole_program,
            segment: Some((whole || code) && self.rng.chance(85)),
            fatbins,
            id_section: Some(list),
            references: references
                .into_iter()
                .map(|names| (HostReference::Kernel, names))
                .collect(),
            ..HostParts::default()
        })
    }

    /// An element of a list of modules.
    fn element(&mut self) -> String {
        let id = match self.rng.weighted(&[70, 10, 10, 10]) {
            Some(0) => format!("_{}_a_cu", self.rng.below(SYSTEM)),
            Some(1) => SYSTEM_ID.to_owned(),
            Some(2) => self.path_id(),
            _ => self.rng.pick(&["_7_a_cu", "_9_a_cu", "", "_0_a", " _0_a_cu"]).to_owned(),
        };
        let head = match self.rng.chance(96) {
            true => "def ",
            false => self.rng.pick(&["", "define ", "def_", "DEF ", "def"]),
        };
        format!("{head}{id}")
    }

    /// The name of a module without an id.
    fn path_id(&mut self) -> String {
        let extension = self.rng.pick(&["o", "cubin", "fatbin"]);
        let name = format!("x{}0.{extension}", self.rng.below(SYSTEM));
        let path = self.dir.join(name).to_string_lossy().into_owned();
        path.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.rng.below(last + 1));
        }
    }
}
