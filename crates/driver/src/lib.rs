//! Everything between a command line and the linker: options, files, what is printed.
//!
//! In: arguments. Out: the output file and an [`Outcome`] with exit status and lines. Guaranteed:
//! no global state; an existing output is replaced only by a complete new one.
#![deny(unsafe_code)]

mod files;
mod options;
mod run;

pub use crate::options::{Options, Request, TABLE, UsageError, parse};
pub use crate::run::{Line, NOTE, Outcome, link_options, run};

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
