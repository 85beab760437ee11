//! Tests of the prober without a linker, or with an invented one.

use super::batch::{Batch, BatchAnswer, EndingTypes, ProbeLinker, ProbeSpot};
use super::known::KnownDifferences;
use super::object::{AddendForm, ProbeObject, front, machine_code};
use super::places::{MERCURY_PLACES, PLACES, ProbePlace};
use super::record::{self, Answers};
use super::symbols::{SYMBOLS, SymbolKind};
use super::{judge, series};
use anyhow::Result;
use culd_cubin::Cubin;
use culd_reloc::{MERCURY, RelocDesc};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

fn batch(place: &str, symbol: &str, kinds: Vec<u32>) -> Batch {
    let place = ProbePlace::named(place).expect("a place");
    let symbol = SymbolKind::named(symbol).expect("a symbol");
    Batch {
        sm: 90,
        place,
        symbol,
        form: AddendForm::Rela,
        addend: 0x10,
        spot: ProbeSpot::Slot(0),
        kinds,
    }
}

#[test]
fn every_symbol_in_every_place_makes_an_object() -> Result<()> {
    for sm in [75, 90] {
        assert!(Cubin::parse(&front(sm)?).is_ok());
        for place in PLACES {
            for symbol in SYMBOLS {
                let batch = Batch { sm, symbol, ..batch(place.key, "const", vec![1, 2]) };
                let text = batch.object(&batch.kinds).text();
                assert!(!text.contains('<'), "a mark is left");
                let bytes = batch.object(&batch.kinds).bytes()?;
                if symbol.key.starts_with("index-") {
                    continue;
                }
                let cubin = Cubin::parse(&bytes)?;
                let name = format!(".rela{}", place.section);
                let records =
                    cubin.section_by_name(name.as_bytes()).expect("records").relocations();
                assert_eq!(records.len(), 2, "{batch}");
            }
        }
    }
    Ok(())
}

#[test]
fn frames_of_mercury_programs_hold_slots() -> Result<()> {
    assert!(Cubin::parse(&front(100)?).is_ok());
    for place in MERCURY_PLACES {
        let batch = Batch { sm: 100, ..batch(place.key, "const", vec![1, 2, 4]) };
        let object = batch.object(&batch.kinds);
        let bytes = object.bytes()?;
        let cubin = Cubin::parse(&bytes)?;
        let frames = cubin.section_by_name(place.section.as_bytes()).expect("frames").data;
        let slots = frames.get(place.head as usize..).expect("slots");
        assert_eq!(slots, object.pattern().repeat(4), "{}", place.key);
    }
    Ok(())
}

/// The pairs of types that records of both halves have, except one whose field no output shows.
#[test]
fn types_of_both_halves_have_the_same_fields() {
    const SAMPLERS: u32 = 0x1000c;
    let fields = |row: &RelocDesc| -> Vec<(u8, u8, u8)> {
        row.actions.iter().map(|field| (field.shift, field.width, field.bit)).collect()
    };
    let pairs = MERCURY.iter().filter(|row| row.code.0 != SAMPLERS);
    let pairs = pairs.filter_map(|row| Some((row, culd_reloc::cuda(machine_code(row.code.0)?)?)));
    let pairs: Vec<_> = pairs.collect();
    assert_eq!(pairs.len(), 41);
    for (mercury, cuda) in pairs {
        assert_eq!(fields(mercury), fields(cuda), "{} and {}", mercury.name, cuda.name);
        assert_eq!(mercury.observed, cuda.observed, "{} and {}", mercury.name, cuda.name);
    }
}

#[test]
fn keys_are_unique_and_batches_differ() {
    let keys: BTreeSet<&str> = SYMBOLS.iter().map(|symbol| symbol.key).collect();
    assert_eq!(keys.len(), SYMBOLS.len());
    let keys: BTreeSet<&str> = PLACES.iter().chain(MERCURY_PLACES).map(|place| place.key).collect();
    assert_eq!(keys.len(), PLACES.len() + MERCURY_PLACES.len());
    for sm in series::ARCHS {
        let batches = series::batches(sm);
        let names: BTreeSet<String> = batches.iter().map(Batch::to_string).collect();
        assert_eq!(names.len(), batches.len());
    }
}

/// A linker that ends at some types and otherwise returns its input.
struct Picky {
    ends_at: Vec<u32>,
    links: Cell<usize>,
}

impl Picky {
    fn at(ends_at: &[u32]) -> Self {
        Self { ends_at: ends_at.to_vec(), links: Cell::new(0) }
    }
}

impl ProbeLinker for Picky {
    fn link(&self, _: u32, object: &[u8]) -> Result<BatchAnswer> {
        self.links.set(self.links.get() + 1);
        let cubin = Cubin::parse(object)?;
        let records = cubin.section_by_name(b".rela.text.k").expect("records").relocations();
        let ends = records.iter().any(|record| self.ends_at.contains(&record.kind));
        Ok(if ends {
            BatchAnswer::Refused("no".to_owned())
        } else {
            BatchAnswer::Linked(object.to_vec())
        })
    }
}

