// The kernels and the host program. Without a GPU it says what the runtime says; with one, it prints what the kernels
// computed. Either way it must say the same whichever device linker was used.
#include "shapes.h"
#include <cstdio>
#include <cuda_runtime.h>

namespace {

struct Square : Shape {
    float side;
    __device__ explicit Square(float side) : side(side) {}
    __device__ float area() const override { return scaled(side * side); }
};

struct Disc : Shape {
    float radius;
    __device__ explicit Disc(float radius) : radius(radius) {}
    __device__ float area() const override { return scaled(3.0f * radius * radius); }
};

__device__ float measure(const Shape &shape) { return shape.area(); }

}  // namespace

__device__ int launches;

__global__ void areas(float *out) {
    __shared__ float tile[64];
    const int i = threadIdx.x;
    const Square square(1.0f + i);
    const Disc disc(1.0f + i);
    tile[i] = measure(i % 2 ? static_cast<const Shape &>(square) : disc);
    __syncthreads();
    out[i] = rules[i % 2](tile[63 - i]) + weights[i % 4];
    atomicAdd(&launches, 1);
}

__global__ void total(const float *values, float *out) { *out = folded(values, 64); }

int main() {
    float *values = nullptr, *sum = nullptr, host = 0;
    int count = 0;
    cudaError_t error = cudaMallocManaged(&values, 64 * sizeof(float));
    if (error == cudaSuccess) error = cudaMallocManaged(&sum, sizeof(float));
    areas<<<1, 64>>>(values);
    total<<<1, 1>>>(values, sum);
    if (error == cudaSuccess) error = cudaDeviceSynchronize();
    if (error == cudaSuccess) error = cudaMemcpyFromSymbol(&count, launches, sizeof count);
    if (error == cudaSuccess) host = *sum;
    report("areas", error);
    std::printf("%d launches, total %.3f\n", count, host);
    return error != cudaSuccess;
}
