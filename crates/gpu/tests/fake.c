/* A CUDA driver without a GPU, for the tests: memory is the host's, and a module's kernels are those below. The image says what
   goes wrong: its first byte is one of the letters of 'faults'. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
static int retained, pending;
static uint32_t variable[4];
struct module { char fault; };
static struct module loaded;

CUresult cuInit(unsigned flags) { return flags ? 1 : getenv("FAKE_NO_DEVICE") ? 100 : 0; }
CUresult cuDriverGetVersion(int *version) { *version = 13000; return 0; }
CUresult cuDeviceGetCount(int *count) { *count = 1; return 0; }
CUresult cuDeviceGet(int *device, int ordinal) { *device = 7; return ordinal ? 101 : 0; }
CUresult cuDeviceGetName(char *name, int length, int device) {
    if (device != 7 || length < 16) return 1;
    strcpy(name, "Fake GPU");
    return 0;
}
CUresult cuDeviceGetAttribute(int *value, int attribute, int device) {
    if (device != 7) return 101;
    if (attribute == 75) *value = 9;
    else if (attribute == 76) *value = 0;
    else return 1;
    return 0;
}
CUresult cuDevicePrimaryCtxRetain(void **context, int device) { *context = &retained; retained++; return device == 7 ? 0 : 101; }
CUresult cuDevicePrimaryCtxRelease_v2(int device) { retained--; return device == 7 ? 0 : 101; }
CUresult cuCtxSetCurrent(void *context) { return context == &retained ? 0 : 201; }
CUresult cuCtxSynchronize(void) { int code = pending; pending = 0; return code; }
CUresult cuModuleLoadData(void **module, const void *image) {
    loaded.fault = *(const char *)image;
    if (loaded.fault == 'L') return 200;
    *module = &loaded;
    return 0;
}
CUresult cuModuleUnload(void *module) { return module == &loaded ? 0 : 400; }
CUresult cuModuleGetFunction(void **function, void *module, const char *name) {
    if (module != &loaded || strcmp(name, "twice")) return 500;
    *function = variable;
    return 0;
}
CUresult cuModuleGetGlobal_v2(uint64_t *address, size_t *size, void *module, const char *name) {
    if (module != &loaded || strcmp(name, "v")) return 500;
    *address = (uintptr_t)variable;
    *size = sizeof variable;
    return 0;
}
CUresult cuMemAlloc_v2(uint64_t *address, size_t size) { *address = (uintptr_t)malloc(size); return *address ? 0 : 2; }
CUresult cuMemFree_v2(uint64_t address) { free((void *)(uintptr_t)address); return 0; }
CUresult cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) { memcpy((void *)(uintptr_t)to, from, size); return 0; }
CUresult cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { memcpy(to, (void *)(uintptr_t)from, size); return 0; }

/* twice(out, n): out[i] = 2 * i + n + v[0], and v[1] counts the threads. */
CUresult cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, void *stream, void **parameters, void **extra) {
    if (function != variable || gy != 1 || gz != 1 || by != 1 || bz != 1 || stream || extra || shared != 64) return 1;
    if (loaded.fault == 'C') { pending = 700; return 0; }
    if (loaded.fault == 'S') abort();
    uint32_t *out = *(uint32_t **)parameters[0], n = *(uint32_t *)parameters[1];
    for (unsigned i = 0; i < gx * bx; i++) out[i] = 2 * i + n + variable[0] + (loaded.fault == 'W' && i == 3);
    variable[1] = gx * bx;
    return 0;
}
CUresult cuGetErrorName(CUresult code, const char **name) {
    switch (code) {
    case 100: *name = "CUDA_ERROR_NO_DEVICE"; return 0;
    case 200: *name = "CUDA_ERROR_INVALID_IMAGE"; return 0;
    case 500: *name = "CUDA_ERROR_NOT_FOUND"; return 0;
    case 700: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return 0;
    default: return 1;
    }
}
