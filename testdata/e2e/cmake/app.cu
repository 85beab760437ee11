#include "parts.h"
#include <cstdio>

static __global__ void advance(int *value) { *value = stage(*value) + int(filtered(4.0f, *value)); }

int main() {
    int *value = nullptr;
    cudaError_t error = cudaMallocManaged(&value, sizeof(int));
    if (error == cudaSuccess) *value = 5;
    advance<<<1, 1>>>(value);
    if (error == cudaSuccess) error = cudaDeviceSynchronize();
    std::printf("app: %s, %d\n", cudaGetErrorString(error), value ? *value : 0);
    return run_engine() || error;
}
