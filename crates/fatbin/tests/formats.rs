//! What `sniff` makes of a file.

use culd_fatbin::writer::{ImageTarget, InputImage, write};
use culd_fatbin::{Format, sniff};
use culd_testkit::fixtures::pack::{
    ArchiveFlavour, HostParts, archive, bigobj, coff_object, host_object,
};

/// The first 64 bytes of an ELF file.
fn elf(kind: u16, machine: u16) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(64, 0);
    file[16..18].copy_from_slice(&kind.to_le_bytes());
    file[18..20].copy_from_slice(&machine.to_le_bytes());
    file
}

#[test]
fn every_format_is_known_by_its_contents() {
    let coff = coff_object(&HostParts::default()).expect("COFF");
    let image = InputImage::ptx(".version 9.0", ImageTarget::sm(90)).expect("a version");
    let rows: &[(&[u8], Format)] = &[
        (&elf(1, 190), Format::RelocatableCubin),
        (&elf(2, 190), Format::ExecutableCubin),
        (&elf(3, 190), Format::ExecutableCubin),
        (&elf(1, 62), Format::HostElf { relocatable: true }),
        (&elf(3, 183), Format::HostElf { relocatable: false }),
        (&host_object(&HostParts::default()).expect("ELF"), Format::HostElf { relocatable: true }),
        (&coff, Format::Coff),
        (&bigobj(&coff), Format::Coff),
        (&archive(&[], ArchiveFlavour::Gnu), Format::Archive),
        (&archive(&[], ArchiveFlavour::Thin), Format::ThinArchive),
        (&write(&[image]).expect("small"), Format::Fatbin),
        (b".version 9.0\n", Format::Ptx),
        (b"\n\t // (c) \n/* .target\n*/ /**/ .version 9.0", Format::Ptx),
        (b"\xed\x43\x4e\x7f\x01\x41", Format::LtoIr),
        (b"BC\xc0\xde", Format::Bitcode),
        (b"\xde\xc0\x17\x0b", Format::Bitcode),
        // A short import record of a library for Windows, a program, a text, nothing.
        (b"\0\0\xff\xff\0\0\x64\x86\0\0\0\0\0\0\0\0\0\0\0\0", Format::Unknown),
        (b"MZ\x90\0", Format::Unknown),
        (b"/* unfinished .version 9.0", Format::Unknown),
        (b"// .version 9.0", Format::Unknown),
        (b"GROUP ( /lib/x.so )", Format::Unknown),
        (b"\x7fEL", Format::Unknown),
        (b"d\x86", Format::Unknown),
        (b"", Format::Unknown),
    ];
    for (file, format) in rows {
        assert_eq!(sniff(file), *format, "{}", file[..file.len().min(20)].escape_ascii());
    }
}
