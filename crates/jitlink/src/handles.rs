//! Handles.
//!
//! In: a [`JitLink`], or a handle. Out: a handle, or its link. Guaranteed: a handle is a number
//! that is given once in the life of a process, never an address, so a destroyed or invented one is
//! recognized.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::link::JitLink;

/// A link and who works on it.
pub type SharedLink = Arc<Mutex<JitLink>>;

type Hasher = BuildHasherDefault<std::hash::DefaultHasher>;

/// The links of the process. The interface has one name space of handles for all threads, so there
/// is one table.
struct HandleTable {
    next: usize,
    links: HashMap<usize, SharedLink, Hasher>,
}

static TABLE: RwLock<HandleTable> =
    RwLock::new(HandleTable { next: 1, links: HashMap::with_hasher(BuildHasherDefault::new()) });

/// Handles are multiples of this, so that they do not look like small numbers or misaligned
/// addresses.
const STEP: usize = 16;

/// A new handle for `link`.
pub fn create(link: JitLink) -> NonZeroUsize {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let handle = table.next.saturating_mul(STEP);
    table.next += 1;
    table.links.insert(handle, Arc::new(Mutex::new(link)));
    NonZeroUsize::new(handle).unwrap_or(NonZeroUsize::MIN)
}

/// The link of a handle.
pub fn get(handle: usize) -> Option<SharedLink> {
    TABLE.read().unwrap_or_else(PoisonError::into_inner).links.get(&handle).cloned()
}

/// Destroys a handle; `None` if it is not one.
pub fn destroy(handle: usize) -> Option<SharedLink> {
    TABLE.write().unwrap_or_else(PoisonError::into_inner).links.remove(&handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_good_until_it_is_given_back() {
        let one = create(JitLink::new(&[])).get();
        let two = create(JitLink::new(&[])).get();
        assert_ne!(one, two);
        assert!(get(one).is_some() && destroy(one).is_some());
        assert!(get(one).is_none() && destroy(one).is_none());
        assert!(get(two).is_some() && get(0).is_none() && get(two + 1).is_none());
        destroy(two);
        assert_ne!(create(JitLink::new(&[])).get(), one);
    }
}
