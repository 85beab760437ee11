//! Relocation records of every type, symbol and place.
//!
//! In: a sample of the batches of [`series`]. Out: failing cells by name. Guaranteed: each record is linked or refused with
//! a message, and none takes its neighbours along.

use anyhow::Result;
use culd_link::{Input, LinkOptions, Session};
use culd_testkit::probe::batch::{Answer, Guesses, Linker};
use culd_testkit::probe::fate::Fate;
use culd_testkit::probe::{object, series};
use culd_tests::{lines, link_options};

/// Of how many batches one is tried.
const SAMPLE: usize = 20;

/// The library under test, for one architecture.
struct Library {
    options: LinkOptions,
    front: Vec<u8>,
}

impl Library {
    fn new(sm: u32) -> Result<Self> {
        let options = link_options(&[format!("-arch=sm_{sm}")])?;
        Ok(Self { options, front: object::front(sm)? })
    }
}

impl Linker for Library {
    fn link(&self, sm: u32, object: &[u8]) -> Result<Answer> {
        let front = format!("front-{sm}.cubin");
        let inputs = [
            Input { name: &front, bytes: &self.front, system: false },
            Input { name: "probe.cubin", bytes: object, system: false },
        ];
        let outcome = culd_link::link(&Session::serial(), &inputs, &self.options);
        let messages = lines(&outcome).join("\n");
        Ok(match outcome.image {
            Some(image) => Answer::Linked(image),
            None => Answer::Refused(Answer::message(&messages)),
        })
    }
}

#[test]
fn every_cell_is_linked_or_refused() -> Result<()> {
    for sm in series::RECORDED {
        let library = Library::new(sm)?;
        let mut guesses = Guesses::new();
        let (mut linked, mut refused) = (0, 0);
        for batch in series::batches(sm).iter().step_by(SAMPLE) {
            let fates = batch.fates(&library, &mut guesses)?;
            assert_eq!(fates.len(), batch.kinds.len(), "sm_{sm} {batch}");
            for (kind, fate) in fates {
                match fate {
                    Fate::Gone | Fate::Linked(_) => linked += 1,
                    Fate::Refused(message) if !message.is_empty() => refused += 1,
                    other => panic!("sm_{sm} {batch}, type {kind}: {other}"),
                }
            }
        }
        assert!(linked > refused && refused > 0, "sm_{sm}: {linked} linked, {refused} refused");
    }
    Ok(())
}
