//! Compares linked cubins of sm_100 and later, in which nvlink's finalizer wrote the code of some kernels again and culd
//! kept the objects' (docs/DIFFERENCES.md, kept-code).
//!
//! In: what nvlink and culd made of the same objects. Out: how many kernels are of which class, or where the files part.
//! Guaranteed: the class of a kernel follows from culd's output and the inputs alone, never from what differs;
//! outside of the kernels that may differ every byte counts, but for what `listed` and `copies` name, which is counted.
//!
//! | class | which kernels | what may differ |
//! |---|---|---|
//! | control | makes no call, has no frame | bits 105 to 121 of the 16-byte words of its code |
//! | rewritten | makes no call, and has a word that starts `84 f9 ff ff` or was compiled with -g for a link without; or was compiled without -g, for a link with -g or beside an object with; error barriers at exits: all kernels without a call, and code without such barriers | its code, and what counts it: `counts` lists it |
//! | later | has `ATTRIBUTE_6B`: compiled by a later ptxas | as above, `ANNOTATIONS` too, and the attribute |
//! | kept | all others, and every function that is no kernel | nothing |

mod classes;
pub(super) mod consistent;
pub(super) mod copies;
mod counts;
mod inputs;
pub(super) mod listed;

pub use classes::Classes;
pub(super) use classes::{has_barriers, lacks_barrier};
pub use inputs::Inputs;

use super::deliberate::unified::{list_is_longer, words_of_slots};
use super::own_note;
use classes::{Class, Kernel};
use counts::{Allowed, Anew};
use culd_cubin::elf::sht;
use culd_cubin::raw::SectionHeader;
use culd_inspect::text::{Options, dump};
use culd_inspect::view::View;
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

/// The bits of an instruction that tell the hardware when it may start.
const CONTROL: Range<u32> = 105..122;

/// True for cubins whose code nvlink may have written again.
pub fn applies(bytes: &[u8]) -> bool {
    View::parse(bytes).is_ok_and(|view| view.cubin.header.sm() >= 100)
}

/// True for an object in which several functions have one name: nvlink gives all of them the relocations of the first
/// (docs/DIFFERENCES.md, equal-names-of-objects).
pub(super) fn has_equal_names(object: &[u8]) -> bool {
    applies(object) && View::parse(object).is_ok_and(|view| copies::has_equal_names(&view))
}

/// Compares what nvlink made with what culd made of `inputs`.
///
/// # Errors
/// Where the files part although they should not, or where culd's contradicts itself.
pub fn compare(expected: &[u8], actual: &[u8], inputs: &Inputs) -> Result<Classes, String> {
    let ours = View::parse(actual).map_err(|error| format!("culd's output: {error}"))?;
    let theirs = View::parse(expected).map_err(|error| format!("nvlink's output: {error}"))?;
    let kernels = classes::kernels(&ours, &theirs, inputs);
    let control = kernels.iter().filter(|kernel| kernel.class == Class::Control);
    let control = control.map(|kernel| kernel.section).chain(classes::slots(&ours, inputs));
    let control: Vec<usize> = control.collect();
    let mut masked = (masked(&theirs, &control), masked(&ours, &control));
    let mut classes = Classes::count(&kernels, &theirs, &ours);
    if listed::tables(&theirs, &mut masked.0) != listed::tables(&ours, &mut masked.1) {
        classes.listed.insert("jump-tables-of-replaced", 1);
    }
    if copies::clear_equal_names(&theirs, &mut masked.0)
        != copies::clear_equal_names(&ours, &mut masked.1)
    {
        classes.listed.insert("registers-of-equal-names", 1);
    }
    if copies::clear_resolved(&theirs, &mut masked.0)
        != copies::clear_resolved(&ours, &mut masked.1)
    {
        classes.listed.insert("resolved-of-equal-names", 1);
    }
    if listed::family((&theirs, &ours), inputs, expected, &mut masked.1) {
        classes.listed.insert("family-of-dead-code", 1);
    }
    let rewritten: Vec<&Kernel> = kernels.iter().filter(|kernel| kernel.class.is_anew()).collect();
    let sections: Vec<usize> = rewritten.iter().map(|kernel| kernel.section).collect();
    listed::labels(&theirs, &sections, &mut masked.0);
    listed::labels(&ours, &sections, &mut masked.1);
    if let Some(stray) = listed::stray(&ours, &sections) {
        return Err(format!("contradiction: {stray}"));
    }
    if let Some(defect) = consistent::defect(&ours, &sections) {
        return Err(format!("contradiction: {defect}"));
    }
    let rewritten: Vec<Anew<'_>> = rewritten.into_iter().map(Anew::of).collect();
    let copies = copies::all(&ours, inputs);
    let words = has_slots(&theirs).then(|| words_of_slots(expected)).flatten();
    if let Some(what) = super::cubins(&masked.0, &masked.1) {
        let moved = !(rewritten.is_empty() && copies.is_empty());
        if !moved && words.is_none() {
            return Err(what);
        }
        if elsewhere(&masked.0, &masked.1, (&rewritten, &copies), words)? {
            classes.listed.insert("externs-of-slots", 1);
        } else if !moved {
            return Err(what);
        }
        if rewritten.is_empty() && moved {
            classes.listed.insert("debug-of-replaced", 1);
        }
    }
    Ok(classes)
}

