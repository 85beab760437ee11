//! The inputs of the calls.
//!
//! In: sources of `testdata/jitlink`, the reference tools. Out: a folder with every file that
//! `calls.txt` names.

use anyhow::Result;
use culd_testkit::reference::oracle::{COMPILE_LIMIT, Oracle, process};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sources that become PTX, and cubins by ptxas.
const SOURCES: &[&str] = &["a", "b", "c", "r", "size1", "size2"];

/// Makes the inputs for one architecture in `dir`; `work` keeps the PTX, which is the same for all.
pub(super) fn make(
    oracle: &Oracle,
    folder: &Path,
    work: &Path,
    arch: &str,
    dir: &Path,
) -> Result<()> {
    fs::create_dir_all(dir)?;
    // The wheels of CUDA 12 have no nvcc; the objects of 12.4 and its LTO-IR suit all later ones.
    let toolkits = std::env::var_os("CULD_TOOLKITS").filter(|_| !oracle.release().has_nvcc());
    let older = toolkits.as_ref().map(|folder| Path::new(folder).join("12.4"));
    let older =
        older.map(|toolkit| with_ptxas(&toolkit, &oracle.tool("ptxas"), work)).transpose()?;
    let nvcc = || match &older {
        Some(nvcc) => Command::new(nvcc),
        None => oracle.command("nvcc"),
    };
    for source in SOURCES {
        let ptx = work.join(format!("{source}.ptx"));
        if !ptx.exists() {
            let source = folder.join(format!("{source}.cu"));
            let mut nvcc = nvcc();
            nvcc.args(["-rdc=true", "-ptx", "-arch=compute_75", "-o"]).arg(&ptx).arg(source);
            run(nvcc)?;
        }
        let text = fs::read_to_string(&ptx)?;
        fs::write(dir.join(format!("{source}.ptx")), text)?;
        ptxas(oracle, dir, arch, source, &[], source)?;
    }
    for (source, debug) in [("a", "a-g"), ("b", "b-g"), ("c", "c-g")] {
        ptxas(oracle, dir, arch, source, &["-g"], debug)?;
    }
    let bad = fs::read_to_string(dir.join("c.ptx"))?.replacen("mad.lo", "mad.bogus", 1);
    fs::write(dir.join("bad.ptx"), bad)?;
    let other = if arch == "75" { "80" } else { "75" };
    ptxas(oracle, dir, other, "c", &[], "other")?;
    for (source, object, arch) in [("b", "b", arch), ("c", "c", arch), ("c", "other", other)] {
        let object = dir.join(format!("{object}.o"));
        if !object.exists() {
            let mut nvcc = nvcc();
            nvcc.args(["-rdc=true", "-c", "-gencode"]);
            nvcc.arg(format!("arch=compute_{arch},code=sm_{arch}")).arg("-o").arg(object);
            nvcc.arg(folder.join(format!("{source}.cu")));
            run(nvcc)?;
        }
    }
    for (source, output, flags) in [
        ("a", "a.fatbin", &["-fatbin"][..]),
        // PTX alone, beside which the option stands.
        ("c", "limited.fatbin", &["-fatbin", "-maxrregcount=20", "-code=compute_@"]),
        ("c", "c.ltoir", &["-dlto", "-ltoir"]),
        ("k", "k.ltoir", &["-dlto", "-ltoir"]),
    ] {
        if !dir.join(output).exists() {
            let mut nvcc = nvcc();
            if toolkits.is_some() && output.ends_with(".ltoir") {
                // nvcc 12.4 has no option for it, but keeps the file on its way to the object.
                let kept = dir.join("kept");
                fs::create_dir_all(&kept)?;
                nvcc.args(["-dlto", "-dc", "--keep", "--keep-dir"]).arg(&kept).arg("-o");
                nvcc.arg(kept.join("object")).arg(format!("-arch=sm_{arch}"));
                nvcc.arg(folder.join(format!("{source}.cu")));
                run(nvcc)?;
                fs::copy(kept.join(output), dir.join(output))?;
                continue;
            }
            nvcc.arg("-rdc=true").args(flags.iter().map(|flag| flag.replace('@', arch)));
            let alone = flags.iter().any(|flag| flag.starts_with("-code="));
            nvcc.arg(format!("-arch={}_{arch}", if alone { "compute" } else { "sm" }));
            nvcc.arg("-o").arg(dir.join(output)).arg(folder.join(format!("{source}.cu")));
            run(nvcc)?;
        }
    }
    let mut nvlink = oracle.command("nvlink");
    nvlink.current_dir(dir).arg(format!("-arch=sm_{arch}")).args(["c.cubin", "-o", "linked.cubin"]);
    run(nvlink)?;
    let mut gcc = Command::new("gcc");
    gcc.args(["-c", "-x", "c", "/dev/null", "-o", "host.o"]).current_dir(dir);
    run(gcc)?;
    for (archive, members) in [
        ("libc.a", ["c.o", "host.o"]),
        // `other.o` has no code for the target.
        ("libfirst.a", ["b.o", "other.o"]),
        ("liblast.a", ["other.o", "c.o"]),
    ] {
        if dir.join(archive).exists() {
            fs::remove_file(dir.join(archive))?;
        }
        let mut ar = Command::new("ar");
        ar.args(["rcD", archive]).args(members).current_dir(dir);
        run(ar)?;
    }
    Ok(())
}

/// An nvcc of `toolkit` whose ptxas is another.
fn with_ptxas(toolkit: &Path, ptxas: &Path, work: &Path) -> Result<PathBuf> {
    let home = work.join("toolkit");
    if !home.exists() {
        fs::create_dir_all(home.join("bin"))?;
        for folder in [toolkit.to_owned(), toolkit.join("bin")] {
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                let place = home.join(entry.path().strip_prefix(toolkit)?);
                match entry.file_name().to_str() {
                    Some("bin") => {}
                    Some("ptxas") => symlink(ptxas, place)?,
                    // It looks for its neighbours where it lies.
                    Some("nvcc") => drop(fs::copy(entry.path(), place)?),
                    _ => symlink(fs::canonicalize(entry.path())?, place)?,
                }
            }
        }
    }
    Ok(home.join("bin/nvcc"))
}

fn ptxas(
    oracle: &Oracle,
    dir: &Path,
    arch: &str,
    source: &str,
    flags: &[&str],
    output: &str,
) -> Result<()> {
    let mut ptxas = oracle.command("ptxas");
    ptxas.current_dir(dir).arg(format!("-arch=sm_{arch}"));
    ptxas.args(flags).args(["-c", &format!("{source}.ptx"), "-o", &format!("{output}.cubin")]);
    run(ptxas)
}

fn run(mut command: Command) -> Result<()> {
    process::succeed(&mut command, COMPILE_LIMIT).map(drop)
}
