// Uses them from another file.
extern __managed__ int counter;
__managed__ float factor;
__managed__ int* where;
__global__ void bump(int n) { counter += n; where = &counter; factor = n; }
