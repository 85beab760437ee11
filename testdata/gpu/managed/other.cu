__managed__ int total = 40;
__managed__ double weights[4] = {1, 1, 1, 0.25};
__device__ void add(int x) { total += x; }
