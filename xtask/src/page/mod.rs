//! `xtask page`: tests the page of a report in a real browser.
//!
//! In: three links: the quickstart, one of 10,000 functions, one with hostile names. Out: the
//! failed checks, and pictures of each page to look at. Guaranteed: exit code 1 if a check fails;
//! the browser is Debian's, headless, with its own folder.

mod browser;
mod inputs;

use crate::args::Args;
use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use browser::Browser;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

const HELP: &str = "\
usage: cargo xtask page [options]
  --culd PATH   the linker under test (default the one beside this program)
  --keep DIR    where pages and pictures are written (default <target>/page)
Needs Debian's chromium and chromium-driver.";

/// The most bytes of the page of the large link.
const MOST_BYTES: u64 = 3 << 20;

/// A check: the name, the script, and the test of its result.
type Check = (&'static str, &'static str, fn(&Value) -> bool);

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    if args.flag("--help") {
        println!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    let culd: PathBuf = args.option("--culd")?.unwrap_or_else(|| workspace::built("culd"));
    let keep: PathBuf = args.option("--keep")?.unwrap_or_else(|| workspace::target().join("page"));
    args.finish()?;
    fs::create_dir_all(&keep)?;
    let mut failed = 0;
    let quickstart = ["saxpy.cubin", "smooth.cubin"].map(|name| {
        let path = workspace::root().join("testdata/quickstart").join(name);
        Ok((name.to_owned(), fs::read(path)?))
    });
    let links = [
        ("quickstart", quickstart.into_iter().collect::<Result<Vec<_>>>()?, QUICKSTART),
        ("large", inputs::large()?, LARGE),
        ("hostile", inputs::hostile()?, HOSTILE),
    ];
    for (name, files, checks) in links {
        let page = keep.join(format!("{name}.html"));
        link(&culd, &files, &page).with_context(|| name.to_owned())?;
        failed += one(name, &page, checks, &keep).with_context(|| name.to_owned())?;
    }
    println!("pictures are in {}", keep.display());
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Links files and writes the page of the link.
fn link(culd: &Path, files: &[(String, Vec<u8>)], page: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    for (name, bytes) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder.path()))?;
        fs::write(path, bytes)?;
    }
    let begin = Instant::now();
    let mut command = Command::new(culd);
    command.args(["-arch=sm_90", "-o", "out.cubin"]).current_dir(folder.path());
    command.arg(format!("--report={}", page.display()));
    let run = command.args(files.iter().map(|file| &file.0)).output();
    let run = run.with_context(|| culd.display().to_string())?;
    ensure!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let size = fs::metadata(page)?.len();
    println!("{}: {size} bytes, linked in {:?}", page.display(), begin.elapsed());
    ensure!(size <= MOST_BYTES, "the page has more than {MOST_BYTES} bytes");
    Ok(())
}

/// Opens a page and makes the checks; returns the number of failures.
fn one(name: &str, page: &Path, checks: &[Check], keep: &Path) -> Result<usize> {
    let browser = Browser::start()?;
    let begin = Instant::now();
    browser.open(page)?;
    println!("{name}: drawn in {:?}", begin.elapsed());
    let picture = |what: &str| browser.picture(&keep.join(format!("{name}-{what}.png")));
    picture("light")?;
    let mut failed = 0;
    let mut hold = |what: &str, script: &str, holds: fn(&Value) -> bool| -> Result<()> {
        let value = browser.run(script).with_context(|| what.to_owned())?;
        if !holds(&value) {
            println!("{name}: {what}: {value}");
            failed += 1;
        }
        Ok(())
    };
    for (what, script, holds) in EVERY.iter().chain(checks) {
        hold(what, script, *holds)?;
    }
    browser.run("location.hash = '#tab=kernels'")?;
    browser.run("document.activeElement.blur()")?;
    browser.press("/")?;
    hold("a slash leads to the search", "return document.activeElement.id", |id| id == "search")?;
    // Escape.
    browser.press("\u{e00c}")?;
    browser.run("document.getElementById('treemap').focus()")?;
    // Arrows, right and down.
    browser.press("\u{e014}\u{e015}")?;
    let marked = "return document.getElementById('marked').textContent";
    hold("arrows walk the map", marked, |text| {
        text.as_str().is_some_and(|text| text.contains("bytes,"))
    })?;
    picture("walked")?;
    browser.emulate("", "dark")?;
    browser.run("location.hash = '#tab=function&f=0'")?;
    hold(
        "dark by the system",
        "return getComputedStyle(document.body).backgroundColor",
        |color| color == "rgb(13, 17, 23)",
    )?;
    picture("dark")?;
    browser.emulate("print", "light")?;
    let hidden = "return getComputedStyle(document.getElementById('treemap')).display";
    hold("a print has no map", hidden, |display| display == "none")?;
    browser.run("location.hash = '#tab=functions'")?;
    let broken = "return [...document.querySelectorAll('#view td.n')].filter(c => getComputedStyle(c).whiteSpace !== 'nowrap').length";
    hold("a print breaks no numbers", broken, |count| *count == 0)?;
    browser.emulate("", "light")?;
    let console = browser.console()?;
    let requests = browser.requests(page)?;
    for (what, list) in [("the console says", console), ("the page asks for", requests)] {
        if !list.is_empty() {
            println!("{name}: {what} {list:?}");
            failed += 1;
        }
    }
    let count = EVERY.len() + checks.len() + 7;
    println!("{name}: {} of {count} checks hold", count - failed);
    if failed > count {
        bail!("more failures than checks");
    }
    Ok(failed)
}

