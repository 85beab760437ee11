//! The second form of a function's code, from sm_100 on.

use super::{AttributeValue, Relocation};
use crate::capmerc::{Capsule, INSTRUCTION};
use crate::error::Malformed;

/// Mercury code of a function, from which a finalizer makes machine code for other devices. See
/// [`crate::capmerc`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mercury {
    /// The bytes behind the first word, which is the index of the section with the machine code.
    pub(super) rest: Vec<u8>,
    /// Size of the machine code that it belongs to, bytes.
    pub(super) code: u64,
    /// Bytes before compression.
    pub(super) size: u64,
    pub(super) relocations: Vec<Relocation>,
    pub(super) attributes: Vec<super::Attribute>,
}

impl Mercury {
    /// The contents of a section `.nv.capmerc.text.F`. `size` is the size of the function in
    /// Mercury's symbol table. The section index in the first word is replaced.
    ///
    /// # Errors
    /// The bytes are not Mercury code.
    pub fn new(section: &[u8], size: u64) -> Result<Self, Malformed> {
        let capsule = Capsule::parse(b"Mercury code", section)?;
        Ok(Mercury {
            rest: section.get(4..).unwrap_or_default().to_vec(),
            code: capsule.instructions() * INSTRUCTION,
            size,
            relocations: Vec::new(),
            attributes: Vec::new(),
        })
    }

    /// A place in the code that the linker fills in; it counts as Mercury does.
    #[must_use]
    pub fn relocation(mut self, relocation: Relocation) -> Self {
        self.relocations.push(relocation);
        self
    }

    /// An attribute of Mercury's own list.
    #[must_use]
    pub fn attribute(mut self, code: u8, value: AttributeValue) -> Self {
        self.attributes.push(super::Attribute { code, value });
        self
    }
}
