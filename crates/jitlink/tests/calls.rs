//! The functions as C calls them: good calls, wrong ones, and many at once.
//!
//! In: the files of the quickstart. Out: no report, or the call that went wrong.
#![allow(non_snake_case, reason = "the names are NVIDIA's")]
#![allow(unsafe_code, reason = "these are functions for C")]

use std::ffi::{CString, c_char, c_int};
use std::fs;
use std::path::PathBuf;
use std::ptr::{null, null_mut};

use culd_testkit::reference::readers;
use nvJitLink::abi::*;

const SUCCESS: c_int = 0;
const INVALID_INPUT: c_int = 3;
const INTERNAL: c_int = 6;
const NULL_INPUT: c_int = 10;
const CUBIN: c_int = 1;
const OBJECT: c_int = 5;
const ANY: c_int = 10;

fn quickstart(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/quickstart")).join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    fs::read(quickstart(name)).expect("a file of the quickstart")
}

fn create(options: &[&str]) -> (c_int, LinkHandle) {
    let words: Vec<CString> =
        options.iter().map(|&word| CString::new(word).expect("no NUL")).collect();
    let pointers: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
    let mut handle = 0;
    // SAFETY: the count is that of the words.
    let code = unsafe { nvJitLinkCreate(&mut handle, pointers.len() as u32, pointers.as_ptr()) };
    (code, handle)
}

fn add(handle: LinkHandle, kind: c_int, data: &[u8], name: &str) -> c_int {
    let name = CString::new(name).expect("no NUL");
    // SAFETY: the length is that of the bytes.
    unsafe { nvJitLinkAddData(handle, kind, data.as_ptr().cast(), data.len(), name.as_ptr()) }
}

fn complete(handle: LinkHandle) -> c_int {
    // SAFETY: no pointers.
    unsafe { nvJitLinkComplete(handle) }
}

fn destroy(handle: &mut LinkHandle) -> c_int {
    // SAFETY: it can be written.
    unsafe { nvJitLinkDestroy(handle) }
}

/// What a pair of functions for a size and a copy gives.
fn get(
    handle: LinkHandle,
    size_of: unsafe extern "C" fn(LinkHandle, *mut usize) -> c_int,
    copy: unsafe extern "C" fn(LinkHandle, *mut c_char) -> c_int,
) -> Result<Vec<u8>, c_int> {
    let mut size = usize::MAX;
    // SAFETY: it can be written.
    match unsafe { size_of(handle, &mut size) } {
        SUCCESS => {}
        code => return Err(code),
    }
    // An empty log has a NUL all the same.
    let mut buffer = vec![0xaau8; size.max(1) + 1];
    // SAFETY: the buffer has room for the size that the library returned, and one byte more.
    let code = unsafe { copy(handle, buffer.as_mut_ptr().cast()) };
    assert_eq!(buffer.pop(), Some(0xaa), "more was written than the size");
    buffer.truncate(size);
    if code == SUCCESS { Ok(buffer) } else { Err(code) }
}

fn cubin(handle: LinkHandle) -> Result<Vec<u8>, c_int> {
    get(handle, nvJitLinkGetLinkedCubinSize, nvJitLinkGetLinkedCubin)
}

fn error_log(handle: LinkHandle) -> String {
    let log = get(handle, nvJitLinkGetErrorLogSize, nvJitLinkGetErrorLog).expect("a log");
    String::from_utf8(log).expect("text").trim_end_matches('\0').to_owned()
}

fn info_log(handle: LinkHandle) -> String {
    let log = get(handle, nvJitLinkGetInfoLogSize, nvJitLinkGetInfoLog).expect("a log");
    String::from_utf8(log).expect("text").trim_end_matches('\0').to_owned()
}

/// The image of a link of the quickstart.
fn linked(options: &[&str]) -> Vec<u8> {
    let (code, mut handle) = create(options);
    assert_eq!(code, SUCCESS);
    assert_eq!(add(handle, CUBIN, &bytes("saxpy.cubin"), "saxpy.cubin"), SUCCESS);
    assert_eq!(add(handle, ANY, &bytes("smooth.cubin"), "smooth.cubin"), SUCCESS);
    assert_eq!(complete(handle), SUCCESS, "{}", error_log(handle));
    let image = cubin(handle).expect("an image");
    assert_eq!(destroy(&mut handle), SUCCESS);
    assert_eq!(handle, 0);
    image
}

