//! A device linker for CUDA as a library: relocatable device code in, a cubin that the driver loads
//! out.
//!
//! In: [`Options`] and inputs of a [`Linker`]. Out: [`Linked`], or [`LinkError`] with all messages.
//! Guaranteed: no global state; an abandoned link leaves no files.
#![doc = ""]
#![doc = include_str!("../README.md")]
//!
//! # A link and its report
//!
//! ```
//! use culd::{InputKind, Linker, Options};
//!
//! let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/quickstart/");
//! let saxpy = std::fs::read(format!("{folder}saxpy.cubin"))?;
//!
//! let mut linker = Linker::new(Options::for_arch("sm_90")?);
//! linker.add_bytes("saxpy", InputKind::Cubin, &saxpy);
//! linker.add_file(format!("{folder}smooth.cubin"));
//! let linked = linker.link()?;
//!
//! let report = linked.report();
//! let image = &report.images[0];
//! let (_, function, kernel) = image.kernels().next().unwrap();
//! assert_eq!(function.name, "saxpy");
//! // The first parameter: 8 bytes at offset 0.
//! assert_eq!(kernel.parameters[0], (0, 8));
//! assert_eq!(image.functions[function.calls[0]].name, "smooth");
//! # assert!(linked.image().starts_with(b"\x7fELF"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Errors
//!
//! A link that fails returns all its messages, as text and as values:
//!
//! ```
//! use culd::{Cause, InputKind, Linker, Message, Options};
//! # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/quickstart/");
//! # let saxpy = std::fs::read(format!("{folder}saxpy.cubin"))?;
//! let mut linker = Linker::new(Options::for_arch("sm_90")?);
//! linker.add_bytes("saxpy", InputKind::Cubin, &saxpy);
//! let error = linker.link().unwrap_err();
//! let undefined = |cause: &Cause| match cause {
//!     Cause::Link(message) => match &**message {
//!         Message::Undefined { symbol, .. } => symbol == "smooth",
//!         _ => false,
//!     },
//!     _ => false,
//! };
//! assert!(error.diagnostics.iter().filter_map(|line| line.cause.as_ref()).any(undefined));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Cancelling a link
//!
//! [`Linker::link`] blocks the calling thread until the link has ended: milliseconds for most
//! programs. [`Linker::link_with_cancel`] also ends when another thread cancels it: before the next
//! input, before the next phase of the link, or at once while it waits for ptxas, which is killed.
//! Nothing of such a link is left: it writes no files except those of ptxas, in a folder that is
//! removed; it holds no lock of the process, and gives its memory and threads back.
//!
//! ```
//! use culd::{Cancel, Linker, Options};
//!
//! let mut linker = Linker::new(Options::for_arch("sm_90")?);
//! linker.add_file(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/quickstart/smooth.cubin"));
//! let cancel = Cancel::new();
//! assert!(linker.link_with_cancel(&cancel).is_ok());
//! // On another thread, before or during the link:
//! cancel.cancel();
//! assert!(linker.link_with_cancel(&cancel).is_err_and(|error| error.is_cancelled()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Asynchronous programs call either method where blocking is allowed (`spawn_blocking` and the
//! like), and cancel when the waiting future is dropped.
//!
//! # Formats
//!
//! The crates below the linker are re-exported: [`cubin`] reads cubins, [`cubin::build`] makes
//! relocatable ones from parts, [`fatbin`] reads and writes fat binaries and finds them in objects
//! and archives, [`reloc`] has the relocation types as tables, [`abi`] the documented ABI,
//! [`report`] the reports of links.
//! `examples/pack.rs` links for several architectures at once and packs the images into one fat
//! binary; `examples/build.rs` makes an object as an assembler would and links it with a compiled
//! one. Each re-exported crate has its own version; a breaking change of it is one of this crate.
#![forbid(unsafe_code)]

#[cfg(feature = "command")]
mod device_link;
mod diagnostic;
mod linker;
mod options;
mod reported;

pub use culd_abi as abi;
pub use culd_cubin as cubin;
pub use culd_fatbin as fatbin;
pub use culd_reloc as reloc;
pub use culd_report as report;

pub use culd_cubin::arch::{ARCHS, Arch, UnknownArch};
pub use culd_driver::{Cause, Ignored, InputError, InputKind, LinkedInput, UsageError};
pub use culd_link::{Cancel, DIALECTS, Dialect, Message, Severity, UnknownRelease, demangle};
pub use culd_report::Report;

#[cfg(feature = "command")]
pub use crate::device_link::{DeviceLink, DeviceLinked};
pub use crate::diagnostic::{Diagnostic, LinkError};
pub use crate::linker::{Linked, Linker};
pub use crate::options::{Options, OptionsError};
