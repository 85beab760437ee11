// Two sizes.
#include "scan.h"
__global__ void ka(int* o) { o[threadIdx.x] = scan<64>(o[threadIdx.x]); }
__global__ void ka2(int* o) { o[threadIdx.x] = scan<128>(o[threadIdx.x]) + scan<64>(1); }
