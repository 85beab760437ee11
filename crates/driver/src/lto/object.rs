//! What an object of LTO-IR tells, for libnvJitLink's interface.
//!
//! In: an object that NVIDIA's libnvJitLink made of all LTO-IR, and the other cubins of the link.
//! Out: names, PTX, and whether the LTO-IR is a program of its own.

use super::link::needed;
use super::order::in_order_of;
use super::outline::Outline;
use super::text::{ObjectText, as_in_object};
use crate::input::NamedCubin;

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
