// sm_80.
__device__ float f(float x);
__global__ void ka(float* o) { *o = f(*o); }
