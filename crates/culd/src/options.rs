//! What a link is asked to do.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use culd_cubin::arch::Arch;
use culd_driver::{Id, Request, Target, UsageError};
use culd_link::{Dialect, IndexFile, Message};
use thiserror::Error;

/// There is no such architecture.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is no architecture that can be linked for; those are sm_75 to sm_121f")]
pub struct UnknownArch(pub String);

/// Words that are no options of a link.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// A word is no option, or not with this value, or does not go with another.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// A word is the name of an input; those are added to a linker.
    #[error("'{0}' is no option")]
    Input(String),
    /// They ask for help, or for a target that is not linked for.
    #[error("these options do not ask for a link to a real architecture")]
    NoLink,
}

/// Options of a link. Each is that of the command line with the same name; `culd --help` says more.
///
/// ```
/// let options = culd::Options::for_arch("sm_100f")?.debug(true).max_registers(64);
/// assert_eq!(options.arch().sm, 100);
/// assert!(culd::Options::for_arch("sm_20").is_err());
/// # Ok::<(), culd::UnknownArch>(())
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) target: &'static Arch,
    pub(crate) options: culd_driver::Options,
    pub(crate) index: Option<IndexFile>,
    pub(crate) threads: usize,
}

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident $id:ident;)*) => {
        $($(#[$doc])*
        #[must_use]
        pub fn $name(self, on: bool) -> Self {
            self.flag(Id::$id, on)
        })*
    };
}

impl Options {
    /// A plain link for `target`.
    pub fn new(target: &'static Arch) -> Self {
        let options = culd_driver::Options::for_target(Target::Real(target));
        Options { target, options, index: None, threads: 0 }
    }

    /// A plain link for the architecture called `name`: `sm_90a`.
    ///
    /// # Errors
    /// There is none.
    pub fn for_arch(name: &str) -> Result<Self, UnknownArch> {
        Arch::by_name(name).map(Options::new).ok_or_else(|| UnknownArch(name.to_owned()))
    }

    /// The options of a command line, inputs aside: `-arch=sm_90 -g`. Those that are about printing
    /// change nothing.
    ///
    /// ```
    /// let words = ["-arch=sm_90", "-kernels-used=saxpy,init", "-g"];
    /// assert_eq!(culd::Options::parse(&words)?.arch().name, "sm_90");
    /// assert!(culd::Options::parse(&["-arch=sm_90", "-bogus"]).is_err());
    /// # Ok::<(), culd::OptionsError>(())
    /// ```
    ///
    /// # Errors
    /// The words are no such options, or ask for something else than a link to a real architecture.
    pub fn parse(words: &[impl AsRef<OsStr>]) -> Result<Self, OptionsError> {
        // What a command line must have and options need not.
        let words = words.iter().map(AsRef::as_ref);
        let with_output = ["-o", "a.out"].map(OsStr::new).into_iter().chain(words);
        let with_input: Vec<&OsStr> = with_output.chain([OsStr::new("input")]).collect();
        let parsed = culd_driver::parse(&with_input);
        let Request::Link(mut options) = parsed.request? else { return Err(OptionsError::NoLink) };
        if let [first, _, ..] = &options.inputs[..] {
            return Err(OptionsError::Input(culd_text::name(first)));
        }
        let Some(Target::Real(target)) = options.target else { return Err(OptionsError::NoLink) };
        options.inputs.clear();
        if options.output() == Some(Path::new("a.out")) {
            options.unset(Id::Output);
        }
        let threads = options.number(Id::Threads).and_then(|count| usize::try_from(count).ok());
        Ok(Options {
            target,
            options: *options,
            index: None,
            threads: threads.unwrap_or(0).min(culd_driver::most_threads()),
        })
    }

