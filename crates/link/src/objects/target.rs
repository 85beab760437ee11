//! Phase 1: may an object go into the target, and is its release known?
//!
//! In: an object and the options. Out: nothing, or the message that ends the link.

use culd_cubin::arch::Flavour;
use culd_cubin::compat;

use super::Object;
use crate::LinkOptions;
use crate::diag::{Diagnostics, Failed, Message, Note};

impl Object<'_> {
    /// True for an object of an `a` variant, as far as it tells.
    fn is_accelerated(&self) -> bool {
        let records = self.records.compat.as_deref().unwrap_or_default();
        let record = records.iter().find(|record| record.code == compat::code::ACCELERATED);
        record.is_some_and(|record| record.value == 1)
    }

    /// False where nvlink would make the code anew for SM number `target`: for another one of the family that it
    /// does not suit as it is.
    fn suits(&self, target: u32) -> bool {
        let needed = match (self.cubin.header.sm(), target) {
            (100, 103) => compat::SUITS_103,
            (120, 121) => compat::SUITS_121,
            _ => return true,
        };
        !self.has_code() || self.fast_targets().is_some_and(|word| word & needed == needed)
    }
}

/// May this object go into the target, and do we know its dialect?
pub(super) fn check_target(
    name: &str,
    object: &Object<'_>,
    options: &LinkOptions,
    diags: &mut Diagnostics,
) -> Result<(), Failed> {
    let own = options.dialect.toolkit;
    let made_by = object.cuinfo.toolkit;
    let sm = object.cubin.header.sm();
    if !options.target.takes(sm) || (sm != options.target.sm && object.is_accelerated()) {
        let (file, target) = (name.to_owned(), options.target.name.to_owned());
        // Nothing can be finalized of what has no Mercury code.
        if options.target.flavour != Flavour::of_sm(sm)
            && options.target.flavour == Flavour::Mercury
        {
            diags.warning(Message::ForOneArch { file: file.clone(), sm: options.target.sm });
        }
        let note = Note::MadeFor { file: file.clone(), sm: object.cubin.header.sm() };
        let message = Message::ArchMismatch { file, target };
        return Err(diags.explained_fatal(message, vec![note]));
    }
    if !object.suits(options.target.sm) {
        let target = options.target.name;
        let reason =
            format!("its code for sm_{sm} has to be made anew for '{target}'; compile it for that");
        return Err(diags.fatal(Message::Unsupported { file: name.to_owned(), reason }));
    }
    // nvlink 13.0 refuses these; the format has not changed in a way that needs it.
    if made_by > own {
        diags.warning(Message::NewerToolkit {
            file: name.to_owned(),
            major: made_by / 10,
            minor: made_by % 10,
            own_major: own / 10,
            own_minor: own % 10,
        });
    }
    Ok(())
}
