// A ring buffer in global and one in constant memory.
struct Ring { int head, data[7]; __device__ int push(int v); };
extern __device__ Ring ring;
__constant__ Ring fixed = {3, {1, 2, 3, 4, 5, 6, 7}};
__global__ void k(int* o) { *o = ring.push(*o) + fixed.data[*o & 3]; }
