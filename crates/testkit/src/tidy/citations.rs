//! Checks that comments and pages name only cases, pages and headings that exist.
//!
//! In: the files of the source tree. Out: one line for each citation without a target. Citations
//! are, in comments of Rust files, `case topic/name`, `cases a/b, c/*`, and pages of docs, perhaps
//! with a heading behind a comma; in Markdown files, `*topic/name*`, links to files, and paths from
//! the root of the tree.

use super::SourceFile;

/// Folders of cases.
const CASES: [&str; 2] = ["testdata/corpus/", "testdata/cases/"];

/// Folders whose files are named in pages by their paths.
const FOLDERS: [&str; 6] = ["crates/", "docs/", "examples/", "testdata/", "tests/", "xtask/"];

/// Cases and pages that comments name.
pub(crate) fn in_comments(files: &[SourceFile]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        for (number, text) in comments(&file.text) {
            let missing = cases(&text).filter(|case| !exists(files, case));
            let missing = missing.map(|case| format!("no case {case}"));
            let bad: Vec<String> = missing.chain(pages(files, &text)).collect();
            found.extend(bad.into_iter().map(|what| format!("{}:{number}: {what}", file.path)));
        }
    }
    found
}

/// Cases and files that pages name.
pub(crate) fn in_pages(files: &[SourceFile]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        for (number, line) in file.text.lines().enumerate() {
            let missing = emphasised(line).filter(|case| !exists(files, case));
            let missing = missing.map(|case| format!("no case {case}"));
            let links = links(line).filter(|target| !is_file(files, &file.path, target));
            let links = links.map(str::to_owned);
            // Test data may be binary, which is not in `files`.
            let paths = paths(line)
                .filter(|path| !path.starts_with("testdata/") && !is_file(files, "", path));
            let gone = links.chain(paths).map(|target| format!("no file {target}"));
            let place = |what| format!("{}:{}: {what}", file.path, number + 1);
            found.extend(missing.chain(gone).map(place));
        }
    }
    found
}

/// Blocks of comment lines with the number of their first line, as running text.
fn comments(text: &str) -> Vec<(usize, String)> {
    let mut blocks: Vec<(usize, String)> = Vec::new();
    let mut last = 0;
    for (index, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
        let comment = comment.trim_start_matches(['/', '!']).trim();
        match blocks.last_mut().filter(|_| last == index) {
            Some((_, block)) => {
                // A path may be broken behind a slash.
                block.push_str(if block.ends_with('/') { "" } else { " " });
                block.push_str(comment);
            }
            None => blocks.push((index + 1, comment.to_owned())),
        }
        last = index + 1;
    }
    blocks
}

/// The names in `case a/b`, `cases a/b, c/d and e/*`.
fn cases(text: &str) -> impl Iterator<Item = &str> {
    let mut expected = false;
    text.split_whitespace().filter_map(move |word| {
        let name = word.trim_end_matches(|c: char| ".,;:)".contains(c));
        let is_name = name.split_once('/').is_some_and(|(topic, case)| {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-*".contains(c);
            !topic.is_empty() && topic.chars().chain(case.chars()).all(plain)
        });
        let cited = expected && is_name;
        let goes_on = cited && (word.ends_with(',') || name == word) || word == "and" && expected;
        expected = goes_on || matches!(word.trim_start_matches('('), "case" | "cases");
        cited.then_some(name)
    })
}

/// The names in `*topic/name*` and `*topic/*`.
fn emphasised(line: &str) -> impl Iterator<Item = &str> {
    line.split('*').filter(|part| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let named = part.split_once('/');
        named.is_some_and(|(topic, case)| {
            !topic.is_empty() && topic.chars().chain(case.chars()).all(plain)
        })
    })
}

/// True if a folder of cases has the name; `*` matches any name, and so does an empty one.
fn exists(files: &[SourceFile], name: &str) -> bool {
    let (topic, case) = name.split_once('/').unwrap_or((name, ""));
    let fits = |folder: &str| {
        let Some((folder_topic, folder_case)) = folder.split_once('/') else { return false };
        let case = match case.split_once('*') {
            Some((start, end)) => folder_case.starts_with(start) && folder_case.ends_with(end),
            None => case.is_empty() || folder_case == case,
        };
        folder_topic == topic && case
    };
    files.iter().any(|file| {
        let folder = CASES.iter().find_map(|dir| file.path.strip_prefix(dir));
        folder.and_then(|path| path.strip_suffix("/case.toml")).is_some_and(fits)
    })
}

/// The wrong names of pages and headings.
fn pages(files: &[SourceFile], text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("docs/") {
        let rest = &text[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"/._-".contains(c));
        let path = rest[..end.unwrap_or(rest.len())].trim_end_matches(['.', '/']);
        let inside =
            |file: &&SourceFile| file.path == path || file.path.starts_with(&format!("{path}/"));
        let Some(page) = files.iter().find(inside) else {
            found.push(format!("no page {path}"));
            continue;
        };
        let Some(place) = rest[path.len()..].strip_prefix(", ") else { continue };
        if page.path == path && !headings(&page.text).iter().any(|h| begins(place, h)) {
            let start: Vec<&str> = place.split_whitespace().take(3).collect();
            found.push(format!("{path} has no heading {}", start.join(" ")));
        }
    }
    found
}

