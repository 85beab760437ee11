//! The interfaces in a cubin: `culd-dump --abi`.
//!
//! In: a [`View`]. Out: text: the places of kernels' parameters, the prototypes of functions and
//! indirect calls in PTX, the needed system calls with their documented prototypes, the address
//! classes in debug information. Guaranteed: the same file gives the same text; damage is reported
//! at its place.

mod classes;

use std::fmt::Write;

use culd_abi::prototype::Prototype;
use culd_abi::syscall::SystemCall;
use culd_abi::types::AddressSize;
use culd_cubin::SymbolSection;
use culd_cubin::attr::{Records, code};
use culd_cubin::callgraph::{Edge, edges, prototypes};
use culd_cubin::elf::sht;
use culd_cubin::parameter::KernelParameter;

use crate::view::View;

/// A title and the lines below it.
type TitledLines = (&'static str, Vec<String>);

/// The whole text.
pub fn describe(view: &View<'_>) -> String {
    let parts: [TitledLines; 5] = [
        ("kernels", kernels(view)),
        ("prototypes", functions(view)),
        ("indirect calls", indirect_calls(view)),
        ("system calls", system_calls(view)),
        ("address classes", classes::lines(view)),
    ];
    let mut text = String::new();
    for (title, lines) in parts.iter().filter(|(_, lines)| !lines.is_empty()) {
        let _ = writeln!(text, "{title}");
        for line in lines {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

/// The parameters of each kernel.
fn kernels(view: &View<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for (section, name) in view.cubin.sections.iter().zip(&view.sections) {
        let Some(kernel) = name.strip_prefix(".nv.info.") else { continue };
        let (mut place, mut parameters) = (None, Vec::new());
        for record in Records::new(section.name, section.data) {
            let Ok(record) = record else { break };
            if record.code == code::PARAM_CBANK {
                place = record.word(1);
            }
            parameters.extend(KernelParameter::of(&record));
        }
        let Some(place) = place else { continue };
        let (offset, size) = (place & 0xffff, place >> 16);
        lines.push(format!("{kernel}: {size:#x} bytes of parameters at c[0][{offset:#x}]"));
        parameters.sort_unstable();
        lines.extend(parameters.iter().map(parameter));
    }
    lines
}

fn parameter(one: &KernelParameter) -> String {
    let KernelParameter { ordinal, offset, size, pointee } = one;
    let mut line = format!("  {ordinal}: offset {offset:#x}, {size:#x} bytes");
    if let Some(pointee) = pointee {
        match pointee.space_name() {
            Some(space) => write!(line, ", points to {space} memory"),
            None => write!(line, ", points to memory of space {:#x}", pointee.space),
        }
        .unwrap_or_default();
        if pointee.log_align != 0 {
            let align = 1u64.checked_shl(pointee.log_align.into());
            let align = align.map_or_else(|| "?".to_owned(), |align| align.to_string());
            let _ = write!(line, " aligned to {align}");
        }
    }
    line
}

/// A prototype as it stands, and in the words of PTX.
fn shown(view: &View<'_>, string: u32) -> String {
    let text = view.string(string);
    let text = text.trim_matches('"').to_owned();
    match Prototype::parse(&text) {
        None => text,
        Some(prototype) => match prototype.registers {
            None => format!("{prototype} ({text})"),
            Some(registers) => {
                let types = text.split('|').next().unwrap_or_default();
                format!("{prototype} ({types}), registers {registers}")
            }
        },
    }
}

/// The prototypes of functions: those that are called, and those whose address is taken.
fn functions(view: &View<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for section in &view.cubin.sections {
        match section.sh_type {
            sht::CUDA_CALLGRAPH => {
                for edge in edges(section).map_while(Result::ok) {
                    if let (_, Edge::AddressTaken { function, prototype }) = edge {
                        let name = view.symbol(section, function.0);
                        let prototype = shown(view, prototype);
                        lines.push(format!("{name}: {prototype}, its address is taken"));
                    }
                }
            }
            sht::CUDA_PROTOTYPE => lines.extend(prototypes(section).map(|(function, string)| {
                format!("{}: {}", view.symbol(section, function.0), shown(view, string))
            })),
            _ => {}
        }
    }
    lines
}

fn indirect_calls(view: &View<'_>) -> Vec<String> {
    let graphs = view.cubin.sections.iter().filter(|one| one.sh_type == sht::CUDA_CALLGRAPH);
    let call = |section: &_, edge| match edge {
        Edge::IndirectCall { function, prototype } => {
            Some(format!("{}: {}", view.symbol(section, function.0), shown(view, prototype)))
        }
        _ => None,
    };
    graphs
        .flat_map(|section| {
            let edges = edges(section).map_while(Result::ok);
            edges.filter_map(|(_, edge)| call(section, edge)).collect::<Vec<_>>()
        })
        .collect()
}

/// The undefined functions that the driver defines.
fn system_calls(view: &View<'_>) -> Vec<String> {
    let undefined = view
        .cubin
        .symbols
        .iter()
        .filter(|symbol| symbol.is_function() && symbol.section == SymbolSection::Undefined);
    let known = undefined.filter_map(|symbol| {
        let call = SystemCall::by_name(std::str::from_utf8(symbol.name).ok()?)?;
        let (function, header) = call.emitted_by;
        let prototype = call.prototype(AddressSize::Bits64);
        Some(format!("{}: {prototype}, of {function} in {header}", call.name))
    });
    known.collect()
}
