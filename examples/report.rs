//! Links objects and prints what is in the program and what is not: kernels with what they use,
//! sections, functions, variables, calls.
//!
//! ```text
//! cargo run -p culd --example report -- -arch=sm_90 testdata/quickstart/saxpy.cubin testdata/quickstart/smooth.cubin
//! ```
//!
//! Words with the ending of an input are inputs, others options of the linker. One thing a line,
//! names last; `xtask compare corpus --report` holds the lines against what NVIDIA's tools say of
//! the same program. `culd --report=FILE.json` has all of it, and more, as JSON.

use std::error::Error;

use culd::report::{RemovedWhy, ReportImage};
use culd::{Linker, Options};

/// Endings of inputs.
const INPUTS: &[&str] = &[".cubin", ".fatbin", ".o", ".a", ".ptx"];

fn main() -> Result<(), Box<dyn Error>> {
    let is_input = |word: &String| INPUTS.iter().any(|ending| word.ends_with(ending));
    let (files, options): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(is_input);
    let mut linker = Linker::new(Options::parse(&options)?);
    for file in files {
        linker.add_file(file);
    }
    let report = linker.link()?.report();
    let image = &report.images[0];
    print_kernels(image);
    for section in &image.sections {
        let (align, name) = (image.section_kind(section).align, image.section_name(section));
        println!("section size={:#x} align={align} {name}", section.bytes);
    }
    for variable in &image.variables {
        println!("variable bytes={} {}", variable.bytes, variable.name);
    }
    for function in &image.functions {
        println!("function bytes={} {}", function.code, function.name);
        for &callee in &function.calls {
            println!("call {} {}", function.name, image.functions[callee].name);
        }
        for &prototype in &function.indirect {
            for &callee in &image.prototypes[prototype].functions {
                println!("may-call {} {}", function.name, image.functions[callee].name);
            }
        }
    }
    for removed in &report.removed {
        let why = match removed.why {
            RemovedWhy::Unreached => "no kernel reaches it",
            RemovedWhy::Unused => "it is not used",
            _ => "for another reason",
        };
        println!("removed {} {}: {why}", report.inputs[removed.input].name, removed.name);
    }
    for copies in &report.copies {
        for &(input, bytes) in &copies.dropped {
            let (file, kept) = (&report.inputs[input].name, &report.inputs[copies.kept].name);
            println!("copy bytes={bytes} {file} {}: that of {kept} counts", copies.name);
        }
    }
    Ok(())
}

fn print_kernels(image: &ReportImage) {
    for (_, function, kernel) in image.kernels() {
        let bank =
            |number| kernel.constants.iter().find(|bank| bank.0 == number).map(|bank| bank.1);
        println!(
            "kernel registers={} barriers={} stack={} shared={} constant0={} constant2={} textures={} surfaces={} samplers={} {}",
            number_text(function.registers.total),
            number_text(function.barriers.total),
            // Of a kernel whose stack has no limit, its own.
            number_text(function.stack.total.or(function.stack.own)),
            kernel.shared,
            number_text(bank(0)),
            number_text(bank(2)),
            kernel.textures,
            kernel.surfaces,
            kernel.samplers,
            function.name
        );
        for (number, (offset, bytes)) in kernel.parameters.iter().enumerate() {
            let at = kernel.parameter_offset + offset;
            println!("parameter {number} offset={at:#x} size={bytes}");
        }
    }
}

fn number_text(number: Option<impl ToString>) -> String {
    number.map_or("-".to_owned(), |number| number.to_string())
}
