//! Archives: the members of each flavour, and damage.

use culd_fatbin::archive::{Member, MemberContents, members};
use culd_fatbin::{Error, Format, sniff};
use culd_testkit::fixtures::pack::{ArchiveFlavour, archive};

const MEMBERS: &[(&str, &[u8])] = &[
    ("a.o", b"even"),
    ("odd.o", b"odd"),
    ("empty.o", b""),
    ("a name that is long enough.o", b"long"),
    ("a.o", b"again"),
    ("inner.a", b"!<arch>\n"),
];

fn read(file: &[u8]) -> Result<Vec<Member<'_>>, Error> {
    members(file)?.collect()
}

#[test]
fn members_are_found_in_every_flavour() {
    for flavour in [ArchiveFlavour::Gnu, ArchiveFlavour::Bsd, ArchiveFlavour::Coff] {
        let file = archive(MEMBERS, flavour);
        assert_eq!(sniff(&file), Format::Archive);
        assert!(!members(&file).expect("good").is_thin());
        let found = read(&file).expect("good");
        assert_eq!(found.len(), MEMBERS.len(), "{flavour:?}");
        for (found, (name, expected)) in found.iter().zip(MEMBERS) {
            assert_eq!(found.name, name.as_bytes(), "{flavour:?}");
            let MemberContents::Here { offset, data } = found.contents else {
                panic!("{flavour:?}")
            };
            assert_eq!(&data, expected, "{flavour:?}");
            assert_eq!(&file[offset as usize..][..data.len()], data, "{flavour:?}");
        }
    }
}

#[test]
fn thin_archives_name_files() {
    let file =
        archive(&[("a.o", b"four"), ("/lib/sub dir/b.o", b"eight by")], ArchiveFlavour::Thin);
    assert_eq!(sniff(&file), Format::ThinArchive);
    assert!(members(&file).expect("good").is_thin());
    let expected = [
        Member { name: b"a.o", contents: MemberContents::Elsewhere { size: 4 } },
        Member { name: b"/lib/sub dir/b.o", contents: MemberContents::Elsewhere { size: 8 } },
    ];
    assert_eq!(read(&file), Ok(expected.to_vec()));
}

#[test]
fn empty_archives_have_no_members() {
    for file in [b"!<arch>\n", b"!<thin>\n"] {
        assert_eq!(read(file), Ok(vec![]));
    }
    assert_eq!(read(b"!<arch>"), Err(Error::new(0, "not an archive")));
}

/// A symbol table is no member, wherever it stands and whoever made it.
#[test]
fn symbol_tables_are_no_members() {
    let tables: &[(&str, &[u8])] =
        &[("__.SYMDEF SORTED", &[0; 8]), ("a.o", b"a"), ("__.SYMDEF", &[0; 8]), ("b.o", b"b")];
    let file = archive(tables, ArchiveFlavour::Bsd);
    let names: Vec<&[u8]> = read(&file).expect("good").iter().map(|member| member.name).collect();
    assert_eq!(names, [b"a.o", b"b.o"]);
}

#[test]
fn truncated_archives_are_refused() {
    for flavour in
        [ArchiveFlavour::Gnu, ArchiveFlavour::Bsd, ArchiveFlavour::Coff, ArchiveFlavour::Thin]
    {
        let file = archive(MEMBERS, flavour);
        let all = read(&file).expect("good");
        for length in 1..file.len() {
            let found = match members(&file[..length]) {
                Ok(found) => found,
                Err(error) => {
                    assert!(error.offset <= length as u64, "{flavour:?} {length}: {error}");
                    continue;
                }
            };
            // What comes before the cut is as it was, then there is one error or nothing.
            let found: Vec<_> = found.collect();
            let whole = found.iter().take_while(|member| member.is_ok()).count();
            assert!(found.len() <= whole + 1, "{flavour:?} {length}");
            for (found, all) in found.iter().take(whole).zip(&all) {
                assert_eq!(found.as_ref(), Ok(all), "{flavour:?} {length}");
            }
            for error in found.iter().filter_map(|member| member.as_ref().err()) {
                assert!(error.offset <= length as u64, "{flavour:?} {length}: {error}");
            }
        }
    }
}

#[test]
fn lying_members_are_refused() {
    let good = archive(&[("a.o", b"data"), ("b.o", b"more")], ArchiveFlavour::Gnu);
    // Offsets of fields in the header of the first member, at 8, and of the second, at 72.
    #[rustfmt::skip]
    let rows: &[(usize, &[u8], u64, &str)] = &[
        (8 + 48, b"9999999999", 68, "member 'a.o' of 9999999999 bytes, 68 are left"),
        (8 + 48, b"-1        ", 8, "Invalid archive member size"),
        (72 + 48, b"5         ", 132, "member 'b.o' of 5 bytes, 4 are left"),
        (72 + 48, b"x         ", 72, "Invalid archive member size"),
        (72 + 58, b"xx", 72, "Invalid archive terminator"),
        (72, b"/4              ", 72, "Invalid archive extended name offset"),
        (72, b"#1/9            ", 72, "Invalid archive extended name length"),
        (72, b"#1/99999999999  ", 72, "Invalid archive extended name length"),
    ];
    for &(at, value, offset, what) in rows {
        let mut file = good.clone();
        file[at..at + value.len()].copy_from_slice(value);
        let error = read(&file).expect_err(what);
        assert_eq!((error.offset, &error.what[..]), (offset, what));
    }
}
