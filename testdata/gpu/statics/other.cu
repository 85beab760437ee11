// The same names again, with other values.
#include "../check.h"

static __constant__ int scale[2] = {17, 19};
static __device__ int count = -1000;

namespace {
__global__ void work(int *out, int x) { *out = scale[0] * x + scale[1] + atomicAdd(&count, 1); }
}

int other_file(int x) {
    int *out = room<int>(1);
    work<<<1, 1>>>(out, x);
    finish("other");
    return *out;
}
