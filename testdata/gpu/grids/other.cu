__shared__ int cells[128];
extern __shared__ int behind[];

__device__ int reduced(int value) {
    cells[threadIdx.x] = value;
    __syncthreads();
    for (int half = 64; half; half /= 2) {
        if (threadIdx.x < half) cells[threadIdx.x] += cells[threadIdx.x + half];
        __syncthreads();
    }
    return cells[0];
}

__device__ int rotated(int value) { return __shfl_sync(~0u, value, (threadIdx.x + 1) % 32); }

__device__ int *dynamic() { return behind; }
