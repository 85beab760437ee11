//! Rules about the source tree that no compiler checks.
//!
//! In: the source tree. Out: one line per violation. Guaranteed: only files of the project are
//! read, not those in `target` and hidden folders.

mod citations;
pub mod imports;

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The rows, in order, of the table under each heading of docs/DIFFERENCES.md.
const QUESTIONS: [&str; 5] = ["nvlink", "culd", "why", "consequence", "checked by"];

/// Longest source file, in lines.
const MAX_LINES: usize = 800;
/// Widest line of running text, in characters.
const MAX_WIDTH: usize = 100;
/// Parts of std that the library and the format must not use: the world outside their arguments.
const WORLD: &[&str] =
    &["std::fs", "std::env", "std::process", "std::net", "println!", "print!(", "static mut"];
/// Starts of paths that exist on one machine.
const MACHINE: &[&str] = &["home", "root", "Users", "work", "tmp", "mnt"];
/// The files that may have unsafe code: one maps inputs, one handles the signals of that, one lets
/// programs wait for a file, one calls the CUDA driver to test programs, one is called from C, one
/// calls its functions to test them, one calls NVIDIA's library, and one copies a process that has
/// loaded it.
const UNSAFE_FILES: &[&str] = &[
    "crates/driver/src/os/files.rs",
    "crates/driver/src/os/guard.rs",
    "crates/driver/src/os/host/lease.rs",
    "crates/gpu/src/driver.rs",
    "crates/jitlink/src/abi.rs",
    "crates/jitlink/tests/calls.rs",
    "crates/lto/src/copy.rs",
    "crates/lto/src/nvidia.rs",
];

/// Files that read the bytes of inputs, which other processes may change.
const READERS: &[&str] = &[
    "crates/cubin/src/",
    "crates/driver/src/",
    "crates/fatbin/src/",
    "crates/link/src/",
    "crates/text/src/",
];
/// Functions that make text of bytes without a copy.
const BORROWED_TEXT: &[&str] = &["from_utf8_lossy", "str::from_utf8", "utf8_chunks"];
/// The files that may use them: those that copy first, one with words of the command line, and one
/// for systems where no file is mapped.
const TEXT_FILES: &[&str] = &[
    "crates/cubin/src/text.rs",
    "crates/driver/src/options/parse.rs",
    "crates/text/src/lib.rs",
    "crates/text/src/os.rs",
];

/// The ways in which a program prints.
const PRINTS: &[&str] =
    &["println!(", "print!(", "eprint!(", "eprintln!(", "io::stdout()", "io::stderr()"];
/// The shipped files that may print: each escapes foreign text, prints none, or writes an output to
/// an open file.
const PRINTING_FILES: &[&str] = &[
    "crates/culd/src/bin/culd-lto.rs",
    "crates/culd/src/main.rs",
    "crates/driver/src/os/host/unix.rs",
    "crates/driver/src/progress.rs",
    "crates/inspect/src/lib.rs",
];

/// A text file of the project.
#[derive(Debug)]
pub struct SourceFile {
    /// Path from the root of the source tree.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// A rule: its subject, and the function that finds violations.
type TidyRule = (&'static str, fn(&[SourceFile]) -> Vec<String>);

/// All rules.
const RULES: &[TidyRule] = &[
    ("source files are not too long", lengths),
    ("source files start with what comes in and out", heads),
    ("pages and comments wrap at 100 columns", widths),
    ("the linker and the formats do not touch the world", world),
    ("unsafe code has few addresses", unsafe_code),
    ("text of inputs is copied before it is checked", borrowed_text),
    ("what ships prints in few places", prints),
    ("folders import earlier ones only", imports::order),
    ("crates depend on each other as ARCHITECTURE.md says", dependencies),
    ("every dependency has a reason", reasons),
    ("entries of DIFFERENCES.md answer five questions", differences),
    ("no paths of one machine", machine_paths),
    ("recorded cases hold nothing else", stray_cases),
    ("comments name what exists", citations::in_comments),
    ("pages name what exists", citations::in_pages),
];

/// The violations of all rules, one line each.
pub fn violations(files: &[SourceFile]) -> Vec<String> {
    let of_rule = |&(rule, check): &TidyRule| {
        check(files).into_iter().map(move |place| format!("{rule}: {place}"))
    };
    RULES.iter().flat_map(of_rule).collect()
}

/// The files of the source tree.
///
/// # Errors
/// When a folder or file cannot be read.
pub fn files(root: &Path) -> Result<Vec<SourceFile>> {
    let mut paths = Vec::new();
    walk(root, root, &mut paths)?;
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        let bytes = fs::read(root.join(&path)).with_context(|| path.display().to_string())?;
        // Files that are no text are cubins of the quickstart or of inspect's tests.
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(SourceFile { path: path.display().to_string(), text });
        }
    }
    Ok(files)
}

