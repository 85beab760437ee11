// A function template that is not inlined.
#pragma once
template <int N> __device__ __noinline__ float horner(const float* c)
{
    float s = c[0];
    for (int i = 1; i < N; ++i) s = s * 0.5f + c[i];
    return s;
}
