// Texture and surface objects that a function of another file reads and writes.
#include "../check.h"

__device__ float sample(cudaTextureObject_t, float, float);
__device__ void store(cudaSurfaceObject_t, int, int, float);

__global__ void fill(cudaSurfaceObject_t surface) { store(surface, threadIdx.x, threadIdx.y, threadIdx.x + 10.f * threadIdx.y); }

__global__ void look(cudaTextureObject_t texture, float *out) { out[threadIdx.x] = sample(texture, threadIdx.x + 1.f, 2.5f); }

int main() {
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    done("array", cudaMallocArray(&array, &format, 8, 8, cudaArraySurfaceLoadStore));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaSurfaceObject_t surface = 0;
    done("surface", cudaCreateSurfaceObject(&surface, &resource));
    cudaTextureDesc how = {};
    how.filterMode = cudaFilterModeLinear;
    how.readMode = cudaReadModeElementType;
    cudaTextureObject_t texture = 0;
    done("texture", cudaCreateTextureObject(&texture, &resource, &how, nullptr));
    fill<<<1, dim3(8, 8)>>>(surface);
    finish("fill");
    float *out = room<float>(4);
    look<<<1, 4>>>(texture, out);
    finish("look");
    // Between two columns and on row 2.
    for (int at = 0; at < 4; ++at) check("sample", out[at], at + 0.5f + 20.f);
    return wrong;
}
