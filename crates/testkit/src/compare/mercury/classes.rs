//! Which kernels nvlink's finalizer writes again.
//!
//! In: a linked cubin, and what its inputs tell. Out: its kernels with their classes. The rules were found
//! with 2,640 functions of random programs, sm_100 and sm_120, without optimization to -O3, with -g and -lineinfo: every
//! kernel without a call that has the word was written again, no other was; a kernel with a frame kept its control bits. Kernels
//! compiled without -g were all written again in a link with -g and beside an object compiled with -g, and so were functions that
//! are no kernels but can end a thread; kernels compiled with -g in a link without only when they made no call.

use culd_cubin::attr::{Records, code};
use culd_cubin::callgraph::{self, Edge};
use culd_cubin::elf::sht;
use culd_cubin::{Cubin, Section, SectionIndex, SymbolIndex};
use culd_inspect::view::View;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::ops::AddAssign;

use super::consistent::exits_in;
use super::inputs::Inputs;

/// Type of the relocation of a call, `R_CUDA_ABS55_16_34`.
const CALL: u32 = 75;
/// How a word starts that ptxas writes around fences, and that the finalizer leaves out.
const FENCE: [u8; 4] = [0x84, 0xf9, 0xff, 0xff];
/// Opcode of a call through a register, the lower 12 bits of a word.
const CALL_REGISTER: u16 = 0x343;
/// Opcode of the last of the error barriers that `-make-errors-visible-at-exit` puts in front of what ends a thread.
const BARRIER: u16 = 0x5ab;

/// What may differ of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Kept,
    Control,
    Rewritten,
    /// Compiled by a later ptxas than the finalizer is of.
    Later,
}

impl Class {
    /// True when the code and what counts it may differ.
    pub(super) fn is_anew(self) -> bool {
        matches!(self, Class::Rewritten | Class::Later)
    }
}

/// A kernel of a linked cubin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kernel {
    /// Index of the section of its code.
    pub(super) section: usize,
    /// The name in that section's, as the text form has it.
    pub(super) name: String,
    pub(super) class: Class,
}

/// How many kernels are of which class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes {
    /// Kernels whose code is the same.
    pub unchanged: usize,
    /// Kernels whose code differs in control bits.
    pub control: usize,
    /// Kernels whose code nvlink writes again.
    pub rewritten: Vec<String>,
    /// Functions of a later ptxas: all of them, and those whose code nvlink writes again.
    pub later: (usize, usize),
    /// Links in which something else differs that docs/DIFFERENCES.md lists, by its keys.
    pub listed: BTreeMap<&'static str, usize>,
}

impl AddAssign for Classes {
    fn add_assign(&mut self, other: Self) {
        self.unchanged += other.unchanged;
        self.control += other.control;
        self.rewritten.extend(other.rewritten);
        self.later.0 += other.later.0;
        self.later.1 += other.later.1;
        for (key, count) in other.listed {
            *self.listed.entry(key).or_default() += count;
        }
    }
}

/// Nothing where there are no kernels of sm_100 and later.
impl fmt::Display for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Classes { unchanged, control, rewritten, later, listed } = self;
        if unchanged + control + rewritten.len() + later.0 == 0 {
            return Ok(());
        }
        writeln!(
            f,
            "kernels of sm_100 and later: {unchanged} unchanged, {control} with other control bits, {} written again",
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
    /// The same, with where they come from before each name.
    pub fn of(&self, program: &str) -> Self {
        let rewritten =
            self.rewritten.iter().map(|kernel| format!("{program}: {kernel}")).collect();
        Classes { rewritten, ..self.clone() }
    }

    /// Counts `kernels` of two files that agree.
    pub(super) fn count(kernels: &[Kernel], theirs: &View<'_>, ours: &View<'_>) -> Self {
        let mut classes = Classes::default();
        for kernel in kernels {
            let code =
                |view: &View<'_>| view.cubin.sections.get(kernel.section).map(|s| s.data.to_vec());
            match kernel.class {
                Class::Rewritten => classes.rewritten.push(kernel.name.clone()),
                Class::Later => {
                    classes.later.0 += 1;
                    classes.later.1 += usize::from(code(theirs) != code(ours));
                }
                Class::Control if code(theirs) != code(ours) => classes.control += 1,
                _ => classes.unchanged += 1,
            }
        }
        classes
    }
}

/// The tables of jump slots, where their control bits may differ: one slot compiled for a debugger or without optimization, or
/// the link for a debugger.
pub(super) fn slots(view: &View<'_>, inputs: &Inputs) -> Vec<usize> {
    let sections = view.cubin.sections.iter().enumerate();
    let tables = sections.filter(|(_, section)| section.sh_type == sht::CUDA_UFT);
    tables.filter(|_| inputs.has_plain_slots()).map(|(index, _)| index).collect()
}

