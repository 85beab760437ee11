//! Differences that docs/DIFFERENCES.md (lto) lists, and the parts that must be equal.
//!
//! In: a link that differs, and the entries of its row. Out: the entries that explain the whole
//! difference. Guaranteed: an entry counts only for its releases and targets, and only if the rest
//! is equal: the program in any order of its parts, or the image of another link by nvlink.

use super::{LtoBench, LtoLink, both_messages, sources, steps, target_number};
use anyhow::{Context, Result, ensure};
use culd_cubin::elf::stt;
use culd_cubin::{Cubin, Symbol, text_of};
use culd_fatbin::{Format, sniff};
use culd_testkit::reference::compare::code::functions;
use culd_testkit::reference::compare::objects_in;
use culd_testkit::reference::oracle::process::{self, Status};
use culd_testkit::reference::program::{Objects, ProgramText};
use std::collections::BTreeSet;
use std::fs;

/// A difference that is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ListedDifference {
    /// Functions have another order, because the LTO-IR is one piece without PTX: 13.2; before
    /// 13.0, where the text of PTX counts.
    Order,
    /// Arguments that all calls of a local function have in common are constants in it, where the
    /// text counts.
    Local,
    /// More variables are kept: the name of a used one occurs in theirs.
    Within,
    /// libcudadevrt is left out if only dead code needs it.
    Library,
    /// nvlink loses LTO-IR that is in no host object: 13.4 and earlier.
    Lost,
    /// nvlink demands libcudadevrt.
    Demanded,
    /// nvlink finds no libnvvm.
    Folder,
    /// nvlink has further infos.
    Words,
    /// nvlink loses `.ptx` files: before sm_90.
    PtxFiles,
    /// libnvJitLink is of another build than nvlink, which PTX names in a comment: 12.4, 13.3.
    Build,
    /// nvlink's register file has a module without name: before 13.0.
    Nameless,
    /// nvlink's object has lost what the next link needs (docs/DIFFERENCES.md, early-relocations).
    Early,
    /// nvlink finds the name of a virtual target too long: 13.0, sm_100 and later.
    Buffer,
    /// nvlink's own output varies from run to run: 13.0 to 13.3 with `-split-compile`, sm_100 and
    /// later.
    Again,
}

use ListedDifference::{
    Again, Buffer, Build, Demanded, Early, Folder, Library, Local, Lost, Nameless, Order, PtxFiles,
    Within, Words,
};

impl ListedDifference {
    /// The name in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Order => "order",
            Local => "local",
            Within => "within",
            Library => "library",
            Lost => "lost",
            Demanded => "demanded",
            Folder => "folder",
            Words => "words",
            PtxFiles => "ptx-files",
            Build => "build",
            Nameless => "nameless",
            Early => "early",
            Buffer => "buffer",
            Again => "again",
        }
    }
}

/// The same PTX in a fat binary, by the endings of the files.
const PTX_IN_FATBIN: &[(&str, &str)] = &[(".ptx", "p.fatbin")];

/// A link that differs.
pub(super) struct DifferingLink<'d> {
    pub(super) bench: &'d LtoBench,
    /// Words of both linkers in front of those of the row.
    pub(super) fixed: &'d [String],
    /// Those of the row.
    pub(super) words: &'d [String],
    pub(super) theirs: &'d LtoLink,
    pub(super) ours: &'d LtoLink,
}

