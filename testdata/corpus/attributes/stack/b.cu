// deep -> wide, and a table.
__device__ int wide(int x) { volatile int big[200]; big[x] = x; return big[x + 1]; }
__device__ __noinline__ int deep(int x) { volatile int a[50]; a[x] = wide(x); return a[x + 1]; }
__device__ int (*handlers[2])(int) = {deep, wide};
