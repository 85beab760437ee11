//! `culd-lto`: compiles LTO-IR for `culd -lto`.
//!
//! In: what is wanted, where to, options and inputs, as `culd` gives them. Out: a file with PTX or a cubin, and the path of the
//! library that made it; exit status 1 with lines on standard error when there is none. It is a program of its own so that
//! NVIDIA's library, which is loaded at run time, is not loaded into the linker, which ships as a static program.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use culd_lto::{Input, Kind, LtoError, Want, compile, find};

const USAGE: &str = "\
usage: culd-lto ptx|object|cubin OUTPUT [--toolkit DIR]... [--option WORD]... [--input KIND NAME FILE]...
Compiles LTO-IR with NVIDIA's libnvJitLink; started by culd -lto. An object, which needs libnvJitLink 13.3, is empty without. KIND is ltoir, fatbin, object or cubin.
The library is the one that CULD_NVJITLINK names, or that of the first DIR that has one.";

/// What the words ask for.
#[derive(Default)]
struct Task {
    toolkits: Vec<PathBuf>,
    options: Vec<String>,
    inputs: Vec<(Kind, String, Vec<u8>)>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(words) {
        Ok(library) => {
            println!("{library}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: Vec<String>) -> Result<String, String> {
    let mut words = words.into_iter();
    let (want, output) = (words.next(), words.next().ok_or(USAGE)?);
    let want = match want.as_deref() {
        Some("ptx") => Want::Ptx,
        Some("object") => Want::Object,
        Some("cubin") => Want::Cubin,
        _ => return Err(USAGE.to_owned()),
    };
    let task = task(words)?;
    let path = find(None, &task.toolkits).ok_or_else(|| LtoError::NotFound.to_string())?;
    let inputs: Vec<Input<'_>> =
        task.inputs.iter().map(|(kind, name, bytes)| Input { kind: *kind, name, bytes }).collect();
    let made = compile(&path, &task.options, &inputs, want).map_err(|error| match &error {
        LtoError::Refused { log, .. } if !log.trim().is_empty() => {
            format!("{error}\n{}", log.trim_end())
        }
        _ => error.to_string(),
    })?;
    std::fs::write(&output, made.bytes).map_err(|error| format!("'{output}': {error}"))?;
    Ok(path.to_string_lossy().into_owned())
}

fn task(mut words: impl Iterator<Item = String>) -> Result<Task, String> {
    let mut task = Task::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| USAGE.to_owned());
        match word.as_str() {
            "--toolkit" => task.toolkits.push(value()?.into()),
            "--option" => task.options.push(value()?),
            "--input" => {
                let kind = match value()?.as_str() {
                    "ltoir" => Kind::LtoIr,
                    "fatbin" => Kind::Fatbin,
                    "object" => Kind::Object,
                    "cubin" => Kind::Cubin,
                    other => return Err(format!("'{other}' is no kind of input\n{USAGE}")),
                };
                let (name, file) = (value()?, value()?);
                let bytes = std::fs::read(&file).map_err(|error| format!("'{file}': {error}"))?;
                task.inputs.push((kind, name, bytes));
            }
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(task)
}
