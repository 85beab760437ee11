//! The fates of all records with nvlink, as text.
//!
//! In: fates, or the text. Out: the other. Guaranteed: the text has all that a comparison needs, so
//! that none needs nvlink. Equal batches stand together. Of nvlink's output it has only names,
//! numbers and messages about our own objects, and a digest.
//!
//! ```text
//! text const +0x10 = 8d3fd3e15a7d1f64
//! data const +0x10 = 1f64a7e15d3f8dd3
//!   0,28,68-69,72-73: dropped
//!   3-4,6-9: kept [const+0x10]
//! ! 31-35: crash: signal 11
//! ```

use super::batch::{Batch, Fates, ProbeSpot};
use super::fate::RecordFate;
use super::kinds;
use super::object::AddendForm;
use super::places::ProbePlace;
use super::symbols::SymbolKind;
use crate::reference::compare;
use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The answers to one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// The question.
    pub batch: Batch,
    /// Fates as text, by type.
    pub fates: BTreeMap<u32, String>,
    /// Types with another fate in culd, or whose outputs differ elsewhere.
    pub unequal: BTreeSet<u32>,
    /// The digest of the outputs with all other types that link, see [`Answers::groups`].
    pub digest: u64,
}

impl Answers {
    /// The types whose outputs are compared, in groups that share a link.
    pub fn groups(&self) -> Vec<Vec<u32>> {
        let linked = |(_, fate): &(&u32, &String)| RecordFate::is_text_of_linked(fate);
        let linked = self.fates.iter().filter(linked).map(|(kind, _)| *kind);
        let equal: Vec<u32> = linked.filter(|kind| !self.unequal.contains(kind)).collect();
        self.batch.groups(&equal)
    }
}

/// Fates as they are recorded.
pub fn texts(fates: &Fates) -> BTreeMap<u32, String> {
    fates.iter().map(|(&kind, fate)| (kind, fate.to_string())).collect()
}

/// Computes the digest of outputs without the linkers' own notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Adds an output.
    pub fn add(&mut self, output: &[u8]) {
        for byte in compare::without_own_note(output) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// The sum; FNV-1a.
    pub fn sum(self) -> u64 {
        self.0
    }
}

/// The text of all answers of an architecture.
pub fn write(all: &[Answers]) -> String {
    let mut text = String::from(HEAD);
    let mut bodies: Vec<(String, Vec<String>)> = Vec::new();
    for answers in all {
        let body = body(answers);
        let head = format!("{} = {:016x}", answers.batch, answers.digest);
        match bodies.iter_mut().find(|(other, _)| *other == body) {
            Some((_, heads)) => heads.push(head),
            None => bodies.push((body, vec![head])),
        }
    }
    for (body, heads) in bodies {
        heads.iter().for_each(|head| {
            let _ = writeln!(text, "{head}");
        });
        text.push_str(&body);
    }
    text
}

const HEAD: &str = "\
# What nvlink 13.0.88 did with relocation records (crates/testkit/src/probe). Written by `cargo xtask probe --record`.
# Place, symbol, addend and spot = digest of the outputs; then types and their fate, with ! if culd does something else, there or elsewhere.
";

fn body(answers: &Answers) -> String {
    let mut by_fate: BTreeMap<(&str, bool), Vec<u32>> = BTreeMap::new();
    for (&kind, fate) in &answers.fates {
        by_fate.entry((fate, answers.unequal.contains(&kind))).or_default().push(kind);
    }
    let line = |((fate, unequal), list): ((&str, bool), Vec<u32>)| {
        format!("{} {}: {fate}\n", if unequal { '!' } else { ' ' }, kinds::text(&list))
    };
    by_fate.into_iter().map(line).collect()
}

/// The answers in a text, by batch.
///
/// # Errors
/// When it is no such text.
pub fn parse(sm: u32, text: &str) -> Result<Vec<Answers>> {
    let mut all: Vec<Answers> = Vec::new();
    // The batches of the lines of fates that follow.
    let mut open = 0;
    for (line, number) in text.lines().zip(1..) {
        let context = || format!("line {number}");
        if line.starts_with('#') {
            continue;
        }
        let unequal = line.strip_prefix("! ");
        if let Some(fate) = line.strip_prefix("  ").or(unequal) {
            let (list, fate) = fate.split_once(": ").with_context(context)?;
            let list = kinds::parse(list).with_context(context)?;
            for answers in &mut all[open..] {
                answers.fates.extend(list.iter().map(|&kind| (kind, fate.to_owned())));
                answers.unequal.extend(unequal.iter().flat_map(|_| &list));
            }
            continue;
        }
        if all.last().is_some_and(|last| !last.fates.is_empty()) {
            open = all.len();
        }
        all.push(head(sm, line).with_context(context)?);
    }
    for answers in &mut all {
        answers.batch.kinds = answers.fates.keys().copied().collect();
    }
    Ok(all)
}

fn head(sm: u32, line: &str) -> Result<Answers> {
    let (batch, digest) = line.split_once(" = ").context("no digest")?;
    let digest = u64::from_str_radix(digest, 16).context("the digest")?;
    let words: Vec<&str> = batch.split(' ').collect();
    let [place, symbol, addend, ref spot @ ..] = words[..] else { bail!("too short") };
    let place = ProbePlace::named(place).context("the place")?;
    let symbol = SymbolKind::named(symbol).context("the symbol")?;
    let (form, addend) = match addend {
        "rel" => (AddendForm::Rel, 0),
        _ => (AddendForm::Rela, signed(addend).context("the addend")?),
    };
    let spot = match spot {
        [] => ProbeSpot::Slot(0),
        ["twice"] => ProbeSpot::Twice,
        [word] => match (word.strip_prefix("at+"), word.strip_prefix("end")) {
            (Some(at), _) => ProbeSpot::Slot(at.parse()?),
            (_, Some(at)) => ProbeSpot::End(at.parse()?),
            _ => bail!("'{word}' is no spot"),
        },
        _ => bail!("too long"),
    };
    let batch = Batch { sm, place, symbol, form, addend, spot, kinds: Vec::new() };
    ensure!(line.starts_with(&format!("{batch} =")), "another form than '{batch}'");
    Ok(Answers { batch, fates: BTreeMap::new(), unequal: BTreeSet::new(), digest })
}

fn signed(word: &str) -> Option<i64> {
    let digits = word.get(1..)?.strip_prefix("0x")?;
    let value = u64::from_str_radix(digits, 16).ok()?;
    match word.get(..1)? {
        "-" => 0i64.checked_sub_unsigned(value),
        _ => i64::try_from(value).ok(),
    }
}
