//! Inputs by seed: programs, edits of objects, damage, layouts; and their reduction.

pub mod edit;
pub mod generate;
pub mod layouts;
pub mod mutate;
pub mod reduce;
