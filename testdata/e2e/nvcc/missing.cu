// Needs what no file has: the link must fail.
__device__ int nowhere(int);

__global__ void needs(int *out) { *out = nowhere(*out); }
