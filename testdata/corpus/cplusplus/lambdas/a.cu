// Kernel templates over lambdas, launched by name so that they are instantiated.
template <class F> __global__ void each(int* p, F f) { p[threadIdx.x] = f(p[threadIdx.x]); }
__device__ int helper(int x);
void launch_a(int* p, int k) { each<<<1, 32>>>(p, [=] __device__(int x) { return helper(x) + k; }); each<<<1, 32>>>(p, [] __device__(int x) { return x * 2; }); }