#[test]
fn the_image_is_that_of_the_rust_library_but_for_the_tool_note() {
    let image = linked(&["-arch=sm_90"]);
    let options = culd::Options::for_arch("sm_90").expect("sm_90");
    let mut linker = culd::Linker::new(options);
    linker.add_bytes("saxpy.cubin", culd::InputKind::Cubin, bytes("saxpy.cubin"));
    linker.add_bytes("smooth.cubin", culd::InputKind::Cubin, bytes("smooth.cubin"));
    let expected = linker.link().expect("it links").into_image();
    let [ours, theirs] = [&image, &expected].map(|image| {
        let cubin = culd::cubin::Cubin::parse(image).expect("a cubin");
        let section = |section: &culd::cubin::Section<'_>| {
            (section.name.to_vec(), section.sh_type, section.flags, section.data.to_vec())
        };
        let other = |section: &&culd::cubin::Section<'_>| section.name != b".note.nv.tkinfo";
        cubin.sections.iter().filter(other).map(section).collect::<Vec<_>>()
    });
    assert!(ours == theirs);
}

#[test]
fn what_is_wrong_with_a_program_is_in_the_error_log() {
    for (dialect, end) in [("13.0", "ERROR 9: finish\n"), ("13.1", "ERROR 9: complete\n")] {
        let dialect = format!("-dialect={dialect}");
        let (_, mut handle) = create(&["-arch=sm_90", "-verbose", &dialect]);
        assert_eq!(add(handle, CUBIN, &bytes("saxpy.cubin"), "s"), SUCCESS);
        assert_eq!(complete(handle), INTERNAL);
        let log = error_log(handle);
        assert!(log.contains("error   : Undefined reference to 'smooth' in 's'\n"), "{log}");
        assert!(log.ends_with(end), "{log}");
        assert_eq!(cubin(handle), Err(INTERNAL));
        destroy(&mut handle);
    }

    // NVIDIA's library returns success here (docs/JITLINK.md).
    let (_, mut handle) = create(&["-arch=sm_90"]);
    for name in ["one", "two"] {
        assert_eq!(add(handle, CUBIN, &bytes("smooth.cubin"), name), SUCCESS);
    }
    assert_eq!(complete(handle), INVALID_INPUT);
    let log = error_log(handle);
    assert!(log.contains("' in 'two', first defined in 'one'"), "{log}");
    destroy(&mut handle);
}

#[test]
fn verbose_links_list_resources() {
    let (_, mut handle) = create(&["-arch=sm_90", "-verbose", "-time"]);
    for name in ["saxpy.cubin", "smooth.cubin"] {
        let path = CString::new(quickstart(name).display().to_string()).expect("no NUL");
        // SAFETY: it ends with NUL.
        assert_eq!(unsafe { nvJitLinkAddFile(handle, ANY, path.as_ptr()) }, SUCCESS);
    }
    assert_eq!(complete(handle), SUCCESS);
    let log = info_log(handle);
    assert!(log.contains("info    : used 24 registers, used 1 barriers"), "{log}");
    assert!(log.contains("nvJitLinkComplete time to finish: "), "{log}");
    assert_eq!(error_log(handle), "");
    destroy(&mut handle);
}

/// What there is without `-lto`, with it and no LTO-IR, and of a link that failed.
#[test]
fn ptx_and_lto_ir_are_there_with_lto_only() {
    for (options, code) in
        [(&["-arch=sm_90"][..], INVALID_INPUT), (&["-arch=sm_90", "-lto"], INTERNAL)]
    {
        let (created, mut handle) = create(options);
        assert_eq!(created, SUCCESS);
        assert_eq!(add(handle, CUBIN, &bytes("smooth.cubin"), "smooth"), SUCCESS);
        assert_eq!(complete(handle) == SUCCESS, code == INVALID_INPUT, "{options:?}");
        let lto_ir = get(handle, nvJitLinkGetLinkedLTOIRSize, nvJitLinkGetLinkedLTOIR);
        assert_eq!(lto_ir, Err(code), "{options:?}");
        let ptx = get(handle, nvJitLinkGetLinkedPtxSize, nvJitLinkGetLinkedPtx);
        assert_eq!(ptx, Err(INVALID_INPUT), "{options:?}");
        destroy(&mut handle);
    }
}

