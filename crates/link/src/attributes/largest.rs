//! Attribute 0x64, a number of functions and files; the program has the largest.
//!
//! In: the objects' lists, those of dead functions included. Out: one record of the file. Only
//! nvlink 13.3 and later do this, and here only up to sm_90: on sm_100 and later the finalizer
//! takes part, and no known compiler writes the attribute (case dialects/attribute-64).

use culd_cubin::arch::Flavour;
use culd_cubin::attr::{Record, code};

use super::attribute::OutAttribute;
use super::file::{FileAttributes, is_gathered};
use super::lists::AttributeLists;
use crate::draft::merged::MergeResult;
use crate::objects::InputObjects;

/// Removes the records from all lists and appends the largest number to the file's records, unless
/// it is 0.
pub(super) fn gather<'d>(
    objects: &InputObjects<'d>,
    merged: &MergeResult<'d>,
    file: &mut FileAttributes<'d>,
    lists: &mut AttributeLists<'d>,
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
            |attribute| !matches!(attribute, OutAttribute::Record(record) if is_gathered(record)),
        );
    }
    if number(&largest) != 0 {
        let payload = largest.payload.get(..4).unwrap_or_default();
        file.last = Some(Record { value: payload.len() as u16, payload, ..largest });
    }
}
