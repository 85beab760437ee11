// Instances in file a.
#include "inst.h"
__global__ void ka(float* o) { *o = horner<3>(o) + horner<5>(o + 8); }
