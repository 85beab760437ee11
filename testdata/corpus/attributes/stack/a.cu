// Frames of different size behind direct and indirect calls.
__device__ int deep(int x);
__device__ int wide(int x);
extern __device__ int (*handlers[2])(int);
__global__ void direct(int* o) { int a[10]; for (int i = 0; i < 10; ++i) a[i] = o[i]; *o = deep(a[o[11] % 10]); }
__global__ void indirect(int* o) { *o = handlers[*o & 1](*o); }
__global__ void flat(int* o) { *o = 1; }
