//! Links objects and prints what is in the program and what is not: kernels with what they use,
//! sections, symbols, calls.
//!
//! ```text
//! cargo run -p culd --example report -- -arch=sm_90 testdata/quickstart/saxpy.cubin testdata/quickstart/smooth.cubin
//! ```
//!
//! Words with the ending of an input are inputs, others options of the linker. One thing a line,
//! names last; `xtask oracle --report` holds the lines against what NVIDIA's tools say of the same
//! program.

use std::error::Error;

use culd::{Linker, Options, Why};

/// Endings of inputs.
const INPUTS: &[&str] = &[".cubin", ".fatbin", ".o", ".a", ".ptx"];

fn main() -> Result<(), Box<dyn Error>> {
    let is_input = |word: &String| INPUTS.iter().any(|ending| word.ends_with(ending));
    let (files, options): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(is_input);
    let mut linker = Linker::new(Options::parse(&options)?);
    for file in files {
        linker.add_file(file);
    }
    let report = linker.link()?.report()?;
    println!("memory global={} constant={}", report.global, told(report.constant));
    for kernel in &report.kernels {
        println!(
            "kernel registers={} barriers={} stack={} shared={} constant0={} constant2={} textures={} surfaces={} samplers={} {}",
            kernel.registers,
            kernel.barriers,
            kernel.stack,
            kernel.shared,
            told(kernel.constant0),
            told(kernel.constant2),
            kernel.textures,
            kernel.surfaces,
            kernel.samplers,
            kernel.name
        );
        for parameter in &kernel.parameters {
            let at = kernel.parameter_offset + parameter.offset;
            println!("parameter {} offset={at:#x} size={}", parameter.ordinal, parameter.size);
        }
    }
    for section in &report.sections {
        println!("section size={:#x} align={} {}", section.size, section.align, section.name);
    }
    for symbol in &report.symbols {
        println!("symbol value={:#x} size={} {}", symbol.value, symbol.size, symbol.name);
    }
    for function in &report.functions {
        for callee in &function.calls {
            println!("call {} {callee}", function.name);
        }
        for callee in &function.may_call {
            println!("may-call {} {callee}", function.name);
        }
    }
    for removed in &report.removed {
        let why = match &removed.why {
            Why::Unreached => "no kernel reaches it".to_owned(),
            Why::Unused => "it is not used".to_owned(),
            Why::Overridden { by } => format!("that of {by} counts"),
            _ => "for another reason".to_owned(),
        };
        println!("removed {} {}: {why}", removed.file, removed.symbol);
    }
    Ok(())
}

fn told(size: Option<u64>) -> String {
    size.map_or("-".to_owned(), |size| size.to_string())
}
