// Compiled with -lineinfo.
__device__ int clampi(int x);
__device__ int step(int x) { return clampi(x * 3 + 1); }
__device__ int dead(int x) { return clampi(x) - 1; }
