// Recursion by templates, a table of functions, functions of the mathematical library, dynamic shared memory.
#include <thrust/execution_policy.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>

__device__ int counter;
__constant__ float weights[64] = {1, 2, 3};

template <int N>
__device__ __noinline__ float polynomial(float x) {
    return x * polynomial<N - 1>(x) + N;
}

template <>
__device__ __noinline__ float polynomial<0>(float x) {
    return x;
}

__device__ float scaled(float value, int index) { return polynomial<6>(value) * weights[index & 63]; }

struct Larger {
    __device__ bool operator()(float a, float b) const { return scaled(a, 1) > scaled(b, 2); }
};

__global__ void ordered(float *values, int count) {
    thrust::sort(thrust::seq, values, values + count, Larger());
    values[0] = thrust::reduce(thrust::seq, values, values + count);
}

using Function = float (*)(float);
__device__ float wave(float x) { return sinf(x) + powf(x, 1.7f); }
__device__ float tail(float x) { return erfcf(x) * lgammaf(x); }
__device__ Function table[2] = {wave, tail};

__global__ void chosen(float *values, int which) {
    extern __shared__ int dynamic[];
    dynamic[threadIdx.x] = which + counter;
    __syncthreads();
    values[0] = table[which & 1](values[1]) + dynamic[31 - threadIdx.x];
    ((double *)values)[1] = tgamma((double)values[2]) / cbrt((double)values[3]);
}
