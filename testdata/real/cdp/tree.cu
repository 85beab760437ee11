// Kernels that launch kernels: themselves, one of another file, and one by address.
#include <cuda_runtime.h>

__global__ void leaf(int *out, int at);  // leaf.cu
extern __device__ void (*chosen)(int *, int);

__global__ void tree(int *out, int depth) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (depth == 0) {
        leaf<<<1, 32, 0, cudaStreamFireAndForget>>>(out, at);
        return;
    }
    tree<<<2, 1, 0, cudaStreamTailLaunch>>>(out + at, depth - 1);
    if (cudaGetLastError() != cudaSuccess) out[at] = -1;
}

__global__ void by_address(int *out) {
    chosen<<<1, 1>>>(out, 0);
}
