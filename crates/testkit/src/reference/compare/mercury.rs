//! Compares linked cubins of sm_100 and later. nvlink's finalizer rewrites the code of some
//! kernels; culd keeps the code of the objects (docs/DIFFERENCES.md, kept-code).
//!
//! In: the outputs of nvlink and culd for the same objects. Out: the number of kernels of each
//! class, or the first difference. Guaranteed: the class of a kernel follows from culd's output and
//! the inputs alone, never from the difference. Outside the kernels that may differ every byte
//! counts, except bytes that `listed` and `copies` name; those are counted.
//!
//! | class | which kernels | what may differ |
//! |---|---|---|
//! | control | `finalizer` allocates their barriers again | bits 105 to 121 of the 16-byte words of its code |
//! | fences | `finalizer` makes their code shorter | the same bits; all else is as `finalizer` says, debug information aside |
//! | rewritten | makes no call and was compiled with -g for a link without; or was compiled without -g, for a link with -g or beside an object with; error barriers at exits: all kernels without a call, and code without such barriers | its code, and what counts it: `counts` lists it |
//! | later | has `ATTRIBUTE_6B`: compiled by a later ptxas | as above, `ANNOTATIONS` too, and the attribute |
//! | kept | all others, and every function that is no kernel | nothing |

mod classes;
mod compiled;
pub(super) mod consistent;
pub(super) mod copies;
mod counts;
mod finalizer;
mod inputs;
pub(super) mod listed;

pub use classes::{Classes, Directions};
pub(super) use classes::{has_barriers, lacks_barrier};
pub use inputs::LinkObjects;

use super::deliberate::unified::{list_is_longer, words_of_slots};
use super::{TOOL_NOTE, own_note};
use classes::{ClassifiedKernel, CodeClass};
use copies::OtherFunctions;
use counts::{AllowedDifferences, RewrittenFunction};
use culd_cubin::capmerc::Capsule;
use culd_cubin::elf::sht;
use culd_cubin::raw::SectionHeader;
use culd_cubin::{Cubin, Section};
use culd_inspect::text::{DumpOptions, dump};
use culd_inspect::view::View;
use finalizer::ShortenedCode;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The bits of an instruction that say when the hardware may start it.
const CONTROL: Range<u32> = 105..122;

/// True for cubins whose code nvlink may have rewritten.
pub fn applies(bytes: &[u8]) -> bool {
    View::parse(bytes).is_ok_and(|view| view.cubin.header.sm() >= 100)
}

/// True for an object in which several functions have one name: nvlink gives all of them the
/// relocations of the first (docs/DIFFERENCES.md, equal-names-of-objects).
pub(super) fn has_equal_names(object: &[u8]) -> bool {
    applies(object) && View::parse(object).is_ok_and(|view| copies::has_equal_names(&view))
}

/// True for an object of a linker with code that is none of the `compiled` objects': nvlink writes
/// some code anew (docs/DIFFERENCES.md, kept-code).
pub(super) fn is_written_anew(object: &[u8], compiled: &[Vec<u8>]) -> bool {
    let Some(object) = Cubin::parse(object).ok().filter(|_| applies(object)) else { return false };
    let inputs = LinkObjects::of(&[], compiled);
    object.symbols.iter().filter(|symbol| symbol.is_function()).any(|symbol| {
        let code = symbol.defined_in().and_then(|at| object.section(at));
        let own = code.filter(|code| code.name.strip_prefix(b".text.") == Some(symbol.name));
        own.is_some_and(|own| inputs.compiled().difference(symbol.name, own.data).is_some())
    })
}

