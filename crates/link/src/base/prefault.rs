//! Prefaulting: idle threads touch memory pages before they are needed.
//!
//! The system takes about as long to hand out a page as one thread takes to fill it. So while one
//! thread builds the draft, the others touch the pages that it fills next (docs/PERFORMANCE.md,
//! threads). Without it many1000 takes two threads 7 % longer.

use std::sync::atomic::Ordering;

use super::session::Session;

/// Bytes by which each thread of a pool grows its heap at the start.
pub(super) const PREFAULT_BLOCK: usize = 16 << 20;

/// Bytes of a page of memory.
const PAGE: usize = 4 << 10;

/// Memory that is allocated and not touched yet.
pub(crate) struct PrefaultRest(Vec<u8>);

/// Allocates a block of `bytes`, at most [`PREFAULT_BLOCK`], without touching it. Empty if the
/// system has no memory.
fn reserve_block(bytes: usize) -> Vec<u8> {
    let mut block = Vec::new();
    // Without the block the link is slower, not wrong.
    let _ = block.try_reserve_exact(bytes.min(PREFAULT_BLOCK));
    block
}

/// Touches all pages of `block` and frees it.
fn touch_pages(mut block: Vec<u8>) {
    block.spare_capacity_mut().chunks_mut(PAGE).for_each(|page| _ = page[0].write(1));
    drop(std::hint::black_box(block));
}

impl Session {
    /// Lets an idle thread touch `bytes` of memory for the work that the caller's thread does next
    /// alone. Does nothing if there are no threads, or if freed blocks leave the heap that they
    /// come from, or if other links keep the threads busy. What exceeds one block is left to
    /// [`Session::prefault_rest`].
    pub(crate) fn prefault(&self, bytes: usize) -> PrefaultRest {
        let (Some(pool), Some(_)) = (self.pool(bytes), self.grow) else {
            return PrefaultRest(Vec::new());
        };
        if self.crowded.load(Ordering::Relaxed) {
            return PrefaultRest(Vec::new());
        }
        let first = reserve_block(bytes);
        let rest = reserve_block(bytes.saturating_sub(PREFAULT_BLOCK));
        pool.spawn(move || touch_pages(first));
        PrefaultRest(rest)
    }

    /// Touches that rest while the caller's thread works, and then `bytes` that the threads of the
    /// pool need for their next work.
    pub(crate) fn prefault_rest(&self, PrefaultRest(rest): PrefaultRest, bytes: usize) {
        let (Some(pool), Some(_)) = (self.pool(bytes), self.grow) else { return };
        if self.crowded.load(Ordering::Relaxed) {
            return;
        }
        let share = bytes / pool.threads();
        pool.spawn(move || touch_pages(rest));
        pool.spawn_on_all(move || touch_pages(reserve_block(share)));
    }
}
