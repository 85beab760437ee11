//! The text form holds every byte: what culd-dump prints assembles to the same file.

use culd_inspect::diff::{self, DiffOptions};
use culd_inspect::text;
use culd_inspect::view::View;
use culd_testkit::fixtures::asm;

#[allow(dead_code, reason = "other tests use the rest")]
mod common;

fn dump(view: &View<'_>) -> String {
    text::dump(view, &text::DumpOptions::default())
}

#[test]
fn recorded_cubins_come_back_byte_for_byte() {
    let cubins = common::cubins();
    assert!(cubins.len() >= 11, "only {} recorded cubins found", cubins.len());
    for (path, bytes) in cubins {
        let view =
            View::parse(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let again = asm::assemble(&dump(&view));
        let again = again.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(again == bytes, "{}: other bytes", path.display());
    }
}

/// The text itself is a promise too: people review it.
#[test]
fn the_text_form_is_the_recorded_one() {
    let bytes = common::data("linked.90.cubin");
    let expected = String::from_utf8(common::data("linked.90.txt")).unwrap();
    let text = dump(&View::parse(&bytes).unwrap());
    for (line, (expected, found)) in (1..).zip(expected.lines().zip(text.lines())) {
        assert_eq!(found, expected, "line {line}");
    }
    assert_eq!(text.len(), expected.len());
}

/// Files with a few wrong bytes are refused or come back too, and differ from the original.
#[test]
fn damaged_cubins_are_refused_or_come_back_byte_for_byte() {
    let (mut accepted, mut refused) = (0, 0);
    for name in ["main.75.cubin", "linked.90.cubin", "linked.100.cubin", "debug.90.cubin"] {
        let original = common::data(name);
        let first = View::parse(&original).unwrap();
        let mut random = Random(name.len() as u64);
        for round in 0..150 {
            let damaged = damage(&original, round, &mut random);
            let Ok(view) = View::parse(&damaged) else {
                refused += 1;
                continue;
            };
            accepted += 1;
            let text = dump(&view);
            let again = asm::assemble(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(again == damaged, "{name}, round {round}: other bytes");
            let difference = diff::compare(&first, &view, DiffOptions { tool: true });
            assert_eq!(difference.is_empty(), damaged == original, "{name}, round {round}");
        }
    }
    assert!(accepted > 100 && refused > 20, "{accepted} accepted, {refused} refused");
}

fn damage(original: &[u8], round: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for _ in 0..=round % 3 {
        // Half of the hits go to the header tables at the end.
        let tail = bytes.len().min(4000);
        let at = match random.below(2) {
            0 => random.below(bytes.len()),
            _ => bytes.len() - 1 - random.below(tail),
        };
        bytes[at] = match random.below(3) {
            0 => random.below(256) as u8,
            1 => bytes[at].wrapping_add(1),
            _ => bytes[at] ^ 1 << random.below(8),
        };
    }
    if round.is_multiple_of(7) {
        bytes.extend((0..random.below(40)).map(|i| i as u8));
    }
    bytes
}

/// A linear congruential generator: the same damage in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }
}
