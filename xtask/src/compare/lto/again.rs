//! Links that culd makes several times: the output is the same each time.
//!
//! In: rows, as for the other families. Out: counts. Guaranteed: a link whose output depends on the
//! addresses that NVIDIA's compiler gets is counted as different. nvlink's outputs are not looked
//! at: of the same inputs it makes several.

use super::{LtoBench, sources};
use anyhow::Result;

/// Options and files. `-split-compile` is not among them: the compiler's threads run as they like.
const LINKS: [&str; 6] = [
    "tables.o -lcudadevrt",
    "-emit-ptx tables.o texts.o -lcudadevrt",
    "-g tables.o texts.o -lcudadevrt",
    "-Ofc=max tables.o parts.o more.o -lcudadevrt",
    "-emit-ptx tablesl.o texts.o ys.o -lcudadevrt",
    "-r tables.o textsl.o -lcudadevrt",
];

/// How often each is made. Of two orders by chance one is seen in 1 of 32 links.
const TIMES: usize = 6;

pub(super) fn run(bench: &mut LtoBench) -> Result<()> {
    for link in LINKS {
        let words: Vec<String> = link.split(' ').map(str::to_owned).collect();
        for word in &words {
            sources::make(&bench.tools.oracle, &bench.arch, &bench.folder, word)?;
        }
        let all = [bench.fixed(true)?, words.clone()].concat();
        let first = bench.link(bench.candidate(), &all)?;
        let mut is_same = first.output.is_some();
        for _ in 1..TIMES {
            is_same &= bench.link(bench.candidate(), &all)?.output == first.output;
        }
        let counts = bench.counts.entry("again".to_owned()).or_default();
        match is_same {
            true => counts.equal += 1,
            false => {
                counts.different += 1;
                println!("{} {} again: {link}: several outputs", bench.release(), bench.arch);
            }
        }
    }
    Ok(())
}
