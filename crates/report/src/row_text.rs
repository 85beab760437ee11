//! The JSON form of what a report has thousands of: sections, functions and variables.
//!
//! In: rows of a report. Out: the bytes that `serde_json` makes of them (a test holds them against
//! each other).
//!
//! Field by field through serde, the rows of a link took five times the instructions; appended to a
//! vector, which looks for room for each comma, twice as many.

use crate::data::{
    Bounds, ReportFunction, ReportKernel, ReportNeed, ReportSection, ReportSpace, ReportStack,
    ReportVariable,
};
use crate::json_text::{self, DIGITS, digits};

/// Writes rows to the begin of `out`, with commas between them; returns the length of their text.
/// `out` grows if that is more. `write` puts a row into the room that it is given, and may be asked
/// again with more of it.
pub(crate) fn rows<T>(
    out: &mut Vec<u8>,
    rows: impl IntoIterator<Item = T>,
    mut write: impl FnMut(RowText<'_>, &T) -> usize,
) -> usize {
    let mut end = 0;
    for (place, row) in rows.into_iter().enumerate() {
        loop {
            let mut text = RowText { room: &mut out[end..], len: 0 };
            let room = text.room.len();
            if place != 0 {
                text.put(b",");
            }
            let len = write(text, &row);
            if len + DIGITS <= room {
                end += len;
                break;
            }
            out.resize(2 * out.len() + len + DIGITS, 0);
        }
    }
    end
}

/// The text of a row. What finds no room is counted, too. At its end there is room for a number of
/// all digits, so that each number is written with all of them.
pub(crate) struct RowText<'t> {
    room: &'t mut [u8],
    len: usize,
}

/// The name of a field in quotes, with its colon, behind the comma that ends the field before. Its
/// length is known to the compiler, so that it needs no call of `memcpy`.
type Key<const N: usize> = &'static [u8; N];

