//! Explains shared memory without a variable in objects that were made with `-r`.
//!
//! In: objects and programs of a link in several steps. Out: the differences of shared memory that
//! docs/DIFFERENCES.md and docs/DIALECTS.md explain. Guaranteed: whole programs are excused only
//! where nvlink is known to lose their shared memory.

use super::trial::Tools;
use super::{is_any_whole_program, is_whole_program, mercury};
use anyhow::{Context, Result};
use culd_cubin::elf::{sht, stt};
use culd_cubin::{Cubin, Section, SectionIndex};

/// The entry about objects that were made with `-r` of whole programs.
pub(super) const AGAIN: &str = "whole-program-again";

/// The entry about kernels that are not selected, with shared memory in objects by nvlink.
pub(super) const LATE: &str = "late-kernels-of-objects";

/// The entry about whole programs with symbols of shared variables.
pub(super) const SANITIZED: &str = "whole-program-sanitized";

/// What both linkers say of shared variables that kernels of whole programs reach.
pub(super) const CLASH: &str = "with partially linked kernel";

/// The first release that counts shared memory without a variable, except for a debugger.
const COUNTS: &str = "13.4";

/// True for a link of `compiled` in several steps in which nvlink loses the shared memory of whole
/// programs.
pub(super) fn may_lack_shared(tools: &Tools, options: &[String], compiled: &[Vec<u8>]) -> bool {
    let for_debugger = options.iter().any(|word| word == "-g" || word == "--debug");
    let loses = tools.oracle.release().name < COUNTS || for_debugger;
    loses && is_any_whole_program(compiled)
}

/// True when one of the files is a whole program with symbols of shared variables.
///
/// # Errors
/// When it cannot be read.
pub(super) fn has_placed(compiled: &[Vec<u8>]) -> Result<bool> {
    for file in compiled.iter().filter(|file| is_whole_program(file)) {
        let symbols = Cubin::parse(file)?.symbols;
        if symbols.iter().any(|s| s.is_shared() && s.size > 0 && s.defined_in().is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// True when one of the files is a whole program with Mercury: nvlink writes code of objects that
/// were made of it anew (docs/DIFFERENCES.md, finalized-objects).
pub(super) fn has_mercury(compiled: &[Vec<u8>]) -> bool {
    compiled.iter().any(|file| is_whole_program(file) && mercury::applies(file))
}

/// True when all lines of a difference of two objects are about shared memory of kernels: `what` is
/// in the form of culd-diff.
pub(super) fn is_about_shared(what: &str) -> bool {
    let is_shared = |line: &str| {
        let (key, rest) = line.split_once("  ").unwrap_or_default();
        // A string is named after its table.
        let name = rest.strip_prefix(".strtab ").or(rest.strip_prefix(".shstrtab "));
        let name = name.filter(|_| key.starts_with("string.")).unwrap_or(rest);
        let symbol = rest.strip_prefix("mercury ").unwrap_or(rest);
        let name = if key.starts_with("symbol.") { symbol } else { name };
        let counts = [".symtab ", ".nv.merc.symtab ", ".strtab ", ".shstrtab "];
        name.starts_with(".nv.shared.")
            || key == "header" && rest.starts_with("sections ")
            || key == "section.size" && counts.iter().any(|table| rest.starts_with(table))
            || key == "section.info" && rest.starts_with(".symtab ")
            || key == "symbol.value" && symbol.starts_with("\"\" ")
    };
    what.lines().all(is_shared)
}

/// True for a release that counts shared memory without a variable.
pub(super) fn counts_bare(tools: &Tools) -> bool {
    tools.oracle.release().name >= COUNTS
}

/// The kernels' shared sections with a size in which no variable of `cubin` is.
fn bare_sections<'c, 'd>(
    cubin: &'c Cubin<'d>,
) -> impl Iterator<Item = (SectionIndex, &'c Section<'d>)> {
    let used = |index: SectionIndex| {
        let mut symbols = cubin.symbols.iter().filter(|symbol| symbol.kind() != stt::SECTION);
        symbols.any(|symbol| symbol.defined_in() == Some(index))
    };
    cubin.section_indices().filter(move |&(index, section)| {
        let shared = section.sh_type == sht::CUDA_SHARED && section.info_section().is_some();
        shared && section.size != 0 && !used(index)
    })
}

/// The names of such sections.
pub(super) fn bare_shared(cubin: &Cubin<'_>) -> Vec<Vec<u8>> {
    bare_sections(cubin).map(|(_, section)| section.name.to_vec()).collect()
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
    let bare: Vec<usize> = bare_sections(&cubin).map(|(index, _)| index.0 as usize).collect();
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
