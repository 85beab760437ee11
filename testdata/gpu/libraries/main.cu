// A program and a shared library that were linked on their own, and define the same device names.
#include "../check.h"

__device__ int shared_name(int);
int library_runs(int);

__device__ int state = 1;

__global__ void kernel(int *out, int x) { *out = shared_name(x) + atomicAdd(&state, 1); }

int main() {
    int *out = room<int>(1);
    kernel<<<1, 1>>>(out, 5);
    finish("program");
    check("the program's function", *out, 50 + 1);
    check("the library's function", library_runs(5), 500 + 70);
    kernel<<<1, 1>>>(out, 6);
    finish("again");
    check("the program's variable is its own", *out, 60 + 2);
    check("so is the library's", library_runs(6), 600 + 71);
    return wrong;
}
