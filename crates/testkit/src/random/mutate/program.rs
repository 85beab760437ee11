//! Makes links of damaged files.
//!
//! In: good [`MutationSource`]s and a seed. Out: a [`Mutant`]: a command line and its files. One of
//! them is damaged, perhaps inside a fat binary, an object or an archive. Guaranteed: as in
//! [`super`]; every command line has `-o out`, and its paths are bare names.

use super::{damage, damage_file, fields};
use crate::fixtures::case;
use crate::fixtures::pack::{self, ArchiveFlavour, HostParts};
use crate::random::edit::{self, Edit};
use crate::random::generate::rng::Rng;
use anyhow::{Context, Result};
use culd_cubin::Cubin;
use culd_cubin::arch::{ARCHS, Flavour};
use culd_fatbin::container::ImageKind;
use culd_fatbin::host::HostReference;
use culd_fatbin::writer::{Compression, ImageTarget, InputImage};
use culd_fatbin::{Format, sniff};
use std::fs;
use std::path::Path;

/// The name of the output on every command line.
pub const OUTPUT: &str = "out.cubin";

/// The size limit of files of a corpus folder; other tests are about speed.
const MAX_FILE: u64 = 256 << 10;
/// The most files of a folder in a program.
const MAX_FILES: usize = 6;

/// Text that ptxas compiles; culd only inspects it.
const PTX: &str = "//\n.version 9.0\n.target sm_75, debug\n.address_size 64\n\n.visible .func f()\n{\n\tret;\n}\n";

/// A program before the damage.
#[derive(Clone, Debug)]
pub struct MutationSource {
    /// Name of the case, or the folder.
    pub name: String,
    /// `sm_90a`.
    pub arch: String,
    /// Further options.
    pub options: Vec<String>,
    /// Names and bytes in link order.
    pub inputs: Vec<(String, Vec<u8>)>,
    /// Names and bytes of the files that options name.
    pub others: Vec<(String, Vec<u8>)>,
}

/// The carrier of the damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Carrier {
    /// Bytes and fields of a cubin.
    Cubin,
    /// Records of a cubin, with its tables whole.
    Edited,
    /// A fat binary with stored images.
    Stored,
    /// A fat binary with LZ4 blocks.
    Lz4,
    /// A fat binary with zstd frames.
    Zstd,
    /// A fat binary with PTX and the cubin, or PTX alone.
    Ptx,
    /// A host object, ELF.
    Host,
    /// A host object, COFF.
    Coff,
    /// A host object, COFF with 32-bit section numbers.
    BigObj,
    /// An archive of any flavour.
    Archive,
    /// A fat binary in an object in an archive.
    Nested,
    /// An index file of unified functions and variables.
    Index,
    /// The command line.
    Options,
    /// Sound containers in each other, of [`super::containers`].
    Arranged,
}

impl Carrier {
    /// The carriers that damage bytes, each with its weight.
    pub const ALL: &[(Carrier, u32)] = &[
        (Carrier::Cubin, 26),
        (Carrier::Edited, 18),
        (Carrier::Stored, 7),
        (Carrier::Lz4, 6),
        (Carrier::Zstd, 6),
        (Carrier::Ptx, 5),
        (Carrier::Host, 7),
        (Carrier::Coff, 5),
        (Carrier::BigObj, 3),
        (Carrier::Archive, 7),
        (Carrier::Nested, 5),
        (Carrier::Index, 2),
        (Carrier::Options, 3),
    ];
}

/// A damaged link.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// The carrier of the damage.
    pub kind: Carrier,
    /// `sm_90a`.
    pub arch: String,
    /// Arguments of the linker.
    pub args: Vec<String>,
    /// Names and bytes of its files.
    pub files: Vec<(String, Vec<u8>)>,
    /// The input that was damaged.
    pub damaged: Option<DamagedProgram>,
}

/// A damaged input.
#[derive(Clone, Debug)]
pub struct DamagedProgram {
    /// Its name on the command line.
    pub name: String,
    /// The cubin as it was.
    pub good: Vec<u8>,
    /// The cubin that was put into the carrier.
    pub inner: Vec<u8>,
}

impl Mutant {
    /// The same link of the undamaged cubin, without a carrier.
    pub fn undamaged(&self) -> Option<Mutant> {
        let damaged = self.damaged.as_ref()?;
        let (stem, _) = damaged.name.rsplit_once('.')?;
        let name = format!("{stem}.cubin");
        let mut good = self.clone();
        good.args.iter_mut().filter(|word| **word == damaged.name).for_each(|word| {
            word.clone_from(&name);
        });
        let file = good.files.iter_mut().find(|file| file.0 == damaged.name)?;
        *file = (name, damaged.good.clone());
        Some(good)
    }
}

