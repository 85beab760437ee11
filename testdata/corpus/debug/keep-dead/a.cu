// One kernel with shared memory, one dead function.
__shared__ int pool[8];
__device__ int use(int x);
__device__ int dead_a(int x) { return use(x) + pool[x & 7]; }
__global__ void k(int* o) { __shared__ int own[16]; own[threadIdx.x & 15] = *o; pool[threadIdx.x & 7] = 1; __syncthreads(); *o = use(own[3]) + pool[2]; }
