//! Choices that do not depend on what else could have been chosen.
//!
//! In: a number and candidates with names. Out: one of them. Guaranteed: another candidate that
//! comes or goes changes the choice only when it is the one chosen (rendezvous hashing).

/// The candidate whose name hashes lowest with `seed`.
pub(super) fn pick<T>(seed: u64, candidates: impl IntoIterator<Item = (String, T)>) -> Option<T> {
    let hashed = candidates.into_iter().map(|(name, item)| ((hash(seed, &name), name), item));
    hashed.min_by(|a, b| a.0.cmp(&b.0)).map(|(_, item)| item)
}

/// FNV-1a, and a final mixing: similar names must not have similar numbers.
fn hash(seed: u64, name: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed;
    let hash = name
        .bytes()
        .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}
