// Kernels that launch kernels of another file: the module of libcudadevrt has to be linked and registered.
#include "../check.h"

__global__ void leaf(int *out, int value);
__device__ void start_leaf(int *out, int value);

__global__ void tree(int *out, int depth, int at) {
    if (depth == 0) {
        start_leaf(out + at, 100 + at);
        return;
    }
    tree<<<1, 1, 0, cudaStreamFireAndForget>>>(out, depth - 1, 2 * at);
    tree<<<1, 1, 0, cudaStreamFireAndForget>>>(out, depth - 1, 2 * at + 1);
}

__global__ void summary(const int *values, int *sum) {
    for (int at = 0; at < 16; ++at) *sum += values[at];
}

__global__ void root(int *out, int *sum) {
    tree<<<1, 1, 0, cudaStreamFireAndForget>>>(out, 4, 0);
    summary<<<1, 1, 0, cudaStreamTailLaunch>>>(out, sum);
}

int main() {
    int *out = room<int>(16), *sum = room<int>(1);
    root<<<1, 1>>>(out, sum);
    finish("root");
    check("leaves, summed after all of them", *sum, 16 * 100 + 15 * 16 / 2);
    leaf<<<1, 32>>>(out, 5);
    finish("leaf");
    check("the same kernel from the host", out[0], 5);
    return wrong;
}
