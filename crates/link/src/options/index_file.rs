//! The index file of unified functions and variables, as an option of a link.

use culd_cubin::unified::{BadUidx, Uidx};

/// The index file of a link.
#[derive(Debug, Clone)]
pub struct IndexFile {
    /// The bytes of the file, which the output repeats.
    pub(crate) bytes: Vec<u8>,
    pub(crate) uidx: Uidx,
}

impl IndexFile {
    /// Reads an index file.
    ///
    /// # Errors
    /// The bytes are not an index file. nvlink says so before it reads any input.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, BadUidx> {
        let uidx = Uidx::parse(&bytes)?;
        Ok(IndexFile { bytes, uidx })
    }

    /// True for a file with more bytes at its end than its functions and variables take. Releases
    /// before 13.0 do not know them and find the file malformed (nvlink 12.4 and 12.5).
    pub(crate) fn has_tail(&self) -> bool {
        Uidx { version: 1, ..self.uidx.clone() }.bytes().len() < self.bytes.len()
    }
}