/// The bytes of a file without the control bits of the sections `control`.
fn masked(view: &View<'_>, control: &[usize]) -> Vec<u8> {
    let mut bytes = view.data.to_vec();
    for raw in control.iter().filter_map(|&index| view.tables.sections.get(index)) {
        let (start, end) = (raw.offset as usize, raw.offset.saturating_add(raw.size) as usize);
        let Some(code) = bytes.get_mut(start..end) else { continue };
        for word in code.chunks_exact_mut(16) {
            CONTROL.for_each(|bit| {
                if let Some(byte) = word.get_mut(bit as usize / 8) {
                    *byte &= !(1 << (bit % 8));
                }
            });
        }
    }
    if let Some(own) = own_note(&bytes)
        && let Some(own) = bytes.get_mut(own)
    {
        own.fill(0);
    }
    bytes
}

/// True for a program with a table of jump slots.
fn has_slots(view: &View<'_>) -> bool {
    view.cubin.sections.iter().any(|section| section.sh_type == sht::CUDA_UFT)
}

/// Compares the text forms but for what counts the code of `rewritten`, or is told of `copies`, and the words that nvlink
/// forgets beside slots; whether there are any. The text form holds every byte but offsets that follow from the sizes of what
/// is in front, so it can be compared where sizes differ.
fn elsewhere(
    theirs: &[u8],
    ours: &[u8],
    (rewritten, copies): (&[Anew<'_>], &HashSet<Vec<u8>>),
    words: Option<BTreeSet<String>>,
) -> Result<bool, String> {
    let blocks = |bytes: &[u8]| {
        let view = View::parse(bytes).map_err(|error| error.to_string())?;
        let allowed = Allowed { rewritten, copies, told: copies::told(&view, copies) };
        // Whether the table of sections is at a multiple of 8 depends on the size of code (CUDA 13.5).
        let text = dump(&view, &Options::default()).replacen(" section_table=end", "", 1);
        let text = without_gaps(&view, &text);
        Ok::<_, String>(counts::blocks(&text, &allowed))
    };
    let (mut expected, actual) = (blocks(theirs)?, blocks(ours)?);
    let mut stray = false;
    if let Some(words) = words {
        let (theirs, ours) = (View::parse(theirs), View::parse(ours));
        let (Ok(theirs), Ok(ours)) = (theirs, ours) else { return Err("no ELF file".to_owned()) };
        let longer = |list: &str| {
            list.ends_with(".nv.info..nv.uft") && list_is_longer(&theirs, &ours, list, &words)
        };
        stray = counts::without_externs(&mut expected, &actual, &words, longer);
    }
    counts::difference(&expected, &actual).map_or(Ok(stray), Err)
}

/// The text form in which segments tell sections that are there, and not how large the gap in front of an aligned section
/// is, which is as large as the code before it leaves it: a segment that starts where memory without bytes lies tells the
/// section with bytes there, one that ends in front of such memory the last section of it.
fn without_gaps(view: &View<'_>, text: &str) -> String {
    let sections = || view.tables.sections.iter().zip(&view.sections).skip(1);
    let mut segments = view.tables.segments.iter();
    let lines = text.lines().map(|line| {
        let Some(segment) = line.strip_prefix("segment ").and_then(|_| segments.next()) else {
            return line.to_owned();
        };
        let end = segment.offset.wrapping_add(segment.file_size);
        let has_bytes = |raw: &SectionHeader| raw.sh_type != sht::NOBITS && raw.size != 0;
        let first = sections().find(|(raw, _)| raw.offset == segment.offset && has_bytes(raw));
        let mut next =
            sections().filter(|(raw, _)| raw.sh_type == sht::NOBITS && raw.offset == end);
        let next = next.next_back().filter(|_| segment.memory_size != segment.file_size);
        let words = line.split(' ').map(|word| match (word.split_once('='), first, next) {
            (Some(("start", place)), Some((_, name)), _) if place != "*PHDR*" => {
                format!("start={name}")
            }
            (Some(("size", _)), _, Some((_, name))) => format!("before={name}"),
            (Some(("memory", _)), _, Some(_)) => {
                format!("more={:#x}", segment.memory_size.wrapping_sub(segment.file_size))
            }
            _ => word.to_owned(),
        });
        words.collect::<Vec<_>>().join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
