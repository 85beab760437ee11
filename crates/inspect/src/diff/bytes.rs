//! The contents of sections that no list describes, compared 16 bytes a row; at last the files.

use culd_cubin::capmerc::Capsule;
use culd_cubin::elf::sht;
use culd_cubin::{Section, attr, callgraph, note};

use crate::view::{self, View};

/// Bytes of a row: one instruction.
const ROW: usize = 16;

/// One line per row that differs, of sections that both files have.
pub(super) fn compare(a: &View<'_>, b: &View<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let others: std::collections::HashMap<&str, &Section<'_>> =
        b.sections.iter().map(String::as_str).zip(&b.cubin.sections).collect();
    for (section, name) in a.cubin.sections.iter().zip(&a.sections) {
        let Some(&other) = others.get(name.as_str()) else { continue };
        let listed = is_listed(section) && is_listed(other);
        if !listed && section.data != other.data {
            lines.extend(rows(name, section.data, other.data));
        }
    }
    lines
}

/// True if the lists cover all of the section's contents.
fn is_listed(section: &Section<'_>) -> bool {
    match section.sh_type {
        sht::SYMTAB | sht::MERCURY_SYMTAB | sht::STRTAB => true,
        sht::RELA
        | sht::REL
        | sht::CUDA_RESOLVED_RELA
        | sht::MERCURY_RELA
        | sht::MERCURY_RESOLVED_RELA => true,
        sht::CUDA_PROTOTYPE | sht::MERCURY_PROTOTYPE => true,
        sht::CUDA_UFT_ENTRY | sht::CUDA_UDT_ENTRY => true,
        sht::MERCURY_CODE => Capsule::parse(section.name, section.data).is_ok(),
        sht::NOTE => note::records(section.name, section.data).all(|record| record.is_ok()),
        sht::CUDA_CALLGRAPH | sht::MERCURY_CALLGRAPH => {
            callgraph::edges(section).all(|edge| edge.is_ok())
        }
        _ if view::is_attributes(section) => {
            attr::Records::new(section.name, section.data).all(|record| record.is_ok())
        }
        _ => false,
    }
}

fn rows(name: &str, a: &[u8], b: &[u8]) -> Vec<String> {
    let count = a.len().max(b.len()).div_ceil(ROW);
    let row = |data: &[u8], at: usize| {
        data.chunks(ROW).nth(at).map_or_else(|| "(end)".to_owned(), view::hex)
    };
    (0..count)
        .filter(|&at| a.chunks(ROW).nth(at) != b.chunks(ROW).nth(at))
        .map(|at| format!("bytes  {name}+{:#x}  {} != {}", ROW * at, row(a, at), row(b, at)))
        .collect()
}
