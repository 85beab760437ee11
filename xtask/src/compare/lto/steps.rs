//! Links LTO-IR in two steps: an object, and a program of it and other code.
//!
//! In: rows of two links. Out: the comparison of both; the second link is made with the object of
//! its own linker, and with that of the other.

use super::listed::ListedDifference::{self, Early};
use super::{LtoBench, sources};
use anyhow::Result;

/// A row: the first link, the second, and what may differ in either. `step.cubin` is the object.
type StepRow = (&'static str, &'static str, &'static [ListedDifference]);

const ROWS: &[StepRow] = &[
    ("-r a.o b.o -lcudadevrt", "step.cubin cs.o -lcudadevrt", &[]),
    ("-r a.o b.o -lcudadevrt", "step.cubin c.cubin", &[]),
    ("-r a.o b.o -lcudadevrt", "cs.o step.cubin -lcudadevrt", &[]),
    ("-r a.o b.o -lcudadevrt", "-dlto step.cubin c.o -lcudadevrt", &[]),
    ("-r b.o c.o -lcudadevrt", "-dlto a.o step.cubin -lcudadevrt", &[]),
    ("-r a.o b.o c.o -lcudadevrt", "step.cubin", &[]),
    ("-r a.o b.o cs.o -lcudadevrt", "step.cubin xs.o", &[]),
    ("-r as.o b.o c.o -lcudadevrt", "step.cubin x.cubin", &[]),
    ("-r a.o bs.o -lcudadevrt", "step.cubin cs.o", &[]),
    ("-r parts.o more.o -lcudadevrt", "step.cubin needss.o -lcudadevrt", &[]),
    ("-r parts.o -lcudadevrt", "step.cubin mores.o needss.o -lcudadevrt", &[]),
    ("-r parts.o -lcudadevrt", "-dlto step.cubin more.o needs.o -lcudadevrt", &[]),
    ("-r parts.o mores.o -lcudadevrt", "step.cubin needss.o -lcudadevrt", &[]),
    ("-r child.o -lcudadevrt", "step.cubin xs.o -lcudadevrt", &[]),
    ("-r child.o x.o -lcudadevrt", "-dlto step.cubin y.o -lcudadevrt", &[]),
    ("-r calls.o x.o -lcudadevrt", "step.cubin ys.o -lcudadevrt", &[]),
    ("-r fast.o slow.o -lcudadevrt", "step.cubin xs.o -lcudadevrt", &[]),
    ("-r host.o x.o -lcudadevrt", "step.cubin guests.o -lcudadevrt", &[]),
    ("-r -g a.o b.o -lcudadevrt", "-g step.cubin cs.o -lcudadevrt", &[]),
    ("-r -maxrregcount=24 parts.o more.o -lcudadevrt", "step.cubin needss.o -lcudadevrt", &[]),
];

/// The name of the object.
pub(super) const OBJECT: &str = "step.cubin";

pub(super) fn run(bench: &mut LtoBench) -> Result<()> {
    for (first, second, listed) in ROWS {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
        let (first, mut second) = (words(first), words(second));
        for word in first.iter().chain(&second) {
            sources::make(&bench.tools.oracle, &bench.arch, &bench.folder, word)?;
        }
        let fixed = bench.fixed(true)?;
        let Some([theirs, ours]) = bench.compare_with(&fixed, "steps, -r", &first, listed)? else {
            continue;
        };
        let lto = second.iter().any(|word| word == "-dlto");
        second.retain(|word| word != "-dlto");
        let fixed = bench.fixed(lto)?;
        let listed: Vec<ListedDifference> = listed.iter().copied().chain([Early]).collect();
        for (kind, steps) in [
            ("steps, culd's object", [&ours, &ours]),
            ("steps, each its own object", [&theirs, &ours]),
            ("steps, nvlink's object", [&theirs, &theirs]),
        ] {
            bench.steps = steps.map(Clone::clone).to_vec();
            let made = bench.compare_with(&fixed, kind, &second, &listed);
            bench.steps.clear();
            if let (None, Some([program, _])) = (&bench.sound, made?) {
                bench.sound = Some([ours.clone(), program]);
            }
        }
        bench.sound = None;
    }
    Ok(())
}
