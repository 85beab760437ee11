// Keeps many values alive.
__device__ float heavy(const float* p, int n)
{
    float a[24], s = 0;
#pragma unroll
    for (int i = 0; i < 24; ++i) a[i] = p[i * n];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 24; ++i) s = s * p[i] + a[i] * a[23 - i];
    return s;
}
