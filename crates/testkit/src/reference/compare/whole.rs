//! Explains shared memory without a variable in objects that were made with `-r`.
//!
//! In: objects and programs of a link in several steps. Out: the differences of shared memory that
//! docs/DIFFERENCES.md and docs/DIALECTS.md explain. Guaranteed: whole programs are excused only
//! where nvlink is known to lose their shared memory.

use super::is_any_whole_program;
use super::trial::Tools;
use anyhow::{Context, Result};
use culd_cubin::elf::{sht, stt};
use culd_cubin::{Cubin, SectionIndex};

/// The entry about objects that were made with `-r` of whole programs.
pub(super) const AGAIN: &str = "whole-program-again";

/// The first release that counts shared memory without a variable, except for a debugger.
const COUNTS: &str = "13.4";

/// True for a link of `compiled` in several steps in which nvlink loses the shared memory of whole
/// programs.
pub(super) fn may_lack_shared(tools: &Tools, options: &[String], compiled: &[Vec<u8>]) -> bool {
    let for_debugger = options.iter().any(|word| word == "-g" || word == "--debug");
    let loses = tools.oracle.release().name < COUNTS || for_debugger;
    loses && is_any_whole_program(compiled)
}

/// Removes the room of kernels' shared memory that no variable of `object` uses; true if there was
/// some.
///
/// # Errors
/// When the object cannot be read.
pub(super) fn remove_bare_shared(object: &mut [u8]) -> Result<bool> {
    let cubin = Cubin::parse(object)?;
    // Shared memory of a whole program has no symbols; it does not count here.
    if cubin.symbols.first().is_some_and(|null| null.value != 0) {
        return Ok(false);
    }
    let used = |index: SectionIndex| {
        let mut symbols = cubin.symbols.iter().filter(|symbol| symbol.kind() != stt::SECTION);
        symbols.any(|symbol| symbol.defined_in() == Some(index))
    };
    let bare = cubin.section_indices().filter(|&(index, section)| {
        section.sh_type == sht::CUDA_SHARED && section.info_section().is_some() && !used(index)
    });
    let bare: Vec<usize> =
        bare.filter(|(_, section)| section.size != 0).map(|(index, _)| index.0 as usize).collect();
    let number = |at: usize| {
        let bytes = object.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u64::from_le_bytes).context("an ELF header")
    };
    let headers = number(0x28)? as usize;
    for &index in &bare {
        let size = headers + 64 * index + 0x20;
        object.get_mut(size..size + 8).context("a section header")?.fill(0);
    }
    Ok(!bare.is_empty())
}
