// A reference to a larger variable than the one of size1.cu.
extern __device__ int sized[8];
extern "C" __global__ void large(int *out) { out[0] = sized[out[1]]; }
