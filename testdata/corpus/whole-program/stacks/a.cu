// Kernels whose code has functions inside: with frames, and with recursion, of which only ptxas knows.
__device__ __noinline__ int leaf(int x) { volatile int a[20]; a[x&15]=x; return a[(x+1)&15]; }
__device__ __noinline__ int rec(int x) { return x < 3 ? x : rec(x-1) + leaf(x); }
__device__ __noinline__ int mid(int x) { volatile int a[8]; a[x&7]=x; return leaf(a[(x+1)&7]); }
__global__ void plain(int *p) { *p = 1; }
__global__ void one(int *p) { *p = leaf(*p); }
__global__ void two(int *p) { *p = mid(*p); }
__global__ void three(int *p) { *p = rec(*p); }
__global__ void four(int *p) { volatile int a[30]; a[*p&7]=p[1]; *p = mid(a[p[2]&7]); }
