// The data both copies read.
__device__ int ga[10] = {1};
