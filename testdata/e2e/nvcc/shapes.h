// What the files of this program share. Every file is compiled for itself with -rdc=true, so each of these names is
// resolved by the device linker.
#pragma once

struct Shape {
    __device__ virtual float area() const = 0;
};

typedef float (*Rule)(float);

extern __device__ Rule rules[2];        // rules.cu: functions by address
extern __constant__ float weights[4];   // rules.cu
__device__ float scaled(float value);   // scale.cu, in the library
__device__ float folded(const float *values, int count);  // fold.cu, in the library

void report(const char *what, int error);  // host code of rules.cu
