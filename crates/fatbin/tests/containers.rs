//! Fat binaries: what is written is read again, what is read is written again, and what lies is
//! refused.

use culd_fatbin::Error;
use culd_fatbin::container::{self, Encoding, FatbinEntry, ImageKind, Variant};
use culd_fatbin::header::{EntryHeader, flag};
use culd_fatbin::writer::{Compression, ImageTarget, InputImage, write};
use object::write::Object;
use object::{Architecture, BinaryFormat, Endianness, SectionKind};
use proptest::prelude::*;
use std::borrow::Cow;

const LIMIT: u64 = 1 << 20;

fn read(file: &[u8]) -> Result<Vec<FatbinEntry<'_>>, Error> {
    let mut entries = Vec::new();
    for container in container::containers(file) {
        for entry in container?.entries() {
            entries.push(entry?);
        }
    }
    Ok(entries)
}

fn one(image: InputImage) -> Vec<u8> {
    write(&[image]).expect("fits")
}

/// Ten kilobytes that compress well.
fn soft() -> Vec<u8> {
    (0..10_000).map(|at: u32| (at / 100) as u8).collect()
}

fn kind() -> impl Strategy<Value = ImageKind> {
    prop_oneof![
        Just(ImageKind::Ptx),
        Just(ImageKind::Elf),
        Just(ImageKind::LtoIr),
        Just(ImageKind::Other(16))
    ]
}

fn target() -> impl Strategy<Value = ImageTarget> {
    let variant =
        prop_oneof![Just(Variant::Plain), Just(Variant::Family), Just(Variant::Accelerated)];
    (1..200_u32, variant).prop_map(|(sm, variant)| ImageTarget { sm, variant })
}

prop_compose! {
    fn image()(
        kind in kind(),
        version in any::<(u16, u16)>(),
        target in target(),
        ident in proptest::collection::vec(1..=255_u8, 0..20),
        options in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)),
        debug in any::<bool>(),
        data in proptest::collection::vec(1..=255_u8, 0..300),
        compression in proptest::option::of(prop_oneof![Just(Compression::Lz4), Just(Compression::Zstd)]),
    ) -> (InputImage, Vec<u8>) {
        let mut image = InputImage::new(kind, version, target, data.clone()).ident(ident);
        if let Some(options) = options { image = image.options(options); }
        if debug { image = image.flags(flag::DEBUG); }
        if let Some(compression) = compression { image = image.compressed(compression).expect("fits"); }
        (image, data)
    }
}

proptest! {
    #[test]
    fn written_is_read_and_read_is_written(
        files in proptest::collection::vec(proptest::collection::vec(image(), 0..4), 0..4),
        gap in 0..4_usize,
    ) {
        let mut bytes = Vec::new();
        for images in &files {
            let images: Vec<InputImage> = images.iter().map(|(image, _)| image.clone()).collect();
            bytes.extend_from_slice(&write(&images).expect("fits"));
            bytes.resize(bytes.len() + 8 * gap, 0);
        }
        let containers: Vec<_> = container::containers(&bytes).collect::<Result<_, _>>().expect("good");
        prop_assert_eq!(containers.len(), files.len());
        for (container, images) in containers.iter().zip(&files) {
            let entries: Vec<_> = container.entries().collect::<Result<_, _>>().expect("good");
            prop_assert_eq!(entries.len(), images.len());
            for (entry, (_, data)) in entries.iter().zip(images) {
                let mut read = entry.data(LIMIT).expect("fits").into_owned();
                if entry.encoding() == Encoding::Stored {
                    prop_assert_eq!(read.len() % 8, if entry.kind() == ImageKind::Ptx { data.len() % 8 } else { 0 });
                    read.truncate(data.len());
                }
                prop_assert_eq!(&read, data);
            }
            let again: Vec<InputImage> = entries.iter().map(InputImage::from).collect();
            prop_assert_eq!(write(&again).expect("fits"), container.bytes());
        }
    }
}

