//! Host objects: what they hold for the device linker, in ELF and COFF, merged, huge and damaged.

use culd_fatbin::host::{HostObject, HostReference};
use culd_fatbin::{Format, sniff};
use culd_testkit::fixtures::pack::{HostParts, bigobj, coff_object, host_object};

fn parts() -> HostParts {
    HostParts {
        fatbins: vec![vec![1, 2, 3], vec![4; 8]],
        whole_program: vec![5; 5],
        module_ids: vec!["_1_a_cu_x".to_owned(), "_2_b_cu_y".to_owned()],
        references: vec![
            (HostReference::InternalKernel, vec![]),
            (HostReference::Kernel, vec!["_Z1k*".to_owned(), "m".to_owned()]),
            (HostReference::Variable, vec!["v".to_owned()]),
            (HostReference::InternalVariable, vec![]),
            (HostReference::Constant, vec![]),
            (HostReference::InternalConstant, vec!["c*".to_owned()]),
        ],
        others: 1,
        ..HostParts::default()
    }
}

/// One of each kind.
fn objects(parts: &HostParts) -> [Vec<u8>; 3] {
    let coff = coff_object(parts).expect("COFF");
    [host_object(parts).expect("ELF"), bigobj(&coff), coff]
}

#[test]
fn everything_for_the_device_linker_is_found() {
    for file in objects(&parts()) {
        let object = HostObject::parse(&file).expect("good").expect("an object");
        assert!(object.has_segment);
        let [fatbin] = object.fatbins[..] else { panic!("one section") };
        assert_eq!(fatbin.data, [1, 2, 3, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4]);
        let at = fatbin.offset as usize;
        assert_eq!(&file[at..at + 16], fatbin.data);
        let whole: Vec<&[u8]> = object.whole_programs.iter().map(|section| section.data).collect();
        assert_eq!(whole, [[5; 5]]);
        assert_eq!(object.modules(), [b"_1_a_cu_x", b"_2_b_cu_y"]);
        let references: Vec<(HostReference, &[u8])> =
            object.references.iter().map(|(kind, section)| (*kind, section.data)).collect();
        let expected: [(HostReference, &[u8]); 6] = [
            (HostReference::InternalKernel, b"\0"),
            (HostReference::Kernel, b"_Z1k*\0m\0"),
            (HostReference::Variable, b"v\0"),
            (HostReference::InternalVariable, b"\0"),
            (HostReference::Constant, b"\0"),
            (HostReference::InternalConstant, b"c*\0"),
        ];
        assert_eq!(references, expected);
    }
}

#[test]
fn an_object_without_device_code_holds_nothing() {
    for file in objects(&HostParts::default()) {
        assert_eq!(HostObject::parse(&file), Ok(Some(HostObject::default())));
    }
}

#[test]
fn other_files_are_no_objects() {
    let mut cubin = host_object(&parts()).expect("ELF");
    cubin[18..20].copy_from_slice(&190_u16.to_le_bytes());
    assert_eq!(sniff(&cubin), Format::RelocatableCubin);
    for file in [&cubin[..], b"", b"text", b"!<arch>\n", &[0; 100]] {
        assert_eq!(HostObject::parse(file), Ok(None));
    }
}

/// The machine of an ELF object does not matter, its class and order of bytes do.
#[test]
fn objects_of_all_processors_are_read() {
    let good = host_object(&parts()).expect("ELF");
    for machine in [21_u16, 40, 183, 243, 258] {
        let mut file = good.clone();
        file[18..20].copy_from_slice(&machine.to_le_bytes());
        assert!(HostObject::parse(&file).expect("good").is_some_and(|object| object.has_segment));
    }
    for (at, value) in [(4, 1), (5, 2), (6, 9)] {
        let mut file = good.clone();
        file[at] = value;
        assert!(HostObject::parse(&file).is_err(), "e_ident[{at}] = {value}");
    }
}

/// From 65,280 sections on ELF has their number, and the index of the table of names, elsewhere.
#[test]
fn objects_with_many_sections_are_read() {
    for others in [65_200, 65_274, 65_280, 70_000] {
        let file = host_object(&HostParts { others, ..parts() }).expect("ELF");
        let object = HostObject::parse(&file).expect("good").expect("an object");
        assert_eq!((object.fatbins.len(), object.references.len()), (1, 6), "{others}");
    }
}

/// Several sections of a kind are all found, names that only begin like one are not.
#[test]
fn sections_are_found_by_their_whole_names() {
    let mut object = object::write::Object::new(
        object::BinaryFormat::Coff,
        object::Architecture::Aarch64,
        object::Endianness::Little,
    );
    for name in ["__nv_relfatbin", "__nv_relfatbin", "__nv_relfatbin2", ".nvHRK", ".nvHRKE2"] {
        let data = object::SectionKind::ReadOnlyData;
        let section = object.add_section(Vec::new(), name.into(), data);
        object.append_section_data(section, name.as_bytes(), 8);
    }
    let file = object.write().expect("an object");
    let object = HostObject::parse(&file).expect("good").expect("an object");
    let fatbins: Vec<&[u8]> = object.fatbins.iter().map(|section| section.data).collect();
    assert_eq!(fatbins, [b"__nv_relfatbin"; 2]);
    assert!(!object.has_segment && object.references.is_empty());
}

/// A section that says that it lies outside of the file: an error where it concerns device code
/// only.
#[test]
fn sections_outside_of_the_file_are_refused() {
    let good = host_object(&parts()).expect("ELF");
    let word = |at: usize| u64::from_le_bytes(good[at..at + 8].try_into().expect("8 bytes"));
    let (table, count) = (word(40) as usize, usize::from(good[60]));
    let wanted = HostObject::parse(&good).expect("good").expect("an object");
    let mut refused = 0;
    for header in (0..count).map(|index| table + 64 * index) {
        let mut file = good.clone();
        file[header + 32..header + 40].copy_from_slice(&(1_u64 << 40).to_le_bytes());
        match HostObject::parse(&file) {
            Ok(object) => assert_eq!(object, Some(wanted.clone())),
            Err(error) => {
                assert!(error.offset == header as u64 || error.offset == table as u64, "{error}");
                refused += 1;
            }
        }
    }
    // Two fat binaries, the module ids, six lists, and the names of the sections.
    assert_eq!(refused, 10);
}

/// A damaged object is an error or, when the damage is elsewhere, no other object.
#[test]
fn truncated_objects_are_refused() {
    for file in objects(&parts()) {
        let good = HostObject::parse(&file).expect("good").expect("an object");
        for length in 1..file.len() {
            match HostObject::parse(&file[..length]) {
                Ok(Some(object)) => assert_eq!(object, good, "cut at {length}"),
                Ok(None) => assert!(length < 64, "cut at {length}"),
                Err(error) => assert!(error.offset < file.len() as u64, "{error}"),
            }
        }
    }
}
