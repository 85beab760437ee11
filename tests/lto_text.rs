//! The text of LTO-IR in links with other code: by names, or out of an object. Both compilers are
//! scripts here; `cargo xtask compare lto` tests with NVIDIA's.
#![allow(clippy::unwrap_used)]

use culd::Arch;
use culd::cubin::Cubin;
use culd::cubin::build::{Builder, Code, Linkage, Relocation};
use culd_fatbin::container::ImageKind;
use culd_fatbin::writer::{ImageTarget, InputImage};
use culd_testkit::fixtures::pack;
use culd_tests::lto_folder::{LtoFolder, said};
use std::fs;

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");

/// A cubin that defines `smooth`, in which the compiler has left `text`, and its lines of source
/// files or not.
fn object_with(text: &[u8], lines: bool) -> Vec<u8> {
    const R_CUDA_64: u32 = 2;
    let mut builder = Builder::new(Arch::by_name("sm_90").unwrap());
    let smooth = builder.function("smooth", Linkage::Global);
    builder.define(smooth, Code::new([0; 128]));
    builder.debug(".nv_debug_ptx_txt.12", text, None);
    builder.debug(".nv_debug_ptx_txt.345", *b".version 7.0\0.target sm_75\0", None);
    let table = builder.debug(".debug_line", [0; 8], None);
    if lines {
        let relocation = Relocation { offset: 0, kind: R_CUDA_64, symbol: Some(smooth), addend: 0 };
        builder.relocation(table, relocation);
    }
    builder.finish().unwrap()
}

/// The code of `smooth` in `cubin`.
fn code_of(cubin: &[u8]) -> Vec<u8> {
    let cubin = Cubin::parse(cubin).unwrap();
    cubin.section_by_name(b".text.smooth").unwrap().data.to_vec()
}

#[test]
fn lto_ir_with_local_functions_is_compiled_out_of_an_object() {
    let world = LtoFolder::new(CULD);
    world.compiler();
    let seen = ".version 9.0\n.target sm_90\n.address_size 64\n.visible .func smooth () { ret; }\n";
    let local = format!("{seen}.func (.param .b32 r) sum (.param .b32 x) {{ ret; }}\n");
    // nvlink's compiler looks at functions that it calls, and not that of names.
    let called = format!("{seen}.visible .entry k () {{ call smooth; ret; }} // call\n");
    let comment = format!("// call smooth\n{seen}.visible .entry k () {{ call other; ret; }}\n");
    for (ptx, kind) in [
        (seen, " ptx --roots "),
        (&comment, " ptx --roots "),
        (&local, " object --"),
        (&called, " object --"),
    ] {
        let ptx = InputImage::new(ImageKind::Ptx, (13, 0), ImageTarget::sm(90), ptx.as_bytes());
        let lto = InputImage::new(ImageKind::LtoIr, (13, 0), ImageTarget::sm(90), [b'L'; 64]);
        fs::write(world.path("a.fatbin"), pack::fatbin(&[lto, ptx]).unwrap()).unwrap();
        world.run("-threads=1 saxpy.cubin a.fatbin -o out");
        let words = world.words();
        assert!(words.lines().next().unwrap().contains(kind), "{words}");
    }
}

