// One-sided communication from a kernel.
#include <nvshmem.h>

__device__ int arrived(const int *from, int peer);  // barrier.cu

__global__ void exchange(int *to, const int *from, int peer) {
    nvshmem_int_put_nbi(to, from, 32, peer);
    nvshmem_quiet();
    nvshmem_int_get(to + 32, from, 32, peer);
    nvshmem_barrier_all();
    nvshmem_int_p(to, nvshmem_my_pe(), peer);
    to[1] = arrived(from, peer);
}
