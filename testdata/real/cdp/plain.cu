// No use of the device runtime: alone, it needs nothing of the library.
__device__ __noinline__ int next(int value) { return value * 5 + 1; }

__global__ void plain(int *out) { *out = next(*out); }