    /// The architecture to link for.
    pub fn arch(&self) -> &'static Arch {
        self.target
    }

    flags! {
        /// `-g`: no function is dead, and shared variables keep their symbols.
        debug Debug;
        /// `-r`: the output is to be linked again.
        relocatable Relocatable;
        /// `--preserve-relocs`: keep a record of every relocation that is applied.
        preserve_relocs PreserveRelocs;
        /// Keep kernels that no host code refers to.
        ignore_host_info IgnoreHostInfo;
        /// Link libcudadevrt even where nothing needs it.
        keep_system_libraries KeepSystemLibraries;
        /// Leave undefined variables in global memory undefined.
        allow_undefined_globals AllowUndefinedGlobals;
        /// Warnings are errors.
        warnings_are_errors WarningsAreErrors;
        /// Inputs that are ignored are errors.
        strict Strict;
        /// Do not warn about inputs that are ignored.
        disable_warnings DisableWarnings;
        /// No infos, and no warnings about stack sizes, architectures and compatibility.
        disable_infos DisableInfos;
        /// Do not warn about inputs without code for the target.
        suppress_arch_warning SuppressArchWarning;
        /// Do not warn about kernels of unknown stack size.
        suppress_stack_size_warning SuppressStackSizeWarning;
    }

    /// Remove kernels other than these. A name is used if it contains the text; `*` stands for
    /// anything.
    #[must_use]
    pub fn kernels_used<T: Into<OsString>>(self, names: impl IntoIterator<Item = T>) -> Self {
        self.list(Id::KernelsUsed, names)
    }

    /// Names of variables that are used; without [`Options::kernels_used`] no kernel is.
    #[must_use]
    pub fn variables_used<T: Into<OsString>>(self, names: impl IntoIterator<Item = T>) -> Self {
        self.list(Id::VariablesUsed, names)
    }

    /// Where [`Linker::add_library`](crate::Linker::add_library) looks, in order.
    #[must_use]
    pub fn library_paths<T: Into<OsString>>(self, folders: impl IntoIterator<Item = T>) -> Self {
        self.list(Id::LibraryPath, folders)
    }

    /// The ptxas that compiles PTX; else one beside nvcc in `PATH`, or in `CUDA_HOME`.
    #[must_use]
    pub fn ptxas(mut self, path: impl AsRef<Path>) -> Self {
        self.options.set(Id::PtxasPath, [path.as_ref()]);
        self
    }

    /// The release of nvlink whose rules are followed; else that of the newest input.
    ///
    /// ```
    /// let options = culd::Options::for_arch("sm_90")?.dialect("13.5".parse()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn dialect(mut self, dialect: &'static Dialect) -> Self {
        self.options.set(Id::Dialect, [dialect.to_string()]);
        self
    }

    /// Options for ptxas.
    #[must_use]
    pub fn ptxas_options<T: Into<OsString>>(self, options: impl IntoIterator<Item = T>) -> Self {
        self.list(Id::Xptxas, options)
    }

    /// The most registers of code that is compiled.
    #[must_use]
    pub fn max_registers(mut self, count: u32) -> Self {
        self.options.set(Id::MaxRegisters, [count.to_string()]);
        self
    }

    /// What the tool note of a link with [`Options::debug`] calls the output.
    #[must_use]
    pub fn output_name(mut self, name: impl Into<OsString>) -> Self {
        self.options.set(Id::Output, [name.into()]);
        self
    }

    /// The bytes of an index file of unified functions and variables (`-uidx`).
    ///
    /// # Errors
    /// They are none.
    pub fn index_file(mut self, bytes: impl Into<Vec<u8>>) -> Result<Self, Message> {
        self.index = Some(IndexFile::parse(bytes.into())?);
        Ok(self)
    }

    /// How many threads a large link uses: one per core, if it is 0 or not said; never more than
    /// four per core, however many are asked for.
    #[must_use]
    pub fn threads(mut self, count: usize) -> Self {
        self.threads = count.min(culd_driver::most_threads());
        self
    }

    fn flag(mut self, id: Id, on: bool) -> Self {
        match on {
            true => self.options.set(id, [""; 0]),
            false => self.options.unset(id),
        }
        self
    }

    fn list<T: Into<OsString>>(mut self, id: Id, more: impl IntoIterator<Item = T>) -> Self {
        self.append(id, more.into_iter().map(Into::into));
        self
    }

    /// Lists add up, as on the command line.
    fn append(&mut self, id: Id, more: impl Iterator<Item = OsString>) {
        let all: Vec<OsString> = self.options.list(id).iter().cloned().chain(more).collect();
        self.options.set(id, all);
    }

    pub(crate) fn add_library(&mut self, name: OsString) {
        self.append(Id::Library, std::iter::once(name));
    }
}