fn walk(root: &Path, dir: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let skipped = name == "target" || (name.starts_with('.') && name != ".ci");
        if path.is_dir() && !skipped {
            walk(root, &path, paths)?;
        } else if path.is_file() && !skipped {
            paths.push(path.strip_prefix(root)?.to_owned());
        }
    }
    Ok(())
}

fn sources(files: &[SourceFile]) -> impl Iterator<Item = &SourceFile> {
    files.iter().filter(|file| file.path.ends_with(".rs"))
}

/// Lines of code with their numbers, without lines that are comments.
fn code(file: &SourceFile) -> impl Iterator<Item = (usize, &str)> {
    let lines = file.text.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

fn lengths(files: &[SourceFile]) -> Vec<String> {
    let lines = |file: &SourceFile| file.text.lines().count();
    let long = sources(files).filter(|file| lines(file) > MAX_LINES);
    long.map(|file| format!("{}: {} lines", file.path, lines(file))).collect()
}

/// Lines of running text that are too wide. Tables, code blocks and a single word (an address)
/// cannot be wrapped.
fn widths(files: &[SourceFile]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let is_page = file.path.ends_with(".md");
        if !is_page && !file.path.ends_with(".rs") {
            continue;
        }
        let mut in_code = false;
        for (index, line) in file.text.lines().enumerate() {
            let text = line.trim_start();
            let text = match text.strip_prefix("//") {
                Some(comment) if !is_page => comment.trim_start_matches(['/', '!']).trim(),
                None if !is_page => {
                    in_code = false;
                    continue;
                }
                _ => text,
            };
            let is_fence = text.starts_with("```");
            in_code ^= is_fence;
            let is_table = text.starts_with('|') || text.matches("    ").count() > 1;
            let wraps = !in_code && !is_fence && !is_table && text.contains(' ');
            if wraps && line.chars().count() > MAX_WIDTH {
                found.push(format!("{}:{}: {text}", file.path, index + 1));
            }
        }
    }
    found
}

fn heads(files: &[SourceFile]) -> Vec<String> {
    let bare = sources(files).filter(|file| !file.text.starts_with("//!"));
    bare.map(|file| format!("{}: starts without //!", file.path)).collect()
}

fn world(files: &[SourceFile]) -> Vec<String> {
    let pure = [
        "crates/link/src/",
        "crates/cubin/src/",
        "crates/fatbin/src/",
        "crates/reloc/src/",
        "crates/abi/src/",
    ];
    let pure = |file: &&SourceFile| pure.iter().any(|dir| file.path.starts_with(dir));
    sources(files).filter(pure).flat_map(|file| lines_with(file, WORLD)).collect()
}

fn borrowed_text(files: &[SourceFile]) -> Vec<String> {
    let reads = |file: &&SourceFile| {
        let copies = TEXT_FILES.contains(&file.path.as_str());
        !copies && READERS.iter().any(|dir| file.path.starts_with(dir))
    };
    sources(files).filter(reads).flat_map(|file| lines_with(file, BORROWED_TEXT)).collect()
}