/// The programs of the recorded cases.
///
/// # Errors
/// When a case is invalid.
pub fn recorded() -> Result<Vec<MutationSource>> {
    let program = |case: case::Case| {
        let name = case.name.clone();
        let program = || -> Result<MutationSource> {
            Ok(MutationSource {
                name: case.name.clone(),
                arch: case.recipe.arch.clone(),
                options: case.recipe.args.clone(),
                inputs: case.inputs()?,
                others: case.index_files()?,
            })
        };
        program().with_context(|| name)
    };
    case::all()?.into_iter().map(program).collect()
}

/// A program for each folder below `folder` that has relocatable cubins; linked ones are left out.
///
/// # Errors
/// When a folder or file cannot be read.
pub fn corpus(folder: &Path) -> Result<Vec<MutationSource>> {
    let mut programs = Vec::new();
    let mut inputs = Vec::new();
    let mut arch = None;
    let mut entries: Vec<_> = fs::read_dir(folder)
        .with_context(|| folder.display().to_string())?
        .collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (kind, path) = (entry.file_type()?, entry.path());
        if kind.is_dir() {
            programs.extend(corpus(&path)?);
        } else if kind.is_file() && entry.metadata()?.len() <= MAX_FILE {
            let bytes = fs::read(&path)?;
            let Some(of) = target_of(&bytes) else { continue };
            if inputs.len() < MAX_FILES && *arch.get_or_insert_with(|| of.clone()) == of {
                inputs.push((format!("m{}.cubin", inputs.len()), bytes));
            }
        }
    }
    if let Some(arch) = arch {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        programs.push(MutationSource {
            name,
            arch,
            options: Vec::new(),
            inputs,
            others: Vec::new(),
        });
    }
    Ok(programs)
}

/// The target of a relocatable cubin.
fn target_of(bytes: &[u8]) -> Option<String> {
    if sniff(bytes) != Format::RelocatableCubin {
        return None;
    }
    Some(format!("sm_{}", Cubin::parse(bytes).ok()?.header.sm()))
}

/// The program of a number: the one whose name has the best hash with it, so that a new program
/// changes few numbers.
fn chosen(programs: &[MutationSource], seed: u64) -> usize {
    let weight = |name: &str| {
        let hash = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        Rng::new(name.bytes().fold(seed, hash)).bits()
    };
    let weights = programs.iter().map(|program| weight(&program.name));
    weights.enumerate().max_by_key(|(_, weight)| *weight).map_or(0, |(place, _)| place)
}

/// The damaged link of this number.
///
/// # Panics
/// When there are no programs.
pub fn mutant(programs: &[MutationSource], seed: u64) -> Mutant {
    let mut rng = Rng::new(seed);
    let program = &retargeted(&programs[chosen(programs, seed)], &mut rng);
    let weights: Vec<u32> = Carrier::ALL.iter().map(|(_, weight)| *weight).collect();
    let mut kind = Carrier::ALL[rng.weighted(&weights).unwrap_or(0)].0;
    if kind == Carrier::Index && program.others.is_empty() {
        kind = Carrier::Cubin;
    }
    let mut inputs = program.inputs.clone();
    let mut others = program.others.clone();
    let at = rng.below(inputs.len());
    let target = target(&program.arch);
    let mut damaged = None;
    match kind {
        Carrier::Index => {
            let other = rng.below(others.len());
            let fields = fields::of_index(&others[other].1);
            damage(&mut others[other].1, &fields, &mut rng);
        }
        Carrier::Options => {}
        _ => {
            let (name, bytes) = &mut inputs[at];
            let stem = name.trim_end_matches(".cubin").to_owned();
            let good = bytes.clone();
            let (extension, carried, inner) = carry(kind, &stem, &good, target, &mut rng);
            *bytes = carried;
            *name = format!("{stem}.{extension}");
            damaged = Some(DamagedProgram { name: name.clone(), good, inner });
        }
    }
    let mut args = vec![format!("-arch={}", program.arch)];
    args.extend(program.options.iter().cloned());
    args.extend(more_options(&mut rng));
    args.extend(inputs.iter().map(|(name, _)| name.clone()));
    args.extend(["-o".to_owned(), OUTPUT.to_owned()]);
    if kind == Carrier::Options {
        damage_words(&mut args, &mut rng);
    }
    let files = inputs.into_iter().chain(others).collect();
    Mutant { kind, arch: program.arch.clone(), args, files, damaged }
}

