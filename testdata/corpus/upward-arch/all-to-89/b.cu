// sm_86.
__device__ float g(float x);
__device__ float f(float x) { return g(x) * 2.0f; }
