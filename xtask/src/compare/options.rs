//! Suite `options`: links generated programs that were compiled with every compiler option that
//! changes an object.
//!
//! In: the table below, and the help of ptxas and nvcc. Out: a table of options and a line for each
//! difference. Guaranteed: an option in a compiler's help that no list here has is reported. The
//! exit code is 1 for such an option, and for a difference.

use super::Suite;
use super::setup::{Common, Setup};
use super::tally::{Tally, VerdictCounts};
use crate::pool;
use crate::workspace::{self, lock};
use anyhow::{Context, Result};
use culd_testkit::random::generate::model::{DebugLevel, GeneratedProgram, PtxArch};
use culd_testkit::random::generate::{GeneratorChoices, family, generate};
use culd_testkit::reference::compare::trial::{LinkMethod, Tools, Verdict, trial};
use culd_testkit::reference::oracle::process;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

pub(super) const SUITE: Suite = Suite {
    name: "options",
    about: "programs compiled with every option of ptxas and nvcc",
    takes: &[Common::Archs(ARCHS), Common::Jobs, Common::Release, Common::Objects],
    help: "\
\x20 --tool NAME      only options of ptxas, or of nvcc
  --only OPTION    only this option, as the help has it: '--only=-ewp'
  --programs N     programs for each option, target and mode (default 2)
  --first SEED     the first seed (default 800000)
Each program is compiled as several files (-c, -dc) and as one (-ewp).
",
    run,
};

const LIMIT: Duration = Duration::from_secs(60);

/// A compiler, the name of an option in its help, and its words; several rows for several values.
type CompilerOptionRow = (&'static str, &'static str, &'static [&'static str]);

const PTXAS: &str = "ptxas";
const NVCC: &str = "nvcc";