fn is_true(value: &Value) -> bool {
    *value == Value::Bool(true)
}

fn is_soon(value: &Value) -> bool {
    value.as_f64().is_some_and(|ms| ms < 2000.0)
}

/// Checks of every page.
const EVERY: &[Check] = &[
    (
        "nothing is wider than the window",
        "return document.documentElement.scrollWidth <= innerWidth",
        is_true,
    ),
    (
        "what is copied has no formulas",
        "let text = ''; navigator.clipboard.writeText = (t) => { text = t; return Promise.resolve(); }; [...document.querySelectorAll('#view .tools button')].find(b => b.textContent === 'Copy as CSV').click(); return text.length > 0 && !/(^|,|\\n)\"[=+@-]/.test(text)",
        is_true,
    ),
    (
        "controls have names",
        "return [...document.querySelectorAll('button, input, select, [tabindex=\"0\"]')].filter(c => !(c.textContent.trim() || c.getAttribute('aria-label') || c.title || (c.labels && c.labels.length))).map(c => c.outerHTML.slice(0, 200))",
        |value| value.as_array().is_some_and(Vec::is_empty),
    ),
    (
        "one tab is selected",
        "return document.querySelectorAll('[role=tab][aria-selected=true]').length",
        |value| *value == 1,
    ),
    (
        "a sort turns the order around",
        "const first = () => document.querySelector('#view tbody tr:not([aria-hidden]) td').textContent; const button = () => document.querySelector('#view th button'); button().click(); const a = first(); button().click(); const b = first(); return document.querySelectorAll('#view th[aria-sort=ascending], #view th[aria-sort=descending]').length === 1 && (a !== b || document.querySelectorAll('#view tbody tr').length < 2)",
        is_true,
    ),
    (
        "nothing on the page obeys a name",
        "return document.title.includes('obeyed') || document.querySelectorAll('img, iframe, object, embed, link[href]').length > 0",
        |value| !is_true(value),
    ),
    (
        "the address keeps the state",
        "document.querySelector('#tab-functions, #tab-inputs').click(); return location.hash.includes('tab=')",
        is_true,
    ),
];

const QUICKSTART: &[Check] = &[
    (
        "the kernel's page has its figures",
        "location.hash = '#tab=function&f=0'; await new Promise(r => setTimeout(r, 100)); const t = document.getElementById('view').textContent; return t.includes('24 of a thread') && t.includes('2,048 bytes of a block, of which the system keeps 1,024') && t.includes('Blocks by warps')",
        is_true,
    ),
    (
        "the call graph is walked to a callee and back",
        "const links = () => document.querySelectorAll('.walk section'); links()[2].querySelector('button').click(); const there = document.getElementById('function-title').textContent; links()[0].querySelector('button').click(); return there.includes('smooth') && document.getElementById('function-title').textContent.includes('saxpy')",
        is_true,
    ),
    (
        "the rules of an older release are named",
        "document.getElementById('tab-link').click(); return document.getElementById('view').textContent",
        |text| text.as_str().is_some_and(|text| text.contains("Older rules")),
    ),
    (
        "what is removed has a reason",
        "document.getElementById('tab-removed').click(); return document.getElementById('view').textContent.includes('no kernel reaches it')",
        is_true,
    ),
];