/// Headings of a page, their numbers, and keys of lists (`* **key**`), in lower case.
fn headings(page: &str) -> Vec<String> {
    let mut all = Vec::new();
    for line in page.lines() {
        if line.starts_with('#') {
            let heading = line.trim_start_matches('#').trim().replace('`', "").to_lowercase();
            let number = heading.split(' ').next().unwrap_or_default().trim_end_matches('.');
            if number.starts_with(|c: char| c.is_ascii_digit()) {
                all.push(number.to_owned());
                all.push(format!("section {number}"));
            }
            all.push(heading);
        }
        let key = line.strip_prefix("* **").and_then(|rest| rest.split_once("**"));
        all.extend(key.map(|(key, _)| key.to_lowercase()));
    }
    all
}

/// True if `place` begins with the heading and not with a longer word.
fn begins(place: &str, heading: &str) -> bool {
    let place = place.to_lowercase();
    let rest = place.strip_prefix(heading).filter(|_| !heading.is_empty());
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-'))
}

/// Targets of links to files.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.match_indices("](").filter_map(|(at, _)| line[at + 2..].split(')').next());
    let files = targets.filter(|target| !target.starts_with("http") && !target.starts_with('#'));
    files.filter_map(|target| target.split('#').next())
}

/// Paths from the root of the tree, without those that have placeholders.
fn paths(line: &str) -> impl Iterator<Item = String> {
    let starts = FOLDERS.iter().flat_map(|folder| line.match_indices(folder));
    let whole = starts.filter(|(at, _)| {
        !line[..*at].ends_with(|c: char| c.is_alphanumeric() || "_/.-<".contains(c))
    });
    whole.filter_map(|(at, _)| {
        let rest = &line[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"/._-".contains(c));
        let (path, behind) = rest.split_at(end.unwrap_or(rest.len()));
        let path = path.trim_end_matches(['.', '/']);
        (!behind.starts_with(['*', '<'])).then(|| path.to_owned())
    })
}

/// True if `target`, as `page` names it, is a file or folder of the project.
fn is_file(files: &[SourceFile], page: &str, target: &str) -> bool {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    files.iter().any(|file| file.path == path || file.path.starts_with(&format!("{path}/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    fn tree() -> Vec<SourceFile> {
        let page = "# Page\n\n## Dead code\n\n### 4.1 Limits\n\n* **a-key**: text\n";
        vec![file("docs/PAGE.md", page), file("testdata/corpus/weak/one-two/case.toml", "")]
    }

    fn comment(text: &str) -> Vec<String> {
        let mut files = tree();
        files.push(file("a.rs", text));
        in_comments(&files)
    }

    #[test]
    fn cases_in_comments_exist() {
        assert!(comment("// Why (case weak/one-two).").is_empty());
        assert!(comment("// Why (cases weak/*, weak/one-*).").is_empty());
        assert!(comment("// In case of either/or. A case (testdata/cases).").is_empty());
        assert_eq!(comment("// (case weak/two)"), ["a.rs:1: no case weak/two"]);
        let broken = "let x;\n    // as in (cases weak/one-two,\n    // strong/*)";
        assert_eq!(comment(broken), ["a.rs:2: no case strong/*"]);
        assert!(comment("let case = \"case weak/two\";").is_empty());
    }

    #[test]
    fn pages_and_headings_in_comments_exist() {
        assert!(
            comment("// docs/PAGE.md, dead code; docs/PAGE.md, 4.1, docs/\n// PAGE.md").is_empty()
        );
        assert!(comment("//! (docs/PAGE.md, section 4.1) and docs/PAGE.md, a-key.").is_empty());
        assert_eq!(comment("// docs/OTHER.md"), ["a.rs:1: no page docs/OTHER.md"]);
        let heading = "a.rs:1: docs/PAGE.md has no heading live code";
        assert_eq!(comment("// docs/PAGE.md, live code"), [heading]);
        assert_eq!(comment("// docs/PAGE.md, 4.10").len(), 1);
    }

    #[test]
    fn what_pages_name_exists() {
        let page = |text: &str| {
            let mut files = tree();
            files.push(file("docs/rules/b.md", text));
            in_pages(&files)
        };
        assert!(
            page("see *weak/one-two*, *weak/*, [it](../PAGE.md#dead) or [web](https://x.y)")
                .is_empty()
        );
        assert!(page("`testdata/corpus/weak`, docs/PAGE.md; a/docs/x, docs/<name>").is_empty());
        assert_eq!(page("see `docs/GONE.md`."), ["docs/rules/b.md:1: no file docs/GONE.md"]);
        assert_eq!(page("*weak/two*"), ["docs/rules/b.md:1: no case weak/two"]);
        assert_eq!(page("[it](PAGE.md)"), ["docs/rules/b.md:1: no file PAGE.md"]);
    }
}
