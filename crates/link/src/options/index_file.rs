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
}
