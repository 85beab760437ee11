// Second user; other instances, another copy of the kernel.
#include "common.h"
template __global__ void fill<int>(int*, int);
template __global__ void fill<double>(double*, double);
__global__ void kb(int* o) { *o = sum<int, 3>(o) + sum<int, 9>(o) + next_id() + setting; }