#[test]
fn an_entry_names_what_it_was_made_with() {
    let text = "// by hand\n.version 8.4\n.target sm_90a\n";
    let image = InputImage::ptx(text, ImageTarget::accelerated(90)).expect("a version");
    let image = image.ident("name").options("-O3").flags(flag::DEBUG);
    for (image, encoding) in [
        (image.clone(), Encoding::Stored),
        (image.clone().compressed(Compression::Lz4).expect("fits"), Encoding::Lz4),
        (image.compressed(Compression::Zstd).expect("fits"), Encoding::Zstd),
    ] {
        let file = one(image);
        let [entry] = read(&file).expect("good")[..] else { panic!("one entry") };
        assert_eq!((entry.kind(), entry.sm()), (ImageKind::Ptx, 90));
        assert_eq!((entry.variant(), entry.variant().suffix()), (Variant::Accelerated, "a"));
        assert_eq!((entry.header().major, entry.header().minor), (8, 4));
        assert_eq!((entry.ident(), entry.options()), (&b"name"[..], Some(&b"-O3"[..])));
        assert!(entry.has(flag::DEBUG | flag::BITS_64) && !entry.has(flag::COMPAT));
        assert_eq!(entry.encoding(), encoding);
        let data = entry.data(LIMIT).expect("good");
        assert_eq!(*data, text.as_bytes()[10..], "without the comment and the NUL");
        assert_eq!(matches!(data, Cow::Borrowed(_)), encoding == Encoding::Stored);
    }
}

/// The option record of a cubin of sm_100 and later: a NUL, which the size does not count, and
/// `.nv.compat`.
#[test]
fn cubins_of_mercury_repeat_their_compat_section() {
    let mut cubin = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let section = cubin.add_section(Vec::new(), b".nv.compat".into(), SectionKind::Other);
    cubin.append_section_data(section, b"compat", 4);
    let mut cubin = cubin.write().expect("an object");
    cubin[6..9].copy_from_slice(&[1, 0x41, 8]);
    let file = one(InputImage::cubin(cubin.clone(), ImageTarget::sm(100)).expect("ELF"));
    assert_eq!(file[16 + 64..].first_chunk(), Some(b"\x48\0\0\0\x06\0\0\0\0compat\0\x7fELF"));
    let [entry] = read(&file).expect("good")[..] else { panic!("one entry") };
    assert_eq!((entry.header().major, entry.header().minor), (1, 8));
    assert!(entry.has(flag::COMPAT));
    assert_eq!(entry.options(), Some(&b"compat"[..]));
    assert_eq!(one(InputImage::from(&entry)), file);
    let file = one(InputImage::cubin(cubin, ImageTarget::accelerated(90)).expect("ELF"));
    assert_eq!(read(&file).expect("good")[0].options(), None);
}

/// PTX in libcufft.so.12 of CUDA 13 has a record of nothing at offset 0; nvlink and cuobjdump 13.0
/// read it.
#[test]
fn a_record_of_options_may_be_zeros() {
    let image = InputImage::new(ImageKind::Ptx, (7, 5), ImageTarget::sm(86), *b"text\0");
    let mut file = one(image.options(""));
    let record = 16 + 64;
    assert_eq!(file[16 + 20], 64);
    file[record..record + 8].fill(0);
    let [entry] = read(&file).expect("good")[..] else { panic!("one entry") };
    assert_eq!(entry.options(), Some(&b""[..]));
    assert_eq!(entry.data(100).expect("text")[..], b"text"[..]);
    // The name of an image may not be where the record is.
    file[16 + 28] = 0;
    file[16 + 32..16 + 36].copy_from_slice(&64_u32.to_le_bytes());
    file[16 + 36..16 + 40].copy_from_slice(&4_u32.to_le_bytes());
    let error = read(&file).expect_err("the name is in the record");
    assert!(error.to_string().contains("bad option record"), "{error}");
}