/// The lines of code, tests aside, with one of these words.
fn lines_with(file: &SourceFile, words: &[&str]) -> Vec<String> {
    let end = file.text.find("#[cfg(test)]").unwrap_or(file.text.len());
    let lines = file.text[..end].lines().count();
    let code = code(file).take_while(|(number, _)| *number <= lines);
    let with = code.filter(|(_, line)| words.iter().any(|word| line.contains(word)));
    with.map(|(number, line)| format!("{}:{number}: {}", file.path, line.trim())).collect()
}

fn unsafe_code(files: &[SourceFile]) -> Vec<String> {
    let mut found = Vec::new();
    for file in sources(files).filter(|file| !UNSAFE_FILES.contains(&file.path.as_str())) {
        let starts = |word: &str| ["{", "fn", "impl", "trait", "extern", "("].contains(&word);
        for (number, line) in code(file) {
            let mut words = line.split_whitespace();
            if words.any(|word| word == "unsafe") && words.next().is_none_or(starts) {
                found.push(format!("{}:{number}: {}", file.path, line.trim()));
            }
        }
    }
    found
}

fn prints(files: &[SourceFile]) -> Vec<String> {
    let for_development = ["crates/testkit/", "crates/gpu/"];
    let ships = |path: &str| {
        path.starts_with("crates/")
            && path.contains("/src/")
            && !for_development.iter().any(|dir| path.starts_with(dir))
            && !PRINTING_FILES.contains(&path)
    };
    let mut found = Vec::new();
    for file in sources(files).filter(|file| ships(&file.path)) {
        let lines = code(file).filter(|(_, line)| PRINTS.iter().any(|word| line.contains(word)));
        found
            .extend(lines.map(|(number, line)| format!("{}:{number}: {}", file.path, line.trim())));
    }
    found
}

/// Compares the table of crates in ARCHITECTURE.md with `[dependencies]` of their manifests.
fn dependencies(files: &[SourceFile]) -> Vec<String> {
    let mut found = Vec::new();
    let page = files.iter().find(|file| file.path == "ARCHITECTURE.md");
    let text = page.map_or("", |page| page.text.as_str());
    for file in files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        let folder = file.path.trim_end_matches("/Cargo.toml");
        let row = text.lines().find(|line| line.starts_with(&format!("| `{folder}` |")));
        let Some(allowed) = row.and_then(|row| row.split('|').nth(3)) else {
            found.push(format!("ARCHITECTURE.md: no row for {folder}"));
            continue;
        };
        let allowed: Vec<&str> = allowed.split(',').map(str::trim).collect();
        for name in own_dependencies(&file.text) {
            if !allowed.contains(&name.as_str()) {
                found.push(format!("{}: depends on {name}", file.path));
            }
        }
    }
    found
}

/// Crates of this project under `[dependencies]`.
fn own_dependencies(manifest: &str) -> Vec<String> {
    let manifest: toml::Table = match toml::from_str(manifest) {
        Ok(manifest) => manifest,
        Err(error) => return vec![format!("(unreadable: {error})")],
    };
    let table = manifest.get("dependencies").and_then(toml::Value::as_table);
    let names = table.into_iter().flat_map(|table| table.keys());
    let own = |name| own_name(name).map(str::to_owned);
    names.map(String::as_str).filter_map(own).collect()
}

/// The name in ARCHITECTURE.md of a crate of this project; `None` for the crates of others.
fn own_name(name: &str) -> Option<&str> {
    if name == "culd" { Some(name) } else { name.strip_prefix("culd-") }
}

