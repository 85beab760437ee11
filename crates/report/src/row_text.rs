//! The JSON form of what a report has thousands of: sections, functions and variables.
//!
//! In: rows that borrow from a report or from the account of a link. Out: the bytes that
//! `serde_json` makes of the same data in a report (a test holds them against each other).
//! Guaranteed: nothing is copied but into the text.
//!
//! Field by field through serde, the rows of a link took five times the instructions.

use std::borrow::Cow;
use std::fmt;

use crate::data::{
    Bounds, ReportFunction, ReportKernel, ReportNeed, ReportSection, ReportStack, ReportVariable,
};
use crate::json_text::{self, decimal, text};
use crate::rows::{FunctionRow, KernelRow, VariableRow};

/// Appends rows, with commas between them.
pub(crate) fn rows<T>(
    out: &mut Vec<u8>,
    rows: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T) -> fmt::Result,
) -> fmt::Result {
    for (place, row) in rows.into_iter().enumerate() {
        if place != 0 {
            out.push(b',');
        }
        write(out, row)?;
    }
    Ok(())
}

/// The text of a name and a colon, behind the comma that ends the field before. Its length is known
/// to the compiler, so that it needs no call of `memcpy`.
type Key<const N: usize> = &'static [u8; N];

fn key<const N: usize>(out: &mut Vec<u8>, key: Key<N>) {
    out.extend_from_slice(key);
}

/// The field, if it is not zero.
fn number<const N: usize>(out: &mut Vec<u8>, name: Key<N>, number: u64) {
    if number != 0 {
        key(out, name);
        decimal(out, number);
    }
}

/// The field, if it is there.
fn place<const N: usize>(out: &mut Vec<u8>, name: Key<N>, place: Option<usize>) {
    if let Some(place) = place {
        key(out, name);
        decimal(out, place as u64);
    }
}

/// The field, if it is true.
fn flag<const N: usize>(out: &mut Vec<u8>, name: Key<N>, flag: bool) {
    if flag {
        key(out, name);
        out.extend_from_slice(b"true");
    }
}

/// The field, if it is not empty.
fn words<const N: usize>(out: &mut Vec<u8>, name: Key<N>, words: &str) -> fmt::Result {
    if words.is_empty() {
        return Ok(());
    }
    key(out, name);
    text(out, words)
}

/// A list, by a function that writes an element.
fn list<T>(
    out: &mut Vec<u8>,
    elements: impl IntoIterator<Item = T>,
    mut element: impl FnMut(&mut Vec<u8>, T),
) {
    let mut before = b'[';
    for one in elements {
        out.push(before);
        element(out, one);
        before = b',';
    }
    if before == b'[' {
        out.push(b'[');
    }
    out.push(b']');
}

/// The field, if it is not empty.
fn places<const N: usize>(out: &mut Vec<u8>, name: Key<N>, places: &[usize]) {
    if !places.is_empty() {
        key(out, name);
        list(out, places, |out, &place| decimal(out, place as u64));
    }
}

/// A list of two numbers.
fn pair(out: &mut Vec<u8>, first: u64, second: u64) {
    out.push(b'[');
    decimal(out, first);
    out.push(b',');
    decimal(out, second);
    out.push(b']');
}

/// What a function needs of a resource: [`ReportNeed`] or [`ReportStack`].
struct Need {
    own: Option<u32>,
    total: Option<u32>,
    /// The name of the field that says where the total comes from, and its value.
    cause: (&'static str, Option<usize>),
}

/// The field, if the function needs something: the form of `crate::form`.
fn need<const N: usize>(out: &mut Vec<u8>, name: Key<N>, need: Need) {
    let Need { own, total, cause: (cause_name, cause) } = need;
    match (own, total, cause) {
        (Some(own), Some(total), None) if own == total => number(out, name, own.into()),
        (None, None, None) => {
            key(out, name);
            out.extend_from_slice(b"null");
        }
        _ => {
            key(out, name);
            let own = ("own", own.map(u64::from));
            let parts =
                [own, ("total", total.map(u64::from)), (cause_name, cause.map(|at| at as u64))];
            let mut before = b'{';
            for (name, value) in parts {
                let Some(value) = value else { continue };
                out.extend_from_slice(&[before, b'"']);
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(b"\":");
                decimal(out, value);
                before = b',';
            }
            out.push(b'}');
        }
    }
}

fn of_need(need: ReportNeed) -> Need {
    Need { own: need.own, total: need.total, cause: ("set_by", need.set_by) }
}

/// Appends a section.
pub(crate) fn section(out: &mut Vec<u8>, section: &ReportSection) -> fmt::Result {
    let ReportSection { kind, offset, bytes, function, input, ref pieces } = *section;
    out.push(b'[');
    decimal(out, kind as u64);
    for number in [offset, bytes] {
        out.push(b',');
        decimal(out, number);
    }
    let length = match (function, input) {
        _ if !pieces.is_empty() => 3,
        (_, Some(_)) => 2,
        (Some(_), None) => 1,
        (None, None) => 0,
    };
    for place in [function, input].into_iter().take(length) {
        out.push(b',');
        match place {
            Some(place) => decimal(out, place as u64),
            None => out.extend_from_slice(b"null"),
        }
    }
    if length > 2 {
        out.push(b',');
        list(out, pieces, |out, &(input, offset, bytes)| {
            list(out, [input as u64, offset, bytes], decimal);
        });
    }
    out.push(b']');
    Ok(())
}

impl FunctionRow<'_> {
    /// Appends the row.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> fmt::Result {
        key(out, b"{\"name\":");
        text(out, self.name)?;
        words(out, b",\"demangled\":", &self.demangled)?;
        place(out, b",\"input\":", self.input);
        place(out, b",\"section\":", self.section);
        number(out, b",\"offset\":", self.offset);
        key(out, b",\"code\":");
        decimal(out, self.code);
        need(out, b",\"registers\":", of_need(self.registers));
        need(out, b",\"barriers\":", of_need(self.barriers));
        let ReportStack { own, total, next } = self.stack;
        need(out, b",\"stack\":", Need { own, total, cause: ("next", next) });
        flag(out, b",\"address_taken\":", self.address_taken);
        flag(out, b",\"recursive\":", self.recursive);
        places(out, b",\"calls\":", self.calls);
        places(out, b",\"indirect\":", self.indirect);
        if let Some(kernel) = &self.kernel {
            key(out, b",\"kernel\":");
            kernel.write(out)?;
        }
        words(out, b",\"source\":", self.source)?;
        out.push(b'}');
        Ok(())
    }
}

