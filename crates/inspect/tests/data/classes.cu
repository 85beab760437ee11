// One variable of each address class that nvcc writes.
__shared__ int sh[4];
__constant__ int cc[4];
__device__ int gg;
__device__ __noinline__ int f(int x, float *p) {
  int local[4];
  local[x & 3] = x;
  __shared__ float inner;
  inner = x;
  __syncthreads();
  p[0] = inner;
  return local[(x + 1) & 3] + sh[x] + cc[x] + gg;
}
__global__ void k(int *out, int n) {
  int q = f(n, (float *)out);
  *out = q;
}
