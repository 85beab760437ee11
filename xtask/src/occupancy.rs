//! `xtask occupancy`: compares the limits of each compute capability and the formula of the
//! occupancy with NVIDIA's header for hosts, `cuda_occupancy.h`.
//!
//! In: the toolkit's header, g++. Out: the number of comparisons, and the first differences.
//! Guaranteed: the header is only compiled and called.

use crate::args::Args;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use culd_abi::limits::{BlockNeeds, LIMITS, Limits, WARP};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

const HELP: &str = "\
usage: cargo xtask occupancy [--include DIR]
  --include DIR   where cuda_occupancy.h is (default: that of the reference tools)";

/// The program that calls the header: a line of numbers in, a number of blocks out; -1 if the
/// header refuses.
const PROGRAM: &str = r#"
#include <cuda_occupancy.h>
#include <cstdio>
int main() {
  int major, minor, threads_sm, shared_sm, block_shared, reserved, threads, regs, shared, barriers;
  while (scanf("%d %d %d %d %d %d %d %d %d %d", &major, &minor, &threads_sm, &shared_sm,
               &block_shared, &reserved, &threads, &regs, &shared, &barriers) == 10) {
    cudaOccDeviceProp p;
    p.computeMajor = major; p.computeMinor = minor; p.maxThreadsPerBlock = 1024;
    p.maxThreadsPerMultiprocessor = threads_sm; p.regsPerBlock = 65536;
    p.regsPerMultiprocessor = 65536; p.warpSize = 32; p.sharedMemPerBlock = 49152;
    p.sharedMemPerMultiprocessor = shared_sm; p.numSms = 1;
    p.sharedMemPerBlockOptin = block_shared; p.reservedSharedMemPerBlock = reserved;
    cudaOccFuncAttributes a;
    a.maxThreadsPerBlock = 1024; a.numRegs = regs; a.sharedSizeBytes = 0;
    a.partitionedGCConfig = PARTITIONED_GC_OFF; a.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    a.maxDynamicSharedSizeBytes = block_shared; a.numBlockBarriers = barriers;
    cudaOccDeviceState s; s.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult r;
    cudaOccError e = cudaOccMaxActiveBlocksPerMultiprocessor(&r, &p, &a, &s, threads, shared);
    printf("%d\n", e == CUDA_OCC_SUCCESS ? r.activeBlocksPerMultiprocessor : -1);
  }
}
"#;

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    if args.flag("--help") {
        println!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    let include: Option<PathBuf> = args.option("--include")?;
    args.finish()?;
    let include = match include {
        Some(include) => include,
        None => workspace::oracle()?.toolkit().join("include"),
    };
    let folder = tempfile::tempdir()?;
    let (source, program) = (folder.path().join("ask.cpp"), folder.path().join("ask"));
    fs::write(&source, PROGRAM)?;
    let mut compile = Command::new("g++");
    compile.arg("-O1").arg("-I").arg(&include).arg(&source).arg("-o").arg(&program);
    ensure!(compile.status().context("g++")?.success(), "{} is not compiled", source.display());
    let needs: Vec<(&Limits, BlockNeeds)> =
        LIMITS.iter().flat_map(|limits| all_needs(limits).map(move |one| (limits, one))).collect();
    let mut lines = String::new();
    for (limits, needs) in &needs {
        let Limits { sm, warps, shared, block_shared, reserved_shared, .. } = limits;
        let (major, minor, threads) = (sm / 10, sm % 10, warps * WARP);
        writeln!(
            lines,
            "{major} {minor} {threads} {shared} {block_shared} {reserved_shared} {} {} {} {}",
            needs.threads, needs.registers, needs.shared, needs.barriers
        )?;
    }
    fs::write(folder.path().join("lines"), &lines)?;
    let input = fs::File::open(folder.path().join("lines"))?;
    let answer = Command::new(&program).stdin(input).stderr(Stdio::inherit()).output()?;
    let answer = String::from_utf8(answer.stdout)?;
    ensure!(answer.lines().count() == needs.len(), "an answer is missing");
    let mut different = 0;
    for (header, (limits, needs)) in answer.lines().zip(&needs) {
        let own = limits.occupancy(*needs).blocks;
        if header != own.to_string() {
            different += 1;
            if different <= 20 {
                println!("sm_{}: {needs:?}: {own} blocks, the header {header}", limits.sm);
            }
        }
    }
    println!("{} blocks on {} targets, {different} differ", needs.len(), LIMITS.len());
    Ok(if different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Blocks of every kind that fit the target: usual and odd sizes.
fn all_needs(limits: &Limits) -> impl Iterator<Item = BlockNeeds> + use<> {
    let most = limits.block_shared;
    let threads = [1, 32, 33, 64, 96, 128, 160, 192, 256, 288, 384, 512, 544, 768, 1000, 1024];
    let registers = (0..=255).step_by(5).chain([1, 8, 16, 24, 32, 64, 72, 96, 128, 168]);
    let shared = [0, 1, 127, 128, 1000, 1024, 4096, 5000, 8192, 16_384, 20_000, 32_768, 49_152];
    let shared: Vec<u32> = shared.into_iter().chain([most / 2, most - 1, most]).collect();
    let registers: Vec<u32> = registers.collect();
    let barriers = [0, 1, 2, 3, 5, 8, 16];
    let all = threads.into_iter().flat_map(move |threads| {
        let (registers, shared) = (registers.clone(), shared.clone());
        registers.into_iter().enumerate().flat_map(move |(number, registers)| {
            let shared = shared.clone();
            shared.into_iter().enumerate().map(move |(place, shared)| {
                let barriers = barriers[(number + place) % barriers.len()];
                BlockNeeds { threads, registers, shared, barriers }
            })
        })
    });
    all.filter(move |needs| needs.shared <= most)
}
