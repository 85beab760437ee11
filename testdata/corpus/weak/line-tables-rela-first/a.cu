// The losing copy of slow(), and a template with static shared memory, for which ptxas writes a RELA record into the line table.
extern __device__ int ga[10];
template <class T> __device__ T rotate(T x) {
    __shared__ T all[64];
    all[threadIdx.x & 63] = x;
    __syncthreads();
    return all[(threadIdx.x + 1) & 63];
}
__device__ void use_rotate(int *p) { p[0] = rotate(p[7]); }
template <class T> __device__ __noinline__ T slow(T x, T *p) {
    double r[20];
    for (int i = 0; i < 20; i++) r[i] = p[i];
    for (int i = 0; i < 20; i++) p[i] = r[19 - i] * x + r[(i * 7) % 20];
    return x * p[3] + ga[5];
}
__global__ void ka(double *d) { d[0] = slow<double>(d[1], d); }
