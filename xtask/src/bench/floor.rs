//! The lower bound of a link: reads every input once and writes an output of the right size once.
//!
//! In: a path, a size, paths of inputs. Out: a file of that size. It is a task, so that it is
//! measured as the linkers are, with the start of a process.

use crate::args::Args;
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{Read, Write};
use std::process::ExitCode;

/// Bytes read at a time, few enough to stay in the cache.
const PIECE: usize = 1 << 20;

/// The hidden task.
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let words = args.verbatim();
    let [out, size, inputs @ ..] = words.as_slice() else {
        anyhow::bail!("floor needs an output, its size and inputs");
    };
    let mut left: usize = size.parse()?;
    let mut buffer = vec![0; PIECE];
    let mut file = File::create(out).with_context(|| out.clone())?;
    for input in inputs {
        let mut input = File::open(input).with_context(|| input.clone())?;
        loop {
            let count = input.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            let taken = count.min(left);
            file.write_all(&buffer[..taken])?;
            left -= taken;
        }
    }
    while left > 0 {
        let taken = left.min(PIECE);
        file.write_all(&buffer[..taken])?;
        left -= taken;
    }
    Ok(ExitCode::SUCCESS)
}