#[test]
fn records_that_end_the_link_are_found() -> Result<()> {
    let batch = batch("text", "const", (0..30).collect());
    let linker = Picky::at(&[3, 17]);
    let mut guesses = EndingTypes::new();
    let fates = record::texts(&batch.fates(&linker, &mut guesses)?);
    let refused: Vec<u32> =
        fates.iter().filter(|(_, fate)| *fate == "refused: no").map(|(kind, _)| *kind).collect();
    assert_eq!(refused, [3, 17]);
    assert_eq!(fates[&4], "kept [const+0x10]");
    assert!(linker.links.get() < 30, "{} links", linker.links.get());
    // The next time, they are alone from the start.
    linker.links.set(0);
    batch.fates(&linker, &mut guesses)?;
    assert_eq!(linker.links.get(), 3);
    // Another linker is distinguished from it.
    let unequal = judge::unequal(&batch, &fates, &Picky::at(&[3, 18]), &mut EndingTypes::new())?;
    assert_eq!(unequal.iter().map(|cell| cell.kind).collect::<Vec<_>>(), [17, 18]);
    Ok(())
}

#[test]
fn types_that_keep_functions_alive_have_links_of_their_own() {
    let batch = batch("text", "dead-function", vec![1, 2, 31, 35]);
    assert_eq!(batch.groups(&batch.kinds), [vec![31], vec![35], vec![1, 2]]);
}

fn answers(batch: Batch, fates: &[(u32, &str)], unequal: &[u32]) -> Answers {
    let fates: BTreeMap<u32, String> =
        fates.iter().map(|(kind, fate)| (*kind, (*fate).to_owned())).collect();
    let batch = Batch { kinds: fates.keys().copied().collect(), ..batch };
    Answers { batch, fates, unequal: unequal.iter().copied().collect(), digest: 0x1234 }
}

#[test]
fn what_is_recorded_reads_back() -> Result<()> {
    let fates = [(1, "patched 0x10"), (2, "kept [const-0x4]"), (31, "crash: signal 11")];
    let all = [
        answers(batch("text", "const", Vec::new()), &fates, &[31]),
        answers(Batch { addend: -4, ..batch("data", "null", Vec::new()) }, &fates, &[31]),
        answers(
            Batch { spot: ProbeSpot::End(-8), ..batch("text", "const", Vec::new()) },
            &[(1, "dropped")],
            &[],
        ),
    ];
    let text = record::write(&all);
    assert_eq!(text.matches("crash").count(), 1, "equal bodies stand once");
    assert_eq!(record::parse(90, &text)?, all);
    assert_eq!(all[0].groups(), [vec![1, 2]]);
    for damage in
        [("text const", "text cons"), (" = 0", " = x"), ("  1:", "  x:"), ("end-8", "end")]
    {
        assert!(record::parse(90, &text.replacen(damage.0, damage.1, 1)).is_err(), "{damage:?}");
    }
    Ok(())
}

#[test]
fn the_list_of_differences_covers_what_it_says() -> Result<()> {
    let list = KnownDifferences::parse(
        "[[difference]]
        key = 'crashes'
        reason = 'nvlink crashes'
        nvlink = 'crash'
        culd = 'refused'
        types = '31-35'
        symbols = ['const']",
    )?;
    let (batch, other) = (batch("text", "const", vec![]), batch("text", "null", vec![]));
    assert_eq!(list.find(&batch, 31, "crash: signal 11", "refused: no"), Some(0));
    assert_eq!(list.find(&batch, 36, "crash: signal 11", "refused: no"), None);
    assert_eq!(list.find(&batch, 31, "dropped", "refused: no"), None);
    assert_eq!(list.find(&batch, 31, "crash: signal 11", "dropped"), None);
    assert_eq!(list.find(&other, 31, "crash: signal 11", "refused: no"), None);
    // Differences elsewhere are entries of their own.
    assert_eq!(list.find_elsewhere(&batch, 31, "crash: signal 11", "refused"), None);
    let list = KnownDifferences::parse(
        "[[difference]]
        key = 'frames'
        reason = 'nvlink writes over frames'
        nvlink = 'kept'
        elsewhere = 'differ: .debug_frame'",
    )?;
    let found = |what| list.find_elsewhere(&batch, 2, "kept [const]", what);
    assert_eq!(found("sections that differ: .debug_frame"), Some(0));
    assert_eq!(found("sections that differ: .debug_frame .symtab"), None);
    assert_eq!(list.find_elsewhere(&batch, 2, "dropped", "differ: .debug_frame"), None);
    assert_eq!(list.find(&batch, 2, "kept [const]", "dropped"), None);
    assert!(
        KnownDifferences::parse("[[difference]]\nkey = 'a'\nreason = ''\nnvlink = 'a'\nculd = 'b'")
            .is_err()
    );
    Ok(())
}

#[test]
fn slots_are_at_the_end_of_what_grows() -> Result<()> {
    let batch = Batch { spot: ProbeSpot::End(-4), ..batch("text", "const", vec![2]) };
    let object: ProbeObject = batch.object(&[2]);
    let bytes = object.bytes()?;
    let cubin = Cubin::parse(&bytes)?;
    let text = cubin.section_by_name(b".text.k").expect("code");
    assert_eq!(object.records[0].offset, text.size - 4);
    Ok(())
}
