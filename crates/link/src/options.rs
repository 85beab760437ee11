//! What a link is asked to do. Plain data: made by the driver, the C ABI or a program.

use culd_cubin::arch::Arch;
use culd_cubin::note::ToolRecord;

use crate::dialect::Dialect;
use crate::dump::CallGraphNames;
use crate::selection::Selection;
use crate::unified::IndexFile;

/// Options of one link.
#[derive(Debug, Clone)]
pub struct LinkOptions {
    /// The target.
    pub target: &'static Arch,
    /// The release whose rules are followed.
    pub dialect: &'static Dialect,
    /// What the tool note of the output says about this linker.
    pub tool: ToolRecord,
    /// `-g`: no function is dead, and shared variables keep their symbols.
    pub debug: bool,
    /// `-suppress-debug-info`: with `-g`, only that nothing is dead.
    pub suppress_debug_info: bool,
    /// `-astoolspatch`: no function is dead, and each has to be compiled as a patch of tools.
    pub tools_patch: bool,
    /// `-r`: the output is to be linked again.
    pub relocatable: bool,
    /// The index file of unified functions and variables.
    pub index: Option<IndexFile>,
    /// Which kernels are kept; all of them where dead code is kept, whatever it says.
    pub selection: Selection,
    /// System libraries are linked even where nothing needs them.
    pub keep_system_libraries: bool,
    /// `--preserve-relocs`: no function is dead, and every relocation that is applied is told in
    /// `.nv.resolvedrela.*`, with the symbols that it names.
    pub preserve_relocs: bool,
    /// Undefined variables in global memory are no errors.
    pub allow_undefined_globals: bool,
    /// Warnings of the linker are errors.
    pub warnings_are_errors: bool,
    /// Do not warn about what a program's size depends on: stack and compatibility.
    pub disable_infos: bool,
    /// Tell the call graph, in these names.
    pub dump_callgraph: Option<CallGraphNames>,
    /// Do not warn about entries whose stack size is unknown.
    pub suppress_stack_size_warning: bool,
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
            dialect: Dialect::oldest(),
            tool,
            debug: false,
            suppress_debug_info: false,
            tools_patch: false,
            relocatable: false,
            index: None,
            selection: Selection::All,
            keep_system_libraries: false,
            preserve_relocs: false,
            allow_undefined_globals: false,
            warnings_are_errors: false,
            disable_infos: false,
            dump_callgraph: None,
            suppress_stack_size_warning: false,
        }
    }

    /// True when functions stay that no entry reaches.
    pub(crate) fn keeps_dead_code(&self) -> bool {
        self.debug || self.tools_patch || self.preserve_relocs || self.relocatable
    }

    /// True when the output still has unified functions and variables to be resolved, by a later link
    /// or by the driver.
    pub(crate) fn keeps_unified(&self) -> bool {
        self.relocatable || self.index.is_some()
    }

    /// True for a program that a debugger is to read.
    pub(crate) fn for_debugger(&self) -> bool {
        self.debug && !self.suppress_debug_info
    }

    /// True when shared variables keep their symbols.
    pub(crate) fn keeps_shared_symbols(&self) -> bool {
        self.for_debugger() || self.preserve_relocs
    }
}
