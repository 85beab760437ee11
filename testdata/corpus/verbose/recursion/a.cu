// Kernels with frames of their own above recursion, and without.
__device__ __noinline__ int leaf(int x){ volatile int a[20]; a[x&15]=x; return a[3]; }
__device__ __noinline__ int rec(int x){ volatile int a[10]; a[x&7]=x; if(x<2) return 1; return rec(x-1)+rec(a[2]); }
__device__ __noinline__ int mid(int x){ volatile int a[5]; a[x&3]=x; return rec(x)+a[1]; }
__global__ void v1(int*p){ volatile int a[7]; a[*p]=3; *p=leaf(a[1])+rec(a[2]); }
__global__ void v2(int*p){ *p=leaf(*p)+rec(*p); }
__global__ void v3(int*p){ volatile int a[9]; a[*p]=3; *p=mid(*p)+leaf(a[2]); }
__global__ void v4(int*p){ volatile int a[9]; a[*p]=3; *p=leaf(a[2]); }
