__device__ int shared_name(int x) { return 10 * x; }
