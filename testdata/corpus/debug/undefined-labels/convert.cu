// A conversion of cuda_fp8.h, of which nvcc -G describes a variable with a label that it does not define.
#include <cuda_fp8.h>
__global__ void convert(__nv_fp8_e4m3* to) { to[0] = __nv_fp8_e4m3(2.5f); }
