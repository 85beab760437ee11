//! Types that every phase uses and that know no phase: ids, names, graphs, threads, the two halves
//! of a file.
//!
//! In: values of the standard library and of the formats. Out: types that every phase uses.
//! Guaranteed: nothing here imports from another folder.

pub(crate) mod cancel;
pub(crate) mod derived_names;
pub(crate) mod graph;
pub(crate) mod half;
pub(crate) mod id;
pub(crate) mod name_list;
pub(crate) mod names;
pub(crate) mod paths;
mod pool;
mod prefault;
pub(crate) mod session;
pub(crate) mod sort;
pub(crate) mod system_names;
