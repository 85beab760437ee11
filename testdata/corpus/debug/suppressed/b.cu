// Arrays that two kernels use and that none does, and dead code.
__shared__ int two[8];
__shared__ int none[5];
__device__ int dead(int x) { return two[x] + none[1]; }
__global__ void k1(int* p) { two[threadIdx.x] = *p; __syncthreads(); *p = two[1]; }
__global__ void k2(int* p) { two[threadIdx.x] = *p + 1; __syncthreads(); *p = two[2]; }
