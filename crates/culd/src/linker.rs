//! The linker as a value.

use std::borrow::Cow;
use std::path::Path;

use culd_cubin::{Cubin, Malformed};
use culd_driver::{Content, InputError, InputKind, Item, Line, LinkRequest, Part, Target};
use culd_link::{Account, Cancel, Session, Severity};

use crate::diagnostic::{Diagnostic, LinkError};
use crate::options::Options;
use crate::report::Report;

/// Inputs and options of a link. Inputs are borrowed or owned, and linked in the order in which they were added.
///
/// A link does not change it: it can be linked again, with more inputs, or from several threads at once.
#[derive(Debug, Clone)]
pub struct Linker<'d> {
    options: Options,
    items: Vec<Item<'d>>,
    /// Paths of files are text; what is wrong with the first that is not.
    not_text: Option<InputError>,
}

/// A linked program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linked {
    image: Vec<u8>,
    /// Warnings and infos.
    pub diagnostics: Vec<Diagnostic>,
    /// The cubins that the inputs came to, in link order.
    pub parts: Vec<Part>,
    report: culd_link::Report,
    account: Account,
}

impl<'d> Linker<'d> {
    /// A link without inputs so far.
    pub fn new(options: Options) -> Self {
        Linker { options, items: Vec::new(), not_text: None }
    }

    /// Adds `bytes`, which messages call `name`. With [`Kind::Any`](InputKind::Any) they are what they look like; with any
    /// other kind something else is an error.
    pub fn add_bytes(
        &mut self,
        name: impl Into<String>,
        kind: InputKind,
        bytes: impl Into<Cow<'d, [u8]>>,
    ) -> &mut Self {
        // What is only a name on the command line says what a file is; bytes have just a name for messages.
        let kind = if kind == InputKind::Named { InputKind::Any } else { kind };
        self.items.push(Item { name: name.into(), kind, content: Content::Bytes(bytes.into()) });
        self
    }

    /// Adds the file at `path`, which is read when the link begins, as the command line takes it. A path that is not UTF-8
    /// is an error of the link.
    pub fn add_file(&mut self, path: impl AsRef<Path>) -> &mut Self {
        self.add_file_of_kind(path, InputKind::Named)
    }

    /// Adds the file at `path`, which is of this kind whatever its name.
    pub fn add_file_of_kind(&mut self, path: impl AsRef<Path>, kind: InputKind) -> &mut Self {
        match path.as_ref().to_str() {
            Some(name) => {
                self.items.push(Item { name: name.to_owned(), kind, content: Content::File });
            }
            // With other bytes in its place it would be the path of another file.
            None => {
                self.not_text.get_or_insert_with(|| InputError::not_text(path.as_ref()));
            }
        }
        self
    }

    /// Adds the archive `lib<name>.a` of the library paths, as `-l` does: behind all other inputs, and only a warning if
    /// there is none.
    pub fn add_library(&mut self, name: impl Into<String>) -> &mut Self {
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

    /// Links, unless `cancel` says that nobody wants the result: then the link ends before its next phase, and ptxas, if it
    /// runs, is killed.
    ///
    /// # Errors
    /// What is wrong with the inputs; or [`LinkError::is_cancelled`], and nothing is left of the link.
    pub fn link_unless(&self, cancel: &Cancel) -> Result<Linked, LinkError> {
        let session = Session::with_threads(self.options.threads).cancelled_by(cancel.clone());
        self.link_in(&session)
    }

    fn link_in(&self, session: &Session) -> Result<Linked, LinkError> {
        if let Some(error) = self.not_text.clone() {
            let line = Line::about(Severity::Fatal, error);
            return Err(LinkError { diagnostics: vec![line.into()] });
        }
        let mut options = self.options.options.clone();
        options.inputs = self.items.iter().map(|item| item.name.clone()).collect();
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
                report: linked.report.unwrap_or_default(),
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

    /// What is in the image, and what is not.
    ///
    /// # Errors
    /// As [`Linked::cubin`].
    pub fn report(&self) -> Result<Report, Malformed> {
        Report::build(&self.cubin()?, &self.report, &self.account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_no_text_is_an_error_of_the_link() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let mut linker = Linker::new(Options::for_arch("sm_90").unwrap());
        linker.add_file(OsStr::from_bytes(b"caf\xe9.cubin"));
        let told = linker.link().unwrap_err().to_string();
        assert!(told.starts_with("fatal: 'caf\\xe9.cubin' is not UTF-8"), "{told}");
    }

    #[test]
    fn a_linker_can_go_to_another_thread_and_be_shared() {
        fn shared<T: Send + Sync + Clone>() {}
        shared::<Linker<'_>>();
        shared::<Linked>();
        shared::<LinkError>();
    }
}
