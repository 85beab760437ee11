//! Tests every option that takes a value with blanks, commas, quotes and an empty value.
//!
//! In: options with a value. Out: links with every form of the value: of LTO-IR alone, with PTX,
//! and without LTO-IR.

use super::listed::ListedDifference;
use super::{LtoBench, sources};
use anyhow::Result;

/// Options and a value; `LIB` and `NVVM` are folders of the toolkit, `ARCH` the target.
const OPTIONS: &[(&str, &str)] = &[
    ("-Xptxas", "-O1"),
    ("-Xptxas", "-warn-spills"),
    ("-Xnvvm", "-ftz=1"),
    ("-kernels-used", "_Z1kPi"),
    ("-variables-used", "count"),
    ("-maxrregcount", "24"),
    ("-Ofc", "mid"),
    ("-split-compile", "2"),
    ("-split-compile-extended", "2"),
    ("-device-stack-protector", "true"),
    ("-cpu-arch", "X86_64"),
    ("-arch", "ARCH"),
    ("-m", "64"),
    ("-l", "cudadevrt"),
    ("-L", "LIB"),
    ("-nvvmpath", "NVVM"),
    ("--register-link-binaries", "reg"),
    ("-uidx", "none"),
    ("-optf", "none"),
    ("-ghls", "lcs-aug"),
];

/// Forms of a value; `V` is the value.
const FORMS: &[&str] = &[
    "V", " V", "V ", " V ", "V\t", "V,", ",V", "V V", "V,V", "V , V", "\"V\"", "'V'", "\" V \"",
    "\"V,V\"", "\"V V\"", "\\V", "V\\", "V\\ ", "V\\,V", "\"V", "", "\"\"", " ", ",",
];

/// The linked files.
const PROGRAMS: &[&str] = &["a.o b.o c.o", "a.o b.o c.ptx", "as.o bs.o cs.o"];

/// The listed difference of a row: without a library of that name, nvlink may miss libcudadevrt.
const LISTED: &[ListedDifference] = &[ListedDifference::Demanded];

pub(super) fn run(bench: &mut LtoBench) -> Result<()> {
    let toolkit = bench.tools.oracle.toolkit().to_owned();
    let lib = toolkit.join("lib").display().to_string();
    let nvvm = bench.nvvm()?.display().to_string();
    for &(option, value) in OPTIONS {
        let value = value.replace("LIB", &lib).replace("NVVM", &nvvm).replace("ARCH", &bench.arch);
        for program in PROGRAMS {
            let files: Vec<&str> = program.split(' ').collect();
            for file in &files {
                sources::make(&bench.tools.oracle, &bench.arch, &bench.folder, file)?;
            }
            let lto = files.iter().any(|file| sources::is_lto(file));
            for form in FORMS {
                let given = form.replace('V', &value);
                let joined = [format!("{option}={given}")];
                for form in [&[option.to_owned(), given][..], &joined] {
                    let mut words = form.to_vec();
                    words.extend(files.iter().map(|&file| file.to_owned()));
                    if option != "-l" {
                        words.push("-lcudadevrt".to_owned());
                    }
                    let mut fixed = bench.fixed(lto)?;
                    fixed.retain(|word| !word.starts_with(option));
                    bench.compare_with(&fixed, "values", &words, LISTED)?;
                }
            }
        }
    }
    Ok(())
}
