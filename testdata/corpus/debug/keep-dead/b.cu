// A live and a dead function, and a second kernel.
extern __shared__ int dynamic_part[];
__device__ int use(int x) { return x * 7 + dynamic_part[x & 3]; }
__device__ int dead_b(int x) { return use(x) - 2; }
__global__ void k2(int* o) { dynamic_part[threadIdx.x] = 1; __syncthreads(); *o = use(1); }