/// An index file is read when the handle is made.
#[test]
fn index_files_are_options_too() {
    let (code, mut handle) = create(&["-arch=sm_90", "-uidx=/nowhere/it.uidx"]);
    assert_eq!(code, INVALID_INPUT);
    assert_eq!(error_log(handle), "ERROR: File '/nowhere/it.uidx' does not exist\n");
    assert_eq!(add(handle, CUBIN, &bytes("smooth.cubin"), "smooth"), SUCCESS);
    assert_eq!(complete(handle), SUCCESS);
    destroy(&mut handle);
    let path = quickstart("smooth.cubin").display().to_string();
    let (code, mut handle) = create(&["-arch=sm_90", &format!("-uidx={path}")]);
    assert_eq!(code, SUCCESS);
    assert!(error_log(handle).ends_with(&format!("NVJITLINK_INPUT_INDEX{path}\n")));
    destroy(&mut handle);
}

#[test]
fn files_have_their_names_in_messages() {
    let (_, mut handle) = create(&["-arch=sm_90"]);
    let path = quickstart("saxpy.cubin").display().to_string();
    let name = CString::new(path.clone()).expect("no NUL");
    // SAFETY: it ends with NUL.
    assert_eq!(unsafe { nvJitLinkAddFile(handle, ANY, name.as_ptr()) }, SUCCESS);
    drop(name);
    assert_eq!(complete(handle), INTERNAL);
    let log = error_log(handle);
    assert!(log.contains(&format!("Undefined reference to 'smooth' in '{path}'\n")), "{log}");
    destroy(&mut handle);
}

#[test]
fn null_pointers_and_handles_that_are_none_are_answered() {
    let (_, mut handle) = create(&["-arch=sm_90"]);
    let mut copy = handle;
    let mut other = 0;
    let data = bytes("smooth.cubin");
    let words = [c"-arch=sm_90".as_ptr(), null()];
    // SAFETY: null, or what the functions may use.
    unsafe {
        assert_eq!(nvJitLinkCreate(null_mut(), 0, null()), NULL_INPUT);
        assert_eq!(nvJitLinkCreate(&mut other, 1, null()), NULL_INPUT);
        assert_eq!(nvJitLinkCreate(&mut other, 2, words.as_ptr()), NULL_INPUT);
        assert_eq!(nvJitLinkAddData(handle, CUBIN, null(), 7, null()), NULL_INPUT);
        assert_eq!(
            nvJitLinkAddData(handle, CUBIN, data.as_ptr().cast(), usize::MAX, null()),
            NULL_INPUT
        );
        assert_eq!(nvJitLinkAddFile(handle, CUBIN, null()), NULL_INPUT);
        assert_eq!(nvJitLinkGetErrorLogSize(handle, null_mut()), NULL_INPUT);
        assert_eq!(nvJitLinkGetLinkedCubinSize(handle, null_mut()), NULL_INPUT);
        assert_eq!(nvJitLinkGetLinkedCubin(handle, null_mut()), NULL_INPUT);
        assert_eq!(nvJitLinkVersion(null_mut(), null_mut()), NULL_INPUT);
        assert_eq!(nvJitLinkDestroy(null_mut()), NULL_INPUT);
    }
    assert_eq!(other, 0);
    assert_eq!(destroy(&mut handle), SUCCESS);
    let mut made_up = 0x7fff_dead_beef;
    for stale in [&mut copy, &mut made_up, &mut handle] {
        assert_eq!(complete(*stale), NULL_INPUT);
        assert_eq!(add(*stale, CUBIN, &data, "x"), NULL_INPUT);
        assert_eq!(cubin(*stale), Err(NULL_INPUT));
        assert_eq!(destroy(stale), NULL_INPUT);
    }
}

#[test]
fn damaged_inputs_and_every_number_of_a_kind_are_answered() {
    let good = bytes("smooth.cubin");
    // What looks like a cubin is nothing as an object.
    for kind in (-1..12).filter(|&kind| kind != OBJECT) {
        for cut in [0, 1, 16, 63, 64, 200, good.len() / 2, good.len() - 1] {
            let (_, mut handle) = create(&["-arch=sm_90"]);
            let code = add(handle, kind, &good[..cut], "cut");
            assert_ne!(code, SUCCESS, "kind {kind}, {cut} bytes");
            assert!(code == INVALID_INPUT || cut != 0, "kind {kind}");
            assert_ne!(error_log(handle), "");
            assert_eq!(complete(handle), SUCCESS);
            destroy(&mut handle);
        }
    }
}

