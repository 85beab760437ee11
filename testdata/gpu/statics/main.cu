// Kernels, variables and constants of one name in two files, each local to its file.
#include "../check.h"

int other_file(int);

static __constant__ int scale[2] = {3, 5};
static __device__ int count = 100;

namespace {
__global__ void work(int *out, int x) { *out = scale[0] * x + scale[1] + atomicAdd(&count, 1); }
}

int main() {
    int *out = room<int>(1);
    work<<<1, 1>>>(out, 7);
    finish("first");
    check("constants and variables as initialised", *out, 3 * 7 + 5 + 100);
    const int values[2] = {11, 13};
    done("constants", cudaMemcpyToSymbol(scale, values, sizeof values));
    work<<<1, 1>>>(out, 2);
    finish("second");
    check("constants that the host wrote", *out, 11 * 2 + 13 + 101);
    int found = 0;
    done("variable", cudaMemcpyFromSymbol(&found, count, sizeof found));
    check("the variable of this file", found, 102);
    check("the kernel of the other file", other_file(4), 17 * 4 + 19 - 1000);
    cudaFuncAttributes attributes;
    done("attributes", cudaFuncGetAttributes(&attributes, work));
    check("room of this kernel in the constant bank", attributes.constSizeBytes > 0, true);
    return wrong;
}
