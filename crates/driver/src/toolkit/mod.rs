//! The toolkit around this program: where programs are, which release a toolkit is of, and which
//! toolkit this program stands in for.

pub(crate) mod marker;
pub(crate) mod programs;
pub(crate) mod release;
