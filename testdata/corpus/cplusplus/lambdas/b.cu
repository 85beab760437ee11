// The helper and a lambda of the same shape.
template <class F> __global__ void each(int* p, F f) { p[threadIdx.x] = f(p[threadIdx.x]); }
__device__ int helper(int x) { auto g = [](int y) { return y * y; }; return g(x) + 1; }
void launch_b(int* p, int k) { each<<<1, 32>>>(p, [=] __device__(int x) { return helper(x) - k; }); }
