// The losing copy of slow(), in a file without RELA records for the line tables.
extern __device__ int ga[10];
template <class T> __device__ __noinline__ T slow(T x, T *p) {
    double r[20];
    for (int i = 0; i < 20; i++) r[i] = p[i];
    for (int i = 0; i < 20; i++) p[i] = r[19 - i] * x + r[(i * 7) % 20];
    return x * p[3] + ga[5];
}
__global__ void ka(double *d) { d[0] = slow<double>(d[1], d); }
