// A library that carries its own device link: a kernel that calls a function of lib2.cu.
#include <cstdio>

__device__ int scaled(int);

__global__ void lib_kernel(int *p) { p[0] = scaled(p[1]); }

void lib_run(int *p) {
    lib_kernel<<<1, 1>>>(p);
    std::printf("library: %s\n", cudaGetErrorString(cudaGetLastError()));
}
