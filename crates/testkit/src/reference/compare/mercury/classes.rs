//! Finds the kernels that nvlink's finalizer rewrites.
//!
//! In: a linked cubin, and facts about its inputs. Out: its kernels with their classes. The rules
//! come from 2,640 functions of random programs for sm_100 and sm_120, from -O0 to -O3, with -g and
//! -lineinfo. Every kernel without a call that has the word was rewritten, no other was. A kernel
//! with a frame kept its control bits. In a link with -g, or with an object compiled with -g, all
//! kernels compiled without -g were rewritten, and so were other functions that can end a thread.
//! In a link without -g, kernels compiled with -g were rewritten only if they made no call.

use culd_cubin::attr::{Records, code};
use culd_cubin::elf::sht;
use culd_cubin::{Cubin, Section, SectionIndex, SymbolIndex};
use culd_inspect::view::View;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::ops::AddAssign;

use super::consistent::exits_in;
use super::finalizer::{Finalized, ShortenedCode, branches, calls, finalized};
use super::inputs::LinkObjects;

/// Opcode of the last of the error barriers that `-make-errors-visible-at-exit` puts in front of an
/// instruction that ends a thread.
const BARRIER: u16 = 0x5ab;

/// The allowed differences of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CodeClass {
    Kept,
    /// Its control bits.
    Control,
    /// Code is left out around fences.
    Fences(ShortenedCode),
    /// All of its code.
    Rewritten,
    /// Compiled by a ptxas later than the finalizer.
    Later,
}

impl CodeClass {
    /// True if the code has the same length in both files.
    pub(super) fn has_length(&self) -> bool {
        matches!(self, CodeClass::Kept | CodeClass::Control)
    }
}

/// A kernel of a linked cubin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClassifiedKernel {
    /// Index of the section of its code.
    pub(super) section: usize,
    /// The function's name in that of the section, as in the text form.
    pub(super) name: String,
    pub(super) class: CodeClass,
}

/// The number of kernels of each class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes {
    /// Kernels whose code is the same.
    pub unchanged: usize,
    /// Kernels whose code differs in control bits.
    pub control: usize,
    /// Kernels whose code nvlink makes shorter around fences.
    pub fences: usize,
    /// Functions whose code nvlink rewrites.
    pub rewritten: Vec<String>,
    /// Functions of a later ptxas: all of them, and those that nvlink rewrites.
    pub later: (usize, usize),
    /// Links with other differences that docs/DIFFERENCES.md lists, by key.
    pub listed: BTreeMap<&'static str, usize>,
    /// Links of objects that a linker made, by linker.
    pub directions: BTreeMap<&'static str, Directions>,
}

/// The results of the links of some objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directions {
    /// Both linkers wrote the same.
    pub identical: usize,
    /// Both reported the same errors.
    pub same_error: usize,
    /// They differ as docs/DIFFERENCES.md lists.
    pub listed: usize,
    /// culd reports that nvlink has resolved too much (early-relocations).
    pub refused: usize,
    /// Of these, programs of nvlink's without a known fault.
    pub needless: usize,
    /// nvlink crashed or reported an internal error.
    pub no_verdict: usize,
}

impl AddAssign for Directions {
    fn add_assign(&mut self, other: Self) {
        self.identical += other.identical;
        self.same_error += other.same_error;
        self.listed += other.listed;
        self.refused += other.refused;
        self.needless += other.needless;
        self.no_verdict += other.no_verdict;
    }
}

impl fmt::Display for Directions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Directions { identical, same_error, listed, refused, needless, no_verdict } = self;
        let links = identical + same_error + listed + refused + no_verdict;
        write!(
            f,
            "{links} | {identical} | {same_error} | {listed} | {refused} | {needless} | {no_verdict}"
        )
    }
}

impl AddAssign for Classes {
    fn add_assign(&mut self, other: Self) {
        self.unchanged += other.unchanged;
        self.control += other.control;
        self.fences += other.fences;
        self.rewritten.extend(other.rewritten);
        self.later.0 += other.later.0;
        self.later.1 += other.later.1;
        for (row, counts) in other.directions {
            *self.directions.entry(row).or_default() += counts;
        }
        for (key, count) in other.listed {
            *self.listed.entry(key).or_default() += count;
        }
    }
}

/// Prints nothing if there are no kernels of sm_100 and later.
impl fmt::Display for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Classes { unchanged, control, fences, rewritten, later, listed, directions } = self;
        if !directions.is_empty() {
            writeln!(
                f,
                "\n| object by | links | identical | same error | listed | refused | of these needless | no verdict |"
            )?;
            writeln!(f, "|---{}|", "|--:".repeat(7))?;
            directions.iter().try_for_each(|(row, counts)| writeln!(f, "| {row} | {counts} |"))?;
            writeln!(f)?;
        }
        if unchanged + control + fences + rewritten.len() + later.0 == 0 {
            return Ok(());
        }
        writeln!(
            f,
            "kernels of sm_100 and later: {unchanged} unchanged, {control} with other control bits, {fences} with shorter \
             code around fences, {} written again",
            rewritten.len()
        )?;
        rewritten.iter().try_for_each(|kernel| writeln!(f, "  written again: {kernel}"))?;
        if let (all @ 1.., anew) = later {
            writeln!(f, "functions of a later ptxas: {all}, of which {anew} written again")?;
        }
        listed
            .iter()
            .try_for_each(|(key, count)| writeln!(f, "{count} links differ as listed: {key}"))
    }
}

impl Classes {
    /// The same, with the program before each name.
    pub fn of(&self, program: &str) -> Self {
        let rewritten =
            self.rewritten.iter().map(|kernel| format!("{program}: {kernel}")).collect();
        Classes { rewritten, ..self.clone() }
    }

