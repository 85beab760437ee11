// Kernel with shuffles of its own.
__device__ unsigned vote(int x);
__global__ void k(unsigned* o) { unsigned v = o[threadIdx.x]; v += __shfl_xor_sync(0xffffffffu, v, 1); o[threadIdx.x] = vote(v) + v; }
__global__ void masked(unsigned* o, unsigned mask) { o[threadIdx.x] = __shfl_sync(mask, o[threadIdx.x], 3) + vote(2); }
