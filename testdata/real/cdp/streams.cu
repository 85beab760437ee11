// The rest of the device runtime that a program may use: streams, events, copies, memory, attributes.
#include <cuda_runtime.h>

template <int Size>
__global__ void fill(int *out) {
    for (int i = threadIdx.x; i < Size; i += blockDim.x) out[i] = i;
}

__device__ int device_count() {
    int count = 0, device = 0;
    cudaGetDeviceCount(&count);
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&device, cudaDevAttrMultiProcessorCount, device);
    return count + device;
}

__global__ void streams(int *out, int size) {
    cudaStream_t stream;
    cudaEvent_t event;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    int *scratch = nullptr;
    if (cudaMalloc(&scratch, 4096 * sizeof(int)) != cudaSuccess) return;
    fill<4096><<<8, 128, 0, stream>>>(scratch);
    fill<64><<<1, 64, 256, stream>>>(scratch);
    cudaEventRecord(event, stream);
    cudaStreamWaitEvent(stream, event, 0);
    cudaMemcpyAsync(out, scratch, size, cudaMemcpyDeviceToDevice, stream);
    cudaMemsetAsync(scratch, 0, size, stream);
    out[0] = device_count();
    cudaStreamDestroy(stream);
    cudaEventDestroy(event);
    cudaFree(scratch);
}
