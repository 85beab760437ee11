// A kernel with an array whose size the launch tells, which calls helpers of ptxas on sm_75: they have sections of shared memory, too.
extern __shared__ int dyn1[];
static __device__ int kept1[4];
__global__ void kernel1(int *p) {
  int x = p[threadIdx.x];
  dyn1[x] = 3;
  if (x > 3) {
    __syncwarp(x);
    x += __shfl_down_sync(x, x, 3);
  }
  p[0] = x + kept1[x & 3] + dyn1[x + 1];
}
