//! Checks of each part alone, and of all names.
//!
//! In: a [`Builder`]. Out: nothing, or an error. Guaranteed: parts that pass have valid names,
//! sizes that fit, and references to symbols of this builder only.

use std::collections::HashSet;

use super::{
    AttributeValue, BuildError, Builder, BuilderSymbol, Code, DebugSection, Linkage, Mercury,
    Relocation, Space, SymbolContent, SymbolId, Variable, VariableContents,
};
use crate::arch::Flavour;
use crate::cubin::{MAX_ALIGN, MAX_SIZE};

/// A number of bytes that no constant variable exceeds.
const MOST_CONSTANT: u64 = 1 << 20;

pub(super) fn check(builder: &Builder) -> Result<(), BuildError> {
    let mut names = HashSet::new();
    for symbol in &builder.symbols {
        let name = || symbol.name.clone();
        if symbol.name.is_empty() || symbol.name.contains('\0') {
            return Err(BuildError::Name(name()));
        }
        // Local functions name sections too.
        let is_function = matches!(symbol.what, SymbolContent::Function { .. });
        if (symbol.linkage != Linkage::Local || is_function) && !names.insert(&symbol.name) {
            return Err(BuildError::Twice(name()));
        }
        match &symbol.what {
            SymbolContent::Function { code: None, .. } if symbol.linkage == Linkage::Local => {
                return Err(BuildError::Undefined(name()));
            }
            SymbolContent::Function { code: None, .. } | SymbolContent::Reference(_) => {}
            SymbolContent::Function { code: Some(code), .. } => check_code(builder, symbol, code)?,
            SymbolContent::Variable(variable) => check_variable(builder, symbol, variable)?,
            SymbolContent::Debug(debug) => check_debug(builder, symbol, debug)?,
        }
    }
    Ok(())
}

fn check_code(builder: &Builder, symbol: &BuilderSymbol, code: &Code) -> Result<(), BuildError> {
    let name = || symbol.name.clone();
    let size = code.bytes.len();
    if size == 0 || !size.is_multiple_of(16) {
        return Err(BuildError::Code { name: name(), size });
    }
    check_relocations(builder, &symbol.name, &code.relocations, size as u64)?;
    match (&code.mercury, builder.arch.flavour) {
        (None, Flavour::Classic) => {}
        (Some(mercury), Flavour::Mercury) if mercury.code == size as u64 => {
            check_mercury(builder, symbol, mercury)?;
        }
        _ => return Err(BuildError::Mercury(name())),
    }
    let is_function = |id: &SymbolId| {
        matches!(
            builder.symbols.get(id.0),
            Some(BuilderSymbol { what: SymbolContent::Function { .. }, .. })
        )
    };
    if !code.calls.iter().all(is_function) {
        return Err(BuildError::Symbol(name()));
    }
    check_attributes(symbol, &code.attributes)?;
    let Some(kernel) = &code.kernel else { return Ok(()) };
    for &(_, align) in &kernel.parameters {
        check_align(symbol, align.into())?;
    }
    let (_, size) = parameters(&kernel.parameters, 0);
    match u16::try_from(size) {
        Ok(_) if kernel.parameters.len() <= usize::from(u16::MAX) => Ok(()),
        _ => Err(BuildError::Parameters(name())),
    }
}

/// Offsets in Mercury code count before compression.
fn check_mercury(
    builder: &Builder,
    symbol: &BuilderSymbol,
    mercury: &Mercury,
) -> Result<(), BuildError> {
    check_relocations(builder, &symbol.name, &mercury.relocations, u64::MAX)?;
    check_attributes(symbol, &mercury.attributes)
}

fn check_attributes(
    symbol: &BuilderSymbol,
    attributes: &[super::Attribute],
) -> Result<(), BuildError> {
    for attribute in attributes {
        if let AttributeValue::Words(words) = &attribute.value
            && words.len() * 4 > usize::from(u16::MAX)
        {
            let name = symbol.name.clone();
            return Err(BuildError::Attribute { name, code: attribute.code });
        }
    }
    Ok(())
}

fn check_variable(
    builder: &Builder,
    symbol: &BuilderSymbol,
    variable: &Variable,
) -> Result<(), BuildError> {
    let name = || symbol.name.clone();
    check_align(symbol, variable.align)?;
    let most = if variable.space == Space::Constant { MOST_CONSTANT } else { MAX_SIZE };
    if variable.contents.size() > most {
        return Err(BuildError::TooLarge);
    }
    let defines = |id: SymbolId| {
        let symbol = builder.symbols.get(id.0);
        symbol.is_some_and(|one| matches!(&one.what, SymbolContent::Function { code: Some(_), .. }))
    };
    if variable.owner.is_some_and(|owner| !defines(owner)) {
        return Err(BuildError::Symbol(name()));
    }
    let size = match (&variable.contents, variable.space) {
        (VariableContents::Bytes(_), Space::Shared) => return Err(BuildError::Shared(name())),
        (VariableContents::None(_) | VariableContents::Common(_), _)
            if symbol.linkage == Linkage::Local =>
        {
            return Err(BuildError::Undefined(name()));
        }
        (VariableContents::Bytes(bytes), _) => bytes.len() as u64,
        _ => 0,
    };
    // Only literals are written twice.
    let mercury = variable.mercury.as_ref();
    if mercury.is_some_and(|bytes| variable.owner.is_none() || bytes.len() as u64 != size) {
        return Err(BuildError::Mercury(name()));
    }
    check_relocations(builder, &symbol.name, &variable.relocations, size)?;
    check_relocations(builder, &symbol.name, &variable.mercury_relocations, size)
}

fn check_debug(
    builder: &Builder,
    symbol: &BuilderSymbol,
    debug: &DebugSection,
) -> Result<(), BuildError> {
    if debug.mercury.is_some() != (builder.arch.flavour == Flavour::Mercury) {
        return Err(BuildError::Mercury(symbol.name.clone()));
    }
    let size = debug.mercury.as_ref().map_or(0, Vec::len) as u64;
    check_relocations(builder, &symbol.name, &debug.mercury_relocations, size)?;
    check_relocations(builder, &symbol.name, &debug.relocations, debug.bytes.len() as u64)
}

fn check_align(symbol: &BuilderSymbol, align: u64) -> Result<(), BuildError> {
    match align.is_power_of_two() && align <= MAX_ALIGN {
        true => Ok(()),
        false => Err(BuildError::Align { name: symbol.name.clone(), align }),
    }
}

fn check_relocations(
    builder: &Builder,
    name: &str,
    relocations: &[Relocation],
    size: u64,
) -> Result<(), BuildError> {
    for relocation in relocations {
        if relocation.symbol.is_some_and(|id| id.0 >= builder.symbols.len()) {
            return Err(BuildError::Symbol(name.to_owned()));
        }
        if relocation.offset >= size {
            let name = name.to_owned();
            return Err(BuildError::Relocation { name, offset: relocation.offset });
        }
    }
    Ok(())
}

/// Offsets of the parameters of a kernel, aligned by their addresses in bank 0, and their total
/// size.
pub(super) fn parameters(sizes: &[(u32, u32)], base: u32) -> (Vec<u32>, u64) {
    let mut end = u64::from(base);
    let mut offsets = Vec::with_capacity(sizes.len());
    for &(size, align) in sizes {
        let address = end.next_multiple_of(align.max(1).into());
        offsets.push((address - u64::from(base)) as u32);
        end = address + u64::from(size);
    }
    (offsets, end - u64::from(base))
}