const LARGE: &[Check] = &[
    (
        "parts too small for a box leave their colour to the group",
        "const d = [...document.querySelectorAll('#treemap .group')]; const pale = d.filter(b => b.style.background.includes('color-mix')); return pale.length > 0 && pale.every(b => b.getBoundingClientRect().width >= 32) && !d.some(b => !b.style.background && !b.nextElementSibling)",
        is_true,
    ),
    (
        "rows are drawn as they come into view",
        "location.hash = '#tab=functions'; await new Promise(r => setTimeout(r, 200)); return document.querySelectorAll('#view tbody tr').length",
        |value| value.as_u64().is_some_and(|rows| rows > 10 && rows < 200),
    ),
    (
        "the end of 10,000 rows is reached",
        "const s = document.querySelector('#view .rows'); s.scrollTop = s.scrollHeight; await new Promise(r => setTimeout(r, 300)); const rows = [...document.querySelectorAll('#view tbody tr[aria-rowindex]')]; return Number(rows[rows.length - 1].getAttribute('aria-rowindex'))",
        |value| *value == inputs::OBJECTS * inputs::FUNCTIONS + 2,
    ),
    (
        "a filter takes less than two seconds",
        "const t = performance.now(); const i = document.querySelector('#view input[type=search]'); i.value = 'f17x3'; i.dispatchEvent(new Event('input')); return performance.now() - t",
        is_soon,
    ),
    (
        "a filter finds what it says",
        "return [...document.querySelectorAll('#view tbody tr[aria-rowindex] td:first-child')].every(c => c.textContent.includes('f17x3')) && document.querySelector('#view [role=status]').textContent.startsWith('11 of ')",
        is_true,
    ),
    (
        "a sort takes less than two seconds",
        "const t = performance.now(); document.querySelectorAll('#view th button')[1].click(); return performance.now() - t",
        is_soon,
    ),
    (
        "a zoom of the map shows less of it",
        "const before = document.getElementById('crumbs').textContent; document.querySelector('#largest button').click(); return before !== document.getElementById('crumbs').textContent && location.hash.includes('at=')",
        is_true,
    ),
    (
        "Escape leaves the zoom",
        "document.getElementById('treemap').focus(); const depth = document.querySelectorAll('#crumbs button').length; document.getElementById('treemap').dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', bubbles: true})); return document.querySelectorAll('#crumbs button').length < depth",
        is_true,
    ),
    (
        "the search finds kernels, functions and files",
        "const box = document.getElementById('search'); box.focus(); const kinds = new Set(); for (const text of ['f3x5', 'f3x6', 'object3']) { box.value = text; box.dispatchEvent(new Event('input')); document.querySelectorAll('#found li .soft').forEach(s => kinds.add(s.textContent.trim())); } return [...kinds].sort().join()",
        |value| *value == "file,function,kernel",
    ),
    (
        "templates are counted over files",
        "document.getElementById('tab-copies').click(); return document.getElementById('view').textContent.includes('defined in 200 files, 1 kept, 102 KB dropped')",
        is_true,
    ),
    (
        "the map is made of fewer than 20,000 boxes",
        "return document.querySelectorAll('#treemap div').length",
        |value| value.as_u64().is_some_and(|boxes| boxes > 100 && boxes < 20_000),
    ),
];

const HOSTILE: &[Check] = &[
    (
        "hostile names are text",
        "location.hash = '#tab=kernels'; await new Promise(r => setTimeout(r, 200)); const t = document.getElementById('view').textContent; return ['</script><script>', '<img src=x', '\\\\u{1b}[31m\\\\u{202e}', 'javascript:'].every(s => t.includes(s)) && !/[\\u001b\\u202e]/.test(document.body.textContent)",
        is_true,
    ),
    (
        "a name of a million letters is cut",
        "return document.getElementById('view').textContent.length",
        |value| value.as_u64().is_some_and(|length| length < 20_000),
    ),
];
