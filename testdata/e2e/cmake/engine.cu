#include "parts.h"
#include <cstdio>

static __global__ void smooth(float *values) {
    __shared__ float tile[32];
    tile[threadIdx.x] = values[threadIdx.x];
    __syncthreads();
    values[threadIdx.x] = filtered(tile[31 - threadIdx.x], threadIdx.x);
}

int run_engine() {
    float *values = nullptr;
    cudaError_t error = cudaMallocManaged(&values, 32 * sizeof(float));
    for (int i = 0; error == cudaSuccess && i < 32; ++i) values[i] = float(i);
    smooth<<<1, 32>>>(values);
    if (error == cudaSuccess) error = cudaDeviceSynchronize();
    std::printf("engine: %s, %.3f\n", cudaGetErrorString(error), values ? values[3] : 0.0f);
    return error;
}
