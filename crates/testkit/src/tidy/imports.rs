//! The imports between the files of a crate: the order of the phases, circles, and figures.
//!
//! In: the source tree. Out: the imports of a crate, the violations of the order of its folders,
//! and a table of figures. Guaranteed: comments and tests inside a file do not count. A path counts
//! as the file that defines its first name, so a re-export counts as the file that has it.

use std::collections::{BTreeMap, BTreeSet};

use super::SourceFile;

/// The linker, and its folders and loose files in the order of a link.
const LINK: &str = "crates/link/src/";
const PHASES: &[&str] = &[
    "base",
    "options",
    "diag",
    "objects",
    "symbols",
    "callgraph",
    "draft",
    "merge",
    "data",
    "attributes",
    "program",
    "relocs",
    "check",
    "layout",
    "write",
    "phases",
    "lib",
];

/// The driver, and its folders and loose files in the order in which they may import each other.
const DRIVER: &str = "crates/driver/src/";
const DRIVER_ORDER: &[&str] = &[
    "os",
    "toolkit",
    "options",
    "nvcc",
    "tools",
    "hints",
    "registration",
    "messages",
    "interfaces",
    "index",
    "host_script",
    "threads",
    "lto_program",
    "input",
    "lto",
    "no_lto",
    "verify",
    "origins",
    "job",
    "device_link",
    "fatbinary",
    "prune",
    "progress",
    "timing",
    "watch",
    "shadow",
    "front",
    "reports",
    "run",
    "program",
    "subcommand",
    "lib",
];

/// The testkit, and its folders in their order.
const TESTKIT: &str = "crates/testkit/src/";
const TESTKIT_ORDER: &[&str] =
    &["fixtures", "random", "reference", "probe", "scale", "tidy", "lib"];

/// The crates whose folders have an order.
const CRATES: [(&str, &[&str]); 3] =
    [(LINK, PHASES), (DRIVER, DRIVER_ORDER), (TESTKIT, TESTKIT_ORDER)];

/// The imports between the files of one crate.
struct Imports {
    /// Paths below `src`, sorted.
    files: Vec<String>,
    /// Pairs of importing and imported file, as places in `files`; no file imports itself.
    pairs: BTreeSet<(usize, usize)>,
}

impl Imports {
    /// The imports of the crate whose sources are below `src`.
    fn of(files: &[SourceFile], src: &str) -> Self {
        let sources: Vec<(&str, &str)> = files
            .iter()
            .filter_map(|file| Some((file.path.strip_prefix(src)?, file.text.as_str())))
            .filter(|(path, _)| path.ends_with(".rs"))
            .collect();
        let paths: Vec<String> = sources.iter().map(|(path, _)| (*path).to_owned()).collect();
        let modules: BTreeMap<Vec<&str>, usize> =
            sources.iter().enumerate().map(|(at, (path, _))| (module(path), at)).collect();
        let mut pairs = BTreeSet::new();
        for (from, (path, text)) in sources.iter().enumerate() {
            for named in names(&code(text), &module(path)) {
                let named: Vec<&str> = named.iter().map(String::as_str).collect();
                let file = (0..=named.len()).rev().find_map(|end| modules.get(&named[..end]));
                pairs.extend(file.filter(|&&to| to != from).map(|&to| (from, to)));
            }
        }
        Imports { files: paths, pairs }
    }

    /// The folder of a file, or the name of a loose file.
    fn room(&self, file: usize) -> &str {
        let path = &self.files[file];
        path.split_once('/').map_or(path.trim_end_matches(".rs"), |(folder, _)| folder)
    }

    /// The imports as pairs of folders.
    fn arrows(&self) -> BTreeSet<(&str, &str)> {
        let rooms = self.pairs.iter().map(|&(from, to)| (self.room(from), self.room(to)));
        rooms.filter(|(from, to)| from != to).collect()
    }

    /// Groups of files that import each other, directly or not; only circles of more than one.
    fn circles(&self) -> Vec<Vec<usize>> {
        let places: Vec<usize> = (0..self.files.len()).collect();
        circles(&places, &self.pairs)
    }
}

