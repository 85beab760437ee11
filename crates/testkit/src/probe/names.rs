//! Names that a linker may know: those in the toolkit's headers, and names made of their words.
//!
//! In: folders of headers. Out: names in order, and PTX that uses many of them in one way.
//! Guaranteed: the text of a batch depends only on its names. The caller finds out which of them
//! ptxas accepts.

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Every identifier in the files below `folder`, also in comments, and so every declared name.
///
/// # Errors
/// When a file or folder cannot be read.
pub fn of_headers(folder: &Path) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                names.extend(identifiers(&fs::read(path)?));
            }
        }
    }
    Ok(names)
}

fn identifiers(text: &[u8]) -> impl Iterator<Item = String> {
    let words = text.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    let words = words.filter(|word| word.first().is_some_and(|first| !first.is_ascii_digit()));
    words.map(|word| String::from_utf8_lossy(word).into_owned())
}

/// Prefixes of functions of the runtime and the driver.
const FRONTS: [&str; 7] =
    ["cuda", "cnp", "cudaDevice", "cudaGraph", "cudaFabric", "cudaCGGet", "__cudaCDP2"];

/// Names that no header has, made of names in headers: up to five consecutive words of a CUDA
/// function behind each of `FRONTS`, a getter for a setter, a second version, and every name with a
/// prefix of internal names.
pub fn derived(names: &BTreeSet<String>) -> BTreeSet<String> {
    let mut parts = BTreeSet::new();
    for name in names {
        let stem = name.trim_start_matches('_');
        let Some(stem) = ["cuda", "cnp", "cu"].iter().find_map(|front| stem.strip_prefix(front))
        else {
            continue;
        };
        let words = words(stem);
        for first in 0..words.len() {
            for last in first..words.len().min(first + 5) {
                parts.insert(words[first..=last].concat());
            }
        }
    }
    let mut derived = BTreeSet::new();
    for part in &parts {
        for part in [part.clone(), part.replace("Get", "Set"), part.replace("Set", "Get")] {
            derived.extend(FRONTS.map(|front| format!("{front}{part}")));
            derived.insert(format!("cnp{part}V2"));
        }
    }
    for name in names.iter().filter(|name| name.len() < 60) {
        let marks = ["_", "__", "__cuda_", "__nv_"];
        derived.extend(marks.map(|mark| format!("{mark}{name}")));
    }
    derived.retain(|name| !names.contains(name));
    derived
}

/// `GetLimit2` as `Get`, `Limit2`.
fn words(stem: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = 0;
    let bytes = stem.as_bytes();
    for at in 1..=bytes.len() {
        let begins = at < bytes.len()
            && bytes[at].is_ascii_uppercase()
            && (!bytes[at - 1].is_ascii_uppercase()
                || bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase));
        if begins || at == bytes.len() {
            words.push(&stem[start..at]);
            start = at;
        }
    }
    words
}

/// A use of a name in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameUse {
    /// For options and tables.
    pub name: &'static str,
    /// Declares or defines it; `@` stands for the name, here and below.
    declaration: &'static str,
    /// A statement of a kernel that uses it.
    statement: &'static str,
}

macro_rules! uses {
    ($($name:literal: $declaration:literal, $statement:literal;)*) => {
        /// All uses.
        pub const USES: &[NameUse] =
            &[$(NameUse { name: $name, declaration: $declaration, statement: $statement },)*];
    };
}

uses! {
    "called": ".extern .func @;", "call @;";
    "taken": ".extern .func @;", "mov.u64 %v, @; st.global.u64 [%a], %v;";
    "pointed-to": ".extern .func @; .global .u64 to_@[1] = {@};", "";
    "function": ".visible .func @ { ret; }", "call @;";
    "weak-function": ".weak .func @ { ret; }", "call @;";
    "local-function": ".func @ { ret; }", "call @;";
    "dead-function": ".visible .func @ { ret; }", "";
    "taken-function": ".visible .func @ { ret; }", "mov.u64 %v, @; st.global.u64 [%a], %v;";
    "kernel": ".visible .entry @() { ret; }", "";
    "extern-global": ".extern .global .b32 @;", "mov.u64 %v, @; st.global.u64 [%a], %v;";
    "extern-constant": ".extern .const .b32 @;", "ld.const.b32 %w, [@]; st.global.b32 [%a], %w;";
    "extern-shared": ".extern .shared .b32 @;", "ld.shared.b32 %w, [@]; st.global.b32 [%a], %w;";
    "global": ".visible .global .b32 @ = 1;", "mov.u64 %v, @; st.global.u64 [%a], %v;";
    "zeroed": ".visible .global .b32 @;", "mov.u64 %v, @; st.global.u64 [%a], %v;";
    "common": ".common .global .b32 @;", "mov.u64 %v, @; st.global.u64 [%a], %v;";
    "constant": ".visible .const .b32 @ = 1;", "ld.const.b32 %w, [@]; st.global.b32 [%a], %w;";
    "shared": ".visible .shared .b32 @;", "ld.shared.b32 %w, [@]; st.global.b32 [%a], %w;";
    "texture": ".visible .global .texref @;", "";
}

/// PTX that uses all of `names` in one way, with so many kernels: nvlink treats programs with
/// exactly one in its own way. The first kernel has the statements; without kernels a function has.
pub fn ptx(arch: &str, how: NameUse, names: &[&str], kernels: usize) -> String {
    let mut text = format!(".version 9.0\n.target {arch}\n.address_size 64\n");
    let filled = |template: &str, name: &str| template.replace('@', name);
    for name in names {
        let _ = writeln!(text, "{}", filled(how.declaration, name));
    }
    let user = if kernels == 0 { ".visible .func user" } else { ".visible .entry kernel" };
    let _ = writeln!(
        text,
        "{user}_of_names(.param .u64 out) {{
.reg .b64 %a, %v; .reg .b32 %w; ld.param.u64 %a, [out];"
    );
    if !how.statement.is_empty() {
        for name in names {
            let _ = writeln!(text, "{}", filled(how.statement, name));
        }
    }
    text.push_str("ret;\n}\n");
    for other in 1..kernels {
        let _ = writeln!(text, ".visible .entry other_kernel_{other}() {{ ret; }}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_names() {
        assert_eq!(words("GetLimit2"), ["Get", "Limit2"]);
        assert_eq!(words("CGGetSize"), ["CG", "Get", "Size"]);
        assert_eq!(words("x"), ["x"]);
    }

    #[test]
    fn names_are_found_and_derived() {
        let names: BTreeSet<String> =
            identifiers(b"int cudaDeviceGetLimit(size_t *a, 5u); // __assertfail").collect();
        assert!(names.contains("__assertfail") && !names.contains("5u"));
        let derived = derived(&names);
        assert!(derived.contains("cnpSetLimit") && derived.contains("__cuda_size_t"));
        assert!(!derived.contains("cudaDeviceGetLimit"));
    }
}