#[test]
fn with_local_functions_the_text_by_names_counts_if_that_of_the_object_is_the_same() {
    const SMOOTH: &str = "// made of LL MM\n.visible .shared .align 4 .b8 pool[64];\n\
                          .visible .func smooth\n()\n;\n";
    const OTHER: &str = "// made of LL MM\n.visible .func smooth\n()\n;\n.func other\n()\n;\n";
    const OBJECT: &str = "[ $kind = object ] && cp ../with_text made";
    let world = LtoFolder::new(CULD);
    let ptx = b".visible .shared .align 4 .b8 pool[64];\n\
        .visible .func smooth () { ret; }\n.func local () { ret; }\n";
    let ptx = InputImage::new(ImageKind::Ptx, (13, 0), ImageTarget::sm(90), ptx);
    let lto = InputImage::new(ImageKind::LtoIr, (13, 0), ImageTarget::sm(90), [b'L'; 64]);
    fs::write(world.path("a.fatbin"), pack::fatbin(&[lto, ptx]).unwrap()).unwrap();
    // The compiler gives shared variables that are named another alignment.
    let by_names = SMOOTH.replace(".align 4 ", ".align 16 ");
    fs::write(world.path("by_names"), format!("  {by_names}\0")).unwrap();
    // The same with other code.
    let mut cubin = fs::read(world.path("smooth.cubin")).unwrap();
    let code = code_of(&cubin);
    let place = cubin.windows(code.len()).position(|bytes| bytes == code).unwrap();
    cubin[place] ^= 1;
    fs::write(world.path("other.cubin"), &cubin).unwrap();
    let script = fs::read_to_string(world.path("ptxas")).unwrap();
    let of_other = format!("cp {} elf.o", world.path("other.cubin").display());
    let script = format!("{script}\nif grep -q other ptx; then {of_other}; fi\n");
    fs::write(world.path("ptxas"), script).unwrap();
    let first_byte = |cubin: &[u8]| code_of(cubin)[0];
    let smooth = fs::read(world.path("smooth.cubin")).unwrap();
    let [smooth, other] = [smooth, cubin].map(|cubin| first_byte(&cubin));
    const BY_NAMES: &str = "[ $kind = ptx ] && cp ../by_names made";
    const FAILS: &str = "[ $kind = KIND ] && : > made && said='refused 5 by lib'";
    let fails = |kind: &str| FAILS.replace("KIND", kind);
    let both = format!("{OBJECT}; {BY_NAMES}");
    for (text, lines, more, threads, expected, requests, runs) in [
        (SMOOTH, false, both.clone(), 2, smooth, 1, 1),
        (OTHER, false, both.clone(), 2, other, 1, 2),
        (OTHER, false, format!("{OBJECT}; {}", fails("ptx")), 2, other, 1, 1),
        // Nothing tells whether the changes to the text by names are right.
        (OTHER, false, format!("{BY_NAMES}; {}", fails("object")), 2, smooth, 2, 2),
        // There are no threads for both.
        (SMOOTH, false, both.clone(), 1, smooth, 1, 1),
        // The lines of source files are in the text by names only.
        (SMOOTH, true, both.clone(), 2, smooth, 1, 1),
        (OTHER, true, both.clone(), 2, smooth, 2, 2),
        (OTHER, true, both, 1, smooth, 2, 1),
    ] {
        fs::write(world.path("with_text"), object_with(text.replace('\n', "\0").as_bytes(), lines))
            .unwrap();
        // Each program has a folder of its own: there are two at a time.
        world.compiler_and(&more);
        fs::rename(world.path("culd-lto"), world.path("compiler")).unwrap();
        let compiler = world.path("compiler").display().to_string();
        world.script("culd-lto", &format!("mkdir of.$$; cd of.$$; exec {compiler} \"$@\""));
        let done = world.run(&format!("-threads={threads} saxpy.cubin a.fatbin -o out"));
        let what = format!("{more} -threads={threads} {lines}: {}", said(&done));
        assert_eq!(done.status.code(), Some(0), "{what}");
        assert!(!said(&done).contains("error"), "{what}");
        assert_eq!(first_byte(&fs::read(world.path("out")).unwrap()), expected, "{what}");
        assert_eq!(world.assembled().lines().count(), runs, "{what}");
        let mut made = 0;
        for entry in fs::read_dir(world.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_string_lossy().starts_with("of.") {
                // That of names has no list.
                let words = fs::read_to_string(path.join("words"));
                made += words.map_or(0, |words| words.lines().count());
                fs::remove_dir_all(path).unwrap();
            }
        }
        assert_eq!(made, requests, "{what}");
    }
}

#[test]
fn numbers_that_the_compilers_do_not_take_are_refused_as_by_nvlink() {
    let world = LtoFolder::new(CULD);
    world.compiler();
    let done = world.run("-maxrregcount=1000 a.ltoir b.ltoir -o out");
    let fatal = "culd fatal   : Invalid argument for option '-maxrregcount'\n";
    assert_eq!((said(&done).as_str(), done.status.code()), (fatal, Some(1)));
    let done = world.run("-maxrregcount=999 a.ltoir b.ltoir -o out");
    assert_eq!((said(&done).as_str(), done.status.code()), ("", Some(0)));
    // Nothing is compiled.
    assert_eq!(
        world.run("-maxrregcount=1000 saxpy.cubin smooth.cubin -o out").status.code(),
        Some(0)
    );
    // Only ptxas says that it takes no such number of threads.
    world.assembled();
    world.run("-split-compile=-1 a.ltoir b.ltoir -o out");
    assert!(!world.words().contains("split-compile"));
    assert!(world.assembled().contains(" -split-compile=-1 "));
}

#[test]
fn a_program_may_be_relocatable_and_is_too_large_without_a_fatal_line() {
    let world = LtoFolder::new(CULD);
    world.compiler();
    let smooth = world.path("smooth.cubin").display().to_string();
    world.script("ptxas", &format!("cp {smooth} elf.o"));
    let done = world.run("-Xptxas=-c a.ltoir b.ltoir -o out");
    assert_eq!((said(&done).as_str(), done.status.code()), ("", Some(0)));
    assert_eq!(fs::read(world.path("out")).unwrap(), fs::read(smooth).unwrap());
    for (line, end) in
        [("error   : too much", "JIT compile failed"), ("fatal   : no", "fatbinary error")]
    {
        world.script("ptxas", &format!("echo 'ptxas {line}' >&2; exit 1"));
        let done = world.run("a.ltoir b.ltoir -o out");
        assert_eq!(said(&done), format!("ptxas {line}\nculd fatal   : elfLink {end}\n"));
    }
}

