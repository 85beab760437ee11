// Shared by the three files.
#pragma once
struct Shape { float w, h; };
__device__ inline __noinline__ float twice(float x) { return x + x; }
