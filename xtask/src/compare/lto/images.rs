//! Tests which LTO-IR of a fat binary is linked: every image with every other, for every target.

use super::{LtoBench, sources};
use anyhow::Result;
use culd_cubin::arch::Arch;
use std::fs;

/// Sets of images, as options of nvcc.
const SETS: &[&[&str]] = &[
    &["lto_80"],
    &["lto_86"],
    &["lto_90"],
    &["lto_90a"],
    &["lto_100"],
    &["lto_100a"],
    &["lto_100f"],
    &["lto_120"],
    &["lto_120f"],
    &["lto_90", "sm_90a"],
    &["lto_90a", "sm_90"],
    &["lto_80", "sm_90"],
    &["lto_90", "sm_80"],
    &["lto_100a", "compute_90"],
    &["lto_80", "compute_90"],
    &["lto_90", "lto_80"],
    &["lto_90a", "lto_90"],
    &["lto_100f", "lto_100a"],
    &["lto_120", "compute_120"],
    &["sm_90a"],
    &["sm_100a"],
    &["sm_90a", "lto_90a"],
    &["sm_90", "compute_80"],
];

const TARGETS: [&str; 10] = [
    "sm_80", "sm_86", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103", "sm_120",
    "sm_121a",
];

/// Links each set for each target; the bench's own target does not matter.
pub(super) fn run(bench: &mut LtoBench) -> Result<()> {
    let own = bench.arch.clone();
    fs::write(bench.folder.join("image.cu"), "__global__ void ki(int *p) { *p = 11; }\n")?;
    let toolkit = bench.toolkit();
    let is_known = |name: &&str| {
        let number = name.split_once('_').map_or("", |(_, number)| number);
        Arch::by_name(&format!("sm_{number}")).is_some_and(|arch| arch.is_known_to(toolkit))
    };
    for set in SETS.iter().filter(|set| set.iter().all(is_known)) {
        let name = format!("image-{}.o", set.join("-"));
        let mut words = vec!["-dc".to_owned()];
        for code in *set {
            let number = code.split_once('_').map_or("", |(_, number)| number);
            words.extend(["-gencode".to_owned(), format!("arch=compute_{number},code={code}")]);
        }
        words.extend(["image.cu", "-o", &name].map(str::to_owned));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        sources::nvcc(&bench.tools.oracle, &bench.folder, &words)?;
        for target in TARGETS.iter().filter(|name| is_known(name)) {
            bench.arch = (*target).to_owned();
            bench.compare("images", &[name.clone(), "-lcudadevrt".to_owned()], &[])?;
        }
    }
    bench.arch = own;
    Ok(())
}
