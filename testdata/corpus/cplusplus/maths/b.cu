// sin with its payne-hanek table, exp, half.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__device__ double wave(double x) { return sin(x) * exp(-x * x) + 1.0 / x; }
__device__ __noinline__ __half half_path(__half a, __half b) { return hexp(__hfma(a, b, __float2half(0.5f))); }
__global__ void k2(__half* h, __nv_bfloat16* b) { h[0] = half_path(h[1], h[2]); b[0] = __float2bfloat16(__bfloat162float(b[1]) * 3.0f); }
__global__ void k3(float* f) { f[0] = sinf(f[1]) + f[2] / f[3] + rsqrtf(f[4]); }
