// The variable that size2.cu takes for a larger one.
__device__ int sized[4];
extern "C" __global__ void small(int *out) { out[0] = sized[out[1]]; }
