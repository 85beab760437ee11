// Compiled without.
__device__ int clampi(int x) { return x > 1000 ? 1000 : x; }
