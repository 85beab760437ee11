//! Section `__nv_module_id` of a host object: which modules of device code it has, or which ones a
//! device link has put into it.
//!
//! In: the bytes of the section. Out: [`ModuleIds`]. Guaranteed: ids are slices of the section, in
//! its order.

use crate::error::Error;
use crate::sections::SectionData;

/// The start of the list of a device link, in front of each id.
const LINKED: &[u8] = b"def ";

/// The ids in a section `__nv_module_id`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModuleIds<'a> {
    /// The modules in the object: one, unless `ld -r` merged objects. Only the first may be empty.
    Here(Vec<&'a [u8]>),
    /// The modules that a device link has linked into the image of this object, which registers
    /// them: no later device link of the same program must link them. Or the fault of the list.
    Linked(Result<Vec<&'a [u8]>, Error>),
}

impl<'a> ModuleIds<'a> {
    pub(crate) fn parse(section: SectionData<'a>) -> Self {
        let strings = section.data.split(|&byte| byte == 0);
        if section.data.starts_with(LINKED) {
            return ModuleIds::Linked(linked(section, strings));
        }
        let ids = strings.enumerate().filter(|(place, id)| *place == 0 || !id.is_empty());
        ModuleIds::Here(ids.map(|(_, id)| id).collect())
    }

    /// The modules in the object.
    pub fn here(&self) -> &[&'a [u8]] {
        match self {
            ModuleIds::Here(ids) => ids,
            ModuleIds::Linked(_) => &[],
        }
    }
}

/// A list that begins with `def `: nothing else may be in it.
fn linked<'a>(
    section: SectionData<'a>,
    strings: impl Iterator<Item = &'a [u8]>,
) -> Result<Vec<&'a [u8]>, Error> {
    let mut ids = Vec::new();
    let mut at = 0;
    for string in strings {
        match string.strip_prefix(LINKED) {
            Some(id) => ids.push(id),
            None if string.is_empty() => {}
            None => {
                let error = Error::new(at, "neither the id of a linked module nor padding");
                return Err(error.at(section.offset));
            }
        }
        at += string.len() + 1;
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(data: &[u8]) -> ModuleIds<'_> {
        ModuleIds::parse(SectionData { offset: 0x40, data })
    }

    #[test]
    fn modules_in_the_object() {
        let here = |data: &'static [u8]| match parse(data) {
            ModuleIds::Here(ids) => ids,
            other => panic!("{other:?}"),
        };
        assert_eq!(here(b"_a\0"), [b"_a"]);
        assert_eq!(here(b"_a"), [b"_a"]);
        assert_eq!(here(b"_a\0\0\0_b\0_c"), [b"_a", b"_b", b"_c"]);
        assert_eq!(here(b""), [b""]);
        assert_eq!(here(b"\0_a\0"), [&b""[..], b"_a"]);
        // The form of a list, but not at its beginning.
        assert_eq!(here(b"_a\0def _b\0"), [&b"_a"[..], b"def _b"]);
        assert_eq!(here(b"\0def _a\0"), [&b""[..], b"def _a"]);
        for other in ["def", "define _a", "def_a", "DEF _a", "def\t_a", " def _a"] {
            assert_eq!(parse(other.as_bytes()), ModuleIds::Here(vec![other.as_bytes()]));
        }
    }

    #[test]
    fn modules_of_a_device_link() {
        let linked = |data: &'static [u8]| match parse(data) {
            ModuleIds::Linked(ids) => ids,
            other => panic!("{other:?}"),
        };
        assert_eq!(linked(b"def _a\0").unwrap(), [b"_a"]);
        assert_eq!(linked(b"def _a\0\0\0def _b").unwrap(), [b"_a", b"_b"]);
        // Whole names, whatever is in them.
        assert_eq!(linked(b"def  _a\0def def _b\0def \0").unwrap(), [&b" _a"[..], b"def _b", b""]);
        for (data, offset) in
            [(&b"def _a\0_b\0"[..], 0x47), (b"def _a\0\0def\0", 0x48), (b"def _a\0define _b", 0x47)]
        {
            assert_eq!(linked(data).unwrap_err().offset, offset);
        }
    }
}
