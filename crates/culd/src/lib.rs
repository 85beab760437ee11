//! A device linker for CUDA as a library: relocatable device code in, a cubin that the driver loads
//! out.
//!
//! [`Linker`] takes cubins, fat binaries, host objects, archives and PTX, from memory or from
//! files, and makes what `nvlink` would make of them. There is no global state: any number of links
//! may run at once, on any threads, and one that is abandoned leaves nothing behind.
//!
//! ```
//! use culd::{Kind, Linker, Options};
//!
//! let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/quickstart/");
//! let saxpy = std::fs::read(format!("{folder}saxpy.cubin"))?;
//!
//! let mut linker = Linker::new(Options::for_arch("sm_90")?);
//! linker.add_bytes("saxpy", Kind::Cubin, &saxpy);
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
//! What is wrong is told as values:
//!
//! ```
//! use culd::{Cause, Kind, Linker, Message, Options};
//! # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/quickstart/");
//! # let saxpy = std::fs::read(format!("{folder}saxpy.cubin"))?;
//! let mut linker = Linker::new(Options::for_arch("sm_90")?);
//! linker.add_bytes("saxpy", Kind::Cubin, &saxpy);
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
//! # Giving up on a link
//!
//! [`Linker::link`] holds the thread that calls it until the link has ended: milliseconds for most
//! programs. [`Linker::link_unless`] ends when another thread says so: before the next input,
//! before the next phase of the link, and at once where it waits for ptxas, which is killed. What a
//! link has begun is then gone: it writes no files but those of ptxas, in a folder of its own that
//! is removed, holds no lock of the process, and gives its memory and threads back.
//!
//! ```
//! use culd::{Cancel, Linker, Options};
//!
//! let mut linker = Linker::new(Options::for_arch("sm_90")?);
//! linker.add_file(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/quickstart/smooth.cubin"));
//! let cancel = Cancel::new();
//! assert!(linker.link_unless(&cancel).is_ok());
//! // Elsewhere, while it runs or before:
//! cancel.cancel();
//! assert!(linker.link_unless(&cancel).is_err_and(|error| error.is_cancelled()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Asynchronous programs call either where blocking is allowed (`spawn_blocking` and the like), and
//! cancel when the future that waits for it is dropped.
//!
//! # Parts
//!
//! The parts it is made of are here too: [`cubin`] reads cubins, [`cubin::build`] makes relocatable
//! ones of parts, [`fatbin`] reads and writes fat binaries and finds them in objects and archives,
//! [`reloc`] has the relocation types as tables. `examples/pack.rs` puts them together: it links
//! for several architectures at once and packs the images into one fat binary. `examples/build.rs`
//! makes an object as an assembler would and links it with a compiled one.
#![forbid(unsafe_code)]

mod diagnostic;
mod linker;
mod options;
mod reported;

/// The documented ABI: layouts, parameters, prototypes; a reader of PTX declarations and a check of
/// interfaces.
pub use culd_abi as abi;
/// The cubin format: a reader, and what is needed to write one.
pub use culd_cubin as cubin;
/// Fat binaries, host objects and archives: readers, and a writer of fat binaries.
pub use culd_fatbin as fatbin;
/// Relocation types as tables, and the patcher.
pub use culd_reloc as reloc;
/// Reports: what a link or a program holds, as data.
pub use culd_report as report;

pub use culd_cubin::arch::{ARCHS, Arch};
pub use culd_driver::{Cause, InputError, InputKind as Kind, Part, UsageError};
pub use culd_link::{Cancel, DIALECTS, Dialect, Message, Severity, UnknownRelease, demangle};

pub use crate::diagnostic::{Diagnostic, LinkError};
pub use crate::linker::{Linked, Linker};
pub use crate::options::{Options, OptionsError, UnknownArch};
pub use culd_report::Report;
