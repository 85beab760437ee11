//! Values that no compiler writes, but for which nvlink's output follows a rule: culd follows it
//! too.
//!
//! In: recorded inputs with some fields overwritten. Out: no report, or the wrong value. The rules
//! come from nvlink's outputs; `xtask mutate --differential` compares such files with nvlink.

use culd_cubin::Cubin;
use culd_testkit::fixtures::case;
use culd_tests::elf::*;
use culd_tests::{link, link_options};

fn inputs_of(name: &str) -> Vec<(String, Vec<u8>)> {
    case::named(name).and_then(|case| case.inputs()).expect("the recorded case")
}

fn image(arch: &str, inputs: &[(String, Vec<u8>)]) -> Vec<u8> {
    let options = link_options(&[format!("-arch={arch}")]).expect("options");
    let outcome = link(&options, inputs, 1).expect("threads");
    let lines = culd_tests::lines(&outcome);
    outcome.image.unwrap_or_else(|| panic!("no output: {lines:?}"))
}

/// The size of the system's part of shared memory follows from the target, not from the object.
#[test]
fn reserved_shared_memory_is_the_targets() {
    for (arch, sm, expected) in [("sm_90", 90, 0x400), ("sm_86", 86, 0), ("sm_75", 75, 0)] {
        let mut inputs = inputs_of("syscalls/reserved-shared-90");
        for (_, bytes) in &mut inputs {
            let mut editor = Editor::new(bytes);
            editor.header((49, 1), sm);
            *bytes = editor.bytes;
        }
        let mut editor = Editor::new(&inputs[0].1);
        editor.symbol(".nv.reservedSmem.cap", ST_VALUE, 0x20);
        editor.symbol(".nv.reservedSmem.offset0", ST_VALUE, 0x10);
        inputs[0].1 = editor.bytes;
        let image = image(arch, &inputs);
        let cubin = Cubin::parse(&image).expect("a cubin");
        let value = |name: &[u8]| {
            let symbol = cubin.symbols.iter().find(|symbol| symbol.name == name);
            symbol.expect("the symbol").value
        };
        assert_eq!(value(b".nv.reservedSmem.cap"), expected, "{arch}");
        assert_eq!(value(b".nv.reservedSmem.offset0"), 0, "{arch}");
    }
}

/// Weak copies of a kernel share one bank of parameters with the bytes of the first copy, although
/// the code is that of the copy that counts (twelve orders of three copies, sm_90).
#[test]
fn bytes_among_parameters_are_those_of_the_first_copy() {
    let good = inputs_of(WEAK_KERNELS.0);
    let mut numbered = good.clone();
    for ((_, bytes), number) in numbered.iter_mut().zip(1u8..) {
        let mut editor = Editor::new(bytes);
        if Cubin::parse(bytes).expect("a cubin").section_by_name(b".nv.constant0.k").is_some() {
            let bank = editor.content(".nv.constant0.k");
            editor.bytes[bank].fill(number);
        }
        *bytes = editor.bytes;
    }
    let holders: Vec<usize> = (0..good.len()).filter(|&at| numbered[at].1 != good[at].1).collect();
    assert!(holders.len() > 1, "copies of the kernel");
    for turn in 0..good.len() {
        let mut inputs = numbered.clone();
        inputs.rotate_left(turn);
        let first = (0..good.len()).map(|at| (at + turn) % good.len());
        let first = first.clone().find(|at| holders.contains(at)).expect("a copy") as u8 + 1;
        let image = image(WEAK_KERNELS.1, &inputs);
        let cubin = Cubin::parse(&image).expect("a cubin");
        let bank = cubin.section_by_name(b".nv.constant0.k").expect("the bank");
        assert!(bank.data.iter().all(|&byte| byte == first), "turn {turn}: {:?}", &bank.data[..8]);
    }
}

/// A case with weak copies of the kernel `k`.
const WEAK_KERNELS: (&str, &str) = ("weak/latest-target-90", "sm_90");

/// A kernel whose bank of parameters is empty has one for its textures.
#[test]
fn an_empty_bank_of_parameters_takes_textures() {
    let mut inputs = inputs_of("textures/many-75");
    let mut editor = Editor::new(&inputs[1].1);
    editor.section(".nv.constant0.k3", SH_SIZE, 0);
    // The bank's parameter.
    let parameter = editor.content(".symtab").start + 24 * 8;
    editor.put(parameter, ST_VALUE, 0).put(parameter, ST_SIZE, 0);
    inputs[1].1 = editor.bytes;
    let image = image("sm_75", &inputs);
    let cubin = Cubin::parse(&image).expect("a cubin");
    let size = |bank: &[u8]| {
        let bank = cubin.sections.iter().find(|section| section.name == bank);
        bank.expect("the bank").data.len()
    };
    assert_eq!(size(b".nv.constant0.k3"), size(b".nv.constant0.k2"));
}