// All of these are made part of the functions for rows: then the end of the text is in a register.
impl RowText<'_> {
    #[inline(always)]
    fn put<const N: usize>(&mut self, bytes: &[u8; N]) {
        let room = self.room.get_mut(self.len..).and_then(|room| room.first_chunk_mut());
        if let Some(room) = room {
            *room = *bytes;
        }
        self.len += N;
    }

    #[inline(always)]
    fn decimal(&mut self, number: u64) {
        const FEW: u64 = 10_000;
        if number >= FEW {
            self.len = large_decimal(self.room, self.len, number);
            return;
        }
        let (digits, len) = digits(number as u32);
        let end = self.len + len;
        self.put(&digits);
        self.len = end;
    }

    /// The field, if it is not zero.
    #[inline(always)]
    fn number<const N: usize>(&mut self, key: Key<N>, number: u64) {
        if number != 0 {
            self.put(key);
            self.decimal(number);
        }
    }

    /// The field, if it is there.
    #[inline(always)]
    fn place<const N: usize>(&mut self, key: Key<N>, place: Option<usize>) {
        if let Some(place) = place {
            self.put(key);
            self.decimal(place as u64);
        }
    }

    /// The field, if it is true.
    #[inline(always)]
    fn flag<const N: usize>(&mut self, key: Key<N>, flag: bool) {
        if flag {
            self.put(key);
            self.put(b"true");
        }
    }

    /// The field, if it is not empty.
    #[inline(always)]
    fn words<const N: usize>(&mut self, key: Key<N>, words: &str) {
        if !words.is_empty() {
            self.put(key);
            self.text(words);
        }
    }

    #[inline(always)]
    fn text(&mut self, text: &str) {
        self.len = quoted(self.room, self.len, text);
    }

    /// A list, by a function that writes an element.
    #[inline(always)]
    fn list<T>(&mut self, elements: &[T], mut element: impl FnMut(&mut Self, &T)) {
        self.put(b"[");
        for (place, one) in elements.iter().enumerate() {
            if place != 0 {
                self.put(b",");
            }
            element(self, one);
        }
        self.put(b"]");
    }

    /// The field, if it is not empty.
    #[inline(always)]
    fn places<const N: usize>(&mut self, key: Key<N>, places: &[usize]) {
        if !places.is_empty() {
            self.put(key);
            self.list(places, |text, &place| text.decimal(place as u64));
        }
    }

    /// The begin of a list that has these numbers first.
    #[inline(always)]
    fn three_numbers(&mut self, [first, second, third]: [u64; 3]) {
        self.put(b"[");
        self.decimal(first);
        self.put(b",");
        self.decimal(second);
        self.put(b",");
        self.decimal(third);
    }

    #[inline(always)]
    fn pair(&mut self, first: u64, second: u64) {
        self.put(b"[");
        self.decimal(first);
        self.put(b",");
        self.decimal(second);
        self.put(b"]");
    }

    /// What a function needs of a resource, if it is something: the form of `crate::form`. `cause`
    /// names the field that says where the total comes from.
    #[inline(always)]
    fn need<const N: usize, const C: usize>(
        &mut self,
        key: Key<N>,
        [own, total]: [Option<u32>; 2],
        (cause_key, cause): (Key<C>, Option<usize>),
    ) {
        match (own, total, cause) {
            (Some(own), Some(total), None) if own == total => self.number(key, own.into()),
            (None, None, None) => {
                self.put(key);
                self.put(b"null");
            }
            _ => {
                self.put(key);
                let start = self.len;
                self.place(b",\"own\":", own.map(|own| own as usize));
                self.place(b",\"total\":", total.map(|total| total as usize));
                self.place(cause_key, cause);
                if let Some(first) = self.room.get_mut(start) {
                    *first = b'{';
                }
                self.put(b"}");
            }
        }
    }

    #[inline(always)]
    fn resource<const N: usize>(&mut self, key: Key<N>, need: ReportNeed) {
        let ReportNeed { own, total, set_by } = need;
        self.need(key, [own, total], (b",\"set_by\":", set_by));
    }
}

/// Puts a number of more than four digits into `room` at `len`; returns its end.
fn large_decimal(room: &mut [u8], len: usize, number: u64) -> usize {
    let mut text = RowText { room, len };
    text.decimal(number / 10_000);
    text.put(&json_text::four_digits((number % 10_000) as u32));
    text.len
}

/// Puts a text in quotes into `room` at `len`; returns its end.
fn quoted(room: &mut [u8], len: usize, text: &str) -> usize {
    let escaped;
    let text = match json_text::is_plain(text) {
        true => text.as_bytes(),
        false => {
            let mut out = Vec::new();
            // Memory takes all that is written to it.
            let _ = json_text::text(&mut out, text);
            escaped = out;
            &escaped[1..escaped.len() - 1]
        }
    };
    let end = len + text.len() + 2;
    if let Some([first, middle @ .., last]) = room.get_mut(len..end) {
        *first = b'"';
        middle.copy_from_slice(text);
        *last = b'"';
    }
    end
}

/// A section.
pub(crate) fn section(mut text: RowText<'_>, section: &ReportSection) -> usize {
    let ReportSection { kind, offset, bytes, function, input, ref pieces } = *section;
    text.three_numbers([kind as u64, offset, bytes]);
    match (function, input) {
        (None, None) if pieces.is_empty() => {}
        (Some(function), _) => text.place(b",", Some(function)),
        (None, _) => text.put(b",null"),
    }
    match input {
        Some(input) => text.place(b",", Some(input)),
        None if pieces.is_empty() => {}
        None => text.put(b",null"),
    }
    if !pieces.is_empty() {
        text.put(b",");
        text.list(pieces, |text, &(input, offset, bytes)| {
            text.three_numbers([input as u64, offset, bytes]);
            text.put(b"]");
        });
    }
    text.put(b"]");
    text.len
}