#[rustfmt::skip]
const ROWS: &[CompilerOptionRow] = &[
    (PTXAS, "-Ofc", &["-Ofc=min"]), (PTXAS, "-Ofc", &["-Ofc=mid"]), (PTXAS, "-Ofc", &["-Ofc=max"]), (PTXAS, "-Ofc", &["-Ofc=0"]),
    (PTXAS, "-allow-expensive-optimizations", &["-allow-expensive-optimizations=false"]),
    (PTXAS, "-allow-expensive-optimizations", &["-allow-expensive-optimizations=true", "-O1"]),
    (PTXAS, "-astoolspatch", &["-astoolspatch"]),
    (PTXAS, "-annotate", &["-annotate"]),
    (PTXAS, "-dlcm", &["-dlcm=cg"]), (PTXAS, "-dscm", &["-dscm=wt"]), (PTXAS, "-flcm", &["-flcm=cv"]), (PTXAS, "-fscm", &["-fscm=cs"]),
    (PTXAS, "-func-maxrregcount", &["-func-maxrregcount=40"]), (PTXAS, "-func-maxrregcount", &["-func-maxrregcount=archmax"]),
    (PTXAS, "-device-stack-protector", &["-device-stack-protector=true"]),
    (PTXAS, "-disable-optimizer-consts", &["-disable-optimizer-consts"]),
    (PTXAS, "-no-bb-merge", &["-no-bb-merge"]),
    (PTXAS, "-ewp", &[]),
    (PTXAS, "-fmad", &["-fmad=false"]),
    (PTXAS, "-g-tmem-access-check", &["-g-tmem-access-check"]), (PTXAS, "-gno-tmem-access-check", &["-gno-tmem-access-check"]),
    (PTXAS, "-lineinfo", &["-lineinfo"]), (PTXAS, "-lineinfo", &["-lineinfo", "-suppress-debug-info"]),
    (PTXAS, "-suppress-debug-info", &["-lineinfo", "-suppress-debug-info", "-O2"]),
    (PTXAS, "-legacy-bar-warp-wide-behavior", &["-legacy-bar-warp-wide-behavior"]),
    (PTXAS, "-make-errors-visible-at-exit", &["-make-errors-visible-at-exit"]),
    (PTXAS, "-maxntid", &["-maxntid=128,2"]), (PTXAS, "-maxrregcount", &["-maxrregcount=32"]), (PTXAS, "-maxrregcount", &["-maxrregcount=archmin"]),
    (PTXAS, "-minnctapersm", &["-maxntid=128", "-minnctapersm=4"]),
    (PTXAS, "-O", &["-O0"]), (PTXAS, "-O", &["-O1"]), (PTXAS, "-O", &["-O2"]),
    (PTXAS, "-opt-fp-atomics", &["-opt-fp-atomics"]),
    (PTXAS, "-override-directive-values", &["-override-directive-values", "-maxntid=64", "-maxrregcount=64"]),
    (PTXAS, "-pic", &["-pic=true"]), (PTXAS, "-pic", &["-pic=false"]),
    (PTXAS, "-preserve-relocs", &["-preserve-relocs"]),
    (PTXAS, "-regUsageLevel", &["-regUsageLevel=0"]), (PTXAS, "-regUsageLevel", &["-regUsageLevel=10"]),
    (PTXAS, "-ret-end", &["-ret-end"]),
    (PTXAS, "-sanitize", &["-sanitize=memcheck"]), (PTXAS, "-sanitize", &["-sanitize=threadsteer"]),
    (PTXAS, "-sp-bounds-check", &["-sp-bounds-check"]),
    (PTXAS, "-split-compile", &["-split-compile=2"]),
    (PTXAS, "-enable-func-clone-sc", &["-enable-func-clone-sc=true"]),
    (PTXAS, "-gno-fabric-access-check", &["-gno-fabric-access-check"]),
    (NVCC, "-G", &["-G"]), (NVCC, "-G", &["-G", "-dopt=on"]), (NVCC, "-lineinfo", &["-lineinfo"]), (NVCC, "-lineinfo", &["-lineinfo", "-src-in-ptx"]),
    (NVCC, "-src-in-ptx", &["-lineinfo", "-src-in-ptx"]), (NVCC, "-dopt", &["-dopt=on"]),
    (NVCC, "-Ofc", &["-Ofc=min"]), (NVCC, "-Ofc", &["-Ofc=mid"]), (NVCC, "-Ofc", &["-Ofc=max"]),
    (NVCC, "-maxrregcount", &["-maxrregcount=40"]),
    (NVCC, "-use_fast_math", &["-use_fast_math"]),
    (NVCC, "-ftz", &["-ftz=true"]), (NVCC, "-prec-div", &["-prec-div=false"]), (NVCC, "-prec-sqrt", &["-prec-sqrt=false"]), (NVCC, "-fmad", &["-fmad=false"]),
    (NVCC, "-extra-device-vectorization", &["-extra-device-vectorization"]),
    (NVCC, "-keep-device-functions", &["-keep-device-functions"]),
    (NVCC, "-restrict", &["-restrict"]),
    (NVCC, "-ewp", &[]),
    (NVCC, "-astoolspatch", &["-astoolspatch"]),
    (NVCC, "-jtd", &["-jtd=0"]), (NVCC, "-jtd", &["-jtd=101"]),
    (NVCC, "-device-stack-protector", &["-device-stack-protector=true"]),
    (NVCC, "-sanitize", &["-sanitize=memcheck"]), (NVCC, "-fdevice-sanitize", &["-fdevice-sanitize=memcheck"]),
    (NVCC, "-std", &["-std=c++20"]), (NVCC, "-default-stream", &["-default-stream=per-thread"]),
    (NVCC, "-split-compile", &["-split-compile=2"]), (NVCC, "-split-compile-extended", &["-split-compile-extended=2"]),
    (NVCC, "-frandom-seed", &["-frandom-seed=7"]),
    (NVCC, "-noeh", &["-noeh"]), (NVCC, "-expt-relaxed-constexpr", &["-expt-relaxed-constexpr"]), (NVCC, "-extended-lambda", &["-extended-lambda"]),
    (NVCC, "-expt-extended-lambda", &["-expt-extended-lambda"]),
    (NVCC, "-static-global-template-stub", &["-static-global-template-stub=false"]),
    (NVCC, "-device-entity-has-hidden-visibility", &["-device-entity-has-hidden-visibility=false"]),
    (NVCC, "-nohdinitlist", &["-nohdinitlist"]), (NVCC, "-nohdmoveforward", &["-nohdmoveforward"]),
    (NVCC, "-pg", &["-pg"]), (NVCC, "-g", &["-g"]), (NVCC, "-O", &["-O0"]), (NVCC, "-O", &["-O3"]), (NVCC, "-shared", &["-shared"]),
    (NVCC, "-skip-ptx-semantics-check", &["-skip-ptx-semantics-check"]), (NVCC, "-safety-compat", &["-safety-compat"]),
    (NVCC, "-Xptxas", &["-Xptxas=-O1"]), (NVCC, "-Xptxas", &["-Xptxas=-pic=true"]), (NVCC, "-Xptxas", &["-Xptxas=-disable-optimizer-consts"]),
    (NVCC, "-rdc", &["-rdc=true"]), (NVCC, "-D", &["-DNDEBUG"]), (NVCC, "-U", &["-UNDEBUG"]),
];

