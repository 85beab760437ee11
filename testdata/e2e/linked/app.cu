// A program with device code of its own that uses the library: it is for another architecture, and linked on its own.
#include <cstdio>

__device__ int shifted(int);
void lib_run(int *);

__global__ void app_kernel(int *p) { p[0] = shifted(p[1]); }

int main() {
    app_kernel<<<1, 1>>>(nullptr);
    std::printf("program: %s\n", cudaGetErrorString(cudaGetLastError()));
    lib_run(nullptr);
    return 0;
}
