// The other file.
__constant__ int squares[4] = {1, 4, 9, 16};
extern __constant__ int* var;
__constant__ int** indirect = &var;
__global__ void kb(int* out) { *out = **indirect + squares[threadIdx.x]; }
