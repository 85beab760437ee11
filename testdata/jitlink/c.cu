// A function that needs nothing.
__device__ __noinline__ int other(int x) { return x * x + 1; }
