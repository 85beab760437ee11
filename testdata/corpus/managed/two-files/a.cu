// Defines managed variables and a kernel.
__managed__ int counter = 5;
__managed__ double samples[4];
extern __managed__ float factor;
__global__ void scale() { samples[threadIdx.x & 3] = counter * factor; }
