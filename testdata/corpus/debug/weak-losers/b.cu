// Instances in file b, one of them in common with a, one dead.
#include "inst.h"
__global__ void kb(float* o) { *o = horner<5>(o) + horner<7>(o + 8); }
__device__ float dead_user(float* o) { return horner<9>(o); }