#[test]
fn errors_of_ptx_are_those_of_the_text_of_an_object() {
    let world = LtoFolder::new(CULD);
    let ptx = b".visible .func smooth () { ret; }\n.func local () { ret; }\n";
    let ptx = InputImage::new(ImageKind::Ptx, (13, 0), ImageTarget::sm(90), ptx);
    let lto = InputImage::new(ImageKind::LtoIr, (13, 0), ImageTarget::sm(90), [b'L'; 64]);
    fs::write(world.path("a.fatbin"), pack::fatbin(&[lto, ptx]).unwrap()).unwrap();
    let of_line = |number: u32| format!("ptxas input, line {number}; error   : no\n");
    let compiler = |number: u32| {
        world.compiler_and(&format!(
            "[ $kind = object ] && : > made && said='refused 4 by lib\n{}'",
            of_line(number)
        ));
        fs::rename(world.path("culd-lto"), world.path("compiler")).unwrap();
        let compiler = world.path("compiler").display().to_string();
        world.script("culd-lto", &format!("mkdir of.$$; cd of.$$; exec {compiler} \"$@\""));
    };
    let works = fs::read_to_string(world.path("ptxas")).unwrap().replace("LL MM", "");
    for threads in [1, 2] {
        // The other text has the same error at another line.
        compiler(9);
        world.script("ptxas", "echo 'ptxas input, line 7; error   : no' >&2; exit 1");
        let words = format!("-threads={threads} saxpy.cubin a.fatbin -o out");
        let done = world.run(&words);
        assert_eq!(done.status.code(), Some(1));
        let end = format!("partial LTO\n{}culd fatal   : elfLink fatbinary error\n", of_line(9));
        assert!(said(&done).ends_with(&end), "{threads}: {}", said(&done));
        // Without optimization alone it would be an error.
        fs::write(world.path("ptxas"), &works).unwrap();
        let done = world.run(&words);
        assert_eq!(done.status.code(), Some(0), "{threads}: {}", said(&done));
    }
}

#[test]
fn ptx_in_an_object_of_lto_ir_is_compiled() {
    const TEXT: &[u8] = b"// made of LL MM\0.visible .func smooth\0()\0;\0.extern .func \
                          culd_other_code\0()\0;\0.visible .func other\0()\0;\0";
    let world = LtoFolder::new(CULD);
    world.compiler_and("[ $kind = object ] && cp with_text made; true");
    // A copy of what ptxas gets.
    let script = fs::read_to_string(world.path("ptxas")).unwrap();
    let copying = format!("cp ptx {}; grep -q", world.path("ptx.seen").display());
    fs::write(world.path("ptxas"), script.replace("grep -q", &copying)).unwrap();
    let requests = |words: &str| -> Vec<&str> {
        let kind = |line: &str| match line.contains(" object --") {
            true => "object",
            false => "ptx",
        };
        words.lines().map(kind).collect()
    };
    let expected = "// made of LL MM\n.visible .func smooth\n()\n;\n.visible .func other\n()\n;\n";
    fs::write(world.path("with_text"), object_with(TEXT, false)).unwrap();
    let done = world.run("saxpy.cubin a.ltoir b.ltoir -o out");
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    let seen = fs::read_to_string(world.path("ptx.seen")).unwrap();
    assert_eq!(seen.trim_end_matches('\0'), expected);
    let words = world.words();
    assert_eq!(requests(&words), ["object"], "{words}");
    assert!(words.contains(" --option -Xptxas=-lineinfo --option -Xptxas=-O0 "), "{words}");

    // A limit of registers may be too low for the object's code, which is not used.
    world.assembled();
    world.run("-maxrregcount=24 saxpy.cubin a.ltoir b.ltoir -o out");
    let words = world.words();
    assert!(words.contains(" --option -maxrregcount=24 "), "{words}");
    assert!(words.contains(" --option -Xptxas=-maxrregcount=255 "), "{words}");
    assert!(world.assembled().contains("--maxrregcount=24"));

    // With lines, for text with comments, and where the cubin shows its text.
    for (lines, more) in
        [(true, ""), (false, "-emit-ptx "), (false, "-g "), (false, "-Xptxas=-lineinfo ")]
    {
        fs::write(world.path("with_text"), object_with(TEXT, lines)).unwrap();
        let done = world.run(&format!("{more}saxpy.cubin a.ltoir b.ltoir -o out"));
        assert_eq!(done.status.code(), Some(0), "{}", said(&done));
        assert_eq!(requests(&world.words()), ["object", "ptx"], "{more}");
        let roots = fs::read_to_string(world.path("roots")).unwrap();
        assert!(roots.contains("@\"smooth\"()") && roots.contains("@\"other\"()"), "{roots}");
    }
}
