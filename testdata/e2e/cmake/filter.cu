#include "parts.h"

__device__ float filtered(float value, int at) { return value * taps[at & 7]; }
