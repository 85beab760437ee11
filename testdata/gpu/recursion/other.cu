__device__ long long fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

__device__ double series(double x, int terms) {
    double sum = 0, term = 1;
    for (int n = 1; n <= terms; ++n) {
        sum += term;
        term *= x / n;
    }
    return sum + log(exp(0.0)) + pow(0.0, x);
}

__device__ int *numbers(int count) {
    int *list = new int[count];
    for (int at = 0; at < count; ++at) list[at] = at;
    return list;
}
