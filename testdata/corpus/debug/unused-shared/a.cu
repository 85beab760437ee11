// Four arrays with 0, 0 (dead), 1 and 2 users.
__shared__ int nobody[4];
__shared__ int ghosts[8];
__shared__ int one[16];
__shared__ int two[2];
__device__ int dead(int x) { return ghosts[x]; }
__global__ void k1(int* o) { one[threadIdx.x] = *o; two[1] = 1; __syncthreads(); *o = one[1] + two[0]; }
__global__ void k2(int* o) { two[0] = *o; __syncthreads(); *o = two[1]; }
