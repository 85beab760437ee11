//! The options of a link: plain data, made by the driver, the C ABI or a program.

pub(crate) mod dialect;
pub(crate) mod driver_functions;
pub(crate) mod form;
pub(crate) mod index_file;
pub(crate) mod input;
pub(crate) mod selection;

use culd_cubin::arch::Arch;
use culd_cubin::note::ToolRecord;

use self::dialect::Dialect;
use self::form::FileForm;
use self::index_file::IndexFile;
use self::selection::Selection;

/// Options of one link.
#[derive(Debug, Clone)]
pub struct LinkOptions {
    /// The target.
    pub target: &'static Arch,
    /// The release whose rules are followed.
    pub dialect: &'static Dialect,
    /// The tool note's record of this linker.
    pub tool: ToolRecord,
    /// `-g`: no function is dead, and shared variables keep their symbols.
    pub debug: bool,
    /// `--cuda-api-version`: code made for a later version of CUDA's interface is refused.
    pub api_version: Option<u32>,
    /// `-suppress-debug-info`: of the effects of `-g`, only that no function is dead.
    pub suppress_debug_info: bool,
    /// `-astoolspatch`: no function is dead, and each must be compiled as a tools patch.
    pub tools_patch: bool,
    /// `-r`: the output is to be linked again.
    pub relocatable: bool,
    /// The index file of unified functions and variables.
    pub index: Option<IndexFile>,
    /// The kernels to keep. A link that keeps dead code keeps all kernels.
    pub selection: Selection,
    /// Functions that are kept even if none reaches them (`--undefined`). No option of nvlink.
    pub roots: Vec<Vec<u8>>,
    /// System libraries are linked even if nothing needs them.
    pub keep_system_libraries: bool,
    /// `--preserve-relocs`: no function is dead, and every applied relocation is recorded in
    /// `.nv.resolvedrela.*`, with the symbols that it names.
    pub preserve_relocs: bool,
    /// Undefined variables in global memory are not errors.
    pub allow_undefined_globals: bool,
    /// Warnings of the linker are errors.
    pub warnings_are_errors: bool,
    /// Warnings of the linker are dropped, and are no errors either. nvlink does this before 13.0
    /// (`-w`).
    pub disable_warnings: bool,
    /// Do not warn about unknown stack sizes, missing compatibility attributes and mixed compilers.
    pub disable_infos: bool,
    /// Print the call graph, with these names.
    pub dump_callgraph: Option<CallGraphNames>,
    /// Warn about functions whose address is taken and that nothing calls (`-extrawarn`).
    pub extra_warnings: bool,
    /// Do not warn about entries whose stack size is unknown.
    pub suppress_stack_size_warning: bool,
    /// Report the resources of every kernel (`-v`).
    pub report_resources: bool,
}

impl LinkOptions {
    /// The selection that takes effect: links that keep dead functions keep all kernels.
    pub(crate) fn effective_selection(&self) -> &Selection {
        if self.keeps_dead_code() { &Selection::All } else { &self.selection }
    }

    /// A plain link for `target`, made by `tool`.
    pub fn new(target: &'static Arch, tool: ToolRecord) -> Self {
        LinkOptions {
            target,
            dialect: Dialect::usual(),
            tool,
            debug: false,
            api_version: None,
            suppress_debug_info: false,
            tools_patch: false,
            relocatable: false,
            index: None,
            selection: Selection::All,
            roots: Vec::new(),
            keep_system_libraries: false,
            preserve_relocs: false,
            allow_undefined_globals: false,
            warnings_are_errors: false,
            disable_warnings: false,
            disable_infos: false,
            dump_callgraph: None,
            extra_warnings: false,
            suppress_stack_size_warning: false,
            report_resources: false,
        }
    }

    /// The form of the output.
    pub(crate) fn form(&self) -> FileForm {
        FileForm::of(self.dialect, self.target)
    }

    /// True if functions are kept that no entry reaches.
    pub(crate) fn keeps_dead_code(&self) -> bool {
        self.debug || self.tools_patch || self.preserve_relocs || self.relocatable
    }

    /// True if the output has unified functions and variables for a later link, or the driver, to
    /// resolve.
    pub(crate) fn keeps_unified(&self) -> bool {
        self.relocatable || self.index.is_some()
    }

    /// True for a program that a debugger is to read.
    pub(crate) fn for_debugger(&self) -> bool {
        self.debug && !self.suppress_debug_info
    }

    /// True if shared variables keep their symbols.
    pub(crate) fn keeps_shared_symbols(&self) -> bool {
        self.for_debugger() || self.preserve_relocs
    }
}

/// Which names the lines of `-dump-callgraph` have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallGraphNames {
    /// As in the source.
    Source,
    /// As in the file.
    Mangled,
}