impl KernelRow<'_> {
    fn write(&self, out: &mut Vec<u8>) -> fmt::Result {
        key(out, b"{\"shared\":");
        decimal(out, self.shared);
        number(out, b",\"system_shared\":", self.system_shared);
        flag(out, b",\"dynamic_shared\":", self.dynamic_shared);
        number(out, b",\"local\":", self.local);
        if !self.constants.is_empty() {
            key(out, b",\"constants\":");
            list(out, self.constants, |out, &(bank, bytes)| pair(out, bank.into(), bytes));
        }
        number(out, b",\"textures\":", self.textures as u64);
        number(out, b",\"surfaces\":", self.surfaces as u64);
        number(out, b",\"samplers\":", self.samplers as u64);
        number(out, b",\"parameter_offset\":", self.parameter_offset.into());
        number(out, b",\"parameter_bytes\":", self.parameter_bytes.into());
        if !self.parameters.is_empty() {
            key(out, b",\"parameters\":");
            list(out, self.parameters, |out, &(at, bytes)| pair(out, at.into(), bytes.into()));
        }
        if self.bounds != Bounds::default() {
            key(out, b",\"bounds\":");
            json_text::write(out, &self.bounds)?;
        }
        place(out, b",\"occupancy\":", self.occupancy);
        out.push(b'}');
        Ok(())
    }
}

impl VariableRow<'_> {
    /// Appends the row.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> fmt::Result {
        key(out, b"{\"name\":");
        text(out, self.name)?;
        words(out, b",\"demangled\":", &self.demangled)?;
        key(out, b",\"space\":");
        json_text::write(out, &self.space)?;
        place(out, b",\"input\":", self.input);
        place(out, b",\"section\":", self.section);
        number(out, b",\"offset\":", self.offset);
        key(out, b",\"bytes\":");
        decimal(out, self.bytes);
        out.push(b'}');
        Ok(())
    }
}

impl<'a> FunctionRow<'a> {
    /// A function of a report.
    pub(crate) fn of(function: &'a ReportFunction) -> Self {
        FunctionRow {
            name: &function.name,
            demangled: Cow::Borrowed(&function.demangled),
            input: function.input,
            section: function.section,
            offset: function.offset,
            code: function.code,
            registers: function.registers,
            barriers: function.barriers,
            stack: function.stack,
            address_taken: function.address_taken,
            recursive: function.recursive,
            calls: &function.calls,
            indirect: &function.indirect,
            kernel: function.kernel.as_deref().map(KernelRow::of),
            source: &function.source,
        }
    }
}

impl<'a> KernelRow<'a> {
    fn of(kernel: &'a ReportKernel) -> Self {
        KernelRow {
            shared: kernel.shared,
            system_shared: kernel.system_shared,
            dynamic_shared: kernel.dynamic_shared,
            local: kernel.local,
            constants: &kernel.constants,
            textures: kernel.textures,
            surfaces: kernel.surfaces,
            samplers: kernel.samplers,
            parameter_offset: kernel.parameter_offset,
            parameter_bytes: kernel.parameter_bytes,
            parameters: &kernel.parameters,
            bounds: kernel.bounds,
            occupancy: kernel.occupancy,
        }
    }
}

impl<'a> VariableRow<'a> {
    /// A variable of a report.
    pub(crate) fn of(variable: &'a ReportVariable) -> Self {
        VariableRow {
            name: &variable.name,
            demangled: Cow::Borrowed(&variable.demangled),
            space: variable.space,
            input: variable.input,
            section: variable.section,
            offset: variable.offset,
            bytes: variable.bytes,
        }
    }
}
