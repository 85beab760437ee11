//! Links the same inputs for several architectures at once and packs the images into one fat
//! binary.
//!
//! ```text
//! cargo run --release -p culd --example pack -- -arch sm_90 -arch sm_100 a.o b.o libc.a -o program.fatbin
//! cuobjdump --list-elf program.fatbin
//! ```

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use culd::fatbin::writer::{self, ImageTarget, InputImage};
use culd::{Arch, Linked, Linker, Options, report};

/// What the command line says.
#[derive(Default)]
struct Task {
    archs: Vec<&'static Arch>,
    inputs: Vec<PathBuf>,
    output: PathBuf,
}

fn main() -> ExitCode {
    match task().and_then(|task| pack(&task)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pack: {error}");
            ExitCode::FAILURE
        }
    }
}

fn task() -> Result<Task, Box<dyn Error>> {
    let mut task = Task::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} without a value"));
        match word.as_str() {
            "-arch" => task.archs.push(Options::for_arch(&value()?)?.arch()),
            "-o" => task.output = value()?.into(),
            _ => task.inputs.push(word.into()),
        }
    }
    match task.archs.is_empty() || task.inputs.is_empty() || task.output.as_os_str().is_empty() {
        true => Err("use: pack -arch ARCH... INPUT... -o OUTPUT".into()),
        false => Ok(task),
    }
}

fn pack(task: &Task) -> Result<(), Box<dyn Error>> {
    let linked = link_all(task);
    let mut images = Vec::new();
    for (arch, linked) in task.archs.iter().zip(linked) {
        let linked = linked.map_err(|error| format!("{}:\n{error}", arch.name))?;
        for warning in linked.warnings() {
            eprintln!("pack: {}: {warning}", arch.name);
        }
        describe(arch, &linked);
        let target = ImageTarget { sm: arch.sm, variant: arch.variant };
        images.push(InputImage::cubin(linked.into_image(), target)?);
    }
    std::fs::write(&task.output, writer::write(&images)?)?;
    Ok(())
}

/// One link for each architecture, all at the same time: a linker has no state but its own.
fn link_all(task: &Task) -> Vec<Result<Linked, culd::LinkError>> {
    let link = |arch: &'static Arch| {
        let mut linker = Linker::new(Options::new(arch));
        for input in &task.inputs {
            linker.add_file(input);
        }
        linker.link()
    };
    std::thread::scope(|scope| {
        let start = |&arch: &&'static Arch| scope.spawn(move || link(arch));
        let running: Vec<_> = task.archs.iter().map(start).collect();
        running.into_iter().map(|link| link.join().expect("a link does not panic")).collect()
    })
}

fn describe(arch: &Arch, linked: &Linked) {
    let data = linked.report();
    for (_, function, kernel) in data.images.iter().flat_map(report::ReportImage::kernels) {
        let registers = function.registers.total.unwrap_or_default();
        let (name, parameters) = (function.shown(), kernel.parameters.len());
        println!("{}: {name}: {registers} registers, {parameters} parameters", arch.name);
    }
    for removed in &data.removed {
        let file = &data.inputs[removed.input].name;
        println!("{}: {} of {file} is left out: {:?}", arch.name, removed.name, removed.why);
    }
}
