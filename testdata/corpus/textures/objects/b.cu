// The callee, and a surface kernel.
__device__ float sample(cudaTextureObject_t t, float x, float y) { return tex2D<float>(t, x, y); }
__global__ void fill(cudaSurfaceObject_t s) { surf2Dwrite(1.0f, s, threadIdx.x * 4, threadIdx.y); }
