// The copy of slow() with fewer registers, which replaces the other.
extern __device__ int ga[10];
template <class T> __device__ __noinline__ T slow(T x, T *p) { return x * p[3] + ga[5]; }
__global__ void kb(double *d) { d[0] = slow<double>(d[1], d); }