fn reasons(files: &[SourceFile]) -> Vec<String> {
    let text = |path: &str| files.iter().find(|file| file.path == path).map(|file| &file.text);
    let (Some(manifest), Some(page)) = (text("Cargo.toml"), text("ARCHITECTURE.md")) else {
        return vec!["no Cargo.toml or no ARCHITECTURE.md".to_owned()];
    };
    let reasons = page.split("## Dependencies").nth(1).unwrap_or_default();
    let listed = |name: &&str| {
        let mut rows = reasons.lines().filter_map(|line| line.split('|').nth(1));
        rows.any(|row| row.split(',').any(|listed| listed.trim() == *name))
    };
    let manifest: toml::Table = toml::from_str(manifest).unwrap_or_default();
    let table = manifest.get("workspace").and_then(|table| table.get("dependencies"));
    let names = table.and_then(toml::Value::as_table).into_iter().flat_map(|table| table.keys());
    let others = names.map(String::as_str).filter(|name| own_name(name).is_none());
    let missing = others.filter(|name| !listed(name));
    missing.map(|name| format!("ARCHITECTURE.md: no reason for {name}")).collect()
}

/// Entries of docs/DIFFERENCES.md whose table lacks an answer.
fn differences(files: &[SourceFile]) -> Vec<String> {
    let page = files.iter().find(|file| file.path == "docs/DIFFERENCES.md");
    let mut found = Vec::new();
    for entry in page.map_or("", |page| &page.text).split("\n### ").skip(1) {
        let rows: Vec<&str> = entry.lines().skip(1).skip_while(|line| line.is_empty()).collect();
        let answers = rows.iter().skip(2).map(|row| row.split('|').map(str::trim));
        let answers: Vec<Vec<&str>> =
            answers.take(QUESTIONS.len()).map(Iterator::collect).collect();
        let complete = answers.len() == QUESTIONS.len()
            && answers.iter().zip(QUESTIONS).all(|(answer, question)| {
                answer.get(1) == Some(&question)
                    && answer.get(2).is_some_and(|text| !text.is_empty())
            });
        if !complete {
            let key = entry.lines().next().unwrap_or_default();
            found.push(format!("docs/DIFFERENCES.md, {key}: no table of {QUESTIONS:?}"));
        }
    }
    found
}

fn machine_paths(files: &[SourceFile]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        for (number, line) in file.text.lines().enumerate() {
            // Not inside a longer path, as in `a/tmp/b`.
            let hit = MACHINE.iter().any(|start| {
                let path = format!("/{start}/");
                line.match_indices(&path).any(|(at, _)| {
                    !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._}-".contains(c))
                })
            });
            if hit {
                found.push(format!("{}:{}: {}", file.path, number + 1, line.trim()));
            }
        }
    }
    found
}

