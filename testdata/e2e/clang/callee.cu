__device__ int shared_counter = 3;
__device__ int f(int x) { return x * x + 1; }
