//! The data that the resolution of a relocation depends on.

use std::sync::Arc;

use super::debug::RebuiltDebug;
use super::kept;
use crate::base::half::Half;
use crate::callgraph::CallGraph;
use crate::data::shared::SharedLayout;
use crate::data::textures::TextureSlots;
use crate::draft::merged::MergeResult;
use crate::objects::InputObjects;
use crate::program::LaidOutProgram;
use crate::symbols::Symbols;
use crate::symbols::discarded::DiscardedRecords;

/// The data that the resolution of a relocation depends on.
#[derive(Clone, Copy)]
pub(super) struct RelocResolver<'a, 'd> {
    pub(super) objects: &'a InputObjects<'d>,
    pub(super) symbols: &'a Symbols,
    pub(super) graph: &'a CallGraph,
    pub(super) merged: &'a MergeResult<'d>,
    pub(super) shared: &'a SharedLayout,
    pub(super) slots: &'a TextureSlots,
    pub(super) discarded: &'a DiscardedRecords,
    /// Records of unified functions and variables are kept for a later link or the driver.
    pub(super) unified: bool,
    /// Bytes of the bank of constant variables, if there is one.
    pub(super) constants_size: Option<u64>,
    /// `--preserve-relocs`: applied records are listed in `.nv.resolvedrela`.
    pub(super) preserve: bool,
    /// All code is compiled for virtual architectures before compute_70, whose threads need not
    /// yield: instructions that do become others (case dialects/yields-12-6).
    pub(super) drops_yields: bool,
    /// `-g`.
    pub(super) debug: bool,
    /// The half whose records are resolved.
    pub(super) half: Half,
    /// Debug sections of machine code that are rebuilt, not copied.
    pub(super) rebuilt: &'a RebuiltDebug,
    /// Output symbols for the fast path.
    pub(super) fast_symbols: &'a Arc<kept::FastSymbols>,
}

impl<'a, 'd> RelocResolver<'a, 'd> {
    pub(super) fn new(
        program: LaidOutProgram<'a, 'd>,
        rebuilt: &'a RebuiltDebug,
        fast_symbols: &'a Arc<kept::FastSymbols>,
    ) -> Self {
        let draft = &program.merged.draft;
        RelocResolver {
            objects: program.objects,
            symbols: program.symbols,
            graph: program.graph,
            merged: program.merged,
            shared: &program.data.shared,
            slots: &program.data.slots,
            discarded: program.discarded,
            unified: program.options.keeps_unified(),
            constants_size: draft.constant_variables().map(|bank| draft.sections[bank].size),
            preserve: program.options.preserve_relocs,
            drops_yields: program.objects.iter().all(|(_, object)| object.cuinfo.virtual_sm < 70),
            debug: program.options.for_debugger(),
            half: Half::Sass,
            rebuilt,
            fast_symbols,
        }
    }

    /// True with `-r`: addresses in constant and shared memory, texture slots and sizes of banks
    /// are not known yet.
    pub(super) fn relocatable(&self) -> bool {
        self.merged.draft.relocatable
    }
}
