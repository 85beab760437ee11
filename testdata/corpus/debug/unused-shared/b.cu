// An unused array and an unused dynamic one.
extern __shared__ char unused_dynamic[];
__shared__ double unused_b[3];
__device__ int dead_b(int x) { return unused_dynamic[x]; }
__global__ void k3(int* o) { *o = 1; }
