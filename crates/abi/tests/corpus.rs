//! The declaration reader and the interface check on every PTX file of the corpus: all of them are
//! read whole, and the check finds nothing in programs that link.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use culd_abi::check::{NamedModule, check};
use culd_abi::ptx::Module;

/// What is found in topics that are not about errors: files that are not linked together, and a
/// kernel that a stronger one with other parameters replaces, which the linker lets pass.
const EXPECTED: &[&str] = &[
    "literals/left-behind/strong-four.ptx, line 5: 'f' is defined twice (literals/left-behind/strong-five.ptx, line 5: defined)",
    "literals/left-behind/strong-fourteen.ptx, line 5: 'f' is defined twice (literals/left-behind/strong-five.ptx, line 5: defined)",
    "literals/left-behind/strong-none.ptx, line 5: 'f' is defined twice (literals/left-behind/strong-five.ptx, line 5: defined)",
    "syscalls/definitions-with-literals/a.ptx, line 5: system call 'free' is declared otherwise than the driver defines it: .extern .func free (.param .b64 ptr)",
    "syscalls/definitions-with-literals/d.ptx, line 5: system call 'malloc' is declared otherwise than the driver defines it: .extern .func (.param .b64 ptr) malloc (.param .b64 size)",
    "syscalls/definitions-with-literals/d.ptx, line 6: system call 'free' is declared otherwise than the driver defines it: .extern .func free (.param .b64 ptr)",
    "syscalls/moved-losers/a.ptx, line 5: system call 'free' is declared otherwise than the driver defines it: .extern .func free (.param .b64 ptr)",
    "syscalls/moved-losers/b.ptx, line 6: system call 'malloc' is declared otherwise than the driver defines it: .extern .func (.param .b64 ptr) malloc (.param .b64 size)",
    "syscalls/undefined-kernel-alone/a.ptx, line 5: system call 'malloc' is declared otherwise than the driver defines it: .extern .func (.param .b64 ptr) malloc (.param .b64 size)",
    "syscalls/undefined-kernels/a.ptx, line 5: system call 'vprintf' is declared otherwise than the driver defines it: .extern .func (.param .s32 status) vprintf (.param .b64 format, .param .b64 valist)",
    "syscalls/undefined-kernels/a.ptx, line 6: system call 'malloc' is declared otherwise than the driver defines it: .extern .func (.param .b64 ptr) malloc (.param .b64 size)",
    "syscalls/undefined-kernels/b.ptx, line 5: system call 'free' is declared otherwise than the driver defines it: .extern .func free (.param .b64 ptr)",
    "syscalls/undefined-kernels/b.ptx, line 6: system call 'vprintf' is declared otherwise than the driver defines it: .extern .func (.param .s32 status) vprintf (.param .b64 format, .param .b64 valist)",
    "syscalls/undefined-kernels-selected/a.ptx, line 5: system call 'vprintf' is declared otherwise than the driver defines it: .extern .func (.param .s32 status) vprintf (.param .b64 format, .param .b64 valist)",
    "syscalls/undefined-kernels-selected/a.ptx, line 6: system call 'malloc' is declared otherwise than the driver defines it: .extern .func (.param .b64 ptr) malloc (.param .b64 size)",
    "syscalls/undefined-kernels-selected/b.ptx, line 5: system call 'free' is declared otherwise than the driver defines it: .extern .func free (.param .b64 ptr)",
    "syscalls/undefined-kernels-selected/b.ptx, line 6: system call 'vprintf' is declared otherwise than the driver defines it: .extern .func (.param .s32 status) vprintf (.param .b64 format, .param .b64 valist)",
    "textures/sampler-attributes/b.ptx, line 5: 'p1' is defined twice (textures/sampler-attributes/a.ptx, line 5: defined)",
    "weak/entries-strong-weak/weak.ptx, line 5: 'k' has another number of parameters: 1 (weak/entries-strong-weak/strong.ptx, line 5: 3)",
];

fn collect(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<PathBuf>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "ptx") {
            found.entry(folder.to_owned()).or_default().push(path);
        }
    }
}

fn cases() -> (PathBuf, BTreeMap<PathBuf, Vec<PathBuf>>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/corpus");
    let mut found = BTreeMap::new();
    collect(&root, &mut found);
    (root, found)
}

#[test]
fn every_file_is_read_whole() {
    let (root, cases) = cases();
    let mut files = 0;
    for path in cases.values().flatten() {
        let module = Module::parse(&fs::read_to_string(path).unwrap());
        let path = path.strip_prefix(&root).unwrap();
        assert_eq!(module.unread, [], "{}", path.display());
        assert!(module.version.is_some(), "{}", path.display());
        files += 1;
    }
    assert!(files > 500, "{files}");
}

#[test]
fn programs_that_link_have_no_findings() {
    let (root, cases) = cases();
    let mut wrong = Vec::new();
    for (folder, mut paths) in cases {
        paths.sort();
        let texts: Vec<(String, Module)> = paths
            .iter()
            .map(|path| {
                let name = path.strip_prefix(&root).unwrap().display().to_string();
                (name, Module::parse(&fs::read_to_string(path).unwrap()))
            })
            .collect();
        let named: Vec<NamedModule<'_>> =
            texts.iter().map(|(name, module)| NamedModule { name, module }).collect();
        let topic = folder.strip_prefix(&root).unwrap().display().to_string();
        let found = check(&named);
        if !found.is_empty() && !topic.starts_with("errors") {
            wrong.extend(found.iter().map(|finding| {
                let other = finding.other.as_ref();
                let other = other.map(|(place, says)| format!(" ({place}: {says})"));
                format!("{finding}{}", other.unwrap_or_default())
            }));
        }
    }
    assert_eq!(wrong, EXPECTED, "{}", wrong.join("\n"));
}
