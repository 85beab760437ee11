// The member function and pointers to it.
struct Ring { int head, data[7]; __device__ int push(int v); };
__device__ Ring ring;
__device__ int Ring::push(int v) { data[head % 7] = v; return head++; }
__device__ int (Ring::*method)(int) = &Ring::push;
__device__ int Ring::*member = &Ring::head;
__global__ void kb(int* o) { *o = (ring.*method)(*o) + ring.*member; }
