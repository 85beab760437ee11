// A member of the library that main.cu and rules.cu use.
#include "shapes.h"

static __device__ float factor = 2.0f;

__device__ float scaled(float value) { return factor * value; }
