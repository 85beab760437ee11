// A program of two files for Clang: a kernel that calls a function and reads a variable of the other.
#include <cstdio>

extern __device__ int f(int);
extern __device__ int shared_counter;
static __device__ int own[32];

__global__ void k(int *o) { own[threadIdx.x] = f(threadIdx.x); o[threadIdx.x] = own[31 - threadIdx.x] + shared_counter; }

int main() {
    int *place = nullptr;
    std::printf("malloc: %s\n", cudaGetErrorName(cudaMalloc(&place, 32 * sizeof(int))));
    k<<<1, 32>>>(place);
    std::printf("launch: %s\n", cudaGetErrorName(cudaGetLastError()));
    return 0;
}
