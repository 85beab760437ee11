// One size in common.
#include "scan.h"
__global__ void kb(int* o) { extern __shared__ int rest[]; rest[threadIdx.x] = 3; o[threadIdx.x] = scan<64>(rest[o[0]]); }