/// Every file that is cut off is refused, unless what is left is complete.
#[test]
fn truncated_files_are_refused() {
    let image = InputImage::new(ImageKind::Elf, (1, 8), ImageTarget::sm(90), soft())
        .ident("i")
        .options("o");
    let file = one(image.compressed(Compression::Zstd).expect("fits"));
    for length in 1..file.len() {
        let error = read(&file[..length]).expect_err("cut off");
        assert!(error.offset <= 8, "{length}: {error}");
    }
    assert_eq!(read(&[]).expect("nothing").len(), 0);
    assert_eq!(read(&[0; 21]).expect("padding").len(), 0);
}

/// One field of a good file with another value: what is said, and where.
#[test]
fn lying_fields_are_refused() {
    let image = InputImage::new(ImageKind::Elf, (1, 8), ImageTarget::sm(90), soft())
        .ident("name")
        .options("opts");
    let good = one(image.compressed(Compression::Lz4).expect("fits"));
    assert!(read(&good).is_ok());
    let entry = 16;
    let record = entry + 64 + 8;
    #[rustfmt::skip]
    let rows: &[(usize, usize, u64, usize, &str)] = &[
        // at, size, value, offset and start of the error
        (0, 4, 0x7f45_4c46, 0, "not the magic number"),
        (4, 2, 2, 4, "version 2"),
        (6, 2, 24, 6, "a header of 0x18 bytes"),
        (8, 8, 0, 16, "not the magic number"),
        (8, 8, 63, 16, "the header of an entry is cut off"),
        (8, 8, u64::MAX, 8, "0xffffffffffffffff bytes of entries"),
        (8, 8, u64::MAX - 15, 8, "0xfffffffffffffff0 bytes of entries"),
        (entry + 4, 4, 63, entry + 4, "an entry with a header of 0x3f bytes"),
        (entry + 4, 4, 0xffff_ffff, entry + 4, "an entry with a header of 0xffffffff bytes"),
        (entry + 8, 8, 1 << 40, entry + 8, "an image of 0x10000000000 bytes"),
        (entry + 8, 8, u64::MAX, entry + 8, "an image of 0xffffffffffffffff bytes"),
        (entry + 16, 4, 0xffff_ffff, entry + 16, "0xffffffff compressed bytes"),
        (entry + 20, 4, 8, entry + 20, "a bad option record at 0x8"),
        (entry + 20, 4, 0x40, entry + 20, "a bad option record at 0x40"),
        (entry + 20, 4, 0x54, entry + 20, "a bad option record at 0x54"),
        (entry + 20, 4, u32::MAX.into(), entry + 20, "a bad option record"),
        (entry + 32, 4, 0x3f, entry + 32, "an identifier of 0x4 bytes at 0x3f"),
        (entry + 32, 4, 0x56, entry + 32, "an identifier of 0x4 bytes at 0x56"),
        (entry + 32, 4, 0x48, entry + 20, "a bad option record"),
        (entry + 36, 4, 9, entry + 20, "a bad option record"),
        (entry + 36, 4, u32::MAX.into(), entry + 32, "an identifier"),
        (record, 4, 0x40, entry + 20, "a bad option record"),
        (record, 4, 0x48, entry + 20, "a bad option record"),
        (record, 4, u32::MAX.into(), entry + 20, "a bad option record"),
        (record + 4, 4, 0x100, entry + 20, "a bad option record"),
    ];
    for &(at, size, value, offset, start) in rows {
        let mut file = good.clone();
        file[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        let error = read(&file).expect_err(start);
        assert_eq!(error.offset, offset as u64, "{at:#x} = {value:#x}: {error}");
        assert!(error.what.starts_with(start), "{at:#x} = {value:#x}: {error}");
    }
}

/// A file of one entry with these fields, whatever they say.
fn forged(header: EntryHeader, payload: &[u8]) -> Vec<u8> {
    let mut file = one(InputImage::new(ImageKind::Elf, (1, 8), ImageTarget::sm(90), payload));
    let mut bytes = Vec::new();
    let padded = payload.len().next_multiple_of(8) as u64;
    EntryHeader { header_size: 64, payload_size: padded, kind: 2, ..header }.write(&mut bytes);
    file.splice(16..80, bytes);
    file
}

#[test]
fn images_never_grow_beyond_what_is_declared_or_allowed() {
    let data = soft();
    for (compression, bit) in [(Compression::Lz4, flag::LZ4), (Compression::Zstd, flag::ZSTD)] {
        let image = InputImage::new(ImageKind::Elf, (1, 8), ImageTarget::sm(90), data.clone());
        let file = one(image.compressed(compression).expect("fits"));
        let entries = read(&file).expect("good");
        let entry = entries[0];
        assert_eq!(entry.data(10_000).expect("as declared"), data);
        let error = entry.data(9_999).expect_err("above the limit");
        assert_eq!(error.to_string(), "offset 0x10: an image of 0x2710 bytes, the limit is 0x270f");
        let header = EntryHeader { flags: bit, ..*entry.header() };
        for size in [0, 1, 9_999, 10_001, 20_000, 1 << 30, LIMIT << 20, u64::MAX] {
            let file = forged(EntryHeader { uncompressed_size: size, ..header }, entry.stored());
            let error = read(&file).expect("good headers")[0].data(1 << 40).expect_err("a lie");
            assert_eq!(error.offset, 16, "{error}");
        }
        for cut in 0..entry.stored().len() {
            let header = EntryHeader { compressed_size: cut as u32, ..header };
            let file = forged(header, entry.stored());
            assert!(read(&file).expect("good headers")[0].data(LIMIT).is_err(), "cut at {cut}");
        }
    }
}

#[test]
fn a_frame_without_a_size_is_bounded_all_the_same() {
    use zstd::stream::write::Encoder;
    let mut encoder = Encoder::new(Vec::new(), 3).expect("an encoder");
    let megabytes = vec![0; 64 << 20];
    std::io::Write::write_all(&mut encoder, &megabytes).expect("memory");
    let bomb = encoder.finish().expect("memory");
    assert!(bomb.len() < 10_000, "{} bytes", bomb.len());
    let header = EntryHeader {
        flags: flag::ZSTD,
        compressed_size: bomb.len() as u32,
        uncompressed_size: 4096,
        ..EntryHeader::default()
    };
    let file = forged(header, &bomb);
    let error = read(&file).expect("good headers")[0].data(LIMIT).expect_err("a bomb");
    assert!(error.what.contains("zstd"), "{error}");
    let file = forged(EntryHeader { uncompressed_size: 64 << 20, ..header }, &bomb);
    let data = read(&file).expect("good headers")[0].data(64 << 20).expect("as declared");
    assert!(data == megabytes);
}

#[test]
fn scrambled_images_are_read_by_nobody() {
    for flags in [flag::SCRAMBLED | flag::ZSTD, flag::SCRAMBLED, flag::LZ4 | flag::ZSTD] {
        let file = forged(EntryHeader { flags, ..EntryHeader::default() }, &[0; 8]);
        let entry = read(&file).expect("good headers")[0];
        assert_eq!(entry.encoding(), Encoding::Opaque);
        assert!(entry.data(LIMIT).is_err());
    }
}

#[test]
fn what_follows_a_container_is_padding_or_another_one() {
    let part = one(InputImage::new(ImageKind::Other(9), (0, 0), ImageTarget::sm(75), [1; 3]));
    let mut file = [&part[..], &[0; 16], &part].concat();
    assert_eq!(read(&file).expect("good").len(), 2);
    let offsets: Vec<usize> =
        container::containers(&file).map(|container| container.expect("good").offset()).collect();
    assert_eq!(offsets, [0, part.len() + 16]);
    file.extend_from_slice(b"rest");
    assert_eq!(read(&file).expect_err("garbage").offset, (2 * part.len() + 16) as u64);
    let mut walk = container::containers(&file);
    assert!(walk.by_ref().take(2).all(|container| container.is_ok()));
    assert!(walk.next().is_some_and(|container| container.is_err()));
    assert!(walk.next().is_none(), "ends after an error");
}
