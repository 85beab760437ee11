static __device__ __noinline__ int total(const volatile int *values) {
    int sum = 0;
    for (int at = 0; at < 64; ++at) sum += values[at];
    return sum;
}

static __device__ __noinline__ int halves(volatile int *values) {
    volatile int more[64];
    for (int at = 0; at < 64; ++at) more[at] = values[at] + at / 2;
    return total(more);
}

__device__ int frame(int seed) {
    volatile int values[64];
    for (int at = 0; at < 64; ++at) values[at] = seed * at;
    return halves(values);
}