/// Gives one in three programs another target with the same form of code: recorded cases cover only
/// some targets.
fn retargeted(program: &MutationSource, rng: &mut Rng) -> MutationSource {
    let mut program = program.clone();
    let code = Flavour::of_sm(sm_of(&program.arch));
    let others: Vec<_> = ARCHS.iter().filter(|arch| arch.flavour == code).collect();
    let Some(arch) = rng.choose(&others).filter(|_| rng.chance(35)) else { return program };
    for (_, bytes) in &mut program.inputs {
        let cuda_12 = Cubin::parse(bytes).is_ok_and(|cubin| cubin.header.is_of_cuda_12());
        let place = if cuda_12 { 48 } else { 49 };
        if let Some(byte) = bytes.get_mut(place) {
            *byte = arch.sm as u8;
        }
    }
    program.arch = arch.name.to_owned();
    program
}

/// The damaged file, the extension of its name, and the cubin that was packed into it.
fn carry(
    kind: Carrier,
    stem: &str,
    cubin: &[u8],
    target: ImageTarget,
    rng: &mut Rng,
) -> (&'static str, Vec<u8>, Vec<u8>) {
    let mut cubin = cubin.to_vec();
    if kind == Carrier::Edited {
        let edited = edited(&cubin, rng);
        return ("cubin", edited.clone(), edited);
    }
    // Damages the contents of a whole container, or the container.
    let inside = kind == Carrier::Cubin || rng.chance(35);
    if inside {
        damage_file(&mut cubin, rng);
    }
    let compression = match kind {
        Carrier::Lz4 => Some(Compression::Lz4),
        Carrier::Zstd => Some(Compression::Zstd),
        _ => rng.chance(30).then(|| rng.pick(&[Compression::Lz4, Compression::Zstd])),
    };
    let fatbin = |cubin: &[u8], ptx: Option<Vec<u8>>| fatbin(cubin, ptx, compression, target);
    let (extension, mut bytes) = match kind {
        Carrier::Cubin
        | Carrier::Edited
        | Carrier::Index
        | Carrier::Options
        | Carrier::Arranged => {
            return ("cubin", cubin.clone(), cubin);
        }
        Carrier::Stored | Carrier::Lz4 | Carrier::Zstd => ("fatbin", fatbin(&cubin, None)),
        Carrier::Ptx => {
            let mut text = PTX.as_bytes().to_vec();
            if inside || rng.chance(50) {
                super::damage(&mut text, &[], rng);
            }
            if rng.chance(30) {
                return ("ptx", text, cubin);
            }
            ("fatbin", fatbin(&cubin, Some(text)))
        }
        Carrier::Host | Carrier::Coff | Carrier::BigObj => {
            let parts = host_parts(fatbin(&cubin, None), rng);
            ("o", object(kind, &parts))
        }
        Carrier::Archive => ("a", archive(stem, &cubin, rng)),
        Carrier::Nested => {
            let parts = host_parts(fatbin(&cubin, None), rng);
            let kind = rng.pick(&[Carrier::Host, Carrier::Host, Carrier::Coff]);
            ("a", archive(stem, &object(kind, &parts), rng))
        }
    };
    if !inside {
        damage_file(&mut bytes, rng);
    }
    (extension, bytes, cubin)
}

fn edited(cubin: &[u8], rng: &mut Rng) -> Vec<u8> {
    let units = ["m".to_owned()];
    let edits: Vec<Edit> =
        (0..rng.range(1, 4)).filter_map(|_| Edit::draw(&units, None, rng)).collect();
    edit::edited(cubin, &edits).map_or_else(|_| cubin.to_vec(), |(bytes, _)| bytes)
}

/// A fat binary of a cubin that may be damaged.
fn fatbin(
    cubin: &[u8],
    ptx: Option<Vec<u8>>,
    compression: Option<Compression>,
    target: ImageTarget,
) -> Vec<u8> {
    let plain = |kind, data: &[u8]| InputImage::new(kind, (1, 8), target, data);
    let mut images =
        vec![InputImage::cubin(cubin, target).unwrap_or_else(|_| plain(ImageKind::Elf, cubin))];
    if let Some(text) = ptx {
        images
            .push(InputImage::ptx(&text, target).unwrap_or_else(|_| plain(ImageKind::Ptx, &text)));
    }
    if let Some(compression) = compression {
        let packed = |image: InputImage| image.clone().compressed(compression).unwrap_or(image);
        images = images.into_iter().map(packed).collect();
    }
    pack::fatbin(&images).unwrap_or_default()
}