/// Compares nvlink's output with culd's for `inputs`.
///
/// # Errors
/// When the files differ but should not, or when culd's contradicts itself.
pub fn compare(expected: &[u8], actual: &[u8], inputs: &LinkObjects) -> Result<Classes, String> {
    let ours = View::parse(actual).map_err(|error| format!("culd's output: {error}"))?;
    let theirs = View::parse(expected).map_err(|error| format!("nvlink's output: {error}"))?;
    let kernels = classes::kernels(&ours, &theirs, inputs);
    let mut classes = Classes::count(&kernels, &theirs, &ours);
    let mut masked = masked_both((&theirs, &ours), &kernels, inputs);
    classes.listed = clear_listed((&theirs, &ours), inputs, &mut masked);
    let rewritten: Vec<&ClassifiedKernel> =
        kernels.iter().filter(|kernel| !kernel.class.has_length()).collect();
    let sections: Vec<usize> = rewritten.iter().map(|kernel| kernel.section).collect();
    if let Some(stray) = listed::stray(&ours, &sections) {
        return Err(format!("contradiction: {stray}"));
    }
    if let Some(defect) = consistent::defect(&ours, &sections) {
        return Err(format!("contradiction: {defect}"));
    }
    let other = |kernel: &ClassifiedKernel| {
        other_code(kernel, &theirs, &ours).or_else(|| changed_code(kernel, inputs, &ours))
    };
    if let Some((kernel, what)) = kernels.iter().find_map(|kernel| Some((kernel, other(kernel)?))) {
        return Err(format!(".text.{}{what}", kernel.name));
    }
    let code = |kernel: &&ClassifiedKernel| ours.cubin.sections.get(kernel.section);
    let name = |code: &Section<'_>| code.name.strip_prefix(b".text.").map(<[u8]>::to_vec);
    let anew = rewritten.iter().filter_map(code).filter_map(name).collect();
    let others = OtherFunctions { copies: copies::all(&ours, inputs), anew };
    let rewritten: Vec<RewrittenFunction<'_>> =
        rewritten.into_iter().map(RewrittenFunction::of).collect();
    let words = has_slots(&theirs).then(|| words_of_slots(expected)).flatten();
    let stand_in = is_of_stand_in(expected);
    if let Some(what) = super::cubins(&masked.0, &masked.1) {
        let moved = !others.is_empty() || stand_in;
        if !moved && words.is_none() {
            return Err(what);
        }
        if elsewhere(&masked.0, &masked.1, (&rewritten, &others), words, stand_in)? {
            classes.listed.insert("externs-of-slots", 1);
        } else if !moved {
            return Err(what);
        }
        if rewritten.is_empty() && !others.is_empty() && !stand_in {
            classes.listed.insert("debug-of-replaced", 1);
        }
    }
    Ok(classes)
}

/// True for a file of libnvJitLink where it stands in for nvlink: its own record has other strings,
/// of another length, so all later places differ.
fn is_of_stand_in(bytes: &[u8]) -> bool {
    const NAME: &[u8] = b"nvJIT API";
    let own = own_note(bytes).and_then(|own| bytes.get(own));
    own.is_some_and(|own| own.windows(NAME.len()).any(|text| text == NAME))
}

/// The bytes of both files without the control bits that may differ. Places in code are those of
/// nvlink's file, or cleared if unknown.
fn masked_both(
    (theirs, ours): (&View<'_>, &View<'_>),
    kernels: &[ClassifiedKernel],
    inputs: &LinkObjects,
) -> (Vec<u8>, Vec<u8>) {
    let control = kernels.iter().filter(|kernel| kernel.class == CodeClass::Control);
    let control = control.map(|kernel| kernel.section).chain(classes::slots(ours, inputs));
    let control: Vec<usize> = control.collect();
    let mut masked = (masked(theirs, &control), masked(ours, &control));
    for kernel in kernels {
        let section = [kernel.section];
        match &kernel.class {
            CodeClass::Kept | CodeClass::Control => {}
            CodeClass::Fences(shortened) => {
                listed::move_labels(ours, &section, &mut masked.1, |label| shortened.place(label));
            }
            CodeClass::Rewritten | CodeClass::Later => {
                listed::labels(theirs, &section, &mut masked.0);
                listed::labels(ours, &section, &mut masked.1);
            }
        }
    }
    masked
}

/// Clears in both files, or makes equal, bytes that docs/DIFFERENCES.md lists. Returns the keys of
/// those that differed.
fn clear_listed(
    (theirs, ours): (&View<'_>, &View<'_>),
    inputs: &LinkObjects,
    masked: &mut (Vec<u8>, Vec<u8>),
) -> BTreeMap<&'static str, usize> {
    type Clear = fn(&View<'_>, &mut [u8]) -> Vec<u8>;
    let cleared: [(&str, Clear); 4] = [
        ("jump-tables-of-replaced", |view, bytes| listed::tables(view, bytes).concat()),
        ("registers-of-equal-names", copies::clear_equal_names),
        ("resolved-of-equal-names", copies::clear_resolved),
        ("frames-of-whole-programs", |view, bytes| listed::inner_frames(view, bytes).concat()),
    ];
    let mut found = BTreeMap::new();
    for (key, clear) in cleared {
        if clear(theirs, &mut masked.0) != clear(ours, &mut masked.1) {
            found.insert(key, 1);
        }
    }
    if copies::clear_units((theirs, ours), masked) {
        found.insert("debug-of-replaced", 1);
    }
    if listed::family((theirs, ours), inputs, &masked.0, &mut masked.1) {
        found.insert("family-of-dead-code", 1);
    }
    found
}