/// Options about inputs, steps, targets and messages, which do not change the code.
const OTHERS: &[(&str, &str)] = &[
    (
        PTXAS,
        "-c -w -e -g -arch -h -ias -version-ls -m -optf -o -suppress-async-bulk-multicast-advisory-warning -suppress-double-demote-warning \
         -suppress-sparse-mma-advisory-info -suppress-stack-size-warning -v -V -warn-double-usage -warn-lmem-usage -warn-spills -Werror \
         -apply-controls -jobserver -arch-ls -suppress-position-independent-code-warning -v2",
    ),
    (
        NVCC,
        "-cuda -cubin -fatbin -ptx -optix-ir -ltoir -enable-tile -tile-preview -tile-only -simt-only -tilebc -tilecubin -tilefatbin -Xtileiras \
         -E -M -MM -MD -MMD -MF -MP -c -dc -dw -dlink -link -lib -run -o -include -objtemp -l -I -isystem -L -odir -ccbin \
         -allow-unsupported-compiler -arbin -cudart -cudadevrt -ldir -target-dir -use-local-env -force-cl-env-setup -opt-info -dlto -lto \
         -gen-opt-lto -ftemplate-backtrace-limit -ftemplate-depth -x -stdlib -m -m32 -m64 -dQ -apply-controls -Xcompiler -Xlinker -Xarchive -Xnvlink \
         -Xnvprune -forward-unknown-to-host-compiler -forward-unknown-to-host-linker -forward-unknown-opts -noprof -dryrun -v -v2 -t \
         -fmax-errors -fdevice-syntax-only -fdevice-time-trace -fdevice-time-trace-granularity -keep -keep-dir -save-temps -clean -time \
         -run-args -idp -ddp -dp -MT --no-align-double -nodlink -arch -code -gencode -e -prune -w -Wreorder -Wdefault-stream-launch \
         -Wmissing-launch-bounds -Wext-lambda-captures-this -Wno-deprecated-declarations -Wno-deprecated-gpu-targets -Wconversion -Werror \
         -res-usage -no-compress -qpp-config -code-ls -arch-ls -err-no -no-err-no -diag-error -diag-suppress -diag-warn -hls -aug-hls -r \
         -brief-diag -reloc-ptx -compress-mode -concat -jobserver -utf-8 -h -V -optf",
    ),
];

const ARCHS: &str = "sm_75,sm_80,sm_90,sm_100,sm_120";

struct OptionsPlan {
    tools: Tools,
    keep: PathBuf,
}

/// A program to compile with the words of a row.
struct OptionTask {
    row: &'static CompilerOptionRow,
    arch: PtxArch,
    whole: bool,
    seed: u64,
}

/// The results of the programs, by option.
struct OptionsReport {
    tally: Tally,
    links: usize,
    /// Links that differ on purpose.
    deliberate: usize,
}

