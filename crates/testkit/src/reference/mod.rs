//! NVIDIA's tools, what their outputs mean, and how culd's are compared with them.

pub mod compare;
pub mod oracle;
pub mod program;
pub mod readers;
