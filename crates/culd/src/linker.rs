//! The linker as a value.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;

use culd_cubin::arch::Arch;
use culd_cubin::{Cubin, Malformed};
use culd_driver::{Content, InputKind, Item, LinkRequest, Part, Target};
use culd_link::{Account, Cancel, Dialect, Session, Severity};
use culd_report::Input;

use crate::diagnostic::{Diagnostic, LinkError};
use crate::options::Options;

/// Inputs and options of a link. Inputs are borrowed or owned, and linked in the order in which
/// they were added.
///
/// A link does not change it: it can be linked again, with more inputs, or from several threads at
/// once.
#[derive(Debug, Clone)]
pub struct Linker<'d> {
    options: Options,
    items: Vec<Item<'d>>,
}

/// A linked program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linked {
    image: Vec<u8>,
    /// Warnings and infos.
    pub diagnostics: Vec<Diagnostic>,
    /// The cubins that the inputs came to, in link order.
    pub parts: Vec<Part>,
    pub(crate) target: &'static Arch,
    pub(crate) dialect: &'static Dialect,
    pub(crate) inputs: Vec<Input>,
    pub(crate) objects: Vec<usize>,
    pub(crate) account: Account,
}

impl<'d> Linker<'d> {
    /// A link without inputs so far.
    pub fn new(options: Options) -> Self {
        Linker { options, items: Vec::new() }
    }

    /// Adds `bytes`, which messages call `name`. With [`Kind::Any`](InputKind::Any) they are what
    /// they look like; with any other kind something else is an error.
    pub fn add_bytes(
        &mut self,
        name: impl Into<String>,
        kind: InputKind,
        bytes: impl Into<Cow<'d, [u8]>>,
    ) -> &mut Self {
        // What is only a name on the command line says what a file is; bytes have just a name for
        // messages.
        let kind = if kind == InputKind::Named { InputKind::Any } else { kind };
        self.items.push(Item { name: name.into(), kind, content: Content::Bytes(bytes.into()) });
        self
    }

    /// Adds the file at `path`, which is read when the link begins, as the command line takes it.
    pub fn add_file(&mut self, path: impl AsRef<Path>) -> &mut Self {
        self.add_file_of_kind(path, InputKind::Named)
    }

    /// Adds the file at `path`, which is of this kind whatever its name.
    pub fn add_file_of_kind(&mut self, path: impl AsRef<Path>, kind: InputKind) -> &mut Self {
        self.items.push(Item::file(path, kind));
        self
    }

    /// Adds the archive `lib<name>.a` of the library paths, as `-l` does: behind all other inputs,
    /// and only a warning if there is none.
    pub fn add_library(&mut self, name: impl Into<OsString>) -> &mut Self {
        self.options.add_library(name.into());
        self
    }

    /// Links.
    ///
    /// # Errors
    /// What is wrong with the inputs.
    pub fn link(&self) -> Result<Linked, LinkError> {
        self.link_in(&Session::with_threads(self.options.threads))
    }

    /// Links, unless `cancel` says that nobody wants the result: then the link ends before its next
    /// phase, and ptxas, if it runs, is killed.
    ///
    /// # Errors
    /// What is wrong with the inputs; or [`LinkError::is_cancelled`], and nothing is left of the
    /// link.
    pub fn link_unless(&self, cancel: &Cancel) -> Result<Linked, LinkError> {
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
        let diagnostics: Vec<Diagnostic> = lines.map(Diagnostic::from).collect();
        match linked.image {
            Some(image) => Ok(Linked {
                image,
                diagnostics,
                parts: linked.parts,
                target: self.options.target,
                dialect: linked.dialect.unwrap_or(Dialect::usual()),
                inputs: linked.inputs,
                objects: linked.objects,
                account: linked.account.unwrap_or_default(),
            }),
            None => Err(LinkError { diagnostics }.or_cancelled()),
        }
    }
}

impl Linked {
    /// The linked cubin.
    pub fn image(&self) -> &[u8] {
        &self.image
    }

    /// The linked cubin, for keeps.
    pub fn into_image(self) -> Vec<u8> {
        self.image
    }

    /// The linked cubin's tables.
    ///
    /// # Errors
    /// The image is not what it should be, which would be a defect of this library.
    pub fn cubin(&self) -> Result<Cubin<'_>, Malformed> {
        Cubin::parse(&self.image)
    }

    /// Warnings only.
    pub fn warnings(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|line| line.severity == Severity::Warning)
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
