//! The options of a link.
//!
//! In: values, or the words of a command line. Out: [`Options`]. Guaranteed: the same options give
//! the same image as the command.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use culd_cubin::arch::{Arch, UnknownArch};
use culd_cubin::unified::BadUidx;
use culd_driver::{OptionId, Request, Target, UsageError};
use culd_link::{Dialect, IndexFile};
use thiserror::Error;

/// Why options are refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// A word is not an option, has a bad value, or conflicts with another option.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// A word is the name of an input. Inputs are added to a [`Linker`](crate::Linker).
    #[error("'{0}' is no option")]
    Input(String),
    /// The words ask for help, or for a target that is not a real architecture.
    #[error("these options do not ask for a link to a real architecture")]
    NoLink,
    /// The architecture is not known.
    #[error(transparent)]
    Arch(#[from] UnknownArch),
    /// The bytes are not an index file of unified functions and variables.
    #[error(transparent)]
    IndexFile(#[from] BadUidx),
}

/// Options of a link. Each method is the option of the command line with the same name;
/// `culd --help` says more.
///
/// Setters take the options by value and return them, so they can be chained. A flag that is set to
/// `false` has its default again.
///
/// ```
/// use culd::Options;
///
/// let options = Options::for_arch("sm_100f")?.debug(true).max_registers(64);
/// assert_eq!(options.arch().sm, 100);
/// assert!(Options::try_from("sm_20").is_err());
/// # Ok::<(), culd::UnknownArch>(())
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) target: &'static Arch,
    pub(crate) options: culd_driver::CommandOptions,
    pub(crate) index: Option<IndexFile>,
    pub(crate) threads: usize,
}

impl From<&'static Arch> for Options {
    fn from(target: &'static Arch) -> Self {
        Options::new(target)
    }
}

impl TryFrom<&str> for Options {
    type Error = UnknownArch;

    fn try_from(arch: &str) -> Result<Self, UnknownArch> {
        Options::for_arch(arch)
    }
}

impl Options {
    /// A plain link for `target`.
    pub fn new(target: &'static Arch) -> Self {
        let options = culd_driver::CommandOptions::for_target(Target::Real(target));
        Options { target, options, index: None, threads: 0 }
    }

    /// A plain link for the architecture called `name`, such as `sm_90a`.
    ///
    /// # Errors
    /// No architecture has this name.
    pub fn for_arch(name: &str) -> Result<Self, UnknownArch> {
        name.parse().map(Options::new)
    }

