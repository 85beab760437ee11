//! Checks whether PTX modules agree on their interfaces.
//!
//! In: modules with their names. Out: [`Finding`]s: disagreements of two modules, and declarations
//! beyond documented limits. Guaranteed: findings come in the order of the modules and their lines;
//! nothing is guessed that is not declared.
//!
//! Types of one size are one type here if one of them is untyped: compilers write `.b32` for every
//! word. Registers and `.param` count as equal for a parameter (PTX ISA, 7.1: the choice has no
//! impact).

mod fault;
mod single;

use std::collections::HashMap;
use std::fmt;

use crate::ptx::{Extent, Function, Item, Linkage, Module, Variable, What};
use crate::space::{CONSTANT_BYTES, StateSpace};
use crate::types::Class;

pub use fault::{Fault, Position};

/// A module and what messages call it.
#[derive(Debug, Clone, Copy)]
pub struct Named<'m> {
    /// Its file.
    pub name: &'m str,
    /// Its declarations.
    pub module: &'m Module,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The name of the module.
    pub file: String,
    /// Counted from 1.
    pub line: u32,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The place.
    pub place: Place,
    /// The fault.
    pub fault: Fault,
    /// The place and text of the declaration that it disagrees with.
    pub other: Option<(Place, String)>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, line {}", self.file, self.line)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.fault)
    }
}

