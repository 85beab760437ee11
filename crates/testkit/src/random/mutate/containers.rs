//! Links of containers in unusual combinations. Every container is sound, but no compiler would
//! choose such contents, counts, depths, names and targets.
//!
//! In: good [`MutationSource`]s and a seed. Out: a [`Mutant`] in which one cubin is in a tree of
//! fat binaries, objects and archives. The tree is edited and then written, so all sizes, offsets
//! and tables agree. Guaranteed: as in [`super`]; no file is larger than a few megabytes.

use super::program::{self, Carrier, DamagedProgram, Mutant, MutationSource};
use crate::fixtures::pack::{self, ArchiveFlavour, HostParts};
use crate::random::generate::rng::Rng;
use culd_cubin::arch::Arch;
use culd_fatbin::container::ImageKind;
use culd_fatbin::host::HostReference;
use culd_fatbin::writer::{Compression, ImageTarget, InputImage};

/// One in so many trees has parts in places where they cannot be.
const MISPLACED: usize = 4;
/// The most parts of a tree, and of one parent.
const MAX_PARTS: usize = 40;
/// The depth of containers in containers.
const MAX_DEPTH: usize = 6;
/// No container grows beyond this, bytes.
const MAX_SIZE: usize = 4 << 20;

/// A file, or something in one.
#[derive(Clone, Debug)]
struct ContainerPart {
    /// Its name as a member of an archive.
    name: String,
    /// Its target in a fat binary.
    target: ImageTarget,
    /// The kind that a fat binary declares, if it is not the real one.
    kind: Option<ImageKind>,
    compression: Option<Compression>,
    holds: PartContent,
}

#[derive(Clone, Debug)]
enum PartContent {
    Bytes(Vec<u8>),
    /// One or more consecutive fat binaries, each with so many of the parts.
    Fatbin {
        each: usize,
        parts: Vec<ContainerPart>,
    },
    /// A host object with fat binaries; the carrier is one of the three forms.
    Host {
        form: Carrier,
        ids: Vec<String>,
        names: Vec<String>,
        parts: Vec<ContainerPart>,
    },
    Archive {
        flavour: ArchiveFlavour,
        parts: Vec<ContainerPart>,
    },
}

/// The link of this number.
///
/// # Panics
/// When there are no programs.
pub fn mutant(programs: &[MutationSource], seed: u64) -> Mutant {
    let mut rng = Rng::new(seed);
    let program = &programs[rng.below(programs.len())];
    let mut inputs = program.inputs.clone();
    let at = rng.below(inputs.len());
    let (name, bytes) = &mut inputs[at];
    let good = bytes.clone();
    let stem = name.trim_end_matches(".cubin").to_owned();
    let mut tree = ContainerPart::new(PartContent::Bytes(good.clone()), &program.arch);
    tree.wrap(&mut rng);
    for _ in 0..rng.range(1, 8) {
        tree.edit(&mut rng);
    }
    if rng.below(MISPLACED) > 0 {
        tree.place();
    }
    *name = format!("{stem}.{}", tree.extension());
    *bytes = tree.bytes(0);
    let damaged = DamagedProgram { name: name.clone(), good: good.clone(), inner: good };
    let mut args = vec![format!("-arch={}", program.arch)];
    args.extend(program.options.iter().cloned());
    args.extend(inputs.iter().map(|(name, _)| name.clone()));
    args.extend(["-o", program::OUTPUT].map(str::to_owned));
    let files = inputs.into_iter().chain(program.others.iter().cloned()).collect();
    let arch = program.arch.clone();
    Mutant { kind: Carrier::Arranged, arch, args, files, damaged: Some(damaged) }
}

impl ContainerPart {
    fn new(holds: PartContent, arch: &str) -> Self {
        let (name, target) = ("m.o".to_owned(), program::target(arch));
        ContainerPart { name, target, kind: None, compression: None, holds }
    }

