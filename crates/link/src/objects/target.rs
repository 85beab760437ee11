//! Phase `objects`: may an object go into the target, and is its release known?
//!
//! In: an object and the options. Out: nothing, or the message that ends the link.

use culd_cubin::arch::{Flavour, Variant};
use culd_cubin::compat;

use super::Object;
use crate::diag::{Diagnostics, Failed, Message, Note};
use crate::{Dialect, LinkOptions};

impl Object<'_> {
    /// True for an object of an `a` variant, as far as it tells.
    fn is_accelerated(&self) -> bool {
        let records = self.records.compat.as_deref().unwrap_or_default();
        let record = records.iter().find(|record| record.code == compat::code::ACCELERATED);
        match record {
            Some(record) => record.value == 1,
            None => self.cubin.header.is_accelerated_of_cuda_12(),
        }
    }

    /// False where nvlink would make the code anew for SM number `target`: for another one of the family that it
    /// does not suit as it is.
    fn suits(&self, target: u32) -> bool {
        let needed = match (self.cubin.header.sm(), target) {
            (100, 103) => compat::SUITS_103,
            (120, 121) => compat::SUITS_121,
            // No bit is known to say so, and instructions differ.
            (100 | 103, 107) => return !self.has_code(),
            _ => return true,
        };
        !self.has_code() || self.fast_targets().is_some_and(|word| word & needed == needed)
    }
}

/// May this object go into the target, and do we know its dialect?
pub(super) fn check_target(
    (place, name): (usize, &str),
    object: &Object<'_>,
    options: &LinkOptions,
    diags: &mut Diagnostics,
) -> Result<(), Failed> {
    let own = options.dialect.toolkit;
    let made_by = object.cuinfo.toolkit;
    let sm = object.cubin.header.sm();
    let accelerated = object.is_accelerated();
    // Nothing can be finalized of what has no Mercury code.
    let limits =
        options.target.flavour != Flavour::of_sm(sm) && options.target.flavour == Flavour::Mercury;
    let limited = |diags: &mut Diagnostics| {
        if limits {
            diags.warning(Message::ForOneArch { file: name.to_owned(), sm: options.target.sm });
        }
    };
    // Later releases ask this first (docs/DIALECTS.md, the table).
    if accelerated
        && options.target.variant != Variant::Accelerated
        && !options.dialect.mixes_accelerated
    {
        limited(diags);
        let note = Note::MadeFor { file: name.to_owned(), sm };
        return Err(diags.explained_fatal(Message::AcceleratedMismatch, vec![note]));
    }
    if !options.dialect.takes(options.target, sm) || (sm != options.target.sm && accelerated) {
        let (file, target) = (name.to_owned(), options.target.name.to_owned());
        limited(diags);
        let note = Note::MadeFor { file: file.clone(), sm };
        // Later releases have looked for it by then, but not in the first file (testdata/cli/dialects.toml).
        let reads =
            options.target.flavour == Flavour::Mercury && !options.dialect.mixes_accelerated;
        let message = match object.records.compat {
            None if reads && place > 0 => Message::NoCompat,
            _ => Message::ArchMismatch { file, target },
        };
        return Err(diags.explained_fatal(message, vec![note]));
    }
    if !object.suits(options.target.sm) {
        let target = options.target.name;
        let reason =
            format!("its code for sm_{sm} has to be made anew for '{target}'; compile it for that");
        return Err(diags.fatal(Message::Unsupported { file: name.to_owned(), reason }));
    }
    if made_by > own {
        let file = name.to_owned();
        if !options.dialect.is_newest() {
            let release = Dialect::for_toolkit(made_by);
            let message = Message::NewerToolkit { file, made_by, own };
            return Err(diags.explained_fatal(message, vec![Note::TryDialect { release }]));
        }
        // nvlink refuses these (docs/DIFFERENCES.md, newer-toolkit).
        diags.warning(Message::UnknownToolkit { file, made_by, own: options.dialect });
    }
    Ok(())
}
