#include <cuda_runtime.h>
__global__ void leaf(int *out, int value) {
    if (threadIdx.x == 0) *out = value;
}
__device__ void start_leaf(int *out, int value) { leaf<<<1, 1, 0, cudaStreamFireAndForget>>>(out, value); }
