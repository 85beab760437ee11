#include "parts.h"
#include <cstdio>

static __global__ void solve(int *value) { *value = step(step(*value)); }

int run_solver() {
    int *value = nullptr;
    cudaError_t error = cudaMallocManaged(&value, sizeof(int));
    if (error == cudaSuccess) *value = 7;
    solve<<<1, 1>>>(value);
    if (error == cudaSuccess) error = cudaDeviceSynchronize();
    std::printf("solver: %s, %d\n", cudaGetErrorString(error), value ? *value : 0);
    return error;
}
