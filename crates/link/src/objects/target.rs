//! Phase `objects`: checks that an object suits the target, and that its release is known.
//!
//! In: an object and the options. Out: nothing, or the message that ends the link.

use culd_cubin::arch::{Flavour, Variant};
use culd_cubin::compat;

use super::object::InputObject;
use crate::diag::note::Note;
use crate::diag::{Diagnostics, Failed, Message};
use crate::options::LinkOptions;
use crate::options::dialect::Dialect;
use crate::options::form::FileForm;

/// The first release with the code for sm_90 that later linkers take, as notes store it.
const CUDA_12: u16 = 120;

impl InputObject<'_> {
    /// True for an object of an `a` variant, if it says so.
    fn is_accelerated(&self) -> bool {
        let records = self.records.compat.as_deref().unwrap_or_default();
        let record = records.iter().find(|record| record.code == compat::code::ACCELERATED);
        match record {
            Some(record) => record.value == 1,
            None => self.cubin.header.is_accelerated_of_cuda_12(),
        }
    }

    /// True if the code runs unchanged on SM number `target`, another member of its family. nvlink
    /// would make other code anew.
    fn suits(&self, target: u32) -> bool {
        let needed = match (self.cubin.header.sm(), target) {
            (100, 103) => compat::SUITS_103,
            (120, 121) => compat::SUITS_121,
            // No known bit says that code suits, and instructions differ.
            (100 | 103, 107) => return !self.has_code(),
            _ => return true,
        };
        !self.has_code() || self.fast_targets().is_some_and(|word| word & needed == needed)
    }
}

/// True for an object without Mercury code in a link for which there is some: nothing can be
/// finalized for another device then.
pub(super) fn limits(object: &InputObject<'_>, options: &LinkOptions) -> bool {
    let flavour = options.target.flavour;
    flavour != Flavour::of_sm(object.cubin.header.sm()) && flavour == Flavour::Mercury
}

/// The line about an object that [`limits`] the output.
pub(super) fn for_one_arch(object: &InputObject<'_>, options: &LinkOptions) -> Message {
    Message::ForOneArch { file: object.name.to_owned(), sm: options.target.sm }
}

/// Checks that an object may go into the target and that its release is known. `place` is its index
/// among the inputs. `compute` is the name of a virtual target, which takes all objects that are
/// not newer than itself; the target of the options is the real one of its number then.
pub(super) fn check_target(
    place: usize,
    object: &InputObject<'_>,
    options: &LinkOptions,
    compute: Option<&str>,
    diags: &mut Diagnostics,
) -> Result<(), Failed> {
    let name = object.name;
    let target_name = compute.unwrap_or(options.target.name);
    let own = options.dialect.toolkit;
    let made_by = object.cuinfo.toolkit;
    let sm = object.cubin.header.sm();
    let accelerated = object.is_accelerated();
    let limited = |diags: &mut Diagnostics| {
        // All such objects suit a virtual target, so the first one has the line.
        if compute.is_none() && limits(object, options) {
            diags.warning(for_one_arch(object, options));
        }
    };
    if options.form() == FileForm::Header && !object.cubin.header.is_of_cuda_12() {
        // CUDA 12 looks for the size of addresses and for the target elsewhere.
        diags.warning(Message::No64BitFlag { file: name.to_owned() });
        let (file, target) = (name.to_owned(), target_name.to_owned());
        let note = Note::TryDialect { release: Dialect::for_toolkit(made_by) };
        return Err(diags.explained_fatal(Message::ArchMismatch { file, target }, vec![note]));
    }
    // Later releases check this first (docs/DIALECTS.md, the table).
    if accelerated
        && options.target.variant != Variant::Accelerated
        && !options.dialect.mixes_accelerated
    {
        limited(diags);
        let note = Note::MadeFor { file: name.to_owned(), sm };
        return Err(diags.explained_fatal(Message::AcceleratedMismatch, vec![note]));
    }
    let family = options.target.variant == Variant::Family && options.dialect.families_take_members;
    let taken = match compute {
        Some(_) => sm <= options.target.sm && (!family || sm / 10 == options.target.sm / 10),
        None => options.dialect.takes(options.target, sm),
    };
    if !taken || (sm != options.target.sm && accelerated) {
        let (file, target) = (name.to_owned(), target_name.to_owned());
        limited(diags);
        let note = Note::MadeFor { file: file.clone(), sm };
        // Later releases have looked for `.nv.compat` by then, but not in the first file
        // (testdata/cli/dialects.toml).
        let reads =
            options.target.flavour == Flavour::Mercury && !options.dialect.mixes_accelerated;
        let message = match object.records.compat {
            None if reads && place > 0 => Message::NoCompat,
            _ => Message::ArchMismatch { file, target },
        };
        return Err(diags.explained_fatal(message, vec![note]));
    }
    if sm == 90 && made_by < CUDA_12 && own >= CUDA_12 {
        return Err(diags.fatal(Message::BeforeCuda12 { file: name.to_owned() }));
    }
    if compute.is_none() && !object.suits(options.target.sm) {
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

/// Checks that the linker's own release has made an object: a whole program (`-ewp`), or any object
/// behind one, that of a system library included (cases whole-program/older-behind and
/// whole-program/older-before).
pub(super) fn check_release(
    object: &InputObject<'_>,
    options: &LinkOptions,
    diags: &mut Diagnostics,
) -> Result<(), Failed> {
    let made_by = object.cuinfo.toolkit;
    if made_by == options.dialect.toolkit {
        return Ok(());
    }
    let note = Note::MadeBy { file: object.name.to_owned(), made_by };
    Err(diags.explained_fatal(Message::ExtensibleOfOtherToolkit, vec![note]))
}
