// Functions that are not inlined become parts of the kernels that call them.
__device__ __noinline__ int leaf(int x) { return x * clock(); }
__device__ __noinline__ int step(int x) { __shared__ int tile[32]; tile[x & 31] = x; __syncthreads(); return leaf(tile[(x + 1) & 31]); }
__global__ void first(int *o) { __shared__ int own[16]; own[threadIdx.x] = *o; __syncthreads(); *o = step(own[threadIdx.x + 1]); }
__global__ void second(int *o) { *o = step(o[1]) + leaf(o[2]); }
__global__ void third(int *o) { *o = 3; }