impl DifferingLink<'_> {
    /// The entries of `listed` that explain the difference, by their names in the table.
    pub(super) fn accounted(&self, listed: &[ListedDifference]) -> Result<Option<String>> {
        // What is in many rows.
        let everywhere: &[ListedDifference] = match self.toolkit() {
            ..130 => &[PtxFiles, Build, Demanded],
            130 => &[PtxFiles, Buffer, Again],
            133 => &[PtxFiles, Build, Again],
            _ => &[PtxFiles, Again],
        };
        let listed = listed.iter().chain(everywhere).copied();
        let may: Vec<ListedDifference> = listed.filter(|one| self.may(*one)).collect();
        for &one in &may {
            if self.is(one, &may)? {
                return Ok(Some(one.name().to_owned()));
            }
        }
        Ok(None)
    }

    /// True if the entry is about this release, target and link.
    fn may(&self, listed: ListedDifference) -> bool {
        let toolkit = self.toolkit();
        let number = target_number(&self.bench.arch);
        let lto = self.words.iter().filter(|word| sources::is_lto(word)).count();
        match listed {
            Order if toolkit < 130 => lto == 1 && self.text_counts(),
            Order => lto == 1 && toolkit == 132,
            Local => self.text_counts(),
            Lost => toolkit <= 134,
            Build => toolkit < 130 || toolkit == 133,
            Nameless => toolkit < 130,
            Buffer => toolkit == 130 && number >= 100,
            Again => {
                let splits = |word: &String| word.starts_with("-split-compile");
                (130..=133).contains(&toolkit) && number >= 100 && self.words.iter().any(splits)
            }
            PtxFiles => number < 90 && self.words.iter().any(|word| word.ends_with(".ptx")),
            _ => true,
        }
    }

    fn toolkit(&self) -> u16 {
        self.bench.toolkit()
    }

    /// True where comments or lines of source files keep culd from the text in an object.
    fn text_counts(&self) -> bool {
        const OPTIONS: [&str; 3] = ["-emit-ptx", "-g", "-Xptxas=-lineinfo"];
        self.has_lines() || self.words.iter().any(|word| OPTIONS.contains(&word.as_str()))
    }

    /// True if an input has lines of source files.
    fn has_lines(&self) -> bool {
        self.words.iter().any(|word| word.ends_with("i.o"))
    }

    fn is(&self, listed: ListedDifference, all: &[ListedDifference]) -> Result<bool> {
        if listed == Early {
            return self.is_early();
        }
        if listed == Buffer {
            let said = self.theirs.run.stderr_text();
            return Ok(said.contains("fatal   : specified arch exceeds buffer length"));
        }
        let linked = self.ours.run.status == Status::Exit(0);
        let both = linked && self.theirs.run.status == Status::Exit(0);
        let nvlink_says = |text: &str| self.theirs.run.stderr_text().contains(text);
        if listed == PtxFiles && !linked {
            return self.fails_as(&self.renamed(PTX_IN_FATBIN));
        }
        Ok(linked
            && match listed {
                Within => both && self.says_the_same(self.theirs) && self.has_more_by_name(),
                Library if self.toolkit() < 130 => both && self.lacks_library_only(),
                // The same LTO-IR, of which nvlink makes a whole program if there is no library.
                Library => {
                    let mut words = self.renamed(&[("l.o", ".ltoir")]);
                    words.retain(|word| word != "-lcudadevrt");
                    self.is_link_of(&words, all)?
                }
                Local => {
                    both && self.says_the_same(self.theirs) && self.has_local_functions_only()?
                }
                Words => both && self.lacks_only_infos() && self.makes_the_same(self.theirs),
                Demanded => {
                    let more = [self.words, &["-lcudadevrt".to_owned()]].concat();
                    nvlink_says("expected libcudadevrt object")
                        && (self.is_link_of(&more, all)? || self.is_link_with_library()?)
                }
                Folder => {
                    let words: Result<Vec<String>> =
                        self.words.iter().map(|word| self.with_nvvm(word)).collect();
                    nvlink_says("elfLink linker library load error")
                        && self.is_link_of(&words?, all)?
                }
                // The same LTO-IR in a host object.
                Lost => {
                    self.is_link_of(&self.renamed(&[(".ltoir", ".o"), (".fatbin", ".o")]), all)?
                }
                // The same PTX in a fat binary.
                PtxFiles => self.is_link_of(&self.renamed(PTX_IN_FATBIN), all)?,
                Build => both && self.says_the_same(self.theirs) && self.is_of_other_build()?,
                Nameless => {
                    let other = self.theirs.register != self.ours.register;
                    both && other
                        && self.says_the_same(self.theirs)
                        && self.makes_the_same(self.theirs)
                }
                Order => {
                    self.says_the_same(self.theirs)
                        && (self.is_same_program(self.theirs, self.words)?
                            || self.has_ptx_in_another_order()?)
                }
                Again => both && self.says_the_same(self.theirs) && self.varies()?,
                Early | Buffer => false,
            })
    }

    /// True if nvlink makes another output when it is run again.
    fn varies(&self) -> Result<bool> {
        const TIMES: usize = 8;
        let command = [self.fixed, self.words].concat();
        for _ in 0..TIMES {
            let done = self.bench.link(self.bench.tools.oracle.command("nvlink"), &command)?;
            if done.output != self.theirs.output {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// `word`, but a folder of `-nvvmpath` is one that has the library. Its name is as long as that
    /// of the word, because the tool note has it.
    fn with_nvvm(&self, word: &str) -> Result<String> {
        let Some(named) = word.strip_prefix("-nvvmpath=") else { return Ok(word.to_owned()) };
        let name = "n".repeat(named.len());
        let link = self.bench.folder.join(&name);
        if !link.exists() {
            std::os::unix::fs::symlink(self.bench.nvvm()?, link)?;
        }
        Ok(format!("-nvvmpath={name}"))
    }

    /// The words, with other endings of files.
    fn renamed(&self, endings: &[(&str, &str)]) -> Vec<String> {
        let renamed = |word: &String| {
            let found = endings.iter().find_map(|(from, to)| Some((word.strip_suffix(from)?, to)));
            found.map_or_else(|| word.clone(), |(stem, to)| format!("{stem}{to}"))
        };
        self.words.iter().map(renamed).collect()
    }

    /// Whether culd says that it has not found libcudadevrt, and makes what nvlink makes with it.
    fn is_link_with_library(&self) -> Result<bool> {
        let missing = "there is no libcudadevrt.a in the library paths";
        if !self.ours.run.stderr_text().contains(missing) {
            return Ok(false);
        }
        let library = self.bench.tools.oracle.toolkit_library("libcudadevrt.a");
        let mut words = [self.fixed, self.words].concat();
        words.retain(|word| word != "-lcudadevrt");
        words.push(library.display().to_string());
        let done = self.bench.link(self.bench.tools.oracle.command("nvlink"), &words)?;
        Ok(done.run.status == Status::Exit(0) && self.makes_the_same(&done))
    }

    /// True if nvlink fails with `words`, and says what culd says.
    fn fails_as(&self, words: &[String]) -> Result<bool> {
        for word in words {
            sources::make(&self.bench.tools.oracle, &self.bench.arch, &self.bench.folder, word)?;
        }
        let command = [self.fixed, words].concat();
        let done = self.bench.link(self.bench.tools.oracle.command("nvlink"), &command)?;
        Ok(done.run.status == self.ours.run.status && self.says_the_same(&done))
    }

    /// True if nvlink's output of the link with `words` is culd's. Its order may differ if that is
    /// in `all`.
    fn is_link_of(&self, words: &[String], all: &[ListedDifference]) -> Result<bool> {
        for word in words {
            sources::make(&self.bench.tools.oracle, &self.bench.arch, &self.bench.folder, word)?;
        }
        let command = [self.fixed, words].concat();
        let done = self.bench.link(self.bench.tools.oracle.command("nvlink"), &command)?;
        if done.run.status != Status::Exit(0) || !self.says_the_same(&done) {
            return Ok(false);
        }
        Ok(self.makes_the_same(&done)
            || (all.contains(&Order) && self.is_same_program(&done, words)?))
    }

    /// True if `theirs` has the messages and the register file of culd. Names of files that were
    /// made for the comparison count as those of the row.
    fn says_the_same(&self, theirs: &LtoLink) -> bool {
        let name = |line: String| -> String {
            let mut line = line;
            for word in self.words {
                let Some((stem, ending)) = word.rsplit_once('.') else { continue };
                for made in [format!("'{stem}p.fatbin'"), format!("'{stem}.o'")] {
                    line = line.replace(&made, &format!("'{word}'"));
                }
                // In the register file.
                let module = format!("_{stem}_{ending})");
                line = line.replace(&format!("_{stem}p_fatbin)"), &module);
            }
            line
        };
        let [expected, actual] = both_messages(&theirs.run, &self.ours.run, "culd");
        expected.into_iter().map(name).eq(actual.into_iter().map(name))
            && self.named_modules(theirs.register.as_deref()).map(name)
                == self.named_modules(self.ours.register.as_deref()).map(name)
    }

    fn makes_the_same(&self, theirs: &LtoLink) -> bool {
        let words = [self.fixed, self.words].concat();
        self.bench.compare_outputs(&words, theirs, self.ours).is_none()
    }

    /// Whether the PTX of both differs only in the lines about the compiler's build and in numbers
    /// of calls and prototypes, and the program is the same: the name of a section with PTX depends
    /// on them.
    fn is_of_other_build(&self) -> Result<bool> {
        let without_build = |text: Vec<u8>| -> String {
            let text = String::from_utf8_lossy(&text);
            let lines = text.split_inclusive('\n');
            let lines = lines.filter(|line| !BUILD.iter().any(|begin| line.starts_with(begin)));
            lines.map(without_numbers).collect()
        };
        let [theirs, ours] = self.both_ptx()?;
        if theirs == ours || without_build(theirs.clone()) != without_build(ours) {
            return Ok(false);
        }
        let is_text = !self.ours.output.as_ref().is_some_and(|image| image.starts_with(b"\x7fELF"));
        // Debug information is no part of a program's text.
        Ok(is_text
            || self.is_same_program(self.theirs, self.words)?
            || self.links_alike(&theirs)?)
    }

    /// A register file without modules called `(null)`, which nvlink before 13.0 writes.
    fn named_modules(&self, file: Option<&[u8]>) -> Option<String> {
        const NAMELESS: &str = "DEFINE_REGISTER_FUNC((null))\n";
        let text = String::from_utf8_lossy(file?).into_owned();
        let named = text.replace(NAMELESS, "");
        if self.toolkit() >= 130 || named == text {
            return Some(text);
        }
        let count = |text: &str| {
            format!("#define NUM_PRELINKED_OBJECTS {}\n", text.lines().count().saturating_sub(1))
        };
        Some(named.replace(&count(&text), &count(&named)))
    }

    /// True if the functions that only nvlink has are those of libcudadevrt.
    fn lacks_library_only(&self) -> bool {
        let of = |done: &LtoLink| done.output.as_deref().and_then(functions);
        let (Some(mut expected), Some(actual)) = (of(self.theirs), of(self.ours)) else {
            return false;
        };
        expected.retain(|name, _| !name.contains("cuda_device_runtime"));
        expected.keys().eq(actual.keys()) && self.says_the_same(self.theirs)
    }

    /// True if all lines that only nvlink has are infos.
    fn lacks_only_infos(&self) -> bool {
        let [expected, actual] = both_messages(&self.theirs.run, &self.ours.run, "culd");
        let mut expected = expected.into_iter();
        for line in actual {
            loop {
                match expected.next() {
                    Some(other) if other == line => break,
                    Some(other) if other.starts_with("info ") => {}
                    _ => return false,
                }
            }
        }
        expected.all(|line| line.starts_with("info "))
    }

    /// True if both have the same functions, and each variable that only culd keeps has a name that
    /// contains the name of a variable that both keep.
    fn has_more_by_name(&self) -> bool {
        let names_of = |done: &LtoLink, is_wanted: fn(&Symbol<'_>) -> bool| -> BTreeSet<String> {
            let cubin = done.output.as_deref().and_then(|image| Cubin::parse(image).ok());
            let symbols = cubin.into_iter().flat_map(|cubin| cubin.symbols);
            symbols.filter(is_wanted).map(|symbol| text_of(symbol.name)).collect()
        };
        let [expected, actual] =
            [self.theirs, self.ours].map(|done| names_of(done, |symbol| symbol.is_function()));
        if expected != actual {
            return false;
        }
        let names = |done| names_of(done, |symbol| symbol.kind() == stt::OBJECT);
        let (expected, actual) = (names(self.theirs), names(self.ours));
        let more = actual.difference(&expected);
        let by_name = |name: &String| expected.iter().any(|used| name.contains(used.as_str()));
        expected.is_subset(&actual) && more.clone().count() > 0 && more.clone().all(by_name)
    }

    /// Whether nvlink's program is another than of an object that lost nothing, of which culd's is
    /// right; or culd refuses nvlink's object.
    fn is_early(&self) -> Result<bool> {
        let bench = self.bench;
        let (Some([object, sound]), Some(theirs)) = (&bench.sound, &self.theirs.output) else {
            return Ok(false);
        };
        let refuses = |done: &LtoLink| {
            let refusal = "cannot be linked here: nvlink -r resolved ";
            done.run.status == Status::Exit(255) && done.run.stderr_text().contains(refusal)
        };
        let ours = match self.ours.run.status {
            Status::Exit(0) if self.says_the_same(self.theirs) => self.ours.output.as_ref(),
            _ if refuses(self.ours) => None,
            _ => return Ok(false),
        };
        let mut objects = Vec::new();
        if self.words.iter().any(|word| sources::is_lto(word)) {
            let ptx = self.ptx(bench.tools.oracle.command("nvlink"), self.words)?;
            objects.push(self.object(&ptx)?);
        }
        fs::write(bench.folder.join(steps::OBJECT), object)?;
        objects.extend(self.others(self.words)?);
        let objects = Objects::parse(&objects)?;
        // From sm_100 on nvlink writes code of the library anew, and the program cannot be read.
        // Both linkers make the same of culd's object then, so the reason must be in nvlink's.
        let Ok(right) = ProgramText::read(sound, &objects) else {
            let Some(object) = bench.steps.first() else { return Ok(false) };
            fs::write(bench.folder.join(steps::OBJECT), object)?;
            let words = [self.fixed, self.words].concat();
            return Ok(refuses(&bench.link_as_it_is(bench.candidate(), &words)?));
        };
        let is_right = |program: &Vec<u8>| {
            ProgramText::read(program, &objects)
                .is_ok_and(|program| right.difference(&program).is_none())
        };
        Ok(!is_right(theirs) && ours.is_none_or(is_right))
    }

    /// Whether the PTX of both has the same items in another order, and both linkers make the same
    /// of nvlink's: what else differs is ptxas's doing, which by 13.2 gives a kernel more registers
    /// if it stands in front of functions.
    fn has_ptx_in_another_order(&self) -> Result<bool> {
        let [theirs, ours] = self.both_ptx()?;
        Ok(theirs != ours && items(&theirs) == items(&ours) && self.links_alike(&theirs)?)
    }

    /// Whether the PTX of both differs only in local functions and in code that calls them, and
    /// both linkers make the same of nvlink's.
    fn has_local_functions_only(&self) -> Result<bool> {
        let [theirs, ours] = self.both_ptx()?;
        let local = |item: &&String| item.starts_with(".func ");
        let name = |item: &String| -> Option<String> {
            let head = item.strip_prefix(".func ")?.trim_start();
            let result = head.strip_prefix('(').and_then(|head| head.split_once(')'));
            let head = result.map_or(head, |(_, rest)| rest).trim_start();
            Some(head.split(['(', ' ', '\n']).next()?.to_owned())
        };
        let names: BTreeSet<String> =
            items(&theirs).iter().filter(local).filter_map(name).collect();
        let others = |text: &[u8]| -> Vec<String> {
            let mentions = |item: &String| names.iter().any(|name| item.contains(name.as_str()));
            items(text).into_iter().filter(|item| !mentions(item)).collect()
        };
        Ok(theirs != ours
            && !names.is_empty()
            && others(&theirs) == others(&ours)
            && self.links_alike(&theirs)?)
    }

    /// The PTX of nvlink and of culd.
    fn both_ptx(&self) -> Result<[Vec<u8>; 2]> {
        let theirs = self.ptx(self.bench.tools.oracle.command("nvlink"), self.words)?;
        Ok([theirs, self.ptx(self.bench.candidate(), self.words)?])
    }

    /// True if both linkers make the same of `ptx` in the place of the LTO-IR.
    fn links_alike(&self, ptx: &[u8]) -> Result<bool> {
        let nvlink = || self.bench.tools.oracle.command("nvlink");
        self.object(ptx)?;
        let of_lto = |word: &String| word == "-dlto" || word.starts_with("-nvvmpath=");
        let mut words: Vec<String> =
            self.fixed.iter().filter(|word| !of_lto(word)).cloned().collect();
        let is_lto = |word: &&String| sources::is_lto(word);
        let first = self.words.iter().find(is_lto);
        let others = self.words.iter().filter(|word| *word != "-emit-ptx");
        words.extend(others.filter(|word| !is_lto(word) || Some(*word) == first).map(|word| {
            match is_lto(&word) {
                true => "listed.cubin".to_owned(),
                false => word.clone(),
            }
        }));
        let theirs = self.bench.link(nvlink(), &words)?;
        let ours = self.bench.link(self.bench.candidate(), &words)?;
        let linked = [&theirs, &ours].iter().all(|done| done.run.status == Status::Exit(0));
        Ok(linked && self.bench.difference(&words, &theirs, &ours).is_none())
    }

    /// True if `theirs`, which nvlink made with `words`, is culd's program in any order.
    fn is_same_program(&self, theirs: &LtoLink, words: &[String]) -> Result<bool> {
        let bench = self.bench;
        if [theirs, self.ours].iter().any(|done| done.run.status != Status::Exit(0)) {
            return Ok(false);
        }
        let nvlink = || bench.tools.oracle.command("nvlink");
        let sides = [(theirs, nvlink(), words), (self.ours, bench.candidate(), self.words)];
        let mut programs = Vec::new();
        for (number, (done, linker, words)) in sides.into_iter().enumerate() {
            if let Some(object) = bench.steps.get(number) {
                fs::write(bench.folder.join(steps::OBJECT), object)?;
            }
            let mut objects = Vec::new();
            if words.iter().any(|word| sources::is_lto(word)) {
                let ptx = self.ptx(linker, words)?;
                objects.push(self.object(&ptx)?);
            }
            objects.extend(self.others(words)?);
            let Some(image) = &done.output else { return Ok(false) };
            if !image.starts_with(b"\x7fELF") {
                return Ok(items(image) == items(self.ours.output.as_deref().unwrap_or_default()));
            }
            // Functions of an object may be defined nowhere.
            let Some(image) = self.linked(image)? else { return Ok(false) };
            let program = ProgramText::read(&image, &Objects::parse(&objects)?);
            let Ok(program) = program else { return Ok(false) };
            programs.push(program);
        }
        Ok(programs
            .first()
            .context("nvlink's")?
            .difference(programs.last().context("culd's")?)
            .is_none())
    }

    /// The PTX that `linker` makes of the LTO-IR in `words`.
    fn ptx(&self, linker: std::process::Command, words: &[String]) -> Result<Vec<u8>> {
        let mut all = [self.fixed, words].concat();
        all.retain(|word| !word.starts_with("--register") && word != "-v");
        if !all.iter().any(|word| word == "-emit-ptx") {
            all.push("-emit-ptx".to_owned());
        }
        self.bench.link(linker, &all)?.output.context("PTX of LTO-IR")
    }

    /// The object of `ptx`.
    fn object(&self, ptx: &[u8]) -> Result<Vec<u8>> {
        let folder = &self.bench.folder;
        fs::write(folder.join("listed.ptx"), ptx)?;
        let mut ptxas = self.bench.tools.oracle.command("ptxas");
        ptxas.args([
            "-c",
            &format!("-arch={}", self.bench.arch),
            "listed.ptx",
            "-o",
            "listed.cubin",
        ]);
        let run = process::run(ptxas.current_dir(folder), super::LIMIT)?;
        ensure!(run.status.success(), "{}", run.stderr_text());
        Ok(fs::read(folder.join("listed.cubin"))?)
    }

    /// The objects of inputs other than LTO-IR.
    fn others(&self, words: &[String]) -> Result<Vec<Vec<u8>>> {
        let mut others: Vec<String> = self.fixed.to_vec();
        others.extend(words.iter().filter(|word| !sources::is_lto(word)).cloned());
        let mut objects = objects_in(&others, &self.bench.folder);
        for word in words.iter().filter(|word| word.ends_with(".ptx")) {
            objects.push(self.object(&fs::read(self.bench.folder.join(word))?)?);
        }
        Ok(objects)
    }

    /// `image`, or the program that nvlink makes of it where it is an object; none where
    /// it makes none.
    fn linked(&self, image: &[u8]) -> Result<Option<Vec<u8>>> {
        if sniff(image) == Format::ExecutableCubin {
            return Ok(Some(image.to_vec()));
        }
        fs::write(self.bench.folder.join("listed-object.cubin"), image)?;
        let mut words =
            vec![format!("-arch={}", self.bench.arch), "listed-object.cubin".to_owned()];
        words.extend(self.fixed.iter().filter(|word| word.starts_with("-L")).cloned());
        words.push("-lcudadevrt".to_owned());
        let done = self.bench.link(self.bench.tools.oracle.command("nvlink"), &words)?;
        Ok(done.output)
    }
}

/// Marks in PTX that are followed by a count.
const COUNTED: [&str; 3] = ["$L__BB", "callseq ", "prototype_"];

/// The items of a PTX text, sorted, without the numbers that they have for their order, and without
/// declarations of functions that are used in front of their definitions.
fn items(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let mut items: Vec<String> = Vec::new();
    let mut item = String::new();
    let mut depth = 0usize;
    for line in text.lines().map(str::trim_end).filter(|line| !is_remark(line)) {
        item.push_str(&without_numbers(line));
        item.push('\n');
        depth = (depth + line.matches('{').count()).saturating_sub(line.matches('}').count());
        // A line about a variable that has moved into a kernel is one.
        let ends = line.is_empty() || line.ends_with([';', '}']) || line.starts_with("//");
        if depth == 0 && ends {
            items.push(std::mem::take(&mut item));
        }
    }
    items.push(item);
    let is_function = |item: &str| item.contains(".func ") || item.contains(".entry ");
    let is_forward =
        |item: &str| is_function(item) && !item.contains('{') && !item.starts_with(".extern ");
    items.retain(|item| !item.trim().is_empty() && !is_forward(item));
    items.sort();
    items
}

/// The begins of lines about the compiler's build.
const BUILD: [&str; 2] = ["// Compiler Build ID: ", "// Cuda compilation tools, "];

/// True for a line in front of a function or of what it needs, or about the build.
fn is_remark(line: &str) -> bool {
    ["\t// .globl", "\t// .weak"].iter().chain(&BUILD).any(|begin| line.starts_with(begin))
}

/// `line` without its numbers of what is counted.
fn without_numbers(line: &str) -> String {
    COUNTED.iter().fold(line.to_owned(), |line, mark| without_number(&line, mark))
}

/// `line` without the digits behind each `mark`.
fn without_number(line: &str, mark: &str) -> String {
    let mut parts = line.split(mark);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(mark);
        text.push_str(part.trim_start_matches(|char: char| char.is_ascii_digit()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_in_another_order_has_the_same_items() {
        let one = "\t// .globl a\n.func a ()\n{\n$L__BB0_1:\n ret;\n}\n\
                   // s has been demoted\n\n.global .u32 v;\n\
                   .func b ()\n{\n bra $L__BB1_2;\n}\n";
        let two = "\t// .weak b\n.func a\n(\n)\n;\n.func b ()\n{\n bra $L__BB0_2;\n}\n\
                   // s has been demoted\n.global .u32 v;\n\n\
                   .func a ()\n{\n$L__BB1_1:\n ret;\n}\n";
        assert_eq!(items(one.as_bytes()), items(two.as_bytes()));
        let other = two.replace("_2", "_3");
        assert_ne!(items(one.as_bytes()), items(other.as_bytes()));
    }
}
