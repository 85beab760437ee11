// Kernels that use them directly and through a function.
#include <cuda_fp16.h>
__device__ void add_half(__half2* p, float v);
__device__ int shared_sum(int x);
__global__ void direct(int* p) { atomicAdd_system(p, 1); atomicExch(p + 1, shared_sum(*p)); }
__global__ void through(__half2* p) { add_half(p, 1.5f); }
