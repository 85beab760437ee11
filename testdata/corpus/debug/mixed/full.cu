// Compiled with -G.
__device__ int step(int x);
__global__ void k(int* o) { int v = o[threadIdx.x]; for (int i = 0; i < 4; ++i) v = step(v); o[threadIdx.x] = v; }
