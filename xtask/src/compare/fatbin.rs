//! Suite `fatbin`: compares `crates/fatbin` and the packaging of testkit with the reference tools.
//!
//! In: small programs, below. Out: a table of comparisons. Guaranteed: exit code 1 in each of these
//! cases: a fat binary of `fatbinary` is not read and written again with the same bytes; one of
//! ours differs from `fatbinary`'s of the same files; `cuobjdump` does not extract from ours what
//! was put in; nvlink does not link our packages to the same bytes as the bare cubins.

use super::Suite;
use super::setup::Setup;
use super::tally::{Tally, VerdictCounts};
use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use culd_fatbin::archive::{self, MemberContents};
use culd_fatbin::container::{self, Encoding, FatbinEntry, ImageKind, Variant};
use culd_fatbin::header::flag;
use culd_fatbin::host::{HostObject, HostReference};
use culd_fatbin::writer::{self, Compression, ImageTarget, InputImage};
use culd_fatbin::{Format, sniff};
use culd_testkit::fixtures::pack::{self, ArchiveFlavour, HostParts};
use culd_testkit::reference::oracle::process::{self, Run};
use culd_testkit::reference::oracle::{COMPILE_LIMIT, Oracle};
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

pub(super) const SUITE: Suite = Suite {
    name: "fatbin",
    about: "fat binaries, host objects and archives, with fatbinary, cuobjdump and nvlink",
    takes: &[],
    help: "",
    run,
};

const LIMIT: Duration = Duration::from_secs(60);
const IMAGE_LIMIT: u64 = 1 << 24;

const KERNEL: &str = "
.address_size 64
.extern .func (.reg .b32 r) f(.reg .b32 x);
.visible .entry k(.param .u64 p) {
  .reg .b32 %r<3>; .reg .b64 %d<2>;
  ld.param.u64 %d1, [p]; ld.u32 %r1, [%d1];
  call (%r2), f, (%r1);
  st.u32 [%d1], %r2; ret;
}
";
const FUNCTION: &str = "
.address_size 64
.visible .func (.reg .b32 r) f(.reg .b32 x) { add.u32 r, x, 1; ret; }
";
const CUDA: &str = "__global__ void k(int *p) { *p = 1; }\n";

/// Archives with relocatable code.
const LIBRARIES: &[&str] = &["libcudadevrt.a"];

const TARGETS: &[&str] = &["75", "90", "90a", "100", "100f", "120a"];

/// Options of `fatbinary`, and their effect on the stored images.
const OPTIONS: &[(&[&str], ImageSettings)] = &[
    (&[], ImageSettings::NONE),
    (&["-compress=false"], ImageSettings::NONE),
    (&["-compress-mode=none"], ImageSettings::NONE),
    (&["-compress-mode=default"], ImageSettings::NONE),
    (&["-compress-mode=balance"], ImageSettings::NONE),
    (&["-compress-mode=size"], ImageSettings::NONE),
    (&["-compress-mode=speed"], ImageSettings::NONE),
    (&["-compress-all"], ImageSettings::NONE),
    (&["-compress-all", "-compress-mode=speed"], ImageSettings::NONE),
    (&["--device-c"], ImageSettings::NONE),
    (&["--link"], ImageSettings::NONE),
    (&["-g", "-compress=false"], ImageSettings { debug: true, ..ImageSettings::NONE }),
    (&["-g"], ImageSettings { debug: true, ..ImageSettings::NONE }),
    (
        &["-compress=false", "-ident=seven77"],
        ImageSettings { ident: "seven77", ..ImageSettings::NONE },
    ),
    (
        &["-compress=false", "-ident=eight888"],
        ImageSettings { ident: "eight888", ..ImageSettings::NONE },
    ),
    (
        &["-compress=false", "-cmdline=-O3 -v "],
        ImageSettings { ptxas: "-O3 -v ", ..ImageSettings::NONE },
    ),
    (
        &["-compress=false", "-cicc-cmdline=-ftz=0"],
        ImageSettings { cicc: "-ftz=0", ..ImageSettings::NONE },
    ),
    (
        &["-compress=false", "-g", "-ident=i", "-cmdline=eight888", "-cicc-cmdline=seven77"],
        ImageSettings { debug: true, ident: "i", ptxas: "eight888", cicc: "seven77" },
    ),
    (
        &["-ident=i", "-cmdline=--compile-only  ", "-c"],
        ImageSettings { ident: "i", ptxas: "--compile-only  ", ..ImageSettings::NONE },
    ),
];

