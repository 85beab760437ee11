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
            let name = culd_text::escaped(&section.name);
            let (offset, size, align) = (section.offset, section.bytes, section.align);
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
            for &(start, size, symbol) in symbols.get(&place).map_or(&[][..], Vec::as_slice) {
                let symbol = culd_text::escaped(symbol);
                let _ = writeln!(
                    text,
                    "{:>8x} {size:>8x}     1                 {symbol}",
                    offset + start
                );
            }
        }
    }
}

/// A symbol: offset in the section, bytes, name.
type MapSymbol<'a> = (u64, u64, &'a str);

/// The functions and variables of each section, by offset.
fn symbols(image: &ReportImage) -> HashMap<usize, Vec<MapSymbol<'_>>> {
    let functions = image.functions.iter();
    let functions = functions.map(|one| (one.section, (one.offset, one.code, one.name.as_str())));
    let variables = image.variables.iter();
    let variables = variables.map(|one| (one.section, (one.offset, one.bytes, one.name.as_str())));
    let mut symbols: HashMap<usize, Vec<MapSymbol<'_>>> = HashMap::new();
    for (section, symbol) in functions.chain(variables) {
        section.into_iter().for_each(|section| symbols.entry(section).or_default().push(symbol));
    }
    symbols.values_mut().for_each(|list| list.sort_unstable());
    symbols
}
