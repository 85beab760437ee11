//! The module `culd._culd`, on which the Python package `culd` stands.
//!
//! In: inputs and words of a command line, from Python. Out: a linked program as an object, or an
//! exception with all messages. Guaranteed: other Python threads run during a link; bytes are not
//! copied on the way in; nothing is kept between calls.
//!
//! The package's own files (`python/culd`) have the public names and find the tools that lie in
//! other Python packages.

mod device_link;
mod inputs;
mod link;
mod messages;

use pyo3::prelude::*;

#[pymodule]
mod _culd {
    #[pymodule_export]
    use super::device_link::{DeviceLinked, device_link};
    #[pymodule_export]
    use super::link::{Linked, architectures, link};
    #[pymodule_export]
    use super::messages::{CuldError, Diagnostic, LinkError, OptionsError};

    /// The version of culd.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
