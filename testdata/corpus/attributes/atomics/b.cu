// The functions.
#include <cuda_fp16.h>
__device__ void add_half(__half2* p, float v) { atomicAdd(p, __float2half2_rn(v)); }
__device__ int shared_sum(int x)
{
    __shared__ int total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    atomicAdd(&total, x);
    __syncthreads();
    return total;
}
