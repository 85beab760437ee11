// Functions called by address: from tables, from memory, through the host, and virtual ones of another file.
#include "../check.h"
#include "shape.h"

__device__ int twice(int x) { return 2 * x; }
__device__ int thrice(int);
__device__ Function chosen = twice;
__constant__ Function both[2] = {twice, thrice};

__global__ void by_table(int *out) { out[threadIdx.x] = table[threadIdx.x](threadIdx.x + 10); }
__global__ void by_constant(int *out) { out[threadIdx.x] = both[threadIdx.x & 1](threadIdx.x); }
__global__ void by_argument(int *out, Function f) { *out = f(21) + chosen(1); }

__global__ void areas(double *out) {
    const Shape *shape = made(threadIdx.x);
    out[threadIdx.x] = shape->area();
    delete shape;
}

int main() {
    int *out = room<int>(4);
    by_table<<<1, 4>>>(out);
    finish("table");
    const int expected[4] = {11, 10, 144, 26};
    for (int at = 0; at < 4; ++at) check("table of another file", out[at], expected[at]);
    by_constant<<<1, 4>>>(out);
    finish("constant");
    for (int at = 0; at < 4; ++at) check("table in constants", out[at], at * (at & 1 ? 3 : 2));
    Function from_device;
    done("address", cudaMemcpyFromSymbol(&from_device, chosen, sizeof from_device));
    by_argument<<<1, 1>>>(out, from_device);
    finish("argument");
    check("an address through the host", *out, 44);
    double *area = room<double>(4);
    areas<<<1, 4>>>(area);
    finish("areas");
    check("a square", area[0], 4.0);
    check("a box", area[1], 12.0);
    check("a square", area[2], 16.0);
    check("a box", area[3], 16.0);
    return wrong;
}