    /// A name with the suffix by which nvlink knows the kind of the file.
    fn extension(&self) -> &'static str {
        match &self.holds {
            PartContent::Bytes(_) => "cubin",
            PartContent::Fatbin { .. } => "fatbin",
            PartContent::Host { .. } => "o",
            PartContent::Archive { .. } => "a",
        }
    }

    fn parts(&mut self) -> Option<&mut Vec<ContainerPart>> {
        match &mut self.holds {
            PartContent::Bytes(_) => None,
            PartContent::Fatbin { parts, .. }
            | PartContent::Host { parts, .. }
            | PartContent::Archive { parts, .. } => Some(parts),
        }
    }

    fn count(&self) -> usize {
        match &self.holds {
            PartContent::Bytes(_) => 1,
            PartContent::Fatbin { parts, .. }
            | PartContent::Host { parts, .. }
            | PartContent::Archive { parts, .. } => {
                1 + parts.iter().map(ContainerPart::count).sum::<usize>()
            }
        }
    }

    /// The part of this number, counted from the root down.
    fn at(&mut self, number: usize) -> &mut ContainerPart {
        let mut rest = number;
        let mut place = None;
        if rest > 0 {
            rest -= 1;
            for (at, part) in self.parts().into_iter().flatten().enumerate() {
                match rest.checked_sub(part.count()) {
                    None => {
                        place = Some(at);
                        break;
                    }
                    Some(less) => rest = less,
                }
            }
        }
        match place {
            Some(at) => self.parts().expect("it has parts")[at].at(rest),
            None => self,
        }
    }

    /// Puts a part into a new container.
    fn wrap(&mut self, rng: &mut Rng) {
        let inner = self.clone();
        let holds = match rng.below(3) {
            0 => PartContent::Fatbin { each: rng.pick(&[1, 1, 2, 3]), parts: vec![inner] },
            1 => PartContent::Host {
                form: rng.pick(&[Carrier::Host, Carrier::Host, Carrier::Coff, Carrier::BigObj]),
                ids: Vec::new(),
                names: Vec::new(),
                parts: vec![inner],
            },
            _ => PartContent::Archive {
                flavour: rng.pick(&[
                    ArchiveFlavour::Gnu,
                    ArchiveFlavour::Bsd,
                    ArchiveFlavour::Coff,
                ]),
                parts: vec![inner],
            },
        };
        *self = ContainerPart { kind: None, compression: None, holds, ..self.clone() };
    }

    /// Changes one part of the tree.
    fn edit(&mut self, rng: &mut Rng) {
        let count = self.count();
        let other = self.at(rng.below(count)).clone();
        let may_grow = count + other.count() <= MAX_PARTS;
        let part = self.at(rng.below(count));
        match rng.below(8) {
            0 if may_grow => part.wrap(rng),
            1 => part.label(rng),
            2 => {
                part.compression =
                    rng.pick(&[None, Some(Compression::Lz4), Some(Compression::Zstd)])
            }
            3 => part.describe(rng),
            4 => part.holds = PartContent::Bytes(rng.pick(&[&b""[..], b"\0", b"text\n"]).to_vec()),
            _ => {
                let Some(parts) = part.parts() else { return };
                let at = rng.below(parts.len() + 1);
                match rng.below(4) {
                    0 if may_grow => parts.insert(at, other),
                    1 if may_grow && at < parts.len() => parts.insert(at, parts[at].clone()),
                    2 if at < parts.len() => drop(parts.remove(at)),
                    _ if at < parts.len() => parts.swap(0, at),
                    _ => {}
                }
            }
        }
    }

    /// Another name, target or kind.
    fn label(&mut self, rng: &mut Rng) {
        match rng.below(3) {
            0 => {
                let long = "a_name_of_many_letters_".repeat(12);
                let names = ["", "m.o", "M.O", "x.cubin", "a b.o", "//", "/1", "..", "b.a", &long];
                self.name = rng.pick(&names).to_owned();
            }
            1 => {
                let sm = rng.pick(&[0, 50, 75, 80, 86, 90, 100, 103, 120, 121, u32::MAX]);
                // Both linkers read letters after a number that has none in another way, and nobody
                // writes them.
                let of = [
                    ("", ImageTarget::sm as fn(u32) -> ImageTarget),
                    ("a", ImageTarget::accelerated),
                    ("f", ImageTarget::family),
                ];
                let (letter, target) = rng.pick(&of);
                let has_letter = Arch::by_name(&format!("sm_{sm}{letter}")).is_some();
                self.target = if has_letter { target(sm) } else { ImageTarget::sm(sm) };
            }
            _ => {
                let kinds = [
                    ImageKind::Ptx,
                    ImageKind::Elf,
                    ImageKind::LtoIr,
                    ImageKind::Other(0),
                    ImageKind::Other(99),
                ];
                self.kind = Some(rng.pick(&kinds));
            }
        }
    }

    /// Changes parts of a container that are no files.
    fn describe(&mut self, rng: &mut Rng) {
        let mut list = |from: &[&str]| -> Vec<String> {
            (0..rng.below(4)).map(|_| rng.pick(from).to_owned()).collect()
        };
        match &mut self.holds {
            PartContent::Bytes(_) => {}
            PartContent::Fatbin { each, .. } => *each = 1 + (*each % 3),
            PartContent::Host { ids, names, .. } => {
                *ids =
                    list(&["_01234567_4_a_cu_89abcdef", "_01234567_4_b_cu_89abcdef", "", "def "]);
                *names = list(&["k", "_Z1kv", "*", "", "kern"]);
            }
            PartContent::Archive { flavour, .. } => {
                *flavour = match flavour {
                    ArchiveFlavour::Gnu => ArchiveFlavour::Bsd,
                    ArchiveFlavour::Bsd => ArchiveFlavour::Coff,
                    _ => ArchiveFlavour::Gnu,
                };
            }
        }
    }

    /// Puts the right parts into each container: images into fat binaries, fat binaries into
    /// objects.
    fn place(&mut self) {
        match &mut self.holds {
            PartContent::Bytes(_) => {}
            PartContent::Fatbin { parts, .. } => {
                for part in parts {
                    part.holds = PartContent::Bytes(part.first().to_vec());
                }
            }
            PartContent::Host { parts, .. } => {
                for part in parts {
                    if !matches!(part.holds, PartContent::Fatbin { .. }) {
                        part.holds = PartContent::Fatbin { each: 1, parts: vec![part.clone()] };
                    }
                    part.place();
                }
            }
            PartContent::Archive { parts, .. } => parts.iter_mut().for_each(ContainerPart::place),
        }
    }

    /// The first file in it that is no container.
    fn first(&self) -> &[u8] {
        match &self.holds {
            PartContent::Bytes(bytes) => bytes,
            PartContent::Fatbin { parts, .. }
            | PartContent::Host { parts, .. }
            | PartContent::Archive { parts, .. } => parts.first().map_or(&[], ContainerPart::first),
        }
    }

    /// The bytes of the file, without parts that are too deep or too large.
    fn bytes(&self, depth: usize) -> Vec<u8> {
        let all = |parts: &[ContainerPart]| -> Vec<Vec<u8>> {
            match depth < MAX_DEPTH {
                true => parts.iter().map(|part| part.bytes(depth + 1)).collect(),
                false => Vec::new(),
            }
        };
        let bytes = match &self.holds {
            PartContent::Bytes(bytes) => bytes.clone(),
            PartContent::Fatbin { each, parts } => {
                let images: Vec<InputImage> =
                    parts.iter().zip(all(parts)).map(|(part, bytes)| part.image(bytes)).collect();
                let fatbins = images.chunks((*each).max(1));
                match images.is_empty() {
                    true => pack::fatbin(&[]).unwrap_or_default(),
                    false => {
                        fatbins.flat_map(|some| pack::fatbin(some).unwrap_or_default()).collect()
                    }
                }
            }
            PartContent::Host { form, ids, names, parts } => {
                let references = vec![(HostReference::Kernel, names.clone())];
                let references = if names.is_empty() { Vec::new() } else { references };
                let parts = HostParts {
                    fatbins: all(parts),
                    module_ids: ids.clone(),
                    references,
                    ..HostParts::default()
                };
                let object = match form {
                    Carrier::Host => pack::host_object(&parts),
                    Carrier::BigObj => pack::coff_object(&parts).map(|coff| pack::bigobj(&coff)),
                    _ => pack::coff_object(&parts),
                };
                object.unwrap_or_default()
            }
            PartContent::Archive { flavour, parts } => {
                let files = all(parts);
                let names = parts.iter().map(|part| part.name.as_str());
                let members: Vec<(&str, &[u8])> =
                    names.zip(files.iter().map(Vec::as_slice)).collect();
                pack::archive(&members, *flavour)
            }
        };
        if bytes.len() > MAX_SIZE { Vec::new() } else { bytes }
    }

    /// The part in an entry of a fat binary.
    fn image(&self, bytes: Vec<u8>) -> InputImage {
        let plain = |kind| InputImage::new(kind, (1, 8), self.target, bytes.as_slice());
        let image = match self.kind {
            Some(kind) => plain(kind),
            None => InputImage::cubin(bytes.as_slice(), self.target)
                .unwrap_or_else(|_| plain(ImageKind::Elf)),
        };
        match self.compression {
            Some(compression) => image.clone().compressed(compression).unwrap_or(image),
            None => image,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culd_fatbin::{Format, archive, container, sniff};
    use std::collections::BTreeMap;

    #[test]
    fn every_tree_is_written_and_its_outermost_container_is_sound() {
        let programs = program::recorded().expect("the cases");
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for seed in 0..400 {
            let link = mutant(&programs, seed);
            let damaged = link.damaged.expect("a file");
            let (_, bytes) = link.files.iter().find(|file| file.0 == damaged.name).expect("it");
            let format = sniff(bytes);
            *seen.entry(format!("{format:?}")).or_default() += 1;
            match format {
                Format::Fatbin => {
                    for one in container::containers(bytes) {
                        let one = one.expect("a sound fat binary");
                        one.entries().for_each(|entry| _ = entry.expect("a sound entry"));
                    }
                }
                Format::Archive => {
                    let members = archive::members(bytes).expect("a sound archive");
                    members.for_each(|member| _ = member.expect("a sound member"));
                }
                _ => {}
            }
        }
        for format in ["Fatbin", "Archive", "HostElf { relocatable: true }", "Coff"] {
            assert!(seen.get(format) > Some(&20), "{format}: {seen:?}");
        }
    }
}
