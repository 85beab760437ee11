//! Everything between a command line, or a program, and the linker: options, inputs, files,
//! messages.
//!
//! In: arguments. Out: the output file and an [`RunOutcome`] with exit status and lines.
//! Guaranteed: no global state; an existing output is replaced only by a complete new one.
//!
//! Features: `command` has everything that only the command `culd` needs; `ptx` runs ptxas; `lto`
//! runs `culd-lto`; `demangle`, `parallel` and `serde` are those of `culd_link`.
#![deny(unsafe_code)]
#![cfg_attr(
    not(all(feature = "command", feature = "ptx", feature = "lto")),
    allow(dead_code, unused_imports, reason = "a build with all features shows what is dead")
)]

#[cfg(feature = "command")]
mod device_link;
#[cfg(feature = "command")]
mod fatbinary;
#[cfg(feature = "command")]
mod front;
pub mod hints;
#[cfg(feature = "command")]
mod host_script;
mod index;
mod input;
mod interfaces;
mod job;
#[cfg(feature = "lto")]
mod lto;
#[cfg(not(feature = "lto"))]
#[path = "no_lto.rs"]
mod lto;
#[cfg(feature = "lto")]
mod lto_program;
mod messages;
#[cfg(feature = "command")]
mod nvcc;
mod options;
mod origins;
mod os;
#[cfg(feature = "command")]
mod program;
#[cfg(feature = "command")]
mod progress;
#[cfg(feature = "command")]
mod prune;
mod registration;
#[cfg(feature = "command")]
mod reports;
#[cfg(feature = "command")]
mod run;
#[cfg(feature = "command")]
mod shadow;
#[cfg(feature = "command")]
mod subcommand;
mod threads;
#[cfg(feature = "command")]
mod timing;
mod toolkit;
mod tools;
mod verify;
#[cfg(feature = "command")]
mod watch;

#[cfg(feature = "command")]
pub use crate::device_link::{DeviceLinkRequest, DeviceLinkResult, device_link_in_memory};
#[cfg(feature = "command")]
pub use crate::fatbinary::fatbinary_front;
#[cfg(feature = "command")]
pub use crate::front::nvcc_front;
pub use crate::input::{Content, InputItem, InputKind, NamedCubin, PtxasAhead};
pub use crate::job::{LinkRequest, LinkedImage, LinkedInput, line, link, link_options, unpack};
#[cfg(feature = "lto")]
pub use crate::lto::{LTO_TEXT_OPTION, LtoObject, ptx_is_open, without_use_of_code};
pub use crate::messages::{Cause, Ignored, InputError, Line, LineKind, NOTE, Product, RunOutcome};
pub use crate::options::dialect::named as named_dialect;
pub use crate::options::{
    CommandOptions, IgnoredOption, OptionArity, OptionId, OptionRow, Origin, ParsedCommandLine,
    Request, Shell, TABLE, Target, UsageError, VERSION, completions, help, man_page, parse,
    version,
};
#[cfg(feature = "command")]
pub use crate::os::stack::on_enough_stack;
#[cfg(feature = "command")]
pub use crate::run::{command, run};
#[cfg(feature = "command")]
pub use crate::subcommand::subcommand;
pub use crate::threads::{has_room, most_threads};
pub use crate::toolkit::packages::{PACKAGES, packages_of_program};
pub use crate::toolkit::programs::own as program;
pub use crate::tools::toolkit_homes;
pub use crate::verify::verify;

/// The bytes of the file at `path`; of a pipe or device no more than a link takes.
///
/// # Errors
/// It cannot be read, or has no end.
pub fn read_file(path: impl AsRef<std::path::Path>) -> std::io::Result<Vec<u8>> {
    os::files::read(path).map(|(bytes, _)| bytes.to_vec())
}
