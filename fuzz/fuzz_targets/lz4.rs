//! In: any bytes. Out: a panic if body `lz4` of `tests/src/fuzz.rs` finds something.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| culd_fuzz::run("lz4", data));
