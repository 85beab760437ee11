// A kernel.
__global__ void k(int* o) { *o = 3; }
