// Groups of threads over a whole grid and over a cluster, and shared memory of each kind that functions of another file
// use.
#include "../check.h"
#include <cooperative_groups.h>

namespace groups = cooperative_groups;

__device__ int reduced(int value);
__device__ int rotated(int value);
__device__ int *dynamic();

__global__ void whole(int *partial, int *out) {
    groups::grid_group grid = groups::this_grid();
    const int sum = reduced(int(grid.thread_rank()));
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
    grid.sync();
    if (grid.thread_rank() == 0)
        for (unsigned at = 0; at < gridDim.x; ++at) *out += partial[at];
}

// Clusters came with sm_90.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define OF_FOUR __cluster_dims__(4, 1, 1)
#else
#define OF_FOUR
#endif

__global__ void OF_FOUR cluster(int *out) {
#if __CUDA_ARCH__ >= 900
    __shared__ int cell;
    groups::cluster_group all = groups::this_cluster();
    if (threadIdx.x == 0) cell = 10 + int(all.block_rank());
    all.sync();
    const unsigned next = (all.block_rank() + 1) % all.num_blocks();
    if (threadIdx.x == 0) out[all.block_rank()] = *all.map_shared_rank(&cell, next);
    all.sync();
#endif
}

__global__ void extra(int *out) {
    dynamic()[threadIdx.x] = int(threadIdx.x) * 3;
    __syncthreads();
    out[threadIdx.x] = rotated(dynamic()[blockDim.x - 1 - threadIdx.x]);
}

int main() {
    int *partial = room<int>(8), *out = room<int>(256);
    void *arguments[] = {&partial, &out};
    done("cooperative", cudaLaunchCooperativeKernel((const void *)whole, dim3(8), dim3(128), arguments, 0, nullptr));
    finish("whole");
    check("a sum over the grid", *out, 1024 * 1023 / 2);
    int major = 0;
    done("capability", cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    if (major >= 9) {
        cluster<<<4, 32>>>(out);
        finish("cluster");
        for (int at = 0; at < 4; ++at) check("the neighbour in the cluster", out[at], 10 + (at + 1) % 4);
    }
    // More than a block has without asking.
    const int bytes = 60 * 1024;
    done("room", cudaFuncSetAttribute(extra, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    extra<<<1, 256, bytes>>>(out);
    finish("extra");
    int same = 0;
    for (int at = 0; at < 256; ++at) same += out[at] == 3 * (255 - (at / 32 * 32 + (at + 1) % 32));
    check("dynamic shared memory and shuffles", same, 256);
    return wrong;
}
