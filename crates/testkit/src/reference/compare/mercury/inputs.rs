//! Facts about the inputs of a link that limit its output.
//!
//! In: the arguments and objects of a link. Out: [`LinkObjects`]: the functions that were compiled
//! for a debugger, those that several objects have, their code, and the devices that each object
//! suits.

use super::compiled::ObjectCode;
use culd_cubin::attr::{Record, Records};
use culd_cubin::compat::code;
use culd_cubin::elf::stb;
use culd_cubin::note::{self, ToolRecord};
use culd_cubin::{Cubin, Section, Symbol};
use std::collections::HashSet;

/// The name of the section that lists machine code's devices.
pub(super) const COMPAT: &[u8] = b".nv.compat";

/// Facts about the objects of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkObjects {
    /// The link has `-g`.
    link: bool,
    /// An object was compiled with `-g`.
    any: bool,
    /// An object was compiled with `-O0`.
    plain: bool,
    /// Functions of objects compiled with `-g`.
    with: HashSet<Vec<u8>>,
    /// Functions of objects compiled without.
    without: HashSet<Vec<u8>>,
    /// Functions that several objects define.
    copies: HashSet<Vec<u8>>,
    /// By object with code.
    families: Vec<DeviceFamily>,
    compiled: ObjectCode,
}

/// The devices that the code of an object suits.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DeviceFamily {
    devices: u64,
    functions: Vec<Vec<u8>>,
}

impl LinkObjects {
    /// The facts in the arguments of a link and its objects.
    pub fn of(arguments: &[String], objects: &[Vec<u8>]) -> Self {
        let word = |wanted: &[&str]| arguments.iter().any(|word| wanted.contains(&word.as_str()));
        let suppressed = word(&["-suppress-debug-info", "--suppress-debug-info"]);
        let mut inputs =
            LinkObjects { link: word(&["-g", "--debug"]) && !suppressed, ..LinkObjects::default() };
        let mut seen = HashSet::new();
        for object in objects.iter().filter_map(|bytes| Cubin::parse(bytes).ok()) {
            let defined =
                |symbol: &&Symbol<'_>| symbol.is_function() && symbol.defined_in().is_some();
            let names = || object.symbols.iter().filter(defined).map(|symbol| symbol.name.to_vec());
            inputs.compiled.add(&object);
            let with = compiled_with(&object, |options| options.contains(&"-g"));
            inputs.any |= with;
            inputs.plain |= compiled_with(&object, |options| {
                options.windows(2).any(|pair| pair == ["-O", "0"])
            });
            if with { &mut inputs.with } else { &mut inputs.without }.extend(names());
            let functions: Vec<_> = names().collect();
            if let Some(devices) = devices(&object).filter(|_| !functions.is_empty()) {
                inputs.families.push(DeviceFamily { devices, functions });
            }
            let local = |symbol: &&Symbol<'_>| symbol.binding() == stb::LOCAL;
            for symbol in object.symbols.iter().filter(defined).filter(|symbol| !local(symbol)) {
                if !seen.insert(symbol.name.to_vec()) {
                    inputs.copies.insert(symbol.name.to_vec());
                }
            }
        }
        inputs
    }

    /// The same for a link of `steps`, objects that a linker made of those of the compiler. nvlink
    /// writes some of their code anew.
    #[must_use]
    pub fn with_steps(mut self, steps: &[Vec<u8>]) -> Self {
        for object in steps.iter().filter_map(|bytes| Cubin::parse(bytes).ok()) {
            self.compiled.add(&object);
        }
        self
    }

    /// True for a program with any part for a debugger.
    pub(in crate::reference::compare) fn for_debugger(&self) -> bool {
        self.link || self.any
    }

    /// True for a program whose jump slots may have been compiled without optimization: nvlink
    /// rewrites their control bits.
    pub(super) fn has_plain_slots(&self) -> bool {
        self.for_debugger() || self.plain
    }

    /// True for a function compiled without `-g` in a program for a debugger.
    pub(in crate::reference::compare) fn lacks_debug(&self, function: &[u8]) -> bool {
        self.for_debugger() && self.without.contains(function)
    }

    /// True if the finalizer rewrites the kernel because its compilation and the link differ in
    /// `-g`.
    pub(super) fn rewrites(&self, kernel: &[u8], calls: bool) -> bool {
        self.lacks_debug(kernel) || (!self.link && !calls && self.with.contains(kernel))
    }

    /// The code of the objects.
    pub(super) fn compiled(&self) -> &ObjectCode {
        &self.compiled
    }

    /// The functions that several objects define.
    pub(super) fn copies(&self) -> &HashSet<Vec<u8>> {
        &self.copies
    }

    /// True if the code of `program` may suit the devices `more`, although some objects do not:
    /// each of those has code that is not in the program.
    pub(super) fn may_suit(&self, more: u64, program: &Cubin<'_>) -> bool {
        let functions = program.symbols.iter().filter(|symbol| symbol.is_function());
        let functions: HashSet<&[u8]> = functions.map(|symbol| symbol.name).collect();
        let absent = |name: &Vec<u8>| {
            !functions.contains(name.as_slice()) || self.copies.contains(name.as_slice())
        };
        let lacks = self.families.iter().filter(|family| family.devices & more != more);
        lacks.into_iter().all(|family| family.functions.iter().any(absent))
    }
}

/// Attribute 11 of `.nv.compat`, that section.
pub(super) fn finalizer<'d>(compat: &Section<'d>) -> Option<Record<'d>> {
    let mut records = Records::new(compat.name, compat.data).filter_map(Result::ok);
    records.find(|record| record.code == code::FINALIZER)
}

/// The devices that the code of a file suits, as the file says.
pub(super) fn devices(object: &Cubin<'_>) -> Option<u64> {
    let record = finalizer(object.section_by_name(COMPAT)?)?;
    record.payload.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// True when the options of a compiler that made `object` are what `asked` asks for.
fn compiled_with(object: &Cubin<'_>, asked: impl Fn(&[&str]) -> bool) -> bool {
    let Some(section) = object.section_by_name(b".note.nv.tkinfo") else { return false };
    let tools = note::records(section.name, section.data).filter_map(Result::ok);
    tools
        .filter_map(|record| ToolRecord::parse(record.descriptor))
        .any(|tool| asked(&tool.options.split_whitespace().collect::<Vec<_>>()))
}
