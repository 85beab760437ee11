// Block-wide sorts, scans and sums of CUB, launched from here: shared memory in unions, long names, weak kernels.
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

extern __device__ int counter;
__device__ float scaled(float value, int index);

template <typename T, int Threads>
__global__ void sorted(T *values) {
    using Sort = cub::BlockRadixSort<T, Threads, 2>;
    using Scan = cub::BlockScan<T, Threads>;
    using Reduce = cub::BlockReduce<T, Threads>;
    __shared__ union {
        typename Sort::TempStorage sort;
        typename Scan::TempStorage scan;
        typename Reduce::TempStorage reduce;
    } memory;
    T own[2] = {values[2 * threadIdx.x], values[2 * threadIdx.x + 1]};
    Sort(memory.sort).Sort(own);
    __syncthreads();
    Scan(memory.scan).ExclusiveSum(own, own);
    __syncthreads();
    T sum = Reduce(memory.reduce).Sum(own);
    values[2 * threadIdx.x] = own[0] + sum;
    values[2 * threadIdx.x + 1] = (T)scaled((float)own[1], threadIdx.x);
    if (threadIdx.x == 0) {
        atomicAdd(&counter, 1);
    }
}

void sort_all(int *integers, double *numbers) {
    sorted<int, 128><<<1, 128>>>(integers);
    sorted<double, 64><<<1, 64>>>(numbers);
}
