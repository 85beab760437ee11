//! Makes a relocatable cubin from parts, as an assembler would, and links it with a compiled one.
//!
//! ```text
//! cargo run -p culd --example build
//! ```
//!
//! The machine code is that of a small function which ptxas compiled (testdata/quickstart); what is
//! around it, another variable than the original's included, is made here.

use std::error::Error;

use culd::cubin::Cubin;
use culd::cubin::build::{Builder, Code, Linkage, Space, Variable};
use culd::{Arch, InputKind, Linker, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/quickstart/");
    let saxpy = std::fs::read(format!("{folder}saxpy.cubin"))?;
    let object = object(&std::fs::read(format!("{folder}smooth.cubin"))?)?;

    let mut linker = Linker::new(Options::for_arch("sm_90")?);
    linker.add_bytes("saxpy", InputKind::Cubin, &saxpy);
    linker.add_bytes("made", InputKind::Cubin, &object);
    let linked = linker.link()?;
    let report = linked.report();
    let image = &report.images[0];
    for (_, function, kernel) in image.kernels() {
        let registers = function.registers.total.unwrap_or_default();
        let parameters = kernel.parameters.len();
        println!("{}: {registers} registers, {parameters} parameters", function.name);
    }
    for function in &image.functions {
        let name = |&callee: &usize| image.functions[callee].name.as_str();
        let calls: Vec<&str> = function.calls.iter().map(name).collect();
        println!("{} calls {calls:?}", function.name);
    }
    println!("{} bytes of object, {} bytes of program", object.len(), linked.image().len());
    Ok(())
}

/// An object with the function `smooth` and the variable `offset`, which `saxpy` uses.
fn object(compiled: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let compiled = Cubin::parse(compiled)?;
    let code = compiled.section_by_name(b".text.smooth").ok_or("no code")?.data;

    let mut builder = Builder::new(Arch::by_name("sm_90").ok_or("no sm_90")?);
    let smooth = builder.function("smooth", Linkage::Global);
    builder.define(smooth, Code::new(code).registers(24));
    // A word returned, a word taken: linkers hold it against what callers expect.
    builder.prototype(smooth, "#ff", false);
    let offset = 1.5f32.to_le_bytes();
    builder.variable(Variable::initialised("offset", Space::Global, offset));
    Ok(builder.finish()?)
}
