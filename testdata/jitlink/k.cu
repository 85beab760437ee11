// A kernel that needs the function of c.cu, for LTO.
__device__ int other(int x);
extern "C" __global__ void third(int *out) { out[0] = other(out[1]); }