/// The circles of `nodes`, larger than one, by the pairs between them.
fn circles<T: Copy + Ord>(nodes: &[T], pairs: &BTreeSet<(T, T)>) -> Vec<Vec<T>> {
    let reached: BTreeMap<T, BTreeSet<T>> =
        nodes.iter().map(|&node| (node, reach(node, pairs))).collect();
    let mut found: Vec<Vec<T>> = Vec::new();
    for &node in nodes {
        let circle: Vec<T> =
            reached[&node].iter().copied().filter(|other| reached[other].contains(&node)).collect();
        if circle.len() > 1 && circle[0] == node {
            found.push(circle);
        }
    }
    found
}

/// Everything that `start` imports, directly or not; itself only if it is in a circle.
fn reach<T: Copy + Ord>(start: T, pairs: &BTreeSet<(T, T)>) -> BTreeSet<T> {
    let (mut seen, mut waiting) = (BTreeSet::new(), vec![start]);
    while let Some(node) = waiting.pop() {
        for &(_, to) in pairs.iter().filter(|pair| pair.0 == node) {
            if seen.insert(to) {
                waiting.push(to);
            }
        }
    }
    seen
}

/// The number of floors: one more than the longest path of imports. Folders of a circle share a
/// floor.
fn floors(arrows: &BTreeSet<(&str, &str)>, rooms: &BTreeSet<&str>) -> usize {
    let mut floor: BTreeMap<&str, usize> = rooms.iter().map(|&room| (room, 1)).collect();
    let list: Vec<&str> = rooms.iter().copied().collect();
    let circles = circles(&list, arrows);
    let together = |a: &str, b: &str| circles.iter().any(|c| c.contains(&a) && c.contains(&b));
    for _ in rooms {
        for &(from, to) in arrows.iter().filter(|(from, to)| !together(from, to)) {
            let above = floor[from].max(floor[to] + 1);
            floor.insert(from, above);
        }
        for circle in &circles {
            let highest = circle.iter().map(|room| floor[room]).max().unwrap_or(1);
            circle.iter().for_each(|room| _ = floor.insert(room, highest));
        }
    }
    floor.values().copied().max().unwrap_or(0)
}

/// The module that a file is.
fn module(path: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    if matches!(parts.last(), Some(&("mod" | "lib" | "main"))) {
        parts.pop();
    }
    parts
}

/// The text without comments and tests.
fn code(text: &str) -> String {
    let end = text.find("#[cfg(test)]").unwrap_or(text.len());
    let lines = text[..end].lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.map(|line| line.split(" // ").next().unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

/// The paths in `code` of `module` that start with `crate`, `self` or `super`, from the crate's
/// root.
fn names(code: &str, module: &[&str]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for root in ["crate", "self", "super"] {
        for (at, _) in code.match_indices(&format!("{root}::")) {
            let is_inside = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            if code[..at].ends_with(is_inside) {
                continue;
            }
            let start: Vec<String> = match root {
                "crate" => Vec::new(),
                _ => module.iter().map(|&part| part.to_owned()).collect(),
            };
            let rest = match root {
                "super" => &code[at..],
                _ => &code[at + root.len() + 2..],
            };
            tree(rest, &start, &mut found);
        }
    }
    found
}

/// Adds the paths of a use tree to `found`, each after `base`; returns the text after the tree.
fn tree<'t>(mut text: &'t str, base: &[String], found: &mut Vec<Vec<String>>) -> &'t str {
    let mut path = base.to_vec();
    loop {
        text = text.trim_start();
        if let Some(list) = text.strip_prefix('{') {
            text = list;
            while !text.is_empty() && !text.starts_with('}') {
                text = tree(text, &path, found).trim_start();
                text = text.strip_prefix(',').unwrap_or(text).trim_start();
            }
            return text.strip_prefix('}').unwrap_or(text);
        }
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        match name {
            "super" => _ = path.pop(),
            "self" | "" => {}
            _ => path.push(name.to_owned()),
        }
        match rest.strip_prefix("::") {
            Some(behind) => text = behind,
            None => {
                found.push(path);
                // A new name, or text that is no path.
                let end = rest.find([',', '}', ';', '\n', ')']).unwrap_or(rest.len());
                return &rest[end..];
            }
        }
    }
}

/// The imports from a later folder of a crate, or from the face of the crate.
pub(crate) fn order(files: &[SourceFile]) -> Vec<String> {
    CRATES.iter().flat_map(|&(src, order)| late_imports(files, src, order)).collect()
}