    /// The options of a command line without inputs: `-arch=sm_90 -g`. Options about printing have
    /// no effect.
    ///
    /// ```
    /// use culd::Options;
    ///
    /// let options = Options::parse(["-arch=sm_90", "-kernels-used=saxpy,init", "-g"])?;
    /// assert_eq!(options.arch().name, "sm_90");
    /// assert!(Options::parse("-arch=sm_90 -bogus".split(' ')).is_err());
    /// # Ok::<(), culd::OptionsError>(())
    /// ```
    ///
    /// # Errors
    /// A word is not an option, or the words do not ask for a link to a real architecture.
    pub fn parse(words: impl IntoIterator<Item: AsRef<OsStr>>) -> Result<Self, OptionsError> {
        // A command line must have an output and an input.
        let owned = |word: &dyn AsRef<OsStr>| word.as_ref().to_owned();
        let words = words.into_iter().map(|word| owned(&word));
        let with_output = ["-o", "a.out"].map(OsString::from).into_iter().chain(words);
        let with_input: Vec<OsString> = with_output.chain(["input".into()]).collect();
        let parsed = culd_driver::parse(&with_input);
        let Request::Link(mut options) = parsed.request? else { return Err(OptionsError::NoLink) };
        if let [first, _, ..] = &options.inputs[..] {
            return Err(OptionsError::Input(culd_text::name(first)));
        }
        let Some(Target::Real(target)) = options.target else { return Err(OptionsError::NoLink) };
        options.inputs.clear();
        if options.output() == Some(Path::new("a.out")) {
            options.unset(OptionId::Output);
        }
        let threads =
            options.number(OptionId::Threads).and_then(|count| usize::try_from(count).ok());
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

    /// `-g`: no function is dead, and shared variables keep their symbols.
    #[must_use]
    pub fn debug(self, on: bool) -> Self {
        self.flag(OptionId::Debug, on)
    }

    /// `-r`: the output is an object that can be linked again.
    #[must_use]
    pub fn relocatable(self, on: bool) -> Self {
        self.flag(OptionId::Relocatable, on)
    }

    /// `--preserve-relocs`: the output keeps a record of every relocation that is applied.
    #[must_use]
    pub fn preserve_relocs(self, on: bool) -> Self {
        self.flag(OptionId::PreserveRelocs, on)
    }

    /// Keeps kernels that no host code refers to.
    #[must_use]
    pub fn ignore_host_info(self, on: bool) -> Self {
        self.flag(OptionId::IgnoreHostInfo, on)
    }

    /// Links libcudadevrt even if nothing needs it.
    #[must_use]
    pub fn keep_system_libraries(self, on: bool) -> Self {
        self.flag(OptionId::KeepSystemLibraries, on)
    }

    /// Leaves undefined variables in global memory undefined, without an error.
    #[must_use]
    pub fn allow_undefined_globals(self, on: bool) -> Self {
        self.flag(OptionId::AllowUndefinedGlobals, on)
    }

    /// Warnings are errors.
    #[must_use]
    pub fn warnings_are_errors(self, on: bool) -> Self {
        self.flag(OptionId::WarningsAreErrors, on)
    }

    /// Inputs that are ignored are errors.
    #[must_use]
    pub fn strict(self, on: bool) -> Self {
        self.flag(OptionId::Strict, on)
    }

    /// No warnings about ignored inputs.
    #[must_use]
    pub fn disable_warnings(self, on: bool) -> Self {
        self.flag(OptionId::DisableWarnings, on)
    }

    /// No infos, and no warnings about stack sizes, architectures and compatibility.
    #[must_use]
    pub fn disable_infos(self, on: bool) -> Self {
        self.flag(OptionId::DisableInfos, on)
    }

    /// No warnings about inputs without code for the target.
    #[must_use]
    pub fn suppress_arch_warning(self, on: bool) -> Self {
        self.flag(OptionId::SuppressArchWarning, on)
    }

    /// Warnings about functions whose address is taken and that no kernel calls (`-extrawarn`).
    #[must_use]
    pub fn extra_warnings(self, on: bool) -> Self {
        self.flag(OptionId::ExtraWarnings, on)
    }

    /// No warnings about kernels of unknown stack size.
    #[must_use]
    pub fn suppress_stack_size_warning(self, on: bool) -> Self {
        self.flag(OptionId::SuppressStackSizeWarning, on)
    }

    /// Removes all kernels but these. A kernel is used if its mangled name contains the text; `*`
    /// in the text matches any characters. Repeated calls add names.
    #[must_use]
    pub fn kernels_used<T: Into<OsString>>(self, names: impl IntoIterator<Item = T>) -> Self {
        self.list(OptionId::KernelsUsed, names)
    }

    /// Names of variables that are used. Without [`Options::kernels_used`] no kernel is used then.
    /// Repeated calls add names.
    #[must_use]
    pub fn variables_used<T: Into<OsString>>(self, names: impl IntoIterator<Item = T>) -> Self {
        self.list(OptionId::VariablesUsed, names)
    }

    /// Folders in which [`Linker::add_library`](crate::Linker::add_library) looks, in order.
    /// Repeated calls add folders.
    #[must_use]
    pub fn library_paths<T: Into<OsString>>(self, folders: impl IntoIterator<Item = T>) -> Self {
        self.list(OptionId::LibraryPath, folders)
    }

    /// The ptxas that compiles PTX. Without it, the first one is used that is found in the toolkit
    /// of this program, `CUDA_HOME`, `CUDA_PATH`, [`Options::toolkits`], the Python environment of
    /// this program, or `PATH`.
    #[must_use]
    pub fn ptxas_path(mut self, path: impl AsRef<Path>) -> Self {
        self.options.set(OptionId::PtxasPath, [path.as_ref()]);
        self
    }

    /// Further toolkits in which ptxas and NVIDIA's libraries are looked for: folders with `bin` or
    /// `lib`. Repeated calls add folders.
    #[must_use]
    pub fn toolkits(mut self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        self.options.toolkits.extend(folders);
        self
    }

    /// The program `culd-lto`, which has LTO-IR compiled. Without it, the one beside this program
    /// or in `PATH` is used.
    #[must_use]
    pub fn lto_program(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.lto_program = Some(path.into());
        self
    }

    /// Options for ptxas. Repeated calls add options.
    #[must_use]
    pub fn ptxas_options<T: Into<OsString>>(self, options: impl IntoIterator<Item = T>) -> Self {
        self.list(OptionId::Xptxas, options)
    }

    /// The most registers per thread of code that is compiled.
    #[must_use]
    pub fn max_registers(mut self, count: u32) -> Self {
        self.options.set(OptionId::MaxRegisters, [count.to_string()]);
        self
    }

    /// The release of nvlink whose rules are followed. Without it, that of the newest input.
    ///
    /// ```
    /// let options = culd::Options::for_arch("sm_90")?.dialect("13.5".parse()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn dialect(mut self, dialect: &'static Dialect) -> Self {
        self.options.set(OptionId::Dialect, [dialect.to_string()]);
        self
    }

    /// The name of the output in the tool note, which has it with [`Options::debug`] only.
    #[must_use]
    pub fn output_name(mut self, name: impl Into<OsString>) -> Self {
        self.options.set(OptionId::Output, [name.into()]);
        self
    }

    /// The bytes of an index file of unified functions and variables (`-uidx`).
    ///
    /// # Errors
    /// [`OptionsError::IndexFile`]: the bytes are not an index file.
    pub fn index_file(mut self, bytes: impl Into<Vec<u8>>) -> Result<Self, OptionsError> {
        self.index = Some(IndexFile::parse(bytes.into())?);
        Ok(self)
    }

    /// The number of threads of a large link; 0, the default, is one per core. At most four per
    /// core are used, even if the number is larger. Without feature `parallel` there is one.
    #[must_use]
    pub fn threads(mut self, count: usize) -> Self {
        self.threads = count.min(culd_driver::most_threads());
        self
    }

    fn flag(mut self, id: OptionId, on: bool) -> Self {
        match on {
            true => self.options.set(id, [""; 0]),
            false => self.options.unset(id),
        }
        self
    }

    fn list<T: Into<OsString>>(mut self, id: OptionId, more: impl IntoIterator<Item = T>) -> Self {
        self.append(id, more.into_iter().map(Into::into));
        self
    }

    /// Lists add up, as on the command line.
    fn append(&mut self, id: OptionId, more: impl Iterator<Item = OsString>) {
        let all: Vec<OsString> = self.options.list(id).iter().cloned().chain(more).collect();
        self.options.set(id, all);
    }

    pub(crate) fn add_library(&mut self, name: OsString) {
        self.append(OptionId::Library, std::iter::once(name));
    }
}
