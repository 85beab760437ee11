// Synchronisation and atomics, in another file: all that the headers define is there twice.
#include <nvshmem.h>
#include <nvshmemx.h>

__device__ int arrived(const int *from, int peer) {
    nvshmem_barrier_all();
    return nvshmem_int_g(from, peer);
}

__global__ void signals(uint64_t *signal, int *counter, int peer) {
    nvshmemx_signal_op(signal, 1, NVSHMEM_SIGNAL_ADD, peer);
    nvshmem_signal_wait_until(signal, NVSHMEM_CMP_EQ, 1);
    *counter += nvshmem_int_atomic_fetch_add(counter, 1, peer);
    nvshmemx_barrier_all_block();
}