fn stray_cases(files: &[SourceFile]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let Some(path) = file.path.strip_prefix("testdata/cases/") else { continue };
        let Some((dir, name)) = path.rsplit_once('/') else { continue };
        let Ok(case) = crate::fixtures::case::named(dir) else {
            found.push(format!("{}: no case.toml beside it", file.path));
            continue;
        };
        let stem = name.split('.').next().unwrap_or_default();
        let is_input = case.recipe.inputs.iter().any(|input| input == stem);
        if !is_input && name != "case.toml" && name != crate::fixtures::case::EXPECTED {
            found.push(format!("{}: no input of the case", file.path));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(rule: &str, path: &str, text: &str) -> bool {
        let (_, check) = RULES.iter().find(|(name, _)| *name == rule).expect(rule);
        !check(&[SourceFile { path: path.to_owned(), text: text.to_owned() }]).is_empty()
    }

    #[test]
    fn every_rule_can_be_broken() {
        let long = "//!\n".repeat(MAX_LINES + 1);
        assert!(broken("source files are not too long", "a.rs", &long));
        assert!(broken("source files start with what comes in and out", "a.rs", "use x;"));
        let wide = "pages and comments wrap at 100 columns";
        let words = "word ".repeat(MAX_WIDTH / 5) + "word";
        assert!(broken(wide, "a.md", &words));
        assert!(broken(wide, "a.rs", &format!("//! x\n    /// {words}")));
        assert!(!broken(wide, "a.rs", &format!("//! x\nlet a = [{words}];")));
        assert!(!broken(wide, "a.md", &format!("```text\n{words}\n```\n| {words} |")));
        let world = "the linker and the formats do not touch the world";
        assert!(broken(world, "crates/link/src/a.rs", "let x = std::env::var(\"X\");"));
        assert!(broken(world, "crates/fatbin/src/a.rs", "std::fs::read(x)"));
        assert!(!broken(world, "crates/link/src/a.rs", "// no std::env here"));
        assert!(!broken(world, "crates/driver/src/a.rs", "std::env::var(\"X\")"));
        let one = "unsafe code has few addresses";
        let block = ["let x = un", "safe { y };"].concat();
        assert!(broken(one, "crates/link/src/a.rs", &block));
        assert!(UNSAFE_FILES.iter().all(|file| !broken(one, file, &block)));
        let copied = "text of inputs is copied before it is checked";
        assert!(broken(copied, "crates/link/src/a.rs", "let x = str::from_utf8(name);"));
        assert!(broken(copied, "crates/driver/src/a.rs", "String::from_utf8_lossy(name)"));
        assert!(!broken(copied, "crates/driver/src/a.rs", "String::from_utf8(name.to_vec())"));
        assert!(!broken(copied, "crates/inspect/src/a.rs", "String::from_utf8_lossy(name)"));
        let prints = "what ships prints in few places";
        assert!(broken(prints, "crates/driver/src/a.rs", "eprintln!(\"{name}\");"));
        assert!(broken(prints, "crates/inspect/src/bin/a.rs", "std::io::stdout().write_all(x)"));
        assert!(!broken(prints, "crates/testkit/src/a.rs", "println!()"));
        let order = "folders import earlier ones only";
        assert!(broken(order, "crates/link/src/capsule/mod.rs", "//! x"));
        let manifest = "[dependencies]\nculd-testkit.workspace = true";
        let crates = "crates depend on each other as ARCHITECTURE.md says";
        assert!(broken(crates, "crates/link/Cargo.toml", manifest));
        assert_eq!(own_dependencies(manifest), ["testkit"]);
        let entries = "entries of DIFFERENCES.md answer five questions";
        let answer = |question| format!("| {question} | x |\n");
        let table = QUESTIONS.map(answer).concat();
        let entry = format!("# Page\n\n### key\n\n| | |\n|---|---|\n{table}\nMore.\n");
        assert!(!broken(entries, "docs/DIFFERENCES.md", &entry));
        assert!(broken(entries, "docs/DIFFERENCES.md", &entry.replace("| why | x |", "| why | |")));
        assert!(broken(entries, "docs/DIFFERENCES.md", &entry.replace("| why | x |\n", "")));
        let path = ["/", "home/someone"].concat();
        assert!(broken("no paths of one machine", "a.md", &path));
        assert!(!broken("no paths of one machine", "a.md", &format!("a{path}")));
        assert!(broken("recorded cases hold nothing else", "testdata/cases/x/y/a.txt", ""));
        let case = ["// case not/", "there"].concat();
        assert!(broken("comments name what exists", "crates/link/src/a.rs", &case));
        assert!(broken("pages name what exists", "docs/a.md", "*not/there*"));
    }

    #[test]
    fn dependencies_and_reasons_are_compared() {
        let file =
            |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let manifest = "[workspace.dependencies]\nserde = \"1\"\nculd-x.path = \"x\"";
        let page = "| `crates/link` | it | cubin, reloc |\n## Dependencies\n| toml | x |";
        let files = [
            file("Cargo.toml", manifest),
            file("ARCHITECTURE.md", page),
            file("crates/link/Cargo.toml", "[dependencies]\nculd-cubin.workspace = true"),
        ];
        assert_eq!(reasons(&files), ["ARCHITECTURE.md: no reason for serde"]);
        assert!(dependencies(&files).is_empty());
    }
}