/// Settings of [`OPTIONS`].
#[derive(Clone, Copy)]
struct ImageSettings {
    debug: bool,
    ident: &'static str,
    ptxas: &'static str,
    cicc: &'static str,
}

impl ImageSettings {
    const NONE: ImageSettings = ImageSettings { debug: false, ident: "", ptxas: "", cicc: "" };

    /// The image of a file as `fatbinary` is expected to store it.
    fn image(&self, part: &ImageFile) -> Result<InputImage> {
        let image = match part.kind {
            "elf" => InputImage::cubin(part.data.clone(), part.target)?,
            "ptx" => InputImage::ptx(&part.data, part.target)?.options(self.ptxas),
            _ => InputImage::lto_ir(part.data.clone(), part.target)?.options(self.cicc),
        };
        Ok(image.ident(self.ident).flags(if self.debug { flag::DEBUG } else { 0 }))
    }
}

/// A file that becomes an image.
#[derive(Clone)]
struct ImageFile {
    /// As in `-image3=kind=...`.
    kind: &'static str,
    /// As in `-image3=sm=...`.
    name: &'static str,
    target: ImageTarget,
    file: String,
    data: Vec<u8>,
}

fn run(mut setup: Setup) -> Result<ExitCode> {
    setup.finish()?;
    let folder = tempfile::tempdir()?;
    let lab = FatbinLab { oracle: workspace::oracle()?, dir: folder.path() };
    let parts = lab.parts()?;
    let rows = [
        ("made by fatbinary", lab.remade(&parts)),
        ("in libraries", lab.libraries()),
        ("taken apart by cuobjdump", lab.extracted(&parts)),
        ("linked by nvlink", lab.linked(&parts)),
    ];
    let mut tally = Tally::new("what", "checks");
    for (what, results) in rows {
        for (name, result) in &results {
            if let Err(error) = result {
                eprintln!("{what}: {name}: {error:#}");
            }
            tally.add(what, "", VerdictCounts::same(result.is_ok()));
        }
    }
    print!("{}", tally.table());
    Ok(tally.exit_code())
}

type Results = Vec<(String, Result<()>)>;

/// The tools and a folder for files.
struct FatbinLab<'a> {
    oracle: Oracle,
    dir: &'a Path,
}