/// A function.
pub(crate) fn function(mut text: RowText<'_>, function: &ReportFunction) -> usize {
    text.put(b"{\"name\":");
    text.text(&function.name);
    text.words(b",\"demangled\":", &function.demangled);
    text.place(b",\"input\":", function.input);
    text.place(b",\"section\":", function.section);
    text.number(b",\"offset\":", function.offset);
    text.put(b",\"code\":");
    text.decimal(function.code);
    text.resource(b",\"registers\":", function.registers);
    text.resource(b",\"barriers\":", function.barriers);
    let ReportStack { own, total, next } = function.stack;
    text.need(b",\"stack\":", [own, total], (b",\"next\":", next));
    text.flag(b",\"address_taken\":", function.address_taken);
    text.flag(b",\"recursive\":", function.recursive);
    text.places(b",\"calls\":", &function.calls);
    text.places(b",\"indirect\":", &function.indirect);
    if let Some(own) = &function.kernel {
        text.put(b",\"kernel\":");
        let RowText { room, len } = text;
        let len = kernel(RowText { room, len }, own);
        text = RowText { room, len };
    }
    text.words(b",\"source\":", &function.source);
    text.put(b"}");
    text.len
}

fn kernel(mut text: RowText<'_>, kernel: &ReportKernel) -> usize {
    text.put(b"{\"shared\":");
    text.decimal(kernel.shared);
    text.number(b",\"system_shared\":", kernel.system_shared);
    text.flag(b",\"dynamic_shared\":", kernel.dynamic_shared);
    text.number(b",\"local\":", kernel.local);
    if !kernel.constants.is_empty() {
        text.put(b",\"constants\":");
        text.list(&kernel.constants, |text, &(bank, bytes)| text.pair(bank.into(), bytes));
    }
    text.number(b",\"textures\":", kernel.textures as u64);
    text.number(b",\"surfaces\":", kernel.surfaces as u64);
    text.number(b",\"samplers\":", kernel.samplers as u64);
    text.number(b",\"parameter_offset\":", kernel.parameter_offset.into());
    text.number(b",\"parameter_bytes\":", kernel.parameter_bytes.into());
    if !kernel.parameters.is_empty() {
        text.put(b",\"parameters\":");
        text.list(&kernel.parameters, |text, &(at, bytes)| text.pair(at.into(), bytes.into()));
    }
    if kernel.bounds != Bounds::default() {
        text.put(b",\"bounds\":");
        text.len = bounds(text.room, text.len, &kernel.bounds);
    }
    text.place(b",\"occupancy\":", kernel.occupancy);
    text.put(b"}");
    text.len
}

/// Puts launch bounds, which few kernels have, into `room` at `len`; returns their end.
fn bounds(room: &mut [u8], len: usize, bounds: &Bounds) -> usize {
    let mut out = Vec::new();
    // They are lists and numbers, all of which have a JSON form.
    let _ = json_text::write(&mut out, bounds);
    let end = len + out.len();
    if let Some(room) = room.get_mut(len..end) {
        room.copy_from_slice(&out);
    }
    end
}

/// A variable.
pub(crate) fn variable(mut text: RowText<'_>, variable: &ReportVariable) -> usize {
    text.put(b"{\"name\":");
    text.text(&variable.name);
    text.words(b",\"demangled\":", &variable.demangled);
    match variable.space {
        ReportSpace::Global => text.put(b",\"space\":\"global\""),
        ReportSpace::Managed => text.put(b",\"space\":\"managed\""),
        ReportSpace::Constant => text.put(b",\"space\":\"constant\""),
        ReportSpace::Shared => text.put(b",\"space\":\"shared\""),
    }
    text.place(b",\"input\":", variable.input);
    text.place(b",\"section\":", variable.section);
    text.number(b",\"offset\":", variable.offset);
    text.put(b",\"bytes\":");
    text.decimal(variable.bytes);
    text.put(b"}");
    text.len
}
