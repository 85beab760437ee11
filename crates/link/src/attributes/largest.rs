//! Attribute 0x64, a number of functions and files of which the program has the largest.
//!
//! In: the objects' lists, those of dead functions too. Out: one record of the file. Since 13.3, machine code alone: on sm_100
//! and later the finalizer has a part in it, and no compiler is known that writes it (case dialects/attribute-64).

use culd_cubin::arch::Flavour;
use culd_cubin::attr::{Record, code, format};

use super::lists::Lists;
use super::{Attribute, FileList};
use crate::merge::Merged;
use crate::objects::Objects;

/// True for a record that is gathered; nvlink crashes on other formats.
pub(super) fn is_gathered(record: &Record<'_>) -> bool {
    record.code == code::ATTRIBUTE_64 && record.format == format::SIZED
}

/// Takes the records out of all lists and appends the largest number to those of the file, unless it is 0.
pub(super) fn gather<'d>(
    objects: &Objects<'d>,
    merged: &Merged<'d>,
    file: &mut FileList<'d>,
    lists: &mut Lists<'d>,
) {
    let draft = &merged.draft;
    if draft.relocatable || draft.flavour != Flavour::Classic || !draft.dialect.gathers_64 {
        return;
    }
    let with = objects.iter().filter(|(_, object)| object.records.codes.has(code::ATTRIBUTE_64));
    let records = with.flat_map(|(_, object)| {
        let lists = object.function_infos().flat_map(|list| object.info_records(list));
        object.file_records().chain(lists)
    });
    let number = |record: &Record<'_>| record.word(0).unwrap_or(0);
    let largest = records.filter(is_gathered).max_by_key(number);
    let Some(largest) = largest else { return };
    file.without_64 = true;
    for node in lists.nodes() {
        lists.retain(
            node,
            |attribute| !matches!(attribute, Attribute::Record(record) if is_gathered(record)),
        );
    }
    if number(&largest) != 0 {
        let payload = largest.payload.get(..4).unwrap_or_default();
        file.last = Some(Record { value: payload.len() as u16, payload, ..largest });
    }
}
