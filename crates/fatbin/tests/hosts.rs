//! Host objects: what they hold for the device linker, in ELF and COFF, merged, huge and damaged.

use culd_fatbin::host::{HostObject, Reference};
use culd_fatbin::{Format, sniff};
use culd_testkit::pack::{HostParts, coff_object, host_object};

fn parts() -> HostParts {
    HostParts {
        fatbins: vec![vec![1, 2, 3], vec![4; 8]],
        module_ids: vec!["_1_a_cu_x".to_owned(), "_2_b_cu_y".to_owned()],
        references: vec![
            (Reference::InternalKernel, vec![]),
            (Reference::Kernel, vec!["_Z1k*".to_owned(), "m".to_owned()]),
            (Reference::Variable, vec!["v".to_owned()]),
            (Reference::InternalVariable, vec![]),
            (Reference::Constant, vec![]),
            (Reference::InternalConstant, vec!["c*".to_owned()]),
        ],
    }
}

fn objects() -> [Vec<u8>; 2] {
    [host_object(&parts()).expect("ELF"), coff_object(&parts()).expect("COFF")]
}

#[test]
fn everything_for_the_device_linker_is_found() {
    for file in objects() {
        let object = HostObject::parse(&file).expect("good").expect("an object");
        assert!(object.has_segment);
        let [fatbin] = object.fatbins[..] else { panic!("one section") };
        assert_eq!(fatbin.data, [1, 2, 3, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4]);
        let at = fatbin.offset as usize;
        assert_eq!(&file[at..at + 16], fatbin.data);
        assert_eq!(object.module_ids, [b"_1_a_cu_x", b"_2_b_cu_y"]);
        let references: Vec<(Reference, &[u8])> =
            object.references.iter().map(|(kind, section)| (*kind, section.data)).collect();
        let expected: [(Reference, &[u8]); 6] = [
            (Reference::InternalKernel, b"\0"),
            (Reference::Kernel, b"_Z1k*\0m\0"),
            (Reference::Variable, b"v\0"),
            (Reference::InternalVariable, b"\0"),
            (Reference::Constant, b"\0"),
            (Reference::InternalConstant, b"c*\0"),
        ];
        assert_eq!(references, expected);
    }
}

#[test]
fn an_object_without_device_code_holds_nothing() {
    let parts = HostParts::default();
    for file in [host_object(&parts).expect("ELF"), coff_object(&parts).expect("COFF")] {
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

/// A damaged object is an error or, when the damage is elsewhere, no other object.
#[test]
fn truncated_objects_are_refused() {
    for file in objects() {
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
