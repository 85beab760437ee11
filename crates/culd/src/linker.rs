//! The linker as a value.
//!
//! In: options and inputs. Out: a linked program, or all messages. Guaranteed: links may run at the
//! same time, and a link changes no [`Linker`].

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;

use culd_cubin::Cubin;
use culd_cubin::arch::Arch;
use culd_driver::{InputItem, InputKind, LinkRequest, LinkedInput, Target};
use culd_link::{Account, Cancel, Dialect, Session, Severity};
use culd_report::ReportInput;

use crate::diagnostic::{Diagnostic, LinkError};
use crate::options::Options;

/// Inputs and options of a link. Inputs are borrowed or owned, and linked in the order in which
/// they were added.
///
/// `add_*` methods take the linker by reference, so that inputs can be added in a loop. A link does
/// not change the linker: it can be linked again, with more inputs, or from several threads at
/// once.
///
/// ```no_run
/// use culd::{Linker, Options};
///
/// let mut linker = Linker::new(Options::for_arch("sm_90")?);
/// for path in ["a.o", "b.o", "lib.a"] {
///     linker.add_file(path);
/// }
/// std::fs::write("program.cubin", linker.link()?.image())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Linker<'d> {
    options: Options,
    items: Vec<InputItem<'d>>,
}

/// A linked program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linked {
    image: Vec<u8>,
    diagnostics: Vec<Diagnostic>,
    parts: Vec<LinkedInput>,
    pub(crate) target: &'static Arch,
    pub(crate) dialect: &'static Dialect,
    pub(crate) inputs: Vec<ReportInput>,
    pub(crate) objects: Vec<usize>,
    /// `None` if a compiler made the image.
    pub(crate) account: Option<Account>,
}

impl<'d> Linker<'d> {
    /// A linker without inputs.
    pub fn new(options: Options) -> Self {
        Linker { options, items: Vec::new() }
    }

    /// Adds `bytes`, which have the name `name` in messages. With [`InputKind::Any`], the kind
    /// follows from the contents. With any other kind, contents of another kind are an error of the
    /// link.
    pub fn add_bytes(
        &mut self,
        name: impl Into<String>,
        kind: InputKind,
        bytes: impl Into<Cow<'d, [u8]>>,
    ) -> &mut Self {
        self.items.push(InputItem::bytes(name, kind, bytes));
        self
    }

    /// Adds the file at `path`, which is treated as on the command line. It is read when the link
    /// begins.
    pub fn add_file(&mut self, path: impl AsRef<Path>) -> &mut Self {
        self.add_file_of_kind(path, InputKind::Named)
    }

    /// Adds the file at `path`, which must be of this kind; its name does not matter.
    pub fn add_file_of_kind(&mut self, path: impl AsRef<Path>, kind: InputKind) -> &mut Self {
        self.items.push(InputItem::file(path, kind));
        self
    }

    /// Adds the archive `lib<name>.a` of the library paths, as `-l` does. It is linked behind all
    /// other inputs. If there is none, the link has a warning.
    pub fn add_library(&mut self, name: impl Into<OsString>) -> &mut Self {
        self.options.add_library(name.into());
        self
    }

    /// Links.
    ///
    /// # Errors
    /// All messages of a link that fails; the last one is an error.
    pub fn link(&self) -> Result<Linked, LinkError> {
        self.link_in(&Session::with_threads(self.options.threads))
    }

    /// Links until another thread calls [`Cancel::cancel`]: then the link ends before its next
    /// phase, and a running ptxas is killed.
    ///
    /// # Errors
    /// As [`Linker::link`]. [`LinkError::is_cancelled`] is true for a cancelled link, which leaves
    /// no files.
    pub fn link_with_cancel(&self, cancel: &Cancel) -> Result<Linked, LinkError> {
        let session = Session::with_threads(self.options.threads).cancelled_by(cancel.clone());
        self.link_in(&session)
    }

    fn link_in(&self, session: &Session) -> Result<Linked, LinkError> {
        let mut options = self.options.options.clone();
        options.inputs = self.items.iter().map(|item| item.path().to_owned()).collect();
        let linked = culd_driver::link(LinkRequest {
            options: &options,
            target: Target::Real(self.options.target),
            items: &self.items,
            index: self.options.index.clone(),
            session,
            account: true,
        });
        let lines = linked.outcome.lines.into_iter();
        let diagnostics: Vec<Diagnostic> = lines.map(Diagnostic::of).collect();
        match linked.image {
            Some(image) => Ok(Linked {
                image,
                diagnostics,
                parts: linked.parts,
                target: self.options.target,
                dialect: linked.dialect.unwrap_or(Dialect::usual()),
                inputs: linked.inputs,
                objects: linked.objects,
                account: linked.account,
            }),
            None => Err(LinkError { diagnostics }.or_cancelled()),
        }
    }
}

impl Linked {
    /// The linked cubin, as the CUDA driver loads it.
    pub fn image(&self) -> &[u8] {
        &self.image
    }

    /// The linked cubin, without a copy.
    pub fn into_image(self) -> Vec<u8> {
        self.image
    }

    /// Warnings and infos, in order.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Warnings only.
    pub fn warnings(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|line| line.severity == Severity::Warning)
    }

    /// The cubins in the inputs, in link order.
    pub fn parts(&self) -> &[LinkedInput] {
        &self.parts
    }

    /// The linked cubin's tables of sections and symbols.
    ///
    /// # Panics
    /// Only if the linker wrote a malformed image, which is a defect of this library.
    pub fn cubin(&self) -> Cubin<'_> {
        Cubin::parse(&self.image).expect("linked images are well-formed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linker_can_go_to_another_thread_and_be_shared() {
        fn shared<T: Send + Sync + Clone>() {}
        shared::<Linker<'_>>();
        shared::<Linked>();
        shared::<LinkError>();
    }
}
