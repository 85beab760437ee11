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

use crate::ptx::{
    ArrayExtent, Declaration, DeclarationKind, Module, PtxFunction, PtxLinkage, PtxVariable,
};
use crate::space::{CONSTANT_BYTES, StateSpace};
use crate::types::Class;

pub use fault::{Fault, Position};

/// A module and its name in messages.
#[derive(Debug, Clone, Copy)]
pub struct NamedModule<'m> {
    /// Its file.
    pub name: &'m str,
    /// Its declarations.
    pub module: &'m Module,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLine {
    /// The name of the module.
    pub file: String,
    /// Counted from 1.
    pub line: u32,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The place.
    pub place: SourceLine,
    /// The fault.
    pub fault: Fault,
    /// The place and text of the declaration that it disagrees with.
    pub other: Option<(SourceLine, String)>,
}

impl fmt::Display for SourceLine {
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
pub fn check(modules: &[NamedModule<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for named in modules {
        single::check(named, &mut findings);
    }
    address_sizes(modules, &mut findings);
    let mut program = DeclaredProgram { references: HashMap::new(), findings };
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
fn address_sizes(modules: &[NamedModule<'_>], findings: &mut Vec<Finding>) {
    let Some((first, rest)) = modules.split_first() else { return };
    let expected = first.module.address_size();
    for named in rest {
        let found = named.module.address_size();
        if found != expected {
            findings.push(Finding {
                place: SourceLine { file: named.name.to_owned(), line: 1 },
                fault: Fault::AddressSize { found: found.bits() },
                other: Some((
                    SourceLine { file: first.name.to_owned(), line: 1 },
                    format!("{} bits", expected.bits()),
                )),
            });
        }
    }
}

/// Constants of all modules beyond a program's limit; copies of weak ones count once.
fn constants(modules: &[NamedModule<'_>], findings: &mut Vec<Finding>) {
    let mut total = 0u64;
    let mut weak: HashMap<&str, ()> = HashMap::new();
    for named in modules {
        for item in &named.module.items {
            let DeclarationKind::Variable(variable) = &item.what else { continue };
            if variable.space != StateSpace::Const || !item.defined {
                continue;
            }
            let shared = matches!(item.linkage, PtxLinkage::Weak | PtxLinkage::Common);
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

fn place(named: &NamedModule<'_>, item: &Declaration) -> SourceLine {
    SourceLine { file: named.name.to_owned(), line: item.line }
}

/// A module and an item of it.
type DeclarationSite<'m> = (NamedModule<'m>, &'m Declaration);

/// The detail of a declaration: the others are compared with the most detailed one.
fn rank(item: &Declaration) -> u32 {
    match (item.defined, item.linkage) {
        (true, PtxLinkage::Visible) => 0,
        (true, PtxLinkage::Weak) => 1,
        (true, PtxLinkage::Common) => 2,
        _ => 3,
    }
}

struct DeclaredProgram<'m> {
    references: HashMap<&'m str, DeclarationSite<'m>>,
    findings: Vec<Finding>,
}

impl<'m> DeclaredProgram<'m> {
    /// Names that other modules see.
    fn find_references(&mut self, named: &NamedModule<'m>) {
        for item in named.module.items.iter().filter(|item| item.linkage != PtxLinkage::Local) {
            let site = self.references.entry(&item.name).or_insert((*named, item));
            if rank(item) < rank(site.1) {
                *site = (*named, item);
            }
        }
    }

    fn compare(&mut self, named: &NamedModule<'m>) {
        // Local names: a definition and its declarations in the same module.
        let mut locals: HashMap<&str, &'m Declaration> = HashMap::new();
        for item in named.module.items.iter().filter(|item| item.linkage == PtxLinkage::Local) {
            let best = locals.entry(&item.name).or_insert(item);
            if item.defined && !best.defined {
                *best = item;
            }
        }
        for item in &named.module.items {
            let reference = match item.linkage {
                PtxLinkage::Local => locals.get(item.name.as_str()).map(|item| (*named, *item)),
                _ => self.references.get(item.name.as_str()).copied(),
            };
            if let Some(reference) = reference.filter(|site| !std::ptr::eq(site.1, item)) {
                self.pair((*named, item), reference);
            }
        }
    }

    /// Holds `site` against the best of its name.
    fn pair(
        &mut self,
        (named, item): DeclarationSite<'m>,
        (other_named, other): DeclarationSite<'m>,
    ) {
        let mut faults = Vec::new();
        let strong = |item: &Declaration| item.defined && item.linkage == PtxLinkage::Visible;
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
fn disagreements(item: &Declaration, other: &Declaration, faults: &mut Vec<(Fault, String)>) {
    let name = || item.name.clone();
    match (&item.what, &other.what) {
        (DeclarationKind::Function(here), DeclarationKind::Function(there))
            if here.entry == there.entry =>
        {
            functions(&item.name, here, there, faults);
        }
        (DeclarationKind::Variable(here), DeclarationKind::Variable(there)) => {
            if here.space == there.space {
                variables(item, here, other, there, faults);
            } else {
                let fault = Fault::Space { name: name(), space: here.space };
                faults.push((fault, there.space.to_string()));
            }
        }
        // The function behind an alias is not looked up; it is declared before.
        (DeclarationKind::Alias(_), DeclarationKind::Function(_))
        | (DeclarationKind::Function(_), DeclarationKind::Alias(_)) => {}
        (DeclarationKind::Alias(_), DeclarationKind::Alias(_)) => {}
        (here, there) => {
            let fault = Fault::Kind { name: name(), kind: kind(here) };
            faults.push((fault, kind(there).to_owned()));
        }
    }
}

fn kind(what: &DeclarationKind) -> &'static str {
    match what {
        DeclarationKind::Function(function) if function.entry => "a kernel",
        DeclarationKind::Function(_) => "a function",
        DeclarationKind::Variable(_) => "a variable",
        DeclarationKind::Alias(_) => "an alias",
    }
}

fn functions(
    name: &str,
    here: &PtxFunction,
    there: &PtxFunction,
    faults: &mut Vec<(Fault, String)>,
) {
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
    here: &PtxVariable,
    there: &PtxVariable,
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
fn same_type(here: &PtxVariable, there: &PtxVariable) -> bool {
    let is_array = |variable: &PtxVariable| variable.extent != ArrayExtent::One;
    if is_array(here) != is_array(there) {
        return false;
    }
    let is_float = |variable: &PtxVariable| match variable.ty.class() {
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
    item: &Declaration,
    here: &PtxVariable,
    other: &Declaration,
    there: &PtxVariable,
    faults: &mut Vec<(Fault, String)>,
) {
    let name = || item.name.clone();
    // Two tentative definitions are as large as the larger one.
    let tentative = item.linkage == PtxLinkage::Common || other.linkage == PtxLinkage::Common;
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
