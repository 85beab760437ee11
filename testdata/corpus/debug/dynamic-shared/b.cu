// Uses the dynamic part under another name.
extern __shared__ float tail[];
__device__ int use(int x) { return tail[x] * 2; }
