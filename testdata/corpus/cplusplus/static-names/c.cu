// Static kernel and local shared names.
static __device__ float state;
static __device__ __noinline__ float mix(float x) { __shared__ float state2[8]; state2[threadIdx.x & 7] = x; __syncthreads(); return state2[3] + state; }
__global__ void kc(float* o) { *o = mix(*o); state = *o; }
