//! The C interface of libnvJitLink, made by culd.
//!
//! In: calls of `nvJitLink*`. Out: NVIDIA's result codes, logs and cubins, as observed with
//! libnvJitLink 13.0.88; docs/JITLINK.md lists deliberate differences and their reasons.
//! Guaranteed: no panic leaves a function; a stale handle, a null pointer or an unknown kind gives
//! a code; handles may be used from any thread, one call at a time each.
//!
//! [`abi`] is the interface and the only place with `unsafe`; [`handles`] turns handles into
//! [`link::JitLink`]s, which do the work; [`options`] reads options.
#![allow(non_snake_case, reason = "the names are NVIDIA's")]
#![deny(unsafe_code)]
#![warn(unsafe_op_in_unsafe_fn)]

pub mod abi;
pub mod handles;
mod home;
mod interface;
pub mod link;
mod lto;
pub mod options;
mod partial;
pub mod result;
