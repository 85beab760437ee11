//! An input of a link: the bytes of a relocatable cubin, and what messages call it.

/// One input: a relocatable cubin and the name that messages give it.
#[derive(Debug, Clone, Copy)]
pub struct Input<'d> {
    /// As given on the command line.
    pub name: &'d str,
    /// The whole file.
    pub bytes: &'d [u8],
    /// It belongs to a system library (libcudadevrt), which is left out if nothing needs it.
    pub system: bool,
}
