#include "parts.h"

__device__ int step(int value) { return 3 * value + 1; }
