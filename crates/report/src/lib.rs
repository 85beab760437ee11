//! Reports of links and of programs: the content of a file of device code, why it is there, and
//! its costs.
//!
//! In: the account of a link, or a finished program. Out: a [`Report`] as data, and its forms:
//! JSON, text, a page, a map. Guaranteed: no I/O; the same report for any number of threads and on
//! any machine, the times of its phases excepted; names are shown as text, whatever bytes they
//! have.
#![forbid(unsafe_code)]

mod category;
mod data;
mod diff;
#[cfg(feature = "serde")]
mod form;
mod graph;
#[cfg(feature = "serde")]
mod json;
#[cfg(feature = "serde")]
mod json_text;
mod link;
mod live;
mod map;
#[cfg(feature = "serde")]
mod page;
mod program;
#[cfg(feature = "serde")]
mod row_text;
mod shown;
mod text;

pub use crate::data::*;
pub use crate::diff::{BadThreshold, Change, Diff, Threshold};
pub use crate::graph::TooLarge;
#[cfg(feature = "serde")]
pub use crate::json::{BadReport, JsonPieces};
pub use crate::link::{LinkedCode, ReportedLink};
pub use crate::live::names;
pub use crate::program::{Detail, KernelRow};
pub use crate::shown::RowCounts;