/// Checks `modules` as parts of one program.
pub fn check(modules: &[Named<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for named in modules {
        single::check(named, &mut findings);
    }
    address_sizes(modules, &mut findings);
    let mut program = Program { references: HashMap::new(), findings };
    for named in modules {
        program.find_references(named);
    }
    for named in modules {
        program.compare(named);
    }
    let mut findings = program.findings;
    constants(modules, &mut findings);
    let order = |finding: &Finding| {
        let file = modules.iter().position(|named| named.name == finding.place.file);
        (file, finding.place.line)
    };
    findings.sort_by_key(order);
    findings
}

/// The linker does not link for two hosts (the guide, 1.1).
fn address_sizes(modules: &[Named<'_>], findings: &mut Vec<Finding>) {
    let Some((first, rest)) = modules.split_first() else { return };
    let expected = first.module.address_size();
    for named in rest {
        let found = named.module.address_size();
        if found != expected {
            findings.push(Finding {
                place: Place { file: named.name.to_owned(), line: 1 },
                fault: Fault::AddressSize { found: found.bits() },
                other: Some((
                    Place { file: first.name.to_owned(), line: 1 },
                    format!("{} bits", expected.bits()),
                )),
            });
        }
    }
}

/// Constants of all modules beyond a program's limit; copies of weak ones count once.
fn constants(modules: &[Named<'_>], findings: &mut Vec<Finding>) {
    let mut total = 0u64;
    let mut weak: HashMap<&str, ()> = HashMap::new();
    for named in modules {
        for item in &named.module.items {
            let What::Variable(variable) = &item.what else { continue };
            if variable.space != StateSpace::Const || !item.defined {
                continue;
            }
            let shared = matches!(item.linkage, Linkage::Weak | Linkage::Common);
            if shared && weak.insert(&item.name, ()).is_some() {
                continue;
            }
            let before = total;
            total = total.saturating_add(variable.size().unwrap_or(0));
            if before <= CONSTANT_BYTES && total > CONSTANT_BYTES {
                findings.push(Finding {
                    place: place(named, item),
                    fault: Fault::Constants { name: item.name.clone(), total },
                    other: None,
                });
            }
        }
    }
}

fn place(named: &Named<'_>, item: &Item) -> Place {
    Place { file: named.name.to_owned(), line: item.line }
}

/// A module and an item of it.
type Site<'m> = (Named<'m>, &'m Item);

/// The detail of a declaration: the others are compared with the most detailed one.
fn rank(item: &Item) -> u32 {
    match (item.defined, item.linkage) {
        (true, Linkage::Visible) => 0,
        (true, Linkage::Weak) => 1,
        (true, Linkage::Common) => 2,
        _ => 3,
    }
}

struct Program<'m> {
    references: HashMap<&'m str, Site<'m>>,
    findings: Vec<Finding>,
}

impl<'m> Program<'m> {
    /// Names that other modules see.
    fn find_references(&mut self, named: &Named<'m>) {
        for item in named.module.items.iter().filter(|item| item.linkage != Linkage::Local) {
            let site = self.references.entry(&item.name).or_insert((*named, item));
            if rank(item) < rank(site.1) {
                *site = (*named, item);
            }
        }
    }

    fn compare(&mut self, named: &Named<'m>) {
        // Local names: a definition and its declarations in the same module.
        let mut locals: HashMap<&str, &'m Item> = HashMap::new();
        for item in named.module.items.iter().filter(|item| item.linkage == Linkage::Local) {
            let best = locals.entry(&item.name).or_insert(item);
            if item.defined && !best.defined {
                *best = item;
            }
        }
        for item in &named.module.items {
            let reference = match item.linkage {
                Linkage::Local => locals.get(item.name.as_str()).map(|item| (*named, *item)),
                _ => self.references.get(item.name.as_str()).copied(),
            };
            if let Some(reference) = reference.filter(|site| !std::ptr::eq(site.1, item)) {
                self.pair((*named, item), reference);
            }
        }
    }

    /// Holds `site` against the best of its name.
    fn pair(&mut self, (named, item): Site<'m>, (other_named, other): Site<'m>) {
        let mut faults = Vec::new();
        let strong = |item: &Item| item.defined && item.linkage == Linkage::Visible;
        if strong(item) && strong(other) {
            faults.push((Fault::Duplicate { name: item.name.clone() }, "defined".to_owned()));
        }
        disagreements(item, other, &mut faults);
        for (fault, says) in faults {
            self.findings.push(Finding {
                place: place(&named, item),
                fault,
                other: Some((place(&other_named, other), says)),
            });
        }
    }
}

/// The differences of `item` from `other`, each with the text of the latter.
fn disagreements(item: &Item, other: &Item, faults: &mut Vec<(Fault, String)>) {
    let name = || item.name.clone();
    match (&item.what, &other.what) {
        (What::Function(here), What::Function(there)) if here.entry == there.entry => {
            functions(&item.name, here, there, faults);
        }
        (What::Variable(here), What::Variable(there)) => {
            if here.space == there.space {
                variables(item, here, other, there, faults);
            } else {
                let fault = Fault::Space { name: name(), space: here.space };
                faults.push((fault, there.space.to_string()));
            }
        }
        // The function behind an alias is not looked up; it is declared before.
        (What::Alias(_), What::Function(_)) | (What::Function(_), What::Alias(_)) => {}
        (What::Alias(_), What::Alias(_)) => {}
        (here, there) => {
            let fault = Fault::Kind { name: name(), kind: kind(here) };
            faults.push((fault, kind(there).to_owned()));
        }
    }
}

fn kind(what: &What) -> &'static str {
    match what {
        What::Function(function) if function.entry => "a kernel",
        What::Function(_) => "a function",
        What::Variable(_) => "a variable",
        What::Alias(_) => "an alias",
    }
}

fn functions(name: &str, here: &Function, there: &Function, faults: &mut Vec<(Fault, String)>) {
    let lists = [
        (&here.results, &there.results, Position::Result as fn(usize) -> Position),
        (&here.parameters, &there.parameters, Position::Parameter as fn(usize) -> Position),
    ];
    for (here, there, position) in lists {
        if here.len() != there.len() {
            let fault = match position(0) {
                Position::Result(_) => {
                    Fault::ResultCount { name: name.to_owned(), count: here.len() }
                }
                Position::Parameter(_) => {
                    Fault::ParameterCount { name: name.to_owned(), count: here.len() }
                }
            };
            faults.push((fault, there.len().to_string()));
            continue;
        }
        for (number, (here, there)) in here.iter().zip(there).enumerate() {
            passed(name, position(number + 1), here, there, faults);
        }
    }
}

/// One parameter or result in both interfaces.
fn passed(
    name: &str,
    position: Position,
    here: &Variable,
    there: &Variable,
    faults: &mut Vec<(Fault, String)>,
) {
    let name = || name.to_owned();
    let says = there.to_string();
    let declared = here.to_string();
    if here.size() != there.size() {
        faults.push((Fault::Size { name: name(), position, declared }, says));
    } else if !same_type(here, there) {
        faults.push((Fault::Type { name: name(), position, declared }, says));
    } else if here.alignment() != there.alignment() {
        faults.push((Fault::Alignment { name: name(), position, declared }, says));
    }
}

/// True when both can be passed as each other.
fn same_type(here: &Variable, there: &Variable) -> bool {
    let is_array = |variable: &Variable| variable.extent != Extent::One;
    if is_array(here) != is_array(there) {
        return false;
    }
    let is_float = |variable: &Variable| match variable.ty.class() {
        Some(Class::Float) => Some(true),
        Some(Class::Signed | Class::Unsigned) => Some(false),
        Some(Class::Untyped) | None => None,
    };
    match (is_float(here), is_float(there)) {
        (Some(here), Some(there)) => here == there,
        _ => true,
    }
}

fn variables(
    item: &Item,
    here: &Variable,
    other: &Item,
    there: &Variable,
    faults: &mut Vec<(Fault, String)>,
) {
    let name = || item.name.clone();
    // Two tentative definitions are as large as the larger one.
    let tentative = item.linkage == Linkage::Common || other.linkage == Linkage::Common;
    // Every module declares its own contents of dynamic shared memory.
    let dynamic = here.space == StateSpace::Shared && !item.defined && !other.defined;
    if dynamic {
        return;
    }
    if let (Some(size), Some(expected)) = (here.size(), there.size())
        && size != expected
        && !tentative
    {
        faults.push((Fault::VariableSize { name: name(), size }, format!("{expected} bytes")));
    }
    // A module that expects less than there is does no harm.
    if here.alignment() > there.alignment() && !item.defined && other.defined {
        let fault = Fault::VariableAlignment { name: name(), align: here.alignment() };
        faults.push((fault, format!("aligned to {}", there.alignment())));
    }
}
