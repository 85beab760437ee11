// Compares what a GPU computed with what the host expects, one line for each question. The exit status of a program is
// the number of wrong answers.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

inline int wrong = 0;

template <typename T>
void check(const char *what, T found, T expected) {
    const bool right = found == expected;
    if (right) std::printf("%s: right\n", what);
    else std::printf("%s: %g instead of %g\n", what, double(found), double(expected));
    wrong += !right;
}

inline void done(const char *what, cudaError_t error) {
    if (error == cudaSuccess) return;
    std::printf("%s: %s\n", what, cudaGetErrorString(error));
    ++wrong;
}

// Memory that both sides see.
template <typename T>
T *room(int count) {
    T *memory = nullptr;
    done("cudaMallocManaged", cudaMallocManaged(&memory, count * sizeof(T)));
    if (!memory) std::exit(wrong);
    for (int at = 0; at < count; ++at) memory[at] = T();
    return memory;
}

inline void finish(const char *what) {
    done(what, cudaGetLastError());
    done(what, cudaDeviceSynchronize());
}