/// On sm_86, the upper byte of `sh_info` is the number of registers of a weak function; if it is 0,
/// the attribute is. The copy with fewer counts, in either order (two copies, either number 0, 1 or
/// 99).
#[test]
fn registers_are_those_of_the_code_section_or_else_of_the_attribute() {
    let code = |inputs: &[(String, Vec<u8>)]| {
        let image = image("sm_86", inputs);
        Cubin::parse(&image).expect("a cubin").section_by_name(b".text.f").expect("f").size
    };
    let mut inputs = inputs_of("weak/fewest-registers-90");
    inputs.retain(|(name, _)| name != "kernel.cubin");
    assert_eq!(inputs.len(), 2, "two copies");
    for (_, bytes) in &mut inputs {
        let mut editor = Editor::new(bytes);
        editor.header((49, 1), 86);
        *bytes = editor.bytes;
    }
    let alone = |name: &str| {
        let file = inputs.iter().find(|input| input.0 == name).expect("the file");
        let cubin = Cubin::parse(&file.1).expect("a cubin");
        cubin.section_by_name(b".text.f").expect("f").size
    };
    let (many, few) = (alone("many.cubin"), alone("few.cubin"));
    assert_ne!(many, few);
    // The attributes say 54 and 24.
    for (file, registers, expected) in [
        ("few.cubin", 0, few),
        ("few.cubin", 99, many),
        ("many.cubin", 99, few),
        ("many.cubin", 1, many),
    ] {
        let mut changed = inputs.clone();
        let (_, bytes) = changed.iter_mut().find(|input| input.0 == file).expect("the file");
        let mut editor = Editor::new(bytes);
        let header = editor.section_header(".text.f");
        let info = editor.get(header, SH_INFO) & 0xff_ffff;
        editor.put(header, SH_INFO, info | registers << 24);
        *bytes = editor.bytes;
        assert_eq!(code(&changed), expected, "{file} {registers}");
        changed.reverse();
        assert_eq!(code(&changed), expected, "{file} {registers}");
    }
}

/// The first file's attributes of `.nv.compat` keep their places, and missing ones follow; in 13.0
/// and 13.1, the one that a finalizer adds comes last (all six releases, both orders of two files,
/// `-r` too).
#[test]
fn what_the_finalizer_adds_to_compat_comes_last_by_the_older_releases() {
    const ISA_CLASS: u8 = 2;
    const FINALIZER: u8 = 0x0b;
    let mut inputs = inputs_of("headers-and-order/every-section-100");
    let mut editor = Editor::new(&inputs[0].1);
    let records = editor.content(".nv.compat").start;
    assert_eq!(editor.get(records, (5, 1)), u64::from(ISA_CLASS));
    // The record before it again, in its place.
    let first = editor.get(records, (0, 4));
    editor.inside(".nv.compat", (4, 4), first);
    inputs[0].1 = editor.bytes;
    for (release, last) in [
        ("13.0", [ISA_CLASS, FINALIZER]),
        ("13.1", [ISA_CLASS, FINALIZER]),
        ("13.2", [FINALIZER, ISA_CLASS]),
    ] {
        let words = ["-arch=sm_100".to_owned(), format!("--dialect={release}")];
        let options = link_options(&words).expect("options");
        let image = link(&options, &inputs, 1).expect("threads").image.expect("an output");
        let cubin = Cubin::parse(&image).expect("a cubin");
        let section = cubin.section_by_name(b".nv.compat").expect("the section");
        let records = culd_cubin::attr::Records::new(section.name, section.data);
        let codes: Vec<u8> = records.map(|record| record.expect("a record").code).collect();
        assert_eq!(codes[codes.len() - 2..], last, "{release}: {codes:x?}");
    }
}

/// The request for a load through the cache is an attribute of functions, not of files (sm_80 to
/// sm_100, `-r` too).
#[test]
fn a_request_for_the_cache_in_the_list_of_a_file_is_ignored() {
    const MAX_STACK_SIZE: u64 = 0x23;
    const LOAD_CACHE_REQUEST: u8 = 0x26;
    let mut inputs = inputs_of("calls/chain-80");
    let mut editor = Editor::new(&inputs[0].1);
    let records = editor.content(".nv.info");
    let starts = (0..records.len()).step_by(12);
    let at =
        starts.map(|at| at + 1).find(|&at| editor.get(records.start, (at, 1)) == MAX_STACK_SIZE);
    editor.inside(".nv.info", (at.expect("such a record"), 1), LOAD_CACHE_REQUEST.into());
    inputs[0].1 = editor.bytes;
    let image = image("sm_80", &inputs);
    let cubin = Cubin::parse(&image).expect("a cubin");
    let section = cubin.section_by_name(b".nv.info").expect("the section");
    let records = culd_cubin::attr::Records::new(section.name, section.data);
    let codes: Vec<u8> = records.map(|record| record.expect("a record").code).collect();
    assert!(!codes.is_empty() && !codes.contains(&LOAD_CACHE_REQUEST), "{codes:x?}");
}

/// A cubin for 32 bits (`ptxas -m32` of CUDA 11.8) is one for another `-m`, by 11.8 to 13.5 and
/// before its architecture counts. A class alone that is wrong is damage.
#[test]
fn a_cubin_for_32_bits_is_for_another_machine() {
    let options = link_options(&["-arch=sm_80".to_owned()]).expect("options");
    let mut inputs = inputs_of("calls/chain-80");
    inputs.truncate(1);
    inputs[0].0 = "a.cubin".to_owned();
    let mut lines_of = |place: usize, bytes: &[u8]| {
        inputs[0].1[place..place + bytes.len()].copy_from_slice(bytes);
        culd_tests::lines(&link(&options, &inputs, 1).expect("threads")).concat()
    };
    let damaged = lines_of(4, &[1]);
    assert!(damaged.contains("Malformed input file 'a.cubin'"), "{damaged}");
    let lines = lines_of(40, &[52, 0]);
    assert!(lines.contains("Input file 'a.cubin' size does not match target '-m64'"), "{lines}");
}
