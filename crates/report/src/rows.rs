//! Rows of functions and variables that borrow their data.
//!
//! In: the account of a link, or a report. Out: rows of a report, or of its JSON form
//! (`crate::row_text`). Guaranteed: nothing is copied but into these.

use std::borrow::Cow;

use crate::data::{
    Bounds, ReportFunction, ReportKernel, ReportNeed, ReportSpace, ReportStack, ReportVariable,
};

/// A function.
pub(crate) struct FunctionRow<'a> {
    pub(crate) name: &'a str,
    pub(crate) demangled: Cow<'a, str>,
    pub(crate) input: Option<usize>,
    pub(crate) section: Option<usize>,
    pub(crate) offset: u64,
    pub(crate) code: u64,
    pub(crate) registers: ReportNeed,
    pub(crate) barriers: ReportNeed,
    pub(crate) stack: ReportStack,
    pub(crate) address_taken: bool,
    pub(crate) recursive: bool,
    pub(crate) calls: &'a [usize],
    pub(crate) indirect: &'a [usize],
    pub(crate) kernel: Option<KernelRow<'a>>,
    pub(crate) source: &'a str,
}

/// The properties that only a kernel has.
pub(crate) struct KernelRow<'a> {
    pub(crate) shared: u64,
    pub(crate) system_shared: u64,
    pub(crate) dynamic_shared: bool,
    pub(crate) local: u64,
    pub(crate) constants: &'a [(u8, u64)],
    pub(crate) textures: usize,
    pub(crate) surfaces: usize,
    pub(crate) samplers: usize,
    pub(crate) parameter_offset: u32,
    pub(crate) parameter_bytes: u32,
    pub(crate) parameters: &'a [(u32, u32)],
    pub(crate) bounds: Bounds,
    pub(crate) occupancy: Option<usize>,
}

/// A variable.
pub(crate) struct VariableRow<'a> {
    pub(crate) name: &'a str,
    pub(crate) demangled: Cow<'a, str>,
    pub(crate) space: ReportSpace,
    pub(crate) input: Option<usize>,
    pub(crate) section: Option<usize>,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl From<FunctionRow<'_>> for ReportFunction {
    fn from(row: FunctionRow<'_>) -> Self {
        ReportFunction {
            name: row.name.to_owned(),
            demangled: row.demangled.into_owned(),
            input: row.input,
            section: row.section,
            offset: row.offset,
            code: row.code,
            registers: row.registers,
            barriers: row.barriers,
            stack: row.stack,
            address_taken: row.address_taken,
            recursive: row.recursive,
            calls: row.calls.to_vec(),
            indirect: row.indirect.to_vec(),
            kernel: row.kernel.map(|kernel| Box::new(kernel.into())),
            source: row.source.to_owned(),
        }
    }
}

impl From<KernelRow<'_>> for ReportKernel {
    fn from(row: KernelRow<'_>) -> Self {
        ReportKernel {
            shared: row.shared,
            system_shared: row.system_shared,
            dynamic_shared: row.dynamic_shared,
            local: row.local,
            constants: row.constants.to_vec(),
            textures: row.textures,
            surfaces: row.surfaces,
            samplers: row.samplers,
            parameter_offset: row.parameter_offset,
            parameter_bytes: row.parameter_bytes,
            parameters: row.parameters.to_vec(),
            bounds: row.bounds,
            occupancy: row.occupancy,
        }
    }
}

impl From<VariableRow<'_>> for ReportVariable {
    fn from(row: VariableRow<'_>) -> Self {
        ReportVariable {
            name: row.name.to_owned(),
            demangled: row.demangled.into_owned(),
            space: row.space,
            input: row.input,
            section: row.section,
            offset: row.offset,
            bytes: row.bytes,
        }
    }
}
