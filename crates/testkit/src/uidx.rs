//! Index files of unified functions and variables (`--uidx-file`) for tests: nothing that NVIDIA
//! publishes makes them.
//!
//! In: a table of a test's description ([`Text`]), or objects with unified functions and variables
//! ([`for_objects`]). Out: the file's bytes. Guaranteed: the same on every machine. docs/UNIFIED.md
//! has the format.

use anyhow::{Context, Result, bail};
use culd_cubin::elf::{shf, sht};
use culd_cubin::unified::{Id, Place, SLOT, Uidx, Window, entries};
use culd_cubin::{Cubin, SymbolIndex};
use culd_inspect::words;
use serde::Deserialize;
use std::collections::BTreeMap;

/// An index file as a description spells it. It may be wrong, for tests of what is said about it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// 1 when absent.
    version: Option<u32>,
    /// `ID ID OFFSET` of each function.
    #[serde(default)]
    functions: Vec<String>,
    /// `ID ID OFFSET` of each variable.
    #[serde(default)]
    variables: Vec<String>,
    /// Bytes of the table of functions; a slot for each when absent.
    function_window: Option<u64>,
    /// Bytes of the table of variables; 0 when absent.
    #[serde(default)]
    variable_window: u64,
}

impl Text {
    /// The file.
    ///
    /// # Errors
    /// When a line is not three numbers.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let functions = places(&self.functions)?;
        let slots = SLOT * functions.len() as u64;
        let uidx = Uidx {
            version: self.version.unwrap_or(1),
            functions: Window { size: self.function_window.unwrap_or(slots), places: functions },
            variables: Window { size: self.variable_window, places: places(&self.variables)? },
        };
        Ok(uidx.bytes())
    }
}

/// Names and bytes of described files.
///
/// # Errors
/// As [`Text::bytes`].
pub fn files(texts: &BTreeMap<String, Text>) -> Result<Vec<(String, Vec<u8>)>> {
    texts.iter().map(|(name, text)| Ok((name.clone(), text.bytes()?))).collect()
}

fn places(lines: &[String]) -> Result<Vec<Place>> {
    let place = |line: &String| {
        let numbers: Vec<Option<u64>> = line.split_whitespace().map(words::number).collect();
        match numbers[..] {
            [Some(first), Some(second), Some(offset)] => {
                Ok(Place { id: Id(first, second), offset })
            }
            _ => bail!("{line:?}: expected ID ID OFFSET"),
        }
    };
    lines.iter().map(place).collect()
}

/// The order of places in a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// As they are met.
    Forward,
    /// The last one met comes first, so that a linker has to move all.
    #[default]
    Reversed,
}

/// A place to be made: what, how many bytes, at which multiple.
struct Wanted {
    id: Id,
    size: u64,
    align: u64,
}

/// An index file for the unified functions and variables that `objects` define.
///
/// # Errors
/// When an object is malformed.
pub fn for_objects(objects: &[impl AsRef<[u8]>], order: Order) -> Result<Uidx> {
    let (mut functions, mut variables) = (Vec::new(), Vec::new());
    for bytes in objects {
        let cubin = Cubin::parse(bytes.as_ref())?;
        // Mercury has the same entries once more.
        let own = cubin.sections.iter().filter(|section| section.flags & shf::MERCURY == 0);
        for section in own {
            match section.sh_type {
                sht::CUDA_UFT_ENTRY => {
                    let slot = |id| Wanted { id, size: SLOT, align: SLOT };
                    functions.extend(entries(section).map(|(_, entry)| slot(entry.id)));
                }
                sht::CUDA_UDT_ENTRY => {
                    for (_, entry) in entries(section) {
                        let (size, align) = extent(&cubin, entry.symbol)?;
                        variables.push(Wanted { id: entry.id, size, align });
                    }
                }
                _ => {}
            }
        }
    }
    Ok(Uidx {
        version: 1,
        functions: window(functions, order),
        variables: window(variables, order),
    })
}

/// Size and alignment of a variable. An object tells the alignment of its section only; where the
/// variable lies in it says no less of it than that.
fn extent(cubin: &Cubin<'_>, symbol: SymbolIndex) -> Result<(u64, u64)> {
    let variable = cubin.symbol(symbol).context("an entry names no symbol")?;
    let section = variable.defined_in().and_then(|index| cubin.section(index));
    let align = section.context("an entry names an undefined variable")?.align();
    let align =
        if variable.value == 0 { align } else { align.min(1 << variable.value.trailing_zeros()) };
    Ok((variable.size, align))
}

/// A table in which each thing follows the one before.
fn window(mut wanted: Vec<Wanted>, order: Order) -> Window {
    if order == Order::Reversed {
        wanted.reverse();
    }
    let mut window = Window::default();
    for Wanted { id, size, align } in wanted {
        let offset = window.size.next_multiple_of(align);
        window.places.push(Place { id, offset });
        window.size = offset + size;
    }
    window
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_the_file() -> Result<()> {
        let text: Text = toml::from_str(
            r#"
            functions = ["19 95 0x80", "0x11 0x22 0"]
            variables = ["0xabcdef1234567890 16 0"]
            variable_window = 8
            "#,
        )?;
        let uidx = Uidx::parse(&text.bytes()?).expect("it is sound");
        assert_eq!(uidx.functions.size, 256);
        assert_eq!(uidx.functions.places[0], Place { id: Id(19, 95), offset: 128 });
        assert_eq!(uidx.variables.places[0].id, Id(0xabcd_ef12_3456_7890, 16));
        assert!(Text { functions: vec!["1 2".to_owned()], ..Text::default() }.bytes().is_err());
        Ok(())
    }

    #[test]
    fn variables_keep_their_alignment() {
        let wanted = |id, size, align| Wanted { id: Id(id, 0), size, align };
        let window = window(vec![wanted(1, 3, 1), wanted(2, 8, 8)], Order::Forward);
        assert_eq!((window.size, window.places[1].offset), (16, 8));
    }
}
