//! NVIDIA's tools, the meaning of their outputs, and the comparison with culd's.

pub mod compare;
pub mod mach;
pub mod oracle;
pub mod program;
pub mod readers;
