// Shared memory of two kernels, of one, and of a function that nobody calls.
__global__ void k(int* p) { __shared__ int c[4]; c[threadIdx.x] = *p; __syncthreads(); *p = c[1]; }
__global__ void z(int* p) { __shared__ int a[10]; a[threadIdx.x] = *p; __syncthreads(); *p = a[3]; }
__device__ void f(int* p) { __shared__ int b[10]; b[threadIdx.x] = *p; __syncthreads(); *p = b[3]; }
