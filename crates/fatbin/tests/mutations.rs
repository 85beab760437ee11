//! Damaged files: whatever the bytes, there is an answer, and memory stays bounded.
//!
//! In: one small file of each kind, damaged by a seeded generator. Guaranteed: the same seeds give
//! the same damage. `CULD_MUTATIONS=A..B` chooses other seeds than the default.

use culd_fatbin::archive::{self, MemberContents};
use culd_fatbin::container::{self, Encoding};
use culd_fatbin::host::HostObject;
use culd_fatbin::writer::{Compression, ImageTarget, InputImage, write};
use culd_fatbin::{Error, Format, container::ImageKind, sniff};
use culd_testkit::fixtures::pack::{
    ArchiveFlavour, HostParts, archive, bigobj, coff_object, host_object,
};
use culd_testkit::random::generate::rng::Rng;
use nix::sys::resource::{Resource, setrlimit};
use std::ops::Range;

const SEEDS: Range<u64> = 0..60_000;
/// No image may be larger.
const LIMIT: u64 = 1 << 20;
/// Address space of the test, bytes: who asks for more dies, and the test with it.
const MEMORY: u64 = 2 << 30;

/// What was found in a file, all the way down.
#[derive(Default)]
struct FoundParts {
    images: usize,
    errors: usize,
}

/// Reads everything that a linker would.
fn walk(data: &[u8], depth: usize, found: &mut FoundParts) -> Result<(), Error> {
    match sniff(data) {
        Format::Archive | Format::ThinArchive => {
            for member in archive::members(data)? {
                let member = member?;
                if let MemberContents::Here { offset, data: contents } = member.contents {
                    assert_eq!(&data[offset as usize..][..contents.len()], contents);
                    if depth > 0 {
                        walk(contents, depth - 1, found).unwrap_or_else(|_| found.errors += 1);
                    }
                }
            }
        }
        Format::Fatbin => containers(data, found)?,
        Format::HostElf { .. } | Format::Coff => {
            let object = HostObject::parse(data)?.expect("an object, as sniff says");
            for section in &object.fatbins {
                assert_eq!(&data[section.offset as usize..][..section.data.len()], section.data);
                containers(section.data, found).unwrap_or_else(|_| found.errors += 1);
            }
        }
        _ => {}
    }
    Ok(())
}

fn containers(data: &[u8], found: &mut FoundParts) -> Result<(), Error> {
    for container in container::containers(data) {
        let container = container?;
        let mut size = 16;
        for entry in container.entries() {
            let entry = entry?;
            assert_eq!(entry.offset(), container.offset() + size);
            size += entry.header().header_size as usize + entry.payload().len();
            let _ = (entry.ident(), entry.options(), entry.variant());
            match entry.data(LIMIT) {
                Ok(data)
                    if entry.encoding() != Encoding::Stored && entry.kind() != ImageKind::Ptx =>
                {
                    assert_eq!(data.len() as u64, entry.header().uncompressed_size);
                    found.images += 1;
                }
                Ok(data) => {
                    assert!(data.len() as u64 <= LIMIT);
                    found.images += 1;
                }
                Err(error) => {
                    assert_eq!(error.offset, entry.offset() as u64);
                    found.errors += 1;
                }
            }
            assert!(write(&[InputImage::from(&entry)]).is_ok());
        }
        assert_eq!(size, container.bytes().len(), "all of a container is entries");
    }
    Ok(())
}

fn files() -> Vec<Vec<u8>> {
    let soft: Vec<u8> = (0..3000_u32).map(|at| (at / 50) as u8).collect();
    let elf = |sm| InputImage::new(ImageKind::Elf, (1, 8), ImageTarget::sm(sm), soft.clone());
    let ptx =
        InputImage::ptx(".version 9.0\n.target sm_90\n", ImageTarget::sm(90)).expect("a version");
    let fatbin = write(&[
        elf(75).ident("name"),
        elf(80).compressed(Compression::Zstd).expect("small"),
        ptx.clone().options("-O3").compressed(Compression::Lz4).expect("small"),
        elf(90).compressed(Compression::Lz4).expect("small"),
        ptx,
    ])
    .expect("small");
    let parts = HostParts {
        fatbins: vec![fatbin.clone(), fatbin.clone()],
        module_ids: vec!["_1_a_cu_x".to_owned()],
        references: vec![(culd_fatbin::host::HostReference::Kernel, vec!["k*".to_owned()])],
        ..HostParts::default()
    };
    let (object, coff) = (host_object(&parts).expect("ELF"), coff_object(&parts).expect("COFF"));
    let inner = archive(&[("a.o", &object)], ArchiveFlavour::Gnu);
    let members: &[(&str, &[u8])] =
        &[("a.o", &object), ("a long name for a member.o", &coff), ("b.a", &inner)];
    let flavours =
        [ArchiveFlavour::Gnu, ArchiveFlavour::Bsd, ArchiveFlavour::Coff, ArchiveFlavour::Thin];
    let mut files = vec![fatbin, object.clone(), bigobj(&coff), coff.clone()];
    files.extend(flavours.map(|flavour| archive(members, flavour)));
    files
}

/// Damages the file in one to four places, mostly in the first bytes, where the headers are, and in
/// what looks like numbers.
fn damage(file: &mut Vec<u8>, random: &mut Rng) {
    for _ in 0..1 + random.below(4) {
        let length = file.len();
        let at = match random.below(3) {
            0 => random.below(length.min(200)),
            1 => length - 1 - random.below(length.min(1200)),
            _ => random.below(length),
        };
        match random.below(10) {
            0 => file.truncate(at.max(1)),
            1 => {
                let end = length.min(at + random.below(200));
                file.drain(at..end.max(at));
            }
            2..=5 => file[at] = random.below(256) as u8,
            _ => {
                let at = at & !3;
                let value = match random.below(6) {
                    0 => 0,
                    1 => u64::MAX,
                    2 => 1 << random.below(64),
                    3 => i64::MAX as u64,
                    _ => random.below(5000) as u64,
                };
                let size = [2, 4, 8][random.below(3)];
                if let Some(field) = file.get_mut(at..at + size) {
                    field.copy_from_slice(&value.to_le_bytes()[..size]);
                }
            }
        }
        if file.is_empty() {
            return;
        }
    }
}

#[test]
fn damaged_files_give_errors_and_nothing_worse() {
    let seeds = std::env::var("CULD_MUTATIONS").map_or(SEEDS, |text| {
        let (first, end) = text.split_once("..").expect("CULD_MUTATIONS=A..B");
        first.parse().expect("a number")..end.parse().expect("a number")
    });
    setrlimit(Resource::RLIMIT_AS, MEMORY, MEMORY).expect("a limit");
    let files = files();
    for file in &files {
        let mut found = FoundParts::default();
        walk(file, 3, &mut found).expect("good");
        assert_eq!(found.errors, 0);
        assert_eq!(found.images % 5, 0, "{}", found.images);
    }
    let count = seeds.end - seeds.start;
    let mut refused = 0;
    for seed in seeds {
        let mut random = Rng::new(seed);
        let mut file = files[random.below(files.len())].clone();
        damage(&mut file, &mut random);
        let mut found = FoundParts::default();
        let outcome = walk(&file, 3, &mut found);
        refused += u64::from(outcome.is_err() || found.errors > 0);
    }
    assert!(refused > count / 8, "only {refused} of {count} were refused: is anything damaged?");
    assert!(refused < count, "everything was refused: is the damage too coarse?");
}
