//! The heap of a process that links and ends.

/// Allocates memory on the heap of the calling thread and frees it at once, untouched.
///
/// The GNU C library lets the heap of a thread grow page by page, with a system call for each, and
/// the page faults of the other threads wait for it: 1700 calls for the tables of 1000 files. It
/// keeps freed memory up to twice the size of the largest block that was freed before (mallopt(3),
/// M_MMAP_THRESHOLD). So a thread's heap grows once if the process has freed a larger block than
/// the thread takes. This affects the whole process, so it is not for a library.
pub(crate) fn grow(bytes: usize) {
    let mut block: Vec<u8> = Vec::new();
    // Without it only time is lost.
    let _ = block.try_reserve_exact(bytes);
    drop(std::hint::black_box(block));
}
