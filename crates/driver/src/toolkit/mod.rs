//! The toolkit around this program: the places of programs, the release of a toolkit, and the
//! toolkit of a shadow.

pub(crate) mod marker;
pub(crate) mod packages;
pub(crate) mod programs;
pub(crate) mod release;
