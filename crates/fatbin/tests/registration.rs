//! The host object of a device link: its code is that of its source, it links in every way, and
//! registers what it should.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::path::Path;
use std::process::Command;

use culd_fatbin::host::{HostObject, ModuleIds};
use culd_fatbin::registration::{Machine, Visibility, host_object};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget};

const FATBIN: &[u8] = b"not looked at here";

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("_{number}_m_cu")).collect()
}

fn object(machine: Machine, ids: &[String]) -> Vec<u8> {
    let ids: Vec<&[u8]> = ids.iter().map(String::as_bytes).collect();
    let size = FATBIN.len() as u64;
    let head = host_object(machine, Visibility::Default, size, &ids).unwrap();
    [&head, FATBIN].concat()
}

/// The relocations of a section: place, type, name of symbol or section, addend.
fn relocations(file: &ElfFile64<'_>, section: &str) -> Vec<(u64, u32, String, i64)> {
    let section = file.section_by_name(section).unwrap();
    let mut all: Vec<_> = section
        .relocations()
        .map(|(at, relocation)| {
            let RelocationFlags::Elf { r_type } = relocation.flags() else { panic!() };
            let RelocationTarget::Symbol(symbol) = relocation.target() else { panic!() };
            let symbol = file.symbol_by_index(symbol).unwrap();
            let mut name = symbol.name().unwrap().to_owned();
            let mut addend = relocation.addend();
            // Assemblers name what is local by its section.
            if let (Some(index), false) = (symbol.section_index(), symbol.is_global()) {
                name = file.section_by_index(index).unwrap().name().unwrap().to_owned();
                addend += symbol.address().cast_signed();
            }
            (at, r_type.0, name, addend)
        })
        .collect();
    all.sort();
    all
}

/// True if the program is there; what needs one that is not says so and is skipped.
fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: no {program} on this machine");
    }
    found
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {text}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Assembles the source of the tables and compares code, relocations and, where `unwinds`, unwind
/// information: other assemblers than the one that made the tables choose other units for it.
fn code_is_that_of_the_source(machine: Machine, source: &str, assembler: &[&str], unwinds: bool) {
    if !is_there(assembler[0]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for count in [1, 3, 70_000] {
        let ids = names(count);
        let modules: String = ids.iter().map(|id| format!(" module {id}\n")).collect();
        let text = format!(
            " .set N, {count}\n .bss\nhandle: .zero 8\ncount: .zero 8\nimages: .zero 8*(N+1)\n\
             callbacks: .zero 8*(N+1)\n .section .nvFatBinSegment,\"aw\"\nwrapper: .zero 24\n \
             .text\n .cfi_startproc\n{source}{modules} .cfi_endproc\n"
        );
        let (from, to) = (folder.path().join("a.s"), folder.path().join("a.o"));
        fs::write(&from, text).unwrap();
        run(Command::new(assembler[0]).args(&assembler[1..]).arg(&from).arg("-o").arg(&to));
        let (expected, found) = (fs::read(&to).unwrap(), object(machine, &ids));
        let expected = ElfFile64::<object::Endianness>::parse(&*expected).unwrap();
        let found = ElfFile64::<object::Endianness>::parse(&*found).unwrap();
        let sections: &[&str] = if unwinds { &[".text", ".eh_frame"] } else { &[".text"] };
        for section in sections {
            let data = |file: &ElfFile64<'_>| {
                file.section_by_name(section).unwrap().data().unwrap().to_vec()
            };
            assert!(data(&expected) == data(&found), "{machine:?}: {section} of {count} modules");
            assert!(
                relocations(&expected, section) == relocations(&found, section),
                "{machine:?}: relocations of {section} of {count} modules"
            );
        }
    }
}

#[test]
fn code_for_x86_64_is_that_of_its_source() {
    let source = include_str!("../src/registration/x86_64.s");
    code_is_that_of_the_source(Machine::X86_64, source, &["gcc", "-c"], true);
}

#[test]
fn code_for_aarch64_is_that_of_its_source() {
    let source = include_str!("../src/registration/aarch64.s");
    let assembler = ["aarch64-linux-gnu-as", "-march=armv8.5-a"];
    code_is_that_of_the_source(Machine::AArch64, source, &assembler, false);
}

#[test]
fn the_object_says_which_modules_are_linked() {
    for machine in [Machine::X86_64, Machine::AArch64] {
        for count in [0, 1, 50] {
            let ids = names(count);
            let file = object(machine, &ids);
            let host = HostObject::parse(&file).unwrap().unwrap();
            assert!(host.has_segment && host.fatbins.is_empty());
            assert_eq!(host.whole_programs[0].data, FATBIN);
            let expected: Vec<&[u8]> = ids.iter().map(String::as_bytes).collect();
            match host.module_ids {
                Some(ModuleIds::Linked(found)) => assert_eq!(found.unwrap(), expected),
                // No module, no list.
                None => assert_eq!(count, 0),
                Some(ModuleIds::Here(found)) => panic!("{found:?} of {count}"),
            }
        }
    }
}

#[test]
fn ids_that_no_compiler_takes_are_refused() {
    let refused = |ids: &[&[u8]]| {
        let object = host_object(Machine::X86_64, Visibility::Default, 0, ids);
        object.unwrap_err().to_string()
    };
    assert_eq!(refused(&[b"a", b"b", b"a"]), "offset 0x2: module 'a': is there twice");
    assert_eq!(refused(&[b""]), "offset 0x0: module '': a module without an id");
    assert_eq!(
        refused(&[b"a", b"b\0c"]),
        "offset 0x1: module 'b\\x00c': the id of a module has a NUL"
    );
}

