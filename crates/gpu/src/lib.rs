//! Linked programs on the GPU that is there, compared with what they mean.
//!
//! In: a folder with linked images and a [`plan::GpuPlan`], which says how to launch their kernels
//! and what memory has to hold afterwards; a CUDA driver, found at run time. Out: a line for each
//! program and linker. Guaranteed: nothing but the driver is needed on the machine, no toolkit and
//! no Rust; the absence of a GPU is reported, and then nothing counts as passed.

pub mod check;
pub mod driver;
pub mod plan;