fn host_parts(fatbin: Vec<u8>, rng: &mut Rng) -> HostParts {
    let mut parts = HostParts { fatbins: vec![fatbin], ..HostParts::default() };
    if rng.chance(30) {
        parts.module_ids = vec!["_01234567_4_a_cu_89abcdef".to_owned()];
    }
    if rng.chance(30) {
        let names = ["k", "_Z1kv", "*", "kern"];
        let names = names.iter().take(rng.below(5)).map(|name| (*name).to_owned()).collect();
        parts.references = vec![
            (HostReference::Kernel, names),
            (HostReference::InternalKernel, Vec::new()),
            (HostReference::Variable, vec!["v".to_owned()]),
        ];
    }
    if rng.chance(20) {
        parts.whole_program = vec![0x50; rng.below(64)];
    }
    parts
}

fn object(kind: Carrier, parts: &HostParts) -> Vec<u8> {
    let made = match kind {
        Carrier::Host => pack::host_object(parts),
        Carrier::BigObj => pack::coff_object(parts).map(|coff| pack::bigobj(&coff)),
        _ => pack::coff_object(parts),
    };
    made.unwrap_or_default()
}

fn archive(stem: &str, member: &[u8], rng: &mut Rng) -> Vec<u8> {
    let long = format!("{stem}_with_a_name_that_is_longer_than_its_field.o");
    let name = if rng.chance(50) { "m.o" } else { long.as_str() };
    let second = format!("{stem}.second.o");
    let mut members: Vec<(&str, &[u8])> = vec![(name, member)];
    if rng.chance(40) {
        members.push((&second, &member[..member.len() / 2]));
    }
    let flavour = rng.pick(&[
        ArchiveFlavour::Gnu,
        ArchiveFlavour::Gnu,
        ArchiveFlavour::Bsd,
        ArchiveFlavour::Coff,
        ArchiveFlavour::Thin,
    ]);
    pack::archive(&members, flavour)
}

/// The target of an image for an architecture such as `sm_90a`.
pub fn target(arch: &str) -> ImageTarget {
    let sm = sm_of(arch);
    match arch.as_bytes().last() {
        Some(b'a') => ImageTarget::accelerated(sm),
        Some(b'f') => ImageTarget::family(sm),
        _ => ImageTarget::sm(sm),
    }
}

/// 90 of `sm_90a`.
fn sm_of(arch: &str) -> u32 {
    arch.trim_start_matches("sm_").trim_end_matches(['a', 'f']).parse().unwrap_or(0)
}

/// Options that use other parts of the linker.
fn more_options(rng: &mut Rng) -> Vec<String> {
    const SOME: &[&str] = &[
        "-r",
        "-g",
        "-v",
        "-w",
        "-Werror",
        "--preserve-relocs",
        "--dump-callgraph",
        "--kernels-used=k",
        "--variables-used=v",
        "--ignore-host-info",
        "--keep-system-libraries",
        "--allow-undefined-globals",
        "--suppress-debug-info",
        "--dialect=13.5",
        "--register-link-binaries=reg.h",
        "--report-arch",
        "--stats",
        "--strict",
        "--trace=trace.json",
        "--threads=2",
        "-lnone",
    ];
    let count = rng.pick(&[0, 0, 0, 0, 1, 1, 2]);
    (0..count).map(|_| rng.pick(SOME).to_owned()).collect()
}

/// Damages a command line: changes, drops, repeats or reorders words. The name of the output stays,
/// so that nothing is written elsewhere.
fn damage_words(args: &mut [String], rng: &mut Rng) {
    let end = args.len() - 2;
    const WORDS: &[&str] =
        &["-", "--", "-o", "-arch", "sm_", "-optf", "@", "=", ",", "-uidx", "-m"];
    for _ in 0..rng.range(1, 3) {
        let at = rng.below(end);
        match rng.below(5) {
            0 => args[at] = rng.pick(WORDS).to_owned(),
            1 => args.swap(at, rng.below(end)),
            2 => args[at] = args[rng.below(end)].clone(),
            3 => {
                let mut word = args[at].clone().into_bytes();
                super::damage(&mut word, &[], rng);
                word.retain(|&byte| byte != 0 && byte != b'/');
                args[at] = String::from_utf8_lossy(&word).into_owned();
            }
            _ => args[at].push_str(rng.pick(WORDS)),
        }
    }
}