impl FatbinLab<'_> {
    fn tool(&self, name: &str, arguments: &[String]) -> Result<Run> {
        let mut command = self.oracle.command(name);
        let run = process::run(command.current_dir(self.dir).args(arguments), LIMIT)?;
        ensure!(run.status.success(), "{name}: {}: {}", run.status, run.stderr_text());
        Ok(run)
    }

    fn write(&self, name: &str, data: &[u8]) -> Result<()> {
        fs::write(self.dir.join(name), data).with_context(|| name.to_owned())
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        fs::read(self.dir.join(name)).with_context(|| name.to_owned())
    }

    /// For each target, a kernel and a function, as PTX and as cubins, and a file of LTO-IR.
    fn parts(&self) -> Result<Vec<ImageFile>> {
        let mut parts = Vec::new();
        for name in TARGETS {
            let target = target(name)?;
            let version = if name.ends_with('f') || target.sm >= 120 { "8.8" } else { "8.6" };
            for (stem, text) in [("k", KERNEL), ("f", FUNCTION)] {
                let (ptx, cubin) = (format!("{stem}.{name}.ptx"), format!("{stem}.{name}.cubin"));
                self.write(
                    &ptx,
                    format!(".version {version}\n.target sm_{name}{text}").as_bytes(),
                )?;
                self.compile(&ptx, &cubin, name, &[])?;
                for (kind, file) in [("ptx", ptx), ("elf", cubin)] {
                    let data = self.read(&file)?;
                    parts.push(ImageFile { kind, name, target, file, data });
                }
            }
            let file = format!("{name}.ltoir");
            self.write("k.cu", CUDA.as_bytes())?;
            self.compile("k.cu", &file, name, &["-dlto", "-ltoir"])?;
            let data = self.read(&file)?;
            parts.push(ImageFile { kind: "nvvm", name, target, file, data });
        }
        Ok(parts)
    }

    fn compile(&self, source: &str, output: &str, target: &str, flags: &[&str]) -> Result<()> {
        let mut command = match flags {
            [] => self.oracle.compiler(Path::new(source), &[]),
            _ => self.oracle.command("nvcc"),
        };
        command.args(flags).arg(format!("-arch=sm_{target}")).args([source, "-o", output]);
        let run = process::run(command.current_dir(self.dir), COMPILE_LIMIT)?;
        ensure!(run.status.success(), "{source}: {}: {}", run.status, run.stderr_text());
        Ok(())
    }

    /// Reads the output of `fatbinary`, writes it again, and makes it from the same files.
    fn remade(&self, parts: &[ImageFile]) -> Results {
        let of = |wanted: &[&str]| -> Vec<ImageFile> {
            parts.iter().filter(|part| wanted.contains(&part.kind)).cloned().collect()
        };
        let mut lists: Vec<Vec<ImageFile>> = parts.iter().map(|part| vec![part.clone()]).collect();
        lists.extend([of(&["elf"]), of(&["ptx", "elf"]), of(&["nvvm", "ptx"]), parts.to_vec()]);
        let mut results = Vec::new();
        for (options, recipe) in OPTIONS {
            for list in &lists {
                let files: Vec<&str> = list.iter().map(|part| part.file.as_str()).collect();
                let name = format!("{options:?} {files:?}");
                results.push((name, self.remake(options, recipe, list)));
            }
        }
        results
    }

    fn remake(&self, options: &[&str], recipe: &ImageSettings, parts: &[ImageFile]) -> Result<()> {
        let mut arguments = vec!["-64".to_owned(), "--create=out.fatbin".to_owned()];
        arguments.extend(options.iter().map(|&option| option.to_owned()));
        arguments.extend(parts.iter().map(|part| {
            format!("--image3=kind={},sm={},file={}", part.kind, part.name, part.file)
        }));
        self.tool("fatbinary", &arguments)?;
        let file = self.read("out.fatbin")?;
        let entries = entries(&file)?;
        let again: Vec<InputImage> = entries.iter().map(InputImage::from).collect();
        ensure!(writer::write(&again)? == file, "not the same bytes when written again");
        ensure!(entries.len() == parts.len(), "{} entries", entries.len());
        for (entry, part) in entries.iter().zip(parts) {
            let ours = recipe.image(part)?;
            match entry.encoding() {
                Encoding::Stored => {
                    let (ours, theirs) = (alone(&ours)?, alone(&InputImage::from(entry))?);
                    ensure!(ours == theirs, "another entry for {}", part.file);
                }
                Encoding::Lz4 | Encoding::Zstd => {
                    let compression = match entry.encoding() {
                        Encoding::Lz4 => Compression::Lz4,
                        _ if options.contains(&"-compress-mode=size") => Compression::ZstdSmall,
                        _ => Compression::Zstd,
                    };
                    let ours = alone(&ours.compressed(compression)?)?;
                    ensure!(
                        ours == alone(&InputImage::from(entry))?,
                        "{} is compressed to something else",
                        part.file
                    );
                }
                _ => ensure!(part.kind == "nvvm", "{} is scrambled", part.file),
            }
        }
        Ok(())
    }

    /// Writes the fat binaries in archives of the toolkit again; the bytes must be the same.
    fn libraries(&self) -> Results {
        let checked = |name: &&str| ((*name).to_owned(), self.rewrite_archive(name));
        LIBRARIES.iter().map(checked).collect()
    }

    fn rewrite_archive(&self, name: &str) -> Result<()> {
        let file = fs::read(self.oracle.toolkit_library(name))?;
        let mut images = 0;
        for member in archive::members(&file)? {
            let MemberContents::Here { data, .. } = member?.contents else {
                bail!("a thin archive")
            };
            let Some(object) = HostObject::parse(data)? else { bail!("not an object") };
            for section in &object.fatbins {
                for container in container::containers(section.data) {
                    let container = container?;
                    let entries = container.entries().collect::<Result<Vec<_>, _>>()?;
                    for entry in &entries {
                        let data = entry.data(IMAGE_LIMIT)?;
                        ensure!(
                            entry.kind() != ImageKind::Elf
                                || sniff(&data) == Format::RelocatableCubin,
                            "an image that is no cubin"
                        );
                    }
                    images += entries.len();
                    let again: Vec<InputImage> = entries.iter().map(InputImage::from).collect();
                    ensure!(writer::write(&again)? == container.bytes(), "other bytes");
                }
            }
        }
        ensure!(images > 0, "no images");
        Ok(())
    }

    /// Checks that `cuobjdump` extracts what was put in.
    fn extracted(&self, parts: &[ImageFile]) -> Results {
        let mut results = Vec::new();
        for compression in COMPRESSIONS {
            for part in parts.iter().filter(|part| part.kind != "nvvm") {
                let name = format!("{compression:?} {}", part.file);
                results.push((name, self.extract(part, *compression)));
            }
        }
        results
    }

    fn extract(&self, part: &ImageFile, compression: Option<Compression>) -> Result<()> {
        let image = ImageSettings::NONE.image(part)?;
        let expected = data_of(&image)?;
        self.write("in.fatbin", &alone(&compressed(image, compression)?)?)?;
        let option = format!("-x{}", part.kind);
        self.tool("cuobjdump", &[option, "all".to_owned(), "in.fatbin".to_owned()])?;
        let extension = if part.kind == "elf" { "cubin" } else { "ptx" };
        let mut found = Vec::new();
        for file in fs::read_dir(self.dir)? {
            let path = file?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with("in.") && name.ends_with(extension) {
                found.push(fs::read(&path)?);
                fs::remove_file(&path)?;
            }
        }
        ensure!(found.len() == 1, "{} files", found.len());
        ensure!(found[0] == expected, "other contents");
        Ok(())
    }

    /// Checks that nvlink makes the same of our packages as of the bare cubins.
    fn linked(&self, parts: &[ImageFile]) -> Results {
        let mut results = Vec::new();
        for name in TARGETS {
            let cubins: Vec<&ImageFile> =
                parts.iter().filter(|part| part.name == *name && part.kind == "elf").collect();
            let files: Vec<&str> = cubins.iter().map(|part| part.file.as_str()).collect();
            let expected = match self.link(name, &files) {
                Ok(expected) => expected,
                Err(error) => {
                    results.push((format!("sm_{name}"), Err(error)));
                    continue;
                }
            };
            for compression in COMPRESSIONS {
                for package in PACKAGES {
                    if *package == Package::HugeObject && compression.is_some() {
                        continue;
                    }
                    let made = self.pack(&cubins, *compression, *package).and_then(|files| {
                        let files: Vec<&str> = files.iter().map(String::as_str).collect();
                        ensure!(self.link(name, &files)? == expected, "another output");
                        Ok(())
                    });
                    results.push((format!("sm_{name} {compression:?} {package:?}"), made));
                }
            }
        }
        results
    }

    fn link(&self, target: &str, files: &[&str]) -> Result<Vec<u8>> {
        let mut arguments = vec![format!("-arch=sm_{target}"), "-o".into(), "out.cubin".into()];
        arguments.extend(files.iter().map(|&file| file.to_owned()));
        let run = self.tool("nvlink", &arguments)?;
        ensure!(run.stderr.is_empty(), "nvlink: {}", run.stderr_text());
        self.read("out.cubin")
    }

    /// Writes the files of a package; returns their names.
    fn pack(
        &self,
        cubins: &[&ImageFile],
        compression: Option<Compression>,
        package: Package,
    ) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let mut members = Vec::new();
        for part in cubins {
            let image = compressed(ImageSettings::NONE.image(part)?, compression)?;
            let fatbin = alone(&image)?;
            let (extension, file) = match package {
                Package::Fatbin => ("fatbin", fatbin),
                _ => {
                    let others = if package == Package::HugeObject { 65_300 } else { 0 };
                    let parts = HostParts { others, ..host_parts(fatbin, part) };
                    ("o", pack::host_object(&parts)?)
                }
            };
            let name = format!("packed-{}.{extension}", part.file.replace('.', "-"));
            self.write(&name, &file)?;
            members.push((name.clone(), file));
            names.push(name);
        }
        let Package::Archive(flavour) = package else { return Ok(names) };
        let members: Vec<(&str, &[u8])> =
            members.iter().map(|(name, file)| (name.as_str(), file.as_slice())).collect();
        self.write("packed.a", &pack::archive(&members, flavour))?;
        // Archives alone are no input files.
        self.write("empty.o", &pack::host_object(&HostParts::default())?)?;
        Ok(vec!["empty.o".to_owned(), "packed.a".to_owned()])
    }
}

