//! Faults of one module by itself: documented limits, and system calls.

use super::fault::{Fault, Position};
use super::{Finding, NamedModule, SourceLine, same_type};
use crate::params::{ALIGNMENTS, LEAST_REGISTER};
use crate::ptx::{
    ArrayExtent, Declaration, DeclarationKind, PtxFunction, PtxLinkage, PtxVariable, Scalar,
};
use crate::space::StateSpace;
use crate::syscall::{Argument, SystemCall};
use crate::types::AddressSize;

/// The first release of PTX with the ABI (the guide, 2).
const FIRST_WITH_ABI: (u32, u32) = (2, 0);

/// Older modules with registers or local variables at module scope are compiled without the ABI
/// (PTX ISA, 5.1.1).
const ABI_ALWAYS: (u32, u32) = (3, 0);

pub(super) fn check(named: &NamedModule<'_>, findings: &mut Vec<Finding>) {
    let module = named.module;
    let version = module.version.unwrap_or(ABI_ALWAYS);
    let calls = |item: &Declaration| {
        matches!(&item.what, DeclarationKind::Function(f) if !f.entry) && !item.defined
    };
    if version < FIRST_WITH_ABI && module.items.iter().any(calls) {
        let fault = Fault::Version { major: version.0, minor: version.1 };
        findings.push(Finding { place: at(named, 1), fault, other: None });
    }
    for item in &module.items {
        let mut faults = Vec::new();
        match &item.what {
            DeclarationKind::Function(function) => {
                limits(&item.name, function, &mut faults);
                if is_foreign(item) {
                    faults.extend(system_call(&item.name, function, module.address_size()));
                }
            }
            DeclarationKind::Variable(variable) => {
                let outside = !variable.space.at_module_scope();
                if outside && version >= ABI_ALWAYS {
                    let fault =
                        Fault::ModuleScope { name: item.name.clone(), space: variable.space };
                    faults.push(fault);
                }
            }
            DeclarationKind::Alias(_) => {}
        }
        for fault in faults {
            findings.push(Finding { place: at(named, item.line), fault, other: None });
        }
    }
}

fn at(named: &NamedModule<'_>, line: u32) -> SourceLine {
    SourceLine { file: named.name.to_owned(), line }
}

/// Only a function that is defined elsewhere can be the driver's.
fn is_foreign(item: &Declaration) -> bool {
    item.linkage == PtxLinkage::Extern && !item.defined
}

fn limits(name: &str, function: &PtxFunction, faults: &mut Vec<Fault>) {
    let results = function.results.iter().zip(1..).map(|(one, at)| (Position::Result(at), one));
    let parameters =
        function.parameters.iter().zip(1..).map(|(one, at)| (Position::Parameter(at), one));
    for (position, one) in results.chain(parameters) {
        let name = || name.to_owned();
        match one.space {
            StateSpace::Reg if one.element() < LEAST_REGISTER && one.extent == ArrayExtent::One => {
                let bits = if one.element() == 0 { 1 } else { one.element() * 8 };
                faults.push(Fault::SmallRegister { name: name(), position, bits });
            }
            _ if !ALIGNMENTS.contains(&one.alignment()) => {
                let align = one.alignment();
                faults.push(Fault::ParameterAlignment { name: name(), position, align });
            }
            _ => {}
        }
    }
}

/// A declaration of a system call that is not the driver's.
fn system_call(name: &str, function: &PtxFunction, address: AddressSize) -> Option<Fault> {
    let call = SystemCall::by_name(name)?;
    let expected: Vec<PtxVariable> =
        call.parameters.iter().map(|one| variable(one, address)).collect();
    let result: Vec<PtxVariable> = call.result.iter().map(|one| variable(one, address)).collect();
    let agree = |here: &[PtxVariable], there: &[PtxVariable]| {
        here.len() == there.len()
            && here.iter().zip(there).all(|(a, b)| a.size() == b.size() && same_type(a, b))
    };
    // A call whose result is not used is often declared without one.
    let results = agree(&function.results, &result) || function.results.is_empty();
    if !function.entry && results && agree(&function.parameters, &expected) {
        return None;
    }
    let fault = Fault::SystemCall { name: name.to_owned(), prototype: call.prototype(address) };
    Some(fault)
}

fn variable(argument: &Argument, address: AddressSize) -> PtxVariable {
    PtxVariable {
        space: StateSpace::Param,
        ty: Scalar::Fundamental(argument.word.resolve(address)),
        vector: 1,
        align: None,
        extent: ArrayExtent::One,
    }
}
