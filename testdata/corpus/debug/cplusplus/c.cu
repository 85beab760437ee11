// Another kernel with shared memory.
#include "shape.h"
__global__ void widest(const Shape* shapes, float* out)
{
    __shared__ float best[32];
    best[threadIdx.x] = shapes[threadIdx.x].w;
    __syncthreads();
    for (int i = 16; i; i /= 2) { if (threadIdx.x < i) best[threadIdx.x] = fmaxf(best[threadIdx.x], best[threadIdx.x + i]); __syncthreads(); }
    if (!threadIdx.x) *out = twice(best[0]);
}
