// A block scan with its own shared array.
#pragma once
template <int N> __device__ __noinline__ int scan(int v)
{
    __shared__ int cells[N];
    cells[threadIdx.x % N] = v;
    __syncthreads();
    for (int d = 1; d < N; d *= 2) {
        int t = threadIdx.x >= d ? cells[(threadIdx.x - d) % N] : 0;
        __syncthreads();
        cells[threadIdx.x % N] += t;
        __syncthreads();
    }
    return cells[threadIdx.x % N];
}
