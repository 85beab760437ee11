//! Development only: generated programs, the reference tools, comparison, reduction, benchmark
//! inputs.
#![forbid(unsafe_code)]

pub mod asm;
pub mod case;
pub mod compare;
pub mod edit;
pub mod generate;
pub mod layouts;
pub mod many;
pub mod mutate;
pub mod names;
pub mod oracle;
pub mod pack;
pub mod probe;
pub mod program;
pub mod readers;
pub mod rebuild;
pub mod recipe;
pub mod reduce;
pub mod scale;
pub mod uidx;
