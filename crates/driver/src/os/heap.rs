//! The heap of a process that links and ends.

/// Takes memory from the heap of the calling thread and gives it back at once, untouched.
///
/// The GNU C library lets the memory of a thread grow page by page, with a system call for each,
/// for which the page faults of the other threads have to wait: 1700 of them for the tables of 1000
/// files. It keeps what is given back to it up to twice the largest block that was given back
/// before (mallopt(3), M_MMAP_THRESHOLD), so a thread grows once where the process has given back a
/// larger block than it takes. That is for the whole process: not for a library.
pub(crate) fn grow(bytes: usize) {
    let mut block: Vec<u8> = Vec::new();
    // Without it only time is lost.
    let _ = block.try_reserve_exact(bytes);
    drop(std::hint::black_box(block));
}
