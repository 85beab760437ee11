// Double precision in a kernel and a function of the other file.
__device__ double wave(double x);
__global__ void k(double* o) { o[0] = wave(o[1]) / sqrt(o[2]) + pow(o[3], o[4]); }
__global__ void k1(double* o) { o[0] = wave(o[1]); }
