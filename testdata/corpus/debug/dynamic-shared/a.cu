// Two kernels with different static shares and a common function.
extern __shared__ int rest[];
__shared__ int both[4];
__device__ int use(int x);
__global__ void small(int* o) { both[1] = *o; __syncthreads(); *o = use(1) + both[2]; }
__global__ void large(int* o) { __shared__ int own[40]; own[threadIdx.x] = *o; both[3] = 1; __syncthreads(); rest[2] = own[3]; *o = use(2) + both[0]; }
