//! The map of a link, in the columns of lld: sections of the output, what each input brings to
//! them, and the functions and variables in them.
//!
//! In: a [`Report`] of a link. Out: lines. Guaranteed: in the order of the file; names as text.

use std::collections::HashMap;
use std::fmt::Write;

use crate::data::{Report, ReportImage};

/// The head of the map. A cubin has no addresses: the driver decides them.
const HEAD: &str = "  Offset     Size Align Out     In      Symbol\n";

impl Report {
    /// The map, as `--map` writes it.
    pub fn to_map(&self) -> String {
        let mut text = String::from(HEAD);
        for image in &self.images {
            self.map_image(image, &mut text);
        }
        text
    }

    fn map_image(&self, image: &ReportImage, text: &mut String) {
        let symbols = symbols(image);
        let input = |place: usize| self.inputs.get(place).map_or("", |input| &input.name);
        for (place, section) in image.sections.iter().enumerate() {
            let name = image.section_name(section);
            let name = culd_text::escaped(&name);
            let align = image.section_kind(section).align;
            let (offset, size) = (section.offset, section.bytes);
            let _ = writeln!(text, "{offset:>8x} {size:>8x} {align:>5} {name}");
            let mut piece = |offset: u64, size: u64, from: usize| {
                let file = culd_text::escaped(input(from));
                let _ =
                    writeln!(text, "{offset:>8x} {size:>8x} {align:>5}         {file}:({name})");
            };
            match section.input {
                Some(input) => piece(offset, size, input),
                None => section
                    .pieces
                    .iter()
                    .for_each(|&(from, start, size)| piece(offset + start, size, from)),
            }
            for symbol in symbols.get(&place).map_or(&[][..], Vec::as_slice) {
                let (start, size) = (offset + symbol.offset, symbol.bytes);
                let name = culd_text::escaped(symbol.name);
                let _ = writeln!(text, "{start:>8x} {size:>8x}     1                 {name}");
            }
        }
    }
}

/// A function or variable. The order is that of the map.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct MapSymbol<'a> {
    /// Offset in the section.
    offset: u64,
    bytes: u64,
    name: &'a str,
}

/// The functions and variables of each section, by offset.
fn symbols(image: &ReportImage) -> HashMap<usize, Vec<MapSymbol<'_>>> {
    let functions = image.functions.iter().map(|one| {
        (one.section, MapSymbol { offset: one.offset, bytes: one.code, name: &one.name })
    });
    let variables = image.variables.iter().map(|one| {
        (one.section, MapSymbol { offset: one.offset, bytes: one.bytes, name: &one.name })
    });
    let mut symbols: HashMap<usize, Vec<MapSymbol<'_>>> = HashMap::new();
    for (section, symbol) in functions.chain(variables) {
        section.into_iter().for_each(|section| symbols.entry(section).or_default().push(symbol));
    }
    symbols.values_mut().for_each(|list| list.sort_unstable());
    symbols
}