    /// Counts `kernels` of two files that agree.
    pub(super) fn count(kernels: &[ClassifiedKernel], theirs: &View<'_>, ours: &View<'_>) -> Self {
        let mut classes = Classes::default();
        for kernel in kernels {
            let code =
                |view: &View<'_>| view.cubin.sections.get(kernel.section).map(|s| s.data.to_vec());
            match kernel.class {
                CodeClass::Kept => classes.unchanged += 1,
                CodeClass::Control => classes.control += 1,
                CodeClass::Fences(_) => classes.fences += 1,
                CodeClass::Rewritten => classes.rewritten.push(kernel.name.clone()),
                CodeClass::Later => {
                    classes.later.0 += 1;
                    classes.later.1 += usize::from(code(theirs) != code(ours));
                }
            }
        }
        classes
    }
}

/// The tables of jump slots, where their control bits may differ: one slot compiled for a debugger
/// or without optimization, or the link for a debugger.
pub(super) fn slots(view: &View<'_>, inputs: &LinkObjects) -> Vec<usize> {
    let sections = view.cubin.sections.iter().enumerate();
    let tables = sections.filter(|(_, section)| section.sh_type == sht::CUDA_UFT);
    tables.filter(|_| inputs.has_plain_slots()).map(|(index, _)| index).collect()
}

/// The kernels of `view`; `theirs` is what nvlink made.
pub(super) fn kernels(
    view: &View<'_>,
    theirs: &View<'_>,
    inputs: &LinkObjects,
) -> Vec<ClassifiedKernel> {
    let cubin = &view.cubin;
    let name = |cubin: &Cubin<'_>, index| cubin.section(index).map(|code| code.name.to_vec());
    let known: HashSet<_> =
        later(&theirs.cubin).into_iter().map(|index| name(&theirs.cubin, index)).collect();
    let mut later = later(cubin);
    later.retain(|&index| !known.contains(&name(cubin, index)));
    let barriers = has_barriers(cubin);
    let of_cuda_12 = theirs.cubin.section_by_name(b".note.nv.cuver").is_some();
    let mut kernels = Vec::new();
    for (index, section) in cubin.section_indices().filter(|(_, section)| section.is_code()) {
        let symbol = SymbolIndex(section.info & 0xff_ffff);
        let Some(function) = cubin.symbol(symbol) else { continue };
        if later.contains(&index) {
            kernels.push(kernel(view, index, CodeClass::Later));
            continue;
        }
        if !function.is_entry() {
            let ends = || !exits_in(section.data).is_empty();
            let bare = || barriers && lacks_barrier(section.data);
            if inputs.lacks_debug(function.name) && ends() || bare() {
                kernels.push(kernel(view, index, CodeClass::Rewritten));
            }
            continue;
        }
        let calls = calls(section.data);
        let class = match () {
            // nvlink's barriers are shorter if it rewrites the code of a kernel
            // (mercury/barriers-at-exit).
            () if barriers && (!calls || lacks_barrier(section.data)) => CodeClass::Rewritten,
            () if inputs.rewrites(function.name, calls) => CodeClass::Rewritten,
            () => match finalized(section.data) {
                Finalized::Same => CodeClass::Kept,
                Finalized::Barriers if of_cuda_12 && branches(section.data) => CodeClass::Kept,
                Finalized::Barriers => CodeClass::Control,
                Finalized::Shortened(shortened) => CodeClass::Fences(shortened),
            },
        };
        kernels.push(kernel(view, index, class));
    }
    kernels
}

fn kernel(
    view: &View<'_>,
    SectionIndex(number): SectionIndex,
    class: CodeClass,
) -> ClassifiedKernel {
    let name = view.section(number).replacen(".text.", "", 1);
    ClassifiedKernel { section: number as usize, name, class }
}

/// Code with an attribute of a later ptxas. No object of 13.0.88 and 13.1 has it, and their nvlink
/// drops it.
fn later(cubin: &Cubin<'_>) -> HashSet<SectionIndex> {
    let lists = cubin.sections.iter().filter(|section| section.sh_type == sht::CUDA_INFO);
    let has = |section: &&Section<'_>| {
        let mut records = Records::new(section.name, section.data).filter_map(Result::ok);
        records.any(|record| record.code == code::ATTRIBUTE_6B)
    };
    // The compiler does not choose the code of jump slots.
    let slots = |code: &SectionIndex| {
        cubin.section(*code).is_some_and(|code| code.sh_type == sht::CUDA_UFT)
    };
    lists.filter(has).filter_map(Section::info_section).filter(|code| !slots(code)).collect()
}

/// The operation of an instruction.
fn opcode(word: &[u8]) -> Option<u16> {
    Some(u16::from_le_bytes(*word.first_chunk()?) & 0xfff)
}

/// True for a program with an object that was compiled with error barriers in front of instructions
/// that end a thread.
pub(in crate::reference::compare) fn has_barriers(cubin: &Cubin<'_>) -> bool {
    let Some(info) = cubin.section_by_name(b".nv.info") else { return false };
    let mut records = Records::new(info.name, info.data).filter_map(Result::ok);
    records.any(|record| record.code == code::GEN_ERRBAR_AT_EXIT)
}

/// True for code that ends a thread somewhere without such a barrier.
pub(in crate::reference::compare) fn lacks_barrier(code: &[u8]) -> bool {
    exits_in(code).into_iter().any(|exit| {
        let before = (exit as usize).checked_sub(16).and_then(|at| code.get(at..));
        before.and_then(opcode) != Some(BARRIER)
    })
}
