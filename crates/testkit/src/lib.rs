//! For development only: code that tests and project tasks share.
//!
//! A folder uses only the folders before it: [`fixtures`], [`random`], [`mod@reference`]; then
//! [`probe`], [`scale`] and [`tidy`].
#![forbid(unsafe_code)]

pub mod fixtures;
pub mod probe;
pub mod random;
pub mod reference;
pub mod scale;
pub mod tidy;
