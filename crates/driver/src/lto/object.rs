//! What an object of LTO-IR tells, for libnvJitLink's interface.
//!
//! In: an object that NVIDIA's libnvJitLink made of all LTO-IR, and the other cubins of the link.
//! Out: names, PTX, and whether the LTO-IR is a program of its own.

use super::link::{needed, up_to_nul};
use super::order::in_order_of;
use super::outline::Outline;
use super::text::{ObjectText, SourceLines, as_in_object, is_same};
use crate::input::NamedCubin;

/// True if `ptx` names a function that neither it nor the driver defines.
pub fn ptx_is_open(ptx: &[u8]) -> bool {
    Outline::of_ptx(up_to_nul(ptx)).open().is_some()
}

/// An object of LTO-IR.
pub struct LtoObject {
    /// `None` if its names cannot be read.
    outline: Option<Outline>,
    text: Option<ObjectText>,
}

impl LtoObject {
    /// What `object` tells: a relocatable cubin that libnvJitLink made of LTO-IR with
    /// [`LTO_TEXT_OPTION`](super::LTO_TEXT_OPTION) or `-g`.
    pub fn of(object: &[u8]) -> Self {
        let text = ObjectText::of(object);
        LtoObject { outline: Outline::of_object(object, text.as_ref()), text }
    }

    /// The PTX of which it was made, if it is there and lacks nothing.
    pub fn text(&self) -> Option<&[u8]> {
        self.text.as_ref().filter(|text| text.is_complete).map(|text| text.ptx.as_slice())
    }

    /// True if `ptx`, a text of the library's, is [`LtoObject::text`] but for what an object loses:
    /// comments, blanks and empty lines.
    pub fn has_text(&self, ptx: &[u8]) -> bool {
        // The library's text ends like one of C.
        self.text().is_some_and(|text| is_same(up_to_nul(ptx), text, SourceLines::Kept))
    }

    /// NVVM IR that names the definitions that must stay in a link with the cubins `others`: its
    /// own that other code can see, and functions that these need.
    pub fn roots(&self, others: &[NamedCubin]) -> Option<String> {
        let roots = self.outline.as_ref()?.roots.clone();
        roots.module_with(needed(others.iter().map(|cubin| &*cubin.bytes)))
    }

    /// True if the LTO-IR is a program of its own: it names no function that it does not define.
    pub fn is_program(&self) -> bool {
        self.outline.as_ref().is_some_and(|outline| outline.open().is_none())
    }

    /// `ptx`, in which the names of [`LtoObject::roots`] stay, brought as near as possible to the
    /// text of the object: in its order, and with its alignments of shared variables if the texts
    /// are the same then but for what an object loses.
    pub fn like_text(&self, mut ptx: Vec<u8>) -> Vec<u8> {
        let Some(ObjectText { ptx: text, .. }) = &self.text else { return ptx };
        // The library's text ends like one of C.
        let end = ptx.pop_if(|last| *last == 0);
        let ordered = in_order_of(&ptx, text);
        let mut ptx = as_in_object(text, ordered.map_or(ptx, String::into_bytes));
        ptx.extend(end);
        ptx
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_the_library_is_that_of_an_object_without_its_comments() {
        let of = |is_complete| {
            let ptx = b".func f\n{\nret;\n}\n".to_vec();
            LtoObject { outline: None, text: Some(ObjectText { ptx, is_complete }) }
        };
        let text = b"//\n.func f\n{\n\tret; // done\n\n}\n\0";
        assert!(of(true).has_text(text));
        assert!(!of(true).has_text(b".func f\n{\nexit;\n}\n\0"));
        // Its lines of source files are lost.
        assert!(!of(false).has_text(text));
        assert!(!LtoObject::of(b"").has_text(b""));
    }

    #[test]
    fn ptx_is_open_if_it_names_a_function_that_nothing_defines() {
        let text = |declared: &str| {
            format!(
                ".version 9.0\n.target sm_90\n.address_size 64\n{declared}\n\
                 .visible .entry k()\n{{\nret;\n}}\n\0"
            )
        };
        let is_open = |declared: &str| ptx_is_open(text(declared).as_bytes());
        assert!(!is_open(""));
        assert!(is_open(".extern .func f\n()\n;"));
        assert!(!is_open(".extern .global .align 4 .u32 v;"));
        // The driver has it.
        assert!(!is_open(
            ".extern .func (.param .b32 r) vprintf\n(.param .b64 f, .param .b64 a)\n;"
        ));
    }
}