#[test]
fn inputs_behind_the_end_of_a_link_are_refused() {
    let (_, mut handle) = create(&["-arch=sm_90"]);
    assert_eq!(complete(handle), SUCCESS);
    assert_eq!(add(handle, CUBIN, &bytes("smooth.cubin"), "late"), INTERNAL);
    assert_eq!(complete(handle), INTERNAL);
    assert!(cubin(handle).is_ok());
    assert!(error_log(handle).contains("late"));
    destroy(&mut handle);
}

/// Links on all threads together, a third of which fail.
const LINKS: usize = 10_000;
const THREADS: usize = 8;

#[test]
fn many_links_at_once_come_out_the_same() {
    let expected = linked(&["-arch=sm_90"]);
    let (saxpy, smooth) = (bytes("saxpy.cubin"), bytes("smooth.cubin"));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (expected, saxpy, smooth) = (&expected, &saxpy, &smooth);
            scope.spawn(move || {
                for round in 0..LINKS / THREADS {
                    let (code, mut handle) = create(&["-arch=sm_90"]);
                    assert_eq!(code, SUCCESS);
                    assert_eq!(add(handle, CUBIN, saxpy, "saxpy.cubin"), SUCCESS);
                    if (thread + round) % 3 == 0 {
                        assert_eq!(complete(handle), INTERNAL);
                        assert!(error_log(handle).contains("'smooth'"));
                    } else {
                        assert_eq!(add(handle, CUBIN, smooth, "smooth.cubin"), SUCCESS);
                        assert_eq!(complete(handle), SUCCESS);
                        assert!(cubin(handle).as_ref() == Ok(expected));
                    }
                    assert_eq!(destroy(&mut handle), SUCCESS);
                }
            });
        }
    });
}

/// Threads of the least stack that the system gives make every call.
#[test]
fn a_thread_with_little_stack_is_enough() {
    let (saxpy, smooth) = (bytes("saxpy.cubin"), bytes("smooth.cubin"));
    let all = move || {
        let (code, mut handle) = create(&["-arch=sm_90", "-verbose"]);
        assert_eq!(code, SUCCESS);
        assert_eq!(add(handle, CUBIN, &saxpy, "saxpy.cubin"), SUCCESS);
        assert_eq!(add(handle, CUBIN, &saxpy[..100], "damaged.cubin"), INVALID_INPUT);
        assert_eq!(add(handle, CUBIN, &smooth, "smooth.cubin"), SUCCESS);
        assert_eq!(complete(handle), SUCCESS);
        let image = cubin(handle);
        assert_eq!(destroy(&mut handle), SUCCESS);
        image
    };
    let expected = all.clone()();
    assert!(expected.is_ok());
    for kib in [16, 64, 512] {
        let thread = std::thread::Builder::new().stack_size(kib << 10).spawn(all.clone());
        let image = thread.expect("a thread").join().expect("an image");
        assert!(image == expected, "{kib} KiB");
    }
}

#[test]
fn one_handle_on_many_threads_is_used_by_one_at_a_time() {
    let (_, mut handle) = create(&["-arch=sm_90"]);
    let smooth = bytes("smooth.cubin");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let smooth = &smooth;
            scope.spawn(move || {
                assert_eq!(add(handle, CUBIN, smooth, &format!("{thread}")), SUCCESS);
            });
        }
    });
    assert_eq!(complete(handle), INVALID_INPUT);
    destroy(&mut handle);
}

#[test]
fn the_shared_library_exports_what_nvidias_does() {
    let folder = std::env::current_exe().expect("a path");
    let library = folder.parent().expect("a folder").join("libnvJitLink.so");
    let list = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/exports.txt"));
    let list = list.expect("exports.txt");
    let expected: Vec<&str> = list.lines().collect();
    assert_eq!(readers::exports(&library).expect("exports"), expected);
    assert_eq!(readers::soname(&library).expect("a name"), "libnvJitLink.so.13");
}