/// The first place where code is not the finalizer's output for `kernel`.
fn other_code(kernel: &ClassifiedKernel, theirs: &View<'_>, ours: &View<'_>) -> Option<String> {
    let code = theirs.cubin.sections.get(kernel.section)?;
    match &kernel.class {
        CodeClass::Control if !finalizer::loads_stack_for_nobody(code.data) => {
            Some(": nvlink keeps the barrier of R1, which nobody reads".to_owned())
        }
        CodeClass::Fences(shortened) => shortened
            .difference(code.data)
            .or_else(|| other_capsule(kernel, shortened, theirs, ours)),
        _ => None,
    }
}

/// The first place where culd's code of a kernel that may differ from nvlink's is not the
/// compiler's.
fn changed_code(
    kernel: &ClassifiedKernel,
    inputs: &LinkObjects,
    ours: &View<'_>,
) -> Option<String> {
    if kernel.class == CodeClass::Kept {
        return None;
    }
    let code = ours.cubin.sections.get(kernel.section)?;
    inputs.compiled().difference(code.name.strip_prefix(b".text.")?, code.data)
}

/// The same for its Mercury code.
fn other_capsule(
    kernel: &ClassifiedKernel,
    shortened: &ShortenedCode,
    theirs: &View<'_>,
    ours: &View<'_>,
) -> Option<String> {
    let mut sections = ours.cubin.sections.iter().zip(&theirs.cubin.sections);
    let (own, their) = sections.find(|(own, _)| {
        let capsule = Capsule::parse(own.name, own.data).ok();
        let capsule = capsule.filter(|_| own.sh_type == sht::MERCURY_CODE);
        capsule.is_some_and(|capsule| capsule.code().0 as usize == kernel.section)
    })?;
    let expected = shortened.capsule(own.name, own.data);
    (expected.as_deref() != Some(their.data))
        .then(|| ": other groups in its Mercury code".to_owned())
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

/// Compares the text forms, except for counts of the code of `rewritten`, debug data of `others`,
/// and the words that nvlink forgets beside slots. True if there are such words. The text form
/// holds every byte but offsets that follow from the sizes of what is in front, so it can be
/// compared where sizes differ.
fn elsewhere(
    theirs: &[u8],
    ours: &[u8],
    (rewritten, others): (&[RewrittenFunction<'_>], &OtherFunctions),
    words: Option<BTreeSet<String>>,
    stand_in: bool,
) -> Result<bool, String> {
    let blocks = |bytes: &[u8], own: bool| {
        let view = View::parse(bytes).map_err(|error| error.to_string())?;
        let allowed = AllowedDifferences {
            own,
            rewritten,
            others,
            debug_lines: copies::debug_lines(&view, others),
        };
        // Whether the table of sections is at a multiple of 8 depends on the size of code (CUDA
        // 13.5).
        let text = dump(&view, &DumpOptions::default()).replacen(" section_table=end", "", 1);
        let text = without_gaps(&view, &text);
        let mut blocks = counts::blocks(&text, &allowed);
        if stand_in {
            blocks.retain(|block| block.section().map(str::as_bytes) != Some(TOOL_NOTE));
        }
        Ok::<_, String>(blocks)
    };
    let (mut expected, actual) = (blocks(theirs, false)?, blocks(ours, true)?);
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

/// The text form in which segments name existing sections, without the gap in front of an aligned
/// section, whose size depends on the code before it. A segment that starts at memory without bytes
/// names the section with bytes behind it; one that ends in front of such memory names the last
/// section of it.
fn without_gaps(view: &View<'_>, text: &str) -> String {
    let sections = || view.tables.sections.iter().zip(&view.sections).skip(1);
    let mut segments = view.tables.segments.iter();
    let lines = text.lines().map(|line| {
        let Some(segment) = line.strip_prefix("segment ").and_then(|_| segments.next()) else {
            return line.to_owned();
        };
        let end = segment.offset.wrapping_add(segment.file_size);
        let has_bytes = |raw: &SectionHeader| raw.sh_type != sht::NOBITS && raw.size != 0;
        // An alignment that is no power of two may leave a gap in front of it.
        let behind = sections().filter(|(raw, _)| raw.offset >= segment.offset && has_bytes(raw));
        let first = behind.min_by_key(|(raw, _)| raw.offset);
        let mut next =
            sections().filter(|(raw, _)| raw.sh_type == sht::NOBITS && raw.offset == end);
        let next = next.next_back().filter(|_| segment.memory_size != segment.file_size);
        let words = line.split(' ').map(|word| match (word.split_once('='), first, next) {
            (Some(("start", place)), Some((_, name)), _) if place != "*PHDR*" => {
                format!("start={name}")
            }
            (Some(("size" | "end", _)), _, Some((_, name))) => format!("before={name}"),
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
