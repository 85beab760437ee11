//! Choices that do not depend on the other candidates.
//!
//! In: a number and candidates with names. Out: one of them. Guaranteed: a candidate that is added
//! or removed changes the choice only if it is the chosen one (rendezvous hashing).

/// The candidate whose name has the lowest hash with `seed`.
pub(super) fn pick<T>(seed: u64, candidates: impl IntoIterator<Item = (String, T)>) -> Option<T> {
    let hashed = candidates.into_iter().map(|(name, item)| ((hash(seed, &name), name), item));
    hashed.min_by(|a, b| a.0.cmp(&b.0)).map(|(_, item)| item)
}

/// FNV-1a with a final mixing, so that similar names have different hashes.
fn hash(seed: u64, name: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed;
    let hash = name
        .bytes()
        .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}
