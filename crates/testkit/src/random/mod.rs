//! Random inputs by seed: programs, edits of objects, damage and layouts; the reducer.

pub mod edit;
pub mod generate;
pub mod layouts;
pub mod mutate;
pub mod reduce;
