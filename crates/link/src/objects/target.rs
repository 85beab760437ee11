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

/// An object, and the target into which it may go or not.
pub(super) struct TargetCheck<'c, 'd> {
    /// Index of the object among the inputs.
    pub(super) place: usize,
    pub(super) object: &'c InputObject<'d>,
    pub(super) options: &'c LinkOptions,
    /// The name of a virtual target, which takes all objects that are not newer than itself; the
    /// target of the options is the real one of its number then.
    pub(super) compute: Option<&'c str>,
}

impl TargetCheck<'_, '_> {
    /// Checks that the object may go into the target and that its release is known, in the order of
    /// nvlink.
    pub(super) fn run(&self, diags: &mut Diagnostics) -> Result<(), Failed> {
        self.header_form(diags)?;
        self.accelerated(diags)?;
        self.arch(diags)?;
        self.code(diags)?;
        self.toolkit(diags)
    }

    fn file(&self) -> String {
        self.object.name.to_owned()
    }

    /// The message that the object is for another target.
    fn mismatch(&self) -> Message {
        let target = self.compute.unwrap_or(self.options.target.name).to_owned();
        Message::ArchMismatch { file: self.file(), target }
    }

    fn made_for(&self) -> Note {
        Note::MadeFor { file: self.file(), sm: self.object.cubin.header.sm() }
    }

    /// Warns about an object that [`limits`] the output. All such objects suit a virtual target, so
    /// the first one has the line.
    fn warn_limits(&self, diags: &mut Diagnostics) {
        if self.compute.is_none() && limits(self.object, self.options) {
            diags.warning(for_one_arch(self.object, self.options));
        }
    }

    /// CUDA 12 looks for the size of addresses and for the target where later objects have
    /// something else.
    fn header_form(&self, diags: &mut Diagnostics) -> Result<(), Failed> {
        let of_cuda_12 = self.object.cubin.header.is_of_cuda_12();
        if self.options.form() != FileForm::Header || of_cuda_12 {
            return Ok(());
        }
        diags.warning(Message::No64BitFlag { file: self.file() });
        let release = Dialect::for_toolkit(self.object.cuinfo.toolkit);
        Err(diags.explained_fatal(self.mismatch(), vec![Note::TryDialect { release }]))
    }

    /// Accelerated code (`sm_90a`) suits an accelerated target only. Later releases check this
    /// before the architecture (docs/DIALECTS.md, the table).
    fn accelerated(&self, diags: &mut Diagnostics) -> Result<(), Failed> {
        let LinkOptions { target, dialect, .. } = self.options;
        if !self.object.is_accelerated()
            || target.variant == Variant::Accelerated
            || dialect.mixes_accelerated
        {
            return Ok(());
        }
        self.warn_limits(diags);
        Err(diags.explained_fatal(Message::AcceleratedMismatch, vec![self.made_for()]))
    }

    fn arch(&self, diags: &mut Diagnostics) -> Result<(), Failed> {
        let LinkOptions { target, dialect, .. } = self.options;
        let sm = self.object.cubin.header.sm();
        let family = target.variant == Variant::Family && dialect.families_take_members;
        let taken = match self.compute {
            Some(_) => sm <= target.sm && (!family || sm / 10 == target.sm / 10),
            None => dialect.takes(target, sm),
        };
        if taken && (sm == target.sm || !self.object.is_accelerated()) {
            return Ok(());
        }
        self.warn_limits(diags);
        // Later releases have looked for `.nv.compat` by then, but not in the first file
        // (testdata/cli/dialects.toml).
        let reads = target.flavour == Flavour::Mercury && !dialect.mixes_accelerated;
        let message = match self.object.records.compat {
            None if reads && self.place > 0 => Message::NoCompat,
            _ => self.mismatch(),
        };
        Err(diags.explained_fatal(message, vec![self.made_for()]))
    }

    /// Refuses code that the linker would have to make anew.
    fn code(&self, diags: &mut Diagnostics) -> Result<(), Failed> {
        let sm = self.object.cubin.header.sm();
        let (made_by, own) = (self.object.cuinfo.toolkit, self.options.dialect.toolkit);
        if sm == 90 && made_by < CUDA_12 && own >= CUDA_12 {
            return Err(diags.fatal(Message::BeforeCuda12 { file: self.file() }));
        }
        if self.compute.is_some() || self.object.suits(self.options.target.sm) {
            return Ok(());
        }
        let target = self.options.target.name;
        let reason =
            format!("its code for sm_{sm} has to be made anew for '{target}'; compile it for that");
        Err(diags.fatal(Message::Unsupported { file: self.file(), reason }))
    }

    /// Refuses an object of a later release than the linker's own. If that is the newest that culd
    /// knows, it warns only: nvlink refuses these (docs/DIFFERENCES.md, newer-toolkit).
    fn toolkit(&self, diags: &mut Diagnostics) -> Result<(), Failed> {
        let dialect = self.options.dialect;
        let (made_by, own) = (self.object.cuinfo.toolkit, dialect.toolkit);
        if made_by <= own {
            return Ok(());
        }
        let file = self.file();
        if dialect.is_newest() {
            diags.warning(Message::UnknownToolkit { file, made_by, own: dialect });
            return Ok(());
        }
        let release = Dialect::for_toolkit(made_by);
        let message = Message::NewerToolkit { file, made_by, own };
        Err(diags.explained_fatal(message, vec![Note::TryDialect { release }]))
    }
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
