// Two kernels that need a function of b.cu: parameters of three sizes, shared and constant memory, a variable.
__device__ int table[5];
__constant__ int constants[4];
extern __device__ int helper(int, float *);
__device__ __noinline__ int unused(int x) { return x * 37 + table[x & 3]; }
struct Parameters { int count; double scale; char tag[3]; };
extern "C" __global__ void first(int *out, Parameters given, char at) {
  __shared__ float part[64];
  part[threadIdx.x] = given.scale;
  __syncthreads();
  out[0] = helper(given.count + constants[1], part) + table[at];
}
extern "C" __global__ void second(int *out) { out[1] = table[2]; }
