// Texture object in a kernel and a callee.
__device__ float sample(cudaTextureObject_t t, float x, float y);
__global__ void k(cudaTextureObject_t t, float* o) { o[threadIdx.x] = sample(t, threadIdx.x, 0.5f); }
