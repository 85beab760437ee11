// Pointers in constant memory.
__constant__ int primes[4] = {2, 3, 5, 7};
extern __constant__ int squares[4];
__device__ int cell;
__constant__ const int* second = &primes[1];
__constant__ int* var = &cell;
__device__ const int* into = squares + 2;
__global__ void k(int* out) { *out = second[threadIdx.x] + *into + *var; }