const COMPRESSIONS: &[Option<Compression>] =
    &[None, Some(Compression::Lz4), Some(Compression::Zstd)];

/// The packages of cubins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Package {
    Fatbin,
    HostObject,
    /// An object with more sections than the ELF header can count.
    HugeObject,
    Archive(ArchiveFlavour),
}

const PACKAGES: &[Package] = &[
    Package::Fatbin,
    Package::HostObject,
    Package::HugeObject,
    // nvlink does not read the other two (docs/FATBIN.md).
    Package::Archive(ArchiveFlavour::Gnu),
    Package::Archive(ArchiveFlavour::Thin),
];

fn host_parts(fatbin: Vec<u8>, part: &ImageFile) -> HostParts {
    let kernels = if part.file.starts_with('k') { vec!["k".to_owned()] } else { Vec::new() };
    HostParts {
        fatbins: vec![fatbin],
        module_ids: vec![format!("_{:08x}_{}", part.data.len(), part.file.replace('.', "_"))],
        references: vec![(HostReference::Kernel, kernels), (HostReference::Variable, Vec::new())],
        ..HostParts::default()
    }
}

fn compressed(image: InputImage, compression: Option<Compression>) -> Result<InputImage> {
    Ok(match compression {
        Some(compression) => image.compressed(compression)?,
        None => image,
    })
}

/// The entries of a file with one container.
fn entries(file: &[u8]) -> Result<Vec<FatbinEntry<'_>>> {
    let containers = container::containers(file).collect::<Result<Vec<_>, _>>()?;
    let [container] = containers[..] else { bail!("{} containers", containers.len()) };
    Ok(container.entries().collect::<Result<_, _>>()?)
}

/// The bytes of the image in a container of its own.
fn alone(image: &InputImage) -> Result<Vec<u8>> {
    Ok(writer::write(std::slice::from_ref(image))?)
}

/// The image in it; for PTX, the stored text.
fn data_of(image: &InputImage) -> Result<Vec<u8>> {
    let file = alone(image)?;
    let entries = entries(&file)?;
    Ok(entries[0].data(IMAGE_LIMIT)?.into_owned())
}

/// The target with this name, as tools take it, without `sm_`.
fn target(name: &str) -> Result<ImageTarget> {
    let (number, variant) = match name.split_at(name.len() - 1) {
        (number, "a") => (number, Variant::Accelerated),
        (number, "f") => (number, Variant::Family),
        _ => (name, Variant::Plain),
    };
    Ok(ImageTarget { sm: number.parse()?, variant })
}
