// The other half of the library.
__device__ int scaled(int x) { return 3 * x + 1; }
