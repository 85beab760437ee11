// Deep call chains: the linker computes the stack of kernels, and recursion uses what the host sets. Also heap memory,
// printf and double arithmetic of functions in another file.
#include "../check.h"

__device__ long long fibonacci(int n);
__device__ double series(double x, int terms);
__device__ int *numbers(int count);
__device__ int frame(int seed);

__global__ void deep(long long *out, int n) { *out = fibonacci(n); }
__global__ void chain(int *out, int seed) { *out = frame(seed); }
__global__ void sum(double *out, double x) { *out = series(x, 40); }
__global__ void heap(int *out) {
    int *list = numbers(1000);
    for (int at = 0; at < 1000; ++at) *out += list[at];
    delete[] list;
    printf("from the device: %d\n", *out);
}

int main() {
    done("stack", cudaDeviceSetLimit(cudaLimitStackSize, 16384));
    long long *number = room<long long>(1);
    deep<<<1, 1>>>(number, 20);
    finish("deep");
    check("recursion", *number, 6765LL);
    int *out = room<int>(2);
    chain<<<1, 1>>>(out, 3);
    finish("chain");
    int expected = 0;
    for (int at = 0; at < 64; ++at) expected += 3 * at + at / 2;
    check("frames over four functions", out[0], expected);
    double *value = room<double>(1);
    sum<<<1, 1>>>(value, 0.5);
    finish("sum");
    check("doubles", *value > 1.6487212707 && *value < 1.6487212708, true);
    heap<<<1, 1>>>(out + 1);
    finish("heap");
    check("memory of the device's heap", out[1], 1000 * 999 / 2);
    return wrong;
}
