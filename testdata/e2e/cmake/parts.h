// What the files share: device functions over file borders, host functions over library borders.
#pragma once

#ifdef __CUDACC__
__device__ float filtered(float value, int at);  // filter.cu
extern __constant__ float taps[8];               // taps.cu
__device__ int stage(int value);                 // stage.cu
__device__ int step(int value);                  // step.cu
#endif

int run_engine();  // engine.cu, in the shared library
int run_solver();  // solver.cu, in the static library with linked device code