/// A runtime that says how it is called, and by what.
const RUNTIME: &str = r#"
#include <stdio.h>
struct wrapper { unsigned magic, version; const void *data; const void **list; };
static int handles[4];
void **__cudaRegisterFatBinary(void *w) {
  struct wrapper *wrapper = w;
  printf("register %x %u '%.*s'", wrapper->magic, wrapper->version, 18, (const char *)wrapper->data);
  for (const void **image = wrapper->list; *image; image++) printf(" %s", (const char *)*image);
  printf("\n");
  return (void **)&handles[2];
}
void __cudaRegisterFatBinaryEnd(void **handle) { printf("end %d\n", (int)((int *)handle - handles)); }
void __cudaUnregisterFatBinary(void **handle) {
  printf("unregister %d\n", (int)((int *)handle - handles)); fflush(stdout);
}
void print_handle(const char *name, void **handle) { printf("%s %d\n", name, (int)((int *)handle - handles)); }
"#;

/// The object of a module, as nvcc's host code does it. The stack must be aligned when its callback
/// is called.
fn module(id: &str) -> String {
    format!(
        r#"
struct wrapper {{ unsigned magic, version; const void *data; const void *list; }};
extern void print_handle(const char *, void **);
extern void __cudaRegisterLinkedBinary{id}(void (*)(void **), void *, void *, void (*)(void *));
struct wrapper __fatbinwrap{id} = {{ 0x466243b1, 1, "image{id}", 0 }};
static void callback(void **handle) {{
  if ((unsigned long)__builtin_frame_address(0) % 16) print_handle("stack", handle);
  print_handle("callback{id}", handle);
}}
static void nothing(void *p) {{ (void)p; }}
__attribute__((constructor)) static void begin(void) {{
  __cudaRegisterLinkedBinary{id}(callback, &__fatbinwrap{id}, (void *)"{id}", nothing);
}}
"#
    )
}

fn expected_log(ids: &[String]) -> String {
    let images: String = ids.iter().map(|id| format!(" image{id}")).collect();
    let callbacks: String = ids.iter().map(|id| format!("callback{id} 2\n")).collect();
    let text = String::from_utf8_lossy(FATBIN);
    format!("register 466243b1 2 '{text}'{images}\n{callbacks}end 2\nunregister 2\n")
}

fn compile(folder: &Path, name: &str, text: &str, flags: &[&str]) {
    fs::write(folder.join(format!("{name}.c")), text).unwrap();
    let mut command = Command::new("gcc");
    run(command.current_dir(folder).args(flags).args(["-c", &format!("{name}.c")]));
}

#[test]
fn programs_of_every_kind_register_their_modules() {
    if Machine::by_name(std::env::consts::ARCH) != Some(Machine::X86_64) || !is_there("gcc") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    compile(folder, "runtime", RUNTIME, &["-fPIC"]);
    compile(folder, "main", "int main(void) { return 0; }", &["-fPIE"]);
    for count in [1, 3, 50] {
        let ids = names(count);
        fs::write(folder.join("dlink.o"), object(Machine::X86_64, &ids)).unwrap();
        let mut modules = Vec::new();
        for id in &ids {
            compile(folder, id, &module(id), &["-fPIC"]);
            modules.push(format!("{id}.o"));
        }
        let kinds: &[&[&str]] = &[
            &["-pie"],
            &["-no-pie"],
            &["-static"],
            &["-pie", "-Wl,--gc-sections", "-Wl,-z,now", "-Wl,-z,text", "-Wl,--fatal-warnings"],
            &["-pie", "-Wl,-z,ibt", "-Wl,-z,shstk"],
            &["-pie", "-fuse-ld=gold"],
        ];
        for flags in
            kinds.iter().filter(|flags| !flags.contains(&"-fuse-ld=gold") || is_there("ld.gold"))
        {
            let mut link = Command::new("gcc");
            link.current_dir(folder).args(*flags).args(["main.o", "dlink.o"]).args(&modules);
            run(link.args(["runtime.o", "-o", "prog"]));
            assert_eq!(
                run(&mut Command::new(folder.join("prog"))),
                expected_log(&ids),
                "{flags:?}"
            );
        }
        // The modules are members of an archive, which only the object of the device link refers
        // to.
        let _ = fs::remove_file(folder.join("m.a"));
        run(Command::new("ar").current_dir(folder).args(["rc", "m.a"]).args(&modules));
        let mut link = Command::new("gcc");
        run(link.current_dir(folder).args(["main.o", "dlink.o", "m.a", "runtime.o", "-o", "prog"]));
        let log = run(&mut Command::new(folder.join("prog")));
        let sorted = |text: &str| {
            let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            words.sort();
            words
        };
        assert_eq!(sorted(&log), sorted(&expected_log(&ids)));
        let mut link = Command::new("gcc");
        link.current_dir(folder).args(["-shared", "-Wl,-z,text", "-Wl,-z,defs", "dlink.o"]);
        run(link.args(&modules).args(["runtime.o", "-o", "libm.so"]));
        let mut link = Command::new("gcc");
        link.current_dir(folder).args(["main.o", "-Wl,--no-as-needed", "libm.so", "-Wl,-rpath,."]);
        run(link.args(["-o", "prog"]));
        let log = run(Command::new("./prog").current_dir(folder));
        assert_eq!(log, expected_log(&ids), "shared");
    }
}