fn late_imports(files: &[SourceFile], src: &str, order: &[&str]) -> Vec<String> {
    let imports = Imports::of(files, src);
    let rank = |file: usize| order.iter().position(|room| *room == imports.room(file));
    let path = |file: usize| format!("{src}{}", imports.files[file]);
    let unknown = (0..imports.files.len()).filter(|&file| rank(file).is_none());
    let unknown = unknown.map(|file| format!("{}: in no folder of the order", path(file)));
    let late = imports.pairs.iter().filter(|(from, to)| rank(*from) < rank(*to));
    let late = late.map(|&(from, to)| format!("{}: imports {}", path(from), path(to)));
    unknown.chain(late).collect()
}

/// Figures of the crates as a table, with the violations of their order below.
pub fn table(files: &[SourceFile]) -> String {
    let mut out = String::from(
        "| crate | files | rooms | floors | arrows | back up | circles of files | spanning rooms |\n\
         |--|--:|--:|--:|--:|--:|--|--:|\n",
    );
    let mut below = String::new();
    for (src, order) in CRATES {
        let imports = Imports::of(files, src);
        let rooms: BTreeSet<&str> =
            (0..imports.files.len()).map(|file| imports.room(file)).collect();
        let arrows = imports.arrows();
        let rank = |room: &str| order.iter().position(|phase| *phase == room);
        let back: Vec<_> = arrows.iter().filter(|(from, to)| rank(from) < rank(to)).collect();
        let circles = imports.circles();
        let sizes: Vec<String> = circles.iter().map(|circle| circle.len().to_string()).collect();
        let spans = |circle: &&Vec<usize>| {
            circle.iter().any(|&file| imports.room(file) != imports.room(circle[0]))
        };
        let spanning: Vec<_> = circles.iter().filter(spans).collect();
        out += &format!(
            "| {src} | {} | {} | {} | {} | {} | {} | {} |\n",
            imports.files.len(),
            rooms.len(),
            floors(&arrows, &rooms),
            arrows.len(),
            back.len(),
            if sizes.is_empty() { "none".to_owned() } else { sizes.join(", ") },
            spanning.len(),
        );
        for (from, to) in back {
            below += &format!("back up: {from} -> {to}\n");
        }
        for circle in circles {
            let names: Vec<&str> =
                circle.iter().map(|&file| imports.files[file].as_str()).collect();
            below += &format!("circle in {src}: {}\n", names.join(", "));
        }
    }
    out + "\n" + &below
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: format!("{LINK}{path}"), text: text.to_owned() }
    }

    #[test]
    fn use_trees_are_expanded() {
        let code = "use crate::{a::{B, self}, c as d};\nuse super::x::{Y, z};\nlet e = self::f::g(1);\nmycrate::h();";
        let found: Vec<String> =
            names(code, &["m", "n"]).iter().map(|path| path.join("/")).collect();
        assert_eq!(found, ["a/B", "a", "c", "m/n/f/g", "m/x/Y", "m/x/z"]);
    }

    #[test]
    fn an_import_of_a_later_phase_names_both_files() {
        let files = [
            file("lib.rs", "pub use crate::objects::object::Object;"),
            file("objects/mod.rs", "mod object;\nuse super::base::id::Id;"),
            file("objects/object.rs", "use super::Objects;\nuse crate::layout::place::Layout;\n"),
            file(
                "layout/place.rs",
                "// use crate::write::Image;\nuse crate::objects::object::Object;\n",
            ),
            file(
                "base/id.rs",
                "use crate::Session;\n#[cfg(test)]\nmod tests { use crate::write::Image; }",
            ),
            file("write/mod.rs", ""),
        ];
        assert_eq!(
            order(&files),
            [
                "crates/link/src/objects/object.rs: imports crates/link/src/layout/place.rs",
                "crates/link/src/base/id.rs: imports crates/link/src/lib.rs",
            ]
        );
        let stray = [file("capsule/mod.rs", "")];
        assert_eq!(order(&stray), ["crates/link/src/capsule/mod.rs: in no folder of the order"]);
    }

    #[test]
    fn the_table_counts_rooms_floors_and_circles() {
        let files = [
            file("lib.rs", "use crate::b::x::X; use crate::a::A;"),
            file("a/mod.rs", "use crate::b::x::X;"),
            file("b/mod.rs", "use self::x::X;"),
            file("b/x.rs", "use super::B;"),
        ];
        let row = "| crates/link/src/ | 4 | 3 | 3 | 3 | 0 | 2 | 0 |";
        assert!(table(&files).contains(row), "{}", table(&files));
    }
}
