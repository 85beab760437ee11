// The other half of the program.
__device__ int shifted(int x) { return 5 * x + 1; }
