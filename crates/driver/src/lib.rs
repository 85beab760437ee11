//! Everything between a command line and the linker: options, files, what is printed.
//!
//! In: arguments. Out: the output file and an [`Outcome`] with exit status and lines. Guaranteed:
//! no global state; an existing output is replaced only by a complete new one.
#![deny(unsafe_code)]

mod files;
pub mod hints;
mod options;
mod run;
mod shadow;

pub use crate::options::{
    Id, Options, Origin, Parsed, Request, Row, Shell, TABLE, Takes, Target, UsageError,
    completions, help, man_page, parse, version,
};
pub use crate::run::{Line, NOTE, Outcome, command, link_options, run};
pub use crate::shadow::install_shadow;

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
