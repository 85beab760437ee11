// Functions that need many registers.
__device__ float store[4096];
extern "C" __device__ void wide() {
    float a[40];
#pragma unroll
    for (int i = 0; i < 40; ++i) a[i] = ((volatile float*)store)[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 40; ++i) ((volatile float*)store)[i + 64] = a[39 - i];
}
extern "C" __device__ void wide2() {
    float a[50];
#pragma unroll
    for (int i = 0; i < 50; ++i) a[i] = ((volatile float*)store)[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 50; ++i) ((volatile float*)store)[i + 64] = a[49 - i];
}