/// The kernels of `view`; `theirs` is what nvlink made.
pub(super) fn kernels(view: &View<'_>, theirs: &View<'_>, inputs: &Inputs) -> Vec<Kernel> {
    let cubin = &view.cubin;
    let (frames, indirect) = (frames(cubin), indirect_callers(cubin));
    let name = |cubin: &Cubin<'_>, index| cubin.section(index).map(|code| code.name.to_vec());
    let known: HashSet<_> =
        later(&theirs.cubin).into_iter().map(|index| name(&theirs.cubin, index)).collect();
    let mut later = later(cubin);
    later.retain(|&index| !known.contains(&name(cubin, index)));
    let mut callers = HashSet::new();
    for section in &cubin.sections {
        let target = section.info_section();
        if let Some(target) =
            target.filter(|_| section.relocations().iter().any(|r| r.kind == CALL))
        {
            callers.insert(target);
        }
    }
    let barriers = has_barriers(cubin);
    let mut kernels = Vec::new();
    for (index, section) in cubin.section_indices().filter(|(_, section)| section.is_code()) {
        let symbol = SymbolIndex(section.info & 0xff_ffff);
        let Some(function) = cubin.symbol(symbol) else { continue };
        if later.contains(&index) {
            kernels.push(kernel(view, index, Class::Later));
            continue;
        }
        if !function.is_entry() {
            let ends = || !exits_in(section.data).is_empty();
            let bare = || barriers && lacks_barrier(section.data);
            if inputs.lacks_debug(function.name) && ends() || bare() {
                kernels.push(kernel(view, index, Class::Rewritten));
            }
            continue;
        }
        // The call graph has the calls of copies that were replaced, too (mercury/replaced-caller).
        let through_pointer = || {
            indirect.contains(&symbol)
                && (!inputs.copies().contains(function.name) || calls_register(section.data))
        };
        let calls = callers.contains(&index) || through_pointer();
        let fence = || section.data.chunks_exact(16).any(|word| word.starts_with(&FENCE));
        let frame = || frames.get(&symbol).is_some_and(|&size| size != 0);
        let class = match () {
            // nvlink's barriers are shorter where it writes the code of a kernel again (mercury/barriers-at-exit).
            () if barriers && (!calls || lacks_barrier(section.data)) => Class::Rewritten,
            () if inputs.rewrites(function.name, calls) => Class::Rewritten,
            () if calls => Class::Kept,
            () if fence() => Class::Rewritten,
            () if frame() => Class::Kept,
            () => Class::Control,
        };
        kernels.push(kernel(view, index, class));
    }
    kernels
}

fn kernel(view: &View<'_>, SectionIndex(number): SectionIndex, class: Class) -> Kernel {
    let name = view.section(number).replacen(".text.", "", 1);
    Kernel { section: number as usize, name, class }
}

/// Code that has an attribute of a later ptxas: it is in no object of 13.0.88 and 13.1, whose nvlink drops it.
fn later(cubin: &Cubin<'_>) -> HashSet<SectionIndex> {
    let lists = cubin.sections.iter().filter(|section| section.sh_type == sht::CUDA_INFO);
    let has = |section: &&Section<'_>| {
        let mut records = Records::new(section.name, section.data).filter_map(Result::ok);
        records.any(|record| record.code == code::ATTRIBUTE_6B)
    };
    // Jump slots are no code of the compiler's choice.
    let slots = |code: &SectionIndex| {
        cubin.section(*code).is_some_and(|code| code.sh_type == sht::CUDA_UFT)
    };
    lists.filter(has).filter_map(Section::info_section).filter(|code| !slots(code)).collect()
}

/// Bytes of the frame of each function.
fn frames(cubin: &Cubin<'_>) -> HashMap<SymbolIndex, u32> {
    let Some(info) = cubin.section_by_name(b".nv.info") else { return HashMap::new() };
    let records = Records::new(info.name, info.data).filter_map(Result::ok);
    let frames = records.filter(|record| record.code == code::FRAME_SIZE);
    frames.filter_map(|record| Some((SymbolIndex(record.word(0)?), record.word(1)?))).collect()
}

/// The operation of an instruction.
fn opcode(word: &[u8]) -> Option<u16> {
    Some(u16::from_le_bytes(*word.first_chunk()?) & 0xfff)
}

/// True for code with a call through a register.
fn calls_register(code: &[u8]) -> bool {
    code.chunks_exact(16).any(|word| opcode(word) == Some(CALL_REGISTER))
}

/// True for a program of which an object was compiled with error barriers in front of what ends a thread.
pub(in crate::compare) fn has_barriers(cubin: &Cubin<'_>) -> bool {
    let Some(info) = cubin.section_by_name(b".nv.info") else { return false };
    let mut records = Records::new(info.name, info.data).filter_map(Result::ok);
    records.any(|record| record.code == code::GEN_ERRBAR_AT_EXIT)
}

/// True for code that ends a thread somewhere without such a barrier.
pub(in crate::compare) fn lacks_barrier(code: &[u8]) -> bool {
    exits_in(code).into_iter().any(|exit| {
        let before = (exit as usize).checked_sub(16).and_then(|at| code.get(at..));
        before.and_then(opcode) != Some(BARRIER)
    })
}

/// Functions that call through a pointer, as the call graph says.
fn indirect_callers(cubin: &Cubin<'_>) -> HashSet<SymbolIndex> {
    let Some(graph) = cubin.section_by_name(b".nv.callgraph") else { return HashSet::new() };
    let edges = callgraph::edges(graph).filter_map(Result::ok);
    let caller = |(_, edge)| match edge {
        Edge::IndirectCall { function, .. } => Some(function),
        _ => None,
    };
    edges.filter_map(caller).collect()
}
