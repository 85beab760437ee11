#include "../check.h"
__device__ int shared_name(int);
__device__ int state = 70;
static __global__ void kernel(int *out, int x) { *out = shared_name(x) + atomicAdd(&state, 1); }
int library_runs(int x) {
    int *out = room<int>(1);
    kernel<<<1, 1>>>(out, x);
    finish("library");
    return *out;
}