fn run(mut setup: Setup) -> Result<ExitCode> {
    let args = &mut setup.args;
    let tool: Option<String> = args.option("--tool")?;
    let only: Option<String> = args.option("--only")?;
    let programs: u64 = args.option("--programs")?.unwrap_or(2);
    let first: u64 = args.option("--first")?.unwrap_or(800_000);
    // The wheels of older releases have ptxas only.
    let tools = setup.tools_with_nvcc().or_else(|_| setup.tools())?;
    let plan = OptionsPlan { tools, keep: setup.keep.clone() };
    setup.finish()?;
    let unknown = plan.unknown_options()?;
    unknown.iter().for_each(|option| println!("in no list: {option}"));
    let chosen = |row: &&'static CompilerOptionRow| {
        plan.has(row.0)
            && tool.as_ref().is_none_or(|tool| tool == row.0)
            && only.as_ref().is_none_or(|only| only == row.1)
    };
    let rows: Vec<&'static CompilerOptionRow> = ROWS.iter().filter(chosen).collect();
    let mut tasks = Vec::new();
    for row in rows {
        for &arch in &setup.archs {
            for whole in [false, true] {
                let seeds = first..first + programs;
                tasks.extend(seeds.map(|seed| OptionTask { row, arch, whole, seed }));
            }
        }
    }
    let tally = Tally::new("option", "programs");
    let report = Mutex::new(OptionsReport { tally, links: 0, deliberate: 0 });
    pool::run(setup.jobs, tasks.into_iter(), |queue| {
        while let Some(task) = queue.take() {
            plan.one(&task, &report)?;
        }
        Ok(())
    })?;
    let report = lock(&report);
    print!("{}", report.tally.table());
    println!("\n{} links, {} of them differ on purpose", report.links, report.deliberate);
    let clean = report.tally.total().failed == 0 && unknown.is_empty();
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl OptionsPlan {
    /// True if the tools have this compiler.
    fn has(&self, tool: &str) -> bool {
        self.tools.oracle.tool(tool).is_file()
    }

    /// Options of the help that no list has.
    fn unknown_options(&self) -> Result<Vec<String>> {
        let mut unknown = Vec::new();
        for (tool, others) in OTHERS {
            if !self.has(tool) {
                println!(
                    "no {tool} of {}: its options are left out",
                    self.tools.oracle.release().name
                );
                continue;
            }
            let mut command = self.tools.oracle.command(tool);
            let run = process::run(command.arg("--help"), LIMIT).context("cannot ask for help")?;
            let text = String::from_utf8_lossy(&run.stdout).into_owned();
            for line in text.lines().filter(|line| line.starts_with("--")) {
                let Some(name) = line.split_whitespace().next_back() else { continue };
                let name = name.trim_start_matches('(').trim_end_matches(')');
                let known = ROWS.iter().any(|row| row.0 == *tool && row.1 == name);
                if !known && !others.split_whitespace().any(|other| other == name) {
                    unknown.push(format!("{tool} {name}"));
                }
            }
        }
        Ok(unknown)
    }

    fn one(&self, task: &OptionTask, report: &Mutex<OptionsReport>) -> Result<()> {
        let dir = tempfile::tempdir()?;
        let OptionTask { row: (tool, option, words), arch, whole, seed } = task;
        let outcome = trial(&self.tools, &self.program(task), LinkMethod::Program, dir.path())?;
        let mut report = lock(report);
        report.links += outcome.links;
        report.deliberate += outcome.deliberate.values().sum::<usize>();
        report.tally.add(&format!("{tool} {option}"), "", VerdictCounts::of(&outcome.verdict));
        if let Verdict::Different(difference) = outcome.verdict {
            let mode = if *whole { "whole" } else { "parts" };
            let (words, what) = (words.join(" "), difference.what);
            let kept =
                self.keep.join(format!("{tool}{}-{arch}-{mode}-{seed}", words.replace(' ', "")));
            workspace::keep_tree(dir.path(), &kept)?;
            println!(
                "{tool} {option} ({words}) {arch} {mode} seed {seed}: {what}\n  kept in {}",
                kept.display()
            );
        }
        Ok(())
    }

    /// The program of a task: of a family with a little of everything, without its own options.
    fn program(&self, task: &OptionTask) -> GeneratedProgram {
        let OptionTask { row: &(tool, _, words), arch, whole, seed } = *task;
        let name = if tool == PTXAS { "everything" } else { "features" };
        let choices = GeneratorChoices {
            family: family(name),
            arch: Some(arch),
            ..GeneratorChoices::default()
        };
        let mut program = generate(seed, choices);
        if whole {
            program.units.truncate(2);
            // docs/DIFFERENCES.md, whole-program-debug.
            program.link_options.retain(|option| option != "-g");
        }
        let needed = self.tools.oracle.release().nvcc_options();
        for unit in &mut program.units {
            unit.arch = arch;
            let needed = if tool == NVCC { needed } else { &[] };
            unit.options = words.iter().chain(needed).map(|&word| word.to_owned()).collect();
            unit.whole_program = whole;
            if tool == PTXAS {
                unit.debug = DebugLevel::Off;
            }
        }
        program
    }
}
